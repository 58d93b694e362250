//! The list of a checkpoint's members, shards and chunks. A checkpoint exists when its manifest does.

use serde::{Deserialize, Serialize};

use super::digest;
use super::state::{Directory, Member};
use crate::buffer::ALIGN;
use crate::codec::CodecName;
use crate::error::{Error, Result};

/// Name of the manifest's file.
pub const MANIFEST: &str = "manifest.json";
const FORMAT: &str = "savemark-checkpoint";
const VERSION: u32 = 1;
/// The file ends with this key, the digest of everything before it, and [`END`].
const SEAL: &str = ",\"checksum\":\"crc64-nvme:";
const END: &str = "\"}\n";

/// Everything a reader needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `savemark-checkpoint`.
    pub format: String,
    /// Version of this layout.
    pub version: u32,
    /// Identity of the save: the prefix of its shards' names.
    pub id: String,
    /// Codec of every chunk.
    pub codec: CodecName,
    /// Library, version and level that encoded it.
    pub library: String,
    /// Streams it was saved with; 0 for one sequential archive.
    pub streams: u32,
    /// User bytes of a full chunk.
    pub chunk_bytes: u64,
    /// Length of the state.
    pub state_bytes: u64,
    /// In the order of their offsets.
    pub members: Vec<Member>,
    /// The directories of a tree of files, parents before children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<Directory>,
    /// One per stream.
    pub shards: Vec<Shard>,
    /// In the order of their offsets in the state.
    pub chunks: Vec<Chunk>,
}

/// One file of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Its name beside the manifest.
    pub name: String,
    /// Its exact length: the extents of its chunks, then the trailer.
    pub bytes: u64,
    /// Length of the codec's trailer at its end.
    pub trailer_bytes: u64,
    /// Digest of the trailer, 0 without one.
    pub trailer_digest: Digest,
}

/// A chunk; written as an array, since there are many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ChunkArray", into = "ChunkArray")]
pub struct Chunk {
    /// Where it starts in the state.
    pub offset: u64,
    /// User bytes.
    pub user_bytes: u64,
    /// Index of its shard.
    pub shard: u32,
    /// Where its extent starts in the shard.
    pub shard_offset: u64,
    /// Length of the extent.
    pub stored_bytes: u64,
    /// Digest of the extent as stored.
    pub stored_digest: Digest,
    /// Digest of the user bytes; the same for codec `none` up to padding, and then 0 and not checked.
    pub user_digest: Digest,
}

type ChunkArray = (u64, u64, u32, u64, u64, Digest, Digest);

impl From<ChunkArray> for Chunk {
    fn from((offset, user_bytes, shard, shard_offset, stored_bytes, stored_digest, user_digest): ChunkArray) -> Self {
        Self { offset, user_bytes, shard, shard_offset, stored_bytes, stored_digest, user_digest }
    }
}

impl From<Chunk> for ChunkArray {
    fn from(c: Chunk) -> Self {
        (c.offset, c.user_bytes, c.shard, c.shard_offset, c.stored_bytes, c.stored_digest, c.user_digest)
    }
}

/// A CRC-64/NVME, written as 16 hexadecimal digits (JSON numbers lose bits in other languages).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub u64);

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        format!("{:016x}", digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<Self, String> {
        u64::from_str_radix(&text, 16).map(Self).map_err(|e| format!("`{text}` is not a digest: {e}"))
    }
}

