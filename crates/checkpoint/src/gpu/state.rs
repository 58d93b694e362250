//! A state in the memory of GPUs, and where each part of it is.

use std::ptr::NonNull;

use crate::chunk_range::{ChunkRange, cut};
use crate::segments::Segment;
use crate::state::Member;
use savemark_base::buffer::{Owner, align_up};
use savemark_base::error::{Error, Result};
use savemark_host::nvidia::cuda::{self, Address, Gpu};

/// Memory of a GPU, and where it lies in the state.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Where it starts in the state.
    pub offset: u64,
    /// Number of the GPU.
    pub gpu: u32,
    /// Where it is in the GPU's memory.
    pub address: Address,
    /// Bytes.
    pub len: usize,
}

/// Where bytes of the state are.
#[derive(Clone, Copy, Debug)]
pub enum Home {
    /// In the host's memory.
    Host(NonNull<u8>),
    /// In the memory of the GPU with this index in [`GpuState::gpus`].
    Gpu(usize, Address),
}

/// A run of bytes that lie together.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Where it starts: in the state, or in the range that was asked for.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: usize,
    /// Where they are.
    pub home: Home,
}

impl Part {
    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// What of it lies between `start` and `end` of the state, told from `start` on.
    fn within(&self, start: u64, end: u64) -> Self {
        let (from, to) = (self.offset.max(start), self.end().min(end));
        let skip = from - self.offset;
        let home = match self.home {
            // SAFETY: `from` lies inside the part.
            Home::Host(ptr) => Home::Host(unsafe { ptr.add(skip as usize) }),
            Home::Gpu(index, address) => Home::Gpu(index, address + skip),
        };
        Self { offset: from - start, len: (to - from) as usize, home }
    }
}

/// Parts in the order of their offsets; bytes between them are zero when saved, and dropped when restored.
pub struct GpuState {
    parts: Vec<Part>,
    gpus: Vec<Gpu>,
    members: Vec<Member>,
    bytes: u64,
    _owner: Owner,
}

// SAFETY: plain memory, kept alive by the owner; the contract of `GpuState::new` says who may touch it.
unsafe impl Send for GpuState {}
unsafe impl Sync for GpuState {}

impl GpuState {
    /// The state of `members`, `bytes` long, in `extents` of GPUs' memory (one at least) and `segments` of the host's.
    ///
    /// # Safety
    /// Each of them is valid as long as `owner` lives. While this lives nobody else writes to it; nor reads it, if it is
    /// restored into, and then no two share a byte.
    ///
    /// # Errors
    /// `Refused` without a driver, `Usage` for a GPU that is not there, `Failed` if parts overlap or lie outside.
    pub unsafe fn new(
        extents: &[Extent],
        segments: &[Segment],
        members: Vec<Member>,
        bytes: u64,
        owner: Owner,
    ) -> Result<Self> {
        let mut numbers: Vec<u32> = extents.iter().map(|extent| extent.gpu).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let driver = cuda::driver()?;
        let gpus = numbers.iter().map(|number| driver.gpu(*number)).collect::<Result<Vec<_>>>()?;
        let index = |number| numbers.binary_search(&number).expect("it is one of them");
        let on_gpus = extents.iter().map(|e| {
            let home = Home::Gpu(index(e.gpu), e.address);
            Part { offset: e.offset, len: e.len, home }
        });
        let on_host = segments.iter().map(|s| Part { offset: s.offset, len: s.len, home: Home::Host(s.ptr) });
        let mut parts: Vec<Part> = on_gpus.chain(on_host).filter(|part| part.len > 0).collect();
        parts.sort_by_key(|part| part.offset);
        let apart = parts.windows(2).all(|pair| pair[0].end() <= pair[1].offset);
        if !apart || parts.last().is_none_or(|part| part.end() > bytes) || gpus.is_empty() {
            return Err(Error::failed("tensors overlap in the state; this is a bug in savemark"));
        }
        Ok(Self { parts, gpus, members, bytes, _owner: owner })
    }

    /// The GPUs that it is on, at least one.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// Its members.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What lies in `len` bytes at `offset`, in order; offsets are told from there.
    pub fn parts(&self, offset: u64, len: usize) -> impl Iterator<Item = Part> {
        let end = offset + len as u64;
        let first = self.parts.partition_point(|part| part.end() <= offset);
        let inside = self.parts[first..].iter().take_while(move |part| part.offset < end);
        inside.map(move |part| part.within(offset, end))
    }

    /// Chunks of at most `most` bytes, none with bytes of two members: for each GPU those that begin with its bytes. Chunks
    /// of the host's memory alone go with the first.
    pub fn chunks(&self, most: usize) -> Vec<Vec<ChunkRange>> {
        let starts = self.members.iter().map(|member| member.offset);
        let ends = starts.clone().skip(1).chain([self.bytes]);
        let apart: Vec<_> = starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty()).collect();
        let mut lanes = vec![Vec::new(); self.gpus.len()];
        for chunk in cut(self.bytes, most, &apart) {
            let lane = self.parts(chunk.offset, chunk.len).find_map(|part| match part.home {
                Home::Gpu(index, _) => Some(index),
                Home::Host(_) => None,
            });
            lanes[lane.unwrap_or(0)].push(chunk);
        }
        lanes
    }

    /// Where it is, for the record.
    pub fn describe(&self) -> Vec<String> {
        let on = |gpu: &Gpu| format!("state on GPU {}: {}, {}", gpu.index, gpu.name, gpu.pci_address);
        self.gpus.iter().map(on).collect()
    }
}

/// Bytes that all chunks need when each has a slot of its own.
pub fn room(lanes: &[Vec<ChunkRange>], most: usize) -> u64 {
    lanes.iter().map(Vec::len).sum::<usize>() as u64 * align_up(most) as u64
}
