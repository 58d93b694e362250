//! Copy a state in memory: the rate that no path through memory can beat.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Workload;
use crate::bench::Bench;
use savemark_base::buffer::Arena;
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::record::Phase;
use savemark_base::size::Size;
use savemark_measure::phase::{self, Watch};
use savemark_measure::ranks::Sharing;
use savemark_measure::worker::Meter;

/// Options of `memcpy`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemcpyOptions {
    /// Bytes to copy in all; more than the caches hold.
    pub size: Size,
    /// Threads; each copies its share.
    pub workers: u32,
}

impl Default for MemcpyOptions {
    fn default() -> Self {
        Self { size: Size(256 << 20), workers: 1 }
    }
}

impl MemcpyOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        if self.size.0 < BLOCK as u64 * u64::from(self.workers) || self.workers == 0 {
            return Err(Error::usage("size: each worker copies at least 4MiB"));
        }
        Ok(())
    }

    /// Bytes of one worker: whole blocks.
    /// What each worker of a rank copies, of which there are so many.
    fn share(&self, ranks: usize) -> usize {
        (self.size.0 / u64::from(self.workers)) as usize / ranks / BLOCK * BLOCK
    }
}

/// Between two looks at the clock.
const BLOCK: usize = 4 << 20;

/// The workload.
pub struct Memcpy<'a> {
    options: &'a MemcpyOptions,
    arenas: Vec<std::sync::Arc<Arena>>,
}

impl<'a> Memcpy<'a> {
    /// With these options.
    pub fn new(options: &'a MemcpyOptions) -> Self {
        Self { options, arenas: Vec::new() }
    }

    fn copy(&self, share: usize, meter: &mut Meter) -> Result<()> {
        // SAFETY: two disjoint halves of an arena that only this worker uses.
        let (from, mut to) = unsafe {
            let arena = &self.arenas[meter.index];
            (arena.buffer(0, share), arena.buffer(share, share))
        };
        let start_ns = meter.start()?;
        for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
            to.copy_from_slice(from);
            meter.operations += 1;
            meter.count_user(from.len() as u64);
            meter.timeline.add(clock::now().saturating_sub(start_ns), from.len() as u64);
        }
        meter.check()
    }
}

impl Workload for Memcpy<'_> {
    fn sharing(&self) -> Sharing {
        Sharing::Apart
    }

    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        let (ranks, share) = (bench.ranks.ranks, self.options.share(bench.ranks.ranks));
        if share == 0 {
            let why = format!("size: each worker of {ranks} ranks copies at least 4MiB");
            return Err(Error::usage(why).hint("use a larger --size"));
        }
        self.arenas = bench.memory.room.take(self.options.workers as usize, 2 * share)?;
        Ok(None)
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        vec!["copy"]
    }

    fn run(&mut self, name: &str, bench: &mut Bench) -> Result<Phase> {
        let share = self.options.share(bench.ranks.ranks);
        bench.control.begin(name, u64::from(self.options.workers) * share as u64);
        let watch = Watch::start();
        let team = phase::run(self.options.workers as usize, bench.control, |meter| self.copy(share, meter))?;
        Ok(team.into_phase(watch, name))
    }

    fn cleanup(&mut self, _: &mut Bench) -> Result<()> {
        Ok(())
    }
}
