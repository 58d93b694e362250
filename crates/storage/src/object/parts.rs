//! What is written to an object, gathered into parts.

use std::sync::Arc;

use bytes::Bytes;

use savemark_base::buffer::Buffer;
use savemark_base::error::Result;
use savemark_base::leased::LeasedPool;

/// Memory of one part, which goes back to its pool, and how much of it is filled.
struct Part {
    buffer: Buffer,
    filled: usize,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

/// Memory that belongs to the source: uploaded from where it is. `_token` tells when nobody reads it any more.
struct Lent {
    buffer: Buffer,
    len: usize,
    _token: Arc<()>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// Gathers writes into the next part: lent memory as it is, other memory by copying it once.
pub struct Gather {
    pool: Arc<LeasedPool>,
    pieces: Vec<Bytes>,
    copying: Option<Part>,
    bytes: usize,
    lent: Arc<()>,
}

impl Gather {
    /// Parts from `pool`.
    pub fn new(pool: &Arc<LeasedPool>) -> Self {
        Self { pool: Arc::clone(pool), pieces: Vec::new(), copying: None, bytes: 0, lent: Arc::default() }
    }

    /// Bytes gathered for the next part.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the next part is complete.
    pub fn is_full(&self) -> bool {
        self.bytes == self.pool.bytes()
    }

    /// Whether lent memory may still be read.
    pub fn lends(&self) -> bool {
        Arc::strong_count(&self.lent) > 1
    }

    /// The source's own memory as bytes.
    pub fn lend(&self, buffer: Buffer, len: usize) -> Bytes {
        Bytes::from_owner(Lent { buffer, len, _token: Arc::clone(&self.lent) })
    }

    /// Takes as much of `bytes` as the part has room for.
    pub fn take_lent(&mut self, bytes: &mut Bytes) {
        let taken = bytes.split_to(bytes.len().min(self.pool.bytes() - self.bytes));
        self.close_copy();
        self.bytes += taken.len();
        self.pieces.push(taken);
    }

    /// Copies as much of `bytes` as the part has room for; returns how much.
    pub fn copy(&mut self, bytes: &[u8]) -> Result<usize> {
        let taken = bytes.len().min(self.pool.bytes() - self.bytes);
        let mut part = match self.copying.take() {
            Some(part) => part,
            None => Part { buffer: self.pool.take_or_make()?, filled: 0 },
        };
        let place = part.filled..part.filled + taken;
        part.buffer[place].copy_from_slice(&bytes[..taken]);
        part.filled += taken;
        self.copying = Some(part);
        self.bytes += taken;
        Ok(taken)
    }

    /// The part, as pieces; the next one begins.
    pub fn finish(&mut self) -> Vec<Bytes> {
        self.close_copy();
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }

    fn close_copy(&mut self) {
        self.pieces.extend(self.copying.take().map(Bytes::from_owner));
    }
}
