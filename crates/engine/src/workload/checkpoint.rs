//! Save a state durably, then restore it from a cold cache, through the path that `savemark save` uses.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Workload;
use crate::buffer::ALIGN;
use crate::checkpoint::{self, MANIFEST, RestoreOptions, SaveOptions, Source};
use crate::codec::{self, CodecName};
use crate::error::{Error, Result};
use crate::measure::content;
use crate::record::Phase;
use crate::run::Bench;
use crate::size::Size;

/// Options of `checkpoint`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointOptions {
    /// Bytes of the generated state; ignored with `state`.
    pub size: Size,
    /// A directory to take as the state instead (a model, say); it is read into memory before the clock starts.
    pub state: Option<PathBuf>,
    /// What happens to a chunk between memory and storage.
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
        check_chunk_size(self.chunk_size)?;
        if self.streams > 1024 {
            return Err(Error::usage(format!("streams: {} is more than 1024", self.streams)));
        }
        if !(1..=1024).contains(&self.queue_depth) {
            return Err(Error::usage(format!("queue_depth: {} is not between 1 and 1024", self.queue_depth)));
        }
        if self.size.0 == 0 && self.state.is_none() {
            return Err(Error::usage("size: 0 bytes are no state; try 256MiB"));
        }
        Ok(())
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

/// Chunks are read and written directly, and held in memory several at a time.
pub(super) fn check_chunk_size(size: Size) -> Result<()> {
    if size.0 == 0 || !size.0.is_multiple_of(ALIGN as u64) || size.0 > 1 << 30 {
        return Err(Error::usage(format!("chunk_size: {size} is not a multiple of 4KiB up to 1GiB")));
    }
    Ok(())
}

/// The workload.
pub struct Checkpoint<'a> {
    options: &'a CheckpointOptions,
}

impl<'a> Checkpoint<'a> {
    /// With these options.
    pub fn new(options: &'a CheckpointOptions) -> Self {
        Self { options }
    }

    fn save(&self, bench: &mut Bench) -> Result<Phase> {
        let source = bench.memory.source(bench.common, self.options.size.0, self.options.state.as_deref())?;
        let options = SaveOptions::from(self.options);
        let payload = content::sample(source.bytes(), |offset, block| source.read(offset, block))?;
        let saved = checkpoint::save(&*source, &*bench.storage, &options, &mut bench.memory.pool, bench.control);
        saved.map(|(_, phase)| Phase { payload: Some(payload), ..phase })
    }

    fn restore(&self, bench: &mut Bench) -> Result<Phase> {
        let manifest = checkpoint::restore::open(&*bench.storage)?;
        let mut names: Vec<String> = manifest.shards.iter().map(|s| s.name.clone()).collect();
        names.push(MANIFEST.to_string());
        let sink = bench.memory.destination(manifest.state_bytes)?;
        let options = RestoreOptions::from(self.options);
        let restore = |bench: &mut Bench| {
            checkpoint::restore(&*bench.storage, &*sink, &options, &mut bench.memory.pool, bench.control)
        };
        match self.options.cache {
            CacheState::Cold => bench.storage.evict(&names)?,
            CacheState::Warm => drop(restore(bench)?),
        }
        let (cache, extents) = (bench.storage.residency(&names)?, bench.storage.extents(&names)?);
        let (_, phase) = restore(bench)?;
        Ok(Phase { cache: Some(cache), extents, ..phase })
    }
}

impl Workload for Checkpoint<'_> {
    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        let source = bench.memory.source(bench.common, self.options.size.0, self.options.state.as_deref())?;
        bench.memory.destination(source.bytes())?;
        if self.options.cache == CacheState::Warm && bench.storage.path_taken().direct {
            return Err(Error::usage("cache: direct I/O bypasses the page cache, so it cannot be warm")
                .hint("add --no-direct, or use --cache cold"));
        }
        Ok(None)
    }

    fn phases(&self, bench: &Bench) -> Vec<&'static str> {
        if bench.storage.keeps() { vec!["save", "restore"] } else { vec!["save"] }
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        if phase == "save" { self.save(bench) } else { self.restore(bench) }
    }

    fn cleanup(&mut self, bench: &mut Bench) -> Result<()> {
        checkpoint::remove(&*bench.storage)
    }
}
