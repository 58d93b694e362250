//! A program to save: started, filled with bytes that can be told again, asked before and after.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::folder::Folder;
use super::tree::{self, Tree};
use savemark_base::error::{Error, Result};
use savemark_base::payload::{self, PayloadKind};
use savemark_measure::control::Control;

const SCRIPT: &str = include_str!("program.py");
/// How long an answer may take: under load, over a memory of many gigabytes.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Which program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One Python process that holds all of the bytes.
    #[default]
    Memory,
    /// The same with four threads.
    Threads,
    /// Four processes, three of them children, with pipes between them.
    Tree,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Threads => "threads",
            Self::Tree => "tree",
        }
    }

    fn parts(self) -> u64 {
        if self == Self::Memory { 1 } else { 4 }
    }
}

/// A program of ours that runs, or that has run and will again.
pub struct Program {
    kind: Kind,
    folder: Folder,
    started: Option<Child>,
    /// Its number.
    pub pid: i32,
    /// Of each part.
    sums: Vec<u32>,
    asked: u64,
    /// How far each part had counted when it was last asked.
    counts: Vec<u64>,
}

impl Program {
    /// Starts it and fills it with `bytes` of a payload; returns when it answers.
    ///
    /// # Errors
    /// `Refused` without Python; `Failed` if it does not get ready.
    pub fn start(kind: Kind, payload: PayloadKind, seed: u64, bytes: u64, control: &Control) -> Result<Self> {
        let folder = Folder::new()?;
        let mut command = Command::new("python3");
        command.args(["-I", "-S", "-c", SCRIPT, kind.name()]).arg(folder.path()).arg(bytes.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // CRIU saves whole sessions: ours is that of a terminal.
        // SAFETY: setsid may be called between fork and exec.
        unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
        let mut child = command.spawn().map_err(|e| {
            Error { source: Some(e), ..Error::refused("cannot start python3, the program of the workload") }
                .hint("install Python, or name a program of your own with --cmd")
        })?;
        let (pid, input) = (child.id() as i32, child.stdin.take());
        let mut program =
            Self { kind, folder, started: Some(child), pid, sums: Vec::new(), asked: 0, counts: Vec::new() };
        program.sums = program.fill(input.expect("it is piped"), payload, seed, bytes, control)?;
        program.check(control, "ping")?;
        Ok(program)
    }

    /// Gives it its bytes; returns the CRC-32 of each part.
    fn fill(
        &self,
        mut input: impl Write,
        payload: PayloadKind,
        seed: u64,
        bytes: u64,
        control: &Control,
    ) -> Result<Vec<u32>> {
        let mut block = vec![0; 1 << 20];
        let parts = self.kind.parts();
        let mut sums = Vec::new();
        for part in 0..parts {
            let (mut at, end) = (bytes * part / parts, bytes * (part + 1) / parts);
            let mut sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
            while at < end {
                control.check()?;
                let len = (end - at).min(block.len() as u64 - at % block.len() as u64) as usize;
                payload::fill(payload, seed, at, &mut block[..len]);
                sum.update(&block[..len]);
                input.write_all(&block[..len]).map_err(|e| Error {
                    source: Some(e),
                    ..Error::failed("the program of the workload ended before it was ready")
                })?;
                at += len as u64;
            }
            sums.push(sum.finalize() as u32);
        }
        Ok(sums)
    }

    /// Asks it; returns when it has answered with the bytes that it was given, and has counted on.
    ///
    /// # Errors
    /// `Corrupt` if its memory is not what it was given; `Failed` if it does not answer.
    pub fn check(&mut self, control: &Control, word: &str) -> Result<()> {
        self.asked += 1;
        let lines = self.ask(control, word)?;
        let numbers = |line: &String| Some(line.split_once(' ').map(|(a, b)| (a.parse(), b.parse::<u32>())));
        let mut counts = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let Some(Some((Ok(count), Ok(sum)))) = numbers(line) else {
                return Err(Error::corrupt(format!("the program answers `{line}`")));
            };
            if word == "sum" && sum != self.sums[index] {
                return Err(Error::corrupt(format!("part {index} of the program's memory is not what it was given")));
            }
            if self.counts.get(index).is_some_and(|before| count <= *before) {
                return Err(Error::corrupt(format!(
                    "part {index} of the program does not go on: it counted to {count}"
                )));
            }
            counts.push(count);
        }
        if counts.len() as u64 != self.kind.parts() {
            return Err(Error::corrupt(format!(
                "{} of {} parts of the program answer",
                counts.len(),
                self.kind.parts()
            )));
        }
        self.counts = counts;
        Ok(())
    }

    fn ask(&self, control: &Control, word: &str) -> Result<Vec<String>> {
        let at = |name: &str| self.folder.path().join(name);
        let wrong = |e| Error::io("ask through", self.folder.path(), e);
        fs::write(at("ask.new"), format!("{word} {}", self.asked)).map_err(wrong)?;
        fs::rename(at("ask.new"), at("ask")).map_err(wrong)?;
        let start = Instant::now();
        loop {
            let text = fs::read_to_string(at("answer")).unwrap_or_default();
            let mut lines = text.lines().map(str::to_string);
            if lines.next().is_some_and(|first| first == self.asked.to_string()) {
                return Ok(lines.collect());
            }
            control.check()?;
            if !self.is_alive() {
                return Err(Error::failed(format!("the program ended without an answer (process {})", self.pid)));
            }
            if start.elapsed() > STALL_TIMEOUT {
                return Err(Error::failed(format!("the program did not answer for {} s", STALL_TIMEOUT.as_secs())));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    /// An older checkpoint of it was restored: it may count from there.
    pub fn forget(&mut self) {
        self.counts.clear();
    }

    /// Whether its process is there.
    pub fn is_alive(&self) -> bool {
        tree::state(self.pid).is_some_and(|state| state != 'Z')
    }

    /// How far its file says that it has counted: it moves while the program runs.
    pub fn counter(&self) -> String {
        fs::read_to_string(self.folder.path().join("counter")).unwrap_or_default()
    }

    /// Where it keeps its files.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }
}

/// It ends with whoever started it.
impl Drop for Program {
    fn drop(&mut self) {
        let tree = Tree::restored(self.pid, Vec::new());
        let all = tree.pids();
        // Of that number there may be another one by now.
        if all.first().is_some_and(|pid| tree::name(*pid).contains(&*self.folder.path().to_string_lossy())) {
            let _ = tree.kill();
        }
        if let Some(mut child) = self.started.take() {
            let _ = child.try_wait();
        }
    }
}
