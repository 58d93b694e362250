//! What is saved and where it is restored to: a range of bytes with named members.

mod made;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use self::made::{Discard, GeneratedState, MemoryState};
use super::chunk_range::ChunkRange;
use crate::codec::Piece;
use savemark_base::buffer::{ALIGN, Buffer};
use savemark_base::error::Result;

/// A file or tensor of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// A relative path.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// Where it starts in the state: a multiple of [`ALIGN`].
    pub offset: u64,
}

/// A directory of the state: recorded for its mode, and because it may be empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// A relative path.
    pub name: String,
    /// Permission bits.
    pub mode: u32,
}

/// Lays out members one after the other; returns them with the length of the state.
pub fn lay_out(files: impl IntoIterator<Item = (String, u64, u32)>) -> (Vec<Member>, u64) {
    let mut offset = 0;
    let mut members = Vec::new();
    for (name, bytes, mode) in files {
        members.push(Member { name, bytes, mode, offset });
        offset += bytes.next_multiple_of(ALIGN as u64);
    }
    let end = members.last().map_or(0, |m: &Member| m.offset + m.bytes);
    (members, end)
}

/// The pieces of `members` in the chunk of `len` bytes at `offset`.
///
/// An empty member belongs to the chunk that starts at its offset; at the end of the state, to the last one.
pub fn pieces(members: &[Member], offset: u64, len: usize) -> Vec<Piece<'_>> {
    let end = offset + len as u64;
    members[piece_range(members, offset, len as u64)]
        .iter()
        .map(|m| {
            let start = m.offset.max(offset);
            let stop = (m.offset + m.bytes).min(end);
            Piece {
                name: &m.name,
                mode: m.mode,
                member_bytes: m.bytes,
                offset: start - m.offset,
                start: (start - offset) as usize,
                len: stop.saturating_sub(start) as usize,
            }
        })
        .collect()
}

/// The members that [`pieces`] tells of.
pub(super) fn piece_range(members: &[Member], offset: u64, len: u64) -> Range<usize> {
    let end = offset + len;
    let is_last_chunk = members.last().is_some_and(|m| m.offset + m.bytes == end);
    let first = members.partition_point(|m| m.offset + m.bytes.max(1) <= offset);
    let last = members.partition_point(|m| m.offset < end || (is_last_chunk && m.offset == end));
    first..last.max(first)
}

/// Where the bytes of a state come from.
pub trait Source: Sync {
    /// The members, in the order of their offsets.
    fn members(&self) -> &[Member];
    /// Length of the state: the end of its last member.
    fn bytes(&self) -> u64;
    /// The directories that its members lie in, parents before children.
    fn directories(&self) -> &[Directory] {
        &[]
    }
    /// The state's own memory over a range of at least `len` bytes, if it has one: encoded without a copy, and written
    /// without one if it is aligned as the storage asks and goes on with zeros up to the next multiple of [`ALIGN`].
    fn view(&self, _offset: u64, _len: usize) -> Option<Buffer> {
        None
    }
    /// The ranges, at least `min` bytes long and in order, over which [`view`](Self::view) lends memory that is written
    /// without a copy, on page boundaries, where it does not lend all: so that chunks are cut along their edges.
    fn lent(&self, _min: usize) -> Vec<Range<u64>> {
        Vec::new()
    }
    /// Whether it is memory of others, who may write to it during the save against what was agreed: then all that was saved
    /// is held against it at the end.
    fn may_change(&self) -> bool {
        false
    }
    /// Called when all was read and nothing is replaced yet.
    ///
    /// # Errors
    /// `Failed`, naming it, if something of it has changed since.
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
    /// Copies a range into `out`; bytes between members are zero.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()>;
    /// The chunks as they come, where nobody knows what there is to save before its end. Until then
    /// [`bytes`](Self::bytes) is an estimate, and there are no members.
    fn streaming(&self) -> Option<&dyn StreamingSource> {
        None
    }
}

/// What there is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// This.
    Take(T),
    /// Nothing just now: what is in flight comes first.
    Later,
    /// Nothing more.
    End,
}

