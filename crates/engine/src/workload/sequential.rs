//! Read or write files from front to back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::block::{Block, BlockOptions, Order};
use savemark_base::error::Result;

/// Options of `sequential`. Each worker has a contiguous part of the file, or files of its own; in a bucket each writes an
/// object of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SequentialOptions {
    /// What the block workloads share.
    #[serde(flatten)]
    pub io: BlockOptions,
}

impl SequentialOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        self.io.check(Order::Sequential)
    }

    /// The workload.
    pub(crate) fn build(&self) -> Block<'_> {
        Block::new(&self.io, Order::Sequential)
    }
}
