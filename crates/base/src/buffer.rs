//! Memory for moving bytes: allocated once, page-aligned, touched, and reused.
//!
//! On a virtual machine the first touch of a page costs more than the disk, so buffers outlive trials.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::{Error, Result};
use crate::parallel;

/// Everything the engine stores starts and ends on such a boundary: the largest alignment direct I/O asks for.
pub const ALIGN: usize = 4096;

/// `bytes` rounded up to [`ALIGN`].
pub fn align_up(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

/// One mapping of anonymous memory, backed by huge pages where the kernel gives them.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    len: usize,
    pages: Pages,
}

/// The pages that memory is asked for. An I/O into small ones is cut into as many pieces for the device as it has pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Of 2 MiB, where the kernel gives them.
    #[default]
    Huge,
    /// Of 4 KiB, as programs have that do not ask.
    Small,
}

// SAFETY: an arena is plain memory; who may touch which part is decided by the `Buffer`s cut from it.
unsafe impl Send for Arena {}
unsafe impl Sync for Arena {}

const HUGE: usize = 2 << 20;
/// What one CPU touches before it takes the next part: most arenas are smaller, and touched by the thread that makes them.
const TOUCHED: usize = 32 << 20;

impl Arena {
    /// Maps at least `len` bytes and touches every page, so that no later measurement pays for that.
    pub fn new(len: usize) -> Result<Arc<Self>> {
        Self::with(len, Pages::Huge)
    }

    /// As [`Arena::new`], of such pages.
    pub fn with(len: usize, pages: Pages) -> Result<Arc<Self>> {
        let len = len.max(ALIGN).next_multiple_of(if len >= HUGE { HUGE } else { ALIGN });
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let base = base.map_err(|e| Error {
            source: Some(e.into()),
            ..Error::failed(format!("cannot allocate {len} bytes of buffers"))
                .hint("use a smaller --size or fewer --streams")
        })?;
        let arena = Self { base: NonNull::new(base.cast()).expect("mmap never returns null"), len, pages };
        let advice = match pages {
            Pages::Huge => Advice::LinuxHugepage,
            Pages::Small => Advice::LinuxNoHugepage,
        };
        // SAFETY: the mapping is ours. Either is a wish: refused, the arena works with what it gets.
        let _ = unsafe { madvise(base, len, advice) };
        arena.touch();
        Ok(Arc::new(arena))
    }

    /// Writes to every page. By all CPUs where there is much of it: the host of a virtual machine gives memory to each of them
    /// by itself.
    fn touch(&self) {
        parallel::share_out(self.len.div_ceil(TOUCHED), |part| {
            let start = part * TOUCHED;
            for page in (start..self.len.min(start + TOUCHED)).step_by(ALIGN) {
                // SAFETY: inside the mapping, and no other thread's part.
                unsafe { self.base.as_ptr().add(page).write_volatile(0) };
            }
        });
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)] // an arena is never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// Start address.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Cuts the arena into buffers of `size` bytes, a multiple of [`ALIGN`].
    ///
    /// # Safety
    /// As of [`Arena::buffer`], for all of it: whoever cuts it twice has two buffers over the same bytes.
    pub unsafe fn cut(self: &Arc<Self>, size: usize) -> Vec<Buffer> {
        // SAFETY: the caller's promise.
        unsafe { self.cut_some(size, usize::MAX) }
    }

    /// As [`Arena::cut`], at most so many: an arena that an earlier trial has left may be far larger than this one needs.
    ///
    /// # Safety
    /// As of [`Arena::cut`].
    pub unsafe fn cut_some(self: &Arc<Self>, size: usize, most: usize) -> Vec<Buffer> {
        assert!(size > 0 && size.is_multiple_of(ALIGN));
        // SAFETY: the ranges are disjoint, and nobody else's, by the caller's promise.
        (0..most.min(self.len / size)).map(|i| unsafe { self.buffer(i * size, size) }).collect()
    }

    /// A buffer over `len` bytes at `offset`.
    ///
    /// # Safety
    /// While it lives, nobody else may write these bytes; nor read them, if it will be written.
    pub unsafe fn buffer(self: &Arc<Self>, offset: usize, len: usize) -> Buffer {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: inside the mapping, by the assertion.
        let ptr = unsafe { NonNull::new_unchecked(self.as_ptr().add(offset)) };
        Buffer { ptr, len, lent: false, owner: Arc::clone(self) as Owner }
    }

    /// A buffer over `len` bytes at `offset` that is only read, so that there may be several.
    ///
    /// # Safety
    /// While it or a copy of it lives, nobody may write these bytes.
    pub unsafe fn view(self: &Arc<Self>, offset: usize, len: usize) -> Buffer {
        // SAFETY: the caller's promise is the stronger one.
        Buffer { lent: true, ..unsafe { self.buffer(offset, len) } }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and every `Buffer` into it holds an `Arc`, so none is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Whatever keeps memory alive: an [`Arena`], or a caller's own object.
pub type Owner = Arc<dyn Any + Send + Sync>;

/// Bytes that one owner may use: they move into an I/O and come back with the completion.
#[derive(Debug)]
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
    /// Made by [`Arena::view`].
    lent: bool,
    owner: Owner,
}

