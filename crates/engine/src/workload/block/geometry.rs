//! IOR's geometry: segments of blocks of transfers, in one file or in one for each worker; written, then read back.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Sync;
use super::checks::Verify;
use super::files::Files;
use super::options::{BlockOptions, Direction, Order};
use super::pattern::{Pattern, Permutation, Segments};
use super::stripe::{self, Stripe};
use super::team::{self, Job};
use crate::bench::Bench;
use crate::workload::Workload;
use crate::workload::checkpoint::CacheState;
use savemark_base::clock;
use savemark_base::cpu::{Cpu, CpuClock};
use savemark_base::error::{Error, Result};
use savemark_base::io::Operation;
use savemark_base::record::{PathTaken, Phase, Stage};
use savemark_base::size::{Size, Span};
use savemark_measure::ranks::{Placement, Sharing as Ranks};
use savemark_storage::Storage;

/// Options that `shared_file` and `file_per_process` share. In brackets what IOR calls them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GeometryOptions {
    /// Contiguous bytes of one worker in a segment (-b).
    pub block_size: Size,
    /// Blocks of each worker (-s).
    pub segments: u64,
    /// Bytes of one I/O (-t).
    pub transfer_size: Size,
    /// Threads of each rank (ranks × workers: -N).
    pub workers: u32,
    /// I/Os in flight per worker; storages whose calls block have one, as IOR has.
    pub queue_depth: u32,
    /// Completions to wait for in one system call; an eighth of the depth when left out.
    pub batch: Option<u32>,
    /// Worker i reads what worker i + reorder wrote, counted round through all ranks (-C, -Q). When left out 1, so that nobody
    /// reads what it wrote itself, and on several nodes the workers of one, so that nobody reads what its node wrote; 0 for a
    /// single worker.
    pub reorder: Option<u32>,
    /// Each worker visits its transfers in random order (-z).
    pub random_offsets: bool,
    /// When writes are made durable; always inside the time (`end`: -e, `each`: -Y).
    pub sync: Sync,
    /// I/Os of each worker between two flushes of `sync: group`; one flush at the end when left out.
    pub sync_every: Option<u64>,
    /// Reserve the room of files before they are written.
    pub preallocate: bool,
    /// Each phase ends after this time (-D).
    pub phase_deadline: Option<Span>,
    /// After the deadline every worker goes on until it has moved as many transfers as the fastest (stoneWallingWearOut).
    pub wear_out: bool,
    /// Write blocks that say where and by whom they were written, and compare each that is read (-W, -R).
    pub verify: bool,
    /// Ask the kernel for huge pages for the workers' memory; without them large I/Os are cut into many pieces, as IOR's are.
    pub huge_pages: bool,
    /// Page cache before reading: dropped and looked at, or left as writing has left it.
    pub cache: CacheState,
    /// Lustre: on how many targets each file lies; 65535 means all.
    pub stripe_count: Option<u32>,
    /// Lustre: bytes on one target before the next one's turn.
    pub stripe_size: Option<Size>,
}

impl Default for GeometryOptions {
    fn default() -> Self {
        Self {
            block_size: Size(16 << 20),
            segments: 4,
            transfer_size: Size(1 << 20),
            workers: 1,
            queue_depth: 1,
            batch: None,
            reorder: None,
            random_offsets: false,
            sync: Sync::End,
            sync_every: None,
            preallocate: false,
            phase_deadline: None,
            wear_out: false,
            verify: false,
            huge_pages: true,
            cache: CacheState::Cold,
            stripe_count: None,
            stripe_size: None,
        }
    }
}

/// The most that an offset in a file can be.
const LARGEST_FILE: u128 = i64::MAX as u128;

impl GeometryOptions {
    /// Checks what the types cannot say.
    pub fn check(&self) -> Result<()> {
        self.check_shape()?;
        self.io(Operation::Write).check(Order::Sequential)
    }

    /// As [`GeometryOptions::check`], but for what only direct I/O needs.
    pub fn check_shape(&self) -> Result<()> {
        let (block, transfer) = (self.block_size, self.transfer_size);
        if transfer.0 == 0 || block.0 == 0 || !block.0.is_multiple_of(transfer.0) {
            return Err(Error::usage(format!("block_size: {block} is not a multiple of transfer_size {transfer}")));
        }
        let bytes = u128::from(block.0) * u128::from(self.segments) * u128::from(self.workers);
        if self.segments == 0 || bytes > LARGEST_FILE {
            return Err(Error::usage(format!("segments: {} of {block} make no file", self.segments)));
        }
        if self.wear_out && self.phase_deadline.is_none() {
            return Err(Error::usage("wear_out: without a deadline nobody stops early").hint("add --phase-deadline 5m"));
        }
        if let Some(stripe) = self.stripe() {
            stripe.check()?;
        }
        Ok(())
    }

