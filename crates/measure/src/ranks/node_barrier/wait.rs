//! How a rank waits for another one to change a word: it looks for a moment, and then sleeps until it is woken.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::time::Duration;

use rustix::thread::futex::{self, Flags};
use rustix::thread::sched_yield;

use savemark_base::clock;

/// For so long it is looked: longer than waking up takes, too short to disturb who still measures.
const LOOK_NS: u64 = 100_000;
/// Who sleeps looks again after so long whether it is to wait any longer.
const SLICE: Duration = Duration::from_millis(100);
/// What ranks do between two meetings without measuring takes a fraction of this: who got the processor for longer works.
const LONG_TURN_NS: u64 = 300_000;
/// For so long a rank without a processor of its own then sleeps at once.
const CROWDED_NS: u64 = 1_000_000_000;

/// How one rank waits.
pub struct Wait {
    /// Each rank has a processor: one that looks takes it from none of the others.
    alone: bool,
    /// Until then letting others run between two looks costs more than being woken.
    crowded_until_ns: AtomicU64,
}

impl Wait {
    /// Of a rank that has a processor `alone`, or shares it with others.
    pub fn new(alone: bool) -> Self {
        Self { alone, crowded_until_ns: AtomicU64::new(0) }
    }

    /// Looks for a moment whether `done`. Who shares its processor lets the others run between two looks, for the one who is
    /// waited for may be among them; as long as they give it back soon, which work beside the ranks does not.
    pub fn look(&self, done: impl Fn() -> bool) -> bool {
        let mut now = clock::now();
        let until = now + LOOK_NS;
        if !self.alone && now < self.crowded_until_ns.load(Relaxed) {
            return done();
        }
        while now < until {
            for _ in 0..16 {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let before = now;
            if !self.alone {
                sched_yield();
            }
            now = clock::now();
            if !self.alone && now - before > LONG_TURN_NS {
                self.crowd();
            }
        }
        done()
    }

    /// Somebody else needs this processor for longer.
    pub(super) fn crowd(&self) {
        self.crowded_until_ns.store(clock::now() + CROWDED_NS, Relaxed);
    }
}

/// A word that some wait for, and how many of them sleep. Alone in its line of the processors' caches.
#[repr(align(128))]
pub struct Word {
    value: AtomicU32,
    asleep: AtomicU32,
}

impl Word {
    /// What it is now, with all that was written before it.
    pub fn value(&self) -> u32 {
        self.value.load(Acquire)
    }

    /// Makes it `value`, for all to see; who sleeps is woken by [`Word::wake`].
    pub fn set(&self, value: u32) {
        self.value.store(value, SeqCst);
    }

    /// Adds one; returns the sum.
    pub fn add(&self) -> u32 {
        self.value.fetch_add(1, SeqCst) + 1
    }

    /// Sleeps while it is `now`, not for long.
    pub fn sleep(&self, now: u32) {
        // Counted before the kernel looks at the value, as the value is changed before it is looked who sleeps: one of both sees.
        self.asleep.fetch_add(1, SeqCst);
        let slice = SLICE.try_into().expect("a tenth of a second");
        // Whatever ends the sleep: it is looked again.
        let _ = futex::wait(&self.value, Flags::empty(), now, Some(&slice));
        self.asleep.fetch_sub(1, SeqCst);
    }

    /// Wakes all who sleep; without a system call where nobody does.
    pub fn wake(&self) {
        fence(SeqCst);
        if self.asleep.load(SeqCst) > 0 {
            let _ = futex::wake(&self.value, Flags::empty(), i32::MAX as u32);
        }
    }
}
