//! The files that are read and written: their names, their life, and which blocks of them are whose.
//!
//! Workers count through over all ranks: each rank knows all names, and makes, drops and removes those of its own workers.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rustix::process::{Resource, getrlimit, setrlimit};

use super::Sync;
use super::options::{BlockOptions, Direction, Order};
use super::stripe::{self, Stripe};
use savemark_base::error::{Error, Result};
use savemark_base::record::{Cache, Extents};
use savemark_measure::control::Control;
use savemark_measure::ranks::Placement;
use savemark_storage::{File, Storage};

/// Which files there are, and who has which.
pub struct Files {
    /// One list for all workers, or one of each.
    names: Vec<Vec<String>>,
    /// Blocks of each file that are a worker's, by worker.
    ranges: Vec<Range<u64>>,
    /// Bytes of each file.
    bytes: u64,
    /// Each is moved whole, in one I/O.
    whole: bool,
    /// The workers of this rank.
    mine: Range<usize>,
    ranks: Placement,
}

impl Files {
    /// As the options say, and as the storage can.
    pub fn of(options: &BlockOptions, order: Order, storage: &dyn Storage, ranks: Placement) -> Result<Self> {
        let (workers, blocks, mine) = (ranks.all(options.workers), options.blocks(), ranks.workers(options.workers));
        let part = |worker: usize| {
            let (workers, worker) = (workers as u64, worker as u64);
            blocks * worker / workers..blocks * (worker + 1) / workers
        };
        let writes_once = options.direction().writes() && !storage.capabilities().rewrites;
        let bytes = options.size.0;
        if let Some(files) = options.files {
            let name = |worker: usize, file: u32| format!("savemark-data-{worker:04}-{file:06}.bin");
            let names = (0..workers).map(|worker| (0..files).map(|file| name(worker, file)).collect()).collect();
            let whole = !storage.capabilities().rewrites;
            if whole && (blocks > 1 || options.size != options.transfer_size) {
                let why = format!("files: each is an object of {} here, moved whole by one request", options.size);
                return Err(Error::usage(why).hint(format!("use --transfer-size {}", options.size)));
            }
            return Ok(Self { names, ranges: vec![0..blocks; workers], bytes, whole, mine, ranks });
        }
        if !ranks.is_alone() && workers as u64 > blocks && (order != Order::Random || options.verify) {
            return Err(Error::usage(format!("{workers} workers of {} ranks share {blocks} transfers", ranks.ranks))
                .hint("use fewer --ranks or --workers, or a larger --size"));
        }
        if writes_once {
            check_written_once(options, order, workers as u64)?;
        }
        let ranges: Vec<_> = match order {
            Order::Random if !(options.verify && options.direction().writes()) => vec![0..blocks; workers],
            _ => (0..workers).map(part).collect(),
        };
        if writes_once && workers > 1 {
            let names = (0..workers).map(|worker| vec![format!("savemark-data-{worker:04}.bin")]).collect();
            let ranges = ranges.iter().map(|range| 0..range.end - range.start).collect();
            let bytes = bytes.div_ceil(workers as u64);
            return Ok(Self { names, ranges, bytes, whole: false, mine, ranks });
        }
        let names = vec![vec!["savemark-data.bin".to_string()]];
        Ok(Self { names, ranges, bytes, whole: false, mine, ranks })
    }

    /// One file of `bytes` for all workers, of which each rank has so many, or one for each; names begin with `stem`.
    pub fn shared_or_each(stem: &str, workers: u32, each: bool, bytes: u64, ranks: Placement) -> Self {
        let name = |worker: usize| vec![format!("{stem}-{worker:04}.bin")];
        let shared = vec![vec![format!("{stem}.bin")]];
        let names = if each { (0..ranks.all(workers)).map(name).collect() } else { shared };
        Self { names, ranges: Vec::new(), bytes, whole: false, mine: ranks.workers(workers), ranks }
    }

    /// The same files under names that say what they hold, so that another trial knows them again.
    pub fn kept(mut self, holds: &str) -> Self {
        for name in self.names.iter_mut().flatten() {
            *name = name.replacen("savemark-data", &format!("savemark-kept-{holds}"), 1);
        }
        self
    }

    /// Those of a worker.
    pub fn names(&self, worker: usize) -> &[String] {
        &self.names[worker % self.names.len()]
    }

    /// The blocks of each of them that are its own.
    pub fn range(&self, worker: usize) -> Range<u64> {
        self.ranges[worker].clone()
    }

    /// How many each worker has.
    pub fn count(&self) -> u32 {
        self.names[0].len() as u32
    }

    /// How many come before those of a worker.
    pub fn before(&self, worker: usize) -> u32 {
        (worker % self.names.len()) as u32 * self.count()
    }

