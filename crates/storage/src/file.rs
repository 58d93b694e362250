//! What an open file does.

use std::any::Any;
use std::path::Path;

use savemark_base::error::Result;

/// An open file. Offsets and lengths are multiples of [`savemark_base::buffer::ALIGN`] where I/O is direct.
pub trait File: Any + Send + Sync {
    /// Where it is, for messages.
    fn path(&self) -> &Path;
    /// Reads until `buffer` is full; a file that ends before is an error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()>;
    /// Writes all of `buffer`.
    fn write_at(&self, buffer: &[u8], offset: u64) -> std::io::Result<()>;
    /// Length in bytes.
    fn size(&self) -> Result<u64>;
    /// Reserves room up to `bytes` and makes the file that long, so that writes need not grow it.
    fn allocate(&self, bytes: u64) -> Result<()>;
    /// Cuts the file to `bytes`.
    fn truncate(&self, bytes: u64) -> Result<()>;
    /// Makes content and length durable.
    fn sync(&self) -> Result<()>;
    /// The descriptor, where there is one.
    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}
