//! Which block comes next.

use std::ops::Range;

use super::options::{BlockOptions, Direction, Order};
use savemark_base::io::Operation;

/// A block of one of a worker's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockAddress {
    /// Index among the worker's files.
    pub file: u32,
    /// In transfers from the start of the file.
    pub block: u64,
}

/// The blocks of one worker, in the order in which they are visited.
pub struct Pattern {
    left: u64,
    walk: Walk,
}

enum Walk {
    /// From front to back, or with gaps.
    Steps(Steps),
    /// Anywhere.
    Random(Random),
    /// IOR's.
    Segments(Segments),
    /// Told one by one.
    Listed(std::vec::IntoIter<BlockAddress>),
}

impl Pattern {
    /// Over the blocks `range` of each of `files`, as the options say.
    pub fn new(options: &BlockOptions, order: Order, files: u32, range: Range<u64>, seed: u64, worker: usize) -> Self {
        let once = if options.duration.is_some() { u64::MAX } else { (range.end - range.start) * u64::from(files) };
        let left = options.operations.unwrap_or(once);
        let walk = match order {
            Order::Random => Walk::Random(Random { draws: Draws::new(seed, worker), files, range }),
            Order::Sequential => Walk::Steps(Steps::new(files, range, 1)),
            Order::Strided(step) => Walk::Steps(Steps::new(files, range, step)),
        };
        Self { left, walk }
    }

    /// All blocks of the files once, from front to back.
    pub fn all(files: u32, range: Range<u64>) -> Self {
        Self { left: (range.end - range.start) * u64::from(files), walk: Walk::Steps(Steps::new(files, range, 1)) }
    }

    /// These.
    pub fn listed(places: Vec<BlockAddress>) -> Self {
        Self { left: places.len() as u64, walk: Walk::Listed(places.into_iter()) }
    }

    /// The first `count` of IOR's.
    pub fn segments(segments: Segments, count: u64) -> Self {
        Self { left: count, walk: Walk::Segments(segments) }
    }

    /// Blocks that are still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// At most `count` more are to come.
    pub fn limit(&mut self, count: u64) {
        self.left = self.left.min(count);
    }

    /// The next block.
    #[inline]
    pub fn next(&mut self) -> Option<BlockAddress> {
        self.left = self.left.checked_sub(1)?;
        Some(match &mut self.walk {
            Walk::Steps(steps) => steps.next(),
            Walk::Random(random) => random.next(),
            Walk::Segments(segments) => segments.next(),
            Walk::Listed(places) => return places.next(),
        })
    }
}

/// File after file; each in passes of every `step`th block, the next pass one block further. Round and round.
pub struct Steps {
    files: u32,
    range: Range<u64>,
    step: u64,
    /// Where the pass began.
    first: u64,
    next: BlockAddress,
}

impl Steps {
    fn new(files: u32, range: Range<u64>, step: u64) -> Self {
        let step = step.min(range.end - range.start);
        Self { files, first: range.start, next: BlockAddress { file: 0, block: range.start }, range, step }
    }

    #[inline]
    fn next(&mut self) -> BlockAddress {
        let place = self.next;
        self.next.block += self.step;
        if self.next.block >= self.range.end {
            self.turn();
        }
        place
    }

    /// The next pass, or the next file.
    fn turn(&mut self) {
        self.first += 1;
        if self.first == self.range.start + self.step {
            self.first = self.range.start;
            self.next.file = (self.next.file + 1) % self.files;
        }
        self.next.block = self.first;
    }
}

/// Uniform over all blocks of all files.
pub struct Random {
    draws: Draws,
    files: u32,
    range: Range<u64>,
}

impl Random {
    #[inline]
    fn next(&mut self) -> BlockAddress {
        let len = self.range.end - self.range.start;
        if self.files == 1 {
            return BlockAddress { file: 0, block: self.range.start + self.draws.below(len) };
        }
        let any = self.draws.below(len * u64::from(self.files));
        BlockAddress { file: (any / len) as u32, block: self.range.start + any % len }
    }
}

/// IOR's geometry: in each segment a block of `per_block` transfers of each of `members` workers, in their order.
#[derive(Clone)]
pub struct Segments {
    /// Transfers in a block.
    pub per_block: u64,
    /// Blocks in a segment: the workers that share the file.
    pub members: u64,
    /// Whose blocks.
    pub owner: u64,
    /// All transfers of the owner, in another order than from front to back.
    pub shuffle: Option<Permutation>,
    /// Those visited.
    pub index: u64,
}

impl Segments {
    fn next(&mut self) -> BlockAddress {
        let index = self.shuffle.as_ref().map_or(self.index, |shuffle| shuffle.at(self.index));
        self.index += 1;
        let (segment, transfer) = (index / self.per_block, index % self.per_block);
        BlockAddress { file: 0, block: (segment * self.members + self.owner) * self.per_block + transfer }
    }
}

