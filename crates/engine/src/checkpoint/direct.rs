//! Files of a tree around the page cache: on a virtual machine, fresh pages of the cache cost more than the disk.
//!
//! This is a matter of speed alone; where it does not work, the same bytes go through the cache.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::buffer::ALIGN;

/// Shorter runs gain nothing.
const MIN: usize = 64 << 10;

/// How many bytes from the start of `bytes`, which belong at `offset` of a file, can go directly.
pub fn len(bytes: &[u8], offset: u64) -> usize {
    let aligned = (bytes.as_ptr() as usize).is_multiple_of(ALIGN) && offset.is_multiple_of(ALIGN as u64);
    let len = bytes.len() / ALIGN * ALIGN;
    if aligned && len >= MIN { len } else { 0 }
}

/// Reads into `out`; `false` where direct I/O does not work.
pub fn read(path: &Path, out: &mut [u8], offset: u64) -> io::Result<bool> {
    let mut options = fs::OpenOptions::new();
    worked(options.read(true).custom_flags(FLAGS).open(path).and_then(|file| file.read_exact_at(out, offset)))
}

/// Writes `bytes`; `false` where direct I/O does not work.
pub fn write(path: &Path, bytes: &[u8], offset: u64) -> io::Result<bool> {
    let mut options = fs::OpenOptions::new();
    worked(options.write(true).custom_flags(FLAGS).open(path).and_then(|file| file.write_all_at(bytes, offset)))
}

const FLAGS: i32 = OFlags::DIRECT.union(OFlags::NOFOLLOW).bits() as i32;

/// EINVAL is how a filesystem says that it has no direct I/O.
fn worked(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(e) => Err(e),
    }
}
