//! A parallel solver that saves its state every few iterations: what a sync policy costs, in the program that pays for it.
//!
//! The solver is Jacobi's for the heat equation on a square: its numbers stay finite, and a cell's value does not depend on how
//! many threads there are, so a restart can be compared bit for bit.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Workload, own_calls};
use crate::bench::Bench;
use savemark_base::clock;
use savemark_base::cpu::CpuClock;
use savemark_base::error::{Error, Result};
use savemark_base::record::{PathTaken, Phase, Stage, Worker};
use savemark_base::size::Span;
use savemark_measure::control::Control;
use savemark_measure::phase::{self, Team, Watch};
use savemark_measure::worker::Meter;

mod commit;
mod file;
mod grid;
mod meeting;
mod policy;
pub mod save_observer;
mod spent;
mod turn;

use commit::Commit;
use grid::Grid;
use meeting::Meeting;
pub use policy::{Lasts, Policy};
use save_observer::SaveObserver;
use spent::Spent;
use turn::Turn;

/// Options of `iterate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IterateOptions {
    /// Rows and columns of the square of 8-byte numbers that is solved, and saved.
    pub side: u32,
    /// Threads; each has a band of rows.
    pub workers: u32,
    /// Iterations to run; with a duration, the least.
    pub iterations: u64,
    /// Go on with iterations until this time has passed.
    pub duration: Option<Span>,
    /// Iterations between two saves: how much is computed for one.
    pub every: u64,
    /// What one write holds.
    pub layout: Layout,
    /// How a save is made to last.
    pub policy: Policy,
}

/// What one write holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// A row; every thread writes those of its band, as the published study does.
    #[default]
    Rows,
    /// A band; every thread writes its own.
    Bands,
    /// All of it; the first thread writes, the others wait for it when they next meet.
    Matrix,
}

impl Default for IterateOptions {
    fn default() -> Self {
        Self {
            side: 512,
            workers: 2,
            iterations: 100,
            duration: None,
            every: 1,
            layout: Layout::Rows,
            policy: Policy::FsyncLeader,
        }
    }
}

impl IterateOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        if !(3..=65_536).contains(&self.side) {
            return Err(Error::usage(format!("side: {} is not between 3 and 65536", self.side)));
        }
        if !(1..=1024).contains(&self.workers) || self.workers > self.side {
            return Err(Error::usage(format!(
                "workers: {} is not between 1 and {}",
                self.workers,
                self.side.min(1024)
            )));
        }
        if self.every == 0 || self.iterations < self.every {
            let why = format!("every: {} of {} iterations never saves", self.every, self.iterations);
            return Err(Error::usage(why).hint("use --every 1"));
        }
        if self.policy.is_direct() && !self.side.is_multiple_of(512) {
            return Err(Error::usage(format!(
                "side: direct writes need rows of whole pages, and {} is not",
                self.side
            ))
            .hint("use a --side that is a multiple of 512"));
        }
        Ok(())
    }
}

/// The directory below the target that holds the checkpoint.
const ROOT: &str = "savemark-iterate";

/// The workload.
pub struct Iterate<'a> {
    options: &'a IterateOptions,
    /// Made by us: removed in the end.
    root: Option<PathBuf>,
    grid: Option<Grid>,
    /// Iterations that were run.
    done: u64,
}

impl<'a> Iterate<'a> {
    /// With these options.
    pub fn new(options: &'a IterateOptions) -> Self {
        Self { options, root: None, grid: None, done: 0 }
    }

    fn root(&self) -> &PathBuf {
        self.root.as_ref().expect("made by prepare")
    }

