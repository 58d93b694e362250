//! `sequential`, `random` and `strided` from end to end.

use std::sync::Mutex;

use super::Sync;
use super::checks::{Verify, WriteGenerations};
use super::files::Files;
use super::options::{BlockOptions, Order};
use super::pattern::Pattern;
use super::team::{self, Job};
use crate::bench::Bench;
use crate::workload::Workload;
use crate::workload::checkpoint::CacheState;
use savemark_base::error::{Error, Result};
use savemark_base::io::Operation;
use savemark_base::record::Phase;
use savemark_base::size::Size;
use savemark_measure::ranks::Sharing;

/// The workload.
pub struct Block<'a> {
    options: &'a BlockOptions,
    order: Order,
    files: Option<Files>,
    /// What each worker has written, where it is verified.
    ledgers: Vec<Mutex<WriteGenerations>>,
    /// Whether an earlier trial laid the files out.
    found: bool,
    /// Whether they stay for the next one.
    kept: bool,
}

/// What is said of a phase that reads what an earlier trial laid out.
const FOUND: &str = "read files that an earlier trial of this run laid out";

/// Bytes of one I/O when files are made that are read or overwritten later.
const LAID_OUT_IN: u64 = 4 << 20;

impl<'a> Block<'a> {
    /// With these options.
    pub fn new(options: &'a BlockOptions, order: Order) -> Self {
        Self { options, order, files: None, ledgers: Vec::new(), found: false, kept: false }
    }

    fn files(&self) -> &Files {
        self.files.as_ref().expect("made by prepare")
    }

    /// Whether there must be data before the first measured I/O.
    fn is_laid_out(&self) -> bool {
        self.options.direction().reads() || self.order == Order::Random
    }

    fn is_verified(&self, name: &str) -> bool {
        self.options.verify && self.options.direction().writes() && name != "prepare"
    }

    /// What kept files hold, in their names: the same size, data and number are the same files.
    fn holds(&self, bench: &Bench) -> String {
        let (common, options) = (bench.common, self.options);
        let count = options.files.map_or(0, |files| files as usize * bench.ranks.all(options.workers));
        let kind = format!("{:?}", common.payload).to_lowercase();
        let stamped = if options.verify { "-stamped" } else { "" };
        format!("{}-{}-{}-{count}{stamped}", options.size.0, kind, common.seed)
    }

    /// The name of the file that says that all of them are whole.
    fn mark(&self, bench: &Bench) -> String {
        format!("savemark-kept-{}.laid-out", self.holds(bench))
    }

    /// A phase over the blocks that `pattern` tells for each worker.
    fn phase(
        &self,
        name: &str,
        options: &BlockOptions,
        bench: &mut Bench,
        pattern: &(dyn Fn(usize) -> Pattern + std::marker::Sync),
    ) -> Result<Phase> {
        let (common, files) = (bench.common, self.files());
        let (counted, first) = (self.is_verified(name), bench.ranks.workers(options.workers).start);
        let verify = |worker: usize| {
            let generations = counted.then(|| &self.ledgers[worker - first]);
            options.verify.then(|| Verify::counted(common, files.before(worker), generations))
        };
        let (wear_out, opens, marked) = (false, false, false);
        team::run(&Job { name, options, files, shift: 0, pattern, verify: &verify, wear_out, opens, marked }, bench)
    }

    /// Writes every file whole, unmeasured by the study but recorded: nothing sparse or unwritten is ever read. What all ranks
    /// share is written by the first.
    fn lay_out(&self, bench: &mut Bench) -> Result<Option<Phase>> {
        let (given, files) = (self.options, self.files());
        if files.is_shared() && !bench.ranks.is_first() {
            return Ok(None);
        }
        let large = given.size.0.is_multiple_of(LAID_OUT_IN) && !files.is_whole();
        let options = BlockOptions {
            operation: Operation::Write,
            transfer_size: if large { Size(LAID_OUT_IN) } else { given.transfer_size },
            queue_depth: 4,
            workers: if files.is_shared() { 1 } else { given.workers },
            batch: Some(1),
            sync: Sync::End,
            files: given.files,
            size: given.size,
            verify: given.verify,
            // As other programs' files are: from huge pages, I/Os become requests of 4 MiB, also smaller ones that follow each
            // other, and below some virtual disks what came in those is a third slower to overwrite at random, whoever does it.
            huge_pages: false,
            ..BlockOptions::default()
        };
        self.phase("prepare", &options, bench, &|_| Pattern::all(files.count(), 0..options.blocks())).map(Some)
    }

