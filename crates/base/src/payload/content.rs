//! What kind of bytes are written, looked at and not taken from a label: zeros and repetitions cost a storage less.

use std::collections::HashSet;

use crate::digest::digest;
use crate::record::Payload;

/// Bytes looked at in one place: a page.
pub const BLOCK: usize = 4096;
/// Places looked at: enough for shares of a percent, and a millisecond of work.
const PLACES: u64 = 256;

/// Looks at up to 1 MiB of `bytes` bytes; `read` fills a block from an offset, and may refuse.
pub fn sample<E>(bytes: u64, mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<Payload, E> {
    let mut tally = Tally::default();
    let blocks = bytes / BLOCK as u64;
    let mut block = [0; BLOCK];
    for place in places(blocks) {
        read(place * BLOCK as u64, &mut block)?;
        tally.add(&block);
    }
    Ok(tally.payload())
}

/// Up to [`PLACES`] different blocks. Scattered, so that data with a period does not meet itself at a stride.
fn places(blocks: u64) -> Vec<u64> {
    if blocks <= PLACES {
        return (0..blocks).collect();
    }
    // Multiples of the golden ratio fill an interval evenly and never in step with anything (Knuth, TAOCP 3, 6.4).
    let at = |i: u64| ((u128::from(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)) * u128::from(blocks)) >> 64) as u64;
    let mut found: Vec<u64> = (0..PLACES).map(at).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Blocks that were looked at.
#[derive(Debug, Default)]
pub struct Tally {
    blocks: u64,
    zero: u64,
    repeated: u64,
    seen: HashSet<u64>,
    counts: Vec<u64>,
}

impl Tally {
    /// Another one.
    pub fn add(&mut self, block: &[u8]) {
        self.counts.resize(256, 0);
        self.blocks += 1;
        for &byte in block {
            self.counts[usize::from(byte)] += 1;
        }
        if block.iter().all(|&byte| byte == 0) {
            self.zero += 1;
        } else if !self.seen.insert(digest(block)) {
            self.repeated += 1;
        }
    }

    /// Adds what somebody else has looked at.
    pub fn merge(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.zero += other.zero;
        let before = self.seen.len() + other.seen.len();
        self.seen.extend(other.seen);
        self.repeated += other.repeated + (before - self.seen.len()) as u64;
        self.counts.resize(256, 0);
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// What they are like.
    pub fn payload(self) -> Payload {
        let total = (self.blocks * BLOCK as u64).max(1) as f64;
        let shares = self.counts.iter().filter(|&&count| count > 0).map(|&count| count as f64 / total);
        let blocks = self.blocks.max(1) as f64;
        Payload {
            sampled_bytes: self.blocks * BLOCK as u64,
            zero_share: self.zero as f64 / blocks,
            repeated_share: self.repeated as f64 / blocks,
            // Shannon's, of single bytes: an upper bound of what a codec without context leaves.
            entropy_bits: shares.map(|share| -share * share.log2()).sum::<f64>().max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{PayloadKind, fill};

    fn of(make: impl Fn(u64, &mut [u8])) -> Payload {
        sample(64 << 20, |offset, block| {
            make(offset, block);
            Ok::<(), ()>(())
        })
        .unwrap()
    }

    #[test]
    fn kinds_of_data_are_told_apart() {
        let kind = |kind| of(|offset, block| fill(kind, 1, offset, block));
        let zeros = kind(PayloadKind::Zeros);
        assert_eq!((zeros.zero_share, zeros.entropy_bits, zeros.repeated_share), (1.0, 0.0, 0.0));
        let random = kind(PayloadKind::Random);
        assert!(random.zero_share == 0.0 && random.entropy_bits > 7.99 && random.repeated_share == 0.0, "{random:?}");
        let weights = kind(PayloadKind::Bf16);
        assert!((5.0..7.9).contains(&weights.entropy_bits) && weights.zero_share == 0.0, "{weights:?}");
        let text = kind(PayloadKind::Text);
        assert!((3.0..5.5).contains(&text.entropy_bits), "{text:?}");
    }

    #[test]
    fn a_megabyte_repeated_is_seen() {
        let repeated = of(|offset, block| fill(PayloadKind::Random, 1, offset % (128 << 10), block));
        assert!(repeated.repeated_share > 0.5, "{repeated:?}");
    }

    #[test]
    fn less_than_a_block_is_nothing_looked_at() {
        let none = sample(100, |_, _| Err(())).unwrap();
        assert_eq!((none.sampled_bytes, none.zero_share), (0, 0.0));
        assert!(sample(1 << 20, |_, _| Err(())).is_err());
        assert_eq!(places(3), [0, 1, 2]);
        let many = places(1 << 40);
        assert!(many.len() > 250 && many.iter().all(|&place| place < 1 << 40));
    }
}
