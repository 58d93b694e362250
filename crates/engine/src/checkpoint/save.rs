//! Save: source → codec → shards → manifest. The previous checkpoint stays whole until the new one is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::digest;
use super::manifest::{Chunk, Digest, MANIFEST, Manifest, Shard};
use super::state::{Source, pieces};
use crate::buffer::{ALIGN, Arena, Buffer, Pool, align_up};
use crate::codec::{self, Codec, CodecName};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::measure::clock;
use crate::phase::{self, Watch};
use crate::record::Phase;
use crate::storage::{Completion, File, Op, Operation, Queue, Storage};
use crate::worker::{Meter, timed};

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

    fn in_flight(&self) -> usize {
        if self.streams == 0 { 1 } else { self.queue_depth.max(1) as usize }
    }
}

/// Saves `source` as the checkpoint of `storage`, durably, in place of the one that is there.
///
/// Memory: `workers × ((queue_depth + 1) × bound of a chunk)`, whatever the size of the state.
///
/// # Errors
/// `Refused` while another save is under way; `Failed` on I/O errors. In both cases, and if the process is killed,
/// the previous checkpoint remains.
pub fn save(
    source: &dyn Source,
    storage: &dyn Storage,
    options: &SaveOptions,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase)> {
    let mut watch = Watch::start();
    control.begin("save", source.bytes());
    let job = Job::new(source, storage, options)?;
    let arenas = pool.take(options.workers(), job.arena_bytes())?;
    let _lock = storage.lock()?;
    let previous = previous(storage)?;
    if storage.locks() {
        remove_orphans(storage, previous.as_ref())?;
    }
    job.check_room()?;

    let (team, shards) = job.write(&arenas, control).inspect_err(|_| job.remove_shards())?;
    watch.stage_until("open", team.start_ns);
    watch.stage_until("transfer", shards.iter().map(|s| s.transferred_ns).max().unwrap_or(0));
    watch.stage("flush");
    let manifest = job.manifest(shards);
    job.commit(&manifest.to_bytes())?;
    watch.stage("commit");

    let mut phase = watch.finish("save");
    team.add_to(&mut phase);
    phase.user_bytes = manifest.user_bytes();
    phase.stored_bytes = manifest.stored_bytes();
    phase.durable = storage.durable();
    // After the clock has stopped, and no reason to fail: the new checkpoint is complete.
    for shard in previous.iter().flat_map(|p| &p.shards) {
        if let Err(error) = storage.remove(&shard.name) {
            phase.notes.push(format!("what the checkpoint before left was not removed: {error}"));
        }
    }
    Ok((manifest, phase))
}

/// The manifest that is in place, if it can be read: a damaged one is about to be replaced.
fn previous(storage: &dyn Storage) -> Result<Option<Manifest>> {
    Ok(storage.get(MANIFEST)?.and_then(|bytes| Manifest::from_bytes(&bytes).ok()))
}

/// Removes the shards of saves that did not end; the lock says that none is under way.
fn remove_orphans(storage: &dyn Storage, current: Option<&Manifest>) -> Result<()> {
    orphans(storage, current)?.iter().try_for_each(|name| storage.remove(name))
}

/// The shards here that do not belong to `current`.
pub(super) fn orphans(storage: &dyn Storage, current: Option<&Manifest>) -> Result<Vec<String>> {
    let known = |name: &str| current.is_some_and(|m| m.shards.iter().any(|s| s.name == name));
    Ok(storage.list()?.into_iter().filter(|name| is_shard(name) && !known(name)).collect())
}

/// `shard-<16 hex digits>-<8 hex digits>-<4 digits>`, then perhaps an ending: nothing foreign looks like that.
pub(super) fn is_shard(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let parts: Vec<&str> = stem.split('-').collect();
    let hex = |part: &str, len| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
    parts.len() == 4 && parts[0] == "shard" && hex(parts[1], 16) && hex(parts[2], 8) && hex(parts[3], 4)
}

/// Shards grow by this much at a time, so that direct writes land in room that is already theirs.
const ROOM_BYTES: u64 = 64 << 20;

