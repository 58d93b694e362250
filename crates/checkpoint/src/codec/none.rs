//! The bytes as they are, zero-padded to the alignment.

use super::{ALIGN, About, Chunk, Codec, Piece, is_zero, room};
use savemark_base::error::{Error, Result};

pub(super) const ABOUT: About = About {
    compresses: false,
    levels: Option::None,
    vague_level: Option::None,
    library: || Option::None,
    make: |_, _| Ok(Box::new(None)),
};

/// The identity. A caller that sees [`Codec::is_identity`] writes the state's own memory and never gets here.
pub struct None;

impl Codec for None {
    fn is_identity(&self) -> bool {
        true
    }

    fn bound(&self, user: usize, _pieces: usize) -> usize {
        user.next_multiple_of(ALIGN)
    }

    fn encode(&mut self, chunk: &Chunk, out: &mut [u8]) -> Result<usize> {
        let stored = self.bound(chunk.user.len(), 0);
        let (data, padding) = room(out, stored)?.split_at_mut(chunk.user.len());
        data.copy_from_slice(chunk.user);
        padding.fill(0);
        Ok(stored)
    }

    fn decode(&mut self, stored: &[u8], _pieces: &[Piece], user: &mut [u8]) -> Result<()> {
        let expected = self.bound(user.len(), 0);
        if stored.len() != expected {
            return Err(Error::corrupt(format!("an extent has {} bytes instead of {expected}", stored.len())));
        }
        let (data, padding) = stored.split_at(user.len());
        if !is_zero(padding) {
            return Err(Error::corrupt("the padding after a chunk is not zero"));
        }
        user.copy_from_slice(data);
        Ok(())
    }

    fn extension(&self) -> &'static str {
        ""
    }

    fn library(&self) -> String {
        "none".to_string()
    }
}
