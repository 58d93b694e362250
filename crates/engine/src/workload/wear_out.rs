//! What follows a phase's deadline: every worker goes on until it has done as much as the fastest.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Result;
use crate::worker::Meter;

/// Where the workers meet at the deadline.
pub struct WearOut {
    missing: AtomicUsize,
    most: AtomicU64,
}

impl WearOut {
    /// For `workers`, each of which arrives once, also if it fails.
    pub fn new(workers: usize) -> Self {
        Self { missing: AtomicUsize::new(workers), most: AtomicU64::new(0) }
    }

    /// A worker has done `count` when the deadline passed.
    pub fn arrive(&self, count: u64) {
        self.most.fetch_max(count, Ordering::Relaxed);
        self.missing.fetch_sub(1, Ordering::Release);
    }

    /// Waits for all; returns what the fastest had done. Workers are at most one call apart, so this is short.
    pub fn wait(&self, meter: &Meter) -> Result<u64> {
        while self.missing.load(Ordering::Acquire) > 0 {
            meter.check()?;
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(self.most.load(Ordering::Relaxed))
    }
}
