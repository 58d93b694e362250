//! Opening what must be a plain file, whatever stands there.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Opens `path` with `flags`, at once. A link could lead anywhere, a pipe would be waited for, and opening a device may do
/// something: none is a file of a checkpoint.
pub fn open(mut options: fs::OpenOptions, flags: OFlags, path: &Path) -> io::Result<fs::File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits() as i32).open(path).map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => not_plain(),
        // A pipe refuses direct I/O, as some filesystems do.
        Some(libc::EINVAL) if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) => not_plain(),
        _ => e,
    })?;
    if !file.metadata()?.is_file() {
        return Err(not_plain());
    }
    // It was for the opening alone: io_uring would take it as a wish for EAGAIN.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// As [`open`], for reading through the page cache.
pub fn open_for_reading(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    open(options, OFlags::empty(), path)
}

/// Opens the directory `path`.
pub fn open_directory(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).custom_flags(OFlags::DIRECTORY.bits() as i32).open(path)
}

fn not_plain() -> io::Error {
    io::Error::other("it is a link, a pipe, a directory or a device, not a plain file")
}
