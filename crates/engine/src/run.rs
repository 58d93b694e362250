//! A trial from end to end: prepare → phases → cleanup. The only control flow there is.

use std::path::PathBuf;
use std::sync::Arc;

use crate::bench::{Bench, Memory, stop_with};
use crate::common::Common;
use crate::record::{Record, SCHEMA_VERSION};
use crate::trial::Trial;
use crate::workload::Workload;
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::record::Phase;
use savemark_host::evidence::Evidence;
use savemark_measure::control::Control;
use savemark_measure::ranks::{Placement, Sharing};
use savemark_storage::Target;

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
        let place = RankTarget::make(trial, workload.sharing(), control.placement())?;
        let target = place.common.target.clone().unwrap_or_default();
        let storage = savemark_storage::open(&trial.storage, target.clone())?;
        let in_a_filesystem = !storage.path_taken().filesystem.is_empty();
        let directory = match &target {
            Target::Directory(directory) if in_a_filesystem => Some(directory.as_path()),
            _ => None,
        };
        let evidence = Evidence::of(directory);
        let conditions = evidence.conditions();
        let mut bench = Bench::new(&place.common, Arc::clone(&storage), &mut self.memory, control);
        bench.memory.staged_bytes = 0;
        stop_with(control, &storage);
        let phases = measure(&mut *workload, &mut bench, &evidence, around);
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
        let storage = savemark_storage::open(&trial.storage, trial.common.target.clone().unwrap_or_default())?;
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

fn measure(
    workload: &mut dyn Workload,
    bench: &mut Bench,
    evidence: &Evidence,
    around: &mut Around,
) -> Result<Vec<Phase>> {
    let mut phases: Vec<Phase> = workload.prepare(bench)?.into_iter().collect();
    bench.control.meet("the end of preparing", &[])?;
    let names = workload.phases(bench);
    for (index, &name) in names.iter().enumerate() {
        bench.control.check()?;
        around(Moment::Before, name)?;
        let before = evidence.look();
        bench.control.arm();
        let mut phase = workload.run(name, bench)?;
        let seen = evidence.look().since(before);
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
struct RankTarget {
    common: Common,
    /// Made by us: removed in the end.
    folder: Option<PathBuf>,
}

impl RankTarget {
    fn make(trial: &Trial, sharing: Sharing, placement: Placement) -> Result<Self> {
        let common = trial.common.clone();
        if placement.is_alone() {
            return Ok(Self { common, folder: None });
        }
        if sharing == Sharing::Together && matches!(trial.storage, savemark_storage::Options::Memory(_)) {
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

impl Drop for RankTarget {
    /// Removes the folder. One that is not empty stays: what is in it is not ours, or could not be removed, which was said.
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
