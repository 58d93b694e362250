//! The peer of `criu restore --stream`: fetches the images that CRIU asks for, ahead of it, and writes them into its pipes.
//!
//! The workers of [`savemark_checkpoint::restore()`] fetch, verify and decode chunks in the order that is asked for here: what an
//! open pipe needs next, then what will be needed soon, and when CRIU is done what it never asked for. One thread writes
//! into the pipes. A chunk is written when its digest was right; CRIU leaves the program stopped until all were.
//!
//! Memory: the pool, one chunk for each pipe that waits beside them, and up to 16 MiB of small images.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex};

use super::POLL_INTERVAL;
use super::catalog::Catalog;
use super::criu::Ended;
use super::dump_receiver::FIRST;
use savemark_base::buffer::{Buffer, align_up};
use savemark_base::error::{Error, Result};
use savemark_base::leased::LeasedPool;
use savemark_checkpoint::{ChunkOrder, Manifest, Member, Next, Sink};

/// What the workers and the pump share.
pub struct ImagePrefetch<'a> {
    catalog: Catalog<'a>,
    pool: Arc<LeasedPool>,
    shared: Mutex<Shared>,
    /// Something was asked for, or a buffer became free.
    wanted: Condvar,
    /// Wakes the pump: a chunk that it waits for is there.
    wake: rustix::fd::OwnedFd,
}

struct Shared {
    /// The images that CRIU has open, by a number of their own.
    open: Vec<Open>,
    /// Chunks that nobody has asked for yet and somebody will.
    early: VecDeque<usize>,
    /// Chunks that a worker is fetching.
    fetching: HashSet<usize>,
    /// Room for them, until the worker takes it.
    reserved: HashMap<usize, Buffer>,
    /// Chunks that are whole and verified and wait for the pump.
    ready: HashMap<usize, Buffer>,
    verified: Vec<bool>,
    /// Where to look for what is not verified, at the end.
    unverified_from: usize,
    ended: Option<Ended>,
    /// The pump's error, for the first worker that asks.
    failed: Option<Error>,
    /// Nothing is to be fetched any more.
    over: bool,
    stopped: bool,
}

/// An image that CRIU is reading.
struct Open {
    id: u64,
    /// The next chunk to write.
    cursor: usize,
    /// The next chunk to fetch.
    next: usize,
    end: usize,
    /// Chunks fetched or being fetched, and not yet written.
    held: usize,
}

const HELD: &str = "no panic while held";

impl Shared {
    fn take(&mut self, index: usize, room: Buffer) -> Next<usize> {
        self.fetching.insert(index);
        self.reserved.insert(index, room);
        Next::Take(index)
    }
}

