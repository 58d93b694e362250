//! Group commit: while one thread syncs, those that come later wait, and the next sync is for all of them.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};

use rustix::fs::fsync;
use rustix::io::Errno;

use super::Commit;
use crate::workload::iterate::file::Header;
use crate::workload::iterate::turn::Turn;
use savemark_base::error::Result;

/// See the [module](self).
pub struct Group {
    file: File,
    path: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Requests so far, and how many of the first ones are durable.
    asked: u64,
    done: u64,
    syncing: bool,
    failed: Option<Errno>,
}

const HELD: &str = "no panic while held";

impl Group {
    /// Over `file`.
    pub fn new(file: File, path: PathBuf) -> Self {
        Self { file, path, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Returns when a sync that began after this call has ended.
    fn join(&self) -> std::result::Result<(), Errno> {
        let mut state = self.state.lock().expect(HELD);
        state.asked += 1;
        let mine = state.asked;
        while state.done < mine && state.failed.is_none() {
            if state.syncing {
                state = self.changed.wait(state).expect(HELD);
                continue;
            }
            state.syncing = true;
            let upto = state.asked;
            drop(state);
            let synced = fsync(&self.file);
            state = self.state.lock().expect(HELD);
            state.syncing = false;
            match synced {
                Ok(()) => state.done = upto,
                Err(e) => state.failed = Some(e),
            }
            self.changed.notify_all();
        }
        state.failed.map_or(Ok(()), Err)
    }
}

impl Commit for Group {
    fn save(&self, turn: &mut Turn) -> Result<()> {
        let header = Some(Header { generation: turn.generation, digest: 0 });
        turn.write_parts(&self.file, &self.path, header, |_| Ok(()))?;
        turn.sync(&self.path, || self.join())
    }
}
