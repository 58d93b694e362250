//! Files of a tree around the page cache: on a virtual machine, fresh pages of the cache cost more than the disk.
//!
//! This is a matter of speed alone; where it does not work, the same bytes go through the cache.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use savemark_base::buffer::ALIGN;

/// Shorter runs gain nothing.
const MIN: usize = 64 << 10;

/// How many bytes from the start of `bytes`, which belong at `offset` of a file, can go directly.
pub fn len(bytes: &[u8], offset: u64) -> usize {
    let aligned = (bytes.as_ptr() as usize).is_multiple_of(ALIGN) && offset.is_multiple_of(ALIGN as u64);
    let len = bytes.len() / ALIGN * ALIGN;
    if aligned && len >= MIN { len } else { 0 }
}

/// Reads into `out`; `false` where direct I/O does not work.
pub fn read(file: &fs::File, out: &mut [u8], offset: u64) -> io::Result<bool> {
    directly(file, || file.read_exact_at(out, offset))
}

/// Writes `bytes`; `false` where direct I/O does not work.
pub fn write(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<bool> {
    directly(file, || file.write_all_at(bytes, offset))
}

/// Does an I/O on a descriptor that is the caller's alone around the cache. Not on one of its own: by name it could be that of
/// another file.
fn directly(file: &fs::File, act: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
    let flags = fcntl_getfl(file)?;
    match fcntl_setfl(file, flags | OFlags::DIRECT) {
        Err(Errno::INVAL) => return Ok(false),
        set => set?,
    }
    let done = act();
    fcntl_setfl(file, flags)?;
    match done {
        Ok(()) => Ok(true),
        // How a filesystem says that it has no direct I/O, if it has not said so before.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(e) => Err(e),
    }
}
