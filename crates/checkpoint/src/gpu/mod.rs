//! States in the memory of GPUs: the save and the restore of [`crate`], with pinned memory of the host in between.

mod copies;
mod inbound;
mod memory;
mod outbound;
mod staging;
mod state;

pub use memory::GpuMemory;
pub use state::{Extent, GpuState, Home, Part};

use std::sync::Arc;

use inbound::Inbound;
use outbound::Outbound;
use staging::{Room, Staging};

use super::{ChunkRange, Manifest, RestoreOptions, SaveOptions};
use savemark_base::buffer::Pool;
use savemark_base::error::Result;
use savemark_base::record::Phase;
use savemark_base::size::Size;
use savemark_host::threads;
use savemark_measure::control::Control;
use savemark_measure::ranks::Placement;
use savemark_storage::Storage;

/// How much pinned memory there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// As the user says.
    given: Option<u64>,
    /// Otherwise they share half of the memory that there is.
    processes: u64,
}

impl Limit {
    /// Of the only process of this machine.
    pub fn alone(given: Option<Size>) -> Self {
        Self { given: given.map(|size| size.0), processes: 1 }
    }

    /// Of one of the ranks of a node.
    pub fn of(given: Option<Size>, ranks: Placement) -> Self {
        Self { processes: ranks.per_node as u64, ..Self::alone(given) }
    }

    /// What the user allows, or what is `wanted`, but not more than this process's part of half of what there is.
    fn room(self, wanted: u64, available: u64) -> Room {
        self.given.map_or_else(|| Room::Wanted(wanted.min(available / 2 / self.processes)), Room::Most)
    }
}

/// Saves `state` as the checkpoint of `storage`; `staging` bounds the pinned memory in between, which otherwise may grow to the
/// size of the state, or its part of half of what memory there is.
///
/// The phase says for how long the application had to stand still. `Control::release` tells when that is over.
///
/// # Errors
/// As [`save`](fn@super::save), and what CUDA says.
pub fn save(
    state: &GpuState,
    storage: &dyn Storage,
    options: &SaveOptions,
    staging: Limit,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase, u64)> {
    let (lanes, staging) = take(state, options.chunk_bytes, staging);
    let count = lanes.len();
    let source = Outbound::new(state, lanes, Arc::clone(&staging))?;
    let saved = std::thread::scope(|scope| {
        let source = &source;
        let start = |lane| threads::start(scope, (lane, count), move || source.copy(lane, control)).map(drop);
        let saved = (0..count).try_for_each(start);
        let saved = saved.and_then(|()| super::save(source, storage, options, pool, control));
        super::StreamingSource::fail(source); // after an error copies may still go on
        saved
    });
    let (manifest, mut phase) = saved?;
    phase.stall_ns = Some(source.stall_ns());
    Ok((manifest, phase, staging.bytes()))
}

/// Pins the memory that a save of `state` may use, before its clock starts.
pub fn pin(state: &GpuState, options: &SaveOptions, staging: Limit) -> Result<()> {
    take(state, options.chunk_bytes, staging).1.grow_whole()
}

fn take(state: &GpuState, chunk_bytes: usize, staging: Limit) -> (Vec<Vec<ChunkRange>>, Arc<Staging>) {
    let lanes = state.chunks(chunk_bytes);
    let room = staging.room(state::room(&lanes, chunk_bytes), available());
    let staging = Staging::take(&state.gpus()[0], chunk_bytes, room);
    (lanes, staging)
}

/// Restores the checkpoint of `storage` into `state`.
///
/// # Errors
/// As [`restore`](fn@super::restore), and what CUDA says; then the state may hold anything.
pub fn restore(
    state: &GpuState,
    storage: &dyn Storage,
    options: &RestoreOptions,
    chunk_bytes: u64,
    staging: Limit,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase, u64)> {
    let staging = Staging::take(&state.gpus()[0], chunk_bytes as usize, staging.room(RESTORE_MOST, available()));
    let sink = Inbound::new(state, Arc::clone(&staging))?;
    // Into the pinned memory, not into a buffer beside it.
    let options = RestoreOptions { in_place: true, ..options.clone() };
    let (manifest, phase) = super::restore(storage, &sink, &options, pool, control)?;
    Ok((manifest, phase, staging.bytes()))
}

/// A restore is as slow as its storage: what GPUs have not taken yet is never much.
const RESTORE_MOST: u64 = 1 << 30;

fn available() -> u64 {
    savemark_host::available_bytes().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_of_a_node_share_what_memory_there_is() {
        let of = |given, per_node| Limit::of(given, Placement { per_node, ..Placement::default() }).room(1000, 1200);
        let wanted = |room| if let Room::Wanted(bytes) = room { bytes } else { panic!("{room:?}") };
        assert_eq!([1, 2, 4].map(|per_node| wanted(of(None, per_node))), [600, 300, 150]);
        assert_eq!(wanted(Limit::alone(None).room(100, 1200)), 100);
        // What the user says is each rank's, as all options of a rank are.
        assert!(matches!(of(Some(Size(700)), 4), Room::Most(700)));
    }
}
