//! Where the power may fail: a place in the log, and what of the device's cache has reached the medium by then.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::image::{Image, each_block};
use crate::log::{Entry, Mark};
use crate::random::Random;
use crate::verdict::SETTLED;

/// One moment of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Entries of the log that had happened.
    pub at: usize,
    /// Of them, those up to the last flush, all of which are on the medium.
    pub flushed: usize,
    /// What else is on the medium: an entry, and the range of its bytes. Whatever the order in which a cache writes its content
    /// out, a failure leaves a part of it: to reorder and to drop is the same here.
    pub kept: Vec<(usize, std::ops::Range<usize>)>,
    /// The last save that had begun, and the last one that had returned.
    pub begun: u64,
    /// See [`Self::begun`].
    pub returned: u64,
}

impl Point {
    /// Whether no save was under way.
    pub fn at_rest(&self) -> bool {
        self.begun == self.returned
    }

    /// Puts what was not flushed, and yet is there, on top of `image`.
    pub fn apply(&self, log: &[Entry], image: &mut Image) {
        for (index, range) in &self.kept {
            if let Entry::Write { offset, data } = &log[*index] {
                image.write(offset + range.start as u64, &data[range.clone()]);
            }
        }
    }
}

/// Puts the writes of `entries` on `image`.
pub fn apply(entries: &[Entry], image: &mut Image) {
    for entry in entries {
        if let Entry::Write { offset, data } = entry {
            image.write(*offset, data);
        }
    }
}

/// Chooses up to `count` points that differ, by place: after every flush first, with all that was not flushed dropped; then at
/// random places with a random part of it kept. Half of the latter are where no save was under way, if there are so many.
///
/// Points lie between [`SETTLED`] and [`Mark::End`].
pub fn choose(log: &[Entry], count: usize, random: &mut Random) -> Vec<Point> {
    let moments = moments(log);
    let (mut seen, mut points) = (HashSet::new(), Vec::new());
    let mut boundaries: Vec<&Point> = moments.iter().filter(|moment| moment.at == moment.flushed).collect();
    // Half at most: what was not flushed is where the trouble is.
    while boundaries.len() > count.div_ceil(2) {
        boundaries.swap_remove(random.below(boundaries.len()));
    }
    for point in boundaries {
        seen.insert(digest(point));
        points.push(point.clone());
    }
    let (at_rest, in_save): (Vec<&Point>, Vec<&Point>) = moments.iter().partition(|moment| moment.at_rest());
    // Not for ever: few of the places may have anything to choose from.
    for turn in 0..count * 50 {
        if points.len() >= count {
            break;
        }
        let from = if turn % 2 == 0 { &at_rest } else { &in_save };
        if from.is_empty() {
            continue;
        }
        let mut point = from[random.below(from.len())].clone();
        point.kept = kept(log, point.flushed..point.at, random);
        if seen.insert(digest(&point)) {
            points.push(point);
        }
    }
    points.sort_by_key(|point| point.at);
    points
}

/// Chooses up to `count` points of a disk that says that it has flushed, and is up to `lag` entries behind, in their order.
pub fn lagging(log: &[Entry], count: usize, lag: usize, random: &mut Random) -> Vec<Point> {
    let mut moments = moments(log);
    while moments.len() > count {
        moments.swap_remove(random.below(moments.len()));
    }
    moments.iter_mut().for_each(|point| point.flushed = point.at - random.below(lag.min(point.at) + 1));
    moments.sort_by_key(|point| point.at);
    moments
}

fn digest(point: &Point) -> u64 {
    let mut hasher = DefaultHasher::new();
    (point.flushed, &point.kept, point.begun, point.returned).hash(&mut hasher);
    hasher.finish()
}

/// The moment after each entry, nothing kept.
fn moments(log: &[Entry]) -> Vec<Point> {
    let (mut begun, mut returned, mut flushed) = (0, 0, 0);
    let mut moments = Vec::new();
    for (index, entry) in log.iter().enumerate() {
        match entry {
            Entry::Flush => flushed = index + 1,
            Entry::Mark(Mark::Begins(generation)) => begun = *generation,
            Entry::Mark(Mark::Returned(generation)) => returned = *generation,
            Entry::Mark(Mark::End) => break,
            Entry::Write { .. } => {}
        }
        if returned >= SETTLED {
            moments.push(Point { at: index + 1, flushed, kept: Vec::new(), begun, returned });
        }
    }
    moments
}

