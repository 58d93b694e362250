//! Marks that make blocks unique which are alike in all other bytes, for the price of eight of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::BLOCK;
use crate::clock;

/// Odd, so that no two numbers become one: marks look as random as the data around them.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Marks that one owner may set: of 4 PiB.
const SHARE: u64 = 1 << 40;

/// Marks that nobody else in this process sets, and, for all that chance can do, nobody in another: a storage that removes
/// duplicates must not know blocks from the trial before, either.
#[derive(Debug)]
pub struct Marks {
    next: u64,
}

impl Marks {
    /// The next 2^40 of them.
    #[allow(clippy::new_without_default)] // no two are equal
    pub fn new() -> Self {
        static FIRST: OnceLock<u64> = OnceLock::new();
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        let own = || (clock::unix_now() ^ u64::from(std::process::id()).rotate_right(22)).wrapping_mul(SCATTER);
        Self { next: FIRST.get_or_init(own).wrapping_add(TAKEN.fetch_add(SHARE, Ordering::Relaxed)) }
    }

    /// Writes one into the first eight bytes of each whole [`BLOCK`].
    #[inline]
    pub fn set(&mut self, bytes: &mut [u8]) {
        for block in bytes.as_chunks_mut::<BLOCK>().0 {
            self.next = self.next.wrapping_add(1);
            block[..8].copy_from_slice(&self.next.wrapping_mul(SCATTER).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_blocks_are_alike() {
        let mut seen = HashSet::new();
        for mut marks in [Marks::new(), Marks::new()] {
            for _ in 0..100 {
                let mut bytes = vec![7; 3 * BLOCK + 100];
                marks.set(&mut bytes);
                assert!(bytes.as_chunks::<BLOCK>().0.iter().all(|block| seen.insert(*block)));
                assert!(bytes[3 * BLOCK..].iter().all(|&byte| byte == 7), "no whole block");
            }
        }
    }
}
