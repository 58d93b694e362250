//! Several processes that run one trial together: which of them this one is, and what is whose.
//!
//! How they meet is not the engine's business: whoever starts it lends [`crate::control::Control`] a function for that.

pub mod node_barrier;
mod shared;

use std::ops::Range;

use serde::Deserialize;

pub use shared::Address;

/// What the name of the meeting right before a phase begins with; the phase's follows.
pub const START: &str = "the start of ";

/// Which of the processes of a trial this one is. They count through from 0, those of a node one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Placement {
    /// This one.
    pub rank: usize,
    /// All of them.
    pub ranks: usize,
    /// The first one on the same node.
    pub first_here: usize,
    /// Nodes that they are on.
    pub nodes: usize,
    /// The most on any node.
    pub per_node: usize,
}

impl Default for Placement {
    /// Alone.
    fn default() -> Self {
        Self { rank: 0, ranks: 1, first_here: 0, nodes: 1, per_node: 1 }
    }
}

impl Placement {
    /// Whether there is no other.
    pub fn is_alone(&self) -> bool {
        self.ranks == 1
    }

    /// Whether it makes what all share.
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Whether it does what is done once on each node.
    pub fn leads_node(&self) -> bool {
        self.rank == self.first_here
    }

    /// The numbers of its workers, of which each rank has `each`, among all.
    pub fn workers(&self, each: u32) -> Range<usize> {
        self.rank * each as usize..(self.rank + 1) * each as usize
    }

    /// The workers of all ranks.
    pub fn all(&self, each: u32) -> usize {
        self.ranks * each as usize
    }

    /// Its part of `whole`; the parts of all ranks add up to it.
    pub fn share(&self, whole: u64) -> u64 {
        let until = |rank: usize| (u128::from(whole) * rank as u128 / self.ranks as u128) as u64;
        until(self.rank + 1) - until(self.rank)
    }

    /// How many workers further the one is whose data none on this node wrote; on a single node, that it did not write itself.
    /// Another one at each of some `times`, as long as there are others.
    pub fn further(&self, each: u32, times: usize) -> usize {
        let each = each as usize;
        let (step, others) = if self.nodes > 1 { (self.per_node * each, self.nodes) } else { (1, self.ranks * each) };
        match (times, others - 1) {
            (0, _) | (_, 0) => 0,
            (times, others) => (1 + (times - 1) % others) * step,
        }
    }

    /// A seed of its own: what two ranks save is not the same. The first one's is the trial's.
    pub fn seed(&self, seed: u64) -> u64 {
        seed ^ (self.rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// What several ranks can do with a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It runs in one process.
    Alone,
    /// Each has its own part, in a folder of its own below the target.
    Apart,
    /// They work on the same files, as if all their workers were in one process.
    Together,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_all_ranks_are_the_whole() {
        for (whole, ranks) in [(10, 3), (0, 2), (u64::MAX, 7), (5, 8)] {
            let share = |rank| Placement { rank, ranks, ..Default::default() }.share(whole);
            assert_eq!((0..ranks).map(share).sum::<u64>(), whole);
        }
    }

    #[test]
    fn data_of_another_node_is_one_node_further() {
        let on = |nodes, per_node| Placement { ranks: nodes * per_node, nodes, per_node, ..Default::default() };
        let once = |nodes, per_node, each| on(nodes, per_node).further(each, 1);
        assert_eq!((once(1, 1, 1), once(1, 1, 2), once(1, 4, 3), once(2, 4, 3)), (0, 1, 1, 12));
        let times = |nodes, per_node| [0, 1, 2, 3].map(|times| on(nodes, per_node).further(3, times));
        assert_eq!(times(4, 2), [0, 6, 12, 18]);
        assert_eq!(times(2, 2), [0, 6, 6, 6], "twice would be this node again");
        assert_eq!(times(1, 1), [0, 1, 2, 1], "thrice would be its own");
    }
}
