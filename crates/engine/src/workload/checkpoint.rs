//! Save a state durably, then restore it from a cold cache, through the path that `savemark save` uses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Workload;
use crate::bench::Bench;
use savemark_base::error::{Error, Result};
use savemark_base::record::{PathTaken, Phase};
use savemark_base::size::Size;
use savemark_checkpoint::codec::{self, CodecName};
use savemark_checkpoint::limits::{SHARDS, check_chunk};
use savemark_checkpoint::state::MemoryState;
use savemark_checkpoint::{MANIFEST, RestoreOptions, SaveOptions, Source};
use savemark_host::gpu::numbers;
use savemark_measure::ranks::Sharing;
use savemark_storage::Storage;

mod gpu;

/// Options of `checkpoint`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointOptions {
    /// Bytes of the generated state, of all ranks together; ignored with `state`.
    pub size: Size,
    /// A directory to take as the state instead (a model, say); it is read into memory before the clock starts. Or `gpu`, for
    /// a generated state in the memory of GPU 0, and `gpu:0,1` or `gpu:0-7` for one on several.
    pub state: Option<PathBuf>,
    /// Pinned memory of the host between GPUs and storage, at most. A save with room for the whole state lets the application
    /// go on when all is copied. When left out: as much as that takes, up to half of the memory that there is, which the ranks of
    /// a node share.
    pub staging: Option<Size>,
    /// How each chunk is compressed on its way to the storage; `none` and `tar` leave it as it is.
    pub codec: CodecName,
    /// Level of the codec; its default (1) when left out.
    pub level: Option<i32>,
    /// Parallel streams, each a thread with a shard of its own; 0 for one sequential archive, one step at a time.
    pub streams: u32,
    /// Bytes of state in a chunk, the unit of codec and checksum, and of I/O.
    pub chunk_size: Size,
    /// Chunks in flight per stream.
    pub queue_depth: u32,
    /// Restore straight into the state's memory where codec and alignment allow, instead of copying from a few buffers that
    /// stay in the processor's cache: slower where the device is faster into those, as virtual disks are.
    pub in_place: bool,
    /// Page cache before the restore: dropped and verified cold, or warmed by an unmeasured restore.
    pub cache: CacheState,
}

/// The state of the page cache that is asked for; the record says what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// Nothing of the files resident.
    #[default]
    Cold,
    /// Read once before.
    Warm,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self {
            size: Size(256 << 20),
            state: None,
            staging: None,
            codec: CodecName::None,
            level: None,
            streams: 4,
            chunk_size: Size(1 << 20),
            queue_depth: 2,
            in_place: false,
            cache: CacheState::Cold,
        }
    }
}

impl CheckpointOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        codec::new(self.codec, self.level, self.streams == 0)?;
        check_chunk(self.chunk_size.0)?;
        if self.streams as usize > SHARDS {
            return Err(Error::usage(format!("streams: {} is more than {SHARDS}", self.streams)));
        }
        if !(1..=1024).contains(&self.queue_depth) {
            return Err(Error::usage(format!("queue_depth: {} is not between 1 and 1024", self.queue_depth)));
        }
        if self.size.0 == 0 && (self.state.is_none() || self.gpus()?.is_some()) {
            return Err(Error::usage("size: 0 bytes are no state; try 256MiB"));
        }
        self.gpus().map(drop)
    }

    /// The GPUs that the state is generated on, if it is.
    pub fn gpus(&self) -> Result<Option<Vec<u32>>> {
        let text = self.state.as_deref().and_then(Path::to_str).unwrap_or_default();
        let list = match text.split_once(':') {
            None if text == "gpu" => "0",
            Some(("gpu", list)) => list,
            _ => return Ok(None),
        };
        let wrong =
            || Error::usage(format!("state: `{list}` is no list of GPUs")).hint("write gpu, gpu:0,1 or gpu:0-7");
        numbers(list).map(Some).ok_or_else(wrong)
    }
}

impl From<&CheckpointOptions> for SaveOptions {
    fn from(options: &CheckpointOptions) -> Self {
        Self {
            codec: options.codec,
            level: options.level,
            streams: options.streams,
            chunk_bytes: options.chunk_size.0 as usize,
            queue_depth: options.queue_depth,
        }
    }
}

impl From<&CheckpointOptions> for RestoreOptions {
    fn from(options: &CheckpointOptions) -> Self {
        Self { queue_depth: options.queue_depth, in_place: options.in_place }
    }
}

