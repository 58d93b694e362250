//! The 512-byte headers of a pax archive (POSIX.1-2024, `pax`, "ustar Interchange Format").

/// The unit of a tar archive.
pub const BLOCK: usize = 512;
/// Smallest `comment` record: `12 comment=` and a newline.
const COMMENT_MIN: usize = 12;
/// The largest size that eleven octal digits can say.
const OCTAL_MAX: u64 = (1 << 33) - 1;

/// What a header describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file; its data follows.
    File,
    /// A pax extended header for the next member.
    Extended,
    /// A pax global header, here only a comment that fills a gap.
    Global,
}

impl Kind {
    fn flag(self) -> u8 {
        match self {
            Self::File => b'0',
            Self::Extended => b'x',
            Self::Global => b'g',
        }
    }
}

/// A header as read back.
pub struct Header<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Bytes of data that follow.
    pub size: u64,
    /// The name field, which holds only the first 100 bytes of a long name.
    pub name: &'a [u8],
}

/// Writes one header.
pub fn write(out: &mut [u8; BLOCK], kind: Kind, name: &str, mode: u32, size: u64) {
    out.fill(0);
    let name = field_of(name);
    out[..name.len()].copy_from_slice(name);
    write_octal(&mut out[100..108], u64::from(mode & 0o7777));
    write_octal(&mut out[108..116], 0); // uid
    write_octal(&mut out[116..124], 0); // gid
    write_size(&mut out[124..136], size);
    write_octal(&mut out[136..148], 0); // mtime: the same state gives the same archive
    out[156] = kind.flag();
    out[257..265].copy_from_slice(b"ustar\x0000");
    let sum = checksum(out);
    write_octal(&mut out[148..155], sum);
    out[155] = b' ';
}

/// Reads one header; `None` when its checksum, magic, type or size is not one that [`write()`] writes.
pub fn read(block: &[u8; BLOCK]) -> Option<Header<'_>> {
    if block[257..262] != *b"ustar" || read_octal(&block[148..155])? != checksum(block) {
        return None;
    }
    let kind = match block[156] {
        b'0' => Kind::File,
        b'x' => Kind::Extended,
        b'g' => Kind::Global,
        _ => return None,
    };
    let name = block[..100].split(|&b| b == 0).next().unwrap_or_default();
    Some(Header { kind, size: read_size(&block[124..136])?, name })
}

/// The part of a name that the name field holds.
pub fn field_of(name: &str) -> &[u8] {
    &name.as_bytes()[..name.len().min(100)]
}

/// The pax records that a member needs because its header cannot say them.
pub fn records(name: &str, size: u64) -> Vec<u8> {
    let mut records = Vec::new();
    if name.len() > 100 || !name.is_ascii() {
        push_record(&mut records, "path", name.as_bytes());
    }
    if size > OCTAL_MAX {
        push_record(&mut records, "size", size.to_string().as_bytes());
    }
    records
}

/// Bytes of records that can be filled up to whole blocks with a comment.
pub fn fillable(records: usize) -> usize {
    (records + COMMENT_MIN).next_multiple_of(BLOCK)
}

/// Fills `out`, at least twelve bytes long, with one comment record.
pub fn write_comment(out: &mut [u8]) {
    let mut record = format!("{} comment=", out.len()).into_bytes();
    record.resize(out.len() - 1, b' ');
    record.push(b'\n');
    out.copy_from_slice(&record);
}

/// Appends `LEN key=value\n`, where LEN counts itself.
fn push_record(records: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    records.extend_from_slice(format!("{len} {key}=").as_bytes());
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// Sum of all bytes, with the checksum field itself taken as spaces.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    let all: u64 = block.iter().map(|&b| u64::from(b)).sum();
    let own: u64 = block[148..156].iter().map(|&b| u64::from(b)).sum();
    all - own + 8 * u64::from(b' ')
}

fn write_octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    field[..digits].copy_from_slice(format!("{value:0digits$o}").as_bytes());
    field[digits] = 0;
}

fn read_octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_end_matches(['\0', ' ']), 8).ok()
}

/// Octal, or the base-256 form of GNU and BSD tar from 8 GiB.
fn write_size(field: &mut [u8], size: u64) {
    if size <= OCTAL_MAX {
        return write_octal(field, size);
    }
    field[..4].copy_from_slice(&[0x80, 0, 0, 0]);
    field[4..].copy_from_slice(&size.to_be_bytes());
}

fn read_size(field: &[u8]) -> Option<u64> {
    match field.split_first_chunk::<4>() {
        Some(([0x80, 0, 0, 0], low)) => Some(u64::from_be_bytes(low.try_into().ok()?)),
        _ => read_octal(field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_survive_on_both_sides_of_8_gib() {
        for size in [0, 1, OCTAL_MAX, OCTAL_MAX + 1, u64::MAX] {
            let mut block = [0; BLOCK];
            write(&mut block, Kind::File, "name", 0o644, size);
            let header = read(&block).unwrap();
            assert_eq!((header.size, header.kind, header.name), (size, Kind::File, b"name".as_slice()));
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let mut block = [0; BLOCK];
        write(&mut block, Kind::File, "name", 0o644, 42);
        for at in [0, 101, 130, 156, 260, 500] {
            block[at] ^= 1;
            assert!(read(&block).is_none(), "byte {at}");
            block[at] ^= 1;
        }
    }

    #[test]
    fn record_lengths_count_themselves() {
        for len in [80, 85, 86, 87, 90, 91, 92, 984, 988, 989, 990, 991, 2900] {
            let mut records = Vec::new();
            push_record(&mut records, "path", &vec![b'n'; len]);
            let said: usize = std::str::from_utf8(&records).unwrap().split(' ').next().unwrap().parse().unwrap();
            assert_eq!(said, records.len(), "value of {len} bytes");
        }
        for len in [12, 99, 100, 511, 999, 1000, 4096] {
            let mut out = vec![0; len];
            write_comment(&mut out);
            assert!(out.starts_with(format!("{len} comment=").as_bytes()) && out.ends_with(b"\n"), "{len}");
        }
    }
}
