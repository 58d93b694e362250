//! Save: source → codec → shards → manifest. The previous checkpoint stays whole until the new one is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::cut::{Cut, cut};
use super::existing::{Existing, Proven, Unneeded};
use super::limits;
use super::manifest::{MANIFEST, Manifest};
use super::names;
use super::state::{Next, Source, piece_range};
use super::stream::{Stream, Written};
use crate::buffer::{Arena, Pool, align_up};
use crate::codec::{self, Codec, CodecName};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::measure::clock;
use crate::phase::{self, Watch};
use crate::random::random;
use crate::record::Phase;
use crate::storage::{File, Storage};
use crate::worker::Meter;

/// How to save.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// Codec of every chunk.
    pub codec: CodecName,
    /// Its level; `None` for its default.
    pub level: Option<i32>,
    /// Parallel streams; 0 for one sequential archive, one step at a time.
    pub streams: u32,
    /// User bytes of a chunk, a multiple of 4096.
    pub chunk_bytes: usize,
    /// Chunks in flight per stream.
    pub queue_depth: u32,
}

impl SaveOptions {
    /// Threads that encode and write.
    pub fn workers(&self) -> usize {
        self.streams.max(1) as usize
    }

    pub(super) fn in_flight(&self) -> usize {
        if self.streams == 0 { 1 } else { self.queue_depth.max(1) as usize }
    }
}

/// Saves `source` as the checkpoint of `storage`, durably, in place of the one that is there.
///
/// Memory: `workers × ((queue_depth + 1) × bound of a chunk)`, whatever the size of the state.
///
/// # Errors
/// `Refused` while another save is under way, and where the manifest that is there was written by a newer savemark or another
/// program; `Failed` on I/O errors, and where something that was stored is not there. In all these cases, and if the process is
/// killed, the previous checkpoint remains. A damaged one is replaced, and its shards and what is left of its manifest are kept.
pub fn save(
    source: &dyn Source,
    storage: &dyn Storage,
    options: &SaveOptions,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase)> {
    control.begin("save", source.bytes());
    let mut watch = Watch::start();
    let job = Job::new(source, storage, options)?;
    let arenas = pool.take(options.workers(), job.arena_bytes())?;
    let _lock = storage.lock()?;
    let existing = Existing::read(storage)?;
    existing.check_replaceable()?;
    let orphans = job.make_room(if storage.locks() { existing.orphans(&storage.list()?) } else { Vec::new() })?;

    let written = job.write(&arenas, control).and_then(|written| source.check_unchanged().map(|()| written));
    let (team, shards) = written.inspect_err(|_| job.remove_shards())?;
    watch.started(&team);
    watch.stage_until("transfer", shards.iter().map(|s| s.transferred_ns).max().unwrap_or(0));
    watch.stage("flush");
    let manifest = job.manifest(shards);
    let bytes = manifest.to_bytes().inspect_err(|_| job.remove_shards())?;
    let proven = job.commit(&bytes, &existing)?;
    watch.stage("commit");

    let mut phase = watch.finish("save");
    team.add_to(&mut phase);
    phase.user_bytes = manifest.user_bytes();
    phase.stored_bytes = manifest.stored_bytes();
    phase.durable = storage.durable();
    // After the clock has stopped, and no reason to fail: the new checkpoint is complete.
    for unneeded in existing.replaced(&proven).into_iter().chain(orphans) {
        if let Err(error) = unneeded.remove(storage) {
            phase.notes.push(format!("what the checkpoint before left was not removed: {error}"));
        }
    }
    Ok((manifest, phase))
}

/// What the streams of a save share.
pub(super) struct Job<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) storage: &'a dyn Storage,
    pub(super) options: &'a SaveOptions,
    id: String,
    /// Output bytes that a chunk may need.
    pub(super) bound: usize,
    cuts: Vec<Cut>,
    /// The next of them that nobody has taken.
    next: AtomicUsize,
    /// Names of the shards that were made.
    created: Mutex<Vec<String>>,
}

