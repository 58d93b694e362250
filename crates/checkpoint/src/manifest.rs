//! The list of a checkpoint's members, shards and chunks. A checkpoint exists when its manifest does.

mod check;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::limits::{ENTRIES, MANIFEST_BYTES};
use super::state::{Directory, Member};
use crate::codec::CodecName;
use savemark_base::digest::digest;
use savemark_base::error::{Error, Result};

/// Name of the manifest's file.
pub const MANIFEST: &str = "manifest.json";
const FORMAT: &str = "savemark-checkpoint";
/// Of the manifests that this savemark writes and reads.
pub(super) const VERSION: u32 = 1;
/// What every manifest starts with, of every version.
const START: &str = "{\"format\":\"savemark-checkpoint\",\"version\":";
/// The file ends with this key, the digest of everything before it, and [`END`].
const SEAL: &str = ",\"checksum\":\"crc64-nvme:";
const END: &str = "\"}\n";
/// Letters of a member without its name, and of a chunk, where states are large.
const ENTRY_TEXT: usize = 64;
const CHUNK_TEXT: usize = 92;
const SMALLER: &str = "use a larger --chunk-size; save parts of a large tree one by one, or an archive of it";

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
    /// The seal, which is checked before anything is read.
    #[serde(default, skip_serializing)]
    checksum: IgnoredAny,
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
        let is_written = text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let digest = u64::from_str_radix(&text, 16).ok().filter(|_| is_written);
        digest.map(Self).ok_or_else(|| format!("{text:?} is not a digest"))
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
            checksum: IgnoredAny,
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

    /// The chunks of each shard, in the order of its file. No chunk is of a shard that is not there.
    pub fn by_shard(&self) -> Vec<Vec<&Chunk>> {
        let mut shards = vec![Vec::new(); self.shards.len()];
        self.chunks.iter().for_each(|chunk| shards[chunk.shard as usize].push(chunk));
        shards.iter_mut().for_each(|chunks| chunks.sort_by_key(|chunk| chunk.shard_offset));
        shards
    }

    /// Wall clock of the save, nanoseconds since 1970; it is part of the id.
    pub fn saved_unix_ns(&self) -> Option<u64> {
        u64::from_str_radix(self.id.split('-').next()?, 16).ok()
    }

    /// As stored: JSON, sealed by a digest of all bytes before it.
    ///
    /// # Errors
    /// `Failed` if [`Manifest::from_bytes`] would not read it: what cannot be read takes no checkpoint's place.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let unfit = |why: String| Error::failed(format!("the checkpoint cannot be put in place: {why}"));
        self.check().map_err(unfit)?;
        let mut bytes = serde_json::to_vec(self).expect("a manifest is plain data");
        bytes.pop(); // the closing brace comes after the seal
        let digest = digest(&bytes);
        bytes.extend_from_slice(format!("{SEAL}{digest:016x}{END}").as_bytes());
        match bytes.len() <= MANIFEST_BYTES {
            true => Ok(bytes),
            false => Err(unfit(format!("{MANIFEST} would have {} bytes; it may have {MANIFEST_BYTES}", bytes.len()))
                .hint(SMALLER)),
        }
    }

    /// Refuses, before a byte is written, what no manifest can hold.
    ///
    /// # Errors
    /// `Usage`, with what to do.
    pub(super) fn check_room(members: &[Member], directories: &[Directory], chunks: usize) -> Result<()> {
        let names = members.iter().map(|m| m.name.len()).chain(directories.iter().map(|d| d.name.len()));
        let entries = members.len() + directories.len();
        let bytes = names.sum::<usize>() + entries * ENTRY_TEXT + chunks * CHUNK_TEXT;
        if [members.len(), directories.len(), chunks].into_iter().all(|count| count <= ENTRIES)
            && bytes <= MANIFEST_BYTES
        {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{entries} files and directories in {chunks} chunks are more than a checkpoint can list: at most {ENTRIES} of each, \
             in {MANIFEST_BYTES} bytes of {MANIFEST}"
        ))
        .hint(SMALLER))
    }

    /// Reads a manifest, and checks its seal and that all of it fits together and is inside the bounds of a checkpoint.
    ///
    /// # Errors
    /// `Corrupt` if a single byte differs from what was written; `Refused` if a newer savemark has written it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MANIFEST_BYTES {
            return Err(wrong(&format!("it has {} bytes; at most {MANIFEST_BYTES} are read", bytes.len())));
        }
        if !is_sealed(bytes) {
            return Err(wrong("its checksum does not match"));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|e| unread(bytes, &e))?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            return Err(of_version(&manifest.format, manifest.version));
        }
        manifest.check().map_err(|why| wrong(&why))?;
        Ok(manifest)
    }
}

/// Whether `bytes` are what some savemark wrote, even if this one does not understand them.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    let body = bytes.len().checked_sub(SEAL.len() + 16 + END.len());
    body.is_some_and(|body| bytes[body..] == *format!("{SEAL}{:016x}{END}", digest(&bytes[..body])).as_bytes())
}

/// The version of a manifest, even of a damaged one; `None` of what does not start as a manifest does.
pub(super) fn version(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(START.as_bytes())?.split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn wrong(why: &str) -> Error {
    Error::corrupt(format!("{MANIFEST} is damaged: {why}"))
        .hint("restore another checkpoint; if this one was copied, copy it again")
}

/// What is sealed and not understood: the fields of a version to come, or of nobody.
fn unread(bytes: &[u8], error: &serde_json::Error) -> Error {
    /// What all versions have.
    #[derive(Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    match serde_json::from_slice::<Head>(bytes) {
        Ok(head) if head.format != FORMAT || head.version != VERSION => of_version(&head.format, head.version),
        // The message may hold a key of the file.
        _ => Error::corrupt(format!(
            "{MANIFEST} was written by a newer savemark, or is damaged: {}",
            error.to_string().escape_debug()
        ))
        .hint("upgrade savemark; if it is not older than what wrote this, restore another checkpoint"),
    }
}

fn of_version(format: &str, version: u32) -> Error {
    if format != FORMAT {
        return wrong(&format!("it is of the format {format:?}"));
    }
    if version < VERSION {
        return wrong(&format!("there is no version {version} of its format"));
    }
    Error::refused(format!(
        "{MANIFEST} was written by a newer savemark: its format has version {version}, this savemark reads {VERSION}"
    ))
    .hint("upgrade savemark, or read it with the one that wrote it")
}
