//! What the commands and the Python API do with a checkpoint: one call each, with a report of what happened.
//!
//! Options are those of the workload `checkpoint` on a storage: a [`Trial`], the one definition of every option.

use std::sync::Arc;

use serde::Serialize;

use crate::bench::stop_with;
use crate::trial::Trial;
use crate::workload::Options as Workload;
use crate::workload::checkpoint::CheckpointOptions;
use savemark_base::buffer::{Kept, Pool};
use savemark_base::error::{Error, Result};
use savemark_base::record::{PathTaken, Phase};
use savemark_checkpoint::gpu::{self, GpuState, Limit};
use savemark_checkpoint::inspect::{self, Contents, Orphan, Summary};
use savemark_checkpoint::state::Discard;
use savemark_checkpoint::tree::TreeSource;
use savemark_checkpoint::tree_sink::TreeSink;
use savemark_checkpoint::{Manifest, RestoreOptions, SaveOptions, Sink, Source, read};
use savemark_measure::control::Control;
use savemark_process::{DumpOptions, ProcessManifest};
use savemark_storage::{Storage, Target};

/// What a save, a restore or a verification did.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The checkpoint.
    pub checkpoint: Summary,
    /// Time, CPU and bytes.
    pub phase: Phase,
    /// The path that really ran.
    pub path: PathTaken,
    /// Bytes of the engine's own buffers.
    pub buffer_bytes: u64,
}

/// A place for one checkpoint, and how to use it.
pub struct CheckpointLocation<'a> {
    storage: Arc<dyn Storage>,
    options: &'a CheckpointOptions,
    target: Target,
}

impl<'a> CheckpointLocation<'a> {
    /// Opens the target of `trial`.
    ///
    /// # Errors
    /// `Usage` if the trial is of another workload; what opening the storage says.
    pub fn open(trial: &'a Trial) -> Result<Self> {
        let Workload::Checkpoint(options) = &trial.workload else {
            return Err(Error::usage("only the workload `checkpoint` has checkpoints"));
        };
        let target = trial.common.target.clone().unwrap_or_default();
        Ok(Self { storage: savemark_storage::open(&trial.storage, target.clone())?, options, target })
    }

    /// Whoever cancels `control` waits for no answer of this place.
    #[must_use]
    pub fn stopping_with(&self, control: &Control) -> &Self {
        stop_with(control, &self.storage);
        self
    }

    /// Saves `source`; refuses a place that holds files of others.
    ///
    /// # Errors
    /// As [`savemark_checkpoint::save`](fn@savemark_checkpoint::save).
    pub fn save(&self, source: &dyn Source, control: &Control) -> Result<Report> {
        stop_with(control, &self.storage);
        inspect::check_ours(&*self.storage, &self.target.to_string())?;
        let (mut pool, options) = (Kept::take(), SaveOptions::from(self.options));
        let (manifest, phase) = savemark_checkpoint::save(source, &*self.storage, &options, &mut pool, control)?;
        Ok(self.report(&manifest, phase, &pool))
    }

    /// Saves what is in the memory of GPUs.
    ///
    /// # Errors
    /// As [`gpu::save`].
    pub fn save_gpu(&self, state: &GpuState, control: &Control) -> Result<Report> {
        stop_with(control, &self.storage);
        inspect::check_ours(&*self.storage, &self.target.to_string())?;
        let (mut pool, options) = (Kept::take(), SaveOptions::from(self.options));
        let (manifest, phase, staged) = gpu::save(state, &*self.storage, &options, self.staging(), &mut pool, control)?;
        Ok(self.gpu_report(state, &manifest, phase, &pool, staged))
    }

    /// Restores the checkpoint, which is of these chunks, into the memory of GPUs.
    ///
    /// # Errors
    /// As [`gpu::restore`].
    pub fn restore_gpu(&self, state: &GpuState, chunk_bytes: u64, control: &Control) -> Result<Report> {
        stop_with(control, &self.storage);
        let (mut pool, options) = (Kept::take(), RestoreOptions::from(self.options));
        let (manifest, phase, staged) =
            gpu::restore(state, &*self.storage, &options, chunk_bytes, self.staging(), &mut pool, control)?;
        Ok(self.gpu_report(state, &manifest, phase, &pool, staged))
    }

    fn staging(&self) -> Limit {
        Limit::alone(self.options.staging)
    }

