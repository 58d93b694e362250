//! One worker: one thread, one queue, one histogram.

use std::sync::{Condvar, MutexGuard};

use crate::control::Control;
use crate::gate::Gate;
use crate::histogram::Histogram;
use crate::read_write::ReadWriteStats;
use crate::schedule_lag::ScheduleLag;
use crate::timeline::Timeline;
use savemark_base::error::Result;
use savemark_base::io::{Completion, Operation};
use savemark_base::record::{Histograms, ThreadTime, Worker};
use savemark_base::{clock, cpu};

/// Interval of timelines: short enough to see a stall, long enough to stay small.
const INTERVAL_NS: u64 = 100_000_000;
/// How often a worker that counts call by call tells the others how far it is: they share a line of the cache.
const TELL_EVERY_NS: u64 = 100_000;

/// What one worker did. It belongs to its thread; nothing in it is shared or locked.
#[derive(Debug)]
pub struct Meter<'a> {
    /// Index among the workers of the phase.
    pub index: usize,
    /// I/Os completed.
    pub operations: u64,
    /// Bytes before the codec.
    pub user_bytes: u64,
    /// Bytes after it.
    pub stored_bytes: u64,
    /// Where the thread's time went.
    pub thread_time: ThreadTime,
    /// Of one I/O.
    pub latency: Histogram,
    /// Of one sync.
    pub sync_latency: Histogram,
    /// Bytes per interval.
    pub timeline: Timeline,
    /// Reads and writes apart, in a mix of both.
    pub split: Option<Box<ReadWriteStats>>,
    /// How far behind its schedule each I/O started, where there is one.
    pub slip: Option<Box<ScheduleLag>>,
    /// From the start until its last I/O had ended, where a flush came after it; 0 where none did.
    pub moved_ns: u64,
    /// From the start until this worker ended.
    pub done_ns: u64,
    /// User bytes that the whole team had moved at that moment.
    pub team_bytes_when_done: u64,
    start_ns: u64,
    cpu_ns: u64,
    /// User bytes that the team does not know of yet, and when it will.
    untold: u64,
    tell_ns: u64,
    team: Option<(&'a Gate, &'a Control)>,
}

impl<'a> Meter<'a> {
    /// A meter of the worker `index`.
    pub fn new(index: usize, gate: &'a Gate, control: &'a Control) -> Self {
        Meter { index, team: Some((gate, control)), ..Meter::empty() }
    }

    /// A meter that has counted nothing.
    pub fn empty() -> Self {
        Self {
            index: 0,
            operations: 0,
            user_bytes: 0,
            stored_bytes: 0,
            thread_time: ThreadTime::default(),
            latency: Histogram::new(),
            sync_latency: Histogram::rare(),
            timeline: Timeline::new(INTERVAL_NS),
            split: None,
            slip: None,
            moved_ns: 0,
            done_ns: 0,
            team_bytes_when_done: 0,
            start_ns: 0,
            cpu_ns: 0,
            untold: 0,
            tell_ns: 0,
            team: None,
        }
    }

    /// Waits until every worker is ready; returns the common start time.
    pub fn start(&mut self) -> Result<u64> {
        if let Some((gate, control)) = self.team {
            self.start_ns = gate.pass(control)?;
        }
        self.cpu_ns = cpu::thread_ns();
        Ok(self.start_ns)
    }

    /// `Err(interrupted)` once somebody has cancelled.
    pub fn check(&self) -> Result<()> {
        self.team.map_or(Ok(()), |(_, control)| control.check())
    }

