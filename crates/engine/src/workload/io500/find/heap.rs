//! What the workers of a find still have to do: directories to list, and names to ask for.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use rustix::fs::{AtFlags, Stat, statat};

use savemark_base::error::{Error, Result};
use savemark_measure::worker::Meter;

/// Batches that wait; with more of them whoever lists asks, too, so that memory stays small.
const WAITING: usize = 4096;
const HELD: &str = "no panic while held";

/// An open directory.
pub struct Place {
    pub path: PathBuf,
    pub file: File,
}

impl Place {
    /// Size and times of a file in it.
    pub fn stat(&self, name: &CStr) -> Result<Stat> {
        statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| Error::io("look at", &self.child(name), e))
    }

    /// The path of a file in it.
    pub fn child(&self, name: &CStr) -> PathBuf {
        self.path.join(OsStr::from_bytes(name.to_bytes()))
    }
}

/// Names in one directory, each with a zero at its end.
pub struct Batch {
    pub place: Arc<Place>,
    pub names: Vec<u8>,
    pub count: usize,
}

impl Batch {
    /// Without a name yet.
    pub fn new(place: &Arc<Place>) -> Self {
        Self { place: Arc::clone(place), names: Vec::new(), count: 0 }
    }

    /// One more.
    pub fn add(&mut self, name: &CStr) {
        self.names.extend_from_slice(name.to_bytes_with_nul());
        self.count += 1;
    }
}

/// What a worker does next.
pub enum Task {
    List(PathBuf),
    Ask(Batch),
}

/// What is still to be done.
pub struct Heap {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    tasks: Vec<Task>,
    /// Workers that may put more on the heap.
    busy: usize,
    given_up: bool,
}

impl Heap {
    /// With one task.
    pub fn new(first: Task) -> Self {
        let state = State { tasks: vec![first], busy: 0, given_up: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The next task of a worker; none once everything is done, or another one has failed.
    ///
    /// # Errors
    /// Somebody has cancelled.
    pub fn take(&self, meter: &Meter) -> Result<Option<Task>> {
        let mut state = self.state.lock().expect(HELD);
        loop {
            if state.given_up {
                return Ok(None);
            }
            if let Some(task) = state.tasks.pop() {
                state.busy += 1;
                return Ok(Some(task));
            }
            if state.busy == 0 {
                return Ok(None);
            }
            state = meter.wait(&self.changed, state)?;
        }
    }

    /// The task that was taken is done.
    pub fn done(&self) {
        let mut state = self.state.lock().expect(HELD);
        state.busy -= 1;
        if state.busy == 0 && state.tasks.is_empty() {
            self.changed.notify_all();
        }
    }

    /// Adds a task; gives one back that may stay with the caller where enough are waiting.
    pub fn push(&self, task: Task, always: bool) -> Option<Task> {
        let mut state = self.state.lock().expect(HELD);
        if !always && state.tasks.len() >= WAITING {
            return Some(task);
        }
        state.tasks.push(task);
        self.changed.notify_one();
        None
    }
}

/// Releases the others when a worker fails.
pub struct GiveUp<'a>(pub &'a Heap);

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        self.0.state.lock().expect(HELD).given_up = true;
        self.0.changed.notify_all();
    }
}
