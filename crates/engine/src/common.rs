//! Options of every trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use savemark_base::payload::PayloadKind;
use savemark_storage::Target;

/// Options of every trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Common {
    /// Directory or URL to measure; storages without one ignore it.
    pub target: Option<Target>,
    /// Kind of data: what a codec can do depends on it.
    pub payload: PayloadKind,
    /// Seed of the data and of random offsets.
    pub seed: u64,
}
