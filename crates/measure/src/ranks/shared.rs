//! Memory that processes of one machine share, and that is gone with the last of them, however it ends.
//!
//! It has no name in any filesystem: who is to share it opens it below `/proc` of the process that made it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, Mode, OFlags, fstat, ftruncate, memfd_create, open, readlink};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// How other processes find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The process that made it.
    pub pid: u32,
    /// Its open file there.
    pub file: i32,
    /// What it is called: a process that has the same number elsewhere has no such file.
    pub name: String,
}

/// A mapping, zero in the beginning.
#[derive(Debug)]
pub struct Shared {
    base: NonNull<u8>,
    len: usize,
    /// Open for the others.
    _file: OwnedFd,
    address: Address,
}

// SAFETY: the memory lives as long as this value, and whoever uses it does so by atomics.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Makes `len` bytes.
    pub fn make(len: usize) -> io::Result<Self> {
        let name = format!("savemark-{:016x}", RandomState::new().build_hasher().finish());
        let file = memfd_create(name.as_str(), MemfdFlags::CLOEXEC)?;
        ftruncate(&file, len as u64)?;
        let address = Address { pid: std::process::id(), file: file.as_raw_fd(), name };
        Self::map(file, len, address)
    }

    /// Opens the `len` bytes that another process has made.
    ///
    /// # Errors
    /// That there is no such file, or that this process may not open it: in another container, or as another user.
    pub fn open(address: &Address, len: usize) -> io::Result<Self> {
        let path = PathBuf::from(format!("/proc/{}/fd/{}", address.pid, address.file));
        let found = readlink(&path, Vec::new())?;
        // Opening what is something else could do anything.
        if found.to_bytes() != format!("/memfd:{} (deleted)", address.name).as_bytes() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is {found:?}", path.display())));
        }
        let file = open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        if fstat(&file)?.st_size as u64 != len as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is of another size", path.display())));
        }
        Self::map(file, len, address.clone())
    }

    fn map(file: OwnedFd, len: usize, address: Address) -> io::Result<Self> {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base =
            unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0) }?;
        let base = NonNull::new(base.cast()).expect("mmap never returns null");
        Ok(Self { base, len, _file: file, address })
    }

    /// How another process of this machine finds it.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What lies at `offset`, which is a multiple of its alignment. `T` is made of atomics alone.
    ///
    /// # Safety
    /// Zero is a valid `T`, and everyone who has this memory has the same type there.
    pub unsafe fn at<T: Sync>(&self, offset: usize, count: usize) -> &[T] {
        assert!(offset.is_multiple_of(align_of::<T>()) && offset + count * size_of::<T>() <= self.len);
        // SAFETY: within the mapping and aligned (asserted); the caller answers for the type.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which no reference outlives this value.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_it_is_not_opened() {
        let made = Shared::make(4096).unwrap();
        let address = made.address();
        let elsewhere = Address { name: "savemark-0".into(), ..address.clone() };
        assert_eq!(Shared::open(&elsewhere, 4096).unwrap_err().kind(), io::ErrorKind::NotFound);
        let gone = Address { pid: u32::MAX / 2, ..address.clone() };
        assert_eq!(Shared::open(&gone, 4096).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(Shared::open(address, 8192).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(Shared::open(address, 4096).is_ok());
    }
}