    /// Whether all workers have the same.
    pub fn is_shared(&self) -> bool {
        self.names.len() == 1
    }

    /// Whether each is moved in one I/O.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// How many there are, of all ranks.
    pub fn total(&self) -> u64 {
        self.names.iter().map(|names| names.len() as u64).sum()
    }

    /// Those that this rank makes and removes: of its workers, or for all by the first.
    fn own(&self) -> impl Iterator<Item = &String> {
        let lists = match self.is_shared() {
            true => &self.names[..usize::from(self.ranks.is_first())],
            false => &self.names[self.mine.clone()],
        };
        lists.iter().flatten()
    }

    /// Those that this rank reads, `shift` workers further; of one for all, only the first rank of a node takes care.
    fn read(&self, shift: usize) -> Vec<String> {
        match self.is_shared() {
            true if self.ranks.leads_node() => self.names[0].clone(),
            true => Vec::new(),
            false => self.mine.clone().flat_map(|worker| self.names(worker + shift).to_vec()).collect(),
        }
    }

    /// Makes them, with their room reserved if `preallocate`. What is moved whole is made by its first write.
    pub fn create(&self, storage: &dyn Storage, preallocate: bool, stripe: Option<&Stripe>) -> Result<()> {
        if self.whole {
            return Ok(());
        }
        let create = |name: &String| match stripe {
            Some(stripe) => stripe::create(storage, name, stripe),
            None => storage.create(name).map(drop),
        };
        for (made, name) in self.own().enumerate() {
            if let Err(error) = create(name) {
                // Only what we made: a file that was there before is not ours.
                let _ = self.own().take(made).try_for_each(|name| storage.remove(name));
                return Err(error);
            }
        }
        let allocate = |name: &String| storage.open_for_writing(name)?.allocate(self.bytes);
        let room = if preallocate { self.own().try_for_each(allocate) } else { Ok(()) };
        room.inspect_err(|_| drop(self.remove(storage)))
    }

    /// Opens a worker's files, for it alone: workers that share an open file share its reference count, too.
    pub fn open(&self, storage: &dyn Storage, direction: Direction, worker: usize) -> Result<Vec<Arc<dyn File>>> {
        if self.whole {
            return Ok(Vec::new());
        }
        let open = |name: &String| if direction.writes() { storage.open_for_writing(name) } else { storage.open(name) };
        self.names(worker).iter().map(open).collect()
    }

    /// Drops them from this node's page cache and waits for the other ranks to do so, unless `warm`; says what is there then of
    /// those that are read, and whether they have data.
    pub fn settle(&self, storage: &dyn Storage, warm: bool, shift: usize, control: &Control) -> Result<Settled> {
        let read = self.read(shift);
        if !warm {
            // What another node reads was written here, and must be on the storage.
            let written = if self.is_shared() || self.ranks.is_alone() { Vec::new() } else { self.read(0) };
            storage.evict(&written)?;
            storage.evict(&read)?;
            control.meet("the dropping of caches", &[])?;
        }
        if read.is_empty() {
            return Ok((None, None));
        }
        let (cache, extents) = storage.look(&read)?;
        Ok((Some(cache), extents))
    }

    /// Removes what [`Files::create`] or the first write made.
    pub fn remove(&self, storage: &dyn Storage) -> Result<()> {
        self.own().try_for_each(|name| storage.remove(name))
    }
}

/// Of the page cache, and of the room on the storage.
type Settled = (Option<Cache>, Option<Extents>);

/// An object is written once, from front to back, by one worker, and is there when it is synced.
fn check_written_once(options: &BlockOptions, order: Order, workers: u64) -> Result<()> {
    let why = match options {
        _ if order != Order::Sequential => "the workload sequential",
        _ if options.reads.is_some() => "--files, which moves whole objects",
        _ if options.duration.is_some() => "no --duration",
        _ if options.operations.is_some_and(|count| count > options.blocks() / workers) => "fewer --operations",
        _ if options.sync != Sync::End => "--sync end",
        _ => return Ok(()),
    };
    Err(Error::usage("this storage writes a file once, from front to back, and keeps it when it is synced")
        .hint(format!("use {why}, or the workload checkpoint, which writes many objects at once")))
}

/// Lets this process hold `count` more files open, as far as it may without asking anybody.
pub fn allow_open(count: usize) {
    static ALLOWED: AtomicUsize = AtomicUsize::new(0);
    if ALLOWED.fetch_max(count, Relaxed) >= count {
        return; // asked for before
    }
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.current.unwrap_or(u64::MAX).max(count as u64 + 256);
    let wanted = limit.maximum.map_or(wanted, |most| wanted.min(most));
    // Refused, opening fails later and says what to do.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(wanted), ..limit });
}
