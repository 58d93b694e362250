//! What a trial leaves behind.

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use crate::trial::Trial;
use savemark_base::record::{Conditions, PathTaken, Phase};

/// Version of the record schema; raised when a field changes its meaning, with a step in `records/versions.py` that reads the one before.
pub const SCHEMA_VERSION: u32 = 2;

/// The JSON Schema of a record. Fields are added without a new version; readers take a missing one as unknown.
pub fn schema() -> Schema {
    schema_for!(Record)
}

/// One finished trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Record {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Every option as it was resolved, defaults included; `savemark schema` lists them.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub trial: Trial,
    /// Wall clock at the start, nanoseconds since 1970 (for reading, never for subtracting).
    pub started_unix_ns: u64,
    /// Monotonic time of the whole trial, preparation and cleanup included.
    pub elapsed_ns: u64,
    /// The path that really ran.
    pub path: PathTaken,
    /// Bytes of the buffers that the engine held for moving data (the state itself is not counted).
    pub buffer_bytes: u64,
    /// What stood between us and the storage.
    pub conditions: Conditions,
    /// In the order in which they ran.
    pub phases: Vec<Phase>,
}
