//! Names instead of bytes: create, stat, read, rename and remove many small files or directories, as mdtest does.
//!
//! `easy` in mdtest's sense is the default: empty files, a directory per worker. `hard` is `shared: true, file_size: 3901`.

use std::fs;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::block::Sync;
use super::checkpoint::CacheState;
use super::wear_out::WearOut;
use super::{Workload, own_calls};
use crate::error::{Error, Result};
use crate::phase::{self, Watch};
use crate::record::{Cache, PathTaken, Phase, Stage};
use crate::run::Bench;
use crate::size::{Size, Span};

mod items;
mod work;

use items::Directories;
use work::Work;

/// Options of `metadata`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetadataOptions {
    /// How many are made in all, shared out over the workers.
    pub items: u64,
    /// What is made.
    pub kind: Kind,
    /// Bytes written into each file when it is made, and read back and compared later; mdtest's hard case has 3901.
    pub file_size: Size,
    /// One directory for all workers instead of one each.
    pub shared: bool,
    /// Each worker looks at, reads, renames and removes what the next one made, so that nobody meets its own.
    pub neighbour: bool,
    /// Threads.
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
                .hint("use --workload sequential for large files"));
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

/// The directory below the target that holds everything.
const ROOT: &str = "savemark-metadata";

/// The workload.
pub struct Metadata<'a> {
    options: &'a MetadataOptions,
    /// Made by us: removed in the end.
    root: Option<PathBuf>,
    directories: Option<Directories>,
    /// Items of each worker.
    made: Vec<u64>,
}

impl<'a> Metadata<'a> {
    /// With these options.
    pub fn new(options: &'a MetadataOptions) -> Self {
        Self { options, root: None, directories: None, made: Vec::new() }
    }

    fn directories(&self) -> &Directories {
        self.directories.as_ref().expect("made by prepare")
    }

    fn workers(&self) -> usize {
        self.options.workers as usize
    }

    fn create(&mut self, bench: &mut Bench) -> Result<Phase> {
        let (options, workers) = (self.options, self.workers());
        let share =
            |w: usize| options.items * (w as u64 + 1) / workers as u64 - options.items * w as u64 / workers as u64;
        let wear_out = WearOut::new(workers);
        let watch = Watch::start();
        let team = phase::run(workers, bench.control, |meter| {
            let mut work = Work::new(options, bench.common, self.directories(), meter.index);
            let (start_ns, share) = (meter.start()?, share(meter.index));
            let Some(deadline) = options.phase_deadline else {
                work.create(meter, 0..share, u64::MAX)?;
                return work.end(meter);
            };
            let made = work.create(meter, 0..share, start_ns + deadline.0).inspect_err(|_| wear_out.arrive(0))?;
            wear_out.arrive(made);
            let most = wear_out.wait(meter)?.min(share);
            work.create(meter, made..most, u64::MAX)?;
            work.end(meter)
        })?;
        self.made = team.meters.iter().map(|meter| meter.operations).collect();
        let mut phase = team.into_phase(watch, "create");
        if let Some(deadline) = options.phase_deadline {
            let until = deadline.0.min(phase.elapsed_ns);
            let stage = |name: &str, elapsed_ns| Stage { name: name.into(), elapsed_ns };
            phase.stages = vec![stage("until_deadline", until), stage("wear_out", phase.elapsed_ns - until)];
        }
        Ok(phase)
    }

    /// One of the phases in which every worker goes through the items of one, its own or its neighbour's.
    fn visit(&self, name: &str, bench: &mut Bench) -> Result<Phase> {
        let (options, workers) = (self.options, self.workers());
        let watch = Watch::start();
        let team = phase::run(workers, bench.control, |meter| {
            let owner = (meter.index + usize::from(options.neighbour)) % workers;
            let mut work = Work::new(options, bench.common, self.directories(), owner);
            meter.start()?;
            let count = self.made[owner];
            match name {
                "stat" => work.stat(meter, count),
                "read" => work.read(meter, count),
                "rename" => work.rename(meter, count),
                _ => work.remove(meter, count),
            }
        })?;
        Ok(team.into_phase(watch, name))
    }

    fn drop_caches(&self) -> Result<Cache> {
        if self.options.cache == CacheState::Warm {
            return Ok(Cache {
                state: "warm".into(),
                method: "made by this process just before".into(),
                ..Default::default()
            });
        }
        self.directories().write_back()?;
        fs::write("/proc/sys/vm/drop_caches", "3").map_err(|e| {
            Error::refused(format!("cannot drop inodes and names: /proc/sys/vm/drop_caches: {e}"))
                .hint("run as root, or use --cache warm")
        })?;
        Ok(Cache { state: "dropped".into(), method: "drop_caches 3".into(), ..Default::default() })
    }
}

impl Workload for Metadata<'_> {
    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        let Some(target) = bench.storage.directory() else {
            let name = bench.storage.path_taken().storage;
            return Err(Error::usage(format!("metadata needs a directory; storage {name} has none"))
                .hint("use --storage posix and a directory as the target"));
        };
        let root = target.join(ROOT);
        fs::create_dir(&root).map_err(|e| Error::io("make the directory", &root, e))?;
        self.root = Some(root.clone());
        let count = if self.options.shared { 1 } else { self.workers() };
        self.directories = Some(Directories::make(&root, count)?);
        Ok(None)
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        match self.options.kind {
            Kind::Files => vec!["create", "stat", "read", "rename", "remove"],
            Kind::Directories => vec!["create", "stat", "rename", "remove"],
        }
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        let planned = if self.made.is_empty() { self.options.items } else { self.made.iter().sum() };
        let bytes = if matches!(phase, "create" | "read") { planned * self.options.file_size.0 } else { 0 };
        bench.control.begin(phase, if self.options.phase_deadline.is_some() && phase == "create" { 0 } else { bytes });
        let cache = if matches!(phase, "stat" | "read") { Some(self.drop_caches()?) } else { None };
        let mut done = if phase == "create" { self.create(bench)? } else { self.visit(phase, bench)? };
        let changes = !matches!(phase, "stat" | "read");
        done.durable = changes && self.options.sync != Sync::None && bench.storage.durable();
        done.verified = (phase == "read" && self.options.file_size.0 > 0).then(|| "every file".to_string());
        done.cache = cache;
        Ok(done)
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
fn failed(what: &str, directory: &std::path::Path, name: &std::ffi::CStr, error: rustix::io::Errno) -> Error {
    Error::io(what, &directory.join(name.to_string_lossy().as_ref()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::disk;
    use crate::trial::Common;
    use crate::worker::Meter;

    #[test]
    fn a_file_that_changed_or_was_swapped_is_found() {
        let root = disk();
        let options = MetadataOptions { file_size: Size(3901), ..Default::default() };
        let directories = Directories::make(root.path(), 1).unwrap();
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
            assert!(error.kind == crate::Kind::Corrupt && error.to_string().contains("item-0000-00000001"), "{error}");
        }
        fs::write(item(1), good).unwrap();
        work.read(&mut meter, 3).unwrap();
    }
}
