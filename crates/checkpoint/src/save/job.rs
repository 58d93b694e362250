//! What the streams of a save share, and its beginning and end on the storage.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::SaveOptions;
use crate::chunk_range::{ChunkRange, cut};
use crate::codec::{self, Codec};
use crate::existing::{Existing, Proven, Unneeded};
use crate::manifest::{MANIFEST, Manifest};
use crate::state::{Next, Source, piece_range};
use crate::{limits, names};
use savemark_base::buffer::align_up;
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::random::random;
use savemark_storage::{File, Storage};

/// What the streams of a save share.
pub(super) struct Job<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) storage: &'a dyn Storage,
    pub(super) options: &'a SaveOptions,
    pub(super) id: String,
    /// Output bytes that a chunk may need.
    pub(super) bound: usize,
    cuts: Vec<ChunkRange>,
    /// The next of them that nobody has taken.
    next: AtomicUsize,
    /// Names of the shards that were made.
    created: Mutex<Vec<String>>,
}

impl<'a> Job<'a> {
    pub(super) fn new(source: &'a dyn Source, storage: &'a dyn Storage, options: &'a SaveOptions) -> Result<Self> {
        limits::check_chunk(options.chunk_bytes as u64)?;
        if source.bytes() == 0 {
            return Err(Error::usage("the state is empty: there is nothing to save"));
        }
        let codec = codec::new(options.codec, options.level, options.streams == 0 && source.streaming().is_none())?;
        // Clocks go back, and process ids of other machines and containers are the same.
        let id = format!("{:016x}-{:08x}", clock::unix_now(), random()? as u32);
        // Elsewhere a chunk costs a request more than a copy.
        let is_lent = codec.is_identity() && storage.path_taken().direct;
        let apart = if is_lent { source.lent(options.chunk_bytes / 2) } else { Vec::new() };
        let cuts = match source.streaming() {
            None => cut(source.bytes(), options.chunk_bytes, &apart),
            Some(_) => Vec::new(),
        };
        Manifest::check_room(source.members(), source.directories(), cuts.len())?;
        let most = cuts.iter().map(|cut| piece_range(source.members(), cut.offset, cut.len as u64).len()).max();
        let bound = align_up(codec.bound(options.chunk_bytes, most.unwrap_or(1)));
        limits::check_extent(bound as u64)?;
        let (next, created) = (AtomicUsize::new(0), Mutex::default());
        Ok(Self { source, storage, options, id, bound, cuts, next, created })
    }

    /// The next chunk, now the caller's.
    pub(super) fn take(&self, idle: bool) -> Result<Next<ChunkRange>> {
        match self.source.streaming() {
            Some(streaming) => streaming.take(idle),
            None => {
                Ok(self.cuts.get(self.next.fetch_add(1, Ordering::Relaxed)).map_or(Next::End, |cut| Next::Take(*cut)))
            }
        }
    }

    /// A codec as this save needs it. Chunks that come as they like are no archive in order, in one stream either.
    pub(super) fn codec(&self) -> Result<Box<dyn Codec>> {
        let in_order = self.options.streams == 0 && self.source.streaming().is_none();
        codec::new(self.options.codec, self.options.level, in_order)
    }

    /// User bytes that nobody has taken.
    pub(super) fn left(&self) -> u64 {
        if let Some(streaming) = self.source.streaming() {
            return streaming.left();
        }
        let next = self.cuts.get(self.next.load(Ordering::Relaxed));
        next.map_or(0, |cut| self.source.bytes() - cut.offset)
    }

    /// Buffers in flight, and one to read into where the source has no memory of its own.
    pub(super) fn arena_bytes(&self) -> usize {
        self.options.in_flight() * self.bound + align_up(self.options.chunk_bytes)
    }

    /// Better to say now what cannot work than in the middle. Orphans go now only if their room is needed, and is enough;
    /// returns those that stay until the new checkpoint is proven.
    pub(super) fn make_room(&self, orphans: Vec<Unneeded>) -> Result<Vec<Unneeded>> {
        let needed = self.source.bytes();
        let Some(free) = self.storage.free_bytes()?.filter(|free| *free < needed) else { return Ok(orphans) };
        let freed: u64 = orphans.iter().map(|orphan| orphan.bytes(self.storage)).sum();
        if !self.options.codec.compresses() && free.saturating_add(freed) < needed {
            return Err(Error::failed(format!(
                "no room: the checkpoint needs {needed} bytes and {free} are free. Nothing was written"
            ))
            .hint("free some space, or use a smaller --size"));
        }
        orphans.iter().try_for_each(|orphan| orphan.remove(self.storage))?;
        Ok(Vec::new())
    }

    /// Makes the shard `name`, which must not exist.
    pub(super) fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let file = self.storage.create(name)?;
        self.created.lock().expect("no panic while held").push(name.into());
        Ok(file)
    }

    pub(super) fn shard_name(&self, index: usize, codec: &dyn Codec) -> String {
        names::shard(&self.id, index, codec.extension())
    }

    /// Puts the manifest in place: from then on the checkpoint is the new one. All its shards are there, see
    /// [`super::stream::Stream::run`].
    ///
    /// A manifest that failed to be put may be there all the same (its answer was lost, or the directory could not be
    /// synced), or, in a bucket, still come; and what is read then may be a cache's. So the shards go only when the storage
    /// says that nothing was put: whichever manifest is found later, it restores.
    pub(super) fn commit(&self, manifest: &[u8], existing: &Existing) -> Result<Proven> {
        let prepared = self.storage.sync().and_then(|()| existing.set_aside(self.storage));
        prepared.inspect_err(|_| self.remove_shards())?;
        self.storage.put(MANIFEST, manifest).map_err(|failed| {
            if !failed.may_be_there {
                self.remove_shards();
            }
            failed.error
        })?;
        Proven::by_reading(self.storage, manifest)
    }

    /// Tidies up after a failure, whose cause is what matters: a shard that stays is an orphan, for the next save or `clean`.
    pub(super) fn remove_shards(&self) {
        self.storage.resume();
        let created = std::mem::take(&mut *self.created.lock().expect("no panic while held"));
        for shard in Unneeded::of_failed(created) {
            let _ = shard.remove(self.storage);
        }
    }
}
