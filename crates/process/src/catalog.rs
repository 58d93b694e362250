//! Which chunks are which image: what a restore is asked for by name.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::dump_receiver::FIRST;
use savemark_base::buffer::ALIGN;
use savemark_base::error::{Error, Result};
use savemark_checkpoint::{Manifest, Member};

/// Small images are fetched before CRIU asks for them, up to so many bytes: each would be a round trip.
const SMALL_BYTES: u64 = 16 << 20;

/// The images of a manifest.
pub struct Catalog<'a> {
    manifest: &'a Manifest,
    /// Of each member, its chunks.
    chunks: Vec<Range<usize>>,
    names: HashMap<&'a str, usize>,
}

impl<'a> Catalog<'a> {
    /// Of a checkpoint whose chunks belong to one image each.
    ///
    /// # Errors
    /// `Usage` for one that was saved as files.
    pub fn of(manifest: &'a Manifest) -> Result<Self> {
        let chunks = manifest.members.iter().map(|member| chunks_of(manifest, member)).collect::<Result<Vec<_>>>()?;
        let names = manifest.members.iter().enumerate().map(|(index, member)| (member.name.as_str(), index)).collect();
        Ok(Self { manifest, chunks, names })
    }

    /// The images.
    pub fn members(&self) -> &[Member] {
        &self.manifest.members
    }

    /// The chunks of the image `name`, and its length.
    pub fn image(&self, name: &str) -> Option<(Range<usize>, u64)> {
        let index = *self.names.get(name)?;
        Some((self.chunks[index].clone(), self.manifest.members[index].bytes))
    }

    /// User bytes of a chunk.
    pub fn chunk_bytes(&self, index: usize) -> u64 {
        self.manifest.chunks[index].user_bytes
    }

    /// The chunk that lies there in the state.
    pub fn index_at(&self, offset: u64) -> usize {
        self.manifest.chunks.partition_point(|chunk| chunk.offset < offset)
    }

    /// Images of one small chunk, up to [`SMALL_BYTES`] together.
    pub fn small(&self) -> VecDeque<usize> {
        let mut room = SMALL_BYTES;
        let alone = self.chunks.iter().filter(|range| range.len() == 1).map(|range| range.start);
        let mut small: VecDeque<usize> = alone.filter(|index| self.chunk_bytes(*index) <= FIRST as u64).collect();
        small.retain(|index| {
            let bytes = self.chunk_bytes(*index);
            let fits = bytes <= room;
            room -= if fits { bytes } else { 0 };
            fits
        });
        small
    }
}

/// The chunks of a member, which share none with another.
fn chunks_of(manifest: &Manifest, member: &Member) -> Result<Range<usize>> {
    let end = member.offset.saturating_add(member.bytes);
    let first = manifest.chunks.partition_point(|chunk| chunk.offset < member.offset);
    let last = manifest.chunks.partition_point(|chunk| chunk.offset < end);
    // The chunks of a state lie side by side: these are the member's own if they begin and end with it.
    let own = manifest.chunks.get(first..last).unwrap_or_default();
    let fits = own.first().is_some_and(|chunk| chunk.offset == member.offset)
        && own.last().and_then(|chunk| chunk.offset.checked_add(chunk.user_bytes)).is_some_and(|last| {
            last >= end && end.checked_next_multiple_of(ALIGN as u64).is_some_and(|end| last <= end)
        });
    match fits {
        true => Ok(first..last),
        false => Err(Error::usage(format!(
            "{} shares a chunk with another image: it was not saved as a process",
            member.name
        ))
        .hint("restore the images as files, then run criu restore --images-dir")),
    }
}
