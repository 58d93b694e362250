//! Memory that ends where its page ends: who reads or writes one byte more is stopped by the processor.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE: usize = 4096;

/// Room, with a page that nobody may touch behind it.
pub struct Guarded {
    base: *mut u8,
    room: usize,
}

impl Guarded {
    /// Room for `len` bytes.
    pub fn new(len: usize) -> Self {
        let (room, access) = (len.next_multiple_of(PAGE), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a fresh mapping of our own, whose last page is taken away again.
        unsafe {
            let base = mmap_anonymous(std::ptr::null_mut(), room + PAGE, access, MapFlags::PRIVATE).unwrap();
            mprotect(base.cast::<u8>().add(room).cast(), PAGE, MprotectFlags::empty()).unwrap();
            Self { base: base.cast(), room }
        }
    }

    /// The last `len` bytes.
    pub fn last(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.room);
        // SAFETY: inside the mapping, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(self.room - len), len) }
    }

    /// A copy of `bytes` at the end.
    pub fn copy(&mut self, bytes: &[u8]) -> &[u8] {
        let copy = self.last(bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; nothing borrows it any more.
        let _ = unsafe { munmap(self.base.cast(), self.room + PAGE) };
    }
}