impl<'a> Job<'a> {
    fn new(source: &'a dyn Source, storage: &'a dyn Storage, options: &'a SaveOptions) -> Result<Self> {
        limits::check_chunk(options.chunk_bytes as u64)?;
        if source.bytes() == 0 {
            return Err(Error::usage("the state is empty: there is nothing to save"));
        }
        let codec = codec::new(options.codec, options.level, options.streams == 0 && source.feed().is_none())?;
        // Clocks go back, and process ids of other machines and containers are the same.
        let id = format!("{:016x}-{:08x}", clock::unix_now(), random()? as u32);
        // Elsewhere a chunk costs a request more than a copy.
        let is_lent = codec.is_identity() && storage.path_taken().direct;
        let apart = if is_lent { source.lent(options.chunk_bytes / 2) } else { Vec::new() };
        let cuts = match source.feed() {
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
    pub(super) fn take(&self, idle: bool) -> Result<Next<Cut>> {
        match self.source.feed() {
            Some(feed) => feed.take(idle),
            None => {
                Ok(self.cuts.get(self.next.fetch_add(1, Ordering::Relaxed)).map_or(Next::End, |cut| Next::Take(*cut)))
            }
        }
    }

    /// A codec as this save needs it. Chunks that come as they like are no archive in order, in one stream either.
    pub(super) fn codec(&self) -> Result<Box<dyn Codec>> {
        let in_order = self.options.streams == 0 && self.source.feed().is_none();
        codec::new(self.options.codec, self.options.level, in_order)
    }

    /// User bytes that nobody has taken.
    pub(super) fn left(&self) -> u64 {
        if let Some(feed) = self.source.feed() {
            return feed.left();
        }
        let next = self.cuts.get(self.next.load(Ordering::Relaxed));
        next.map_or(0, |cut| self.source.bytes() - cut.offset)
    }

    /// Buffers in flight, and one to read into where the source has no memory of its own.
    fn arena_bytes(&self) -> usize {
        self.options.in_flight() * self.bound + align_up(self.options.chunk_bytes)
    }

    /// Better to say now what cannot work than in the middle. Orphans go now only if their room is needed, and is enough;
    /// returns those that stay until the new checkpoint is proven.
    fn make_room(&self, orphans: Vec<Unneeded>) -> Result<Vec<Unneeded>> {
        let needed = self.source.bytes();
        let Some(free) = self.storage.free_bytes()?.filter(|free| *free < needed) else { return Ok(orphans) };
        let freed: u64 = orphans.iter().map(|orphan| orphan.bytes(self.storage)).sum();
        let identity = matches!(self.options.codec, CodecName::None | CodecName::Tar);
        if identity && free.saturating_add(freed) < needed {
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

    /// Runs the streams until every shard is durable.
    fn write(&self, arenas: &[Arc<Arena>], control: &Control) -> Result<(phase::Team, Vec<Written>)> {
        let written = Mutex::new(Vec::new());
        let work = |meter: &mut Meter| {
            let index = meter.index;
            let result = Stream::open(self, index, &arenas[index]).and_then(|stream| stream.run(meter));
            let result = result.inspect_err(|_| {
                if let Some(feed) = self.source.feed() {
                    feed.fail();
                }
            })?;
            written.lock().expect("no panic while held").push((index, result));
            Ok(())
        };
        let team = if self.options.streams == 0 {
            phase::run_here(control, work)?
        } else {
            phase::run(self.options.workers(), control, work)?
        };
        let mut written = written.into_inner().expect("no panic while held");
        written.sort_by_key(|(index, _)| *index);
        Ok((team, written.into_iter().map(|(_, shard)| shard).collect()))
    }

    fn manifest(&self, written: Vec<Written>) -> Manifest {
        let options = self.options;
        let library = self.codec().map(|codec| codec.library()).unwrap_or_default();
        let feed = self.source.feed();
        let streams = if feed.is_some() { options.workers() as u32 } else { options.streams };
        let mut manifest = Manifest::new(&self.id, options.codec, library, streams, options.chunk_bytes as u64);
        manifest.members = self.source.members().to_vec();
        manifest.directories = self.source.directories().to_vec();
        manifest.state_bytes = self.source.bytes();
        for shard in written {
            manifest.chunks.extend(shard.chunks);
            manifest.shards.push(shard.shard);
        }
        if let Some(feed) = feed {
            manifest.chunks.iter_mut().for_each(|chunk| chunk.offset = feed.place(chunk.offset));
        }
        manifest.chunks.sort_by_key(|c| c.offset);
        manifest
    }

    /// Puts the manifest in place: from then on the checkpoint is the new one. All its shards are there, see
    /// [`Stream::run`].
    ///
    /// A manifest that failed to be put may be there all the same (its answer was lost, or the directory could not be
    /// synced), or, in a bucket, still come; and what is read then may be a cache's. So the shards go only when the storage
    /// says that nothing was put: whichever manifest is found later, it restores.
    fn commit(&self, manifest: &[u8], existing: &Existing) -> Result<Proven> {
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
    fn remove_shards(&self) {
        self.storage.resume();
        let created = std::mem::take(&mut *self.created.lock().expect("no panic while held"));
        for shard in Unneeded::of_failed(created) {
            let _ = shard.remove(self.storage);
        }
    }
}
