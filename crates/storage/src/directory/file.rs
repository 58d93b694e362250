//! A file of a directory, read and written by system calls.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, pread, pwrite};

use crate::File;
use savemark_base::error::{Error, Result};

/// A file that is open, and where it is.
pub struct DirectoryFile {
    pub file: fs::File,
    pub path: PathBuf,
}

/// Reads and writes are system calls of their own, not the C library's: in a process of several threads that one prepares
/// each to be cancelled, a twelfth of the cost of a small read from memory.
impl File for DirectoryFile {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match pread(&self.file, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => filled += more,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut written = 0;
        while written < buffer.len() {
            match pwrite(&self.file, &buffer[written..], offset + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
    fn size(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| Error::io("ask for the size of", &self.path, e))?.len())
    }
    fn allocate(&self, bytes: u64) -> Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            // Filesystems without it (NFS before 4.2, some FUSE) grow the file as it is written.
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(e) => Err(Error::io("reserve room for", &self.path, e)),
        }
    }
    fn truncate(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|e| Error::io("cut", &self.path, e))
    }
    fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|e| Error::io("fsync", &self.path, e))
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
