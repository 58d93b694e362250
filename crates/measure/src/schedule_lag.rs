//! How far behind its schedule an open loop is.

use super::histogram::Histogram;
use savemark_base::record;

/// An I/O that starts so long after it was due is late: far beyond what a timer and a scheduler take.
const LATE_NS: u64 = 1_000_000;

/// One worker's slips.
#[derive(Clone, Debug, Default)]
pub struct ScheduleLag {
    slips: Histogram,
    late: u64,
    /// I/Os that were due.
    pub due: u64,
}

impl ScheduleLag {
    /// An I/O starts, `slip_ns` after it was due.
    pub fn start(&mut self, slip_ns: u64) {
        self.slips.record(slip_ns);
        self.late += u64::from(slip_ns > LATE_NS);
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        self.slips.merge(&other.slips);
        self.late += other.late;
        self.due += other.due;
    }

    /// The slips as they were counted.
    pub fn counted(&self) -> record::Counted {
        self.slips.counted()
    }

    /// The record of it.
    pub fn into_record(self) -> record::Slip {
        let start = record::Slip { due: self.due, late: self.late, late_after_ns: LATE_NS, ..Default::default() };
        match self.slips.summary() {
            Some(found) => record::Slip {
                started: found.count,
                mean_ns: found.mean_ns,
                p99_ns: found.p99_ns,
                max_ns: found.max_ns,
                ..start
            },
            None => start,
        }
    }
}
