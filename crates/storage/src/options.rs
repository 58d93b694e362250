//! Every storage by name: the one list.

use std::sync::Arc;

use savemark_base::error::Result;
use savemark_base::schema::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::storage::Storage;
use crate::target::Target;
use crate::{gds, memory, null, object, posix, uring};

/// Every storage by name, with its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "storage", rename_all = "snake_case")]
pub enum Options {
    /// Forgets every byte: what the engine itself costs.
    Null(null::NullOptions),
    /// The engine's own memory: what the path costs without a device.
    Memory(memory::MemoryOptions),
    /// Files through pread and pwrite, one request at a time per worker.
    Posix(posix::PosixOptions),
    /// Files through io_uring, many requests in flight per worker.
    Uring(uring::UringOptions),
    /// Objects in a bucket of S3 (or what speaks its protocol), Google Cloud Storage or Azure.
    Object(object::ObjectOptions),
    /// Files to and from the memory of NVIDIA GPUs: by GPUDirect Storage, or by what it competes with.
    Gds(gds::GdsOptions),
}

impl Options {
    /// The schema of each storage's options.
    pub fn schemas() -> Vec<(String, schemars::Schema)> {
        vec![
            named::<null::NullOptions>("null"),
            named::<memory::MemoryOptions>("memory"),
            named::<posix::PosixOptions>("posix"),
            named::<uring::UringOptions>("uring"),
            named::<object::ObjectOptions>("object"),
            named::<gds::GdsOptions>("gds"),
        ]
    }

    /// Checks what the types cannot say, also of storage and `workload` (as JSON) together.
    pub fn validate(&self, workload: &serde_json::Value) -> Result<()> {
        match self {
            Self::Object(options) => options.validate(),
            Self::Gds(options) => options.validate(workload),
            _ => Ok(()),
        }
    }
}

/// Opens the storage at `target` (a directory or a URL; ignored by storages that have none).
pub fn open(options: &Options, target: impl Into<Target>) -> Result<Arc<dyn Storage>> {
    let target = target.into();
    Ok(match options {
        Options::Null(_) => Arc::new(null::Null),
        Options::Memory(_) => Arc::new(memory::Memory::default()),
        Options::Posix(options) => Arc::new(posix::open(options, target.directory("posix")?)?),
        Options::Uring(options) => Arc::new(uring::open(options, target.directory("uring")?)?),
        Options::Object(options) => Arc::new(object::open(options, &target)?),
        Options::Gds(options) => Arc::new(gds::open(options, target.directory("gds")?)?),
    })
}
