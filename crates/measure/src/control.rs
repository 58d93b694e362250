//! What the outside may see and say while a trial runs: progress out, cancel in, and where several processes meet.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::ranks::{Placement, START};
use savemark_base::error::{Error, Result};

/// How often whoever waits looks whether somebody has cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Meets the other ranks of a trial: returns when all have come, with the numbers of all, rank after rank.
///
/// The first argument names the place, the last one says why this rank goes no further. An error is that of any rank.
pub type Meet = dyn Fn(&str, &[u64], Option<&Error>) -> Result<Vec<u64>> + Send + Sync;

/// Shared between the thread that runs a trial and the one that watches it.
#[derive(Default)]
pub struct Control {
    cancelled: AtomicBool,
    on_release: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    on_cancel: Mutex<Vec<Box<dyn Fn() + Send>>>,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    phase: Mutex<String>,
    placement: Placement,
    others: Option<Box<Meet>>,
    /// The next phase starts when all have come.
    armed: AtomicBool,
    /// Nobody is met any more in this trial.
    parted: AtomicBool,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("placement", &self.placement).finish_non_exhaustive()
    }
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
    /// Of one rank among several, for one trial.
    pub fn among(placement: Placement, meet: Box<Meet>) -> Self {
        Self { placement, others: Some(meet), ..Self::default() }
    }

    /// Which rank this is.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Whether there are others to meet.
    pub fn is_among(&self) -> bool {
        self.others.is_some()
    }

    /// Meets the other ranks `at` a place that all come to; returns the `numbers` of all, rank after rank. Alone: its own.
    ///
    /// # Errors
    /// That a rank, which may be this one, has failed: the trial is over.
    pub fn meet(&self, at: &str, numbers: &[u64]) -> Result<Vec<u64>> {
        let Some(others) = &self.others else { return Ok(numbers.to_vec()) };
        if self.parted.load(Ordering::Relaxed) {
            return Err(Error::interrupted());
        }
        others(at, numbers, None).inspect_err(|_| self.parted.store(true, Ordering::Relaxed))
    }

    /// The last meeting of a trial, for a rank that is done as for one that failed; what was made can be removed afterwards.
    pub fn part(&self, failure: Option<&Error>) -> Result<()> {
        match &self.others {
            Some(others) if !self.parted.swap(true, Ordering::Relaxed) => others("the end", &[], failure).map(drop),
            _ => Ok(()),
        }
    }

    /// The first phase that starts from now on starts together with those of the other ranks.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    /// Runs what is like a phase and is none: it starts alone.
    pub fn unmeasured<T>(&self, work: impl FnOnce() -> T) -> T {
        let armed = self.armed.swap(false, Ordering::Relaxed);
        let done = work();
        self.armed.store(armed, Ordering::Relaxed);
        done
    }

    /// Waits for the other ranks right before the clock starts.
    pub fn start_together(&self) -> Result<()> {
        if !self.armed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let phase = self.phase.lock().expect("no panic while held").clone();
        self.meet(&format!("{START}{phase}"), &[]).map(drop)
    }

    /// Asks the workers to stop at their next I/O, and calls what [`on_cancel`](Self::on_cancel) was given.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.on_cancel.lock().expect("no panic while held").iter().for_each(|act| act());
    }

    /// Has `act` called when somebody cancels; at once if that was before.
    pub fn on_cancel(&self, act: impl Fn() + Send + 'static) {
        let mut acts = self.on_cancel.lock().expect("no panic while held");
        if self.check().is_err() {
            act();
        }
        acts.push(Box::new(act));
    }

    /// `Err(interrupted)` once somebody has cancelled.
    pub fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Waits for `changed`, or a moment; whoever waits in a loop notices that somebody has cancelled.
    ///
    /// # Errors
    /// Somebody has cancelled.
    pub fn wait<'a, T>(&self, changed: &Condvar, held: MutexGuard<'a, T>) -> Result<MutexGuard<'a, T>> {
        let (held, _) = changed.wait_timeout(held, POLL_INTERVAL).expect("no panic while held");
        self.check().map(|()| held)
    }

    /// Has `act` called by [`release`](Self::release), once.
    pub fn on_release(&self, act: impl FnOnce() + Send + 'static) {
        *self.on_release.lock().expect("no panic while held") = Some(Box::new(act));
    }

    /// What is being saved may be changed again: everything was copied out of it, though it is not durable yet.
    pub fn release(&self) {
        let act = self.on_release.lock().expect("no panic while held").take();
        if let Some(act) = act {
            act();
        }
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
