//! One stream of a restore: its reads, and what is done with each extent that has arrived.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Job, Plan, bad_at};
use crate::codec::{self, Codec};
use crate::manifest::Chunk;
use crate::state::Next;
use crate::verify::{NOT_STORED, decode};
use savemark_base::buffer::{Arena, Buffer, align_up};
use savemark_base::clock;
use savemark_base::digest::{digest, in_parts};
use savemark_base::error::{Error, Result};
use savemark_base::io::{Completion, Op, Operation};
use savemark_measure::worker::{Meter, timed};
use savemark_storage::Queue;

/// An extent on its way in, and where it goes.
#[derive(Clone, Copy)]
struct Reading<'a> {
    chunk: &'a Chunk,
    /// Read straight into the sink's memory.
    in_place: bool,
}

/// One stream: reads extents, verifies, decodes and hands on.
pub struct Stream<'a> {
    job: &'a Job<'a>,
    queue: Box<dyn Queue>,
    codec: Box<dyn Codec>,
    /// The sink has no memory of its own: chunks are decoded in here.
    staging: Buffer,
    free: Vec<Buffer>,
    reading: Vec<Reading<'a>>,
    done: Vec<Completion>,
    /// Read, and not looked at.
    arrived: VecDeque<Completion>,
}

impl<'a> Stream<'a> {
    pub fn open(job: &'a Job<'a>, index: usize, arena: &Arc<Arena>) -> Result<Self> {
        let manifest = job.manifest;
        let Plan { buffers, in_flight, bound, staging: staging_bytes, .. } = job.plan;
        let queue = job.storage.queue(&job.files, in_flight as u32, arena)?;
        // SAFETY: the arena belongs to this worker, and the ranges are disjoint.
        let staging = unsafe { arena.buffer(0, staging_bytes) };
        let free = (0..buffers).map(|i| unsafe { arena.buffer(staging_bytes + i * bound, bound) }).collect();
        let codec = codec::new(manifest.codec, None, manifest.streams == 0)?;
        let (reading, done, arrived) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut stream = Self { job, queue, codec, staging, free, reading, done, arrived };
        job.shards_of(index).try_for_each(|shard| stream.check_trailer(shard))?;
        Ok(stream)
    }

    fn check_trailer(&mut self, index: usize) -> Result<()> {
        let (shard, file) = (&self.job.manifest.shards[index], &self.job.files[index]);
        let (offset, len) = (shard.bytes - shard.trailer_bytes, shard.trailer_bytes as usize);
        if len == 0 {
            return Ok(());
        }
        let trailer = &mut self.staging[..len];
        file.read_at(trailer, offset).map_err(|e| Error::io("read", file.path(), e))?;
        match digest(trailer) == shard.trailer_digest.0 {
            true => Ok(()),
            false => Err(bad_at(&shard.name, offset, NOT_STORED)),
        }
    }

    pub fn run(mut self, meter: &mut Meter) -> Result<()> {
        meter.start()?;
        loop {
            meter.check()?;
            let ended = self.fill(meter)?;
            if let Some(completion) = self.arrived.pop_front() {
                self.take(completion, meter)?;
            } else if self.queue.in_flight() > 0 {
                self.reap(1, meter)?;
            } else if ended {
                return Ok(());
            }
        }
    }

    /// Starts as many reads as there is room for, so that the device has them while this thread looks at what has arrived;
    /// tells whether there are no more.
    fn fill(&mut self, meter: &mut Meter) -> Result<bool> {
        let (mut ended, mut started) = (false, false);
        while self.queue.in_flight() < self.job.plan.in_flight && self.held() < self.job.plan.buffers && !ended {
            match self.job.next(meter.index, self.held() == 0)? {
                Next::Take(chunk) => self.read(chunk, meter)?,
                Next::Later => break,
                Next::End => ended = true,
            }
            started |= !ended;
        }
        if started && !self.arrived.is_empty() {
            self.reap(0, meter)?;
        }
        Ok(ended)
    }

    /// Chunks that are on their way in, or have not been looked at.
    fn held(&self) -> usize {
        self.queue.in_flight() + self.arrived.len()
    }

    /// Hands what was started to the device, and takes what has arrived, at least `min`.
    fn reap(&mut self, min: usize, meter: &mut Meter) -> Result<()> {
        timed(&mut meter.thread_time.wait_ns, || self.queue.wait(min, &mut self.done))?;
        if !self.done.is_empty() {
            let now_ns = clock::now();
            meter.count(&self.done, now_ns);
            self.job.fetched_ns.fetch_max(now_ns, Ordering::Relaxed);
            self.arrived.extend(self.done.drain(..));
        }
        Ok(())
    }

    /// Starts reading a chunk's extent into a buffer, or straight into the sink's memory.
    fn read(&mut self, chunk: &'a Chunk, meter: &mut Meter) -> Result<()> {
        let len = chunk.stored_bytes as usize;
        let fits = self.codec.is_identity() && len == align_up(chunk.user_bytes as usize);
        let window = match self.job.options.in_place && fits {
            true => self.job.sink.window(chunk.offset, chunk.user_bytes as usize),
            false => None,
        };
        let window = window.filter(|window| window.is_direct(len, self.job.storage.capabilities().memory_alignment));
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
            self.job.is_bad(chunk, NOT_STORED);
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
        let mut digest = in_parts();
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
        if let Err(why) = decode(&mut *self.codec, job.manifest, chunk, extent, user, &mut meter.thread_time) {
            job.is_bad(chunk, &why);
            return Ok(());
        }
        match window {
            Some(window) => job.sink.filled(chunk.offset, window),
            None => job.sink.write(chunk.offset, &self.staging[..len])?,
        }
        Ok(())
    }
}
