//! A state in memory that is not ours (the caller's tensors): saved out of it and restored into it, without a copy where
//! alignment allows.

use std::ops::Range;
use std::ptr::NonNull;

use super::state::{Member, Sink, Source};
use super::stream_copy::{back, stream_copy};
use savemark_base::buffer::{ALIGN, Buffer, Owner};
use savemark_base::error::{Error, Result};

/// Memory of the caller, and where it lies in the state.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Where it starts in the state.
    pub offset: u64,
    /// Where it is.
    pub ptr: NonNull<u8>,
    /// Bytes, at least 1.
    pub len: usize,
}

impl Segment {
    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }
}

/// Segments in the order of their offsets; bytes between them are zero when saved, and dropped when restored.
#[derive(Debug)]
pub struct Segments {
    segments: Vec<Segment>,
    members: Vec<Member>,
    bytes: u64,
    owner: Owner,
}

// SAFETY: plain memory, kept alive by `owner`; the contract of `Segments::new` says who may touch it.
unsafe impl Send for Segments {}
unsafe impl Sync for Segments {}

impl Segments {
    /// The state of `members`, `bytes` long, in `segments`.
    ///
    /// # Safety
    /// Each segment is valid as long as `owner` lives. While this lives nobody else writes to it; nor reads it, if it is
    /// used as a [`Sink`], and then no two segments share a byte.
    ///
    /// # Errors
    /// `Failed` if segments overlap in the state or lie outside.
    pub unsafe fn new(mut segments: Vec<Segment>, members: Vec<Member>, bytes: u64, owner: Owner) -> Result<Self> {
        segments.retain(|s| s.len > 0);
        segments.sort_by_key(|s| s.offset);
        let apart = segments.windows(2).all(|pair| pair[0].end() <= pair[1].offset);
        if !apart || segments.last().is_some_and(|s| s.end() > bytes) {
            return Err(Error::failed("tensors overlap in the state; this is a bug in savemark"));
        }
        Ok(Self { segments, members, bytes, owner })
    }

    /// The segments that share a byte with `len` bytes at `offset`.
    fn overlapping(&self, offset: u64, len: usize) -> &[Segment] {
        let first = self.segments.partition_point(|s| s.end() <= offset);
        let last = self.segments.partition_point(|s| s.offset < offset + len as u64);
        &self.segments[first..last.max(first)]
    }

    /// The one segment that holds all of a range.
    fn over(&self, offset: u64, len: usize) -> Option<Buffer> {
        let [segment] = self.overlapping(offset, len) else { return None };
        if offset < segment.offset || offset + len as u64 > segment.end() {
            return None;
        }
        // SAFETY: inside the segment, which `owner` keeps alive; who may touch it is the contract of `new`.
        Some(unsafe {
            let ptr = segment.ptr.add((offset - segment.offset) as usize);
            Buffer::over(ptr, len, Owner::clone(&self.owner))
        })
    }

    /// Calls `act` with each shared run of bytes: its place in the range, its address and its length.
    fn each(&self, offset: u64, len: usize, mut act: impl FnMut(usize, NonNull<u8>, usize)) {
        for segment in self.overlapping(offset, len) {
            let (from, to) = (segment.offset.max(offset), segment.end().min(offset + len as u64));
            // SAFETY: `from` lies inside the segment.
            let ptr = unsafe { segment.ptr.add((from - segment.offset) as usize) };
            act((from - offset) as usize, ptr, (to - from) as usize);
        }
    }
}

impl Source for Segments {
    fn members(&self) -> &[Member] {
        &self.members
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn view(&self, offset: u64, len: usize) -> Option<Buffer> {
        self.over(offset, len)
    }
    fn may_change(&self) -> bool {
        true
    }
    fn lent(&self, min: usize) -> Vec<Range<u64>> {
        let page = ALIGN as u64;
        let congruent = self.segments.iter().filter(|s| (s.ptr.as_ptr() as u64).wrapping_sub(s.offset) % page == 0);
        congruent
            .map(|s| s.offset.next_multiple_of(page)..s.end() / page * page)
            .filter(|range| range.end.saturating_sub(range.start) >= min.max(ALIGN) as u64)
            .collect()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut end = 0;
        self.each(offset, out.len(), |start, ptr, len| {
            out[end..start].fill(0);
            end = start + len;
            // SAFETY: `ptr..ptr + len` is the caller's, and a source is only read.
            out[start..end].copy_from_slice(unsafe { std::slice::from_raw_parts(ptr.as_ptr(), len) });
        });
        out[end..].fill(0);
        Ok(())
    }
}

impl Sink for Segments {
    fn prepare(&self, members: &[Member], bytes: u64) -> Result<()> {
        let known: Vec<_> = members.iter().map(|m| (&m.name, m.offset)).collect();
        let ours: Vec<_> = self.members.iter().map(|m| (&m.name, m.offset)).collect();
        if bytes != self.bytes || known != ours {
            return Err(Error::failed("the checkpoint was replaced while it was restored").hint("restore it again"));
        }
        Ok(())
    }
    fn window(&self, offset: u64, len: usize) -> Option<Buffer> {
        let window = self.over(offset, len)?;
        // SAFETY: lent for writing.
        unsafe { back(window.ptr(), len) };
        Some(window)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_seen(offset, bytes, &mut |_| ())
    }
    fn takes_unverified(&self) -> bool {
        true
    }
    fn write_seen(&self, offset: u64, bytes: &[u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut end = 0;
        self.each(offset, bytes.len(), |start, ptr, len| {
            seen(&bytes[end..start]);
            end = start + len;
            // SAFETY: `ptr..ptr + len` is the caller's, lent for writing; chunks are disjoint, so no other worker is here.
            unsafe { stream_copy(ptr.as_ptr(), &bytes[start..end], seen) };
        });
        seen(&bytes[end..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::state::lay_out;
    use savemark_base::buffer::Arena;

    #[test]
    fn aligned_memory_is_lent_and_the_rest_is_copied() {
        let arena = Arena::new(1 << 20).unwrap();
        let at = |offset: usize| NonNull::new(arena.as_ptr().wrapping_add(offset)).unwrap();
        // A tensor at address 64 of a page, laid at offset 8192 + 64 of the state: the same place in its page.
        let big = Segment { offset: 8192 + 64, ptr: at(64), len: 100_000 };
        let small = Segment { offset: 10, ptr: at(200_000), len: 5 };
        let (members, bytes) = lay_out([("state".into(), 110_000, 0o644)]);
        // SAFETY: inside the arena, disjoint, used by this test alone.
        let state = unsafe { Segments::new(vec![big, small], members, bytes, Arc::clone(&arena) as Owner) }.unwrap();
        let view = state.view(12288, 4096).unwrap();
        assert!(view.is_direct(4096, ALIGN) && view.ptr() == at(4096).as_ptr());
        assert!(state.view(8192, 4096).is_none(), "it starts before the tensor");
        assert!(state.view(0, 4096).is_none());
        state.write(0, &[7; 4096]).unwrap();
        state.write(8192, &[8; 4096]).unwrap();
        let mut out = [9; 16384];
        state.read(0, &mut out).unwrap();
        assert_eq!(out[8..17], [0, 0, 7, 7, 7, 7, 7, 0, 0]);
        assert_eq!((out[8192 + 63], out[8192 + 64], out[12287], out[12288]), (0, 8, 8, 0));
    }
}
