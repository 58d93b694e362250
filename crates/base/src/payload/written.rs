//! What a worker writes, sampled while it writes: blocks that repeat are seen however far apart they are.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::content::{BLOCK, Tally};
use crate::digest::digest;
use crate::record::Payload;

/// Blocks that are remembered: the number of different ones is then known within 4 %.
const MOST: usize = 1024;
/// Blocks of one write that are looked at; each costs a line of the processor's cache, which is most of what a large write costs.
const OF_A_WRITE: usize = 16;
/// Blocks whose kind of data is looked at, the first ones: those after them are made in the same way.
const LOOKED_AT: u64 = 256;
/// Bytes whose key decides whether a block is in the sample: of a block that was just marked they are in the processor's cache.
const HEAD: usize = 64;

/// A sample of the different blocks that were written: those whose key ends in so many zero bits that no more than `MOST` are
/// known (adaptive sampling: Flajolet, Computing 43, 1990). Which blocks are in it depends on what they hold and not on when they
/// came, so it tells how many different ones there are among all.
#[derive(Debug, Default)]
pub struct Written {
    looked_at: Tally,
    zero: u64,
    all: u64,
    known: HashMap<u64, Known, BuildHasherDefault<AsIs>>,
    /// Ones where a key in the sample has zeros.
    mask: u64,
}

/// A block of the sample, which is known by its digest.
#[derive(Debug)]
struct Known {
    key: u64,
    count: u64,
}

impl Written {
    /// Another write.
    #[inline]
    pub fn add(&mut self, written: &[u8]) {
        let blocks = written.as_chunks::<BLOCK>().0;
        for block in blocks.iter().step_by(blocks.len().div_ceil(OF_A_WRITE).max(1)) {
            self.add_block(block);
        }
    }

    #[inline]
    fn add_block(&mut self, block: &[u8; BLOCK]) {
        if self.all < LOOKED_AT {
            self.looked_at.add(block);
        }
        self.all += 1;
        let key = key(block);
        if key & self.mask == 0 {
            self.count(key, block);
        }
    }

    #[cold]
    fn count(&mut self, key: u64, block: &[u8]) {
        if key == 0 && block.iter().all(|&byte| byte == 0) {
            self.zero += 1;
            return;
        }
        self.known.entry(digest(block)).or_insert(Known { key, count: 0 }).count += 1;
        self.thin_out();
    }

    fn thin_out(&mut self) {
        while self.known.len() > MOST {
            self.narrow(self.mask << 1 | 1);
        }
    }

    /// Leaves only those blocks in the sample whose keys fit `mask`, too.
    fn narrow(&mut self, mask: u64) {
        self.mask |= mask;
        let mask = self.mask;
        self.known.retain(|_, known| known.key & mask == 0);
    }

    /// Adds what another worker has written.
    pub fn merge(&mut self, other: Self) {
        self.zero += other.zero;
        self.all += other.all;
        self.looked_at.merge(other.looked_at);
        self.narrow(other.mask);
        for (digest, Known { key, count }) in other.known {
            if key & self.mask == 0 {
                self.known.entry(digest).or_insert(Known { key, count: 0 }).count += count;
            }
        }
        self.thin_out();
    }

    /// What it was like; `None` if nothing was written.
    pub fn payload(self) -> Option<Payload> {
        let all = self.all.max(1) as f64;
        let (zero_share, repeated_share) = (self.zero as f64 / all, self.repeated() / all);
        let known: u64 = self.known.values().map(|known| known.count).sum();
        let sampled_bytes = (known + self.zero) * BLOCK as u64;
        let kind = self.looked_at.payload();
        (self.all > 0).then_some(Payload { sampled_bytes, zero_share, repeated_share, ..kind })
    }

    /// Blocks, not zero, that were written before.
    fn repeated(&self) -> f64 {
        let different = self.known.len() as f64 * (self.mask + 1) as f64;
        let repeated = ((self.all - self.zero) as f64 - different).max(0.0);
        let seen = self.known.values().any(|known| known.count > 1);
        // Where none was seen, three standard errors of what was counted are no evidence of any.
        let error = if self.mask == 0 { 0.0 } else { 3.0 * different / (self.known.len() as f64).sqrt() };
        if seen || repeated > error { repeated } else { 0.0 }
    }
}

/// Whether a block is in the sample: 0 if it begins with zeros.
#[inline]
fn key(block: &[u8; BLOCK]) -> u64 {
    // Odd numbers without a pattern: the fractions of the square roots of the first primes, as in SHA-512 (FIPS 180-4).
    const FACTORS: [u64; HEAD / 8] = [
        0x6a09_e667_f3bc_c909,
        0xbb67_ae85_84ca_a73b,
        0x3c6e_f372_fe94_f82b,
        0xa54f_f53a_5f1d_36f1,
        0x510e_527f_ade6_82d1,
        0x9b05_688c_2b3e_6c1f,
        0x1f83_d9ab_fb41_bd6b,
        0x5be0_cd19_137e_2179,
    ];
    let words = block[..HEAD].as_chunks::<8>().0.iter().zip(FACTORS);
    let sum = words.fold(0u64, |sum, (word, factor)| sum.wrapping_add(u64::from_le_bytes(*word).wrapping_mul(factor)));
    (sum ^ sum >> 32).wrapping_mul(FACTORS[0]).swap_bytes()
}

/// Digests are mixed already.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("digests are whole numbers");
    }
    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{PayloadKind, fill};

    /// `count` writes of two blocks each, of which `repeats` tells what the data of each is made from.
    fn written(kind: PayloadKind, count: u64, from: impl Fn(u64) -> u64) -> Payload {
        let mut workers = [Written::default(), Written::default()];
        let mut buffer = vec![0; 2 * BLOCK];
        for index in 0..count {
            fill(kind, 7, from(index) * 2 * BLOCK as u64, &mut buffer);
            workers[index as usize % 2].add(&buffer);
        }
        let [mut first, second] = workers;
        first.merge(second);
        first.payload().unwrap()
    }

    #[test]
    fn repetitions_count_however_far_apart_they_are() {
        for (different, share) in [(1, 1.0), (8, 1.0), (6000, 0.5), (12_000, 0.0)] {
            let found = written(PayloadKind::Random, 12_000, |index| index % different);
            assert!((found.repeated_share - share).abs() < 0.08, "{different}: {found:?}");
            assert!(
                found.entropy_bits > 7.9 && found.zero_share == 0.0 && found.sampled_bytes > 256 << 12,
                "{found:?}"
            );
        }
        let some = written(PayloadKind::Text, 20_000, |index| if index % 10 < 3 { index % 5 } else { index });
        assert!((some.repeated_share - 0.3).abs() < 0.08, "few that come often: {some:?}");
    }

    #[test]
    fn zeros_are_no_repetitions() {
        let found = written(PayloadKind::Zeros, 5000, |index| index);
        assert_eq!((found.zero_share, found.repeated_share, found.entropy_bits), (1.0, 0.0, 0.0));
        assert!(Written::default().payload().is_none());
    }
}
