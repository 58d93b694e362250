//! How a state is cut into chunks.

use std::ops::Range;

use savemark_base::buffer::ALIGN;

/// The user bytes of a chunk: where it starts in the state, a multiple of [`ALIGN`], and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRange {
    /// Where it starts.
    pub offset: u64,
    /// User bytes, at least 1.
    pub len: usize,
}

/// Cuts a state of `bytes` into chunks of at most `most`, a multiple of [`ALIGN`].
///
/// Each of `apart` (in order, disjoint, on page boundaries) is cut by itself: no chunk holds a byte of it and one of its
/// surroundings, so what is special about these ranges is true of whole chunks.
pub fn cut(bytes: u64, most: usize, apart: &[Range<u64>]) -> Vec<ChunkRange> {
    let mut cuts = Vec::with_capacity((bytes / most as u64) as usize + 2 * apart.len() + 1);
    let mut offset = 0;
    let ends = apart.iter().flat_map(|range| [range.start, range.end]).chain([bytes]);
    for end in ends {
        debug_assert!(offset <= end && (end == bytes || end.is_multiple_of(ALIGN as u64)));
        while offset < end {
            let len = (end - offset).min(most as u64) as usize;
            cuts.push(ChunkRange { offset, len });
            offset += len as u64;
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_apart_share_no_chunk_with_what_is_around_them() {
        let lens = |apart: &[Range<u64>]| cut(40_000, 8192, apart).iter().map(|c| c.len).collect::<Vec<_>>();
        assert_eq!(lens(&[]), [8192, 8192, 8192, 8192, 7232]);
        assert_eq!(lens(&[4096..16384, 20480..36864]), [4096, 8192, 4096, 4096, 8192, 8192, 3136]);
        assert_eq!(lens(&[0..36864, 36864..40_000]), [8192, 8192, 8192, 8192, 4096, 3136], "to the very end");
        assert_eq!(lens(&[0..8192, 8192..12288]), [8192, 4096, 8192, 8192, 8192, 3136]);
    }

    proptest! {
        #[test]
        fn chunks_cover_the_state_once(bytes in 1u64..3_000_000, most in 1usize..60, marks in proptest::collection::btree_set(0u64..700, 0..12)) {
            let marks: Vec<u64> = marks.into_iter().map(|page| page * 4096).filter(|at| *at <= bytes).collect();
            let apart: Vec<_> = marks.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
            let mut end = 0;
            for cut in cut(bytes, most * ALIGN, &apart) {
                prop_assert_eq!(cut.offset, end);
                prop_assert!(cut.offset % 4096 == 0 && (1..=most * ALIGN).contains(&cut.len));
                let last = cut.offset + cut.len as u64;
                prop_assert!(apart.iter().all(|r| last <= r.start || cut.offset >= r.end || (cut.offset >= r.start && last <= r.end)));
                end = last;
            }
            prop_assert_eq!(end, bytes);
        }
    }
}
