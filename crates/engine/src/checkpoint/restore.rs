//! Restore: manifest → shards → codec → sink. Every chunk is verified before the sink is told that it is whole.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::manifest::{Chunk, MANIFEST, Manifest, Shard};
use super::state::{Next, Sink, pieces};
use super::{digest, digest_in_parts};
use crate::buffer::{Arena, Buffer, Pool, align_up};
use crate::codec::{self, Codec};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::measure::clock;
use crate::phase::{self, Watch};
use crate::record::Phase;
use crate::storage::{Completion, File, Op, Operation, Queue, Storage};
use crate::worker::{Meter, timed};

/// How to restore. Codec and streams are those of the checkpoint.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Chunks in flight per stream.
    pub queue_depth: u32,
    /// Read straight into the sink's memory where that can be, instead of copying from a few buffers.
    pub in_place: bool,
}

/// Reads the manifest of the checkpoint in `storage`.
///
/// # Errors
/// `Usage` if there is none, `Corrupt` if it is damaged.
pub fn open(storage: &dyn Storage) -> Result<Manifest> {
    match storage.get(MANIFEST)? {
        Some(bytes) => Manifest::from_bytes(&bytes),
        None => Err(Error::usage(format!("there is no checkpoint: {MANIFEST} is missing"))
            .hint("an interrupted save leaves none; restore from another directory")),
    }
}

/// Restores the checkpoint of `storage` into `sink`.
///
/// # Errors
/// `Corrupt`, naming shard and offset of the first chunk that is not what was saved.
pub fn restore(
    storage: &dyn Storage,
    sink: &dyn Sink,
    options: &RestoreOptions,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase)> {
    control.begin("restore", 0);
    let mut watch = Watch::together(control)?;
    let manifest = open(storage)?;
    control.begin("restore", manifest.state_bytes);
    sink.prepare(&manifest.members, manifest.state_bytes)?;
    sink.directories(&manifest.directories)?;
    let job = Job::new(&manifest, storage, sink, options)?;
    let arenas = pool.take(manifest.shards.len(), job.arena_bytes())?;
    watch.stage("open");
    let work = |meter: &mut Meter| {
        let index = meter.index;
        let done = Stream::open(&job, index, &arenas[index]).and_then(|stream| stream.run(meter));
        done.inspect_err(|_| {
            if let Some(demand) = sink.demand() {
                demand.fail();
            }
        })
    };
    let team = if manifest.streams == 0 {
        phase::run_here(control, work)?
    } else {
        phase::run(manifest.shards.len(), control, work)?
    };
    let bad = job.bad.lock().expect(HELD).take();
    if let Some((_, error)) = bad {
        return Err(error);
    }
    sink.settle()?;
    watch.stage_until("transfer", job.fetched_ns.load(Ordering::Relaxed));
    watch.stage("verify");
    let mut phase = watch.finish("restore");
    team.add_to(&mut phase);
    phase.user_bytes = manifest.user_bytes();
    phase.stored_bytes = manifest.stored_bytes();
    phase.verified = Some("every chunk".into());
    Ok((manifest, phase))
}

const HELD: &str = "no panic while held";

struct Job<'a> {
    manifest: &'a Manifest,
    storage: &'a dyn Storage,
    sink: &'a dyn Sink,
    options: &'a RestoreOptions,
    files: Vec<Arc<dyn File>>,
    /// Per shard the chunks that nobody has taken, from front to back.
    waiting: Vec<Mutex<VecDeque<&'a Chunk>>>,
    /// When the last extent had arrived; what follows is checking and decoding it.
    fetched_ns: AtomicU64,
    /// The first bad chunk found so far, by shard and offset.
    bad: Mutex<Option<((u32, u64), Error)>>,
}

impl<'a> Job<'a> {
    /// Opens every shard, and checks what can be checked without reading it.
    fn new(
        manifest: &'a Manifest,
        storage: &'a dyn Storage,
        sink: &'a dyn Sink,
        options: &'a RestoreOptions,
    ) -> Result<Self> {
        let files = manifest.shards.iter().map(|shard| open_shard(storage, shard)).collect::<Result<_>>()?;
        let waiting = (0..manifest.shards.len()).map(|i| Mutex::new(manifest.chunks_of(i).into())).collect();
        let fetched_ns = AtomicU64::new(0);
        Ok(Self { manifest, storage, sink, options, files, waiting, fetched_ns, bad: Mutex::new(None) })
    }

