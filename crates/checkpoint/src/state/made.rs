//! States that are no user's: in memory, generated as they are read, and none at all.

use std::sync::Arc;

use super::{Member, Sink, Source, lay_out};
use crate::stream_copy::stream_copy;
use savemark_base::buffer::{ALIGN, Arena, Buffer, align_up};
use savemark_base::error::{Error, Result};
use savemark_base::parallel;
use savemark_base::payload::marks::Marks;
use savemark_base::payload::written::Written;
use savemark_base::payload::{self, BLOCK, PayloadKind};

/// What one CPU generates before it takes the next part.
const PART: usize = 4 << 20;

/// A state in memory: the source of a measured save, or the destination of a restore.
#[derive(Debug)]
pub struct MemoryState {
    arena: Arc<Arena>,
    members: Vec<Member>,
    bytes: u64,
}

impl MemoryState {
    /// A state of one member, `state.bin`, filled with `kind`.
    pub fn generate(kind: PayloadKind, seed: u64, bytes: u64) -> Result<Self> {
        let mut state = Self::empty(bytes)?;
        (state.members, state.bytes) = lay_out([("state.bin".to_string(), bytes, 0o644)]);
        parallel::share_out((bytes as usize).div_ceil(PART), |part| {
            let start = part * PART;
            let len = (bytes as usize - start).min(PART);
            // SAFETY: the arena is new, and this range of it no other thread's.
            let mut buffer = unsafe { state.arena.buffer(start, align_up(len)) };
            for (at, block) in buffer[..len].chunks_mut(ALIGN).enumerate() {
                payload::fill(kind, seed, (start + at * ALIGN) as u64, block);
            }
        });
        Ok(state)
    }

    /// Makes every page of it another one than in the save before, as training does: a storage that removes duplicates would
    /// otherwise write the first save alone. A state of zeros stays one.
    pub fn renew(&mut self) {
        let mut marks = Marks::new();
        for (member, page) in self.members.iter().flat_map(|m| (0..m.bytes / BLOCK as u64).map(move |page| (m, page))) {
            // SAFETY: inside a member of the state, which nobody else holds: `self` is borrowed mutably.
            let mut page = unsafe { self.arena.buffer((member.offset as usize) + page as usize * BLOCK, BLOCK) };
            if page[..8] != [0; 8] {
                marks.set(&mut page);
            }
        }
    }

    /// What a save of it writes, sampled.
    pub fn sample(&self) -> Written {
        let mut written = Written::default();
        for offset in (0..self.bytes).step_by(ALIGN) {
            written.add(&self.view(offset, ALIGN).expect("memory has a view"));
        }
        written
    }

    /// Room for a state of up to `bytes`, zero.
    pub fn empty(bytes: u64) -> Result<Self> {
        Ok(Self { arena: Arena::new(align_up(bytes as usize))?, members: Vec::new(), bytes: 0 })
    }

    /// A state of these members, zero, to be filled through [`Sink::window`].
    pub fn with_members(members: Vec<Member>, bytes: u64) -> Result<Self> {
        Ok(Self { arena: Arena::new(align_up(bytes as usize))?, members, bytes })
    }

    /// Bytes it can hold.
    pub fn capacity(&self) -> u64 {
        self.arena.len() as u64
    }
}

impl Source for MemoryState {
    fn members(&self) -> &[Member] {
        &self.members
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn view(&self, offset: u64, len: usize) -> Option<Buffer> {
        // SAFETY: a source is only read.
        Some(unsafe { self.arena.view(offset as usize, align_up(len)) })
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let view = self.view(offset, out.len()).expect("memory has a view");
        out.copy_from_slice(&view[..out.len()]);
        Ok(())
    }
}

impl Sink for MemoryState {
    fn prepare(&self, _: &[Member], bytes: u64) -> Result<()> {
        if bytes > self.capacity() {
            return Err(Error::failed(format!("a state of {bytes} bytes does not fit into {}", self.capacity())));
        }
        Ok(())
    }
    fn window(&self, offset: u64, len: usize) -> Option<Buffer> {
        // SAFETY: restore asks for each range once, and chunks start on page boundaries, so windows are disjoint.
        Some(unsafe { self.arena.buffer(offset as usize, align_up(len)) })
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_seen(offset, bytes, &mut |_| ())
    }
    fn takes_unverified(&self) -> bool {
        true
    }
    fn write_seen(&self, offset: u64, bytes: &[u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut window = self.window(offset, bytes.len()).expect("memory has a window");
        // SAFETY: inside the window, which is not where `bytes` are.
        unsafe { stream_copy(window[..bytes.len()].as_mut_ptr(), bytes, seen) };
        Ok(())
    }
}

/// A state that is generated as it is read: it may be larger than memory.
#[derive(Debug)]
pub struct GeneratedState {
    members: Vec<Member>,
    bytes: u64,
    kind: PayloadKind,
    seed: u64,
}

impl GeneratedState {
    /// `bytes` of `kind`, as one member.
    pub fn new(kind: PayloadKind, seed: u64, bytes: u64) -> Self {
        let (members, bytes) = lay_out([("state.bin".to_string(), bytes, 0o644)]);
        Self { members, bytes, kind, seed }
    }
}

impl Source for GeneratedState {
    fn members(&self) -> &[Member] {
        &self.members
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        payload::fill(self.kind, self.seed, offset, out);
        Ok(())
    }
}

/// Checks restored bytes against what was generated, without storing them.
impl Sink for GeneratedState {
    fn prepare(&self, members: &[Member], _: u64) -> Result<()> {
        if members == self.members { Ok(()) } else { Err(Error::corrupt("the checkpoint holds another state")) }
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match payload::verify(self.kind, self.seed, offset, bytes) {
            None => Ok(()),
            Some(wrong) => Err(Error::corrupt(format!("restored byte {wrong} of the state is not the one saved"))),
        }
    }
}

/// Takes everything and keeps nothing: restoring into it is verifying.
#[derive(Debug)]
pub struct Discard;

impl Sink for Discard {
    fn prepare(&self, _: &[Member], _: u64) -> Result<()> {
        Ok(())
    }
    fn write(&self, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }
}
