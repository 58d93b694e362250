//! One LZ4 frame per chunk, padded with a skippable frame.
//!
//! The frame is written here, round lz4_flex's block functions: its own frame writer is a stream with buffers of its
//! own, and would copy every byte twice. Format: `doc/lz4_Frame_format.md` of the lz4 project, version 1.6.

use lz4_flex::block::{self, CompressTable, get_maximum_output_size};

use super::{ALIGN, About, Chunk, Codec, Piece, SKIPPABLE_MIN, is_skippable, padded, room, write_skippable};
use savemark_base::error::{Error, Result};

pub(super) const ABOUT: About = About {
    compresses: true,
    levels: Some(1..=1),
    vague_level: None,
    library: || Some(LIBRARY.to_string()),
    make: |_, _| Ok(Box::new(Lz4::new())),
};

/// Library and version; a test holds it against `Cargo.toml`.
pub(super) const LIBRARY: &str = "lz4_flex 0.14.0";
/// Magic number, FLG (version 1, independent blocks, no checksums), BD (blocks of at most 4 MiB), header checksum.
const HEADER: [u8; 7] = [0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0x73];
/// The largest block that BD promises.
const BLOCK: usize = 4 << 20;
/// Set in a block's size when the block is stored as it is.
const RAW: u32 = 1 << 31;
/// Ends the blocks.
const END_MARK: [u8; 4] = [0; 4];

/// The compressor's hash table, made once.
pub struct Lz4 {
    table: CompressTable,
}

impl Lz4 {
    /// A codec with its table.
    pub fn new() -> Self {
        Self { table: CompressTable::large() }
    }

    /// Writes one block, raw where compression does not shrink it; returns its length, size field included.
    fn encode_block(&mut self, block: &[u8], out: &mut [u8]) -> Result<usize> {
        let too_small = || Error::failed("an output buffer is too small for lz4");
        let (field, body) = out.split_first_chunk_mut::<4>().ok_or_else(too_small)?;
        let len = block::compress_into_with_table(block, body, &mut self.table).map_err(|_| too_small())?;
        if len < block.len() {
            *field = (len as u32).to_le_bytes();
            return Ok(4 + len);
        }
        *field = (block.len() as u32 | RAW).to_le_bytes();
        body[..block.len()].copy_from_slice(block);
        Ok(4 + block.len())
    }
}

impl Codec for Lz4 {
    fn bound(&self, user: usize, _pieces: usize) -> usize {
        // Compressed blocks are never kept when they are larger, but the compressor wants room for its worst case.
        let largest = user.min(BLOCK);
        let spare = get_maximum_output_size(largest) - largest;
        let frame = HEADER.len() + 4 * user.div_ceil(BLOCK) + user + spare + END_MARK.len();
        frame.next_multiple_of(ALIGN) + ALIGN
    }

    fn encode(&mut self, chunk: &Chunk, out: &mut [u8]) -> Result<usize> {
        room(out, HEADER.len())?.copy_from_slice(&HEADER);
        let mut at = HEADER.len();
        for block in chunk.user.chunks(BLOCK) {
            at += self.encode_block(block, &mut out[at..])?;
        }
        let end = at + END_MARK.len();
        let stored = padded(end, SKIPPABLE_MIN);
        let out = room(out, stored)?;
        out[at..end].copy_from_slice(&END_MARK);
        write_skippable(&mut out[end..]);
        Ok(stored)
    }

    fn decode(&mut self, stored: &[u8], _pieces: &[Piece], user: &mut [u8]) -> Result<()> {
        let bad = |what: &str| Error::corrupt(format!("an extent of {} bytes is not lz4: {what}", stored.len()));
        let mut rest = stored.strip_prefix(&HEADER).ok_or_else(|| bad("its header is wrong"))?;
        for part in user.chunks_mut(BLOCK) {
            let (field, tail) = rest.split_first_chunk::<4>().ok_or_else(|| bad("it is cut short"))?;
            let size = u32::from_le_bytes(*field);
            let (body, tail) =
                tail.split_at_checked((size & !RAW) as usize).ok_or_else(|| bad("a block is cut short"))?;
            if size & RAW == 0 && body.len() < part.len() {
                let len = block::decompress_into(body, part).map_err(|e| bad(&e.to_string()))?;
                if len != part.len() {
                    return Err(bad("a block is too short"));
                }
            } else if size & RAW != 0 && body.len() == part.len() {
                part.copy_from_slice(body);
            } else {
                return Err(bad("a block has a size that is never written"));
            }
            rest = tail;
        }
        let padding = rest.strip_prefix(&END_MARK).ok_or_else(|| bad("it does not end with its blocks"))?;
        if is_skippable(padding) { Ok(()) } else { Err(bad("its padding is damaged")) }
    }

    fn extension(&self) -> &'static str {
        "lz4"
    }

    fn library(&self) -> String {
        LIBRARY.to_string()
    }
}
