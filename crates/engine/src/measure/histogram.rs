//! A latency distribution that can be recorded in the hot loop.

use crate::record::{Counted, Latency};

/// The longest latency told apart: one hour. Longer ones count as one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies from 1 ns to 1 h at three significant digits; recording neither allocates nor searches.
/// One histogram holds about 260 KiB, of which a workload touches a few lines.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Option<hdrhistogram::Histogram<u64>>,
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
        Self { counts: Some(room()), ..Self::rare() }
    }

    /// An empty histogram of what may never happen: its memory is made with the first latency.
    pub const fn rare() -> Self {
        Self { counts: None, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Counts one latency in nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts.get_or_insert_with(room).saturating_record(ns);
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds another worker's latencies.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.counts, &other.counts) {
            (Some(counts), Some(more)) => counts.add(more).expect("all histograms have the same bounds"),
            (none, Some(more)) => *none = Some(more.clone()),
            (_, None) => {}
        }
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// As it was counted: what several processes counted can be added up.
    pub fn counted(&self) -> Counted {
        let steps = self.counts.iter().flat_map(|counts| counts.iter_recorded());
        let (values, counts) = steps.map(|step| (step.value_iterated_to(), step.count_at_value())).unzip();
        Counted {
            values,
            counts,
            sum_ns: u64::try_from(self.sum_ns).unwrap_or(u64::MAX),
            min_ns: self.min_ns,
            max_ns: self.max_ns,
        }
    }

    /// The distribution; `None` when nothing was recorded.
    pub fn summary(&self) -> Option<Latency> {
        let counts = self.counts.as_ref().filter(|counts| !counts.is_empty())?;
        let count = counts.len();
        let [p50_ns, p90_ns, p99_ns, p99_9_ns, p99_99_ns] = self.quantiles(counts, [0.5, 0.9, 0.99, 0.999, 0.9999]);
        Some(Latency {
            count,
            min_ns: self.min_ns,
            mean_ns: (self.sum_ns / u128::from(count)) as u64,
            p50_ns,
            p90_ns,
            p99_ns,
            p99_9_ns,
            p99_99_ns,
            max_ns: self.max_ns,
        })
    }
}

impl Histogram {
    /// Values that such shares of all, in rising order, do not exceed; found on one way through the counts.
    fn quantiles<const N: usize>(&self, counts: &hdrhistogram::Histogram<u64>, shares: [f64; N]) -> [u64; N] {
        let (mut steps, mut below, mut value) = (counts.iter_recorded(), 0, 0);
        shares.map(|share| {
            let rank = ((share * counts.len() as f64).ceil() as u64).max(1);
            while below < rank
                && let Some(step) = steps.next()
            {
                below += step.count_since_last_iteration();
                value = step.value_iterated_to();
            }
            // A bucket's upper edge may lie beyond the largest value seen.
            value.clamp(self.min_ns, self.max_ns)
        })
    }
}

fn room() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds are valid")
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
    fn what_was_counted_has_the_same_quantiles() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|n| histogram.record(n * n * 1000));
        let counted = histogram.counted();
        assert_eq!(counted.counts.iter().sum::<u64>(), 1000);
        assert!(counted.values.is_sorted() && counted.values.len() == counted.counts.len());
        let mut seen = 0;
        let half = counted.values.iter().zip(&counted.counts).find(|(_, count)| {
            seen += **count;
            seen >= 500
        });
        assert_eq!(*half.unwrap().0, histogram.summary().unwrap().p50_ns);
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
        let mut rare = Histogram::rare();
        rare.merge(&Histogram::rare());
        assert!(rare.summary().is_none() && rare.counted().values.is_empty());
        rare.merge(&a);
        rare.merge(&Histogram::rare());
        assert_eq!(
            format!("{:?} {:?}", rare.summary(), rare.counted()),
            format!("{:?} {:?}", a.summary(), a.counted())
        );
        let mut rare = Histogram::rare();
        rare.record(5);
        assert_eq!(rare.summary().unwrap().count, 1);
    }
}