struct Job<'a> {
    source: &'a dyn Source,
    storage: &'a dyn Storage,
    options: &'a SaveOptions,
    id: String,
    /// Output bytes that a chunk may need.
    bound: usize,
    /// The next chunk that nobody has taken.
    next: AtomicU64,
}

/// A shard that is durable.
struct Written {
    shard: Shard,
    chunks: Vec<Chunk>,
    transferred_ns: u64,
}

impl<'a> Job<'a> {
    fn new(source: &'a dyn Source, storage: &'a dyn Storage, options: &'a SaveOptions) -> Result<Self> {
        if options.chunk_bytes == 0 || !options.chunk_bytes.is_multiple_of(ALIGN) {
            return Err(Error::usage(format!("chunk_size {} is not a multiple of {ALIGN}", options.chunk_bytes)));
        }
        if source.bytes() == 0 {
            return Err(Error::usage("the state is empty: there is nothing to save"));
        }
        let codec = codec::new(options.codec, options.level, options.streams == 0)?;
        let id = format!("{:016x}-{:08x}", clock::unix_now(), std::process::id());
        let mut job = Self { source, storage, options, id, bound: 0, next: AtomicU64::new(0) };
        let most = (0..job.chunks()).map(|i| pieces(source.members(), job.offset(i), job.len(i)).len()).max();
        job.bound = align_up(codec.bound(options.chunk_bytes, most.unwrap_or(0)));
        Ok(job)
    }

    fn chunks(&self) -> u64 {
        self.source.bytes().div_ceil(self.options.chunk_bytes as u64)
    }

    fn offset(&self, chunk: u64) -> u64 {
        chunk * self.options.chunk_bytes as u64
    }

    fn len(&self, chunk: u64) -> usize {
        (self.source.bytes() - self.offset(chunk)).min(self.options.chunk_bytes as u64) as usize
    }

    /// Buffers in flight, and one to read into where the source has no memory of its own.
    fn arena_bytes(&self) -> usize {
        self.options.in_flight() * self.bound + align_up(self.options.chunk_bytes)
    }

    /// Better to say now what cannot work than in the middle.
    fn check_room(&self) -> Result<()> {
        let identity = matches!(self.options.codec, CodecName::None | CodecName::Tar);
        match self.storage.free_bytes()? {
            Some(free) if identity && free < self.source.bytes() => Err(Error::failed(format!(
                "no room: the checkpoint needs {} bytes and {free} are free. Nothing was written",
                self.source.bytes()
            ))
            .hint("free some space, or use a smaller --size")),
            _ => Ok(()),
        }
    }

    fn extension(&self, codec: &dyn Codec) -> String {
        if codec.extension().is_empty() { String::new() } else { format!(".{}", codec.extension()) }
    }

    fn shard_name(&self, index: usize, codec: &dyn Codec) -> String {
        format!("shard-{}-{index:04x}{}", self.id, self.extension(codec))
    }

