//! What follows a phase's deadline: every worker goes on until it has done as much as the fastest.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use savemark_base::error::{Error, Result};
use savemark_measure::control::Control;
use savemark_measure::worker::Meter;

/// Where the workers meet at the deadline.
pub struct WearOut<'a> {
    control: &'a Control,
    missing: AtomicUsize,
    most: AtomicU64,
    /// All ranks know how much that is, or that one of them failed.
    agreed: AtomicBool,
    failed: AtomicBool,
}

impl<'a> WearOut<'a> {
    /// For `workers`, each of which arrives once, also if it fails; `control` knows the other ranks.
    pub fn new(workers: usize, control: &'a Control) -> Self {
        let [agreed, failed] = [false, false].map(AtomicBool::new);
        Self { control, missing: AtomicUsize::new(workers), most: AtomicU64::new(0), agreed, failed }
    }

    /// The place of one worker, once the clock runs.
    pub fn seat(&self) -> Seat<'_, 'a> {
        Seat(self)
    }

    /// A worker has done `count` when the deadline passed. The last one asks the other ranks what their fastest had done.
    pub fn arrive(&self, count: u64) {
        self.most.fetch_max(count, Ordering::Relaxed);
        if self.missing.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        match self.control.meet("the deadline", &[self.most.load(Ordering::Relaxed)]) {
            Ok(counts) => self.most.store(counts.into_iter().max().unwrap_or(0), Ordering::Relaxed),
            Err(_) => self.failed.store(true, Ordering::Relaxed),
        }
        self.agreed.store(true, Ordering::Release);
    }

    /// Waits for all; returns what the fastest had done. Workers are at most one call apart, so this is short.
    pub fn wait(&self, meter: &Meter) -> Result<u64> {
        while !self.agreed.load(Ordering::Acquire) {
            meter.check()?;
            std::thread::sleep(Duration::from_micros(20));
        }
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::interrupted());
        }
        Ok(self.most.load(Ordering::Relaxed))
    }
}

/// A worker's place among those that meet: where it is dropped, because the worker failed, nobody waits for it.
pub struct Seat<'s, 'a>(&'s WearOut<'a>);

impl<'s, 'a> Seat<'s, 'a> {
    /// This worker has done `count` when the deadline passed.
    pub fn arrive(self, count: u64) -> &'s WearOut<'a> {
        let wear_out = self.0;
        std::mem::forget(self);
        wear_out.arrive(count);
        wear_out
    }
}

impl Drop for Seat<'_, '_> {
    fn drop(&mut self) {
        self.0.arrive(0);
    }
}
