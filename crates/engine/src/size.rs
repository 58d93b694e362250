//! Sizes and durations as people write them: `4k` = `4KiB` = 4096, `5s`, `200ms`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A number of bytes. Reads `4096`, `4k`, `4KiB`; writes the plain number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Size(pub u64);

const UNITS: [(&str, u32); 5] = [("k", 10), ("m", 20), ("g", 30), ("t", 40), ("p", 50)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| format!("`{text}` is not a size; write 4096, 4k or 4KiB"))?;
        let unit = unit.trim_start();
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            lower => {
                let found = UNITS.iter().find(|(letter, _)| lower == *letter || lower == format!("{letter}ib"));
                match found {
                    Some((_, shift)) => *shift,
                    None => return Err(unknown_unit(text, unit)),
                }
            }
        };
        let bytes = number * (1u64 << shift) as f64;
        if bytes.fract() != 0.0 || bytes >= u64::MAX as f64 {
            return Err(format!("`{text}` is not a whole number of bytes"));
        }
        Ok(Self(bytes as u64))
    }
}

/// `4kB` may mean 4000 or 4096: refuse it and say both spellings.
fn unknown_unit(text: &str, unit: &str) -> String {
    let first = unit.chars().next().unwrap_or(' ').to_ascii_lowercase();
    match UNITS.iter().find(|(letter, _)| letter.starts_with(first) && unit.len() == 2) {
        Some((letter, shift)) => format!(
            "`{text}` is ambiguous; write {0}{1}iB for {0} x {2} bytes, or the plain number of bytes",
            text.trim_end_matches(unit).trim(),
            letter.to_uppercase(),
            1u64 << shift
        ),
        None => format!("`{text}` has an unknown unit `{unit}`; write 4096, 4k, 4KiB, 1MiB, 2GiB"),
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, shift) in UNITS.iter().rev() {
            let unit = 1u64 << shift;
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{}iB", self.0 / unit, letter.to_uppercase());
            }
        }
        write!(f, "{}", self.0)
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
        json_schema!({"type": ["integer", "string"], "format": "size", "unit": "bytes", "examples": ["4KiB", 1048576]})
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
        for (text, bytes) in
            [("4k", 4096), ("4KiB", 4096), ("4096", 4096), ("1.5M", 3 << 19), ("2 GiB", 2 << 30), ("0", 0)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        assert_eq!("200ms".parse(), Ok(Span(200_000_000)));
        assert_eq!("2m".parse(), Ok(Span(120_000_000_000)));
    }

    #[test]
    fn refuses_the_ambiguous_and_says_how_to_write_it() {
        let hint = "4kB".parse::<Size>().unwrap_err();
        assert!(hint.contains("4KiB") && hint.contains("1024"), "{hint}");
        for text in ["", "k", "4x", "4kiB4", "-1", "0.3"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert!("5 parsecs".parse::<Span>().is_err());
    }

    #[test]
    fn prints_the_shortest_exact_form() {
        assert_eq!(Size(4096).to_string(), "4KiB");
        assert_eq!(Size(3 << 20).to_string(), "3MiB");
        assert_eq!(Size(1000).to_string(), "1000");
    }
}
