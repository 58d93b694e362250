//! A pax archive, uncompressed: a shard is a file that `tar tf` lists and `tar xf` extracts.
//!
//! Data starts on [`ALIGN`] boundaries, as in the state. What lies between the end of one member and the start of the
//! next is filled by growing the pax header in front of it with a comment, and an extent's end by a pax global
//! header with a comment: both are records that every tar reads over.

mod extent;
mod header;

use extent::{Reader, Writer};

use super::{ALIGN, About, Chunk, Codec, Piece, is_zero};
use savemark_base::error::{Error, Result};

pub(super) const ABOUT: About = About {
    compresses: false,
    levels: None,
    vague_level: None,
    library: || None,
    make: |_, sequential| Ok(Box::new(Tar { sequential })),
};

/// Longest name; keeps the headers of one piece within one alignment unit, which [`Tar::bound`] relies on.
const NAME_MAX: usize = 2900;
/// Two zero blocks end an archive; the rest of the alignment unit may only be zero.
static TRAILER: [u8; ALIGN] = [0; ALIGN];

/// The archive's layout; it needs no context.
pub struct Tar {
    /// Consecutive chunks share a shard in order, and members continue across extents. Without, every piece that is not
    /// a whole member becomes a member `NAME.part-OFFSET` of its own.
    sequential: bool,
}

impl Tar {
    /// The header's name and size for a piece; `None` when the piece continues a member of the extent before.
    fn member(&self, piece: &Piece) -> Option<(String, u64)> {
        let is_whole = piece.offset == 0 && piece.is_last();
        match (self.sequential, piece.offset) {
            (true, 0) => Some((piece.name.to_string(), piece.member_bytes)),
            (true, _) => None,
            (false, _) if is_whole => Some((piece.name.to_string(), piece.member_bytes)),
            (false, offset) => Some((format!("{}.part-{offset:015}", piece.name), piece.len as u64)),
        }
    }

    /// Whether the archive's member ends with this piece.
    fn is_end(&self, piece: &Piece) -> bool {
        !self.sequential || piece.is_last()
    }
}

impl Codec for Tar {
    fn bound(&self, user: usize, pieces: usize) -> usize {
        // One unit of headers for each piece, and one for a fill that does not fit in the last unit.
        user.next_multiple_of(ALIGN) + (pieces + 1) * ALIGN
    }

    fn encode(&mut self, chunk: &Chunk, out: &mut [u8]) -> Result<usize> {
        let mut writer = Writer::new(out);
        let mut end = 0;
        for (index, piece) in chunk.pieces.iter().enumerate() {
            check(piece, index, end, chunk)?;
            match self.member(piece) {
                Some((name, size)) => writer.headers(&name, piece.mode, size)?,
                None if index == 0 => {}
                None => return Err(Error::failed(format!("{} continues in the middle of a chunk", piece.name))),
            }
            writer.data(&chunk.user[piece.start..piece.end()], self.is_end(piece))?;
            end = piece.end();
        }
        if !is_zero(&chunk.user[end..]) {
            return Err(Error::failed("a chunk has bytes that belong to no member: tar cannot store them"));
        }
        writer.finish()
    }

    fn decode(&mut self, stored: &[u8], pieces: &[Piece], user: &mut [u8]) -> Result<()> {
        let mut reader = Reader::new(stored);
        let mut end = 0;
        for piece in pieces {
            if let Some((name, size)) = self.member(piece) {
                reader.headers(&name, size)?;
            }
            let data = reader.data(piece.len, self.is_end(piece))?;
            let wrong = || Error::corrupt(format!("{} does not lie within its chunk", piece.name));
            user.get_mut(end..piece.start).ok_or_else(wrong)?.fill(0);
            user.get_mut(piece.start..piece.end()).ok_or_else(wrong)?.copy_from_slice(data);
            end = piece.end();
        }
        user[end..].fill(0);
        reader.finish()
    }

    fn trailer(&self) -> &'static [u8] {
        &TRAILER
    }

    fn extension(&self) -> &'static str {
        "tar"
    }

    fn library(&self) -> String {
        "pax archive".to_string()
    }
}

/// Refuses what the format cannot say: bytes outside members, and names that tar cannot hold.
fn check(piece: &Piece, index: usize, end: usize, chunk: &Chunk) -> Result<()> {
    let name = piece.name;
    if name.is_empty() || name.contains('\0') || name.len() > NAME_MAX {
        return Err(Error::usage(format!("tar cannot store the member name {name:?}"))
            .hint(format!("names have 1 to {NAME_MAX} bytes and no NUL")));
    }
    let fits = piece.start >= end && piece.start.is_multiple_of(ALIGN) && piece.end() <= chunk.user.len();
    if !fits || !is_zero(&chunk.user[end..piece.start]) {
        return Err(Error::failed(format!("piece {index} ({name}) does not continue its chunk")));
    }
    Ok(())
}
