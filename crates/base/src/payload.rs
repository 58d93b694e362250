//! Data of a stated kind that can be verified without being kept.
//!
//! Each byte depends only on (kind, seed, offset). A block of 4096 bytes is made from splitmix64 (Steele, Lea and
//! Flood 2014) counting from the block's offset, so no two blocks of a seed share a draw, blocks can be made in any
//! order, and the arithmetic is integers and IEEE + and × only: every machine makes the same bytes.

pub mod content;
pub mod marks;
mod normal;
mod text;
pub mod written;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Data is made in blocks of this many bytes.
pub const BLOCK: usize = 4096;

/// What the data looks like, which decides what a codec can make of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PayloadKind {
    /// Nothing but zeros: measures a codec or a storage that cheats.
    Zeros,
    /// English-like words, sentences and lines (zstd level 1: ratio 3).
    Text,
    /// bfloat16 weights, normal with standard deviation 0.02 (zstd level 1: ratio 1.28).
    #[default]
    Bf16,
    /// float32 weights, normal with standard deviation 0.02 (zstd level 1: ratio 1.08).
    Fp32,
    /// Bytes that no codec makes smaller.
    Random,
}

impl PayloadKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Zeros, Self::Text, Self::Bf16, Self::Fp32, Self::Random];

    /// The name as written in a trial.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Text => "text",
            Self::Bf16 => "bf16",
            Self::Fp32 => "fp32",
            Self::Random => "random",
        }
    }
}

impl fmt::Display for PayloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Fills `out` with the bytes from `offset` on; any offset and length.
pub fn fill(kind: PayloadKind, seed: u64, offset: u64, out: &mut [u8]) {
    if kind == PayloadKind::Zeros {
        return out.fill(0);
    }
    let mut scratch = [0; BLOCK];
    for_each_block(offset, out.len(), |block, skip, range| {
        let part = &mut out[range];
        if let Ok(whole) = <&mut [u8; BLOCK]>::try_from(&mut *part) {
            return fill_block(kind, seed, block, whole);
        }
        fill_block(kind, seed, block, &mut scratch);
        part.copy_from_slice(&scratch[skip..skip + part.len()]);
    });
}

/// The absolute offset of the first byte of `data` that is not what [`fill`] writes there.
pub fn verify(kind: PayloadKind, seed: u64, offset: u64, data: &[u8]) -> Option<u64> {
    let mut expected = [0; BLOCK];
    let mut wrong = None;
    for_each_block(offset, data.len(), |block, skip, range| {
        if wrong.is_some() {
            return;
        }
        if kind != PayloadKind::Zeros {
            fill_block(kind, seed, block, &mut expected);
        }
        let (start, part) = (range.start as u64, &data[range]);
        let expected = &expected[skip..skip + part.len()];
        if part != expected {
            let first = part.iter().zip(expected).take_while(|(a, b)| a == b).count();
            wrong = Some(offset + start + first as u64);
        }
    });
    wrong
}

/// Calls `with(block start, bytes of the block to skip, range in the caller's buffer)` for each block touched.
fn for_each_block(offset: u64, len: usize, mut with: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let skip = (at % BLOCK as u64) as usize;
        let end = (done + BLOCK - skip).min(len);
        with(at - skip as u64, skip, done..end);
        done = end;
    }
}

fn fill_block(kind: PayloadKind, seed: u64, block: u64, out: &mut [u8; BLOCK]) {
    // The kind is part of the key: kinds with one seed share nothing.
    let mut draws = Draws::new(mix(seed ^ mix(kind as u64 + 1)), block);
    match kind {
        PayloadKind::Zeros => out.fill(0),
        PayloadKind::Text => text::fill(&mut draws, out),
        PayloadKind::Bf16 => normal::fill_bf16(&mut draws, out),
        PayloadKind::Fp32 => normal::fill_fp32(&mut draws, out),
        PayloadKind::Random => {
            for word in out.as_chunks_mut::<8>().0 {
                *word = draws.next().to_le_bytes();
            }
        }
    }
}

/// splitmix64 from a given position.
struct Draws {
    state: u64,
}

/// splitmix64's increment, 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

impl Draws {
    /// The draws of one block. A block makes at most one draw for each of its bytes, so its byte offset is a
    /// position that no other block reaches.
    fn new(key: u64, block: u64) -> Self {
        Self { state: key.wrapping_add(block.wrapping_mul(GAMMA)) }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }
}

/// splitmix64's output function, a bijection in which every input bit moves every output bit.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(kind: PayloadKind, seed: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0xAA; len];
        fill(kind, seed, 0, &mut out);
        out
    }

    fn ratio(data: &[u8]) -> f64 {
        data.len() as f64 / zstd::bulk::compress(data, 1).unwrap().len() as f64
    }

    #[test]
    fn any_part_equals_the_whole() {
        for kind in PayloadKind::ALL {
            let whole = make(kind, 7, 5 * BLOCK);
            for (start, len) in [(0, 1), (1, 4095), (4095, 2), (4096, 4096), (5000, 9000), (0, 0), (8191, 4097)] {
                let mut part = vec![0xAA; len];
                fill(kind, 7, start as u64, &mut part);
                assert!(part == whole[start..start + len], "{kind} {start}+{len}");
            }
        }
    }

    #[test]
    fn verify_names_the_first_wrong_byte() {
        for kind in PayloadKind::ALL {
            let mut data = vec![0; 3 * BLOCK];
            fill(kind, 3, 1000, &mut data);
            assert_eq!(verify(kind, 3, 1000, &data), None, "{kind}");
            data[9000] ^= 1;
            data[9500] ^= 1;
            assert_eq!(verify(kind, 3, 1000, &data), Some(10_000), "{kind}");
            let other_seed = verify(kind, 4, 1000, &data[..8000]);
            assert_eq!(other_seed.is_some(), kind != PayloadKind::Zeros, "{kind}");
        }
    }

    /// Runs must be comparable across versions and machines: change these only with the record schema.
    #[test]
    fn bytes_are_the_same_forever() {
        let digest = |kind| {
            let data = make(kind, 42, 1 << 20);
            data.chunks_exact(8).fold(0u64, |sum, word| mix(sum ^ u64::from_le_bytes(word.try_into().unwrap())))
        };
        let digests = PayloadKind::ALL.map(digest);
        let expected = [0, 0x79ba_faef_c045_f1a1, 0x26ec_3174_0707_09e0, 0xcaf4_9ca5_5cfd_40ea, 0xbd77_a6bf_6f6c_884f];
        assert_eq!(digests, expected, "{digests:x?}");
    }

    #[test]
    fn ratios_are_the_published_ones() {
        for (kind, low, high) in [
            (PayloadKind::Text, 2.0, 4.0),
            (PayloadKind::Bf16, 1.26, 1.30),
            (PayloadKind::Fp32, 1.07, 1.09),
            (PayloadKind::Random, 0.999, 1.0),
        ] {
            let ratio = ratio(&make(kind, 1, 8 << 20));
            assert!((low..=high).contains(&ratio), "{kind}: {ratio}");
        }
    }

    #[test]
    fn no_two_blocks_are_equal() {
        for kind in PayloadKind::ALL.into_iter().filter(|&kind| kind != PayloadKind::Zeros) {
            let data = make(kind, 1, 1000 * BLOCK);
            let blocks: std::collections::HashSet<&[u8]> = data.chunks(BLOCK).collect();
            assert_eq!(blocks.len(), 1000, "{kind}");
        }
    }
}
