//! One gzip member per chunk (RFC 1952), padded with an empty member whose extra field fills the gap.

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::zlib::{LIBRARY, deflate_bound};
use super::{ALIGN, About, Chunk, Codec, Piece, padded, room};
use savemark_base::error::{Error, Result};

pub(super) const ABOUT: About = About {
    compresses: true,
    levels: Some(0..=12),
    vague_level: None,
    library: || Some(LIBRARY.to_string()),
    make: |level, _| Ok(Box::new(Gzip::new(level)?)),
};

/// Start of an empty member: magic, deflate, FEXTRA set, no time, no flags, unknown system.
const EMPTY_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255];
/// Its end: a final empty deflate block, CRC-32 and size of nothing.
const EMPTY_TAIL: [u8; 10] = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Our subfield of the extra field: two identifying letters; its length follows.
const SUBFIELD: [u8; 2] = *b"SM";
/// Bytes of an empty member round the subfield's data: head, XLEN, subfield head, tail.
const EMPTY_MIN: usize = EMPTY_HEAD.len() + 2 + 4 + EMPTY_TAIL.len();

/// libdeflate contexts, made once.
pub struct Gzip {
    level: i32,
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Gzip {
    /// Contexts for one level.
    pub fn new(level: i32) -> Result<Self> {
        let valid = CompressionLvl::new(level).map_err(|_| Error::usage(format!("gzip has no level {level}")))?;
        Ok(Self { level, compressor: Compressor::new(valid), decompressor: Decompressor::new() })
    }
}

impl Codec for Gzip {
    fn bound(&self, user: usize, _pieces: usize) -> usize {
        // 18: gzip's own header and footer.
        (deflate_bound(user) + 18).next_multiple_of(ALIGN) + ALIGN
    }

    fn encode(&mut self, chunk: &Chunk, out: &mut [u8]) -> Result<usize> {
        let member = self
            .compressor
            .gzip_compress(chunk.user, out)
            .map_err(|e| Error::failed(format!("gzip cannot compress {} bytes: {e}", chunk.user.len())))?;
        let stored = padded(member, EMPTY_MIN);
        write_empty_member(&mut room(out, stored)?[member..]);
        Ok(stored)
    }

    /// The padding is not looked at: libdeflater does not say where the first member ended.
    fn decode(&mut self, stored: &[u8], _pieces: &[Piece], user: &mut [u8]) -> Result<()> {
        let bad = |what: String| Error::corrupt(format!("an extent of {} bytes is not gzip: {what}", stored.len()));
        if !stored.len().is_multiple_of(ALIGN) {
            return Err(bad("it is cut short".into()));
        }
        let len = self.decompressor.gzip_decompress(stored, user).map_err(|e| bad(e.to_string()))?;
        if len != user.len() {
            return Err(bad(format!("it holds {len} bytes instead of {}", user.len())));
        }
        Ok(())
    }

    fn extension(&self) -> &'static str {
        "gz"
    }

    fn library(&self) -> String {
        format!("{LIBRARY} level {}", self.level)
    }
}

/// Fills `gap` (0 or at least [`EMPTY_MIN`] bytes) with a member that decodes to nothing.
fn write_empty_member(gap: &mut [u8]) {
    if gap.is_empty() {
        return;
    }
    // At most two alignment units: far below the 65535 bytes that XLEN can say.
    let data = (gap.len() - EMPTY_MIN) as u16;
    let (head, rest) = gap.split_at_mut(EMPTY_HEAD.len());
    head.copy_from_slice(&EMPTY_HEAD);
    let (extra, tail) = rest.split_at_mut(rest.len() - EMPTY_TAIL.len());
    tail.copy_from_slice(&EMPTY_TAIL);
    extra[..2].copy_from_slice(&(data + 4).to_le_bytes());
    extra[2..4].copy_from_slice(&SUBFIELD);
    extra[4..6].copy_from_slice(&data.to_le_bytes());
    extra[6..].fill(0);
}
