//! Restores a program: every chunk verified before CRIU gets it, all of them before the program runs.

use std::sync::Arc;
use std::time::Duration;

use super::criu::{Criu, Running};
use super::criu_socket::CriuSocket;
use super::folder::Folder;
use super::gpus::Gpus;
use super::guard::Guard;
use super::image_prefetch::ImagePrefetch;
use super::image_writer::ImageWriter;
use super::limits::PIDS;
use super::process_manifest::ProcessManifest;
use super::stats;
use super::tree::{self, Tree};
use savemark_base::buffer::Pool;
use savemark_base::clock;
use savemark_base::cpu::CpuClock;
use savemark_base::error::{Error, Result};
use savemark_base::leased::LeasedPool;
use savemark_base::record::{Phase, ProcessTimes, Stage};
use savemark_checkpoint::inspect::PROCESS_MANIFEST;
use savemark_checkpoint::restore::{Plan, open};
use savemark_checkpoint::{Manifest, RestoreOptions};
use savemark_host::threads;
use savemark_measure::control::Control;
use savemark_storage::Storage;

/// A program that runs again.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The checkpoint that it comes from.
    pub manifest: Manifest,
    /// What the checkpoint says of it.
    pub table: ProcessManifest,
    /// Time, CPU and bytes.
    pub phase: Phase,
}

/// Restores the program of the checkpoint in `storage`; when this returns, it runs.
///
/// Memory beside that of [`savemark_checkpoint::restore`](fn@savemark_checkpoint::restore): `2 × streams × (queue depth + 1) + 2` chunks, one for
/// each image that CRIU reads at once beside them, and 16 MiB of small images.
///
/// # Errors
/// `Corrupt`, naming shard and offset of the first bad chunk; `Refused` if a process of this number is there; CRIU's
/// reasons. In all cases no process of the checkpoint has run, and none is left; but one whose GPU cannot be filled again has
/// run when it is killed.
pub fn restore(
    storage: &dyn Storage,
    options: &RestoreOptions,
    pool: &mut Pool,
    control: &Control,
) -> Result<Restored> {
    let criu = Criu::find()?;
    let (start_ns, cpu) = (clock::now(), CpuClock::start());
    let manifest = open(storage)?;
    let table = ProcessManifest::of(storage, &manifest)?;
    check_free(&table)?;
    let gpus = Gpus::saved(table.gpus.clone())?;
    let opened_ns = clock::now() - start_ns;
    let plan = Plan::of(&manifest, options.queue_depth);
    let buffers = LeasedPool::with(2 * plan.workers * (plan.in_flight + 1) + 2, manifest.chunk_bytes as usize)?;
    let serve = ImagePrefetch::new(&manifest, buffers)?;
    let mut work = Work::start(&criu, &table)?;
    let options = RestoreOptions { in_place: true, ..options.clone() };
    let fetched = fetch(&serve, &mut work, storage, &options, pool, control);
    let (fetch_ns, mut phase) = match fetched {
        Ok((_, phase)) => (phase.prepare_ns + phase.elapsed_ns, phase),
        Err(error) => {
            work.give_up();
            return Err(error);
        }
    };
    // The images may say another number than the table: then what was rebuilt is not what signals would go to.
    if let Err(error) = work.check_root() {
        work.give_up();
        return Err(error);
    }
    // Every chunk was right, and CRIU has rebuilt the program: it may run.
    let tree = Tree::restored(table.root, table.stopped.clone());
    let times = work.times(&criu, &tree, &serve);
    tree.go_on();
    drop(work);
    // Its own threads put back what it had there; until then its CUDA calls wait.
    gpus.put_back().inspect_err(|_| drop(tree.kill()))?;
    // CRIU has been at work since before the workers were ready: all of it counts.
    phase.elapsed_ns = clock::now() - start_ns;
    let cpu = cpu.elapsed();
    (phase.cpu_user_ns, phase.cpu_system_ns) = (cpu.user_ns, cpu.system_ns);
    describe(&mut phase, opened_ns, fetch_ns, times);
    Ok(Restored { manifest: manifest.clone(), table, phase })
}

/// Runs the workers of an ordinary restore, and beside them the pump.
fn fetch(
    serve: &ImagePrefetch,
    work: &mut Work,
    storage: &dyn Storage,
    options: &RestoreOptions,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase)> {
    let line = work.line.take().ok_or_else(|| Error::failed("a restore was started twice"))?;
    let criu = &mut work.criu;
    std::thread::scope(|scope| {
        let pump = threads::start(scope, (0, 1), move || ImageWriter::new(serve, criu, line).run())?;
        let fetched = savemark_checkpoint::restore(storage, serve, options, pool, control);
        serve.stop();
        pump.join().map_err(|_| Error::failed("the pump panicked; this is a bug in savemark"))?;
        fetched
    })
}

