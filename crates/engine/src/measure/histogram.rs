//! A latency distribution that can be recorded in the hot loop.

use crate::record::Latency;

/// The longest latency told apart: one hour. Longer ones count as one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies from 1 ns to 1 h at three significant digits; recording neither allocates nor searches.
/// One histogram holds about 260 KiB, of which a workload touches a few lines.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    // Kept exactly: buckets would round them.
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds are valid");
        Self { counts, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Counts one latency in nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts.saturating_record(ns);
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds another worker's latencies.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("all histograms have the same bounds");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The distribution; `None` when nothing was recorded.
    pub fn summary(&self) -> Option<Latency> {
        let count = self.counts.len();
        if count == 0 {
            return None;
        }
        // A bucket's upper edge may lie beyond the largest value seen.
        let quantile = |q| self.counts.value_at_quantile(q).clamp(self.min_ns, self.max_ns);
        Some(Latency {
            count,
            min_ns: self.min_ns,
            mean_ns: (self.sum_ns / u128::from(count)) as u64,
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p99_9_ns: quantile(0.999),
            p99_99_ns: quantile(0.9999),
            max_ns: self.max_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut histogram = Histogram::new();
        assert!(histogram.summary().is_none());
        (1..=100_000).for_each(|us| histogram.record(us * 1000));
        let latency = histogram.summary().unwrap();
        for (got, expected) in [
            (latency.p50_ns, 50_000_000),
            (latency.p90_ns, 90_000_000),
            (latency.p99_ns, 99_000_000),
            (latency.p99_9_ns, 99_900_000),
            (latency.p99_99_ns, 99_990_000),
        ] {
            assert!(got.abs_diff(expected) <= expected / 1000, "{got} instead of {expected}");
        }
        assert_eq!((latency.count, latency.min_ns, latency.max_ns), (100_000, 1000, 100_000_000));
        assert_eq!(latency.mean_ns, 50_000_500);
    }

    #[test]
    fn merging_is_recording_everything_in_one() {
        let (mut a, mut b, mut all) = (Histogram::new(), Histogram::new(), Histogram::new());
        for ns in [5, 70_000, 3_000_000_000] {
            a.record(ns);
            all.record(ns);
        }
        for ns in [0, 1_000_000, u64::MAX] {
            b.record(ns);
            all.record(ns);
        }
        a.merge(&b);
        assert_eq!(format!("{:?}", a.summary()), format!("{:?}", all.summary()));
        assert_eq!(a.summary().unwrap().max_ns, u64::MAX);
    }
}
