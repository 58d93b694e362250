//! The threads copy their bands and go on; a thread of its own makes the copy durable meanwhile.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::rename::{open_directory, partial};
use super::{Commit, create};
use crate::workload::iterate::Policy;
use crate::workload::iterate::file::{HEADER_BYTES, Header};
use crate::workload::iterate::grid::Grid;
use crate::workload::iterate::turn::Turn;
use savemark_base::buffer::Arena;
use savemark_base::error::{Error, Result};
use savemark_host::threads;
use savemark_measure::worker::timed;

/// See the [module](self).
pub struct DoubleBuffer {
    copy: Arc<Arena>,
    /// The generation to save goes out, the result comes back: one at a time, as there is one copy.
    line: Mutex<Line>,
    saver: Option<JoinHandle<()>>,
}

struct Line {
    orders: Option<SyncSender<u64>>,
    results: Receiver<Result<()>>,
    under_way: bool,
}

impl Line {
    /// Waits for the save under way, if there is one.
    fn wait(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.under_way) {
            return Ok(());
        }
        self.results.recv().unwrap_or_else(|_| Err(Error::failed("the saver panicked; this is a bug in savemark")))
    }
}

impl DoubleBuffer {
    /// At `path`; starts the thread.
    pub fn new(path: PathBuf, grid: &Grid) -> Result<Self> {
        let copy = Arena::new(grid.bytes() as usize)?;
        let directory = open_directory(&path)?;
        let (orders, taken) = sync_channel::<u64>(1);
        let (done, results) = sync_channel(1);
        let (source, bytes) = (Arc::clone(&copy), grid.bytes() as usize);
        let saver = threads::start_one(move || {
            for generation in taken {
                // SAFETY: inside the arena, which is not written until the result of this save was taken.
                let state = unsafe { std::slice::from_raw_parts(source.as_ptr(), bytes) };
                if done.send(save(&path, &directory, generation, state)).is_err() {
                    break;
                }
            }
        })?;
        let line = Mutex::new(Line { orders: Some(orders), results, under_way: false });
        Ok(Self { copy, line, saver: Some(saver) })
    }
}

fn save(path: &Path, directory: &File, generation: u64, state: &[u8]) -> Result<()> {
    let partial = partial(path);
    let wrong = |e| Error::io("save", path, e);
    let file = create(&partial, Policy::DoubleBuffer, HEADER_BYTES + state.len() as u64)?;
    file.write_all_at(&Header { generation, digest: 0 }.to_bytes()[..], 0).map_err(wrong)?;
    file.write_all_at(state, HEADER_BYTES).map_err(wrong)?;
    file.sync_all().map_err(wrong)?;
    std::fs::rename(&partial, path).map_err(wrong)?;
    directory.sync_all().map_err(wrong)
}

impl Commit for DoubleBuffer {
    fn save(&self, turn: &mut Turn) -> Result<()> {
        turn.alone(|turn| {
            let mut line = self.line.lock().expect("no panic while held");
            timed(&mut turn.spent.sync_ns, || line.wait())
        })?;
        let (band, row) = (turn.band(), turn.grid.side() * 8);
        let from = turn.grid.rows(turn.generation, band.clone());
        timed(&mut turn.spent.write_ns, || {
            // SAFETY: bands are disjoint and inside the arena, and no save is under way.
            let to = unsafe { std::slice::from_raw_parts_mut(self.copy.as_ptr().add(band.start * row), from.len()) };
            to.copy_from_slice(from);
        });
        turn.alone(|turn| {
            let mut line = self.line.lock().expect("no panic while held");
            line.under_way = true;
            turn.writes += 2; // the header and the copy
            let sent = line.orders.as_ref().is_some_and(|orders| orders.send(turn.generation).is_ok());
            if sent { Ok(()) } else { line.wait() }
        })
    }

    fn finish(&self) -> Result<()> {
        self.line.lock().expect("no panic while held").wait()
    }
}

impl Drop for DoubleBuffer {
    /// Ends the thread, after what it is at.
    fn drop(&mut self) {
        if let Ok(line) = self.line.get_mut() {
            line.orders = None;
        }
        if let Some(saver) = self.saver.take() {
            let _ = saver.join();
        }
    }
}