/// The numbers must be free. Those of zombies will be: children of ours are reaped, others have a moment for it.
fn check_free(table: &ProcessManifest) -> Result<()> {
    let zombies: Vec<i32> = table.processes.iter().copied().filter(|pid| tree::state(*pid) == Some('Z')).collect();
    let _ = tree::wait_gone(&zombies, Duration::from_secs(1));
    let taken = table.processes.iter().find(|pid| tree::state(**pid).is_some());
    let Some(pid) = taken else { return Ok(()) };
    let what = match tree::state(*pid) {
        Some('Z') => "it has ended, and its parent has not asked for its result".to_string(),
        _ => format!("`{}`", tree::name(*pid)),
    };
    Err(Error::refused(format!("the number {pid} of a process of the checkpoint is in use: {what}")).hint(
        "a program comes back under its old numbers: end that process first, or restore in a namespace of its own: \
         unshare --pid --fork --mount-proc savemark restore …",
    ))
}

/// The stages in the order in which they end: CRIU and the workers go on side by side.
fn describe(phase: &mut Phase, opened_ns: u64, fetch_ns: u64, times: ProcessTimes) {
    phase.cpu_user_ns += times.criu_cpu_ns;
    phase.cpu_system_ns += times.program_cpu_ns;
    let prepare_ns = std::mem::take(&mut phase.prepare_ns);
    phase.stages.insert(0, Stage { name: "open".into(), elapsed_ns: opened_ns + prepare_ns });
    let rest = phase.elapsed_ns.saturating_sub(opened_ns + fetch_ns);
    phase.stages.push(Stage { name: "restore".into(), elapsed_ns: rest });
    phase.process = Some(times);
}

/// A CRIU that restores, and what it left if that does not end well.
struct Work {
    criu: Running,
    line: Option<CriuSocket>,
    folder: Arc<Folder>,
    guard: Option<Guard>,
    processes: Vec<i32>,
    root: i32,
}

impl Work {
    fn start(criu: &Criu, table: &ProcessManifest) -> Result<Self> {
        let folder = Arc::new(Folder::new()?);
        let line = CriuSocket::listen("restore", &folder)?;
        let pid_file = folder.path().join("pid");
        let mut guard = Guard::kill(&pid_file, &folder)?;
        let mut words = vec!["--restore-detached".to_string(), "--leave-stopped".to_string()];
        words.extend(["--pidfile".to_string(), pid_file.to_string_lossy().into_owned()]);
        words.extend(super::criu::options(&table.criu_options.join(" "))?);
        let running = criu.start("restore", &folder, None, &words)?;
        guard.watch(running.pid())?;
        let processes = table.processes.clone();
        Ok(Self { criu: running, line: Some(line), folder, guard: Some(guard), processes, root: table.root })
    }

    fn times(&self, criu: &Criu, tree: &Tree, serve: &ImagePrefetch) -> ProcessTimes {
        let used = serve.how().map(|ended| ended.cpu).unwrap_or_default();
        ProcessTimes {
            criu: criu.version.clone(),
            mode: "stream".into(),
            processes: self.processes.len() as u32,
            criu_cpu_ns: used.user_ns + used.system_ns,
            program_cpu_ns: tree.cpu_ns(),
            stats: stats::read(self.folder.path(), "stats-restore").unwrap_or_default(),
            ..Default::default()
        }
    }

    /// The number of what CRIU has rebuilt, once it has.
    fn rebuilt(&self) -> Option<i32> {
        let text = std::fs::read_to_string(self.folder.path().join("pid")).ok()?;
        text.trim().parse().ok().filter(|pid| PIDS.contains(pid))
    }

    fn check_root(&self) -> Result<()> {
        match self.rebuilt() {
            Some(pid) if pid == self.root => Ok(()),
            Some(pid) => Err(Error::corrupt(format!(
                "{PROCESS_MANIFEST} is damaged: the images are of process {pid}, and not of {}",
                self.root
            ))),
            None => Err(Error::failed("criu restore does not say what it has restored").hint("try again")),
        }
    }

    /// Ends CRIU and kills what it has made: all of it is still stopped.
    fn give_up(mut self) {
        self.criu.stop();
        // Without CRIU's word the number may be somebody else's by now.
        for pid in self.rebuilt().map(tree::pids).unwrap_or_default() {
            tree::signal(pid, rustix::process::Signal::KILL);
        }
        let _ = tree::wait_gone(&self.processes, Duration::from_secs(10));
        drop(self.guard.take());
    }
}