    /// Reads everything once, so that the page cache of this node has it.
    fn warm_up(&self, bench: &mut Bench) -> Result<()> {
        if self.files().is_shared() && !bench.ranks.leads_node() {
            return Ok(());
        }
        let options = BlockOptions {
            operation: Operation::Read,
            reads: None,
            workers: if self.files().is_shared() { 1 } else { self.options.workers },
            sync: Sync::None,
            duration: None,
            operations: None,
            rate: None,
            verify: false,
            dedup: None,
            ..self.options.clone()
        };
        let count = self.files().count();
        let everything = |_| Pattern::all(count, 0..options.blocks());
        bench.control.unmeasured(|| self.phase("warm", &options, bench, &everything)).map(drop)
    }

    /// Reads back every block that was written.
    fn verify(&self, bench: &mut Bench) -> Result<Phase> {
        let (cache, extents) = self.files().settle(&*bench.storage, false, 0, bench.control)?;
        let options = BlockOptions {
            operation: Operation::Read,
            reads: None,
            sync: Sync::None,
            sync_every: None,
            duration: None,
            operations: None,
            rate: None,
            ..self.options.clone()
        };
        let written =
            |generations: &Mutex<WriteGenerations>| generations.lock().expect("the writers are gone").written();
        let written: Vec<_> = self.ledgers.iter().map(written).collect();
        let first = bench.ranks.workers(options.workers).start;
        let phase =
            self.phase("verify", &options, bench, &|worker| Pattern::listed(written[worker - first].clone()))?;
        Ok(Phase { cache, extents, ..phase })
    }
}

impl Workload for Block<'_> {
    fn sharing(&self) -> Sharing {
        Sharing::Together
    }

    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        let options = self.options;
        if options.cache == CacheState::Warm && bench.storage.path_taken().direct {
            return Err(Error::usage("cache: direct I/O bypasses the page cache, so it cannot be warm")
                .hint("add --no-direct, or use --cache cold"));
        }
        let mut files = Files::of(options, self.order, &*bench.storage, bench.ranks)?;
        if options.keep {
            files = files.kept(&self.holds(bench));
            let found = bench.storage.get(&self.mark(bench))?.is_some();
            // One look counts: caches of a network may show another rank something older.
            self.found = bench.control.meet("the look for kept files", &[u64::from(found)])?[0] == 1;
            if self.found {
                (self.files, self.kept) = (Some(files), true);
                return Ok(None);
            }
            files.remove(&*bench.storage)?; // what is not whole is of no use
        }
        files.create(&*bench.storage, options.preallocate, None)?;
        if options.verify && options.direction().writes() {
            let generations =
                |worker| Mutex::new(WriteGenerations::new(files.count(), files.range(worker), self.is_laid_out()));
            self.ledgers = bench.ranks.workers(options.workers).map(generations).collect();
        }
        self.files = Some(files);
        if !self.is_laid_out() {
            return Ok(None);
        }
        let phase = self.lay_out(bench)?;
        if options.keep && bench.storage.capabilities().keeps {
            // After the last byte of all ranks: what a killed trial leaves is laid out anew.
            bench.control.meet("the end of laying out", &[])?;
            if bench.ranks.is_first() {
                bench.storage.put(&self.mark(bench), b"laid out\n").map_err(|not_put| not_put.error)?;
            }
            self.kept = true;
        }
        Ok(phase)
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        let measured = self.options.direction().name();
        if self.is_verified(measured) { vec![measured, "verify"] } else { vec![measured] }
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        if phase == "verify" {
            return self.verify(bench);
        }
        let (options, files, seed) = (self.options, self.files(), bench.common.seed);
        let (mut cache, mut extents) = (None, None);
        if options.direction().reads() {
            let warm = options.cache == CacheState::Warm;
            if warm {
                self.warm_up(bench)?;
            }
            (cache, extents) = files.settle(&*bench.storage, warm, 0, bench.control)?;
        }
        let pattern = |worker| Pattern::new(options, self.order, files.count(), files.range(worker), seed, worker);
        let mut phase = self.phase(phase, options, bench, &pattern)?;
        if self.found {
            phase.notes.push(FOUND.into());
        }
        Ok(Phase { cache, extents, ..phase })
    }

    fn cleanup(&mut self, bench: &mut Bench) -> Result<()> {
        match self.files.take() {
            Some(_) if self.kept => Ok(()),
            Some(files) => files.remove(&*bench.storage),
            None => Ok(()),
        }
    }
}
