//! What a trial leaves behind: plain data, base units, the unit last in every name.

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use crate::host::FilesystemClass;
use crate::trial::Trial;

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
    /// `save`, `restore`, `write`, `read`, `mix`, `verify`, `encode`, `decode`, `copy`.
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
    /// Bytes before the codec.
    pub user_bytes: u64,
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
    /// What the processors did meanwhile.
    pub machine: Option<Machine>,
    /// Bytes that the driver of GPUDirect Storage moved meanwhile; absent where it is not loaded or does not count.
    pub gds_bytes: Option<u64>,
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

/// Difference of `/proc/diskstats` over the phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Device {
    /// Name as in `/proc/diskstats`.
    pub name: String,
    /// Read requests completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flush requests completed.
    pub flushes: u64,
}

/// Differences of `/proc/stat`, of this process's own CPU time and of its control group's over the phase and its preparation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Machine {
    /// Between the two looks: the phase, and dropping the cache before it.
    pub elapsed_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// CPU time that all processes and the kernel used, in steps of a tick (10 ms).
    pub busy_ns: u64,
    /// The part of it that this process used, and of a program that it saved, CRIU and the program.
    pub own_ns: u64,
    /// CPU time that the hypervisor gave to others while there was something to run here.
    pub steal_ns: u64,
    /// How long the control group's CPU quota kept us from running.
    pub throttled_ns: Option<u64>,
    /// How often processors slowed down for heat.
    pub thermal_throttles: Option<u64>,
}

/// Where the bytes of some files lie (FIEMAP).
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Extents {
    /// Length of the files.
    pub bytes: u64,
    /// Bytes that have no room on the storage.
    pub hole_bytes: u64,
    /// Bytes whose room was reserved and never written.
    pub unwritten_bytes: u64,
    /// `fiemap`, or why it did not work.
    pub method: String,
}

/// What a sample of bytes looks like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Payload {
    /// Bytes looked at, in blocks of 4096.
    pub sampled_bytes: u64,
    /// Share of blocks that are all zero.
    pub zero_share: f64,
    /// Share of other blocks that are equal to one seen before.
    pub repeated_share: f64,
    /// Shannon entropy of single bytes: 8 for random ones, 0 for one value.
    pub entropy_bits: f64,
}

/// Page-cache residency, as counted by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Cache {
    /// `cold` (at most 1 % resident), `warm` (at least 99 %), `mixed`, `none` (no page cache here), `unknown`.
    pub state: String,
    /// Pages of these files in the page cache.
    pub resident_pages: u64,
    /// Pages of these files.
    pub total_pages: u64,
    /// `cachestat`, `mincore`, or why neither worked.
    pub method: String,
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
