//! What can be asked of IO500, and what that means for IOR and mdtest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workload::block::Sync;
use crate::workload::block::geometry::GeometryOptions;
use crate::workload::checkpoint::CacheState;
use crate::workload::metadata::MetadataOptions;
use savemark_base::error::{Error, Result};
use savemark_base::size::{Size, Span};

/// Options of `io500`. In brackets what IO500's own file of settings calls them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Io500Options {
    /// Threads of each rank.
    pub workers: u32,
    /// Each of the four writes ends after this time, when every worker has done as much as the fastest. The rules ask for 300 s
    /// [stonewall-time].
    pub phase_deadline: Span,
    /// Bytes of one I/O of the easy part, in which each worker has a file of its own (IO500's `transferSize`). Those of the hard part, in
    /// which all share one, are 47008.
    pub transfer_size: Size,
    /// Bytes of each worker in the easy part, at most (IO500's `blockSize`).
    pub block_size: Size,
    /// I/Os of each worker in the hard part, at most (IO500's `segmentCount`).
    pub segments: u64,
    /// Files of each worker, empty in the easy part and of 3901 bytes in the hard one, at most (IO500's `n`).
    pub files_per_worker: u64,
    /// Write bytes that say where and by whom they were written, and compare all that are read, as IO500 does since 2023.
    pub verify: bool,
    /// Page cache before the two files of IOR are read: dropped and looked at, or left as writing has left it.
    pub cache: CacheState,
    /// Inodes, names and small files before they are looked for, looked at and read: left in memory, or dropped (root only)
    /// [drop-caches].
    pub names: CacheState,
}

impl Default for Io500Options {
    fn default() -> Self {
        Self {
            workers: 1,
            phase_deadline: Span(300_000_000_000),
            transfer_size: Size(2 << 20),
            block_size: Size(9_920_000 << 20),
            segments: 10_000_000,
            files_per_worker: 1_000_000,
            verify: true,
            cache: CacheState::Cold,
            names: CacheState::Warm,
        }
    }
}

/// Of the hard part of IOR.
const HARD_TRANSFER: u64 = 47_008;
/// Of the hard part of mdtest.
pub const HARD_FILE: u64 = 3901;
impl Io500Options {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        if self.phase_deadline.0 == 0 {
            return Err(Error::usage("phase_deadline: 0 ends a phase before its first I/O").hint("use 1s or more"));
        }
        if self.files_per_worker == 0 {
            return Err(Error::usage("files_per_worker: at least 1"));
        }
        [false, true].into_iter().try_for_each(|hard| self.files(hard, 1).validate())?;
        self.easy().check()?;
        self.hard().check_shape()
    }

    /// The easy part of IOR.
    pub fn easy(&self) -> GeometryOptions {
        GeometryOptions {
            block_size: self.block_size,
            segments: 1,
            transfer_size: self.transfer_size,
            workers: self.workers,
            sync: Sync::End,
            phase_deadline: Some(self.phase_deadline),
            wear_out: true,
            verify: self.verify,
            cache: self.cache,
            ..GeometryOptions::default()
        }
    }

    /// The hard part of IOR.
    pub fn hard(&self) -> GeometryOptions {
        let transfer = Size(HARD_TRANSFER);
        GeometryOptions { block_size: transfer, segments: self.segments, transfer_size: transfer, ..self.easy() }
    }

    /// A part of mdtest, of so many ranks.
    pub fn files(&self, hard: bool, ranks: usize) -> MetadataOptions {
        MetadataOptions {
            items: self.files_per_worker.saturating_mul(u64::from(self.workers)).saturating_mul(ranks as u64),
            file_size: Size(if hard { HARD_FILE } else { 0 }),
            shared: hard,
            workers: self.workers,
            sync: Sync::End,
            phase_deadline: Some(self.phase_deadline),
            cache: self.names,
            ..MetadataOptions::default()
        }
    }
}
