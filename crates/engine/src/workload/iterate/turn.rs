//! One thread of the solver: its band, its clock, and its writes.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;

use super::file::{HEADER_BYTES, Header};
use super::grid::Grid;
use super::meeting::Meeting;
use super::{IterateOptions, Layout};
use crate::error::{Error, Result};
use crate::record::{Stage, ThreadTime};
use crate::worker::timed;

/// Where a thread's time went. It has no other: the four add up to the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    pub compute_ns: u64,
    pub write_ns: u64,
    /// At barriers.
    pub wait_ns: u64,
    pub sync_ns: u64,
}

impl Spent {
    /// As spans of the wall time `elapsed_ns`: nobody waits for the thread that comes last but to be woken.
    pub fn stages(&self, elapsed_ns: u64) -> Vec<Stage> {
        let wait_ns = elapsed_ns.saturating_sub(self.compute_ns + self.write_ns + self.sync_ns);
        let spans = [("compute", self.compute_ns), ("write", self.write_ns), ("sync", self.sync_ns), ("wait", wait_ns)];
        spans.map(|(name, elapsed_ns)| Stage { name: name.into(), elapsed_ns }).to_vec()
    }

    /// What was spent after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            compute_ns: self.compute_ns - earlier.compute_ns,
            write_ns: self.write_ns - earlier.write_ns,
            wait_ns: self.wait_ns - earlier.wait_ns,
            sync_ns: self.sync_ns - earlier.sync_ns,
        }
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.compute_ns + self.write_ns + self.wait_ns + self.sync_ns
    }

    /// Adds another span.
    pub fn add(&mut self, other: &Self) {
        self.compute_ns += other.compute_ns;
        self.write_ns += other.write_ns;
        self.wait_ns += other.wait_ns;
        self.sync_ns += other.sync_ns;
    }

    /// As thread time, to be summed over threads.
    pub fn add_to(&self, time: &mut ThreadTime) {
        time.compute_ns += self.compute_ns;
        time.write_ns += self.write_ns;
        time.wait_ns += self.wait_ns;
        time.sync_ns += self.sync_ns;
    }
}

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
