//! A trial from end to end: prepare → phases → cleanup. The only control flow there is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::{ALIGN, Pool};
use crate::checkpoint::gpu::GpuMemory;
use crate::checkpoint::state::MemoryState;
use crate::checkpoint::tree;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::measure::clock;
use crate::payload::PayloadKind;
use crate::ranks::{Placement, Sharing};
use crate::record::{Phase, Record, SCHEMA_VERSION};
use crate::storage::{self, Storage, Target};
use crate::trial::{Common, Trial};
use crate::witness::Witness;
use crate::workload::Workload;

/// Runs trials one after the other, and keeps memory between them.
#[derive(Default)]
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
        self.run_around(trial, control, &mut |_, _| Ok(()))
    }

    /// As [`Engine::run`]; calls `around` before and after each measured phase, outside its time. An error of it ends the trial.
    ///
    /// Among other ranks, which `control` knows, it does its part of the trial; a rank that fails ends it for all.
    pub fn run_around(&mut self, trial: &Trial, control: &Control, around: &mut Around) -> Result<Record> {
        self.run_part(trial, control, around).inspect_err(|error| drop(control.part(Some(error))))
    }

    fn run_part(&mut self, trial: &Trial, control: &Control, around: &mut Around) -> Result<Record> {
        let (started_unix_ns, start_ns) = (clock::unix_now(), clock::now());
        let mut workload = trial.workload.build();
        let place = Place::make(trial, workload.sharing(), control.placement())?;
        let target = place.common.target.clone().unwrap_or_default();
        let storage = storage::open(&trial.storage, target.clone())?;
        let in_a_filesystem = !storage.path_taken().filesystem.is_empty();
        let directory = match &target {
            Target::Directory(directory) if in_a_filesystem => Some(directory.as_path()),
            _ => None,
        };
        let witness = Witness::of(directory);
        let conditions = witness.conditions();
        let mut bench = Bench::new(&place.common, Arc::clone(&storage), &mut self.memory, control);
        bench.memory.staged_bytes = 0;
        stop_with(control, &storage);
        let phases = measure(&mut *workload, &mut bench, &witness, around);
        // Nobody removes what another rank still reads.
        let parted = control.part(phases.as_ref().err());
        storage.resume();
        let cleaned = workload.cleanup(&mut bench);
        let phases = phases?;
        parted.and(cleaned)?;
        let mut path = storage.path_taken(); // now that it was taken
        workload.describe(&mut path);
        Ok(Record {
            schema: SCHEMA_VERSION,
            trial: trial.clone(),
            started_unix_ns,
            elapsed_ns: clock::now() - start_ns,
            path,
            buffer_bytes: self.memory.pool.bytes() + self.memory.staged_bytes,
            conditions,
            phases,
        })
    }

    /// Only prepares `trial`, and leaves on the storage what another program is to be measured on.
    pub fn prepare(&mut self, trial: &Trial, control: &Control) -> Result<Option<Phase>> {
        let storage = storage::open(&trial.storage, trial.common.target.clone().unwrap_or_default())?;
        stop_with(control, &storage);
        let mut bench = Bench::new(&trial.common, storage, &mut self.memory, control);
        let mut workload = trial.workload.build();
        let prepared = workload.prepare(&mut bench);
        if prepared.is_err() {
            bench.storage.resume();
            workload.cleanup(&mut bench)?;
        }
        prepared
    }
}

/// From here on whoever cancels waits for no answer of `storage`.
pub(crate) fn stop_with(control: &Control, storage: &Arc<dyn Storage>) {
    storage.resume(); // what was cancelled before is over
    let storage = Arc::clone(storage);
    control.on_cancel(move || storage.stop());
}

fn measure(
    workload: &mut dyn Workload,
    bench: &mut Bench,
    witness: &Witness,
    around: &mut Around,
) -> Result<Vec<Phase>> {
    let mut phases: Vec<Phase> = workload.prepare(bench)?.into_iter().collect();
    bench.control.meet("the end of preparing", &[])?;
    let names = workload.phases(bench);
    for (index, &name) in names.iter().enumerate() {
        bench.control.check()?;
        around(Moment::Before, name)?;
        let before = witness.look();
        bench.control.arm();
        let mut phase = workload.run(name, bench)?;
        let seen = witness.look().since(before);
        (phase.device, phase.machine) = (seen.device, seen.machine);
        (phase.gds_bytes, phase.cufile) = (seen.gds_bytes, seen.cufile);
        // What CRIU and the program used is the trial's own as well.
        if let (Some(machine), Some(process)) = (&mut phase.machine, &phase.process) {
            machine.own_ns += process.criu_cpu_ns + process.program_cpu_ns;
        }
        around(Moment::After, name)?;
        // Behind the last one all meet to part.
        if index + 1 < names.len() {
            bench.control.meet(&format!("the end of {name}"), &[])?;
        }
        phases.push(phase);
    }
    Ok(phases)
}

/// When somebody who stands around a phase is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Everything is prepared, and the clock has not started.
    Before,
    /// The clock has stopped, and what was made is still there.
    After,
}

/// Stands around the phases: what is called with the moment and the phase's name.
pub type Around<'a> = dyn FnMut(Moment, &str) -> Result<()> + 'a;

/// Where one rank works, and on what: its own folder and data, or the place that all share.
struct Place {
    common: Common,
    /// Made by us: removed in the end.
    folder: Option<PathBuf>,
}

impl Place {
    fn make(trial: &Trial, sharing: Sharing, placement: Placement) -> Result<Self> {
        let common = trial.common.clone();
        if placement.is_alone() {
            return Ok(Self { common, folder: None });
        }
        if sharing == Sharing::Together && matches!(trial.storage, storage::Options::Memory(_)) {
            let why = "storage memory: each rank has its own, and none sees the files of another";
            return Err(Error::usage(why).hint("use a directory, such as one in /dev/shm, and --storage posix"));
        }
        if sharing == Sharing::Together {
            return Ok(Self { common, folder: None });
        }
        if sharing == Sharing::Alone {
            let why = format!("ranks: this workload runs in one process, not in {}", placement.ranks);
            return Err(Error::usage(why).hint("use --ranks 1, or a workload that ranks share, such as checkpoint"));
        }
        let target = common.target.as_ref().map(|target| target.below(&format!("rank-{:05}", placement.rank)));
        let folder = match &target {
            Some(Target::Directory(folder)) => {
                std::fs::create_dir(folder).map_err(|e| Error::io("make the directory", folder, e))?;
                Some(folder.clone())
            }
            _ => None,
        };
        Ok(Self { common: Common { target, seed: placement.seed(common.seed), ..common }, folder })
    }
}

impl Drop for Place {
    /// Removes the folder. One that is not empty stays: what is in it is not ours, or could not be removed, which was said.
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

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