/// A random part of the writes of `range`: all, or each with its own luck, or torn where a block of the disk ends.
fn kept(log: &[Entry], range: std::ops::Range<usize>, random: &mut Random) -> Vec<(usize, std::ops::Range<usize>)> {
    let chance = [25, 50, 75, 100][random.below(4)];
    let tears = random.below(2) == 0;
    let mut kept = Vec::new();
    for index in range {
        let Entry::Write { offset, data } = &log[index] else { continue };
        if random.below(100) >= chance && !tears {
            continue;
        }
        if tears {
            // Of each block its own luck: neighbours that stay become one range again.
            each_block(*offset, data.len(), |_, _, part| {
                if random.below(100) < chance {
                    join(&mut kept, index, part);
                }
            });
        } else {
            kept.push((index, 0..data.len()));
        }
    }
    kept
}

fn join(kept: &mut Vec<(usize, std::ops::Range<usize>)>, index: usize, part: std::ops::Range<usize>) {
    match kept.last_mut() {
        Some((last, range)) if *last == index && range.end == part.start => range.end = part.end,
        _ => kept.push((index, part)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::BLOCK;

    fn write(block: u64, byte: u8, blocks: usize) -> Entry {
        Entry::Write { offset: block * BLOCK as u64, data: vec![byte; blocks * BLOCK] }
    }

    fn log() -> Vec<Entry> {
        use Mark::{Begins, End, Returned};
        vec![
            Entry::Mark(Begins(2)),
            write(0, 1, 4),
            Entry::Flush,
            Entry::Mark(Returned(2)),
            Entry::Mark(Begins(3)),
            write(0, 2, 4),
            write(4, 2, 1),
            Entry::Flush,
            write(0, 3, 1),
            Entry::Mark(Returned(3)),
            Entry::Mark(End),
            write(9, 9, 9),
        ]
    }

    #[test]
    fn points_lie_where_something_can_be_lost_and_no_two_are_the_same() {
        let log = log();
        let points = choose(&log, 60, &mut Random::new(7));
        assert!(points.len() > 30, "{}", points.len());
        for point in &points {
            assert!(point.returned >= SETTLED && (4..=10).contains(&point.at), "{point:?}");
            assert_eq!(point.at_rest(), point.at == 4 || point.at == 10, "{point:?}");
            assert_eq!(point.flushed, if point.at < 8 { 3 } else { 8 }, "{point:?}");
            assert!(point.kept.iter().all(|(index, _)| (point.flushed..point.at).contains(index)));
        }
        assert!(points.iter().any(|point| point.at == 8 && point.kept.is_empty()), "the boundary of the flush");
        let digests: HashSet<u64> = points.iter().map(digest).collect();
        assert_eq!(digests.len(), points.len());
        assert!(choose(&[], 10, &mut Random::new(7)).is_empty());
    }

    #[test]
    fn unflushed_writes_are_dropped_kept_and_torn_and_flushed_ones_never() {
        let log = log();
        let (mut old, mut new, mut torn) = (0, 0, 0);
        for point in choose(&log, 200, &mut Random::new(1)) {
            let mut image = Image::empty(1 << 20);
            apply(&log[..point.flushed], &mut image);
            point.apply(&log, &mut image);
            let mut data = vec![0; 4 * BLOCK];
            image.fill(0, &mut data);
            let blocks: Vec<u8> = data.chunks(BLOCK).map(|block| block[0]).collect();
            assert!(data.chunks(BLOCK).all(|block| block.iter().all(|byte| *byte == block[0])), "a block is whole");
            match (point.flushed, &blocks[..]) {
                (3, [1, 1, 1, 1]) => old += 1,
                (3, [2, 2, 2, 2]) => new += 1,
                (3, _) => torn += 1,
                (_, [2 | 3, 2, 2, 2]) => {}
                other => panic!("what was flushed is gone: {other:?}"),
            }
        }
        assert!(old > 0 && new > 0 && torn > 0, "{old} {new} {torn}");
    }
}
