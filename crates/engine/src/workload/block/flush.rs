//! When written blocks are made durable, and by whom.

use std::sync::Arc;

use super::options::{BlockOptions, Sync};
use savemark_base::error::Result;
use savemark_measure::barrier::Barrier;
use savemark_measure::worker::{Meter, timed};
use savemark_storage::File;

/// Where the workers of a group meet to flush.
pub struct Group {
    /// Whether something was written that no flush has seen.
    dirty: Barrier<bool>,
    /// What all of them write to.
    files: Vec<Arc<dyn File>>,
}

impl Group {
    /// Of `members` workers.
    pub fn new(members: usize, files: Vec<Arc<dyn File>>) -> Self {
        Self { dirty: Barrier::new(members, false), files }
    }

    /// Waits for the others; the last to come flushes.
    fn meet(&self, meter: &mut Meter) -> Result<()> {
        self.dirty.wait(meter.control(), |dirty| *dirty = true, |dirty| self.flush(dirty, meter))
    }

    /// Needs the others no more; `wrote` since the last flush.
    fn leave(&self, meter: &mut Meter, wrote: bool) -> Result<()> {
        let flush = |dirty: &mut bool| if *dirty { self.flush(dirty, meter) } else { Ok(()) };
        self.dirty.leave(|dirty| *dirty |= wrote, flush)
    }

    fn flush(&self, dirty: &mut bool, meter: &mut Meter) -> Result<()> {
        *dirty = false;
        sync(&self.files, meter)
    }
}

/// Makes the files durable, in one flush as far as the latencies are concerned.
fn sync(files: &[Arc<dyn File>], meter: &mut Meter) -> Result<()> {
    let mut elapsed_ns = 0;
    timed(&mut elapsed_ns, || files.iter().try_for_each(|file| file.sync()))?;
    meter.sync_latency.record(elapsed_ns);
    Ok(())
}

/// One worker's flushes.
pub struct Flush<'a> {
    sync: Sync,
    every: u64,
    /// I/Os that may be started before the next flush.
    pub room: u64,
    files: &'a [Arc<dyn File>],
    group: Option<&'a Group>,
}

impl<'a> Flush<'a> {
    /// Of a worker that writes to `files`; `group` for `sync: group`.
    pub fn new(options: &BlockOptions, files: &'a [Arc<dyn File>], group: Option<&'a Group>) -> Self {
        let every = match options.sync {
            Sync::Each => 1,
            Sync::Group => options.sync_every.unwrap_or(u64::MAX),
            Sync::None | Sync::End => u64::MAX,
        };
        Self { sync: options.sync, every, room: every, files, group }
    }

    /// Nothing is written, or what is written needs no flush.
    pub fn never() -> Self {
        Self { sync: Sync::None, every: u64::MAX, room: u64::MAX, files: &[], group: None }
    }

    /// When `room` is used up and nothing is in flight.
    pub fn now(&mut self, meter: &mut Meter) -> Result<()> {
        self.room = self.every;
        match self.group {
            Some(group) => group.meet(meter),
            None => sync(self.files, meter),
        }
    }

    /// After the last write.
    pub fn end(&mut self, meter: &mut Meter) -> Result<()> {
        match (self.sync, self.group.take()) {
            (Sync::End, _) => self.files.iter().try_for_each(|file| sync(std::slice::from_ref(file), meter)),
            (Sync::Group, Some(group)) => group.leave(meter, self.room < self.every),
            _ => Ok(()),
        }
    }
}

impl Drop for Flush<'_> {
    /// A worker that failed is not waited for.
    fn drop(&mut self) {
        if let Some(group) = self.group {
            group.dirty.abort();
        }
    }
}
