//! How the I/Os of a phase are spread: over latencies, over time, over reads and writes.

use schemars::JsonSchema;
use serde::Serialize;

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
