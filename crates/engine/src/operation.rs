//! Reading or writing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
