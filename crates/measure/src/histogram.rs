//! A latency distribution that can be recorded in the hot loop.

use std::ops::RangeInclusive;
use std::sync::Mutex;

use savemark_base::record::{Counted, Latency};

/// The longest latency told apart: one hour. Longer ones count as one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Buckets in each doubling of the latency: three significant digits. Below twice as many each value has its own.
const STEPS: usize = 1 << STEP_BITS;
const STEP_BITS: u32 = 10;
/// All buckets.
const LEN: usize = bucket(LONGEST_NS) + 1;

/// Latencies from 1 ns to 1 h at three significant digits; recording neither allocates nor searches.
///
/// The buckets are HdrHistogram's; its own crate makes and clears all of the 260 KiB for each histogram, which takes longer than
/// a short phase. Here they are used again, and what is cleared and searched is what lies between the least and the greatest.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Option<Box<[u64]>>,
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
        let mut empty = Self::rare();
        empty.buckets = Some(room());
        empty
    }

    /// An empty histogram of what may never happen: its memory is taken with the first latency.
    pub const fn rare() -> Self {
        Self { buckets: None, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Counts one latency in nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.buckets.get_or_insert_with(room)[bucket(ns.min(LONGEST_NS))] += 1;
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds another worker's latencies.
    pub fn merge(&mut self, other: &Self) {
        let Some((theirs, touched)) = other.touched() else { return };
        let mine = self.buckets.get_or_insert_with(room);
        for (mine, more) in mine[touched.clone()].iter_mut().zip(&theirs[touched]) {
            *mine += more;
        }
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// As it was counted: what several processes counted can be added up.
    pub fn counted(&self) -> Counted {
        let (values, counts) = self.steps().unzip();
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
        let count: u64 = self.steps().map(|(_, count)| count).sum();
        if count == 0 {
            return None;
        }
        let [p50_ns, p90_ns, p99_ns, p99_9_ns, p99_99_ns] = self.quantiles(count, [0.5, 0.9, 0.99, 0.999, 0.9999]);
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

    /// Values that such shares of all `count`, in rising order, do not exceed; found on one way through the buckets.
    fn quantiles<const N: usize>(&self, count: u64, shares: [f64; N]) -> [u64; N] {
        let (mut steps, mut below, mut value) = (self.steps(), 0, 0);
        shares.map(|share| {
            let rank = ((share * count as f64).ceil() as u64).max(1);
            while below < rank
                && let Some((next, more)) = steps.next()
            {
                (below, value) = (below + more, next);
            }
            // A bucket's upper edge may lie beyond the largest value seen.
            value.clamp(self.min_ns, self.max_ns)
        })
    }

    /// The value of each bucket that is not empty, rising, and what it counts.
    fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = self.touched().into_iter().flat_map(|(buckets, touched)| {
            let first = *touched.start();
            buckets[touched].iter().enumerate().map(move |(index, count)| (first + index, *count))
        });
        all.filter(|(_, count)| *count > 0).map(|(index, count)| (highest(index), count))
    }

    /// The buckets, and those of them that can be other than empty; `None` when nothing was recorded.
    fn touched(&self) -> Option<(&[u64], RangeInclusive<usize>)> {
        let range = bucket(self.min_ns.min(LONGEST_NS))..=bucket(self.max_ns.min(LONGEST_NS));
        self.buckets.as_deref().filter(|_| self.min_ns <= self.max_ns).map(|buckets| (buckets, range))
    }
}

impl Drop for Histogram {
    /// Leaves the memory to the next one, empty.
    fn drop(&mut self) {
        let touched = self.touched().map(|(_, touched)| touched);
        let Some(mut buckets) = self.buckets.take() else { return };
        if let Some(touched) = touched {
            buckets[touched].fill(0);
        }
        let mut spare = SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if spare.len() < SPARES {
            spare.push(buckets);
        }
    }
}

/// Memory of histograms that are gone, empty.
static SPARE: Mutex<Vec<Box<[u64]>>> = Mutex::new(Vec::new());
/// As many are kept as the workers of a large trial have: some 16 MiB at most.
const SPARES: usize = 64;

fn room() -> Box<[u64]> {
    let spare = SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
    spare.unwrap_or_else(|| vec![0; LEN].into_boxed_slice())
}

/// The bucket of a latency.
const fn bucket(ns: u64) -> usize {
    // Doublings beyond the values that have a bucket each.
    let doublings = (ns | (2 * STEPS as u64 - 1)).ilog2() - STEP_BITS;
    (doublings as usize) * STEPS + (ns >> doublings) as usize
}

/// The greatest latency in a bucket.
const fn highest(bucket: usize) -> u64 {
    let doublings = (bucket / STEPS).saturating_sub(1);
    (((bucket - doublings * STEPS) as u64 + 1) << doublings) - 1
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

    /// HdrHistogram's own crate lays out the same buckets.
    #[test]
    fn buckets_are_those_of_hdr_histogram() {
        let hdr = || hdrhistogram::Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3).unwrap();
        let edges = (0..42).map(|bit| 1u64 << bit).flat_map(|power| [power - 1, power, power + 1]);
        let draws = (1..5000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (20 + n % 43));
        let (mut ours, mut theirs) = (Histogram::new(), hdr());
        for ns in edges.chain(draws).filter(|ns| *ns <= LONGEST_NS) {
            ours.record(ns);
            theirs.record(ns).unwrap();
            assert_eq!(highest(bucket(ns)), theirs.highest_equivalent(ns), "{ns}");
        }
        let expected: Vec<_> = theirs.iter_recorded().map(|s| (s.value_iterated_to(), s.count_at_value())).collect();
        assert_eq!(ours.steps().collect::<Vec<_>>(), expected);
        for (share, found) in [(0.5, ours.summary().unwrap().p50_ns), (0.99, ours.summary().unwrap().p99_ns)] {
            assert_eq!(found, theirs.value_at_quantile(share));
        }
    }

    #[test]
    fn memory_that_is_used_again_is_empty() {
        for _ in 0..3 {
            let mut used = Histogram::new();
            assert!(used.buckets.as_ref().unwrap().iter().all(|count| *count == 0));
            for ns in [0, 1, 2047, 2048, 1 << 40, u64::MAX] {
                used.record(ns);
            }
            let mut other = Histogram::rare();
            other.merge(&used);
            assert_eq!(other.steps().map(|(_, count)| count).sum::<u64>(), 6);
        }
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