/// Chunks of a state that is still being made. They are offered at places of their own, each a member's chunk alone, and
/// lent by [`Source::view`] once; where they lie in the state is known at the end.
pub trait StreamingSource: Sync {
    /// The next chunk, now the caller's. Waits only if the caller has nothing in flight, and then not for long.
    fn take(&self, idle: bool) -> Result<Next<ChunkRange>>;
    /// User bytes that may still come.
    fn left(&self) -> u64;
    /// A stream has failed: no chunk is offered any more.
    fn fail(&self);
    /// The piece that the chunk `cut` is.
    fn piece(&self, cut: ChunkRange, act: &mut dyn FnMut(&[Piece]));
    /// Where in the state the chunk lies that was offered at `offset`; asked after the end.
    fn place(&self, offset: u64) -> u64;
}

/// Where the bytes of a state go.
pub trait Sink: Sync {
    /// Called once, before any byte: the layout, and the length of the state.
    fn prepare(&self, members: &[Member], bytes: u64) -> Result<()>;
    /// Called after [`prepare`](Self::prepare): the directories, parents before children.
    fn directories(&self, _: &[Directory]) -> Result<()> {
        Ok(())
    }
    /// The sink's own memory over a range of at least `len` bytes, if it has one: decoded into without a copy, and read
    /// into without one if it is aligned as the storage asks and reaches the next multiple of [`ALIGN`]. Each range is asked for once.
    fn window(&self, _offset: u64, _len: usize) -> Option<Buffer> {
        None
    }
    /// Takes verified bytes.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Whether nobody uses what it holds before the restore has ended well, so that it may be given bytes while they are
    /// being verified, through [`write_seen`](Self::write_seen).
    fn takes_unverified(&self) -> bool {
        false
    }
    /// As [`write`](Self::write), and shows all bytes to `seen`, in order, each part just before it is copied: what the one
    /// has brought into the processor's cache the other finds there.
    fn write_seen(&self, offset: u64, bytes: &[u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        seen(bytes);
        self.write(offset, bytes)
    }
    /// Takes a window back whose bytes are whole and verified.
    fn filled(&self, _offset: u64, _window: Buffer) {}
    /// Called at the end of a restore that went well; returns when everything handed on is in its place.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
    /// What it wants next, where it does not want all chunks in the order of the shards.
    fn chunk_order(&self) -> Option<&dyn ChunkOrder> {
        None
    }
}

/// The order in which a sink wants the chunks.
pub trait ChunkOrder: Sync {
    /// The index in the manifest of the next chunk, now the caller's. Waits only if the caller has nothing in flight, and
    /// then not for long.
    fn next(&self, idle: bool) -> Result<Next<usize>>;
    /// A worker has failed: what it was fetching will not come.
    fn fail(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_start_on_pages_and_pieces_follow_them() {
        let (members, bytes) =
            lay_out([("a".into(), 5000, 0o644), ("empty".into(), 0, 0o600), ("b".into(), 9000, 0o644)]);
        assert_eq!(members.iter().map(|m| m.offset).collect::<Vec<_>>(), [0, 8192, 8192]);
        assert_eq!(bytes, 8192 + 9000);
        let first = pieces(&members, 0, 8192);
        assert_eq!(first.iter().map(|p| (p.name, p.start, p.len)).collect::<Vec<_>>(), [("a", 0, 5000)]);
        let second = pieces(&members, 8192, 8192);
        assert_eq!(
            second.iter().map(|p| (p.name, p.start, p.len)).collect::<Vec<_>>(),
            [("empty", 0, 0), ("b", 0, 8192)]
        );
        let last = pieces(&members, 16384, 808);
        assert_eq!(last.iter().map(|p| (p.name, p.offset, p.len)).collect::<Vec<_>>(), [("b", 8192, 808)]);
        assert!(last[0].is_last());
    }

    #[test]
    fn every_member_is_in_some_chunk() {
        let (members, bytes) =
            lay_out([("z".into(), 0, 0), ("a".into(), 4096, 0), ("y".into(), 0, 0), ("e".into(), 0, 0)]);
        let chunks: Vec<_> = (0..bytes.max(1)).step_by(4096).collect();
        let mut found: Vec<_> =
            chunks.iter().flat_map(|c| pieces(&members, *c, (bytes - c).min(4096) as usize)).map(|p| p.name).collect();
        found.sort_unstable();
        assert_eq!(found, ["a", "e", "y", "z"]);
    }
}