/// A trial replaces no checkpoint of somebody else's, and removes none.
///
/// # Errors
/// `Refused` if one is there, whole or not.
pub(super) fn check_none(storage: &dyn Storage) -> Result<()> {
    match storage.get(MANIFEST)? {
        None => Ok(()),
        Some(_) => {
            Err(Error::refused("the target holds a checkpoint, which a trial would replace. Nothing was written")
                .hint("name an empty directory; `savemark clean` removes what a killed trial has left"))
        }
    }
}

/// The workload.
pub struct Checkpoint<'a> {
    options: &'a CheckpointOptions,
    /// The state, where it is on GPUs.
    gpus: Option<gpu::OnGpus>,
    /// The checkpoint that is there is ours: removed in the end.
    is_ours: bool,
}

impl<'a> Checkpoint<'a> {
    /// With these options.
    pub fn new(options: &'a CheckpointOptions) -> Self {
        Self { options, gpus: None, is_ours: false }
    }

    /// What this rank saves.
    fn source(&self, bench: &mut Bench) -> Result<Arc<MemoryState>> {
        if self.options.state.is_some() && !bench.ranks.is_alone() {
            return Err(Error::usage("state: a directory is not shared out over ranks")
                .hint("leave `state` out: each rank then makes its part of --size"));
        }
        let bytes = self.share(bench)?;
        bench.memory.source(bench.common, bytes, self.options.state.as_deref())
    }

    /// Bytes of the generated state that are this rank's.
    fn share(&self, bench: &Bench) -> Result<u64> {
        let (size, ranks) = (self.options.size, bench.ranks);
        match ranks.share(size.0) {
            0 if size.0 > 0 => Err(Error::usage(format!("size: {size} has no byte for each of {} ranks", ranks.ranks))),
            bytes => Ok(bytes),
        }
    }

    fn save(&self, bench: &mut Bench) -> Result<Phase> {
        let source = match self.options.state {
            Some(_) => self.source(bench)?,
            None => bench.memory.renewed_source(bench.common, self.share(bench)?)?,
        };
        let options = SaveOptions::from(self.options);
        let payload = source.sample().payload();
        let saved =
            savemark_checkpoint::save(&*source, &*bench.storage, &options, &mut bench.memory.pool, bench.control);
        saved.map(|(_, phase)| Phase { payload, ..phase })
    }

    fn restore(&self, bench: &mut Bench) -> Result<Phase> {
        let manifest = savemark_checkpoint::restore::open(&*bench.storage)?;
        let mut names: Vec<String> = manifest.shards.iter().map(|s| s.name.clone()).collect();
        names.push(MANIFEST.to_string());
        let sink = bench.memory.destination(manifest.state_bytes)?;
        let options = RestoreOptions::from(self.options);
        let restore = |bench: &mut Bench| {
            savemark_checkpoint::restore(&*bench.storage, &*sink, &options, &mut bench.memory.pool, bench.control)
        };
        match self.options.cache {
            CacheState::Cold => bench.storage.evict(&names)?,
            CacheState::Warm => drop(bench.control.unmeasured(|| restore(bench))?),
        }
        let (cache, extents) = bench.storage.look(&names)?;
        let (_, phase) = restore(bench)?;
        Ok(Phase { cache: Some(cache), extents, ..phase })
    }
}

impl Workload for Checkpoint<'_> {
    fn sharing(&self) -> Sharing {
        Sharing::Apart
    }

    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        check_none(&*bench.storage)?;
        self.is_ours = true;
        match self.options.gpus()? {
            Some(gpus) => self.gpus = Some(gpu::OnGpus::prepare(&gpus, self.options, self.share(bench)?, bench)?),
            None => {
                let source = self.source(bench)?;
                bench.memory.destination(source.bytes())?;
            }
        }
        if self.options.cache == CacheState::Warm && bench.storage.path_taken().direct {
            return Err(Error::usage("cache: direct I/O bypasses the page cache, so it cannot be warm")
                .hint("add --no-direct, or use --cache cold"));
        }
        Ok(None)
    }

    fn phases(&self, bench: &Bench) -> Vec<&'static str> {
        if bench.storage.capabilities().keeps { vec!["save", "restore"] } else { vec!["save"] }
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        match &self.gpus {
            Some(gpus) if phase == "save" => gpus.save(self.options, bench),
            Some(gpus) => gpus.restore(self.options, bench),
            None if phase == "save" => self.save(bench),
            None => self.restore(bench),
        }
    }

    fn describe(&self, path: &mut PathTaken) {
        path.notes.extend(self.gpus.iter().flat_map(gpu::OnGpus::describe));
    }

    fn cleanup(&mut self, bench: &mut Bench) -> Result<()> {
        if self.is_ours { savemark_checkpoint::remove(&*bench.storage) } else { Ok(()) }
    }
}