    /// The next chunk of the worker's own shard; when that is done, it helps with the next one.
    fn next(&self, worker: usize, idle: bool) -> Result<Next<&'a Chunk>> {
        if self.bad.lock().expect(HELD).is_some() {
            return Ok(Next::End);
        }
        if let Some(demand) = self.sink.demand() {
            return Ok(match demand.next(idle)? {
                Next::Take(index) => Next::Take(&self.manifest.chunks[index]),
                Next::Later => Next::Later,
                Next::End => Next::End,
            });
        }
        let shards = self.waiting.len();
        let mut turns = (0..shards).map(|turn| self.waiting[(worker + turn) % shards].lock().expect(HELD).pop_front());
        Ok(turns.find_map(|chunk| chunk).map_or(Next::End, Next::Take))
    }

    fn is_bad(&self, chunk: &Chunk, why: &str) {
        let place = (chunk.shard, chunk.shard_offset);
        let error = bad_at(&self.manifest.shards[chunk.shard as usize].name, chunk.shard_offset, why);
        let mut bad = self.bad.lock().expect(HELD);
        if bad.as_ref().is_none_or(|(known, _)| place < *known) {
            *bad = Some((place, error));
        }
    }

    fn in_flight(&self) -> usize {
        if self.manifest.streams == 0 { 1 } else { self.options.queue_depth.max(1) as usize }
    }

    /// The longest extent.
    fn bound(&self) -> usize {
        self.manifest.chunks.iter().map(|c| c.stored_bytes as usize).max().unwrap_or(0)
    }

    fn arena_bytes(&self) -> usize {
        self.in_flight() * self.bound() + align_up(self.manifest.chunk_bytes as usize)
    }
}

/// An extent on its way in, and where it goes.
#[derive(Clone, Copy)]
struct Reading<'a> {
    chunk: &'a Chunk,
    /// Read straight into the sink's memory.
    in_place: bool,
}

/// One stream: reads extents, verifies, decodes and hands on.
struct Stream<'a> {
    job: &'a Job<'a>,
    queue: Box<dyn Queue>,
    codec: Box<dyn Codec>,
    /// The sink has no memory of its own: chunks are decoded in here.
    staging: Buffer,
    free: Vec<Buffer>,
    reading: Vec<Reading<'a>>,
    done: Vec<Completion>,
}

impl<'a> Stream<'a> {
    fn open(job: &'a Job<'a>, index: usize, arena: &Arc<Arena>) -> Result<Self> {
        let manifest = job.manifest;
        let queue = job.storage.queue(&job.files, job.in_flight() as u32, arena)?;
        let (staging_bytes, bound) = (align_up(manifest.chunk_bytes as usize), job.bound());
        // SAFETY: the arena belongs to this worker, and the ranges are disjoint.
        let staging = unsafe { arena.buffer(0, staging_bytes) };
        let free = (0..job.in_flight()).map(|i| unsafe { arena.buffer(staging_bytes + i * bound, bound) }).collect();
        let codec = codec::new(manifest.codec, None, manifest.streams == 0)?;
        let mut stream = Self { job, queue, codec, staging, free, reading: Vec::new(), done: Vec::new() };
        stream.check_trailer(index)?;
        Ok(stream)
    }

    fn check_trailer(&mut self, index: usize) -> Result<()> {
        let (shard, file) = (&self.job.manifest.shards[index], &self.job.files[index]);
        let (offset, len) = (shard.bytes - shard.trailer_bytes, shard.trailer_bytes as usize);
        if len == 0 {
            return Ok(());
        }
        if len > self.staging.len() {
            return Err(bad_at(&shard.name, offset, "its trailer is too long"));
        }
        let trailer = &mut self.staging[..len];
        file.read_at(trailer, offset).map_err(|e| Error::io("read", file.path(), e))?;
        match digest(trailer) == shard.trailer_digest.0 {
            true => Ok(()),
            false => Err(bad_at(&shard.name, offset, "its checksum does not match")),
        }
    }

    fn run(mut self, meter: &mut Meter) -> Result<()> {
        meter.start()?;
        loop {
            meter.check()?;
            let mut ended = false;
            while self.queue.in_flight() < self.job.in_flight() && !ended {
                match self.job.next(meter.index, self.queue.in_flight() == 0)? {
                    Next::Take(chunk) => self.read(chunk, meter)?,
                    Next::Later => break,
                    Next::End => ended = true,
                }
            }
            if self.queue.in_flight() == 0 {
                if ended {
                    return Ok(());
                }
                continue;
            }
            timed(&mut meter.thread_time.wait_ns, || self.queue.wait(1, &mut self.done))?;
            let now_ns = clock::now();
            meter.count(&self.done, now_ns);
            self.job.fetched_ns.fetch_max(now_ns, Ordering::Relaxed);
            for completion in std::mem::take(&mut self.done) {
                self.take(completion, meter)?;
            }
        }
    }