impl Manifest {
    /// An empty manifest of the save `id`.
    pub fn new(id: &str, codec: CodecName, library: String, streams: u32, chunk_bytes: u64) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            id: id.into(),
            codec,
            library,
            streams,
            chunk_bytes,
            state_bytes: 0,
            members: Vec::new(),
            directories: Vec::new(),
            shards: Vec::new(),
            chunks: Vec::new(),
        }
    }

    /// Bytes of the members.
    pub fn user_bytes(&self) -> u64 {
        self.members.iter().map(|m| m.bytes).sum()
    }

    /// Bytes of the shards.
    pub fn stored_bytes(&self) -> u64 {
        self.shards.iter().map(|s| s.bytes).sum()
    }

    /// The chunks of the shard `index`, in the order of the file.
    pub fn chunks_of(&self, index: usize) -> Vec<&Chunk> {
        let mut chunks: Vec<_> = self.chunks.iter().filter(|c| c.shard as usize == index).collect();
        chunks.sort_by_key(|c| c.shard_offset);
        chunks
    }

    /// Wall clock of the save, nanoseconds since 1970; it is part of the id.
    pub fn saved_unix_ns(&self) -> Option<u64> {
        u64::from_str_radix(self.id.split('-').next()?, 16).ok()
    }

    /// As stored: JSON, sealed by a digest of all bytes before it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a manifest is plain data");
        bytes.pop(); // the closing brace comes after the seal
        let digest = digest(&bytes);
        bytes.extend_from_slice(format!("{SEAL}{digest:016x}{END}").as_bytes());
        bytes
    }

    /// Reads a manifest and checks its seal and that chunks and shards fit together.
    ///
    /// # Errors
    /// `Corrupt` if a single byte differs from what was written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let body = bytes.len().checked_sub(SEAL.len() + 16 + END.len()).ok_or_else(|| wrong("it is too short"))?;
        let (body, seal) = bytes.split_at(body);
        if seal != format!("{SEAL}{:016x}{END}", digest(body)).as_bytes() {
            return Err(wrong("its checksum does not match"));
        }
        let text = [body, b"}"].concat();
        let manifest: Self = serde_json::from_slice(&text).map_err(|e| wrong(&format!("it is not a manifest: {e}")))?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            return Err(wrong(&format!("it has version {} of {}", manifest.version, manifest.format))
                .hint("read it with the savemark that wrote it, or a newer one"));
        }
        manifest.check().map_err(|why| wrong(&why))?;
        Ok(manifest)
    }

    /// Chunks cover the state without gap or overlap, and the shards likewise.
    fn check(&self) -> std::result::Result<(), String> {
        let mut end = 0;
        for chunk in &self.chunks {
            if chunk.offset != end || chunk.user_bytes == 0 || chunk.user_bytes > self.chunk_bytes {
                return Err(format!("chunks do not cover the state at {end}"));
            }
            end += chunk.user_bytes;
        }
        if end != self.state_bytes || !self.chunk_bytes.is_multiple_of(ALIGN as u64) {
            return Err(format!("chunks hold {end} of {} bytes", self.state_bytes));
        }
        let mut end = 0;
        for member in &self.members {
            if member.offset != end || !is_relative(&member.name) {
                return Err(format!("the member `{}` is out of place", member.name));
            }
            end = member.offset.saturating_add(member.bytes).saturating_add(ALIGN as u64 - 1) & !(ALIGN as u64 - 1);
        }
        if self.members.last().map_or(0, |m| m.offset + m.bytes) != self.state_bytes {
            return Err("members and state differ in length".into());
        }
        if let Some(directory) = self.directories.iter().find(|d| !is_relative(&d.name)) {
            return Err(format!("the directory `{}` is out of place", directory.name));
        }
        (0..self.shards.len()).try_for_each(|index| self.check_shard(index))?;
        match self.chunks.iter().find(|c| c.shard as usize >= self.shards.len()) {
            Some(chunk) => Err(format!("there is no shard {}", chunk.shard)),
            None => Ok(()),
        }
    }

    fn check_shard(&self, index: usize) -> std::result::Result<(), String> {
        let shard = &self.shards[index];
        let mut end = 0u64;
        for chunk in self.chunks_of(index) {
            if chunk.shard_offset != end || chunk.stored_bytes == 0 || !chunk.stored_bytes.is_multiple_of(ALIGN as u64)
            {
                return Err(format!("{} has a gap at {end}", shard.name));
            }
            end = end.checked_add(chunk.stored_bytes).ok_or("a shard is too long")?;
        }
        if end.checked_add(shard.trailer_bytes) != Some(shard.bytes) || shard.name.contains('/') {
            return Err(format!("{} has the wrong length", shard.name));
        }
        Ok(())
    }
}

/// Whether `name` stays below the directory it is restored into.
pub(super) fn is_relative(name: &str) -> bool {
    !name.is_empty() && !name.contains('\0') && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn wrong(why: &str) -> Error {
    Error::corrupt(format!("{MANIFEST} is damaged: {why}"))
}
