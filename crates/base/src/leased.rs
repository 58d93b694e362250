//! Buffers of one length that return to their pool when they are dropped.

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::buffer::{Arena, Buffer, Owner, align_up};
use crate::error::Result;

/// Buffers that were made once, and are lent.
pub struct LeasedPool {
    bytes: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    arenas: Vec<Arc<Arena>>,
    free: Vec<Slot>,
}

/// Which arena, and where in it.
type Slot = (usize, usize);

/// A buffer that is in use.
struct Lease {
    pool: Arc<LeasedPool>,
    slot: Slot,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.state.lock().expect(HELD).free.push(self.slot);
        self.pool.returned.notify_all();
    }
}

const HELD: &str = "no panic while held";

impl LeasedPool {
    /// Of buffers of at least `bytes` each; none is there yet.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes: align_up(bytes), state: Mutex::default(), returned: Condvar::new() })
    }

    /// As [`LeasedPool::new`], with `count` of them.
    pub fn with(count: usize, bytes: usize) -> Result<Arc<Self>> {
        let bytes = align_up(bytes);
        let arenas = vec![Arena::new(count * bytes)?];
        let free = (0..count).map(|index| (0, index * bytes)).collect();
        Ok(Arc::new(Self { bytes, state: Mutex::new(State { arenas, free }), returned: Condvar::new() }))
    }

    /// Bytes of a buffer.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A buffer, if one is free.
    pub fn take(self: &Arc<Self>) -> Option<Buffer> {
        let mut state = self.state.lock().expect(HELD);
        let slot = state.free.pop()?;
        Some(self.lend(&state, slot))
    }

    /// A buffer; one more is made where none is free.
    pub fn take_or_make(self: &Arc<Self>) -> Result<Buffer> {
        if let Some(buffer) = self.take() {
            return Ok(buffer);
        }
        let arena = Arena::new(self.bytes)?; // others need not wait until it was touched
        let mut state = self.state.lock().expect(HELD);
        state.arenas.push(arena);
        Ok(self.lend(&state, (state.arenas.len() - 1, 0)))
    }

    fn lend(self: &Arc<Self>, state: &State, slot: Slot) -> Buffer {
        let owner: Owner = Arc::new(Lease { pool: Arc::clone(self), slot });
        let start = NonNull::new(state.arenas[slot.0].as_ptr().wrapping_add(slot.1)).expect("memory is not at 0");
        // SAFETY: a part of an arena of the pool, which the lease, its owner, keeps alive and from everybody else.
        unsafe { Buffer::over(start, self.bytes, owner) }
    }

    /// Waits until one is free, but not for long.
    pub fn wait(&self, most: Duration) {
        let state = self.state.lock().expect(HELD);
        if state.free.is_empty() {
            drop(self.returned.wait_timeout(state, most).expect(HELD));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_returns_when_it_is_dropped() {
        let pool = LeasedPool::with(2, 5000).unwrap();
        let (one, two) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none());
        assert_ne!(one.ptr(), two.ptr());
        assert_eq!(one.len(), 8192);
        let start = one.ptr();
        drop(one);
        assert_eq!(pool.take().unwrap().ptr(), start);
    }

    #[test]
    fn one_more_is_made_only_where_none_is_free() {
        let pool = LeasedPool::new(4096);
        let (mut one, mut two) = (pool.take_or_make().unwrap(), pool.take_or_make().unwrap());
        (one[0], two[0]) = (1, 2);
        assert_eq!((one[0], two[0]), (1, 2));
        let start = two.ptr();
        drop(two);
        assert_eq!(pool.take_or_make().unwrap().ptr(), start);
    }
}
