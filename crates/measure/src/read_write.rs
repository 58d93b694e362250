//! Reads and writes of a mix, apart.

use super::histogram::Histogram;
use savemark_base::io::Operation;
use savemark_base::record;

/// One direction.
#[derive(Clone, Debug, Default)]
pub struct Share {
    operations: u64,
    bytes: u64,
    latency: Histogram,
}

/// Both.
#[derive(Clone, Debug, Default)]
pub struct ReadWriteStats {
    /// Reads.
    pub read: Share,
    /// Writes.
    pub write: Share,
}

impl ReadWriteStats {
    /// Counts one I/O.
    pub fn count(&mut self, operation: Operation, latency_ns: Option<u64>, bytes: u64) {
        let share = match operation {
            Operation::Read => &mut self.read,
            Operation::Write => &mut self.write,
        };
        share.operations += 1;
        share.bytes += bytes;
        if let Some(latency_ns) = latency_ns {
            share.latency.record(latency_ns);
        }
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [(&mut self.read, &other.read), (&mut self.write, &other.write)] {
            mine.operations += theirs.operations;
            mine.bytes += theirs.bytes;
            mine.latency.merge(&theirs.latency);
        }
    }
}

impl Share {
    /// The latencies as they were counted.
    pub fn counted(&self) -> record::Counted {
        self.latency.counted()
    }

    /// The record of it.
    pub fn into_record(self) -> record::Share {
        record::Share { operations: self.operations, bytes: self.bytes, latency: self.latency.summary() }
    }
}