// SAFETY: a buffer is the only handle to its bytes (contract of `Arena::buffer` and `Buffer::over`).
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer over memory that is not an arena's.
    ///
    /// # Safety
    /// `ptr..ptr + len` is valid as long as `owner` lives. While the buffer lives, nobody else may write these bytes;
    /// nor read them, if it will be written.
    pub unsafe fn over(ptr: NonNull<u8>, len: usize, owner: Owner) -> Self {
        Self { ptr, len, lent: false, owner }
    }

    /// A buffer of at least `bytes` with memory of its own.
    pub fn alone(bytes: usize) -> Result<Self> {
        let arena = Arena::new(align_up(bytes))?;
        // SAFETY: the arena was made here, for this buffer alone.
        Ok(unsafe { arena.buffer(0, align_up(bytes)) })
    }

    /// Whether it lies in `arena`.
    pub fn is_in(&self, arena: &Arena) -> bool {
        let start = arena.as_ptr() as usize;
        (start..start + arena.len()).contains(&(self.ptr() as usize))
    }

    /// Whether `len` of its bytes can be moved without a copy in between, where memory must start on a multiple of `alignment`.
    pub fn is_direct(&self, len: usize, alignment: usize) -> bool {
        self.len >= len && (self.ptr() as usize).is_multiple_of(alignment)
    }

    /// Start address.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Another handle to the same bytes, if they are only read ([`Arena::view`]): to keep them after the I/O without a copy.
    pub fn share(&self) -> Option<Self> {
        self.lent.then(|| Self { ptr: self.ptr, len: self.len, lent: true, owner: Arc::clone(&self.owner) })
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: inside memory that lives as long as this.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        assert!(!self.lent, "a view is only read; this is a bug in savemark");
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

/// One arena per worker, kept between trials and grown when a trial needs more.
#[derive(Debug, Default)]
pub struct Pool {
    arenas: Vec<Arc<Arena>>,
}

impl Pool {
    /// One arena of at least `bytes` for each of `workers`. What fits already is reused.
    pub fn take(&mut self, workers: usize, bytes: usize) -> Result<Vec<Arc<Arena>>> {
        self.take_of(workers, bytes, Pages::Huge)
    }

    /// As [`Pool::take`], of such pages.
    pub fn take_of(&mut self, workers: usize, bytes: usize, pages: Pages) -> Result<Vec<Arc<Arena>>> {
        for slot in 0..workers {
            match self.arenas.get(slot) {
                Some(arena) if arena.len() >= bytes && arena.pages == pages => {}
                Some(_) => self.arenas[slot] = Arena::with(bytes, pages)?,
                None => self.arenas.push(Arena::with(bytes, pages)?),
            }
        }
        Ok(self.arenas[..workers].to_vec())
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.len() as u64).sum()
    }
}

/// The buffers of the last save or restore of this process, for the next one: a program that saves every few minutes pays
/// for their first touch once. More than 64 MiB are given back.
#[derive(Debug, Default)]
pub struct Kept(Pool);

static KEPT: Mutex<Option<Pool>> = Mutex::new(None);

impl Kept {
    /// Bytes that stay between two calls; the default settings need a third of it.
    const MOST: u64 = 64 << 20;

    /// What is kept, now the caller's alone; of two callers at once one gets nothing.
    pub fn take() -> Self {
        Self(KEPT.lock().expect("no panic while held").take().unwrap_or_default())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.0.bytes() <= Self::MOST {
            *KEPT.lock().expect("no panic while held") = Some(std::mem::take(&mut self.0));
        }
    }
}

impl Deref for Kept {
    type Target = Pool;
    fn deref(&self) -> &Pool {
        &self.0
    }
}

impl DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut Pool {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_buffers_are_kept_for_the_next_call_and_large_ones_are_not() {
        let address = Kept::take_arena;
        let first = address(&mut Kept::take(), 1 << 20);
        assert_eq!(address(&mut Kept::take(), 1 << 19), first, "reused, though less was asked for");
        let (mut one, mut other) = (Kept::take(), Kept::take());
        assert_ne!(address(&mut one, 4096), address(&mut other, 4096), "two callers never share");
        other.take(1, 1 + Kept::MOST as usize).unwrap();
        drop((one, other));
        assert!(Kept::take().bytes() <= Kept::MOST);
    }

    #[test]
    fn memory_of_other_pages_is_made_anew() {
        let mut pool = Pool::default();
        let mut at = |pages| pool.take_of(1, 4 << 20, pages).unwrap()[0].clone();
        let (huge, small) = (at(Pages::Huge), at(Pages::Small));
        assert!(!Arc::ptr_eq(&huge, &small) && Arc::ptr_eq(&small, &at(Pages::Small)));
        assert_eq!(huge_bytes(&small), 0, "the kernel was asked for small pages");
    }

    /// Bytes on huge pages of the mapping that holds `arena`, as the kernel counts them. The kernel joins a mapping with its neighbour
    /// of the same kind, so the arena need not be its start.
    fn huge_bytes(arena: &Arena) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let address = arena.as_ptr() as usize;
        let mapping = maps.lines().skip_while(|line| !range(line).is_some_and(|range| range.contains(&address)));
        let line = mapping.skip(1).find(|line| line.starts_with("AnonHugePages:")).expect("every mapping has the line");
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// The addresses of a mapping, if `line` is the first of its lines: `7f0000000000-7f0000400000 rw-p …`.
    fn range(line: &str) -> Option<std::ops::Range<usize>> {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    }

    impl Kept {
        fn take_arena(&mut self, bytes: usize) -> usize {
            self.0.take(1, bytes).unwrap()[0].as_ptr() as usize
        }
    }
}
