//! Memory of GPUs that is filled with made-up data: the state of a measured save, and the destination of its restore.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::state::{Extent, GpuState};
use crate::state::{Member, lay_out};
use savemark_base::buffer::{ALIGN, Arena, Owner};
use savemark_base::error::{Error, Result};
use savemark_base::payload::{self, PayloadKind};
use savemark_host::nvidia::cuda::{self, Memory};

/// Filled and read back in pieces of this size.
const PIECE: usize = 8 << 20;

/// An equal part of a state on each of some GPUs.
pub struct GpuMemory {
    memories: Vec<Memory>,
    members: Vec<Member>,
    bytes: u64,
    kind: PayloadKind,
    seed: u64,
    /// Whether it holds what it should.
    filled: AtomicBool,
}

impl GpuMemory {
    /// Room for `bytes` on these GPUs together, to be filled with `kind`.
    ///
    /// # Errors
    /// `Refused` without a driver, `Usage` for a GPU that is not there, `Failed` where its memory is too small.
    pub fn new(gpus: &[u32], bytes: u64, kind: PayloadKind, seed: u64) -> Result<Self> {
        let share = bytes.div_ceil(gpus.len() as u64).next_multiple_of(ALIGN as u64);
        let part = |index: usize| share.min(bytes.saturating_sub(share * index as u64));
        let shares = gpus.iter().enumerate().map(|(index, gpu)| (*gpu, part(index))).filter(|(_, bytes)| *bytes > 0);
        let shares: Vec<(u32, u64)> = shares.collect();
        let (members, bytes) = lay_out(shares.iter().map(|(gpu, bytes)| (format!("gpu{gpu}.bin"), *bytes, 0o644)));
        let driver = cuda::driver()?;
        let memories = shares.iter().map(|(gpu, bytes)| driver.gpu(*gpu)?.memory(*bytes as usize));
        let memories = memories.collect::<Result<_>>()?;
        Ok(Self { memories, members, bytes, kind, seed, filled: AtomicBool::new(false) })
    }

    /// Fills it, unless it holds what it should.
    pub fn fill(&self) -> Result<()> {
        if self.filled.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.pieces(|memory, place, offset, bytes| {
            payload::fill(self.kind, self.seed, offset, bytes);
            memory.fill(place, bytes)
        })?;
        self.filled.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Overwrites all of it, so that what is found later was restored.
    pub fn spoil(&self) -> Result<()> {
        self.filled.store(false, Ordering::Relaxed);
        self.memories.iter().try_for_each(|memory| memory.set(0xA5))
    }

    /// Reads all of it back.
    ///
    /// # Errors
    /// `Corrupt`, naming the first byte that is not what was saved.
    pub fn check(&self) -> Result<()> {
        self.pieces(|memory, place, offset, bytes| {
            memory.read(place, bytes)?;
            match payload::verify(self.kind, self.seed, offset, bytes) {
                None => Ok(()),
                Some(wrong) => Err(Error::corrupt(format!(
                    "byte {wrong} of the state on GPU {} is not the one saved",
                    memory.gpu().index
                ))),
            }
        })?;
        self.filled.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Calls `act` with each piece: the memory, the place in it, the offset in the state, and room of the host.
    fn pieces(&self, mut act: impl FnMut(&Memory, usize, u64, &mut [u8]) -> Result<()>) -> Result<()> {
        let arena = Arena::new(PIECE)?;
        // SAFETY: the arena was made here, for this buffer alone.
        let mut room = unsafe { arena.buffer(0, PIECE) };
        for (memory, member) in self.memories.iter().zip(&self.members) {
            for place in (0..memory.len).step_by(PIECE) {
                let len = PIECE.min(memory.len - place);
                act(memory, place, member.offset + place as u64, &mut room[..len])?;
            }
        }
        Ok(())
    }

    /// It as a state.
    pub fn state(self: &Arc<Self>) -> Result<GpuState> {
        let extents = self.memories.iter().zip(&self.members).map(|(memory, member)| Extent {
            offset: member.offset,
            gpu: memory.gpu().index,
            address: memory.address,
            len: memory.len,
        });
        let (extents, members): (Vec<_>, _) = (extents.collect(), self.members.clone());
        // SAFETY: each extent is memory of `self`, which is the owner; a trial has one phase at a time.
        unsafe { GpuState::new(&extents, &[], members, self.bytes, Arc::clone(self) as Owner) }
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
