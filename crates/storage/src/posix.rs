//! Files through `pread` and `pwrite`, direct or buffered: one I/O at a time per worker.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::directory::{Directory, Queueing};
use super::synchronous::Synchronous;
use super::{Capabilities, File, Queue};
use savemark_base::buffer::Arena;
use savemark_base::error::Result;
use savemark_base::record::PathTaken;

/// Options of `posix`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PosixOptions {
    /// Bypass the page cache (O_DIRECT). Without it a rate may be that of memory.
    pub direct: bool,
}

impl Default for PosixOptions {
    fn default() -> Self {
        Self { direct: true }
    }
}

/// Opens the directory `target`.
pub fn open(options: &PosixOptions, target: &Path) -> Result<Directory> {
    Directory::open(target, options.direct, Box::new(Blocking))
}

struct Blocking;

impl Queueing for Blocking {
    fn describe(&self, path: &mut PathTaken) {
        path.storage = "posix".into();
    }
    fn capabilities(&self, of_directory: Capabilities) -> Capabilities {
        Capabilities { calls_block: true, ..of_directory }
    }
    fn queue(&self, files: &[Arc<dyn File>], _: u32, _: &Arc<Arena>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Synchronous::new(files)))
    }
}
