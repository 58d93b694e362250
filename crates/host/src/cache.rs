//! How much of a file the page cache holds, asked of the kernel and not assumed.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{Advice, fadvise, fdatasync, fstat};

use savemark_base::record::Cache;

/// Bytes looked at by one mincore call: its answer takes a byte for each page.
const WINDOW: u64 = 1 << 30;

/// Sums the residency of several open files.
///
/// Where the kernel does not say, `state` is `unknown` and `method` the reason. The kernel tells it only to
/// those who own a file or may write it; mincore claims full residency to all others, so it is not asked then.
pub fn residency<F: AsFd>(files: impl IntoIterator<Item = F>) -> Cache {
    let mut sum = Cache::default();
    for file in files {
        match of_file(file.as_fd()) {
            Ok((resident, total, method)) => {
                sum.resident_pages += resident;
                sum.total_pages += total;
                sum.method = method.to_string();
            }
            Err(e) => {
                return Cache { state: "unknown".into(), method: format!("cachestat: {e}"), ..Cache::default() };
            }
        }
    }
    sum.state = classify(sum.resident_pages, sum.total_pages).to_string();
    sum
}

/// Writes a file's dirty pages and asks the kernel to drop its cached ones. It may keep some: look with [`residency`].
///
/// # Errors
/// The error of fdatasync or posix_fadvise.
pub fn evict(file: impl AsFd) -> io::Result<()> {
    fdatasync(&file)?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

/// `cold` (at most 1 % resident), `warm` (at least 99 %) or `mixed`; `unknown` for no pages at all.
fn classify(resident: u64, total: u64) -> &'static str {
    match (resident, total) {
        (_, 0) => "unknown",
        _ if resident * 100 <= total => "cold",
        _ if resident * 100 >= total * 99 => "warm",
        _ => "mixed",
    }
}

/// Resident pages, all pages, and how they were counted.
fn of_file(file: BorrowedFd) -> io::Result<(u64, u64, &'static str)> {
    let size = fstat(file)?.st_size as u64;
    let total = size.div_ceil(rustix::param::page_size() as u64);
    match cachestat(file) {
        // A page of a large folio may lie past the end of the file.
        Ok(resident) => Ok((resident.min(total), total, "cachestat")),
        // Before Linux 6.5, or a seccomp filter that does not know it.
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => Ok((mincore(file, size)?, total, "mincore")),
        Err(e) => Err(e),
    }
}

/// Pages of a whole file in the page cache: cachestat(2), which libc does not wrap.
fn cachestat(file: BorrowedFd) -> io::Result<u64> {
    const CACHESTAT: libc::c_long = 451; // the same on every architecture
    let range = [0u64, 0]; // offset, length; a length of 0 means to the end
    let mut counts = [0u64; 5]; // cached, dirty, under writeback, evicted, recently evicted
    // SAFETY: both arrays have the layout of the kernel's structs (u64 fields only) and outlive the call.
    let rc = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0u32) };
    if rc == 0 { Ok(counts[0]) } else { Err(io::Error::last_os_error()) }
}

/// The same by mapping the file, a window at a time; mapping alone brings no page in.
fn mincore(file: BorrowedFd, size: u64) -> io::Result<u64> {
    let page = rustix::param::page_size();
    let mut resident = 0;
    for start in (0..size).step_by(WINDOW as usize) {
        let len = WINDOW.min(size - start) as usize;
        let mut pages = vec![0u8; len.div_ceil(page)];
        // SAFETY: a fresh mapping at an address of the kernel's choice, which nothing reads through.
        unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                start as i64,
            );
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let rc = libc::mincore(at, len, pages.as_mut_ptr());
            let result = if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
            libc::munmap(at.cast::<c_void>(), len);
            result?;
        }
        resident += pages.iter().filter(|&&page| page & 1 != 0).count() as u64;
    }
    Ok(resident)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn classes_have_the_documented_edges() {
        for (resident, total, state) in [
            (0, 100, "cold"),
            (1, 100, "cold"),
            (2, 100, "mixed"),
            (98, 100, "mixed"),
            (99, 100, "warm"),
            (0, 0, "unknown"),
        ] {
            assert_eq!(classify(resident, total), state, "{resident} of {total}");
        }
    }

    #[test]
    fn a_file_just_written_is_warm_by_both_methods() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 1_000_001]).unwrap();
        let cache = residency([&file, &file]);
        assert_eq!((cache.state.as_str(), cache.total_pages, cache.resident_pages), ("warm", 490, 490), "{cache:?}");
        assert_eq!(mincore(file.as_fd(), 1_000_001).unwrap(), 245);
    }

    /// Not in a memory filesystem, whose pages have nowhere to go.
    #[test]
    fn an_evicted_file_is_cold_by_both_methods() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 8 << 20]).unwrap();
        if rustix::fs::fstatfs(&file).unwrap().f_type == libc::TMPFS_MAGIC {
            return eprintln!("skipped: the source tree lies in memory");
        }
        evict(&file).unwrap();
        assert_eq!(residency([&file]).state, "cold");
        assert_eq!(mincore(file.as_fd(), 8 << 20).unwrap(), 0);
    }

    #[test]
    fn what_has_no_pages_is_unknown_with_a_reason() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        let cache = residency([&pipe]);
        assert!(cache.state == "unknown" && !cache.method.is_empty(), "{cache:?}");
        let nothing: [File; 0] = [];
        assert_eq!(residency(nothing).state, "unknown");
    }
}
