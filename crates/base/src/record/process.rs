//! What saving and restoring a running program took.

use schemars::JsonSchema;
use serde::Serialize;

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
