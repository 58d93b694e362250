//! What a trial leaves behind: plain data, base units, the unit last in every name.

use serde::Serialize;

use crate::trial::Trial;

/// Version of the record schema; raised when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// One finished trial.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Every option as it was resolved, defaults included.
    pub trial: Trial,
    /// Wall clock at the start, nanoseconds since 1970 (for reading, never for subtracting).
    pub started_unix_ns: u64,
    /// Monotonic time of the whole trial, preparation and cleanup included.
    pub elapsed_ns: u64,
    /// The path that really ran.
    pub path: PathTaken,
    /// Bytes of the buffers that the engine held for moving data (the state itself is not counted).
    pub buffer_bytes: u64,
    /// In the order in which they ran.
    pub phases: Vec<Phase>,
}

/// The path the bytes really took, as opened, not as asked for.
#[derive(Clone, Debug, Default, Serialize)]
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
#[derive(Clone, Debug, Default, Serialize)]
pub struct Phase {
    /// `save`, `restore`, `write`, `read`, `encode`, `decode`, `copy`.
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
    /// Bytes before the codec.
    pub user_bytes: u64,
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
    /// Bytes completed per interval.
    pub timeline: Timeline,
    /// What the block device saw meanwhile.
    pub device: Option<Device>,
    /// Page-cache residency of the files, before a read or after a write.
    pub cache: Option<Cache>,
    /// Whether every byte was on stable storage (as far as the kernel can say) at the end of the phase.
    pub durable: bool,
    /// What was verified: `every chunk`, `every block`, or nothing.
    pub verified: Option<String>,
    /// One line per worker.
    pub workers: Vec<Worker>,
    /// What a reader must know: leftovers that could not be removed, for example.
    pub notes: Vec<String>,
}

/// A named span of wall time.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// `transfer` (encode and write, overlapped), `flush`, `commit`, `manifest`…
    pub name: String,
    /// Its length.
    pub elapsed_ns: u64,
}

/// Where the workers' threads spent their time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ThreadTime {
    /// In the codec.
    pub codec_ns: u64,
    /// In checksums.
    pub digest_ns: u64,
    /// Waiting for I/O (for a synchronous storage: in its calls).
    pub wait_ns: u64,
}

/// A latency distribution.
#[derive(Clone, Debug, Serialize)]
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

/// Bytes completed in each interval since the start barrier.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// Length of an interval.
    pub interval_ns: u64,
    /// One number per interval.
    pub bytes: Vec<u64>,
}

/// Difference of `/proc/diskstats` over the phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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

/// Page-cache residency, as counted by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
#[derive(Clone, Debug, Default, Serialize)]
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
