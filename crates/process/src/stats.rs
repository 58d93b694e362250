//! CRIU's own account of a dump or a restore: a protobuf of a few numbers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::limits::STATS_BYTES;
use super::protocol::varint;
use savemark_base::record::CriuStats;

/// Two magic numbers and a length come first.
const HEADER: usize = 12;

/// What `stats-dump` or `stats-restore` in `folder` says; `None` if it cannot be read.
pub fn read(folder: &Path, name: &str) -> Option<CriuStats> {
    let mut bytes = Vec::new();
    File::open(folder.join(name)).ok()?.take(STATS_BYTES).read_to_end(&mut bytes).ok()?;
    decode(bytes.get(HEADER..)?)
}

/// CRIU counts microseconds and pages.
fn decode(entry: &[u8]) -> Option<CriuStats> {
    let entry = fields(entry)?;
    if let Some(Field::Bytes(dump)) = entry.get(&1) {
        let dump = fields(dump)?;
        let time = |field| number(&dump, field)?.checked_mul(1000);
        return Some(CriuStats {
            freezing_ns: time(1),
            frozen_ns: time(2),
            memory_dump_ns: time(3),
            memory_write_ns: time(4),
            pages: number(&dump, 7),
            ..Default::default()
        });
    }
    let Some(Field::Bytes(restore)) = entry.get(&2) else { return None };
    let restore = fields(restore)?;
    let time = |field| number(&restore, field)?.checked_mul(1000);
    Some(CriuStats { forking_ns: time(3), restore_ns: time(4), pages: number(&restore, 5), ..Default::default() })
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn number(fields: &BTreeMap<u64, Field>, field: u64) -> Option<u64> {
    match fields.get(&field) {
        Some(Field::Number(value)) => Some(*value),
        _ => None,
    }
}

/// The fields of a message, by number; the two kinds that CRIU uses here.
fn fields(mut bytes: &[u8]) -> Option<BTreeMap<u64, Field<'_>>> {
    let mut found = BTreeMap::new();
    while !bytes.is_empty() {
        let (key, used) = varint(bytes)?;
        let (value, more) = varint(&bytes[used..])?;
        bytes = &bytes[used + more..];
        let field = match key & 7 {
            0 => Field::Number(value),
            2 => {
                let (text, rest) = bytes.split_at_checked(value as usize)?;
                bytes = rest;
                Field::Bytes(text)
            }
            _ => return None,
        };
        found.insert(key >> 3, field);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_become_nanoseconds_and_a_half_message_nothing() {
        let dump = [0x08, 0x96, 0x01, 0x10, 0x02, 0x38, 0x05];
        let mut message = vec![0x0a, dump.len() as u8];
        message.extend(dump);
        let stats = decode(&message).unwrap();
        assert_eq!((stats.freezing_ns, stats.frozen_ns, stats.pages), (Some(150_000), Some(2000), Some(5)));
        assert_eq!(stats.memory_dump_ns, None);
        assert!(decode(&message[..5]).is_none());
        assert!(decode(&[]).is_none());
    }

    #[test]
    fn fuzz_stats() {
        let dump = [0x08, 0x96, 0x01, 0x10, 0x02, 0x38, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let samples: Vec<Vec<u8>> = [0x0a, 0x12].map(|field| [&[field, dump.len() as u8], &dump[..]].concat()).to_vec();
        savemark_testing::mutate::fuzz(
            "criu-stats",
            |chance| chance.bytes(&samples),
            |bytes| {
                let _ = decode(bytes);
            },
        );
    }
}
