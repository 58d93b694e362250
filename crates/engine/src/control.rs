//! What the outside may see and say while a trial runs: progress out, cancel in.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Shared between the thread that runs a trial and the one that watches it.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    phase: Mutex<String>,
}

/// A moment's progress.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The phase under way.
    pub phase: String,
    /// User bytes moved in it.
    pub done_bytes: u64,
    /// User bytes it will move; 0 where it is bounded by time.
    pub total_bytes: u64,
}

impl Control {
    /// Asks the workers to stop at their next I/O.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// `Err(interrupted)` once somebody has cancelled.
    pub fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Begins a phase: its name and the bytes it will move.
    pub fn begin(&self, phase: &str, total_bytes: u64) {
        *self.phase.lock().expect("no panic while held") = phase.to_string();
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.done_bytes.store(0, Ordering::Relaxed);
    }

    /// Counts user bytes as moved; returns the new sum.
    pub fn add(&self, bytes: u64) -> u64 {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// User bytes moved in this phase by all workers.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Where the trial stands.
    pub fn progress(&self) -> Progress {
        Progress {
            phase: self.phase.lock().expect("no panic while held").clone(),
            done_bytes: self.done_bytes(),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
        }
    }
}