    /// What the workers do in a phase, in the words of the other block workloads.
    fn io(&self, operation: Operation) -> BlockOptions {
        let writes = operation == Operation::Write;
        BlockOptions {
            operation,
            size: Size(self.block_size.0 * self.segments * u64::from(self.workers)),
            transfer_size: self.transfer_size,
            queue_depth: self.queue_depth,
            workers: self.workers,
            batch: self.batch,
            duration: self.phase_deadline,
            sync: if writes { self.sync } else { Sync::None },
            sync_every: self.sync_every.filter(|_| writes),
            verify: self.verify,
            huge_pages: self.huge_pages,
            ..BlockOptions::default()
        }
    }

    /// Transfers of each worker.
    fn share(&self) -> u64 {
        self.block_size.0 / self.transfer_size.0 * self.segments
    }

    fn stripe(&self) -> Option<Stripe> {
        Stripe::of(self.stripe_count, self.stripe_size.map(|size| size.0))
    }
}

/// How many files there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One for all workers.
    OneFile,
    /// One for each.
    FileEach,
}

/// The workload.
pub struct Geometry<'a> {
    options: Cow<'a, GeometryOptions>,
    sharing: Sharing,
    /// What the names of its files begin with.
    stem: String,
    /// As IO500 runs IOR: files are made, opened and closed inside the time, the deadline is for writing alone, and blocks
    /// differ by their heads.
    as_io500: bool,
    files: Option<Files>,
    /// Transfers that each worker wrote.
    made: Vec<u64>,
    /// The striping that was found after it was asked for.
    striped: Option<Stripe>,
}

impl<'a> Geometry<'a> {
    /// With these options.
    pub fn new(options: &'a GeometryOptions, sharing: Sharing) -> Self {
        Self::with(Cow::Borrowed(options), sharing, "savemark-data", false)
    }

    /// A part of IO500, with files whose names begin with `stem`.
    pub fn of_io500(options: GeometryOptions, sharing: Sharing, stem: &str) -> Self {
        Self::with(Cow::Owned(options), sharing, stem, true)
    }

    fn with(options: Cow<'a, GeometryOptions>, sharing: Sharing, stem: &str, as_io500: bool) -> Self {
        Self { options, sharing, stem: stem.into(), as_io500, files: None, made: Vec::new(), striped: None }
    }

    /// An object is written by one worker, from front to back.
    fn check_storage(&self, storage: &dyn Storage) -> Result<()> {
        let options = &self.options;
        let ordered = self.sharing == Sharing::FileEach && !options.random_offsets && options.sync == Sync::End;
        if !storage.capabilities().rewrites && !ordered {
            return Err(Error::usage(
                "this storage writes a file once, from front to back, and keeps it when it is synced",
            )
            .hint("use the workload file_per_process without --random-offsets, and --sync end"));
        }
        Ok(())
    }

    /// How many workers further the one is whose transfers are moved.
    fn shift(&self, direction: Direction, ranks: Placement) -> usize {
        let (workers, reorder) = (self.options.workers, self.options.reorder);
        if direction.writes() { 0 } else { reorder.map_or(ranks.further(workers, 1), |shift| shift as usize) }
    }

    /// An option that only the number of all workers shows to be wrong.
    fn check_reorder(&self, workers: usize) -> Result<()> {
        match self.options.reorder {
            Some(shift) if shift as usize >= workers => {
                Err(Error::usage(format!("reorder: {shift} of {workers} workers")).hint("use a smaller --reorder"))
            }
            _ => Ok(()),
        }
    }

