//! Whether a file really has blocks of data: what was never written is read from nowhere, at the speed of memory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::fstat;

use savemark_base::record::Extents;

/// Extents asked for in one call.
const ROOM: usize = 128;

/// `struct fiemap_extent` of `linux/fiemap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap`, with room for extents behind it.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; ROOM],
}

const LAST: u32 = 0x1;
const UNWRITTEN: u32 = 0x800;

/// Sums the extents of several open files. Where the filesystem does not tell, `method` is the reason.
pub fn of<F: AsFd>(files: impl IntoIterator<Item = F>) -> Extents {
    let mut sum = Extents { method: "fiemap".into(), ..Extents::default() };
    for file in files {
        match of_file(file.as_fd()) {
            Ok((size, written, unwritten)) => {
                sum.bytes += size;
                sum.hole_bytes += size.saturating_sub(written + unwritten);
                sum.unwritten_bytes += unwritten;
            }
            Err(e) => return Extents { method: format!("fiemap: {e}"), ..Extents::default() },
        }
    }
    sum
}

/// Size of a file, and the bytes of it that lie in written and in unwritten extents.
fn of_file(file: BorrowedFd) -> io::Result<(u64, u64, u64)> {
    let size = fstat(file)?.st_size as u64;
    let (mut written, mut unwritten, mut start) = (0, 0, 0);
    while start < size {
        let found = ask(file, start)?;
        let Some(last) = found.last() else { break };
        for extent in &found {
            // The last one may end behind the file, where room was reserved.
            let bytes = (extent.logical + extent.length).min(size).saturating_sub(extent.logical.max(start));
            *(if extent.flags & UNWRITTEN != 0 { &mut unwritten } else { &mut written }) += bytes;
        }
        start = last.logical + last.length;
        if last.flags & LAST != 0 {
            break;
        }
    }
    Ok((size, written, unwritten))
}

/// The next extents from `start` on, after the file's dirty pages were written.
fn ask(file: BorrowedFd, start: u64) -> io::Result<Vec<Extent>> {
    const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
    const SYNC: u32 = 0x1;
    let mut request = Request {
        start,
        length: u64::MAX - start,
        flags: SYNC,
        mapped: 0,
        room: ROOM as u32,
        reserved: 0,
        extents: [Extent::default(); ROOM],
    };
    // SAFETY: the request has the layout of the kernel's struct, room for as many extents as it says, and outlives the call.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut request) };
    if rc == 0 { Ok(request.extents[..request.mapped as usize].to_vec()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{FallocateFlags, fallocate};

    use super::*;

    /// 1 MiB written, 1 MiB reserved, 1 MiB never touched, then written pages with holes between them.
    fn patchwork() -> File {
        const MIB: u64 = 1 << 20;
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all_at(&vec![7; MIB as usize], 0).unwrap();
        fallocate(&file, FallocateFlags::empty(), MIB, MIB).unwrap();
        file.set_len(3 * MIB).unwrap();
        for page in 0..300 {
            file.write_all_at(&[7; 4096], 3 * MIB + page * 8192).unwrap();
        }
        file
    }

    #[test]
    fn written_reserved_and_missing_bytes_are_told_apart() {
        let file = patchwork();
        let found = of([&file, &file]);
        if found.method != "fiemap" {
            return eprintln!("skipped: {}", found.method);
        }
        let size = (3 << 20) + 299 * 8192 + 4096;
        let holes = (1 << 20) + 299 * 4096;
        assert_eq!((found.bytes, found.unwritten_bytes), (2 * size, 2 << 20), "{found:?}");
        assert_eq!(found.hole_bytes, 2 * holes, "{found:?}");
    }

    #[test]
    fn a_pipe_has_no_extents_and_says_so() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        let found = of([&pipe]);
        // A pipe has size 0: nothing was asked, nothing is claimed.
        assert_eq!(found.bytes, 0);
        let proc = File::open("/proc/self/exe").unwrap();
        assert!(!of([&proc]).method.is_empty());
    }
}