impl<'a> ImagePrefetch<'a> {
    /// Of a checkpoint whose chunks belong to one image each.
    pub fn new(manifest: &'a Manifest, pool: Arc<LeasedPool>) -> Result<Self> {
        let catalog = Catalog::of(manifest)?;
        let shared = Shared {
            open: Vec::new(),
            early: catalog.small(),
            fetching: HashSet::new(),
            reserved: HashMap::new(),
            ready: HashMap::new(),
            verified: vec![false; manifest.chunks.len()],
            unverified_from: 0,
            ended: None,
            failed: None,
            over: false,
            stopped: false,
        };
        let wake =
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|e| Error { source: Some(e.into()), ..Error::failed("cannot make an eventfd") })?;
        Ok(Self { catalog, pool, shared: Mutex::new(shared), wanted: Condvar::new(), wake })
    }

    /// What wakes the pump.
    pub fn wake(&self) -> &rustix::fd::OwnedFd {
        &self.wake
    }

    /// What there is to be fetched.
    pub fn catalog(&self) -> &Catalog<'a> {
        &self.catalog
    }

    /// CRIU reads the image with these chunks from now on.
    pub fn open(&self, id: u64, chunks: std::ops::Range<usize>) {
        let mut shared = self.shared.lock().expect(HELD);
        shared.open.push(Open { id, cursor: chunks.start, next: chunks.start, end: chunks.end, held: 0 });
        self.wanted.notify_all();
    }

    /// The next chunk of an open image, if it is there.
    pub fn ready(&self, id: u64, index: usize) -> Option<Buffer> {
        let mut shared = self.shared.lock().expect(HELD);
        let buffer = shared.ready.remove(&index)?;
        if let Some(open) = shared.open.iter_mut().find(|open| open.id == id && open.next <= index) {
            // Fetched early, and nobody has counted it yet.
            (open.next, open.held) = (index + 1, open.held + 1);
        }
        Some(buffer)
    }

    /// A chunk of an open image was written.
    pub fn written(&self, id: u64) {
        let mut shared = self.shared.lock().expect(HELD);
        if let Some(open) = shared.open.iter_mut().find(|open| open.id == id) {
            (open.cursor, open.held) = (open.cursor + 1, open.held.saturating_sub(1));
        }
        self.wanted.notify_all();
    }

    /// CRIU has all of an image, or does not want more of it.
    pub fn close(&self, id: u64, left: std::ops::Range<usize>) {
        let mut shared = self.shared.lock().expect(HELD);
        shared.open.retain(|open| open.id != id);
        left.for_each(|index| drop(shared.ready.remove(&index)));
        self.wanted.notify_all();
    }

    /// CRIU has ended well: what it did not ask for is verified now.
    pub fn ended(&self, ended: Ended) {
        let mut shared = self.shared.lock().expect(HELD);
        shared.ended = Some(ended);
        shared.ready.clear();
        shared.early.clear();
        self.wanted.notify_all();
    }

    /// The pump cannot go on.
    pub fn give_up(&self, error: Error) {
        let mut shared = self.shared.lock().expect(HELD);
        (shared.failed, shared.over) = (Some(error), true);
        self.wanted.notify_all();
    }

    /// The workers have ended: the pump is to end.
    pub fn stop(&self) {
        self.shared.lock().expect(HELD).stopped = true;
        self.ring();
    }

    /// Whether the pump is to end.
    pub fn is_stopped(&self) -> bool {
        self.shared.lock().expect(HELD).stopped
    }

    /// How CRIU ended.
    pub fn how(&self) -> Option<Ended> {
        self.shared.lock().expect(HELD).ended
    }

    fn ring(&self) {
        // It only fails when it has been rung 2^64 times.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Room for a chunk: its own if it is small or must not wait.
    fn room(&self, index: usize, must: bool) -> Result<Option<Buffer>> {
        let bytes = align_up(self.catalog.chunk_bytes(index) as usize);
        if bytes <= FIRST {
            return Buffer::alone(bytes).map(Some);
        }
        match self.pool.take() {
            Some(buffer) => Ok(Some(buffer)),
            None if must => Buffer::alone(bytes).map(Some),
            None => Ok(None),
        }
    }

    fn pick(&self, shared: &mut Shared) -> Result<Next<usize>> {
        if shared.over {
            return Err(shared.failed.take().unwrap_or_else(Error::interrupted));
        }
        // The pipe with the least in hand is the next to run dry.
        let mut order: Vec<usize> = (0..shared.open.len()).collect();
        order.sort_by_key(|index| shared.open[*index].held);
        for place in order {
            let Shared { open, ready, .. } = shared;
            let open = &mut open[place];
            while open.next < open.end && ready.contains_key(&open.next) {
                (open.next, open.held) = (open.next + 1, open.held + 1);
            }
            if open.next == open.end || shared.fetching.contains(&open.next) {
                continue;
            }
            let (index, must) = (open.next, open.held == 0);
            if let Some(room) = self.room(index, must)? {
                let open = &mut shared.open[place];
                (open.next, open.held) = (open.next + 1, open.held + 1);
                return Ok(shared.take(index, room));
            }
        }
        self.pick_unasked(shared)
    }

    /// What no pipe asks for: before CRIU asks, and after it has ended.
    fn pick_unasked(&self, shared: &mut Shared) -> Result<Next<usize>> {
        while let Some(index) = shared.early.pop_front() {
            if !shared.fetching.contains(&index) && !shared.verified[index] {
                let room = Buffer::alone(self.catalog.chunk_bytes(index) as usize)?;
                return Ok(shared.take(index, room));
            }
        }
        if shared.ended.is_none() {
            return Ok(Next::Later);
        }
        while let Some(done) = shared.verified.get(shared.unverified_from) {
            let index = shared.unverified_from;
            if !done && !shared.fetching.contains(&index) {
                let Some(room) = self.room(index, false)? else { return Ok(Next::Later) };
                shared.unverified_from += 1;
                return Ok(shared.take(index, room));
            }
            shared.unverified_from += 1;
        }
        // Whoever still has one of them in flight does not end before it is verified.
        Ok(Next::End)
    }
}

impl ChunkOrder for ImagePrefetch<'_> {
    fn next(&self, idle: bool) -> Result<Next<usize>> {
        let mut shared = self.shared.lock().expect(HELD);
        let found = self.pick(&mut shared)?;
        if found == Next::Later && idle {
            drop(self.wanted.wait_timeout(shared, POLL_INTERVAL).expect(HELD));
        }
        Ok(found)
    }

    fn fail(&self) {
        self.shared.lock().expect(HELD).over = true;
        self.wanted.notify_all();
    }
}

impl Sink for ImagePrefetch<'_> {
    fn prepare(&self, members: &[Member], _: u64) -> Result<()> {
        match members == self.catalog.members() {
            true => Ok(()),
            false => Err(Error::failed("the checkpoint was replaced while it was restored").hint("restore it again")),
        }
    }

    fn window(&self, offset: u64, _len: usize) -> Option<Buffer> {
        self.shared.lock().expect(HELD).reserved.remove(&self.catalog.index_at(offset))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut window =
            self.window(offset, bytes.len()).ok_or_else(|| Error::failed("no room; this is a bug in savemark"))?;
        window[..bytes.len()].copy_from_slice(bytes);
        self.filled(offset, window);
        Ok(())
    }

    fn filled(&self, offset: u64, window: Buffer) {
        let index = self.catalog.index_at(offset);
        let mut shared = self.shared.lock().expect(HELD);
        shared.verified[index] = true;
        shared.fetching.remove(&index);
        let is_small = self.catalog.chunk_bytes(index) <= FIRST as u64;
        let is_wanted = shared.open.iter().any(|open| (open.cursor..open.end).contains(&index));
        if shared.ended.is_none() && (is_small || is_wanted) {
            shared.ready.insert(index, window);
        }
        drop(shared);
        self.ring();
    }

    fn chunk_order(&self) -> Option<&dyn ChunkOrder> {
        Some(self)
    }
}
