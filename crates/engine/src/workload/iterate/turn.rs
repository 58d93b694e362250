//! One thread of the solver: its band, its clock, and its writes.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;

use super::file::{HEADER_BYTES, Header};
use super::grid::Grid;
use super::meeting::Meeting;
use super::spent::Spent;
use super::{IterateOptions, Layout};
use savemark_base::error::{Error, Result};
use savemark_measure::worker::timed;

/// A thread that takes part.
pub struct Turn<'a> {
    pub options: &'a IterateOptions,
    pub grid: &'a Grid,
    pub index: usize,
    /// The iteration whose state is saved.
    pub generation: u64,
    pub spent: Spent,
    /// When this thread last left a meeting.
    at_meeting: Spent,
    /// Writes so far.
    pub writes: u64,
    /// How long the syncs of this save took.
    pub syncs: Vec<u64>,
    meeting: &'a Meeting<'a>,
}

impl<'a> Turn<'a> {
    /// Of the thread `index`.
    pub fn new(options: &'a IterateOptions, grid: &'a Grid, meeting: &'a Meeting<'a>, index: usize) -> Self {
        let spent = Spent::default();
        Self { options, grid, index, generation: 0, spent, at_meeting: spent, writes: 0, syncs: Vec::new(), meeting }
    }

    /// The first thread does what is done once.
    pub fn is_leader(&self) -> bool {
        self.index == 0
    }

    /// The rows that this thread computes.
    pub fn band(&self) -> Range<usize> {
        self.grid.band(self.index, self.options.workers as usize)
    }

    /// Their bytes.
    pub fn band_bytes(&self) -> u64 {
        (self.band().len() * self.grid.side() * 8) as u64
    }

    /// Computes the band of `iteration`.
    pub fn compute(&mut self, iteration: u64) {
        let (grid, band) = (self.grid, self.band());
        if self.is_leader() {
            // The square that the next iteration fills: nobody has asked for its old residual since the last meeting.
            grid.clear_residual(iteration + 1);
        }
        // SAFETY: bands are disjoint, and the threads meet after each iteration.
        timed(&mut self.spent.compute_ns, || unsafe { grid.sweep(iteration, band) });
    }

    /// What was spent after the last meeting.
    pub fn since_meeting(&self) -> Spent {
        self.spent.since(&self.at_meeting)
    }

    /// Waits for all threads.
    pub fn meet(&mut self) -> Result<()> {
        let since = self.since_meeting();
        let met = timed(&mut self.spent.wait_ns, || self.meeting.meet(since));
        self.at_meeting = self.spent;
        met
    }

    /// Does `act` once, in the first thread, between two barriers.
    pub fn alone(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.meet()?;
        if self.is_leader() {
            act(self)?;
        }
        self.meet()
    }

    /// Writes what is this thread's part of a checkpoint; calls `after` after each write.
    pub fn write_parts(
        &mut self,
        file: &File,
        path: &Path,
        header: Option<Header>,
        mut after: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if let (true, Some(header)) = (self.is_leader(), header) {
            let bytes = header.to_bytes();
            self.write(file, path, &bytes[..], 0)?;
            after(self)?;
        }
        for rows in self.parts() {
            let bytes = self.grid.rows(self.generation, rows.clone());
            self.write(file, path, bytes, HEADER_BYTES + (rows.start * self.grid.side() * 8) as u64)?;
            after(self)?;
        }
        Ok(())
    }

    /// The rows of each write.
    pub fn parts(&self) -> Vec<Range<usize>> {
        let whole = |rows: Range<usize>| std::iter::once(rows).filter(|rows| !rows.is_empty()).collect();
        match self.options.layout {
            Layout::Rows => self.band().map(|row| row..row + 1).collect(),
            Layout::Bands => whole(self.band()),
            Layout::Matrix => whole(if self.is_leader() { 0..self.grid.side() } else { 0..0 }),
        }
    }

    /// One write.
    pub fn write(&mut self, file: &File, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
        self.writes += 1;
        timed(&mut self.spent.write_ns, || file.write_all_at(bytes, offset)).map_err(|e| Error::io("write", path, e))
    }

    /// One sync, by whatever call.
    pub fn sync(&mut self, path: &Path, call: impl FnOnce() -> std::result::Result<(), Errno>) -> Result<()> {
        let mut took_ns = 0;
        let done = timed(&mut took_ns, call);
        self.spent.sync_ns += took_ns;
        self.syncs.push(took_ns);
        done.map_err(|e| Error::io("sync", path, e))
    }
}
