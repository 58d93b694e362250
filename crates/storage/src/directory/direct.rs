//! Direct I/O: what a filesystem wants for it, and what is said where it refuses.

use std::path::Path;

use savemark_base::error::Error;

/// Alignment of offsets and of memory that statx reports for direct I/O (STATX_DIOALIGN, Linux 6.1 and later).
pub fn alignment(path: &Path) -> Option<(u64, usize)> {
    let path = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())).ok()?;
    // SAFETY: `statx` is plain data, and the path is a C string.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let result = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, libc::STATX_DIOALIGN, &mut found) };
    let known = result == 0 && found.stx_mask & libc::STATX_DIOALIGN != 0;
    let (offset, memory) = (found.stx_dio_offset_align, found.stx_dio_mem_align);
    (known && offset > 0 && memory > 0).then_some((u64::from(offset), memory as usize))
}

/// A silent buffered run would measure memory and call it a disk.
pub fn refused(path: &Path, filesystem: &str) -> Error {
    Error::refused(format!("{} refuses O_DIRECT ({filesystem}). Nothing was written", path.display()))
        .hint("use --storage posix --no-direct to measure memory, or choose a directory on a disk")
}
