//! States in the memory of GPUs: the save and the restore of [`crate::checkpoint`], with pinned memory of the host in between.

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

use super::{Cut, Manifest, RestoreOptions, SaveOptions};
use crate::buffer::Pool;
use crate::control::Control;
use crate::error::Result;
use crate::host;
use crate::measure::clock;
use crate::record::Phase;
use crate::storage::Storage;

/// Saves `state` as the checkpoint of `storage`; `staging` bounds the pinned memory in between, which otherwise may grow to the
/// size of the state, or half of what memory there is.
///
/// The phase says for how long the application had to stand still. `Control::release` tells when that is over.
///
/// # Errors
/// As [`save`](fn@super::save), and what CUDA says.
pub fn save(
    state: &GpuState,
    storage: &dyn Storage,
    options: &SaveOptions,
    staging: Option<u64>,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase, u64)> {
    let start_ns = clock::now();
    let (lanes, staging) = take(state, options.chunk_bytes, staging);
    let count = lanes.len();
    let source = Outbound::new(state, lanes, Arc::clone(&staging))?;
    let early_ns = clock::now() - start_ns;
    let saved = std::thread::scope(|scope| {
        for lane in 0..count {
            let source = &source;
            scope.spawn(move || source.copy(lane, control));
        }
        let saved = super::save(&source, storage, options, pool, control);
        super::Feed::fail(&source); // after an error copies may still go on
        saved
    });
    let (manifest, mut phase) = saved?;
    phase.stall_ns = Some(source.copied_ns().saturating_sub(start_ns));
    phase.elapsed_ns += early_ns;
    if let Some(open) = phase.stages.first_mut() {
        open.elapsed_ns += early_ns;
    }
    Ok((manifest, phase, staging.bytes()))
}

/// Pins the memory that a save of `state` may use, before its clock starts.
pub fn pin(state: &GpuState, options: &SaveOptions, staging: Option<u64>) -> Result<()> {
    take(state, options.chunk_bytes, staging).1.grow_whole()
}

fn take(state: &GpuState, chunk_bytes: usize, staging: Option<u64>) -> (Vec<Vec<Cut>>, Arc<Staging>) {
    let lanes = state.chunks(chunk_bytes);
    let room = room(staging, state::room(&lanes, chunk_bytes));
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
    staging: Option<u64>,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase, u64)> {
    let staging = Staging::take(&state.gpus()[0], chunk_bytes as usize, room(staging, RESTORE_MOST));
    let sink = Inbound::new(state, Arc::clone(&staging))?;
    // Into the pinned memory, not into a buffer beside it.
    let options = RestoreOptions { in_place: true, ..options.clone() };
    let (manifest, phase) = super::restore(storage, &sink, &options, pool, control)?;
    Ok((manifest, phase, staging.bytes()))
}

/// A restore is as slow as its storage: what GPUs have not taken yet is never much.
const RESTORE_MOST: u64 = 1 << 30;

/// What the user allows, or what is wanted, but not more than half of the memory that there is.
fn room(given: Option<u64>, wanted: u64) -> Room {
    let half = || host::available_bytes().unwrap_or(u64::MAX) / 2;
    given.map_or_else(|| Room::Wanted(wanted.min(half())), Room::Most)
}

/// Numbers of GPUs from a list such as `0`, `0,1`, `0+1` (where a comma means something else) or `0-7`; `None` if it is none.
pub fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in list.split([',', '+']) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = first.trim().parse().ok().zip(last.trim().parse().ok())?;
        if first > last || last >= 1024 {
            return None;
        }
        numbers.extend(first..=last);
    }
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (distinct.len() == numbers.len()).then_some(numbers)
}
