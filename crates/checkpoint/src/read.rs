//! One small member of a checkpoint, verified: what a reader needs to know before it makes room for the rest.

use super::manifest::{Chunk, Manifest};
use super::restore::{bad_at, open_shard};
use super::verify::{NOT_STORED, decode};
use crate::codec;
use savemark_base::buffer::Buffer;
use savemark_base::digest::digest;
use savemark_base::error::{Error, Result};
use savemark_base::record::ThreadTime;
use savemark_storage::Storage;

/// The bytes of the member `name`, or `None` if there is none; refuses one of more than `limit` bytes.
///
/// # Errors
/// `Corrupt` if a chunk that it lies in is not what was saved.
pub fn member(storage: &dyn Storage, manifest: &Manifest, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(member) = manifest.members.iter().find(|m| m.name == name) else { return Ok(None) };
    if member.bytes > limit {
        return Err(Error::corrupt(format!("{name} has {} bytes; at most {limit} are read", member.bytes)));
    }
    let end = member.offset + member.bytes;
    let mut bytes = Vec::with_capacity(member.bytes as usize);
    for chunk in manifest.chunks.iter().filter(|c| c.offset < end && c.offset + c.user_bytes > member.offset) {
        let user = decoded(storage, manifest, chunk)?;
        let from = member.offset.saturating_sub(chunk.offset) as usize;
        let to = (end - chunk.offset).min(chunk.user_bytes) as usize;
        bytes.extend_from_slice(&user[from..to]);
    }
    Ok(Some(bytes))
}

fn decoded(storage: &dyn Storage, manifest: &Manifest, chunk: &Chunk) -> Result<Vec<u8>> {
    let shard = &manifest.shards[chunk.shard as usize];
    let bad = |why: &str| bad_at(&shard.name, chunk.shard_offset, why);
    let file = open_shard(storage, shard)?;
    let stored = chunk.stored_bytes as usize;
    let mut extent = Buffer::alone(stored)?;
    file.read_at(&mut extent[..stored], chunk.shard_offset).map_err(|e| Error::io("read", file.path(), e))?;
    if digest(&extent[..stored]) != chunk.stored_digest.0 {
        return Err(bad(NOT_STORED));
    }
    let mut codec = codec::new(manifest.codec, None, manifest.streams == 0)?;
    let len = chunk.user_bytes as usize;
    if codec.is_identity() {
        // As a restore takes it: what follows in the extent is padding.
        return Ok(extent[..len].to_vec());
    }
    let mut user = vec![0; len];
    let mut time = ThreadTime::default();
    decode(&mut *codec, manifest, chunk, &extent[..stored], &mut user, &mut time).map_err(|why| bad(&why))?;
    Ok(user)
}
