//! A trial from end to end: prepare → phases → cleanup. The only control flow there is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::{ALIGN, Pool};
use crate::checkpoint::state::MemoryState;
use crate::checkpoint::tree;
use crate::control::Control;
use crate::error::Result;
use crate::host;
use crate::measure::device::BlockDevice;
use crate::measure::{clock, machine};
use crate::payload::PayloadKind;
use crate::record::{Phase, Record, SCHEMA_VERSION};
use crate::storage::{self, Storage, Target};
use crate::trial::{Common, Trial};
use crate::workload::Workload;

/// Runs trials one after the other, and keeps memory between them.
#[derive(Debug, Default)]
pub struct Engine {
    memory: Memory,
}

impl Engine {
    /// With no memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `trial`. Whatever happens, what it made on the storage is removed.
    pub fn run(&mut self, trial: &Trial, control: &Control) -> Result<Record> {
        let (started_unix_ns, start_ns) = (clock::unix_now(), clock::now());
        let target = trial.common.target.clone().unwrap_or_default();
        let storage = storage::open(&trial.storage, target.clone())?;
        let in_a_filesystem = !storage.path_taken().filesystem.is_empty();
        let directory = match &target {
            Target::Directory(directory) if in_a_filesystem => Some(directory.as_path()),
            _ => None,
        };
        let device = directory.and_then(|directory| BlockDevice::of(directory).ok());
        let conditions = host::conditions(directory, device.as_ref());
        let mut bench =
            Bench { common: &trial.common, storage: Arc::clone(&storage), memory: &mut self.memory, control };
        let mut workload = trial.workload.build();
        let phases = measure(&mut *workload, &mut bench, device.as_ref());
        let cleaned = workload.cleanup(&mut bench);
        let phases = phases?;
        cleaned?;
        let mut path = storage.path_taken(); // now that it was taken
        workload.describe(&mut path);
        Ok(Record {
            schema: SCHEMA_VERSION,
            trial: trial.clone(),
            started_unix_ns,
            elapsed_ns: clock::now() - start_ns,
            path,
            buffer_bytes: self.memory.pool.bytes(),
            conditions,
            phases,
        })
    }
}

fn measure(workload: &mut dyn Workload, bench: &mut Bench, device: Option<&BlockDevice>) -> Result<Vec<Phase>> {
    let mut phases: Vec<Phase> = workload.prepare(bench)?.into_iter().collect();
    for name in workload.phases(bench) {
        bench.control.check()?;
        let look = || (device.and_then(BlockDevice::snapshot), machine::snapshot());
        let before = look();
        let mut phase = workload.run(name, bench)?;
        let after = look();
        phase.device = before.0.zip(after.0).map(|(before, after)| after.since(&before));
        phase.machine = before.1.zip(after.1).map(|(before, after)| after.since(&before));
        // What CRIU and the program used is the trial's own as well.
        if let (Some(machine), Some(process)) = (&mut phase.machine, &phase.process) {
            machine.own_ns += process.criu_cpu_ns + process.program_cpu_ns;
        }
        phases.push(phase);
    }
    Ok(phases)
}

/// What a workload works with.
pub(crate) struct Bench<'a> {
    pub common: &'a Common,
    pub storage: Arc<dyn Storage>,
    pub memory: &'a mut Memory,
    pub control: &'a Control,
}

/// The state to save, room to restore it into, and the workers' buffers: made once, used by many trials.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The workers' buffers for I/O: small, since a ring may pin all of them.
    pub pool: Pool,
    /// Room of the workloads that stay in memory.
    pub room: Pool,
    /// The states used last, the latest at the end.
    sources: Vec<(SourceKey, Arc<MemoryState>)>,
    destination: Option<Arc<MemoryState>>,
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
                self.sources.remove(0); // freed before the next one is made
            }
            let state = Arc::new(Self::make(&key)?);
            self.sources.push((key, state));
        }
        Ok(Arc::clone(&self.sources.last().expect("just put there").1))
    }

    fn make(key: &SourceKey) -> Result<MemoryState> {
        match &key.directory {
            Some(directory) => tree::load(directory),
            None => MemoryState::generate(key.kind, key.seed, key.bytes),
        }
    }

    /// Room for a state of `bytes`.
    pub fn destination(&mut self, bytes: u64) -> Result<Arc<MemoryState>> {
        let state = match self.destination.take() {
            Some(state) if state.capacity() >= bytes.next_multiple_of(ALIGN as u64) => state,
            _ => Arc::new(MemoryState::empty(bytes)?),
        };
        self.destination = Some(Arc::clone(&state));
        Ok(state)
    }
}
