//! Weights, split into planes of bytes.

use savemark_planes::Planes;

use super::{About, Chunk, Codec, Piece};
use savemark_base::error::Result;

pub(super) const ABOUT: About = About {
    compresses: true,
    levels: None,
    vague_level: None,
    library: || None,
    make: |_, _| Ok(Box::new(Planes::new()?)),
};

impl Codec for Planes {
    fn bound(&self, user: usize, _pieces: usize) -> usize {
        Planes::bound(user)
    }

    fn encode(&mut self, chunk: &Chunk, out: &mut [u8]) -> Result<usize> {
        self.encode(chunk.user, out)
    }

    fn decode(&mut self, stored: &[u8], _pieces: &[Piece], user: &mut [u8]) -> Result<()> {
        self.decode(stored, user)
    }

    fn extension(&self) -> &'static str {
        "planes"
    }

    fn library(&self) -> String {
        Planes::library()
    }
}
