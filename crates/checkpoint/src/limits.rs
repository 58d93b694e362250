//! The bounds of a checkpoint, stated once: a save refuses to go beyond them, and a reader to follow what goes beyond.
//!
//! Nothing that is read from outside sizes memory before it was held against them and against what the storage really holds.
//! With them, reading any checkpoint takes less than 512 MiB on a machine of up to 16 GiB: see [`restore_bytes`].

use savemark_base::buffer::ALIGN;
use savemark_base::error::{Error, Result};
use savemark_storage::SMALL_BYTES;

/// Bytes of a manifest.
pub const MANIFEST_BYTES: usize = SMALL_BYTES as usize;
/// Members, directories and chunks: so many of each.
pub const ENTRIES: usize = 1 << 21;
/// Shards, and so streams.
pub const SHARDS: usize = 1024;
/// User bytes of a chunk: whoever decodes one holds it in memory, whole.
pub const CHUNK_BYTES: u64 = 64 << 20;
/// Bytes of a chunk's extent: in `tar` each file of one page brings a page of headers, and each empty one, too.
pub const EXTENT_BYTES: u64 = 2 * CHUNK_BYTES + (8 << 20);
/// Bytes of a member's name: as the kernel takes a path.
pub const NAME_BYTES: usize = 4095;
/// Bytes between two slashes of it: as filesystems take them.
pub const PART_BYTES: usize = 255;
/// Parts of it: who removes a tree of directories has one open for each.
pub const DEPTH: usize = 512;

/// Whether chunks may have so many bytes.
///
/// # Errors
/// `Usage`, naming the range.
pub fn check_chunk(bytes: u64) -> Result<()> {
    match (1..=CHUNK_BYTES).contains(&bytes) && bytes.is_multiple_of(ALIGN as u64) {
        true => Ok(()),
        false => Err(Error::usage(format!("chunk_size: {bytes} bytes are not a multiple of 4KiB up to 64MiB"))),
    }
}

/// Whether the longest extent of a save, of so many bytes, can be read again.
pub(super) fn check_extent(bytes: u64) -> Result<()> {
    match bytes <= EXTENT_BYTES {
        true => Ok(()),
        false => Err(Error::usage(format!("a chunk would need {bytes} bytes of archive; it may have {EXTENT_BYTES}"))
            .hint("too many empty files lie side by side for codec tar: use another codec")),
    }
}

/// Bytes of buffers that a restore may have: 256 MiB, or a 64th of the memory that is available.
pub fn restore_bytes() -> usize {
    (256 << 20).max(savemark_host::available_bytes().unwrap_or(0) as usize / 64)
}
