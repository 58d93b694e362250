//! What is recorded of a trial: plain data, base units, the unit last in every name.

use schemars::JsonSchema;
use serde::Serialize;

mod conditions;
mod counters;
mod distributions;
mod process;
pub use conditions::{Conditions, FilesystemClass, Interposed, Limits, Mount};
pub use counters::{Cache, CuFileCounts, Device, Extents, Machine, Payload};
pub use distributions::{Counted, Histograms, Latency, Share, Slip, Timeline};
pub use process::{CriuStats, ProcessTimes};

/// The path the bytes really took, as opened, not as asked for.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PathTaken {
    /// Storage name.
    pub storage: String,
    /// Whether O_DIRECT was in force.
    pub direct: bool,
    /// Whether buffers were registered with the ring.
    pub fixed_buffers: bool,
    /// Whether files were registered with the ring.
    pub registered_files: bool,
    /// Alignment of direct I/O in bytes (from statx where the filesystem says).
    pub alignment_bytes: u64,
    /// Filesystem type, `ext4` for example; empty where there is none.
    pub filesystem: String,
    /// Threads of a bucket's client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_threads: Option<u32>,
    /// What else a reader must know: why something asked for as "auto" was not used, the endpoint of a bucket.
    pub notes: Vec<String>,
}

/// One phase: everything from its start barrier to its last worker, durability included.
///
/// The start barrier is the one origin of all times of a phase, and of its CPU time, of one process as of many ranks: the moment
/// when every worker is ready. Memory is then made and touched, files are open, rings and buffers are registered, the manifest of
/// what is restored is read; no byte of the data has moved. What all of that took is `prepare_ns`. A program that CRIU saves or
/// restores is the exception: there is nothing to be ready before CRIU starts, so all counts from the call, and `prepare_ns` is 0.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Phase {
    /// `save`, `restore`, `write`, `read`, `mix`, `verify`, `encode`, `decode`, `copy`; those of IO500 by its own names.
    pub name: String,
    /// From the beginning of its preparation to the start barrier. In `elapsed_ns` it is not: who calls waits for both.
    pub prepare_ns: u64,
    /// From the start barrier until the result is complete (durable for a save).
    pub elapsed_ns: u64,
    /// From the start barrier until the first worker ended.
    pub first_done_ns: u64,
    /// From the start barrier until the last worker ended.
    pub last_done_ns: u64,
    /// Bytes all workers together had moved when the first one ended.
    pub first_done_bytes: u64,
    /// I/Os completed.
    pub operations: u64,
    /// Iterations of a solver.
    pub iterations: Option<u64>,
    /// Of a search: files that fit, of the `operations` that were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
    /// Bytes before the codec.
    pub user_bytes: u64,
    /// Of a save out of GPUs: from the start barrier until everything was copied out of their memory, so that the application
    /// could go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_ns: Option<u64>,
    /// Of a solver: those of the saves that are on stable storage after `durable_ns`.
    pub durable_bytes: Option<u64>,
    /// Of a solver: from the start barrier until the last save is on stable storage, even where nothing waits for that.
    pub durable_ns: Option<u64>,
    /// Bytes after the codec, as stored (padding included).
    pub stored_bytes: u64,
    /// User CPU time of the process, from the start barrier on.
    pub cpu_user_ns: u64,
    /// System CPU time of the process, from the start barrier on (kernel threads are not in it).
    pub cpu_system_ns: u64,
    /// Consecutive spans of wall time that add up to `elapsed_ns`.
    pub stages: Vec<Stage>,
    /// Thread time, summed over workers (never on one axis with wall time).
    pub thread_time: ThreadTime,
    /// Latency of one I/O, from when it was handed to the storage until its completion was seen; absent where the phase has none.
    /// Making its data is not in it, waiting for a thread that is busy with other data is. A read has then arrived; a write was
    /// taken by the device or the page cache, or a whole object stored. Absent, too, where an upload takes what is written into
    /// an object: its requests end later, and are not those of single writes.
    pub latency: Option<Latency>,
    /// Latency of one sync; absent where the phase has none.
    pub sync_latency: Option<Latency>,
    /// Of a mix: what was read; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Share>,
    /// Of a mix: what was written; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Share>,
    /// How well a stated rate was kept; absent without one. Latencies then count from when an I/O was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slip: Option<Slip>,
    /// Bytes completed per interval.
    pub timeline: Timeline,
    /// What the block device saw meanwhile.
    pub device: Option<Device>,
    /// What the processors did meanwhile; absent of a phase that is shorter than the steps in which they are counted.
    pub machine: Option<Machine>,
    /// Bytes that the driver of GPUDirect Storage moved meanwhile; absent where it is not loaded or does not count.
    pub gds_bytes: Option<u64>,
    /// What cuFile itself counted meanwhile; absent where it is not used, or is older than 1.15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cufile: Option<CuFileCounts>,
    /// Page-cache residency of the files, before a read or after a write.
    pub cache: Option<Cache>,
    /// Whether the files that are read have data, before a read.
    pub extents: Option<Extents>,
    /// What the written bytes look like, before a codec.
    pub payload: Option<Payload>,
    /// Whether every byte was on stable storage (as far as the kernel can say) at the end of the phase.
    pub durable: bool,
    /// What was verified: `every chunk`, `every block`, or nothing.
    pub verified: Option<String>,
    /// Of a program that CRIU saved or restored.
    pub process: Option<ProcessTimes>,
    /// One line per worker.
    pub workers: Vec<Worker>,
    /// The distributions as they were counted: only of one rank among several, for adding up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histograms: Option<Box<Histograms>>,
    /// What a reader must know: leftovers that could not be removed, for example.
    pub notes: Vec<String>,
}

/// A named span of wall time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Stage {
    /// `transfer` (encode and write, overlapped), `flush`, `commit`, `manifest`…
    pub name: String,
    /// Its length.
    pub elapsed_ns: u64,
}

/// Where the workers' threads spent their time.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct ThreadTime {
    /// In the codec.
    pub codec_ns: u64,
    /// In checksums.
    pub digest_ns: u64,
    /// Waiting for I/O (for a synchronous storage: in its calls); of a solver: at its barriers.
    pub wait_ns: u64,
    /// Computing (a solver).
    pub compute_ns: u64,
    /// In calls that write (a solver).
    pub write_ns: u64,
    /// In calls that make durable (a solver).
    pub sync_ns: u64,
}

/// One worker's share.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Worker {
    /// Bytes before the codec.
    pub user_bytes: u64,
    /// I/Os completed.
    pub operations: u64,
    /// From the start barrier until this worker ended.
    pub done_ns: u64,
    /// CPU time of this worker's thread.
    pub cpu_ns: u64,
}
