//! When written blocks are made durable, and by whom.

use std::sync::{Arc, Condvar, Mutex};

use super::options::{BlockOptions, Sync};
use savemark_base::error::{Error, Result};
use savemark_measure::worker::{Meter, timed};
use savemark_storage::File;

/// Where the workers of a group meet to flush.
pub struct Group {
    state: Mutex<State>,
    changed: Condvar,
    /// What all of them write to.
    files: Vec<Arc<dyn File>>,
}

struct State {
    members: usize,
    arrived: usize,
    round: u64,
    /// Something was written that no flush has seen.
    dirty: bool,
    failed: bool,
}

const HELD: &str = "no panic while held";

impl Group {
    /// Of `members` workers.
    pub fn new(members: usize, files: Vec<Arc<dyn File>>) -> Self {
        let state = State { members, arrived: 0, round: 0, dirty: false, failed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), files }
    }

    /// Waits for the others; the last to come flushes.
    fn meet(&self, meter: &mut Meter) -> Result<()> {
        let mut state = self.state.lock().expect(HELD);
        state.dirty = true;
        state.arrived += 1;
        let round = state.round;
        if state.arrived == state.members {
            self.flush(&mut state, meter)?;
        }
        while state.round == round && !state.failed {
            state = meter.wait(&self.changed, state)?;
            // Those that left may have been the last whom the others waited for.
            if state.round == round && state.arrived == state.members {
                self.flush(&mut state, meter)?;
            }
        }
        if state.failed { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Needs the others no more; `wrote` since the last flush.
    fn leave(&self, meter: &mut Meter, wrote: bool) -> Result<()> {
        let mut state = self.state.lock().expect(HELD);
        state.dirty |= wrote;
        state.members -= 1;
        if state.members == 0 && state.dirty && !state.failed {
            return self.flush(&mut state, meter);
        }
        self.changed.notify_all();
        Ok(())
    }

    fn flush(&self, state: &mut State, meter: &mut Meter) -> Result<()> {
        let flushed = sync(&self.files, meter);
        (state.arrived, state.round, state.dirty) = (0, state.round + 1, false);
        state.failed |= flushed.is_err();
        self.changed.notify_all();
        flushed
    }

    fn give_up(&self) {
        self.state.lock().expect(HELD).failed = true;
        self.changed.notify_all();
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
            group.give_up();
        }
    }
}
