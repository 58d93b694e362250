//! Read or write at random offsets of files that were written whole before.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::block::{Block, BlockOptions, Order};
use savemark_base::error::Result;
use savemark_base::io::Operation;
use savemark_base::size::{Size, Span};

/// Options of `random`. Each worker picks offsets in the whole file, or in all of its own; without a duration as many as there
/// are blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RandomOptions {
    /// What the block workloads share.
    #[serde(flatten)]
    pub io: BlockOptions,
}

impl Default for RandomOptions {
    fn default() -> Self {
        let io = BlockOptions {
            operation: Operation::Read,
            transfer_size: Size(4 << 10),
            queue_depth: 64,
            duration: Some(Span(1_000_000_000)),
            ..BlockOptions::default()
        };
        Self { io }
    }
}

impl RandomOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        self.io.check(Order::Random)
    }

    /// The workload.
    pub(crate) fn build(&self) -> Block<'_> {
        Block::new(&self.io, Order::Random)
    }
}
