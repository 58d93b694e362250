//! Pinned memory of the host that chunks pass on their way between a GPU and the storage.
//!
//! It grows as it is needed, up to a limit, and outlives the save: pages that were touched and pinned once serve every later one.

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use savemark_base::buffer::{Arena, Buffer, Owner, align_up};
use savemark_base::error::Result;
use savemark_host::nvidia::cuda::{Gpu, Pinned};

/// It grows by so much at a time: pinning in small pieces costs a call of the kernel for each.
const BLOCK: usize = 64 << 20;

/// Arenas are as long as whole huge pages.
const HUGE: usize = 2 << 20;

/// What the last save or restore has left for the next one.
static KEPT: Mutex<Vec<Block>> = Mutex::new(Vec::new());

const HELD: &str = "no panic while held";

/// A piece of pinned memory. The pin is dropped before the memory.
struct Block {
    _pinned: Pinned,
    arena: Arc<Arena>,
}

/// How much there may be of it.
#[derive(Clone, Copy, Debug)]
pub enum Room {
    /// The user's limit: what is kept beyond it is given back.
    Most(u64),
    /// It grows to so much; what is kept already may be more.
    Wanted(u64),
}

/// Slots of one chunk each; one returns when the [`Buffer`] over it is dropped.
pub struct Staging {
    /// Pins for every GPU, whichever asks.
    gpu: Gpu,
    slot_bytes: usize,
    /// Slots that there may be, at least 1.
    most: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    blocks: Vec<Block>,
    /// Slots of all blocks.
    slots: usize,
    /// Block and index in it.
    free: Vec<(usize, usize)>,
}

/// A slot that is in use.
struct Lease {
    staging: Arc<Staging>,
    slot: (usize, usize),
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.staging.state.lock().expect(HELD).free.push(self.slot);
        self.staging.returned.notify_all();
    }
}

impl Staging {
    /// Slots for chunks of `chunk_bytes`, one at least. What is kept of a call before is used again.
    pub fn take(gpu: &Gpu, chunk_bytes: usize, room: Room) -> Arc<Self> {
        let slot_bytes = align_up(chunk_bytes);
        let (Room::Most(bytes) | Room::Wanted(bytes)) = room;
        let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(usize::MAX / 2).div_ceil(slot_bytes).max(1);
        let (mut slots_left, mut bytes_left) = match room {
            Room::Most(_) => (most, most.saturating_mul(slot_bytes).next_multiple_of(HUGE)),
            Room::Wanted(_) => (usize::MAX, usize::MAX),
        };
        let mut state = State::default();
        for block in std::mem::take(&mut *KEPT.lock().expect(HELD)) {
            let slots = (block.arena.len() / slot_bytes).min(slots_left);
            if slots > 0 && block.arena.len() <= bytes_left {
                slots_left -= slots;
                bytes_left -= block.arena.len();
                state.add(block, slots);
            }
        }
        Arc::new(Self { gpu: gpu.clone(), slot_bytes, most, state: Mutex::new(state), returned: Condvar::new() })
    }

    /// A slot over `len` bytes, if one is free or can be made.
    ///
    /// # Errors
    /// No memory, or none that may be pinned.
    pub fn slot(self: &Arc<Self>, len: usize) -> Result<Option<Buffer>> {
        let free = self.state.lock().expect(HELD).free.pop();
        let Some(slot) = free.map_or_else(|| self.grow(), |slot| Ok(Some(slot)))? else { return Ok(None) };
        let base = self.state.lock().expect(HELD).blocks[slot.0].arena.as_ptr();
        let ptr = NonNull::new(base.wrapping_add(slot.1 * self.slot_bytes)).expect("inside an arena");
        let owner: Owner = Arc::new(Lease { staging: Arc::clone(self), slot });
        assert!(align_up(len) <= self.slot_bytes);
        // SAFETY: a part of the arena that the lease, its owner, keeps from everybody else.
        Ok(Some(unsafe { Buffer::over(ptr, align_up(len), owner) }))
    }

    /// Makes another block, unless there are as many slots as may be; returns one of its slots. Touching and pinning take long,
    /// so nobody is kept from returning a slot meanwhile.
    fn grow(&self) -> Result<Option<(usize, usize)>> {
        let mut state = self.state.lock().expect(HELD);
        let count = (BLOCK / self.slot_bytes).max(1).min(self.most.saturating_sub(state.slots));
        if count == 0 {
            return Ok(None);
        }
        state.slots += count;
        drop(state);
        let block = self.block(count * self.slot_bytes);
        let mut state = self.state.lock().expect(HELD);
        state.slots -= count;
        state.add(block?, count);
        Ok(state.free.pop())
    }

    fn block(&self, bytes: usize) -> Result<Block> {
        let arena = Arena::new(bytes)?;
        // SAFETY: the block holds the arena as long as the pin.
        let pinned = unsafe { self.gpu.pin(arena.as_ptr(), arena.len()) };
        let pinned = pinned
            .map_err(|e| e.hint("a smaller --staging needs less pinned memory; `ulimit -l` may limit it, too"))?;
        Ok(Block { _pinned: pinned, arena })
    }

    /// Makes all slots that there may be: touched and pinned before a clock starts.
    pub fn grow_whole(&self) -> Result<()> {
        while let Some(slot) = self.grow()? {
            self.state.lock().expect(HELD).free.push(slot);
        }
        Ok(())
    }

    /// Waits until a slot is returned, but not for long.
    pub fn wait(&self, most: Duration) {
        let state = self.state.lock().expect(HELD);
        if state.free.is_empty() {
            drop(self.returned.wait_timeout(state, most).expect(HELD));
        }
    }

    /// Bytes that it holds now.
    pub fn bytes(&self) -> u64 {
        self.state.lock().expect(HELD).blocks.iter().map(|block| block.arena.len() as u64).sum()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let state = std::mem::take(self.state.get_mut().expect(HELD));
        let mut kept = KEPT.lock().expect(HELD);
        // Of two at once the one that ends last stays.
        *kept = state.blocks;
    }
}

impl State {
    fn add(&mut self, block: Block, slots: usize) {
        self.free.extend((0..slots).rev().map(|index| (self.blocks.len(), index)));
        self.slots += slots;
        self.blocks.push(block);
    }
}
