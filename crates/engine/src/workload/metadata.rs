//! Names instead of bytes: create, stat, read, rename and remove many small files or directories, as mdtest does.
//!
//! `easy` in mdtest's sense is the default: empty files, a directory per worker. `hard` is `shared: true, file_size: 3901`.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::block::Sync;
use super::checkpoint::CacheState;
use super::wear_out::WearOut;
use super::{Workload, own_calls};
use crate::bench::Bench;
use savemark_base::error::{Error, Result};
use savemark_base::record::{Cache, PathTaken, Phase, Stage};
use savemark_base::size::{Size, Span};
use savemark_measure::phase::{self, Watch};
use savemark_measure::ranks::{Placement, Sharing};

mod guard;
mod items;
mod work;

use items::Directories;
pub(super) use items::{Name, Naming};
use work::Work;

/// Options of `metadata`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetadataOptions {
    /// How many are made in all, shared out over the workers of all ranks.
    pub items: u64,
    /// What is made.
    pub kind: Kind,
    /// Bytes written into each file when it is made, and read back and compared later; mdtest's hard case has 3901.
    pub file_size: Size,
    /// One directory for all workers instead of one each.
    pub shared: bool,
    /// Each worker looks at, reads, renames and removes what the next one made, so that nobody meets its own; on several nodes
    /// what a worker of the next node made.
    pub neighbour: bool,
    /// Rename them all before they are removed. Directories have then seen twice as many names; mdtest and elbencho remove what
    /// was never renamed.
    pub rename: bool,
    /// Threads of each rank.
    pub workers: u32,
    /// When names and data are made durable, inside the time: never, after each call (fsync of file and directory), or at the
    /// end of the phase (syncfs).
    pub sync: Sync,
    /// Making ends after this time; then every worker makes as many as the fastest one (wear-out). Without it: all `items`.
    pub phase_deadline: Option<Span>,
    /// Inodes, names and pages before `stat` and before `read`: left in memory, where they are warm, or dropped (root only).
    pub cache: CacheState,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Files.
    #[default]
    Files,
    /// Empty directories.
    Directories,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            items: 10_000,
            kind: Kind::Files,
            file_size: Size(0),
            shared: false,
            neighbour: false,
            rename: true,
            workers: 1,
            sync: Sync::None,
            phase_deadline: None,
            cache: CacheState::Warm,
        }
    }
}

/// A file of this size is read and compared in memory, once per worker.
const LARGEST_FILE: u64 = 64 << 20;

impl MetadataOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        if !(1..=1024).contains(&self.workers) {
            return Err(Error::usage(format!("workers: {} is not between 1 and 1024", self.workers)));
        }
        if self.items < u64::from(self.workers) || self.items > u64::from(u32::MAX) {
            let why =
                format!("items: {} for {} workers; each needs one, and 2^32 is the end", self.items, self.workers);
            return Err(Error::usage(why).hint("use --items 10000"));
        }
        if self.file_size.0 > LARGEST_FILE {
            return Err(Error::usage(format!("file_size: {} is more than 64MiB", self.file_size))
                .hint("use the workload sequential for large files"));
        }
        if self.sync == Sync::Group {
            return Err(
                Error::usage("sync: metadata has no flush of a group").hint("use --sync end: one syncfs per worker")
            );
        }
        if self.kind == Kind::Directories && self.file_size.0 > 0 {
            return Err(Error::usage("file_size: directories have no bytes").hint("use --kind files"));
        }
        Ok(())
    }
}

/// Names have four hexadecimal digits for the worker.
const MOST_WORKERS: usize = 1 << 16;

/// The directory below the target that holds everything.
const ROOT: &str = "savemark-metadata";

/// The workload.
pub struct Metadata<'a> {
    options: Cow<'a, MetadataOptions>,
    naming: Naming,
    /// Made by us: removed in the end.
    root: Option<PathBuf>,
    directories: Option<Directories>,
    /// Items of each worker of all ranks.
    made: Vec<u64>,
}

impl<'a> Metadata<'a> {
    /// With these options.
    pub fn new(options: &'a MetadataOptions) -> Self {
        Self::with(Cow::Borrowed(options), Naming::Fixed)
    }

    /// A part of IO500, in the directory `root`, which it makes.
    pub(crate) fn of_io500(options: MetadataOptions, root: PathBuf, bench: &Bench) -> Result<Self> {
        let mut part = Self::with(Cow::Owned(options), Naming::Mdtest);
        part.make(root, bench)?;
        Ok(part)
    }

    fn with(options: Cow<'a, MetadataOptions>, naming: Naming) -> Self {
        Self { options, naming, root: None, directories: None, made: Vec::new() }
    }

