//! What a trial leaves behind: plain data, base units, the unit last in every name.

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use crate::trial::Trial;

mod conditions;
mod counters;
pub use conditions::{Conditions, Interposed, Limits, Mount};
pub use counters::{Cache, CuFileCounts, Device, Extents, Machine, Payload};

/// Version of the record schema; raised when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

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
    /// What else a reader must know: why something asked for as "auto" was not used, the endpoint of a bucket.
    pub notes: Vec<String>,
}

/// One phase: everything from its start barrier to its last worker, durability included.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Phase {
    /// `save`, `restore`, `write`, `read`, `mix`, `verify`, `encode`, `decode`, `copy`; those of IO500 by its own names.
    pub name: String,
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
    /// Of a save out of GPUs: until everything was copied out of their memory, so that the application could go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_ns: Option<u64>,
    /// Of a solver: those of the saves that are on stable storage after `durable_ns`.
    pub durable_bytes: Option<u64>,
    /// Of a solver: from the start barrier until the last save is on stable storage, even where nothing waits for that.
    pub durable_ns: Option<u64>,
    /// Bytes after the codec, as stored (padding included).
    pub stored_bytes: u64,
    /// User CPU time of the process in this phase.
    pub cpu_user_ns: u64,
    /// System CPU time of the process in this phase (kernel threads are not in it).
    pub cpu_system_ns: u64,
    /// Consecutive spans of wall time that add up to `elapsed_ns`.
    pub stages: Vec<Stage>,
    /// Thread time, summed over workers (never on one axis with wall time).
    pub thread_time: ThreadTime,
    /// Latency of one I/O; absent where the phase has none.
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

/// What CRIU and the program did in a phase; CPU time of both is in the phase's own too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProcessTimes {
    /// Version of CRIU.
    pub criu: String,
    /// How its images travelled: `stream`, `images`, `tmpfs`, `lazy`.
    pub mode: String,
    /// Processes of the program.
    pub processes: u32,
    /// CPU time of CRIU and of what it waited for.
    pub criu_cpu_ns: u64,
    /// CPU time of the program itself, in which CRIU's parasite reads its memory, and fills it again.
    pub program_cpu_ns: u64,
    /// From the start of the phase until the program answered again, after a restore.
    pub first_answer_ns: Option<u64>,
    /// From the start of the phase until all of its memory was there and its checksum was right.
    pub resident_ns: Option<u64>,
    /// CRIU's own account.
    pub stats: CriuStats,
}

/// CRIU's `stats-dump` or `stats-restore`, as far as there is one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CriuStats {
    /// Until every process stood still.
    pub freezing_ns: Option<u64>,
    /// For how long they stood still.
    pub frozen_ns: Option<u64>,
    /// Collecting memory.
    pub memory_dump_ns: Option<u64>,
    /// Writing it into the images.
    pub memory_write_ns: Option<u64>,
    /// Making processes again.
    pub forking_ns: Option<u64>,
    /// Filling them.
    pub restore_ns: Option<u64>,
    /// Pages written, or restored.
    pub pages: Option<u64>,
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

/// A latency distribution.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

/// The distributions of a phase of one rank.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Histograms {
    /// Of one I/O.
    pub latency: Counted,
    /// Of one sync.
    pub sync_latency: Counted,
    /// Of one read of a mix.
    pub read: Option<Counted>,
    /// Of one write of a mix.
    pub write: Option<Counted>,
    /// How late I/Os started that had to keep a rate.
    pub slip: Option<Counted>,
}

/// A distribution as it was counted, three significant digits apart.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Counted {
    /// Each value that was seen, rising; the upper end of those that are counted as one.
    pub values: Vec<u64>,
    /// How often.
    pub counts: Vec<u64>,
    /// Of all of them.
    pub sum_ns: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

/// The reads or the writes of a mix.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Share {
    /// I/Os completed.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Latency of one I/O; absent if there was none.
    pub latency: Option<Latency>,
}

/// How far behind its schedule an open loop was. An I/O starts late when as many as may be are in flight, or when this machine
/// had no time for us: in both cases its waiting is in its latency.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Slip {
    /// I/Os that were due while the phase lasted.
    pub due: u64,
    /// Those of them that were started.
    pub started: u64,
    /// Those started more than `late_after_ns` after they were due.
    pub late: u64,
    /// What counts as late.
    pub late_after_ns: u64,
    /// From when an I/O was due until it was started: arithmetic mean.
    pub mean_ns: u64,
    /// Its 99th percentile.
    pub p99_ns: u64,
    /// Its largest value.
    pub max_ns: u64,
}

/// Bytes completed in each interval since the start barrier.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Timeline {
    /// Length of an interval.
    pub interval_ns: u64,
    /// One number per interval.
    pub bytes: Vec<u64>,
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
