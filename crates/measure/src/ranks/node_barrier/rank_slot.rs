//! What a rank tells the others at a barrier, in memory that all ranks of a node share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Whether to meet apart, the place, how many numbers, and these.
pub struct RankSlot<'a>(pub &'a [AtomicU64]);

const APART: usize = 0;
const PLACE: usize = 1;
const COUNT: usize = 2;
/// Words before the numbers.
pub const HEAD: usize = 8;

impl RankSlot<'_> {
    /// Writes it; more numbers than there is room for go by messages.
    pub fn write(&self, place: &str, numbers: &[u64], apart: bool) {
        let fits = numbers.len() <= self.0.len() - HEAD;
        let mut hash = DefaultHasher::new();
        place.hash(&mut hash);
        self.0[APART].store(u64::from(apart || !fits), Relaxed);
        self.0[PLACE].store(hash.finish(), Relaxed);
        self.0[COUNT].store(if fits { numbers.len() as u64 } else { 0 }, Relaxed);
        for (word, number) in self.0[HEAD..].iter().zip(numbers) {
            word.store(*number, Relaxed);
        }
    }

    /// Whether to meet apart.
    pub fn apart(&self) -> bool {
        self.0[APART].load(Relaxed) != 0
    }

    /// The place, as a number that no other has.
    pub fn place(&self) -> u64 {
        self.0[PLACE].load(Relaxed)
    }

    /// The numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let count = self.0[COUNT].load(Relaxed) as usize;
        self.0[HEAD..].iter().take(count).map(|word| word.load(Relaxed))
    }
}
