//! Save a running program, kill it, restore it, and see that it goes on with the right memory.

use std::fs;
use std::path::{Path, PathBuf};

use super::Workload;
use super::checkpoint::check_none;
use crate::bench::Bench;
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::record::{PathTaken, Phase, ProcessTimes};
use savemark_checkpoint::MANIFEST;
use savemark_checkpoint::tree::TreeSource;
use savemark_checkpoint::tree_sink::TreeSink;
use savemark_measure::phase::Watch;
use savemark_process::criu::{Criu, Ended};
use savemark_process::folder::Folder;
use savemark_process::program::Program;
use savemark_process::tree::{self, Tree};
use savemark_process::{After, DumpOptions, images};

mod options;
mod subject;
pub use options::{Mode, ProcessOptions};
use subject::Subject;

/// The workload.
pub struct Process<'a> {
    options: &'a ProcessOptions,
    subject: Option<Subject>,
    /// Images beside the checkpoint, where there are any.
    folder: Option<Folder>,
    /// What it leaves comes to us.
    adopting: Option<tree::Adopting>,
    /// The checkpoint that is there is ours: removed in the end.
    is_ours: bool,
}

impl<'a> Process<'a> {
    /// With these options.
    pub fn new(options: &'a ProcessOptions) -> Self {
        Self { options, subject: None, folder: None, adopting: None, is_ours: false }
    }

    fn subject(&mut self) -> Result<&mut Subject> {
        self.subject.as_mut().ok_or_else(|| Error::failed("the program was not started"))
    }

    fn save(&mut self, bench: &mut Bench) -> Result<Phase> {
        let pid = self.subject()?.pid();
        if let Subject::Ours(program) = self.subject()? {
            program.check(bench.control, "sum")?;
        }
        match self.options.mode {
            Mode::Stream => {
                // Whatever this process has open, its programs may have too; ours need none of it.
                let dump = DumpOptions { cut_pipes: true, ..DumpOptions::new(pid, After::Kill) };
                let options = self.options.save_options();
                let saved =
                    savemark_process::save(&*bench.storage, &dump, &options, &mut bench.memory.pool, bench.control);
                saved.map(|(_, phase)| phase)
            }
            Mode::Tmpfs => self.save_through_memory(pid, bench),
            Mode::Images | Mode::Lazy => self.save_plain(pid, bench),
        }
    }

    /// CRIU's files in memory, then saved as any files.
    fn save_through_memory(&mut self, pid: i32, bench: &mut Bench) -> Result<Phase> {
        let (criu, folder) = (Criu::find()?, Folder::below(Path::new("/dev/shm"))?);
        let (mut watch, before) = (Watch::start(), Tree::of(pid)?.cpu_ns());
        let dumped = images::dump(&criu, pid, folder.path(), bench.control)?;
        watch.stage("dump");
        let source = TreeSource::open(folder.path())?;
        let options = self.options.save_options();
        let (_, saved) =
            savemark_checkpoint::save(&source, &*bench.storage, &options, &mut bench.memory.pool, bench.control)?;
        let mut times = self.times(&criu, &dumped.done, Tree::of(pid)?.cpu_ns().saturating_sub(before));
        times.processes = Tree::of(pid)?.pids().len() as u32;
        watch.stage("save");
        let mut phase = joined(watch.finish("save"), saved);
        add(&mut phase, times, dumped.done.ended);
        dumped.kill()?;
        Ok(phase)
    }

    /// CRIU's files on the storage, synced.
    fn save_plain(&mut self, pid: i32, bench: &mut Bench) -> Result<Phase> {
        let (criu, folder) = (Criu::find()?, Folder::below(directory(bench)?)?);
        let (mut watch, before) = (Watch::start(), Tree::of(pid)?.cpu_ns());
        let dumped = images::dump(&criu, pid, folder.path(), bench.control)?;
        watch.stage("dump");
        let opened = fs::File::open(folder.path()).map_err(|e| Error::io("open", folder.path(), e))?;
        rustix::fs::syncfs(&opened).map_err(|e| Error::io("sync the filesystem of", folder.path(), e))?;
        watch.stage("flush");
        let mut phase = watch.finish("save");
        let mut times = self.times(&criu, &dumped.done, Tree::of(pid)?.cpu_ns().saturating_sub(before));
        times.processes = Tree::of(pid)?.pids().len() as u32;
        (phase.user_bytes, phase.durable) = (images::bytes_in(folder.path())?, bench.storage.capabilities().durable);
        phase.stored_bytes = phase.user_bytes;
        add(&mut phase, times, dumped.done.ended);
        dumped.kill()?;
        self.folder = Some(folder);
        Ok(phase)
    }

