//! One zlib stream per chunk (RFC 1950), zero-padded: zlib has no container, so no tool reads a whole shard.

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::{ALIGN, About, Chunk, Codec, Piece, room};
use savemark_base::error::{Error, Result};

pub(super) const ABOUT: About = About {
    compresses: true,
    levels: Some(0..=12),
    vague_level: None,
    library: || Some(LIBRARY.to_string()),
    make: |level, _| Ok(Box::new(Zlib::new(level)?)),
};

/// Library and version behind `zlib` and `gzip`; a test holds it against `Cargo.toml`.
pub(super) const LIBRARY: &str = "libdeflate 1.26";

/// libdeflate's bound for raw deflate at any level, which its binding offers only on `&mut self`:
/// five bytes for each stored block of at least 5000 bytes.
pub(super) fn deflate_bound(user: usize) -> usize {
    user + 5 * user.div_ceil(5000).max(1)
}

/// libdeflate contexts, made once.
pub struct Zlib {
    level: i32,
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Zlib {
    /// Contexts for one level.
    pub fn new(level: i32) -> Result<Self> {
        let valid = CompressionLvl::new(level).map_err(|_| Error::usage(format!("zlib has no level {level}")))?;
        Ok(Self { level, compressor: Compressor::new(valid), decompressor: Decompressor::new() })
    }
}

impl Codec for Zlib {
    fn bound(&self, user: usize, _pieces: usize) -> usize {
        // 6: zlib's own header and footer.
        (deflate_bound(user) + 6).next_multiple_of(ALIGN)
    }

    fn encode(&mut self, chunk: &Chunk, out: &mut [u8]) -> Result<usize> {
        let stream = self
            .compressor
            .zlib_compress(chunk.user, out)
            .map_err(|e| Error::failed(format!("zlib cannot compress {} bytes: {e}", chunk.user.len())))?;
        let stored = stream.next_multiple_of(ALIGN);
        room(out, stored)?[stream..].fill(0);
        Ok(stored)
    }

    /// The stream says where it ends and libdeflate ignores what follows, so the padding is not looked at.
    fn decode(&mut self, stored: &[u8], _pieces: &[Piece], user: &mut [u8]) -> Result<()> {
        let bad = |what: String| Error::corrupt(format!("an extent of {} bytes is not zlib: {what}", stored.len()));
        if !stored.len().is_multiple_of(ALIGN) {
            return Err(bad("it is cut short".into()));
        }
        let len = self.decompressor.zlib_decompress(stored, user).map_err(|e| bad(e.to_string()))?;
        if len != user.len() {
            return Err(bad(format!("it holds {len} bytes instead of {}", user.len())));
        }
        Ok(())
    }

    fn extension(&self) -> &'static str {
        "zlib"
    }

    fn library(&self) -> String {
        format!("{LIBRARY} level {}", self.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound is copied from libdeflate 1.26: a newer one may change it.
    #[test]
    fn bound_is_at_least_the_librarys_own() {
        let mut compressor = Compressor::new(CompressionLvl::new(1).unwrap());
        for user in [0, 1, 4999, 5000, 5001, 1 << 20, (4 << 20) + 5] {
            let own = compressor.deflate_compress_bound(user);
            assert!(deflate_bound(user) >= own, "{user}: {} < {own}", deflate_bound(user));
        }
    }
}
