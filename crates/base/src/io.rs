//! One I/O, as it is asked for and as it ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::Buffer;
use crate::error::Error;

/// Direction of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// From storage to memory.
    Read,
    /// From memory to storage.
    Write,
}

impl Operation {
    /// `read` or `write`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One I/O of the first `len` bytes of `buffer`.
#[derive(Debug)]
pub struct Op {
    /// Direction.
    pub operation: Operation,
    /// Index into the queue's files.
    pub file: usize,
    /// Where in the file.
    pub offset: u64,
    /// Bytes to move.
    pub len: usize,
    /// From or into which memory.
    pub buffer: Buffer,
    /// Comes back with the completion.
    pub token: u64,
}

/// An I/O that ended. It moved all its bytes, or it failed.
#[derive(Debug)]
pub struct Completion {
    /// The token of the [`Op`].
    pub token: u64,
    /// The buffer of the [`Op`].
    pub buffer: Buffer,
    /// Bytes moved.
    pub len: usize,
    /// From submission until the queue saw it complete; none of a write that an upload has taken, whose requests end later.
    pub latency_ns: Option<u64>,
    /// Where it went wrong and why, if it did.
    pub error: Option<Error>,
}