    /// The solver with its saves.
    fn iterate(&mut self, bench: &mut Bench) -> Result<Phase> {
        let options = self.options;
        let grid = self.grid.as_ref().expect("made by prepare");
        let commit = commit::new(options, self.root(), grid)?;
        let known = if options.duration.is_none() { options.iterations / options.every } else { 0 };
        bench.control.begin("iterate", known * grid.bytes());
        let watch = Watch::start();
        let job = Job { commit: Some(&*commit), duration: options.duration, ..Job::new(options, grid, bench.control) };
        let solved = job.solve(0..options.iterations)?;
        let solved_ns = clock::now();
        commit.finish()?;
        let drained_ns = clock::now() - solved_ns;
        drop(commit);
        let mut phase = solved.team.into_phase(watch, "iterate");
        phase.stages = solved.path.stages(phase.elapsed_ns);
        phase.elapsed_ns += drained_ns;
        phase.stages.push(Stage { name: "drain".into(), elapsed_ns: drained_ns });
        phase.iterations = Some(solved.iterations);
        phase.durable = options.policy.is_durable() && bench.storage.capabilities().durable;
        phase.notes.push(format!("contract: {}", options.policy.contract()));
        if bench.storage.capabilities().durable {
            self.make_durable(&mut phase)?;
        }
        self.done = solved.iterations;
        Ok(phase)
    }

    /// Says what of the saves is durable by when. Where nothing is, that is the last of them, by a flush after the clock has
    /// stopped: those before it were overwritten in memory.
    fn make_durable(&self, phase: &mut Phase) -> Result<()> {
        let start_ns = clock::now();
        if phase.durable {
            phase.durable_bytes = Some(phase.user_bytes);
        } else {
            file::sync_files(self.root())?;
            phase.durable_bytes = self.grid.as_ref().map(Grid::bytes);
        }
        phase.durable_ns = Some(phase.elapsed_ns + (clock::now() - start_ns));
        Ok(())
    }

    /// Reads the last save, goes on from there, and compares with the solver that was never stopped.
    fn restart(&mut self, bench: &mut Bench) -> Result<Phase> {
        let options = self.options;
        let grid = self.grid.as_ref().expect("made by prepare");
        let saved = self.done / options.every * options.every;
        let goal = saved + options.every;
        let again = Grid::new(options.side as usize)?;
        Job::new(options, grid, bench.control).solve(self.done..goal)?;
        bench.control.begin("restart", grid.bytes());
        file::evict(self.root())?;
        let watch = Watch::start();
        let (start_ns, cpu) = (clock::now(), CpuClock::start());
        let generation = file::load(self.root(), options.policy, &again)?;
        let (read_ns, cpu) = (clock::now() - start_ns, cpu.elapsed());
        if generation != saved {
            return Err(Error::corrupt(format!("the checkpoint is of iteration {generation}, not {saved}")));
        }
        let solved = Job::new(options, &again, bench.control).solve(generation..goal)?;
        let mut phase = solved.team.into_phase(watch, "restart");
        phase.stages = solved.path.stages(phase.elapsed_ns);
        // One thread reads before the others come to the barrier: that is the restart, and no preparation.
        phase.elapsed_ns += read_ns;
        phase.prepare_ns -= read_ns;
        (phase.cpu_user_ns, phase.cpu_system_ns) =
            (phase.cpu_user_ns + cpu.user_ns, phase.cpu_system_ns + cpu.system_ns);
        phase.stages.insert(0, Stage { name: "read".into(), elapsed_ns: read_ns });
        (phase.operations, phase.user_bytes, phase.stored_bytes) = (1, grid.bytes(), grid.bytes());
        // One thread reads; the others have nothing to share.
        phase.workers = vec![Worker { user_bytes: grid.bytes(), operations: 1, done_ns: read_ns, cpu_ns: 0 }];
        if grid.state(goal) != again.state(goal) {
            return Err(Error::corrupt("the restarted solver reaches another state"));
        }
        phase.verified = Some("state and residual, bit for bit".into());
        Ok(phase)
    }
}

/// A solver at work.
struct Job<'a> {
    options: &'a IterateOptions,
    grid: &'a Grid,
    control: &'a Control,
    /// Saves, or not.
    commit: Option<&'a dyn Commit>,
    /// Is told of the saves, or nobody is.
    observer: Option<&'a dyn SaveObserver>,
    /// Goes on at least so long.
    duration: Option<Span>,
}

