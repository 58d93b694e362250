//! One zstd frame per chunk, padded with a skippable frame (RFC 8878, section 3.1.2).

use ::zstd::bulk::{Compressor, Decompressor};
use ::zstd::zstd_safe;

use super::{ALIGN, About, Chunk, Codec, Piece, SKIPPABLE_MIN, is_skippable, padded, room, write_skippable};
use savemark_base::error::{Error, Result};

// zstd reads level 0 as "the default of this version": a record could not say what ran.
pub(super) const ABOUT: About = About {
    compresses: true,
    levels: Some(-7..=22),
    vague_level: Some(0),
    library: || Some(version()),
    make: |level, _| Ok(Box::new(Zstd::new(level)?)),
};

/// Library and version, as linked.
pub(super) fn version() -> String {
    format!("zstd {}", ::zstd::zstd_safe::version_string())
}

/// Contexts of the reference library. Frames carry their content size and no checksum: chunks are digested anyway.
pub struct Zstd {
    level: i32,
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
}

impl Zstd {
    /// Contexts for one level, which the caller has checked.
    pub fn new(level: i32) -> Result<Self> {
        let out_of_memory = |e| Error::failed(format!("cannot create a zstd context: {e}"));
        Ok(Self {
            level,
            compressor: Compressor::new(level).map_err(out_of_memory)?,
            decompressor: Decompressor::new().map_err(out_of_memory)?,
        })
    }
}

impl Codec for Zstd {
    fn bound(&self, user: usize, _pieces: usize) -> usize {
        zstd_safe::compress_bound(user).next_multiple_of(ALIGN) + ALIGN
    }

    fn encode(&mut self, chunk: &Chunk, out: &mut [u8]) -> Result<usize> {
        let frame = self
            .compressor
            .compress_to_buffer(chunk.user, out)
            .map_err(|e| Error::failed(format!("zstd cannot compress {} bytes: {e}", chunk.user.len())))?;
        let stored = padded(frame, SKIPPABLE_MIN);
        write_skippable(&mut room(out, stored)?[frame..]);
        Ok(stored)
    }

    fn decode(&mut self, stored: &[u8], _pieces: &[Piece], user: &mut [u8]) -> Result<()> {
        let bad = |what: &str| Error::corrupt(format!("an extent of {} bytes is not zstd: {what}", stored.len()));
        // Only block headers are read to find the end of the frame: cheap.
        let frame = zstd_safe::find_frame_compressed_size(stored).map_err(|e| bad(zstd_safe::get_error_name(e)))?;
        let (frame, padding) = stored.split_at_checked(frame).ok_or_else(|| bad("it is cut short"))?;
        if !is_skippable(padding) {
            return Err(bad("its padding is damaged"));
        }
        // A skippable frame in front would decode to nothing and hide the real one.
        if !frame.starts_with(&zstd_safe::MAGICNUMBER.to_le_bytes()) {
            return Err(bad("its magic number is wrong"));
        }
        let len = self.decompressor.decompress_to_buffer(frame, user).map_err(|e| bad(&e.to_string()))?;
        if len != user.len() {
            return Err(bad(&format!("it holds {len} bytes instead of {}", user.len())));
        }
        Ok(())
    }

    fn extension(&self) -> &'static str {
        "zst"
    }

    fn library(&self) -> String {
        format!("{} level {}", version(), self.level)
    }
}