    /// What the outside says; none without a team.
    pub fn control(&self) -> Option<&'a Control> {
        self.team.map(|(_, control)| control)
    }

    /// Waits for other workers as [`Control::wait`] does.
    pub fn wait<'b, T>(&self, changed: &Condvar, held: MutexGuard<'b, T>) -> Result<MutexGuard<'b, T>> {
        match self.team {
            Some((_, control)) => control.wait(changed, held),
            None => Ok(changed.wait(held).expect("no panic while held")),
        }
    }

    /// Counts completed I/Os of a batch that ended at `now_ns`.
    pub fn count(&mut self, done: &[Completion], now_ns: u64) {
        let mut bytes = 0;
        for completion in done {
            if let Some(latency_ns) = completion.latency_ns {
                self.latency.record(latency_ns);
            }
            bytes += completion.len as u64;
        }
        self.operations += done.len() as u64;
        self.stored_bytes += bytes;
        self.timeline.add(now_ns.saturating_sub(self.start_ns), bytes);
    }

    /// Everything was moved; from here on it is made durable.
    pub fn moved(&mut self) {
        self.moved_ns = clock::now().saturating_sub(self.start_ns);
    }

    /// When the workers started; 0 before.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Counts one call that ended at `now_ns` and moved `bytes` without a codec.
    #[inline]
    pub fn count_call(&mut self, latency_ns: impl Into<Option<u64>>, bytes: u64, now_ns: u64) {
        if let Some(latency_ns) = latency_ns.into() {
            self.latency.record(latency_ns);
        }
        self.operations += 1;
        if bytes > 0 {
            self.stored_bytes += bytes;
            self.timeline.add(now_ns.saturating_sub(self.start_ns), bytes);
            self.user_bytes += bytes;
            self.untold += bytes;
            if now_ns >= self.tell_ns {
                self.tell(now_ns);
            }
        }
    }

    fn tell(&mut self, now_ns: u64) {
        self.tell_ns = now_ns + TELL_EVERY_NS;
        let bytes = std::mem::take(&mut self.untold);
        if let Some((_, control)) = self.team {
            control.add(bytes);
        }
    }

    /// From here on reads and writes are counted apart, too, if `wanted`.
    pub fn split_up(&mut self, wanted: bool) {
        self.split = wanted.then(Box::default);
    }

    /// Counts an I/O among those of its direction, where they are counted apart.
    pub fn count_split(&mut self, operation: Operation, latency_ns: impl Into<Option<u64>>, bytes: u64) {
        if let Some(split) = &mut self.split {
            split.count(operation, latency_ns.into(), bytes);
        }
    }

    /// An I/O starts, `slip_ns` after it was due.
    pub fn slipped(&mut self, slip_ns: u64) {
        self.slip.get_or_insert_default().start(slip_ns);
    }

    /// So many I/Os were due when the schedule ended.
    pub fn due(&mut self, count: u64) {
        self.slip.get_or_insert_default().due += count;
    }

    /// Counts user bytes.
    pub fn count_user(&mut self, bytes: u64) {
        self.user_bytes += bytes;
        if let Some((_, control)) = self.team {
            control.add(bytes);
        }
    }

    /// The worker has moved its last byte.
    pub fn finish(&mut self) {
        self.tell(0);
        self.cpu_ns = cpu::thread_ns().saturating_sub(self.cpu_ns);
        self.done_ns = clock::now().saturating_sub(self.start_ns);
        self.team_bytes_when_done = self.team.map_or(0, |(_, control)| control.done_bytes());
    }

    /// The meter without its team, for adding up.
    pub fn detach(self) -> Meter<'static> {
        Meter { team: None, ..self }
    }

    /// Adds another worker's counts to these.
    pub fn merge(&mut self, other: &Meter) {
        self.operations += other.operations;
        self.user_bytes += other.user_bytes;
        self.stored_bytes += other.stored_bytes;
        self.thread_time.codec_ns += other.thread_time.codec_ns;
        self.thread_time.digest_ns += other.thread_time.digest_ns;
        self.thread_time.wait_ns += other.thread_time.wait_ns;
        self.thread_time.compute_ns += other.thread_time.compute_ns;
        self.thread_time.write_ns += other.thread_time.write_ns;
        self.thread_time.sync_ns += other.thread_time.sync_ns;
        self.latency.merge(&other.latency);
        self.sync_latency.merge(&other.sync_latency);
        self.timeline.merge(&other.timeline);
        if let Some(split) = &other.split {
            self.split.get_or_insert_default().merge(split);
        }
        if let Some(slip) = &other.slip {
            self.slip.get_or_insert_default().merge(slip);
        }
    }

    /// The distributions as they were counted, for adding up those of other ranks.
    pub fn histograms(&self) -> Histograms {
        let split = self.split.as_ref();
        Histograms {
            latency: self.latency.counted(),
            sync_latency: self.sync_latency.counted(),
            read: split.map(|split| split.read.counted()),
            write: split.map(|split| split.write.counted()),
            slip: self.slip.as_ref().map(|slip| slip.counted()),
        }
    }

    /// This worker's line in the record.
    pub fn record(&self) -> Worker {
        Worker { user_bytes: self.user_bytes, operations: self.operations, done_ns: self.done_ns, cpu_ns: self.cpu_ns }
    }
}

/// Runs `work` and adds the time it took to `spent_ns`.
pub fn timed<T>(spent_ns: &mut u64, work: impl FnOnce() -> T) -> T {
    let start = clock::now();
    let result = work();
    *spent_ns += clock::now() - start;
    result
}

/// Gives this thread a table of open files of its own. The kernel counts references to an open file at each call, with atomic
/// operations, only where threads share the table: some hundredths of a small read from memory; and those that open and close
/// files wait for each other. It goes with the thread. Refused, all goes on as before, a little slower.
///
/// # Safety
/// From here on a descriptor that this thread opens or closes is not opened or closed for the others, and the other way round:
/// none may change hands between them.
pub unsafe fn own_descriptors() {
    // SAFETY: the caller's promise.
    unsafe { libc::unshare(libc::CLONE_FILES) };
}