    fn restore(&mut self, bench: &mut Bench) -> Result<Phase> {
        let names = self.names(bench)?;
        bench.storage.evict(&names)?;
        let (cache, extents) = bench.storage.look(&names)?;
        let start = clock::now();
        let mut phase = match self.options.mode {
            Mode::Stream => {
                let options = self.options.restore_options();
                savemark_process::restore(&*bench.storage, &options, &mut bench.memory.pool, bench.control)?.phase
            }
            Mode::Tmpfs => self.restore_through_memory(bench)?,
            Mode::Images | Mode::Lazy => self.restore_plain(bench)?,
        };
        self.ask(start, &mut phase, bench)?;
        Ok(Phase { cache: Some(cache), extents, ..phase })
    }

    /// The restored program answers, and then tells what is in its memory.
    fn ask(&mut self, start: u64, phase: &mut Phase, bench: &Bench) -> Result<()> {
        let run_ns = phase.elapsed_ns;
        let subject = self.subject()?;
        subject.check_alive()?;
        let Subject::Ours(program) = subject else {
            phase.notes.push("a command of the user's own: its memory was checked by checksums of chunks alone".into());
            return Ok(());
        };
        program.check(bench.control, "ping")?;
        phase.elapsed_ns = clock::now() - start;
        let answer_ns = phase.elapsed_ns.saturating_sub(run_ns);
        phase.stages.push(savemark_base::record::Stage { name: "first_answer".into(), elapsed_ns: answer_ns });
        program.check(bench.control, "sum")?;
        if let Some(times) = &mut phase.process {
            (times.first_answer_ns, times.resident_ns) = (Some(phase.elapsed_ns), Some(clock::now() - start));
        }
        phase.verified = Some("the program's memory".into());
        Ok(())
    }

    fn restore_through_memory(&mut self, bench: &mut Bench) -> Result<Phase> {
        let (criu, folder) = (Criu::find()?, Folder::below(Path::new("/dev/shm"))?);
        let (root, mut watch) = (self.subject()?.pid(), Watch::start());
        let (sink, options) = (TreeSink::new(&folder.path().join("images"))?, self.options.restore_options());
        let (_, fetched) =
            savemark_checkpoint::restore(&*bench.storage, &sink, &options, &mut bench.memory.pool, bench.control)?;
        sink.finish()?;
        watch.stage("fetch");
        let done = images::restore(&criu, root, &folder.path().join("images"), false, bench.control)?;
        watch.stage("restore");
        let mut phase = joined(watch.finish("restore"), fetched);
        let mut times = self.times(&criu, &done, Tree::of(root)?.cpu_ns());
        times.processes = Tree::of(root)?.pids().len() as u32;
        add(&mut phase, times, done.ended);
        Ok(phase)
    }

    fn restore_plain(&mut self, bench: &mut Bench) -> Result<Phase> {
        let (criu, root) = (Criu::find()?, self.subject()?.pid());
        let folder = self.folder.as_ref().ok_or_else(|| Error::failed("there are no images"))?;
        let mut watch = Watch::start();
        let done = images::restore(&criu, root, folder.path(), self.options.mode == Mode::Lazy, bench.control)?;
        watch.stage("restore");
        let mut phase = watch.finish("restore");
        let mut times = self.times(&criu, &done, Tree::of(root)?.cpu_ns());
        times.processes = Tree::of(root)?.pids().len() as u32;
        phase.user_bytes = images::bytes_in(folder.path())?;
        phase.stored_bytes = phase.user_bytes;
        add(&mut phase, times, done.ended);
        Ok(phase)
    }

