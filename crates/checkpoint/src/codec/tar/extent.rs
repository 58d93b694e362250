//! One extent of an archive, written or read from front to back.

use super::super::{ALIGN, is_zero, room};
use super::header::{self, BLOCK, Kind};
use savemark_base::error::{Error, Result};

/// Name of the extended headers themselves: what a tar from before 2001 would extract them as.
const PAX_NAME: &str = "././@PaxHeader";

/// Lays out an extent from front to back.
pub struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Starts at the front of `out`.
    pub fn new(out: &'a mut [u8]) -> Self {
        Self { out, at: 0 }
    }

    fn take(&mut self, len: usize) -> Result<&mut [u8]> {
        let start = self.at;
        self.at += len;
        Ok(&mut room(self.out, self.at)?[start..])
    }

    fn header(&mut self, kind: Kind, name: &str, mode: u32, size: u64) -> Result<()> {
        let block = self.take(BLOCK)?.first_chunk_mut().expect("one block was taken");
        header::write(block, kind, name, mode, size);
        Ok(())
    }

    /// A member's headers, grown so that they end on an alignment boundary.
    pub fn headers(&mut self, name: &str, mode: u32, size: u64) -> Result<()> {
        let records = header::records(name, size);
        let least = 2 * BLOCK + header::fillable(records.len());
        let end = (self.at + least).next_multiple_of(ALIGN);
        let filled = end - self.at - 2 * BLOCK;
        self.header(Kind::Extended, PAX_NAME, 0o644, filled as u64)?;
        let data = self.take(filled)?;
        data[..records.len()].copy_from_slice(&records);
        header::write_comment(&mut data[records.len()..]);
        self.header(Kind::File, name, mode, size)
    }

    /// A piece's bytes, with the zeros up to the next block after a member's last.
    pub fn data(&mut self, bytes: &[u8], is_end: bool) -> Result<()> {
        self.take(bytes.len())?.copy_from_slice(bytes);
        let gap = self.at.next_multiple_of(BLOCK) - self.at;
        if gap != 0 && !is_end {
            return Err(Error::failed("a member that goes on in the next chunk has an odd end"));
        }
        self.take(gap)?.fill(0);
        Ok(())
    }

    /// Fills up to the alignment; returns the extent's length.
    pub fn finish(mut self) -> Result<usize> {
        if !self.at.is_multiple_of(ALIGN) {
            let end = (self.at + 2 * BLOCK).next_multiple_of(ALIGN);
            let filled = end - self.at - BLOCK;
            self.header(Kind::Global, PAX_NAME, 0o644, filled as u64)?;
            header::write_comment(self.take(filled)?);
        }
        Ok(self.at)
    }
}

/// Walks an extent from front to back; every length is checked before it is used.
pub struct Reader<'a> {
    stored: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the front of `stored`.
    pub fn new(stored: &'a [u8]) -> Self {
        Self { stored, at: 0 }
    }

    fn bad(&self, what: &str) -> Error {
        Error::corrupt(format!("an extent of {} bytes is not tar: {what} at byte {}", self.stored.len(), self.at))
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let cut = || self.bad("it is cut short");
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len)).ok_or_else(cut)?;
        let bytes = self.stored.get(self.at..end).ok_or_else(cut)?;
        self.at = end;
        Ok(bytes)
    }

    fn header(&mut self) -> Result<header::Header<'a>> {
        let block = self.take(BLOCK as u64)?.first_chunk().expect("one block was taken");
        header::read(block).ok_or_else(|| self.bad("a header is damaged before"))
    }

    /// Reads over pax headers up to the header of the member expected here.
    pub fn headers(&mut self, name: &str, size: u64) -> Result<()> {
        loop {
            let header = self.header()?;
            if header.kind == Kind::File {
                let is_ours = header.size == size && header.name == header::field_of(name);
                return if is_ours { Ok(()) } else { Err(self.bad(&format!("another member than {name} before"))) };
            }
            self.skip(header.size)?;
        }
    }

    fn skip(&mut self, size: u64) -> Result<()> {
        let whole = size.checked_next_multiple_of(BLOCK as u64).ok_or_else(|| self.bad("a header lies before"))?;
        self.take(whole).map(drop)
    }

    /// A piece's bytes; checks the zeros up to the next block after a member's last.
    pub fn data(&mut self, len: usize, is_end: bool) -> Result<&'a [u8]> {
        let data = self.take(len as u64)?;
        let gap = self.at.next_multiple_of(BLOCK) - self.at;
        if is_end && !is_zero(self.take(gap as u64)?) {
            return Err(self.bad("padding is not zero before"));
        }
        Ok(data)
    }

    /// Nothing but fill may follow the last piece.
    pub fn finish(mut self) -> Result<()> {
        while self.at < self.stored.len() {
            let header = self.header()?;
            if header.kind != Kind::Global {
                return Err(self.bad("more members than expected before"));
            }
            self.skip(header.size)?;
        }
        Ok(())
    }
}