    /// Makes `root`, which the first rank does, and the directories of this rank's workers; opens all that they will visit.
    fn make(&mut self, root: PathBuf, bench: &Bench) -> Result<()> {
        let ranks = bench.ranks;
        let (all, mine) = (ranks.all(self.options.workers), ranks.workers(self.options.workers));
        self.check_workers(all)?;
        if ranks.is_first() {
            fs::create_dir(&root).map_err(|e| Error::io("make the directory", &root, e))?;
            self.root = Some(root.clone());
        }
        bench.control.meet("the making of the directory", &[])?;
        let count = if self.options.shared { 1 } else { all };
        items::make(&root, mine.clone().filter(|worker| *worker < count))?;
        bench.control.meet("the making of directories", &[])?;
        let furthest = if self.naming == Naming::Mdtest { 3 } else { 1 };
        let visited = (0..=furthest).flat_map(|times| self.owners(ranks, ranks.further(self.options.workers, times)));
        self.directories = Some(Directories::open(&root, count, visited, self.naming)?);
        Ok(())
    }

    /// Items of each worker.
    pub fn made(&self) -> &[u64] {
        &self.made
    }

    /// One phase, as `name`: what its `act` is called in [`Workload::phases`], on the items of the worker `shift` further.
    pub(crate) fn phase(&mut self, name: &str, act: &str, shift: usize, bench: &mut Bench) -> Result<Phase> {
        let planned = if self.made.is_empty() { self.options.items } else { self.made.iter().sum() };
        let mine = planned / bench.ranks.ranks as u64;
        let bytes = if matches!(act, "create" | "read") { mine * self.options.file_size.0 } else { 0 };
        bench.control.begin(name, if self.options.phase_deadline.is_some() && act == "create" { 0 } else { bytes });
        let cache = if matches!(act, "stat" | "read") { Some(self.drop_caches(bench)?) } else { None };
        let mut done = if act == "create" { self.create(name, bench)? } else { self.visit(name, act, shift, bench)? };
        done.durable = self.flushes(act) && bench.storage.capabilities().durable;
        done.verified = (act == "read" && self.options.file_size.0 > 0).then(|| "every file".to_string());
        done.cache = cache;
        Ok(done)
    }

    /// Whether what such a phase changes is durable at its end; IO500 asks for that where files are made alone.
    fn flushes(&self, act: &str) -> bool {
        let changes = !matches!(act, "stat" | "read") && (act == "create" || self.naming == Naming::Fixed);
        changes && self.options.sync != Sync::None
    }

    fn directories(&self) -> &Directories {
        self.directories.as_ref().expect("made by prepare")
    }

    /// Whose items the workers of this rank visit, where they visit those of the one `shift` further.
    fn owners(&self, ranks: Placement, shift: usize) -> impl Iterator<Item = usize> + use<> {
        let all = ranks.all(self.options.workers);
        ranks.workers(self.options.workers).map(move |worker| (worker + shift) % all)
    }

    /// What only the number of all workers shows to be wrong.
    fn check_workers(&self, workers: usize) -> Result<()> {
        if workers > MOST_WORKERS || self.options.items < workers as u64 {
            let why =
                format!("{} items for {workers} workers; each needs one, and 65536 are the most", self.options.items);
            return Err(Error::usage(why).hint("use more --items, or fewer --ranks or --workers"));
        }
        Ok(())
    }

    fn create(&mut self, name: &str, bench: &mut Bench) -> Result<Phase> {
        let (options, ranks) = (&*self.options, bench.ranks);
        let (here, workers, mine) =
            (options.workers as usize, ranks.all(options.workers), ranks.workers(options.workers));
        let share =
            |w: usize| options.items * (w as u64 + 1) / workers as u64 - options.items * w as u64 / workers as u64;
        let wear_out = WearOut::new(here, bench.control);
        let watch = Watch::start();
        let team = phase::run(here, bench.control, |meter| {
            let worker = mine.start + meter.index;
            let mut work = Work::new(options, bench.common, self.directories(), worker);
            let (start_ns, share) = (meter.start()?, share(worker));
            let Some(deadline) = options.phase_deadline else {
                work.create(meter, 0..share, u64::MAX)?;
                return work.end(meter);
            };
            let made = work.create(meter, 0..share, start_ns + deadline.0);
            wear_out.arrive(*made.as_ref().unwrap_or(&0));
            let made = made?;
            let most = wear_out.wait(meter)?.min(share);
            work.create(meter, made..most, u64::MAX)?;
            work.end(meter)
        })?;
        let mut phase = team.into_phase(watch, name);
        if bench.storage.directory().is_some_and(guard::is_guarded) {
            phase.notes.push(guard::GUARDED.into());
        }
        let made: Vec<_> = phase.workers.iter().map(|worker| worker.operations).collect();
        self.made = bench.control.meet("what was made", &made)?;
        if let Some(deadline) = self.options.phase_deadline {
            let until = deadline.0.min(phase.elapsed_ns);
            let stage = |name: &str, elapsed_ns| Stage { name: name.into(), elapsed_ns };
            phase.stages = vec![stage("until_deadline", until), stage("wear_out", phase.elapsed_ns - until)];
        }
        Ok(phase)
    }