    fn gpu_report(&self, state: &GpuState, manifest: &Manifest, phase: Phase, pool: &Pool, staged: u64) -> Report {
        let mut report = self.report(manifest, phase, pool);
        report.path.notes.extend(state.describe());
        report.buffer_bytes += staged;
        report
    }

    /// Saves the files at `source`.
    ///
    /// # Errors
    /// As [`TreeSource::open`] and [`save`](Self::save).
    pub fn save_tree(&self, source: &std::path::Path, control: &Control) -> Result<Report> {
        self.save(&TreeSource::open(source)?, control)
    }

    /// Restores into `sink`.
    ///
    /// # Errors
    /// As [`savemark_checkpoint::restore`](fn@savemark_checkpoint::restore).
    pub fn restore(&self, sink: &dyn Sink, control: &Control) -> Result<Report> {
        stop_with(control, &self.storage);
        let (mut pool, options) = (Kept::take(), RestoreOptions::from(self.options));
        let (manifest, phase) = savemark_checkpoint::restore(&*self.storage, sink, &options, &mut pool, control)?;
        Ok(self.report(&manifest, phase, &pool))
    }

    /// Restores as files below `destination`, which appears when all is verified and durable.
    ///
    /// # Errors
    /// As [`TreeSink::new`] and [`restore`](Self::restore).
    pub fn restore_tree(&self, destination: &std::path::Path, control: &Control) -> Result<Report> {
        let sink = TreeSink::new(destination)?;
        let start = savemark_base::clock::now();
        let mut report = self.restore(&sink, control)?;
        control.check()?;
        sink.finish()?;
        report.phase.elapsed_ns = savemark_base::clock::now() - start;
        Ok(report)
    }

    /// Saves a running program.
    ///
    /// # Errors
    /// As [`savemark_process::save()`].
    pub fn save_process(&self, dump: &DumpOptions, control: &Control) -> Result<Report> {
        stop_with(control, &self.storage);
        inspect::check_ours(&*self.storage, &self.target.to_string())?;
        let (mut pool, options) = (Kept::take(), SaveOptions::from(self.options));
        let (manifest, phase) = savemark_process::save(&*self.storage, dump, &options, &mut pool, control)?;
        Ok(self.report(&manifest, phase, &pool))
    }

    /// Restores the program that was saved here; when this returns, it runs.
    ///
    /// # Errors
    /// As [`savemark_process::restore()`].
    pub fn restore_process(&self, control: &Control) -> Result<(ProcessManifest, Report)> {
        stop_with(control, &self.storage);
        let (mut pool, options) = (Kept::take(), RestoreOptions::from(self.options));
        let restored = savemark_process::restore(&*self.storage, &options, &mut pool, control)?;
        let report = self.report(&restored.manifest, restored.phase, &pool);
        Ok((restored.table, report))
    }

    /// Reads everything and keeps nothing.
    ///
    /// # Errors
    /// `Corrupt`, naming shard and offset of the first chunk that is not what was saved.
    pub fn verify(&self, control: &Control) -> Result<Report> {
        self.restore(&Discard, control)
    }

    /// The manifest.
    ///
    /// # Errors
    /// As [`savemark_checkpoint::restore::open`].
    pub fn manifest(&self) -> Result<Manifest> {
        savemark_checkpoint::restore::open(&*self.storage)
    }

    /// One small member, if there is one of this name.
    ///
    /// # Errors
    /// As [`read::member`].
    pub fn member(&self, manifest: &Manifest, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        read::member(&*self.storage, manifest, name, limit)
    }

    /// What is here.
    ///
    /// # Errors
    /// As [`inspect::contents`].
    pub fn contents(&self) -> Result<Contents> {
        inspect::contents(&*self.storage)
    }

    /// Removes what interrupted saves into this place left.
    ///
    /// # Errors
    /// As [`inspect::clean`].
    pub fn clean(&self, dry_run: bool) -> Result<Vec<Orphan>> {
        inspect::clean(&*self.storage, dry_run)
    }

    /// Removes the checkpoint.
    ///
    /// # Errors
    /// As [`inspect::remove`].
    pub fn remove(&self) -> Result<()> {
        inspect::remove(&*self.storage)
    }

    fn report(&self, manifest: &Manifest, phase: Phase, pool: &Pool) -> Report {
        let (checkpoint, path) = (Summary::of(manifest), self.storage.path_taken());
        Report { checkpoint, phase, path, buffer_bytes: pool.bytes() }
    }
}
