//! Sizes and durations as people write them: `4k` = `4KiB` = 4096, `64MB` = 64,000,000, `5s`, `200ms`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A number of bytes. Reads `4096`, `4k`, `4KiB`, `64MB`; writes the plain number.
///
/// A letter alone and `KiB`, `MiB` … are powers of 1024, in any case of their letters. `kB`, `MB` … are powers of 1000; their
/// `B` is a capital one, as `b` is a bit elsewhere. `units.py` says the same for figures that never reach the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Size(pub u64);

/// Letters in the order of their powers, the first one's being 1; of a thousand the SI writes a small `k`.
const LETTERS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim_start();
        let wrong = || format!("`{text}` is not a size; write 4096, 4k or 4KiB");
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // In whole numbers: 1.001 × 1000 is not 1001 in binary fractions.
        let value: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
        let scale = u32::try_from(fraction.len()).ok().and_then(|n| 10u128.checked_pow(n)).ok_or_else(wrong)?;
        let each = bytes_of(unit).ok_or_else(|| {
            format!("`{text}` has an unknown unit `{unit}`; write 4k or 4KiB for 4 x 1024 bytes, 4kB for 4 x 1000")
        })?;
        let bytes = value.checked_mul(u128::from(each)).filter(|bytes| bytes % scale == 0).map(|bytes| bytes / scale);
        let fits = bytes.and_then(|bytes| u64::try_from(bytes).ok());
        fits.map(Self).ok_or_else(|| format!("`{text}` is not a whole number of bytes"))
    }
}

/// How many bytes one of a unit is; `None` where there is no such unit.
fn bytes_of(unit: &str) -> Option<u64> {
    if ["", "b", "B"].contains(&unit) {
        return Some(1);
    }
    let (first, rest) = unit.split_at(unit.chars().next()?.len_utf8());
    let first = first.chars().next()?.to_ascii_uppercase();
    let power = LETTERS.iter().position(|letter| *letter == first)? as u32 + 1;
    match rest {
        "B" => Some(1000u64.pow(power)),
        _ if rest.is_empty() || rest.eq_ignore_ascii_case("ib") => Some(1 << (10 * power)),
        _ => None,
    }
}

/// The shortest exact form; of two that are as short the binary one.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut count, mut named) = (self.0, String::new());
        for (power, letter) in (1..).zip(LETTERS) {
            let si = if letter == 'K' { 'k' } else { letter };
            for (unit, name) in [(1 << (10 * power), format!("{letter}iB")), (1000u64.pow(power), format!("{si}B"))] {
                let found = self.0 / unit;
                if self.0.is_multiple_of(unit) && found > 0 && found.to_string().len() < count.to_string().len() {
                    (count, named) = (found, name);
                }
            }
        }
        write!(f, "{count}{named}")
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Number(n) => Ok(Self(n)),
            NumberOrText::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["integer", "string"], "format": "size", "unit": "bytes", "examples": ["4KiB", "64MB", 1048576]})
    }
}

/// A length of time in nanoseconds. Reads `5s`, `200ms`, `2m`, `5` (seconds); writes seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u64);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let wrong = || format!("`{text}` is not a duration; write 5s, 200ms, 2m or 1h");
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let seconds = match unit.trim() {
            "" | "s" => number,
            "us" => number / 1e6,
            "ms" => number / 1e3,
            "m" | "min" => number * 60.0,
            "h" => number * 3600.0,
            _ => return Err(wrong()),
        };
        Ok(Self((seconds * 1e9).round() as u64))
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 1e9)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match FloatOrText::deserialize(deserializer)? {
            FloatOrText::Number(n) if n >= 0.0 => Ok(Self((n * 1e9).round() as u64)),
            FloatOrText::Number(n) => Err(de::Error::custom(format!("a duration cannot be negative ({n})"))),
            FloatOrText::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["number", "string"], "format": "span", "unit": "seconds", "examples": ["5s", "200ms", 2]})
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a size: a whole number of bytes, or text like 4KiB")]
enum NumberOrText {
    Number(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a duration: a number of seconds, or text like 200ms")]
enum FloatOrText {
    Number(f64),
    Text(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("4k", 4096),
            ("4KiB", 4096),
            ("4kib", 4096),
            ("4096", 4096),
            ("4096B", 4096),
            ("1.5M", 3 << 19),
            ("2 GiB", 2 << 30),
            ("16P", 16 << 50),
            ("0", 0),
            ("4kB", 4000),
            ("4KB", 4000),
            ("64MB", 64_000_000),
            ("5.68TB", 5_680_000_000_000),
            ("1.001kB", 1001),
            ("2 GB", 2_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        assert_eq!("200ms".parse(), Ok(Span(200_000_000)));
        assert_eq!("2m".parse(), Ok(Span(120_000_000_000)));
    }

    #[test]
    fn refuses_what_is_no_unit_and_says_how_to_write_it() {
        // A small b is a bit elsewhere.
        let told = "4mb".parse::<Size>().unwrap_err();
        assert!(told.contains("4KiB") && told.contains("1024") && told.contains("4kB"), "{told}");
        for text in ["", "k", "4x", "4ä", "4kiB4", "4kBB", "-1", "0.3", "0.5001kB", "1.2.3M", ".", "99999P", "4E"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert!("5 parsecs".parse::<Span>().is_err());
    }

    #[test]
    fn prints_the_shortest_exact_form() {
        for (bytes, text) in [
            (4096, "4KiB"),
            (3 << 20, "3MiB"),
            (999, "999"),
            (1000, "1kB"),
            (64_000_000, "64MB"),
            (1_024_000, "1000KiB"),
            (1_048_576_000, "1000MiB"),
            (5_000_000_000_000, "5TB"),
            (0, "0"),
            (u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
    }
}
