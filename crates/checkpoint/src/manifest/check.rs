//! What a manifest must be for everything behind it: nobody checks these numbers and names again.

use super::Manifest;
use crate::limits::{CHUNK_BYTES, ENTRIES, EXTENT_BYTES, SHARDS};
use crate::state::piece_range;
use crate::{codec, names};
use savemark_base::buffer::ALIGN;

type Checked = Result<(), String>;

const PAGE: u64 = ALIGN as u64;
/// No library calls itself longer.
const LIBRARY_BYTES: usize = 200;

/// As much of a name as a message has room for; a terminal obeys none of it.
fn shown(name: &str) -> String {
    match name.char_indices().nth(80) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}

impl Manifest {
    /// Holds that all of it is inside the bounds of a checkpoint, and that members, chunks and shards fit together.
    pub(super) fn check(&self) -> Checked {
        self.check_bounds()?;
        self.check_chunks()?;
        self.check_members()?;
        self.check_names()?;
        self.check_shards()
    }

    fn check_bounds(&self) -> Checked {
        let counts =
            [("members", self.members.len()), ("directories", self.directories.len()), ("chunks", self.chunks.len())];
        if let Some((what, count)) = counts.into_iter().find(|(_, count)| *count > ENTRIES) {
            return Err(format!("it has {count} {what}; at most {ENTRIES} are read"));
        }
        if self.shards.is_empty() || self.shards.len() > SHARDS || self.streams as usize > SHARDS {
            return Err(format!("it has {} shards of {} streams, not 1 to {SHARDS}", self.shards.len(), self.streams));
        }
        if self.streams == 0 && self.shards.len() > 1 {
            return Err(format!("it has {} shards of one sequential archive", self.shards.len()));
        }
        if !(PAGE..=CHUNK_BYTES).contains(&self.chunk_bytes) || !self.chunk_bytes.is_multiple_of(PAGE) {
            return Err(format!("chunks of {} bytes are no multiple of {PAGE} up to {CHUNK_BYTES}", self.chunk_bytes));
        }
        if !names::is_id(&self.id) {
            return Err(format!("{:?} is not the id of a save", self.id));
        }
        match self.library.len() <= LIBRARY_BYTES && !self.library.contains(char::is_control) {
            true => Ok(()),
            false => Err("the name of its library is none".into()),
        }
    }

    /// Chunks cover the state without gap or overlap, and start on pages.
    fn check_chunks(&self) -> Checked {
        let mut end = 0u64;
        for chunk in &self.chunks {
            if chunk.offset != end || !end.is_multiple_of(PAGE) || !(1..=self.chunk_bytes).contains(&chunk.user_bytes) {
                return Err(format!("chunks do not cover the state at {end}"));
            }
            end = end.checked_add(chunk.user_bytes).ok_or("its chunks are too long")?;
        }
        match end == self.state_bytes && end > 0 {
            true => Ok(()),
            false => Err(format!("chunks hold {end} of {} bytes", self.state_bytes)),
        }
    }

    /// Members follow each other, each from the next page on.
    fn check_members(&self) -> Checked {
        let (mut end, mut next) = (0, 0);
        for member in &self.members {
            if member.offset != next {
                return Err(format!("the member {:?} is out of place", member.name));
            }
            end = next.checked_add(member.bytes).ok_or("its members are too long")?;
            next = end.checked_next_multiple_of(PAGE).ok_or("its members are too long")?;
        }
        match end == self.state_bytes {
            true => Ok(()),
            false => Err("members and state differ in length".into()),
        }
    }

    fn check_names(&self) -> Checked {
        let files: Vec<&str> = self.members.iter().map(|member| &*member.name).collect();
        let directories: Vec<&str> = self.directories.iter().map(|directory| &*directory.name).collect();
        for name in files.iter().chain(&directories) {
            names::check(name).map_err(|why| format!("the name {} {why}", shown(name)))?;
        }
        names::check_distinct(files, &directories)
            .map_err(|name| format!("{} is in the way of another name", shown(name)))
    }

    /// The chunks of a shard fill it up to its trailer, and none is longer than its codec writes it.
    fn check_shards(&self) -> Checked {
        if let Some(chunk) = self.chunks.iter().find(|chunk| chunk.shard as usize >= self.shards.len()) {
            return Err(format!("there is no shard {}", chunk.shard));
        }
        let codec = codec::new(self.codec, None, self.streams == 0).map_err(|e| e.to_string())?;
        let mut stored = 0u64;
        for (index, (shard, chunks)) in self.shards.iter().zip(self.by_shard()).enumerate() {
            if shard.name != names::shard(&self.id, index, codec.extension()) {
                return Err(format!("{:?} is not the name of its shard {index}", shard.name));
            }
            let mut end = 0u64;
            for chunk in chunks {
                let pieces = piece_range(&self.members, chunk.offset, chunk.user_bytes).len();
                let most = EXTENT_BYTES.min(codec.bound(chunk.user_bytes as usize, pieces) as u64);
                let fits = (PAGE..=most).contains(&chunk.stored_bytes) && chunk.stored_bytes.is_multiple_of(PAGE);
                if chunk.shard_offset != end || !fits || (codec.is_identity() && chunk.stored_bytes != most) {
                    return Err(format!("{} has a gap at {end}, or an extent of no such chunk", shard.name));
                }
                end = end.checked_add(chunk.stored_bytes).ok_or("a shard is too long")?;
            }
            if shard.trailer_bytes != codec.trailer().len() as u64
                || end.checked_add(shard.trailer_bytes) != Some(shard.bytes)
            {
                return Err(format!("{} has the wrong length", shard.name));
            }
            stored = stored.checked_add(shard.bytes).ok_or("its shards are too long")?;
        }
        Ok(())
    }
}
