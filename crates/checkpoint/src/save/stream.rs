//! One stream of a save: takes chunks, encodes them and appends them to its shard.

use std::ops::Range;
use std::sync::Arc;

use crate::chunk_range::ChunkRange;
use crate::codec::{self, Codec};
use crate::existing::not_there;
use crate::manifest::{Chunk, Digest, Shard};
use crate::save::job::Job;
use crate::state::{Next, pieces};
use savemark_base::buffer::{ALIGN, Arena, Buffer, align_up};
use savemark_base::clock;
use savemark_base::digest::{digest, in_parts};
use savemark_base::error::{Error, Result};
use savemark_base::io::{Completion, Op, Operation};
use savemark_measure::worker::{Meter, timed};
use savemark_storage::{File, Queue};

/// Shards grow by this much at a time, so that direct writes land in room that is already theirs.
const ROOM_BYTES: u64 = 64 << 20;

/// A shard that is durable.
pub(super) struct Written {
    pub(super) shard: Shard,
    pub(super) chunks: Vec<Chunk>,
    pub(super) transferred_ns: u64,
}

/// A stream of a [`Job`].
pub(super) struct Stream<'a> {
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
    pub(super) fn open(job: &'a Job, index: usize, arena: &Arc<Arena>) -> Result<Self> {
        let options = job.options;
        let codec = job.codec()?;
        let name = job.shard_name(index, &*codec);
        let file = job.create(&name)?;
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

    pub(super) fn run(mut self, meter: &mut Meter) -> Result<Written> {
        meter.start()?;
        loop {
            meter.check()?;
            while self.queue.in_flight() >= self.job.options.in_flight() {
                self.reap(1, meter)?;
            }
            match self.job.take(self.queue.in_flight() == 0)? {
                Next::Take(cut) => self.write(cut, meter)?,
                Next::Later if self.queue.in_flight() > 0 => self.reap(1, meter)?,
                Next::Later => {}
                Next::End => break,
            }
        }
        while self.queue.in_flight() > 0 {
            self.reap(1, meter)?;
        }
        let trailer = self.write_trailer()?;
        let transferred_ns = clock::now();
        self.file.truncate(self.cursor)?;
        let synced_ns = self.flush(meter)?;
        meter.sync_latency.record(synced_ns);
        self.check_stored()?;
        let shard = Shard {
            name: self.name,
            bytes: self.cursor,
            trailer_bytes: trailer.len() as u64,
            trailer_digest: Digest(if trailer.is_empty() { 0 } else { digest(trailer) }),
        };
        Ok(Written { shard, chunks: self.chunks, transferred_ns })
    }

    /// Makes the shard durable. Meanwhile what was saved is held against a state that may have changed: before the
    /// checkpoint that is there is touched, and while the device works. Returns the nanoseconds of the sync alone.
    fn flush(&mut self, meter: &mut Meter) -> Result<u64> {
        let file = Arc::clone(&self.file);
        let sync = || {
            let start_ns = clock::now();
            file.sync().map(|()| clock::now() - start_ns)
        };
        if !self.job.source.may_change() {
            return sync();
        }
        std::thread::scope(|scope| {
            let syncing = std::thread::Builder::new().spawn_scoped(scope, sync);
            let unchanged = self.check_unchanged(meter);
            let synced = match syncing {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(Error::failed("a flush panicked; this is a bug"))),
                // No thread is to be had: one after the other.
                Err(_) => sync(),
            };
            unchanged.and(synced)
        })
    }

    /// Holds every chunk of this stream against the state as it is now.
    fn check_unchanged(&mut self, meter: &mut Meter) -> Result<()> {
        let source = self.job.source;
        for chunk in &self.chunks {
            meter.check()?;
            let (offset, len) = (chunk.offset, chunk.user_bytes as usize);
            let view = source.view(offset, len);
            let user = match &view {
                Some(view) => &view[..len],
                None => {
                    source.read(offset, &mut self.staging[..len])?;
                    &self.staging[..len]
                }
            };
            let (padding, saved) = match self.codec.is_identity() {
                true => (align_up(len) - len, chunk.stored_digest),
                false => (0, chunk.user_digest),
            };
            let found = timed(&mut meter.thread_time.digest_ns, || {
                let mut digest = in_parts();
                digest.update(user);
                digest.update(&[0; ALIGN][..padding]);
                digest.finalize()
            });
            if found != saved.0 {
                return Err(changed(offset..offset + len as u64));
            }
        }
        Ok(())
    }

    /// Looks at the shard by its name: no manifest names one that is not there, whatever the storage has said.
    fn check_stored(&self) -> Result<()> {
        let storage = self.job.storage;
        let is_missing = |error: &Error| error.errno() == Some(libc::ENOENT);
        match storage.capabilities().keeps.then(|| storage.open(&self.name).and_then(|file| file.size())) {
            Some(Ok(bytes)) if bytes != self.cursor => Err(not_there(&self.name)),
            Some(Err(error)) if is_missing(&error) => Err(not_there(&self.name)),
            looked => looked.transpose().map(drop),
        }
    }

    /// Encodes a chunk and starts its write.
    fn write(&mut self, ChunkRange { offset, len }: ChunkRange, meter: &mut Meter) -> Result<()> {
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
            if let Some(view) =
                view.filter(|view| view.is_direct(stored, self.job.storage.capabilities().memory_alignment))
            {
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
        let codec = &mut self.codec;
        let mut encode = |pieces: &[codec::Piece]| codec.encode(&codec::Chunk { user, pieces }, &mut out);
        let stored = timed(&mut meter.thread_time.codec_ns, || match source.streaming() {
            None => encode(&pieces(source.members(), offset, len)),
            Some(streaming) => {
                let mut stored = Ok(0);
                streaming.piece(ChunkRange { offset, len }, &mut |pieces| stored = encode(pieces));
                stored
            }
        })?;
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
        let share = self.job.left() / self.job.options.workers() as u64;
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

fn changed(range: Range<u64>) -> Error {
    let what = format!("the state was written to while it was saved: bytes {} to {}", range.start, range.end);
    let error = Error::failed(format!("{what}. Nothing was replaced"));
    Error { range: Some(range), ..error }.hint("let nothing write to it until the save has ended, or save a copy")
}
