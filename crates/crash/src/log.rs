//! What reached a device, in its order.

use std::io::{BufReader, BufWriter, Read, Write};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Bytes were written; until the next flush they may be in a cache.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: Vec<u8>,
    },
    /// All that was written before is on the medium.
    Flush,
    /// Somebody beside the device said something.
    Mark(Mark),
}

/// What the program under test says, beside the device, of its own progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The save of this generation begins.
    Begins(u64),
    /// It has returned.
    Returned(u64),
    /// What comes now is no more part of the test.
    End,
}

impl Mark {
    /// As it is written.
    pub fn to_bytes(self) -> [u8; 9] {
        let (kind, number) = match self {
            Self::Begins(number) => (0, number),
            Self::Returned(number) => (1, number),
            Self::End => (2, 0),
        };
        let mut bytes = [kind; 9];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// From [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = u64::from_le_bytes(bytes.get(1..9)?.try_into().ok()?);
        match bytes[0] {
            0 => Some(Self::Begins(number)),
            1 => Some(Self::Returned(number)),
            2 => Some(Self::End),
            _ => None,
        }
    }
}

const WRITE: u8 = 0;
const FLUSH: u8 = 1;
const MARK: u8 = 2;

/// Appends entries to a file.
pub struct Writer<W: Write>(BufWriter<W>);

impl<W: Write> Writer<W> {
    /// Over `file`.
    pub fn new(file: W) -> Self {
        Self(BufWriter::new(file))
    }

    /// Bytes reached the device.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.entry(WRITE, offset, data)
    }

    /// The device was told to flush.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.entry(FLUSH, 0, &[])
    }

    /// Somebody said something.
    pub fn mark(&mut self, mark: Mark) -> std::io::Result<()> {
        self.entry(MARK, 0, &mark.to_bytes())
    }

    /// Nothing comes any more.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.0.flush()
    }

    fn entry(&mut self, kind: u8, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write_all(&[kind])?;
        self.0.write_all(&offset.to_le_bytes())?;
        self.0.write_all(&(data.len() as u64).to_le_bytes())?;
        self.0.write_all(data)
    }
}

/// Reads all entries.
pub fn read(file: impl Read) -> std::io::Result<Vec<Entry>> {
    let mut file = BufReader::new(file);
    let mut entries = Vec::new();
    let mut head = [0; 17];
    loop {
        match file.read_exact(&mut head) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(entries),
            result => result?,
        }
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let mut data = vec![0; number(9) as usize];
        file.read_exact(&mut data)?;
        let entry = match head[0] {
            WRITE => Some(Entry::Write { offset: number(1), data }),
            FLUSH => Some(Entry::Flush),
            _ => Mark::from_bytes(&data).map(Entry::Mark),
        };
        entries.push(entry.ok_or(std::io::ErrorKind::InvalidData)?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were() {
        let mut bytes = Vec::new();
        let mut log = Writer::new(&mut bytes);
        let marks = [Mark::Begins(3), Mark::Returned(u64::MAX), Mark::End];
        log.write(7, b"abc").unwrap();
        log.flush().unwrap();
        marks.iter().for_each(|mark| log.mark(*mark).unwrap());
        log.finish().unwrap();
        let mut expected = vec![Entry::Write { offset: 7, data: b"abc".to_vec() }, Entry::Flush];
        expected.extend(marks.map(Entry::Mark));
        assert_eq!(read(&bytes[..]).unwrap(), expected);
        bytes.pop();
        assert!(read(&bytes[..]).is_err(), "the last one is cut short");
    }
}