    /// Runs the streams until every shard is durable.
    fn write(&self, arenas: &[Arc<Arena>], control: &Control) -> Result<(phase::Team, Vec<Written>)> {
        let written = Mutex::new(Vec::new());
        let work = |meter: &mut Meter| {
            let index = meter.index;
            let result = Stream::open(self, index, &arenas[index])?.run(meter)?;
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
        let library = codec::new(options.codec, options.level, options.streams == 0).map(|c| c.library());
        let chunk_bytes = options.chunk_bytes as u64;
        let mut manifest =
            Manifest::new(&self.id, options.codec, library.unwrap_or_default(), options.streams, chunk_bytes);
        manifest.members = self.source.members().to_vec();
        manifest.directories = self.source.directories().to_vec();
        manifest.state_bytes = self.source.bytes();
        for shard in written {
            manifest.chunks.extend(shard.chunks);
            manifest.shards.push(shard.shard);
        }
        manifest.chunks.sort_by_key(|c| c.offset);
        manifest
    }

    /// Puts the manifest in place: from then on the checkpoint is the new one.
    ///
    /// A manifest that failed to be put may be there all the same (its answer was lost, or the directory could not be
    /// synced), or, in a bucket, still come. So the shards go only when that is ruled out: whichever manifest is found
    /// later, it restores.
    fn commit(&self, manifest: &[u8]) -> Result<()> {
        let put = self.storage.sync().and_then(|()| self.storage.put(MANIFEST, manifest));
        let Err(error) = put else { return Ok(()) };
        let found = self.storage.get(MANIFEST);
        if self.storage.locks() && found.is_ok_and(|found| found.as_deref() != Some(manifest)) {
            self.remove_shards();
        }
        Err(error)
    }

    /// Tidies up after a failure, whose cause is what matters: a shard that stays is an orphan, for the next save or `clean`.
    fn remove_shards(&self) {
        let ours = format!("shard-{}-", self.id);
        for name in self.storage.list().unwrap_or_default() {
            if name.starts_with(&ours) {
                let _ = self.storage.remove(&name);
            }
        }
    }
}

/// One stream: takes chunks, encodes them and appends them to its shard.
struct Stream<'a> {
    job: &'a Job<'a>,
    index: usize,
    name: String,
    file: Arc<dyn File>,
    queue: Box<dyn Queue>,
    codec: Box<dyn Codec>,
    /// The source has no memory of its own: chunks are read in here.
    staging: Buffer,
    free: Vec<Buffer>,
    /// Where `free` comes from: a write may also go out of the source's own memory, which does not return there.
    arena: Arc<Arena>,
    done: Vec<Completion>,
    chunks: Vec<Chunk>,
    cursor: u64,
    room: u64,
}

impl<'a> Stream<'a> {
    fn open(job: &'a Job, index: usize, arena: &Arc<Arena>) -> Result<Self> {
        let options = job.options;
        let codec = codec::new(options.codec, options.level, options.streams == 0)?;
        let name = job.shard_name(index, &*codec);
        let file = job.storage.create(&name)?;
        let queue = job.storage.queue(&[Arc::clone(&file)], options.in_flight() as u32, arena)?;
        let staging_bytes = align_up(options.chunk_bytes);
        // SAFETY: the arena belongs to this worker, and the ranges are disjoint.
        let staging = unsafe { arena.buffer(0, staging_bytes) };
        let free = (0..options.in_flight())
            .map(|i| unsafe { arena.buffer(staging_bytes + i * job.bound, job.bound) })
            .collect();
        let (arena, done, chunks) = (Arc::clone(arena), Vec::new(), Vec::new());
        Ok(Self { job, index, name, file, queue, codec, staging, free, arena, done, chunks, cursor: 0, room: 0 })
    }

    fn run(mut self, meter: &mut Meter) -> Result<Written> {
        meter.start()?;
        loop {
            let chunk = self.job.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.job.chunks() {
                break;
            }
            meter.check()?;
            while self.queue.in_flight() >= self.job.options.in_flight() {
                self.reap(1, meter)?;
            }
            self.write(chunk, meter)?;
        }
        while self.queue.in_flight() > 0 {
            self.reap(1, meter)?;
        }
        let trailer = self.write_trailer()?;
        let transferred_ns = clock::now();
        self.file.truncate(self.cursor)?;
        self.file.sync()?;
        meter.sync_latency.record(clock::now() - transferred_ns);
        let shard = Shard {
            name: self.name,
            bytes: self.cursor,
            trailer_bytes: trailer.len() as u64,
            trailer_digest: Digest(if trailer.is_empty() { 0 } else { digest(trailer) }),
        };
        Ok(Written { shard, chunks: self.chunks, transferred_ns })
    }

