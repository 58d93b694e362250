//! Fuzzing in the ordinary suite: samples are changed at random until a time is over, and each result is tried.
//!
//! A target takes [`SECONDS`] of `cargo test`, with the same inputs each time. `SAVEMARK_FUZZ_SECONDS=600` tries for longer,
//! from a new seed, which is printed; `SAVEMARK_FUZZ_SEED` repeats one. What makes a target panic is left in a file, whose name
//! is in the message; what ends the whole process is the `.last` file of its target.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Seconds of a target in `cargo test`.
pub const SECONDS: f64 = 2.0;

/// Tries `check` on inputs that `make` derives from chance, until the time is over.
///
/// `make` returns an input as it would come from outside; structure-aware targets repair checksums there. `check` panics
/// where something is wrong.
pub fn fuzz(target: &str, mut make: impl FnMut(&mut Chance) -> Vec<u8>, mut check: impl FnMut(&[u8])) {
    let long = std::env::var("SAVEMARK_FUZZ_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let seed = std::env::var("SAVEMARK_FUZZ_SEED").ok().map(|text| text.parse().expect("a number"));
    let seed = seed.unwrap_or_else(|| if long.is_some() { now() } else { 1 });
    let folder = folder();
    let last = folder.join(format!("fuzz-{target}.last"));
    let (start, limit) = (Instant::now(), Duration::from_secs_f64(long.unwrap_or(SECONDS)));
    let mut tried = 0u64;
    while start.elapsed() < limit {
        let input = make(&mut Chance::new(seed.wrapping_add(tried)));
        if long.is_some() {
            fs::write(&last, &input).unwrap();
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&input))) {
            let kept = folder.join(format!("fuzz-{target}-{}", seed.wrapping_add(tried)));
            fs::write(&kept, &input).unwrap();
            eprintln!("{target}: input {tried} of seed {seed} is in {}", kept.display());
            resume_unwind(panic);
        }
        tried += 1;
    }
    let _ = fs::remove_file(&last);
    eprintln!("{target}: {tried} inputs of seed {seed} in {:.0} s", start.elapsed().as_secs_f64());
}

/// The build folder's place for files of tests.
fn folder() -> PathBuf {
    let built = std::env::current_exe().unwrap();
    built.parent().and_then(Path::parent).unwrap().to_path_buf()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Random choices that follow from a seed (SplitMix64).
pub struct Chance(u64);

/// Where parsers that trust a number go wrong.
const NUMBERS: [u64; 20] = [
    0,
    1,
    2,
    7,
    255,
    256,
    4095,
    4096,
    4097,
    65535,
    65536,
    1 << 20,
    1 << 30,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 45,
    1 << 63,
    u64::MAX,
];
/// What may stand in a text where nothing should.
const TEXTS: [&str; 16] = [
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    "\0",
    "\n",
    "\u{1b}[2J",
    "\"",
    "<",
    "&amp;",
    "]]>",
    "é",
    "-1",
    "1e400",
];

impl Chance {
    /// The same choices each time.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, or 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.any() % end as u64) as usize }
    }

    /// One of them.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A number as attackers like them: at an edge, or next to `near`.
    pub fn number(&mut self, near: u64) -> u64 {
        match self.below(4) {
            0 => near.wrapping_add(self.below(3) as u64).wrapping_sub(1),
            1 => self.one(&NUMBERS).wrapping_sub(near),
            2 => self.any() >> self.below(64),
            _ => *self.one(&NUMBERS),
        }
    }

    /// One of `samples` after a few changes to its bytes.
    pub fn bytes(&mut self, samples: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.one(samples).clone();
        for _ in 0..=self.below(5) {
            self.change(&mut bytes, samples);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, samples: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        let end = (at + 1 + self.below(64)).min(bytes.len());
        match self.below(9) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.any() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at.min(end)..end)),
            4 => {
                let twice = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, twice);
            }
            5 => {
                let text = self.one(&TEXTS).as_bytes().to_vec();
                bytes.splice(at..at, text);
            }
            6 => self.integer(bytes, at),
            7 => self.digits(bytes, at),
            _ => {
                let other = self.one(samples);
                let from = self.below(other.len());
                let part = other[from..(from + 1 + self.below(200)).min(other.len())].to_vec();
                let end = (at + part.len()).min(bytes.len());
                bytes.splice(at..end, part);
            }
        }
    }

    /// Puts a binary number of 1, 2, 4 or 8 bytes there.
    fn integer(&mut self, bytes: &mut [u8], at: usize) {
        let width = *self.one(&[1, 2, 4, 8]);
        let Some(place) = bytes.get_mut(at..at + width) else { return };
        let mut old = [0; 8];
        old[..width].copy_from_slice(place);
        let new = self.number(u64::from_le_bytes(old));
        match self.below(2) {
            0 => place.copy_from_slice(&new.to_le_bytes()[..width]),
            _ => place.copy_from_slice(&new.to_be_bytes()[8 - width..]),
        }
    }

    /// Puts another number in the place of the next digits.
    fn digits(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|skip| at + skip) else { return };
        let len = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let near = std::str::from_utf8(&bytes[start..start + len]).ok().and_then(|text| text.parse().ok());
        let new = match self.below(8) {
            0 => "9".repeat(400),
            _ => self.number(near.unwrap_or(0)).to_string(),
        };
        bytes.splice(start..start + len, new.into_bytes());
    }

    /// Changes one value somewhere in `tree`: numbers to others, texts to worse ones; items go, come twice or change places.
    pub fn json(&mut self, tree: &mut Value) {
        match tree {
            Value::Array(items) if !items.is_empty() && self.below(6) > 0 => {
                let at = self.below(items.len());
                self.json(&mut items[at]);
            }
            Value::Array(items) if !items.is_empty() => {
                let (at, other) = (self.below(items.len()), self.below(items.len()));
                match self.below(4) {
                    0 => drop(items.remove(at)),
                    1 => items.insert(at, items[other].clone()),
                    2 => items.swap(at, other),
                    _ => items.clear(),
                }
            }
            Value::Object(fields) if !fields.is_empty() => {
                let key = fields.keys().nth(self.below(fields.len())).expect("below its length").clone();
                match self.below(12) {
                    0 => drop(fields.remove(&key)),
                    1 => drop(fields.insert(format!("{key}x"), Value::Null)),
                    _ => self.json(fields.get_mut(&key).expect("one of its keys")),
                }
            }
            Value::Number(number) => *tree = self.number(number.as_u64().unwrap_or(0)).into(),
            Value::String(text) => *tree = self.text(text).into(),
            _ => {
                *tree = [Value::Null, true.into(), "".into(), 0.into(), Value::Array(Vec::new())][self.below(5)].clone()
            }
        }
    }

    fn text(&mut self, near: &str) -> String {
        match self.below(6) {
            0 => format!("{near}{}", self.one(&TEXTS)),
            1 => format!("{}{near}", self.one(&TEXTS)),
            2 => near.repeat(1 + self.below(300)),
            3 => near.chars().rev().collect(),
            4 => format!("{:016x}", self.any()),
            _ => self.one(&TEXTS).to_string(),
        }
    }
}
