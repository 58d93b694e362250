//! Under which conditions a trial ran.

use schemars::JsonSchema;
use serde::Serialize;

/// What can make a figure of this process on this machine untrue or not the storage's own.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Conditions {
    /// The smallest step of the clock that times are taken with.
    pub clock_tick_ns: u64,
    /// Memory that this process may use, and the page cache with it.
    pub memory_bytes: Option<u64>,
    /// Calls of the C library that another library answers.
    pub interposed: Vec<Interposed>,
    /// Whether a debugger or strace stops the process at its calls.
    pub traced: Option<bool>,
    /// What the control group allows.
    pub limits: Limits,
    /// The filesystem of the target.
    pub mount: Option<Mount>,
    /// What the disk says of its write cache: `write back` (a flush costs something) or `write through`.
    pub write_cache: Option<String>,
}

/// A call that does not reach the C library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Interposed {
    /// Its name.
    pub function: String,
    /// The file of the library that answers.
    pub library: String,
}

/// Limits of the control group on the target's disk and on CPU time; absent without a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Limits {
    /// Reading.
    pub read_bytes_per_s: Option<u64>,
    /// Writing.
    pub write_bytes_per_s: Option<u64>,
    /// Read requests.
    pub read_ops_per_s: Option<u64>,
    /// Write requests.
    pub write_ops_per_s: Option<u64>,
    /// CPUs' worth of time.
    pub cpus: Option<f64>,
}

/// A mounted filesystem.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Mount {
    /// Type, `ext4` for example.
    pub filesystem: String,
    /// What is mounted.
    pub source: String,
    /// Options, without secrets.
    pub options: String,
    /// What kind of storage it is.
    pub class: FilesystemClass,
}

/// What kind of storage a filesystem is, which decides what its figures can mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FilesystemClass {
    /// On a block device of this machine.
    Disk,
    /// In memory: nothing is durable, and O_DIRECT means nothing.
    Memory,
    /// On other machines (or a hypervisor's shared folder).
    Network,
    /// A program of its own behind /dev/fuse.
    Fuse,
    /// Layers over other filesystems, as containers have.
    Overlay,
    /// None of these.
    #[default]
    Other,
}