/// What a solver did.
struct Solved {
    team: Team,
    /// Of the thread that the others waited for, from meeting to meeting.
    path: Spent,
    /// Number of the last one.
    iterations: u64,
}

impl<'a> Job<'a> {
    /// That saves nothing.
    fn new(options: &'a IterateOptions, grid: &'a Grid, control: &'a Control) -> Self {
        Self { options, grid, control, commit: None, observer: None, duration: None }
    }

    /// Runs the iterations after `range.start` up to `range.end`, or on until the time has passed.
    fn solve(&self, range: std::ops::Range<u64>) -> Result<Solved> {
        let workers = self.options.workers as usize;
        let meeting = Meeting::new(workers, self.control);
        // Moved on by the first thread, before a meeting after which all look at it.
        let end = AtomicU64::new(range.end);
        let team = phase::run(workers, self.control, |meter| {
            let stop = meeting.guard();
            let mut turn = Turn::new(self.options, self.grid, &meeting, meter.index);
            let start_ns = meter.start()?;
            let deadline_ns = self.duration.map(|span| start_ns.saturating_add(span.0));
            let mut iteration = range.start;
            while iteration < end.load(Ordering::Relaxed) {
                iteration += 1;
                meter.check()?;
                turn.compute(iteration);
                if turn.is_leader() && deadline_ns.is_some_and(|deadline| clock::now() < deadline) {
                    end.fetch_max(iteration + self.options.every, Ordering::Relaxed);
                }
                self.save(&mut turn, iteration, meter)?;
            }
            turn.spent.add_to(&mut meter.thread_time);
            stop.ended_well(turn.since_meeting());
            Ok(())
        })?;
        Ok(Solved { team, path: meeting.path(), iterations: end.into_inner() })
    }

    /// What one worker does after it has computed `iteration`.
    fn save(&self, turn: &mut Turn, iteration: u64, meter: &mut Meter) -> Result<()> {
        let commit = self.commit.filter(|_| iteration.is_multiple_of(turn.options.every));
        if let (Some(observer), Some(_), true) = (self.observer, commit, turn.is_leader()) {
            // Before the first write of any thread: none begins to save until all have met.
            observer.begins(iteration)?;
        }
        // Nobody reads a band before it is complete, or overwrites one that is still written.
        turn.meet()?;
        let Some(commit) = commit else { return Ok(()) };
        let start_ns = clock::now();
        turn.generation = iteration;
        commit.save(turn)?;
        let now_ns = clock::now();
        meter.count_call(now_ns - start_ns, turn.band_bytes(), now_ns);
        // A save is many I/Os, or in a thread for which another writes none.
        meter.operations = turn.writes;
        turn.syncs.drain(..).for_each(|sync_ns| meter.sync_latency.record(sync_ns));
        match self.observer {
            // What a policy promises to a thread holds for the save when it holds for all threads.
            Some(observer) => turn.alone(|_| observer.returned(iteration)),
            None => Ok(()),
        }
    }
}

impl Workload for Iterate<'_> {
    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        let Some(target) = bench.storage.directory() else {
            let name = bench.storage.path_taken().storage;
            return Err(Error::usage(format!("iterate needs a directory; storage {name} has none"))
                .hint("use --storage posix and a directory as the target"));
        };
        let root = target.join(ROOT);
        std::fs::create_dir(&root).map_err(|e| Error::io("make the directory", &root, e))?;
        if self.options.policy.is_durable() {
            file::sync_directory(target)?;
        }
        self.root = Some(root);
        self.grid = Some(Grid::new(self.options.side as usize)?);
        Ok(None)
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        vec!["iterate", "restart"]
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        if phase == "iterate" { self.iterate(bench) } else { self.restart(bench) }
    }

    fn describe(&self, path: &mut PathTaken) {
        own_calls(path, self.options.policy.is_direct());
    }

    fn cleanup(&mut self, _: &mut Bench) -> Result<()> {
        match self.root.take() {
            Some(root) => std::fs::remove_dir_all(&root).map_err(|e| Error::io("remove", &root, e)),
            None => Ok(()),
        }
    }
}
