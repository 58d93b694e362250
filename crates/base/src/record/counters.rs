//! What others have counted of a phase: the disk, the machine, the page cache, the filesystem and GPUs' drivers.

use schemars::JsonSchema;
use serde::Serialize;

/// Transfers of cuFile by the way that they took, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CuFileCounts {
    /// Bytes read into GPUs.
    pub read_bytes: u64,
    /// Bytes written from GPUs.
    pub written_bytes: u64,
    /// Transfers by the driver nvidia-fs.
    pub nvidia_fs: u64,
    /// Transfers by the kernel's own PCI peer-to-peer.
    pub peer_to_peer: u64,
    /// Transfers through the host's memory: compatibility mode.
    pub posix: u64,
}

impl CuFileCounts {
    /// What happened after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            nvidia_fs: self.nvidia_fs.saturating_sub(earlier.nvidia_fs),
            peer_to_peer: self.peer_to_peer.saturating_sub(earlier.peer_to_peer),
            posix: self.posix.saturating_sub(earlier.posix),
        }
    }
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

/// What is written, as a sample shows that was taken while it was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Payload {
    /// Bytes in the sample, in blocks of 4096; of every block in it all repetitions are counted, however far apart they are.
    pub sampled_bytes: u64,
    /// Share of blocks that are all zero.
    pub zero_share: f64,
    /// Share of blocks, not zero, that are equal to one written before in the same phase.
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
