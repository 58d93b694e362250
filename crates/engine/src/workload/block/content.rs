//! Blocks that say where and when they were written, and can be checked without being kept.
//!
//! Each 4096 bytes hold the trial's kind of data, made from the seed, the owner, the file, the offset and the generation, and
//! start with those in plain: what is found in their place can be named.

use std::fmt;

use crate::common::Common;
use savemark_base::buffer::ALIGN;
use savemark_base::payload::marks::Marks;
use savemark_base::payload::{self, PayloadKind};

/// Bytes of the head of each unit.
const HEAD: usize = 32;
const MAGIC: &[u8; 8] = b"svmkblk1";

/// What makes one write different from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The worker whose block it is; 0 where nobody asks.
    pub owner: u32,
    /// The file.
    pub file: u32,
    /// Offset of the unit in the file.
    pub offset: u64,
    /// How often the block had been written before.
    pub generation: u32,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, file, offset, generation } = self;
        write!(f, "offset {offset} of file {file}, generation {generation}, worker {owner}")
    }
}

/// The trial's data.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    kind: PayloadKind,
    seed: u64,
}

impl Content {
    /// As the trial says.
    pub fn new(common: &Common) -> Self {
        Self { kind: common.payload, seed: common.seed }
    }

    /// Fills a block whose first unit is `stamp`.
    pub fn fill(&self, stamp: Stamp, block: &mut [u8]) {
        // Generations and files of one seed share nothing.
        let salt = u64::from(stamp.generation) << 40 ^ u64::from(stamp.file) << 16 ^ u64::from(stamp.owner);
        let seed = self.seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        payload::fill(self.kind, seed, stamp.offset, block);
        self.mark(stamp, block);
    }

    /// What is the same in all blocks of [`Content::mark`]: bytes of the trial's kind.
    pub fn ground(&self, block: &mut [u8]) {
        payload::fill(self.kind, self.seed, 0, block);
    }

    /// Writes the heads alone, over what is there: of [`Content::ground`] it makes blocks that differ in each unit, for the
    /// price of a few bytes.
    pub fn mark(&self, stamp: Stamp, block: &mut [u8]) {
        for (index, unit) in block.chunks_exact_mut(ALIGN).enumerate() {
            let offset = stamp.offset + (index * ALIGN) as u64;
            unit[..HEAD].copy_from_slice(&self.head(Stamp { offset, ..stamp }));
        }
    }

    /// What is wrong with a block that should be `expected`, as it was made from the same stamp.
    pub fn difference(&self, stamp: Stamp, found: &[u8], expected: &[u8]) -> Option<Difference> {
        let first = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
        let unit = first / ALIGN * ALIGN;
        let expected = Stamp { offset: stamp.offset + unit as u64, ..stamp };
        let head = self.read(&found[unit..unit + HEAD]);
        let at = stamp.offset + first as u64;
        Some(match head {
            Some(found) if found != expected => Difference { at: expected.offset, expected, found: Some(found) },
            _ => Difference { at, expected, found: None },
        })
    }

    fn head(&self, stamp: Stamp) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        // Another run's blocks on the same disk are not ours.
        let seed = self.seed as u32;
        for (place, word) in [stamp.owner, stamp.file, stamp.generation, seed].into_iter().enumerate() {
            head[8 + 4 * place..12 + 4 * place].copy_from_slice(&word.to_le_bytes());
        }
        head[24..].copy_from_slice(&stamp.offset.to_le_bytes());
        head
    }

    fn read(&self, head: &[u8]) -> Option<Stamp> {
        let word = |place: usize| u32::from_le_bytes(head[place..place + 4].try_into().expect("four bytes"));
        let offset = u64::from_le_bytes(head[24..32].try_into().expect("eight bytes"));
        let ours = head.starts_with(MAGIC) && word(20) == self.seed as u32;
        ours.then(|| Stamp { owner: word(8), file: word(12), generation: word(16), offset })
    }
}

/// What was found in the place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Offset in the file of the first byte that is wrong.
    pub at: u64,
    /// What should be there.
    pub expected: Stamp,
    /// Another block of this trial, whole or not; `None` if the bytes are just wrong.
    pub found: Option<Stamp>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, expected, found } = self;
        match found {
            Some(found) if Stamp { generation: expected.generation, ..*found } == *expected => {
                write!(f, "offset {at} holds a stale block: expected {expected}, found generation {}", found.generation)
            }
            Some(found) => write!(f, "offset {at} holds another block: expected {expected}, found {found}"),
            None => write!(f, "the byte at offset {at} is not what was written (expected {expected})"),
        }
    }
}

/// Makes blocks unique, but for so many of a hundred, which repeat.
pub struct Dedup {
    percent: u32,
    draws: super::pattern::Draws,
    marks: Marks,
}

impl Dedup {
    /// Of one worker in one phase.
    pub fn new(percent: u32, seed: u64, worker: usize) -> Self {
        let draws = super::pattern::Draws::new(seed.rotate_left(32), worker);
        Self { percent, draws, marks: Marks::new() }
    }

    /// Marks each unit of a buffer as unique, or as what the buffer always holds when it repeats.
    #[inline]
    pub fn mark(&mut self, block: &mut [u8]) {
        if self.percent > 0 && self.draws.below(100) < u64::from(self.percent) {
            return block.as_chunks_mut::<ALIGN>().0.iter_mut().for_each(|unit| unit[..8].fill(0));
        }
        self.marks.set(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_wrong_block_is_told_apart() {
        for kind in PayloadKind::ALL {
            let content = Content { kind, seed: 7 };
            let stamp = Stamp { owner: 1, file: 2, offset: 3 * 8192, generation: 4 };
            let (mut good, mut expected) = (vec![0; 8192], vec![0; 8192]);
            content.fill(stamp, &mut good);
            content.fill(stamp, &mut expected);
            assert_eq!(content.difference(stamp, &good, &expected), None);
            let found = |block: &[u8]| content.difference(stamp, block, &expected).unwrap();
            let mut flipped = good.clone();
            flipped[5000] ^= 1;
            assert!(found(&flipped).to_string().contains(&format!("byte at offset {} ", 3 * 8192 + 5000)));
            let mut other = vec![0; 8192];
            content.fill(Stamp { generation: 3, ..stamp }, &mut other);
            assert!(
                found(&other).to_string().contains("stale") && found(&other).to_string().contains("found generation 3")
            );
            content.fill(Stamp { offset: 0, ..stamp }, &mut other);
            assert!(found(&other).to_string().contains("found offset 0 of file 2, generation 4, worker 1"));
            // Half of a block is old: a torn write.
            let mut torn = good.clone();
            content.fill(Stamp { generation: 3, ..stamp }, &mut other);
            torn[4096..].copy_from_slice(&other[4096..]);
            assert_eq!(found(&torn).at, 3 * 8192 + 4096);
            assert!(found(&[0; 8192]).found.is_none());
        }
    }

    #[test]
    fn so_many_blocks_repeat() {
        for (percent, low, high) in [(0, 0, 0), (30, 250, 350), (100, 999, 999)] {
            let mut dedup = Dedup::new(percent, 1, 0);
            let mut block = vec![5; 4096];
            let mut seen = std::collections::HashSet::new();
            let repeated = (0..1000).filter(|_| {
                dedup.mark(&mut block);
                !seen.insert(block.clone())
            });
            let repeated = repeated.count();
            assert!((low..=high).contains(&repeated), "{percent}: {repeated}");
        }
    }
}
