//! What a workload works with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::Common;
use savemark_base::buffer::{ALIGN, Pool};
use savemark_base::error::Result;
use savemark_base::payload::PayloadKind;
use savemark_checkpoint::gpu::GpuMemory;
use savemark_checkpoint::state::MemoryState;
use savemark_checkpoint::tree;
use savemark_measure::control::Control;
use savemark_measure::ranks::Placement;
use savemark_storage::Storage;

/// What a workload works with.
pub(crate) struct Bench<'a> {
    pub common: &'a Common,
    pub storage: Arc<dyn Storage>,
    pub memory: &'a mut Memory,
    pub control: &'a Control,
    /// Which rank this is among those that run the trial.
    pub ranks: Placement,
}

impl<'a> Bench<'a> {
    pub fn new(common: &'a Common, storage: Arc<dyn Storage>, memory: &'a mut Memory, control: &'a Control) -> Self {
        Self { common, storage, memory, control, ranks: control.placement() }
    }
}

/// The state to save, room to restore it into, and the workers' buffers: made once, used by many trials.
#[derive(Default)]
pub(crate) struct Memory {
    /// The workers' buffers for I/O: small, since a ring may pin all of them.
    pub pool: Pool,
    /// Room of the workloads that stay in memory.
    pub room: Pool,
    /// The states used last, the latest at the end.
    sources: Vec<(SourceKey, Arc<MemoryState>)>,
    destination: Option<Arc<MemoryState>>,
    /// The state on GPUs used last, and where it is.
    on_gpus: Option<(SourceKey, Vec<u32>, Arc<GpuMemory>)>,
    /// Pinned memory that a state on GPUs passed in this trial.
    pub staged_bytes: u64,
}

/// The state of the checkpoints, and that of the codecs' ceilings, which a study measures in turn.
const STATES_KEPT: usize = 2;

#[derive(Clone, Debug, PartialEq)]
struct SourceKey {
    kind: PayloadKind,
    seed: u64,
    bytes: u64,
    directory: Option<PathBuf>,
}

impl Memory {
    /// The state that the options describe.
    pub fn source(&mut self, common: &Common, bytes: u64, directory: Option<&Path>) -> Result<Arc<MemoryState>> {
        let directory = directory.map(Path::to_path_buf);
        let key = SourceKey { kind: common.payload, seed: common.seed, bytes, directory };
        if let Some(place) = self.sources.iter().position(|(known, _)| *known == key) {
            self.sources[place..].rotate_left(1);
        } else {
            if self.sources.len() == STATES_KEPT {
                // Freed before the next one is made, which can have the same pages: the host is asked for fewer new ones.
                let largest = (0..STATES_KEPT).max_by_key(|at| self.sources[*at].0.bytes).expect("there are two");
                self.sources.remove(largest);
            }
            let state = Arc::new(Self::make(&key)?);
            self.sources.push((key, state));
        }
        Ok(Arc::clone(&self.sources.last().expect("just put there").1))
    }

    /// As [`Memory::source`] of a generated state, with other bytes than before; nobody may hold it.
    pub fn renewed_source(&mut self, common: &Common, bytes: u64) -> Result<Arc<MemoryState>> {
        drop(self.source(common, bytes, None)?);
        let (_, state) = self.sources.last_mut().expect("just put there");
        Arc::get_mut(state).expect("nobody holds a state between two phases").renew();
        Ok(Arc::clone(state))
    }

    /// A state of `bytes` on these GPUs; filled by who uses it.
    pub fn on_gpus(&mut self, common: &Common, bytes: u64, gpus: &[u32]) -> Result<Arc<GpuMemory>> {
        let key = SourceKey { kind: common.payload, seed: common.seed, bytes, directory: None };
        if let Some((known, where_it_is, memory)) = &self.on_gpus
            && (known, where_it_is.as_slice()) == (&key, gpus)
        {
            return Ok(Arc::clone(memory));
        }
        self.on_gpus = None; // freed before the next one is made
        let memory = Arc::new(GpuMemory::new(gpus, bytes, key.kind, key.seed)?);
        self.on_gpus = Some((key, gpus.to_vec(), Arc::clone(&memory)));
        Ok(memory)
    }

    fn make(key: &SourceKey) -> Result<MemoryState> {
        match &key.directory {
            Some(directory) => tree::load(directory),
            None => MemoryState::generate(key.kind, key.seed, key.bytes),
        }
    }

    /// Room for a state of `bytes`.
    pub fn destination(&mut self, bytes: u64) -> Result<Arc<MemoryState>> {
        // One that is too small is freed before the next one is made.
        let large_enough = |state: &Arc<MemoryState>| state.capacity() >= bytes.next_multiple_of(ALIGN as u64);
        let state = match self.destination.take().filter(large_enough) {
            Some(state) => state,
            None => Arc::new(MemoryState::empty(bytes)?),
        };
        self.destination = Some(Arc::clone(&state));
        Ok(state)
    }
}

/// From here on whoever cancels waits for no answer of `storage`.
pub(crate) fn stop_with(control: &Control, storage: &Arc<dyn Storage>) {
    storage.resume(); // what was cancelled before is over
    let storage = Arc::clone(storage);
    control.on_cancel(move || storage.stop());
}
