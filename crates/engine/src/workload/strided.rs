//! Read or write every so many bytes: the pattern of a column of a matrix, or of one rank's records among those of others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::block::{Block, BlockOptions, Order};
use savemark_base::error::{Error, Result};
use savemark_base::io::Operation;
use savemark_base::size::Size;

/// Options of `strided`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StridedOptions {
    /// What the block workloads share.
    #[serde(flatten)]
    pub io: BlockOptions,
    /// Bytes from the start of one I/O to that of the next, a multiple of `transfer_size`. Behind the end of its part a worker
    /// begins again one transfer further, so that once through visits every block once.
    pub stride: Size,
}

impl Default for StridedOptions {
    fn default() -> Self {
        let io = BlockOptions { operation: Operation::Read, transfer_size: Size(64 << 10), ..BlockOptions::default() };
        Self { io, stride: Size(1 << 20) }
    }
}

impl StridedOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        if !self.stride.0.is_multiple_of(self.io.transfer_size.0.max(1)) {
            let (stride, transfer) = (self.stride, self.io.transfer_size);
            return Err(Error::usage(format!("stride: {stride} is not a multiple of transfer_size {transfer}")));
        }
        self.io.check(self.order())
    }

    fn order(&self) -> Order {
        Order::Strided(self.stride.0 / self.io.transfer_size.0.max(1))
    }

    /// The workload.
    pub(crate) fn build(&self) -> Block<'_> {
        Block::new(&self.io, self.order())
    }
}
