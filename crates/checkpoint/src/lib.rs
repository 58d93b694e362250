//! The checkpoint: a state becomes shards and a manifest on a storage, and comes back whole or not at all.
//!
//! The state is one range of bytes in which each member (a file, a tensor) starts on a page boundary.
//! It is cut into chunks, the unit of codec and checksum. Each stream takes the next chunk, encodes it and writes it
//! at the end of its own shard. When every shard is durable the manifest is put in place, in one step:
//! before that step a reader finds the previous checkpoint, after it the new one.
//!
//! Shards carry the id of their save in their name, so a new save never touches a byte of the previous checkpoint.

pub mod abandoned;
pub mod chunk_range;
pub mod codec;
mod direct;
mod existing;
pub mod gpu;
pub mod inspect;
pub mod limits;
pub mod manifest;
mod names;
pub mod read;
pub mod restore;
pub mod save;
pub mod segments;
pub mod state;
mod stream_copy;
pub mod tree;
pub mod tree_sink;
mod verify;

pub use chunk_range::ChunkRange;
pub use manifest::{MANIFEST, Manifest};
pub use restore::{RestoreOptions, restore};
pub use save::{SaveOptions, save};
pub use state::{ChunkOrder, Directory, Member, Next, Sink, Source, StreamingSource};

use savemark_base::error::Result;
use savemark_storage::Storage;

/// Removes the checkpoint of `storage`, its manifest first, so that no reader finds half of it.
pub fn remove(storage: &dyn Storage) -> Result<()> {
    let shards = existing::Existing::read(storage)?.withdraw(storage)?;
    shards.iter().try_for_each(|shard| shard.remove(storage))
}
