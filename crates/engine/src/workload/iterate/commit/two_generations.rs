//! Two files in turn: the one that is being written is never the one that a restart needs.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::fsync;

use super::Commit;
use crate::workload::iterate::file::{Header, digest_rows};
use crate::workload::iterate::turn::Turn;
use savemark_base::error::Result;
use savemark_measure::worker::timed;

/// See the [module](self).
pub struct TwoGenerations {
    files: [File; 2],
    paths: [PathBuf; 2],
    /// Of the rows that were written so far.
    digest: AtomicU64,
    /// Saves that are complete.
    saves: AtomicU64,
}

impl TwoGenerations {
    /// Over `files`.
    pub fn new(files: [File; 2], paths: [PathBuf; 2]) -> Self {
        Self { files, paths, digest: AtomicU64::new(0), saves: AtomicU64::new(0) }
    }
}

impl Commit for TwoGenerations {
    fn save(&self, turn: &mut Turn) -> Result<()> {
        let slot = (self.saves.load(Ordering::Relaxed) % 2) as usize;
        let (file, path) = (&self.files[slot], &self.paths[slot]);
        turn.write_parts(file, path, None, |_| Ok(()))?;
        for rows in turn.parts() {
            let (grid, generation) = (turn.grid, turn.generation);
            let sum = timed(&mut turn.spent.compute_ns, || {
                digest_rows(grid.rows(generation, rows.clone()), grid.side() * 8, rows.start)
            });
            self.digest.fetch_add(sum, Ordering::Relaxed);
        }
        turn.alone(|turn| {
            let header = Header { generation: turn.generation, digest: self.digest.swap(0, Ordering::Relaxed) };
            turn.write(file, path, &header.to_bytes()[..], 0)?;
            turn.sync(path, || fsync(file))?;
            self.saves.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }
}