/// The numbers below `len` in another order, without keeping them: a Feistel network on the next power of four, walked until
/// it is back below `len` (Black and Rogaway 2002).
#[derive(Clone)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    key: u64,
}

impl Permutation {
    /// Another order for each key.
    pub fn new(len: u64, key: u64) -> Self {
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        Self { len, half_bits: bits.div_ceil(2).max(1), key }
    }

    fn at(&self, index: u64) -> u64 {
        let mut at = self.round_trip(index);
        while at >= self.len {
            at = self.round_trip(at);
        }
        at
    }

    fn round_trip(&self, index: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (index >> self.half_bits, index & mask);
        for round in 0..4 {
            let mixed = (right ^ self.key.rotate_left(16 * round)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ mixed >> 32 & mask);
        }
        left << self.half_bits | right
    }
}

/// What is done to the next block.
pub enum Choice {
    /// Always the same.
    One(Operation),
    /// Reads, so many of a hundred, and writes.
    Mix(u32, Draws),
}

impl Choice {
    /// As the options say, another sequence for each worker.
    pub fn new(direction: Direction, seed: u64, worker: usize) -> Self {
        match direction {
            Direction::Read => Self::One(Operation::Read),
            Direction::Write => Self::One(Operation::Write),
            // Not the sequence that chooses the blocks.
            Direction::Mix(percent) => Self::Mix(percent, Draws::new(!seed, worker)),
        }
    }

    #[inline]
    pub fn next(&mut self) -> Operation {
        match self {
            Self::One(operation) => *operation,
            Self::Mix(percent, draws) => match draws.below(100) < u64::from(*percent) {
                true => Operation::Read,
                false => Operation::Write,
            },
        }
    }
}

/// xorshift64* (Vigna 2016): two multiplications are less than what an I/O's bookkeeping costs.
pub struct Draws {
    state: u64,
}

impl Draws {
    /// Another sequence for each worker.
    pub fn new(seed: u64, worker: usize) -> Self {
        Self { state: (seed ^ (worker as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1 }
    }

    /// Uniform below `bound`, by multiplication (Lemire 2019).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(random) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn offsets_are_uniform_and_differ_between_workers() {
        let draw = |worker| {
            let mut draws = Draws::new(7, worker);
            (0..10_000).map(|_| draws.below(10)).collect::<Vec<_>>()
        };
        let first = draw(0);
        assert_ne!(first, draw(1));
        for block in 0..10 {
            let count = first.iter().filter(|b| **b == block).count();
            assert!((850..1150).contains(&count), "block {block}: {count} of 10000");
        }
    }

    #[test]
    fn steps_visit_every_block_once_and_then_again() {
        for (files, range, step) in [(1, 0..10, 1), (3, 5..12, 1), (1, 0..10, 3), (2, 4..11, 4), (2, 0..3, 9)] {
            let len = (range.end - range.start) * u64::from(files);
            let mut steps = Steps::new(files, range.clone(), step);
            let mut round = || (0..len).map(|_| steps.next()).collect::<Vec<_>>();
            let (first, second) = (round(), round());
            assert_eq!(first, second);
            assert!(first.iter().all(|p| p.file < files && range.contains(&p.block)), "{first:?}");
            assert_eq!(first.iter().collect::<HashSet<_>>().len() as u64, len, "{first:?}");
            if step < range.end - range.start {
                assert_eq!(first[1].block, first[0].block + step);
            }
        }
    }

    #[test]
    fn segments_of_all_workers_cover_the_file_once() {
        for shuffled in [false, true] {
            let mut seen = Vec::new();
            for owner in 0..3 {
                let shuffle = shuffled.then(|| Permutation::new(8, 5 + owner));
                let segments = Segments { per_block: 4, members: 3, owner, shuffle, index: 0 };
                let mut pattern = Pattern::segments(segments, 8);
                let mine: Vec<_> = std::iter::from_fn(|| pattern.next().map(|place| place.block)).collect();
                assert!(mine.iter().all(|block| block / 4 % 3 == owner), "{mine:?}");
                assert_eq!(mine.is_sorted(), !shuffled, "{mine:?}");
                seen.extend(mine);
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..24).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_permutation_is_one() {
        for len in [1, 2, 3, 5, 64, 1000, 4097] {
            let permutation = Permutation::new(len, 99);
            let seen: HashSet<u64> = (0..len).map(|i| permutation.at(i)).collect();
            assert!(seen.len() as u64 == len && seen.iter().all(|at| *at < len), "{len}");
        }
    }
}
