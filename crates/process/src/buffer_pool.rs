//! Buffers of one chunk each, that return by being dropped: whoever reads a pipe takes one, whoever has written it drops it.

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use savemark_base::buffer::{Arena, Buffer, Owner, align_up};
use savemark_base::error::Result;

/// One arena in equal parts.
pub struct BufferPool {
    arena: Arc<Arena>,
    bytes: usize,
    free: Mutex<Vec<usize>>,
    returned: Condvar,
}

/// A part that is in use.
struct Lease {
    slots: Arc<BufferPool>,
    index: usize,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slots.free.lock().expect(HELD).push(self.index);
        self.slots.returned.notify_all();
    }
}

const HELD: &str = "no panic while held";

impl BufferPool {
    /// `count` buffers of at least `bytes` each.
    pub fn new(count: usize, bytes: usize) -> Result<Arc<Self>> {
        let bytes = align_up(bytes);
        let arena = Arena::new(count * bytes)?;
        Ok(Arc::new(Self { arena, bytes, free: Mutex::new((0..count).collect()), returned: Condvar::new() }))
    }

    /// A buffer, if one is free.
    pub fn take(self: &Arc<Self>) -> Option<Buffer> {
        let index = self.free.lock().expect(HELD).pop()?;
        let owner: Owner = Arc::new(Lease { slots: Arc::clone(self), index });
        let ptr = NonNull::new(self.arena.as_ptr().wrapping_add(index * self.bytes))?;
        // SAFETY: a part of the arena that the lease, its owner, keeps from everybody else.
        Some(unsafe { Buffer::over(ptr, self.bytes, owner) })
    }

    /// A buffer outside of the arena, for those who must not wait.
    pub fn extra(bytes: usize) -> Result<Buffer> {
        let arena = Arena::new(align_up(bytes))?;
        // SAFETY: the arena was made here, for this buffer alone.
        Ok(unsafe { arena.buffer(0, align_up(bytes)) })
    }

    /// Waits until one is free, but not for long.
    pub fn wait(&self, most: Duration) {
        let free = self.free.lock().expect(HELD);
        if free.is_empty() {
            drop(self.returned.wait_timeout(free, most).expect(HELD));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_returns_when_it_is_dropped() {
        let slots = BufferPool::new(2, 5000).unwrap();
        let (one, two) = (slots.take().unwrap(), slots.take().unwrap());
        assert!(slots.take().is_none());
        assert_ne!(one.ptr(), two.ptr());
        assert_eq!(one.len(), 8192);
        let place = one.ptr();
        drop(one);
        assert_eq!(slots.take().unwrap().ptr(), place);
    }
}
