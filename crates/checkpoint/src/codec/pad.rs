//! Padding from the end of the encoded bytes to the alignment of the extent.

use super::ALIGN;
use savemark_base::error::{Error, Result};

/// `len` rounded up to a multiple of [`ALIGN`], leaving either no gap or one of at least `min_gap` bytes.
pub(super) fn padded(len: usize, min_gap: usize) -> usize {
    let end = len.next_multiple_of(ALIGN);
    if end == len || end - len >= min_gap { end } else { end + ALIGN }
}

/// The first `len` bytes of an output, or the error of a buffer smaller than the bound.
pub(super) fn room(out: &mut [u8], len: usize) -> Result<&mut [u8]> {
    let has = out.len();
    out.get_mut(..len)
        .ok_or_else(|| Error::failed(format!("an output buffer of {has} bytes is too small for {len} encoded bytes")))
}

/// Magic number of the skippable frames that zstd and lz4 share (first of sixteen).
const SKIPPABLE: u32 = 0x184D_2A50;
/// Magic number and length: the smallest skippable frame.
pub(super) const SKIPPABLE_MIN: usize = 8;

/// Fills `gap` (0 or at least [`SKIPPABLE_MIN`] bytes) with one skippable frame.
pub(super) fn write_skippable(gap: &mut [u8]) {
    if gap.is_empty() {
        return;
    }
    let len = (gap.len() - SKIPPABLE_MIN) as u32;
    gap[..4].copy_from_slice(&SKIPPABLE.to_le_bytes());
    gap[4..8].copy_from_slice(&len.to_le_bytes());
    gap[SKIPPABLE_MIN..].fill(0);
}

/// Whether `gap` is what [`write_skippable`] writes.
pub(super) fn is_skippable(gap: &[u8]) -> bool {
    gap.is_empty()
        || gap.len() >= SKIPPABLE_MIN
            && gap[..4] == SKIPPABLE.to_le_bytes()
            && gap[4..8] == ((gap.len() - SKIPPABLE_MIN) as u32).to_le_bytes()
            && is_zero(&gap[SKIPPABLE_MIN..])
}

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&b| b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_empty_or_large_enough() {
        for (len, min_gap, end) in [(0, 8, 0), (1, 8, 4096), (4088, 8, 4096), (4089, 8, 8192), (4096, 8, 4096)] {
            assert_eq!(padded(len, min_gap), end, "{len}");
        }
    }

    #[test]
    fn a_skippable_frame_is_told_from_damage() {
        let mut gap = [1; 20];
        write_skippable(&mut gap);
        assert!(is_skippable(&gap) && is_skippable(&[]));
        assert!(!is_skippable(&gap[..19]) && !is_skippable(&gap[..4]));
        gap[19] = 1;
        assert!(!is_skippable(&gap));
    }
}
