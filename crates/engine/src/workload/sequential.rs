//! Read or write a file from front to back; each worker has a part of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Workload;
use super::block::{self, Plan, Sync};
use crate::error::Result;
use crate::record::Phase;
use crate::run::Bench;
use crate::size::{Size, Span};
use crate::storage::Operation;

/// Options of `sequential`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SequentialOptions {
    /// Direction.
    pub operation: Operation,
    /// Length of the file.
    pub size: Size,
    /// Bytes of one I/O.
    pub transfer_size: Size,
    /// I/Os in flight per worker.
    pub queue_depth: u32,
    /// Threads; each moves a contiguous part of the file. In a bucket each writes an object of its own.
    pub workers: u32,
    /// Completions to wait for in one system call; an eighth of the depth when left out.
    pub batch: Option<u32>,
    /// When writes are made durable; always inside the time.
    pub sync: Sync,
    /// Bytes of memory to move through, round and round, shared by the workers; what is in flight when left out.
    /// A device can be a good deal faster into little memory, which stays in the processor's cache.
    pub memory: Option<Size>,
    /// Look at every byte that was read, as whoever wants the data must.
    pub checksum: bool,
    /// Go round and round until this much time has passed; once through the file when left out.
    pub duration: Option<Span>,
}

impl Default for SequentialOptions {
    fn default() -> Self {
        Self {
            operation: Operation::Write,
            size: Size(256 << 20),
            transfer_size: Size(1 << 20),
            queue_depth: 8,
            workers: 1,
            batch: None,
            sync: Sync::End,
            memory: None,
            checksum: false,
            duration: None,
        }
    }
}

impl SequentialOptions {
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
            memory_bytes: self.memory.map_or(0, |size| size.0 / u64::from(self.workers.max(1))),
            checksum: self.checksum,
            in_parts: true,
        }
    }
}

/// The workload.
pub struct Sequential {
    plan: Plan,
}

impl Sequential {
    /// With these options.
    pub fn new(options: &SequentialOptions) -> Self {
        Self { plan: options.plan() }
    }
}

impl Workload for Sequential {
    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        match self.plan.operation {
            Operation::Read => block::lay_out(&self.plan, bench).map(Some),
            Operation::Write => block::create(&self.plan, bench).map(|()| None),
        }
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        vec![self.plan.operation.name()]
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        let (cache, extents) = block::cold(&self.plan, bench)?;
        let again = self.plan.duration.is_some();
        let phase = block::run(phase, &self.plan, bench, |worker| {
            let part = self.plan.part(worker);
            let mut next = part.clone();
            move || match next.next() {
                None if again => {
                    next = part.clone();
                    next.next()
                }
                block => block,
            }
        })?;
        Ok(Phase { cache, extents, ..phase })
    }

    fn cleanup(&mut self, bench: &mut Bench) -> Result<()> {
        block::remove(&self.plan, bench)
    }
}