    /// Starts reading a chunk's extent into a buffer, or straight into the sink's memory.
    fn read(&mut self, chunk: &'a Chunk, meter: &mut Meter) -> Result<()> {
        let len = chunk.stored_bytes as usize;
        let fits = self.codec.is_identity() && len == align_up(chunk.user_bytes as usize);
        let window = match self.job.options.in_place && fits {
            true => self.job.sink.window(chunk.offset, chunk.user_bytes as usize),
            false => None,
        };
        let window = window.filter(|window| window.is_direct(len, self.job.storage.memory_alignment()));
        let in_place = window.is_some();
        let buffer = match window {
            Some(window) => window,
            None => self.free.pop().ok_or_else(|| Error::failed("no free buffer; this is a bug in savemark"))?,
        };
        let token = self.reading.len() as u64;
        self.reading.push(Reading { chunk, in_place });
        let file = chunk.shard as usize;
        let op = Op { operation: Operation::Read, file, offset: chunk.shard_offset, len, buffer, token };
        timed(&mut meter.thread_time.wait_ns, || self.queue.submit(op))
    }

    /// Verifies, decodes and hands on what has been read.
    fn take(&mut self, completion: Completion, meter: &mut Meter) -> Result<()> {
        if let Some(error) = completion.error {
            return Err(error);
        }
        let Reading { chunk, in_place } = self.reading[completion.token as usize];
        let extent = &completion.buffer[..completion.len];
        let is_whole = chunk.user_bytes as usize <= extent.len();
        let at_once = !in_place && is_whole && self.codec.is_identity() && self.job.sink.takes_unverified();
        let found = timed(&mut meter.thread_time.digest_ns, || match at_once {
            true => self.digest_and_hand_on(chunk, extent),
            false => Ok(digest(extent)),
        })?;
        if found != chunk.stored_digest.0 {
            self.job.is_bad(chunk, "its checksum does not match");
        } else if self.codec.is_identity() && !is_whole {
            self.job.is_bad(chunk, "it is shorter than what was saved");
        } else if !in_place && !at_once {
            self.hand_on(chunk, extent, meter)?;
        }
        meter.count_user(chunk.user_bytes);
        if !in_place {
            self.free.push(completion.buffer);
        } else if found == chunk.stored_digest.0 {
            self.job.sink.filled(chunk.offset, completion.buffer);
        }
        Ok(())
    }

    /// Hands on what is only being verified, to a sink that nobody reads before the end: each byte comes from memory once.
    fn digest_and_hand_on(&self, chunk: &Chunk, extent: &[u8]) -> Result<u64> {
        let (user, padding) = extent.split_at(chunk.user_bytes as usize);
        let mut digest = digest_in_parts();
        self.job.sink.write_seen(chunk.offset, user, &mut |part| digest.update(part))?;
        digest.update(padding);
        Ok(digest.finalize())
    }

    fn hand_on(&mut self, chunk: &Chunk, extent: &[u8], meter: &mut Meter) -> Result<()> {
        let (job, len) = (self.job, chunk.user_bytes as usize);
        if self.codec.is_identity() {
            return job.sink.write(chunk.offset, &extent[..len]);
        }
        let mut window = job.sink.window(chunk.offset, len);
        let user = window.as_mut().map_or(&mut self.staging[..len], |w| &mut w[..len]);
        let pieces = pieces(&job.manifest.members, chunk.offset, len);
        if let Err(e) = timed(&mut meter.thread_time.codec_ns, || self.codec.decode(extent, &pieces, user)) {
            job.is_bad(chunk, &e.to_string());
            return Ok(());
        }
        if timed(&mut meter.thread_time.digest_ns, || digest(user)) != chunk.user_digest.0 {
            job.is_bad(chunk, "it does not decode to what was saved");
            return Ok(());
        }
        match window {
            Some(window) => job.sink.filled(chunk.offset, window),
            None => job.sink.write(chunk.offset, &self.staging[..len])?,
        }
        Ok(())
    }
}

pub(super) fn open_shard(storage: &dyn Storage, shard: &Shard) -> Result<Arc<dyn File>> {
    let file = storage.open(&shard.name).map_err(|e| match e.errno() {
        Some(libc::ENOENT) => Error::corrupt(format!("shard {} is missing", shard.name)),
        _ => e,
    })?;
    match file.size()? {
        found if found != shard.bytes => {
            Err(Error::corrupt(format!("shard {} has {found} bytes instead of {}", shard.name, shard.bytes)))
        }
        _ => Ok(file),
    }
}

pub(super) fn bad_at(shard: &str, offset: u64, why: &str) -> Error {
    Error::corrupt(format!("shard {shard} is damaged at offset {offset}: {why}"))
        .hint("restore an older checkpoint; check the device and its cables, and memory with memtest")
}