    /// Encodes a chunk and starts its write.
    fn write(&mut self, chunk: u64, meter: &mut Meter) -> Result<()> {
        let (offset, len) = (self.job.offset(chunk), self.job.len(chunk));
        let (extent, stored, user_digest) = self.encode(offset, len, meter)?;
        let stored_digest = timed(&mut meter.thread_time.digest_ns, || digest(&extent[..stored]));
        self.chunks.push(Chunk {
            offset,
            user_bytes: len as u64,
            shard: self.index as u32,
            shard_offset: self.cursor,
            stored_bytes: stored as u64,
            stored_digest: Digest(stored_digest),
            user_digest: Digest(user_digest),
        });
        self.make_room(stored as u64)?;
        let op = Op {
            operation: Operation::Write,
            file: 0,
            offset: self.cursor,
            len: stored,
            buffer: extent,
            token: len as u64,
        };
        self.cursor += stored as u64;
        timed(&mut meter.thread_time.wait_ns, || self.queue.submit(op))?;
        // Starts it now: the device works while the next chunk is encoded.
        let wait_for = usize::from(self.job.options.streams == 0);
        self.reap(wait_for, meter)
    }

    /// The extent of a chunk, its stored length, and the digest of its user bytes (0 for an identity codec).
    fn encode(&mut self, offset: u64, len: usize, meter: &mut Meter) -> Result<(Buffer, usize, u64)> {
        let source = self.job.source;
        let view = source.view(offset, len);
        if self.codec.is_identity() {
            let stored = align_up(len);
            if let Some(view) = view.filter(|view| view.is_direct(stored)) {
                return Ok((view, stored, 0));
            }
            let mut out = self.take_free()?;
            source.read(offset, &mut out[..len])?;
            out[len..stored].fill(0);
            return Ok((out, stored, 0));
        }
        let mut out = self.take_free()?;
        let user = match &view {
            Some(view) => &view[..len],
            None => {
                source.read(offset, &mut self.staging[..len])?;
                &self.staging[..len]
            }
        };
        let user_digest = timed(&mut meter.thread_time.digest_ns, || digest(user));
        let pieces = pieces(source.members(), offset, len);
        let chunk = codec::Chunk { user, pieces: &pieces };
        let stored = timed(&mut meter.thread_time.codec_ns, || self.codec.encode(&chunk, &mut out))?;
        Ok((out, stored, user_digest))
    }

    fn take_free(&mut self) -> Result<Buffer> {
        self.free.pop().ok_or_else(|| Error::failed("no free buffer; this is a bug in savemark"))
    }

    /// Reserves room for the next `bytes`, and ahead of them this stream's likely share of what is left.
    fn make_room(&mut self, bytes: u64) -> Result<()> {
        let needed = self.cursor + bytes;
        if needed <= self.room {
            return Ok(());
        }
        let left = self.job.chunks().saturating_sub(self.job.next.load(Ordering::Relaxed));
        let share = left / self.job.options.workers() as u64 * self.job.bound as u64;
        self.room = needed + share.min(ROOM_BYTES);
        // On a disk that is nearly full there may be room for what a codec leaves, if not for its worst case.
        self.file.allocate(self.room).or_else(|_| {
            self.room = needed;
            self.file.allocate(needed)
        })
    }

    /// Takes back what has completed, waiting for at least `min`.
    fn reap(&mut self, min: usize, meter: &mut Meter) -> Result<()> {
        timed(&mut meter.thread_time.wait_ns, || self.queue.wait(min, &mut self.done))?;
        if self.done.is_empty() {
            return Ok(());
        }
        meter.count(&self.done, clock::now());
        for completion in self.done.drain(..) {
            if let Some(error) = completion.error {
                return Err(error);
            }
            meter.count_user(completion.token);
            if completion.buffer.is_in(&self.arena) {
                self.free.push(completion.buffer);
            }
        }
        Ok(())
    }

    /// What the codec's format wants at the end of a file. Small, once a shard: written in turn.
    fn write_trailer(&mut self) -> Result<&'static [u8]> {
        let trailer = self.codec.trailer();
        if !trailer.is_empty() {
            self.make_room(trailer.len() as u64)?;
            self.staging[..trailer.len()].copy_from_slice(trailer);
            let written = self.file.write_at(&self.staging[..trailer.len()], self.cursor);
            written.map_err(|e| Error::io("write", self.file.path(), e))?;
            self.cursor += trailer.len() as u64;
        }
        Ok(trailer)
    }
}
