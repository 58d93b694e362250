//! The state in the memory of GPUs: the same save and restore, with copies out of it and into it inside their time.

use std::sync::Arc;

use super::{CacheState, CheckpointOptions};
use crate::bench::Bench;
use savemark_base::error::Result;
use savemark_base::payload::content;
use savemark_base::record::Phase;
use savemark_checkpoint::gpu::{self, GpuMemory, GpuState, Limit};
use savemark_checkpoint::state::GeneratedState;
use savemark_checkpoint::{MANIFEST, RestoreOptions, SaveOptions, Source};

/// A state on GPUs, filled before the first clock starts.
pub(super) struct OnGpus {
    memory: Arc<GpuMemory>,
    state: GpuState,
}

impl OnGpus {
    pub(super) fn prepare(gpus: &[u32], options: &CheckpointOptions, bytes: u64, bench: &mut Bench) -> Result<Self> {
        let memory = bench.memory.on_gpus(bench.common, bytes, gpus)?;
        memory.fill()?;
        let state = memory.state()?;
        gpu::pin(&state, &SaveOptions::from(options), Limit::of(options.staging, bench.ranks))?;
        Ok(Self { memory, state })
    }

    /// Where the state is, for the record.
    pub(super) fn describe(&self) -> Vec<String> {
        self.state.describe()
    }

    pub(super) fn save(&self, options: &CheckpointOptions, bench: &mut Bench) -> Result<Phase> {
        self.memory.fill()?;
        let same = GeneratedState::new(bench.common.payload, bench.common.seed, self.memory.bytes());
        let payload = content::sample(same.bytes(), |offset, block| same.read(offset, block))?;
        let (pool, staging) = (&mut bench.memory.pool, Limit::of(options.staging, bench.ranks));
        let how = SaveOptions::from(options);
        let (_, phase, staged) = gpu::save(&self.state, &*bench.storage, &how, staging, pool, bench.control)?;
        bench.memory.staged_bytes = bench.memory.staged_bytes.max(staged);
        Ok(Phase { payload: Some(payload), ..phase })
    }

    /// Restores over memory that was overwritten before, and reads it back when the clock has stopped.
    pub(super) fn restore(&self, options: &CheckpointOptions, bench: &mut Bench) -> Result<Phase> {
        let manifest = savemark_checkpoint::restore::open(&*bench.storage)?;
        let mut names: Vec<String> = manifest.shards.iter().map(|s| s.name.clone()).collect();
        names.push(MANIFEST.to_string());
        let (how, staging) = (RestoreOptions::from(options), Limit::of(options.staging, bench.ranks));
        let restore = |bench: &mut Bench| {
            self.memory.spoil()?;
            let (storage, pool) = (&*bench.storage, &mut bench.memory.pool);
            gpu::restore(&self.state, storage, &how, manifest.chunk_bytes, staging, pool, bench.control)
        };
        match options.cache {
            CacheState::Cold => bench.storage.evict(&names)?,
            CacheState::Warm => drop(bench.control.unmeasured(|| restore(bench))?),
        }
        let (cache, extents) = bench.storage.look(&names)?;
        let (_, mut phase, staged) = restore(bench)?;
        bench.memory.staged_bytes = bench.memory.staged_bytes.max(staged);
        self.memory.check()?;
        phase.verified = Some("every chunk, and every byte in the GPUs' memory".into());
        Ok(Phase { cache: Some(cache), extents, ..phase })
    }
}