    fn pattern(&self, owner: usize, seed: u64, workers: usize) -> Pattern {
        let (options, share) = (&self.options, self.options.share());
        let (members, place) = match self.sharing {
            Sharing::OneFile => (workers as u64, owner as u64),
            Sharing::FileEach => (1, 0),
        };
        let key = seed ^ (owner as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shuffle = options.random_offsets.then(|| Permutation::new(share, key));
        let per_block = options.block_size.0 / options.transfer_size.0;
        let segments = Segments { per_block, members, owner: place, shuffle, index: 0 };
        Pattern::segments(segments, self.made.get(owner).copied().unwrap_or(share))
    }

    fn phase(&self, name: &str, operation: Operation, bench: &mut Bench) -> Result<Phase> {
        let (mut options, common, seed) = (self.options.io(operation), bench.common, bench.common.seed);
        if self.as_io500 && operation == Operation::Read {
            options.duration = None;
        }
        let (files, workers) = (self.files.as_ref().expect("made by prepare"), bench.ranks.all(self.options.workers));
        let shift = self.shift(options.direction(), bench.ranks);
        let owner = |worker: usize| (worker + shift) % workers;
        let pattern = |worker| self.pattern(owner(worker), seed, workers);
        let marked = self.as_io500 && options.verify;
        let once = |owner| match marked {
            true => Verify::marked(common, owner, options.transfer()),
            false => Verify::once(common, owner, 1),
        };
        let verify = |worker| options.verify.then(|| once(owner(worker)));
        let (wear_out, opens) = (self.options.wear_out && options.duration.is_some(), self.as_io500);
        let options = &options;
        let job = Job { name, options, files, shift, pattern: &pattern, verify: &verify, wear_out, opens, marked };
        let mut phase = team::run(&job, bench)?;
        if let Some(deadline) = options.duration.filter(|_| wear_out) {
            let until = deadline.0.min(phase.elapsed_ns);
            let stage = |name: &str, elapsed_ns| Stage { name: name.into(), elapsed_ns };
            phase.stages = vec![stage("until_deadline", until), stage("wear_out", phase.elapsed_ns - until)];
        }
        Ok(phase)
    }

    /// Makes the files of this rank, empty.
    fn create(&mut self, bench: &Bench) -> Result<()> {
        let (options, storage, ranks) = (&self.options, &*bench.storage, bench.ranks);
        let each = self.sharing == Sharing::FileEach;
        let bytes = options.io(Operation::Write).size.0;
        let bytes = if each { bytes / u64::from(options.workers) } else { bytes * ranks.ranks as u64 };
        let files = Files::shared_or_each(&self.stem, options.workers, each, bytes, ranks);
        let stripe = options.stripe();
        files.create(storage, options.preallocate, stripe.as_ref())?;
        let made = &*self.files.insert(files);
        if stripe.is_some() && ranks.is_first() {
            self.striped = Some(stripe::found(storage, &made.names(0)[0])?);
        }
        Ok(())
    }

    /// Writes everything, or until the deadline, as the phase `name`.
    pub(crate) fn write(&mut self, name: &str, bench: &mut Bench) -> Result<Phase> {
        let (mut created_ns, mut cpu) = (0, Cpu::default());
        if self.as_io500 {
            let (start_ns, clock) = (clock::now(), CpuClock::start());
            self.create(bench)?;
            cpu = clock.elapsed();
            // Nobody writes before the last one has made its files.
            let took = bench.control.meet("the making of files", &[clock::now() - start_ns])?;
            created_ns = took.into_iter().max().unwrap_or(0);
        }
        let mut done = self.phase(name, Operation::Write, bench)?;
        if self.options.phase_deadline.is_some() {
            let made: Vec<_> = done.workers.iter().map(|worker| worker.operations).collect();
            self.made = bench.control.meet("what was written", &made)?;
        }
        if self.as_io500 {
            done.elapsed_ns += created_ns;
            (done.cpu_user_ns, done.cpu_system_ns) =
                (done.cpu_user_ns + cpu.user_ns, done.cpu_system_ns + cpu.system_ns);
            done.stages.insert(0, Stage { name: "create".into(), elapsed_ns: created_ns });
        }
        Ok(done)
    }

    /// Reads it back, as the phase `name`.
    pub(crate) fn read(&mut self, name: &str, bench: &mut Bench) -> Result<Phase> {
        let files = self.files.as_ref().expect("made before anything is read");
        let (warm, shift) = (self.options.cache == CacheState::Warm, self.shift(Direction::Read, bench.ranks));
        let (cache, extents) = files.settle(&*bench.storage, warm, shift, bench.control)?;
        Ok(Phase { cache, extents, ..self.phase(name, Operation::Read, bench)? })
    }

    /// How many files there are, of all ranks.
    pub fn count(&self) -> u64 {
        self.files.as_ref().map_or(0, Files::total)
    }
}

impl Workload for Geometry<'_> {
    fn sharing(&self) -> Ranks {
        Ranks::Together
    }

    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        self.check_storage(&*bench.storage)?;
        self.check_reorder(bench.ranks.all(self.options.workers))?;
        self.create(bench)?;
        Ok(None)
    }

    fn phases(&self, bench: &Bench) -> Vec<&'static str> {
        if bench.storage.capabilities().keeps { vec!["write", "read"] } else { vec!["write"] }
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        if phase == "write" { self.write(phase, bench) } else { self.read(phase, bench) }
    }

    fn describe(&self, path: &mut PathTaken) {
        path.notes.extend(self.striped.map(|stripe| stripe.to_string()));
    }

    fn cleanup(&mut self, bench: &mut Bench) -> Result<()> {
        match self.files.take() {
            Some(files) => files.remove(&*bench.storage),
            None => Ok(()),
        }
    }
}
