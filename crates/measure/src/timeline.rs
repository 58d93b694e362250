//! Bytes completed per interval, in bounded memory.

use savemark_base::record;

/// Most intervals kept. Past them the interval doubles, so any run ends with 300 to 600 points.
const LIMIT: usize = 600;

/// One worker's bytes over time since the start barrier.
#[derive(Clone, Debug)]
pub struct Timeline {
    interval_ns: u64,
    bytes: Vec<u64>,
    /// The interval of the last bytes, and when it began: most bytes come in the same one as those before, without a division.
    last: usize,
    last_start_ns: u64,
}

impl Timeline {
    /// An empty timeline; its memory is allocated here, once.
    pub fn new(interval_ns: u64) -> Self {
        Self { interval_ns: interval_ns.max(1), bytes: Vec::with_capacity(LIMIT), last: 0, last_start_ns: 0 }
    }

    /// Counts bytes completed `at_ns` nanoseconds after the start barrier.
    #[inline]
    pub fn add(&mut self, at_ns: u64, bytes: u64) {
        match self.bytes.get_mut(self.last) {
            Some(sum) if at_ns.wrapping_sub(self.last_start_ns) < self.interval_ns => *sum += bytes,
            _ => self.find(at_ns, bytes),
        }
    }

    /// As [`Timeline::add`], in any interval.
    fn find(&mut self, at_ns: u64, bytes: u64) {
        let mut index = at_ns / self.interval_ns;
        while index >= LIMIT as u64 {
            self.fold();
            index = at_ns / self.interval_ns;
        }
        let index = index as usize;
        if index >= self.bytes.len() {
            self.bytes.resize(index + 1, 0);
        }
        self.bytes[index] += bytes;
        (self.last, self.last_start_ns) = (index, index as u64 * self.interval_ns);
    }

    /// Adds another worker's bytes. Both must have started with the same interval; either may have doubled it since.
    pub fn merge(&mut self, other: &Self) {
        while self.interval_ns < other.interval_ns {
            self.fold();
        }
        for (index, &bytes) in other.bytes.iter().enumerate() {
            self.add(index as u64 * other.interval_ns, bytes);
        }
    }

    /// The record of it.
    pub fn into_record(self) -> record::Timeline {
        record::Timeline { interval_ns: self.interval_ns, bytes: self.bytes }
    }

    /// Doubles the interval.
    fn fold(&mut self) {
        self.interval_ns = self.interval_ns.saturating_mul(2);
        (self.last, self.last_start_ns) = (usize::MAX, 0);
        let half = self.bytes.len().div_ceil(2);
        for index in 0..half {
            self.bytes[index] = self.bytes[2 * index] + self.bytes.get(2 * index + 1).copied().unwrap_or(0);
        }
        self.bytes.truncate(half);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_interval() {
        let mut timeline = Timeline::new(100);
        for (at, bytes) in [(0, 1), (99, 2), (100, 4), (350, 8)] {
            timeline.add(at, bytes);
        }
        let record = timeline.into_record();
        assert_eq!((record.interval_ns, record.bytes), (100, vec![3, 4, 0, 8]));
    }

    #[test]
    fn long_runs_fold_and_lose_nothing() {
        let mut timeline = Timeline::new(100);
        (0..100_000).for_each(|i| timeline.add(i * 100, i));
        assert!(timeline.bytes.capacity() == LIMIT && timeline.bytes.len() <= LIMIT);
        let record = timeline.into_record();
        assert_eq!(record.interval_ns, 100 * 256);
        assert_eq!(record.bytes.iter().sum::<u64>(), (0..100_000u64).sum::<u64>());
        assert_eq!(record.bytes[1], (256..512u64).sum::<u64>());
    }

    #[test]
    fn merges_across_different_foldings() {
        let (mut short, mut long, mut all) = (Timeline::new(10), Timeline::new(10), Timeline::new(10));
        for at in [0, 15, 4000, 90_000] {
            long.add(at, at + 1);
            all.add(at, at + 1);
        }
        for at in [0, 25, 333] {
            short.add(at, at + 7);
            all.add(at, at + 7);
        }
        for (mut a, b) in [(short.clone(), &long), (long.clone(), &short)] {
            a.merge(b);
            assert_eq!((a.interval_ns, &a.bytes), (all.interval_ns, &all.bytes));
        }
    }
}
