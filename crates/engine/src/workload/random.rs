//! Read or write at random offsets of a file that was written whole before.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Workload;
use super::block::{self, Plan, Sync};
use crate::error::Result;
use crate::record::Phase;
use crate::run::Bench;
use crate::size::{Size, Span};
use crate::storage::Operation;

/// Options of `random`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RandomOptions {
    /// Direction.
    pub operation: Operation,
    /// Length of the file.
    pub size: Size,
    /// Bytes of one I/O.
    pub transfer_size: Size,
    /// I/Os in flight per worker.
    pub queue_depth: u32,
    /// Threads; each picks offsets in the whole file.
    pub workers: u32,
    /// Completions to wait for in one system call; an eighth of the depth when left out.
    pub batch: Option<u32>,
    /// When writes are made durable; always inside the time.
    pub sync: Sync,
    /// Time to run.
    pub duration: Option<Span>,
    /// I/Os per worker, if that comes first; without a duration as many as the file has blocks.
    pub operations: Option<u64>,
}

impl Default for RandomOptions {
    fn default() -> Self {
        Self {
            operation: Operation::Read,
            size: Size(256 << 20),
            transfer_size: Size(4 << 10),
            queue_depth: 64,
            workers: 1,
            batch: None,
            sync: Sync::End,
            duration: Some(Span(1_000_000_000)),
            operations: None,
        }
    }
}

impl RandomOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        self.plan().check()
    }

    fn plan(&self) -> Plan {
        Plan {
            operation: self.operation,
            file_bytes: self.size.0,
            transfer_bytes: self.transfer_size.0 as usize,
            queue_depth: self.queue_depth,
            workers: self.workers as usize,
            batch: Plan::batch_or_default(self.batch, self.queue_depth),
            sync: self.sync,
            duration: self.duration,
            memory_bytes: 0,
            checksum: false,
            in_parts: false,
        }
    }
}

/// The workload.
pub struct Random {
    plan: Plan,
    operations: u64,
}

impl Random {
    /// With these options.
    pub fn new(options: &RandomOptions) -> Self {
        let plan = options.plan();
        let unlimited = if plan.duration.is_some() { u64::MAX } else { plan.blocks() };
        Self { operations: options.operations.unwrap_or(unlimited), plan }
    }
}

/// xorshift64* (Vigna 2016): two multiplications are less than what an I/O's bookkeeping costs.
struct Blocks {
    state: u64,
    blocks: u64,
}

impl Blocks {
    /// Another sequence for each worker.
    fn new(seed: u64, worker: usize, blocks: u64) -> Self {
        Self { state: (seed ^ (worker as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1, blocks }
    }

    /// Uniform below `blocks`, by multiplication (Lemire 2019).
    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(random) * u128::from(self.blocks)) >> 64) as u64
    }
}

impl Workload for Random {
    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        block::lay_out(&self.plan, bench).map(Some)
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        vec![self.plan.operation.name()]
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        let (cache, extents) = block::cold(&self.plan, bench)?;
        let (blocks, operations, seed) = (self.plan.blocks(), self.operations, bench.common.seed);
        let phase = block::run(phase, &self.plan, bench, |worker| {
            let mut random = Blocks::new(seed, worker, blocks);
            let mut left = operations;
            move || {
                left = left.checked_sub(1)?;
                Some(random.next())
            }
        })?;
        Ok(Phase { cache, extents, ..phase })
    }

    fn cleanup(&mut self, bench: &mut Bench) -> Result<()> {
        bench.storage.remove(block::FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_uniform_and_differ_between_workers() {
        let draw = |worker| {
            let mut blocks = Blocks::new(7, worker, 10);
            (0..10_000).map(|_| blocks.next()).collect::<Vec<_>>()
        };
        let first = draw(0);
        assert_ne!(first, draw(1));
        for block in 0..10 {
            let count = first.iter().filter(|b| **b == block).count();
            assert!((850..1150).contains(&count), "block {block}: {count} of 10000");
        }
    }
}