    fn times(&self, criu: &Criu, done: &images::Done, program_cpu_ns: u64) -> ProcessTimes {
        ProcessTimes {
            criu: criu.version.clone(),
            mode: self.options.mode.name().into(),
            criu_cpu_ns: done.ended.cpu.user_ns + done.ended.cpu.system_ns,
            program_cpu_ns,
            stats: done.stats.clone(),
            ..Default::default()
        }
    }

    /// The files that a restore reads, below the storage's directory.
    fn names(&self, bench: &Bench) -> Result<Vec<String>> {
        let Some(folder) = &self.folder else {
            let manifest = savemark_checkpoint::restore::open(&*bench.storage)?;
            let shards = manifest.shards.iter().map(|shard| shard.name.clone());
            return Ok(shards.chain([MANIFEST.to_string()]).collect());
        };
        let path = folder.path();
        let entries = fs::read_dir(path).map_err(|e| Error::io("list", path, e))?.flatten();
        let below = |file: PathBuf| Some(format!("{}/{}", path.file_name()?.to_str()?, file.file_name()?.to_str()?));
        Ok(entries.filter_map(|entry| below(entry.path())).collect())
    }
}

/// The directory that CRIU itself can write to.
fn directory<'b>(bench: &'b Bench) -> Result<&'b Path> {
    bench.storage.directory().ok_or_else(|| {
        Error::usage("mode: CRIU writes files into directories only").hint("for this storage use mode stream or tmpfs")
    })
}

/// The measurements of the part that moved bytes, in a phase that did more: of its stages, `save` or `fetch` was that part.
fn joined(whole: Phase, part: Phase) -> Phase {
    let mut stages = Vec::new();
    for mut stage in whole.stages {
        if matches!(&*stage.name, "save" | "fetch") {
            let known: u64 = part.stages.iter().map(|stage| stage.elapsed_ns).sum();
            stages.extend(part.stages.iter().cloned());
            (stage.name, stage.elapsed_ns) = ("files".into(), stage.elapsed_ns.saturating_sub(known));
        }
        stages.push(stage);
    }
    let (elapsed_ns, cpu_user_ns, cpu_system_ns) = (whole.elapsed_ns, whole.cpu_user_ns, whole.cpu_system_ns);
    Phase { prepare_ns: 0, elapsed_ns, cpu_user_ns, cpu_system_ns, stages, ..part }
}

fn add(phase: &mut Phase, times: ProcessTimes, ended: Ended) {
    phase.cpu_user_ns += ended.cpu.user_ns;
    phase.cpu_system_ns += ended.cpu.system_ns + times.program_cpu_ns;
    phase.process = Some(times);
}

impl Workload for Process<'_> {
    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        Criu::find()?.check()?;
        check_none(&*bench.storage)?;
        self.is_ours = true;
        if self.options.mode.is_plain() {
            directory(bench)?;
        }
        self.adopting = Some(tree::adopt());
        let (common, options) = (bench.common, self.options);
        self.subject = Some(match &options.cmd {
            Some(cmd) => Subject::own(cmd, options.ready_after)?,
            None => {
                let (payload, seed) = (common.payload, common.seed);
                Subject::Ours(Program::start(options.program, payload, seed, options.size.0, bench.control)?)
            }
        });
        Ok(None)
    }

    fn phases(&self, bench: &Bench) -> Vec<&'static str> {
        if bench.storage.capabilities().keeps { vec!["save", "restore"] } else { vec!["save"] }
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        if phase == "save" { self.save(bench) } else { self.restore(bench) }
    }

    fn describe(&self, path: &mut PathTaken) {
        if self.options.mode.is_plain() {
            super::own_calls(path, false);
            path.notes.push("files written and read by CRIU".into());
        }
    }

    fn cleanup(&mut self, bench: &mut Bench) -> Result<()> {
        (self.subject, self.folder) = (None, None);
        self.adopting = None; // now that its program is gone
        if self.is_ours { savemark_checkpoint::remove(&*bench.storage) } else { Ok(()) }
    }
}