    /// One of the phases in which every worker goes through the items of one, its own or those of the one `shift` further.
    fn visit(&self, name: &str, act: &str, shift: usize, bench: &mut Bench) -> Result<Phase> {
        let (options, flushed) = (&*self.options, self.flushes(act));
        let owners: Vec<_> = self.owners(bench.ranks, shift).collect();
        let watch = Watch::start();
        let team = phase::run(owners.len(), bench.control, |meter| {
            let owner = owners[meter.index];
            let mut work = Work::new(options, bench.common, self.directories(), owner);
            meter.start()?;
            let count = self.made[owner];
            match act {
                "stat" => work.stat(meter, count),
                "read" => work.read(meter, count),
                "rename" => work.rename(meter, count),
                _ => work.remove(meter, count).and_then(|()| if flushed { work.end(meter) } else { Ok(()) }),
            }
        })?;
        Ok(team.into_phase(watch, name))
    }

    /// Drops inodes and names from memory, where that is asked for; says what they are then.
    pub(crate) fn drop_caches(&self, bench: &Bench) -> Result<Cache> {
        if self.options.cache == CacheState::Warm {
            return Ok(Cache {
                state: "warm".into(),
                method: "made by this process just before".into(),
                ..Default::default()
            });
        }
        if bench.ranks.leads_node() {
            self.directories().write_back()?;
            fs::write("/proc/sys/vm/drop_caches", "3").map_err(|e| {
                Error::refused(format!("cannot drop inodes and names: /proc/sys/vm/drop_caches: {e}"))
                    .hint("run as root, or use --cache warm")
            })?;
        }
        bench.control.meet("the dropping of caches", &[])?;
        Ok(Cache { state: "dropped".into(), method: "drop_caches 3".into(), ..Default::default() })
    }
}

impl Workload for Metadata<'_> {
    fn sharing(&self) -> Sharing {
        Sharing::Together
    }

    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        let Some(target) = bench.storage.directory() else {
            let name = bench.storage.path_taken().storage;
            return Err(Error::usage(format!("metadata needs a directory; storage {name} has none"))
                .hint("use --storage posix and a directory as the target"));
        };
        self.make(target.join(ROOT), bench)?;
        Ok(None)
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        let options = &self.options;
        let wanted = |name: &&str| match *name {
            "read" => options.kind == Kind::Files,
            "rename" => options.rename,
            _ => true,
        };
        ["create", "stat", "read", "rename", "remove"].into_iter().filter(wanted).collect()
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        let shift = if self.options.neighbour { bench.ranks.further(self.options.workers, 1) } else { 0 };
        self.phase(phase, phase, shift, bench)
    }

    fn describe(&self, path: &mut PathTaken) {
        own_calls(path, false);
    }

    fn cleanup(&mut self, _: &mut Bench) -> Result<()> {
        self.directories = None;
        match self.root.take() {
            Some(root) => fs::remove_dir_all(&root).map_err(|e| Error::io("remove", &root, e)),
            None => Ok(()),
        }
    }
}

/// What a failing call says: which one, on what.
fn failed(what: &str, directory: &Path, name: &std::ffi::CStr, error: rustix::io::Errno) -> Error {
    Error::io(what, &directory.join(name.to_string_lossy().as_ref()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::Common;
    use savemark_measure::worker::Meter;
    use savemark_testing::disk;

    #[test]
    fn a_file_that_changed_or_was_swapped_is_found() {
        let root = disk();
        let options = MetadataOptions { file_size: Size(3901), ..Default::default() };
        items::make(root.path(), 0..1).unwrap();
        let directories = Directories::open(root.path(), 1, 0..1, Naming::Fixed).unwrap();
        let mut work = Work::new(&options, &Common::default(), &directories, 0);
        let mut meter = Meter::empty();
        work.create(&mut meter, 0..3, u64::MAX).unwrap();
        work.read(&mut meter, 3).unwrap();
        let item = |index: u32| root.path().join(format!("0000/item-0000-{index:08x}"));
        let good = fs::read(item(1)).unwrap();
        let mut flipped = good.clone();
        flipped[3900] ^= 1;
        for bad in [&flipped, &good[..3900].to_vec(), &Vec::new(), &fs::read(item(2)).unwrap()] {
            fs::write(item(1), bad).unwrap();
            let error = work.read(&mut meter, 3).unwrap_err();
            assert!(
                error.kind == savemark_base::Kind::Corrupt && error.to_string().contains("item-0000-00000001"),
                "{error}"
            );
        }
        fs::write(item(1), good).unwrap();
        work.read(&mut meter, 3).unwrap();
    }
}
