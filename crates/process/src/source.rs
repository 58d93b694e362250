//! A program as a source: its images, as CRIU writes them, chunk by chunk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};

use super::criu::{Criu, Ended};
use super::criu_socket::CriuSocket;
use super::dump_receiver::{Filled, Found, Image, Peer};
use super::folder::Folder;
use super::gpus::Gpus;
use super::guard::Guard;
use super::limits;
use super::options::{DumpOptions, Times};
use super::peers;
use super::process_manifest::{self, ProcessManifest};
use super::tree::Tree;
use savemark_base::buffer::{Buffer, align_up};
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::leased::LeasedPool;
use savemark_checkpoint::codec::Piece;
use savemark_checkpoint::inspect::PROCESS_MANIFEST;
use savemark_checkpoint::state::lay_out;
use savemark_checkpoint::{ChunkRange, Member, Next, SaveOptions, Source, StreamingSource};

/// A program as a source: its images, as CRIU writes them. When it is dropped, the program goes on, unless it was killed.
pub struct Dump {
    /// What writes them.
    pub criu: Criu,
    /// The program.
    pub tree: Tree,
    /// For CRIU's log and account of itself.
    pub folder: Arc<Folder>,
    gpus: Gpus,
    options: DumpOptions,
    table: ProcessManifest,
    words: Vec<String>,
    pool: Arc<LeasedPool>,
    chunk_bytes: usize,
    estimate: u64,
    state: Mutex<State>,
    lent: Mutex<HashMap<u64, Lent>>,
    layout: OnceLock<Layout>,
}

/// What a worker holds while it looks for a chunk.
#[derive(Default)]
struct State {
    peer: Option<Peer>,
    guard: Option<Guard>,
    /// The table, which comes after the last image.
    rest: Vec<Filled>,
    taken_bytes: u64,
    ended: Option<Ended>,
    times: Times,
    /// The program may be stopped.
    frozen: bool,
    failed: bool,
}

/// A chunk on its way from [`StreamingSource::take`] to [`Source::view`], and what is known of it.
struct Lent {
    buffer: Option<Buffer>,
    name: String,
    offset: u64,
    len: usize,
    last: bool,
}

/// Where everything lies, once all of it is known.
struct Layout {
    members: Vec<Member>,
    bytes: u64,
    /// Of each image, the member's start.
    starts: Vec<u64>,
}

const HELD: &str = "no panic while held";
/// A chunk is offered at the index of its image, shifted by this, and its offset in it.
const SHIFT: u32 = limits::IMAGE_SHIFT;

impl Dump {
    /// Of a program to which nothing has happened yet.
    pub fn new(criu: Criu, tree: Tree, gpus: Gpus, dump: &DumpOptions, options: &SaveOptions) -> Result<Self> {
        let mut words = vec!["--tree".to_string(), dump.pid.to_string(), "--leave-stopped".to_string()];
        words.extend(dump.criu_options.iter().cloned());
        let mut table = ProcessManifest::new(&tree, criu.version.clone(), dump.criu_options.clone());
        table.gpus = gpus.processes().to_vec();
        let in_flight = if options.streams == 0 { 1 } else { options.queue_depth.max(1) as usize };
        let pool = LeasedPool::with(options.workers() * (in_flight + 1) + 2, options.chunk_bytes)?;
        Ok(Self {
            criu,
            estimate: tree.memory_bytes().max(1),
            tree,
            folder: Arc::new(Folder::new()?),
            gpus,
            options: dump.clone(),
            table,
            words,
            pool,
            chunk_bytes: options.chunk_bytes,
            state: Mutex::default(),
            lent: Mutex::default(),
            layout: OnceLock::new(),
        })
    }

    /// Empties the GPUs and starts CRIU; from here on the program may be frozen.
    fn start(&self, state: &mut State) -> Result<()> {
        let line = CriuSocket::listen("dump", &self.folder)?;
        let mut guard = Guard::go_on(self.tree.root, self.tree.stopped(), &self.folder)?;
        (state.frozen, state.times.start_ns) = (true, clock::now());
        self.gpus.take_off()?;
        state.times.criu_ns = clock::now();
        let criu = self.criu.start("dump", &self.folder, None, &self.words)?;
        guard.watch(criu.pid())?;
        state.guard = Some(guard);
        state.peer = Some(Peer::new(line, criu, self.pool.clone(), self.chunk_bytes));
        Ok(())
    }

    /// Whether it uses one.
    pub fn has_gpu(&self) -> bool {
        !self.gpus.processes().is_empty()
    }

    /// How CRIU ended, and when what happened.
    pub fn ended(&self) -> (Option<Ended>, Times) {
        let state = self.state.lock().expect(HELD);
        (state.ended, state.times)
    }

    /// Kills the program: its checkpoint is complete.
    ///
    /// # Errors
    /// As [`Tree::kill`].
    pub fn kill(&self) -> Result<()> {
        self.state.lock().expect(HELD).frozen = false;
        self.tree.kill()
    }

    /// Lets the program go on, with what it had on its GPUs.
    ///
    /// # Errors
    /// As [`Gpus::put_back`].
    pub fn let_go(&mut self) -> Result<()> {
        let state = match self.state.get_mut() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some(peer) = state.peer.take() {
            peer.stop();
        }
        let frozen = std::mem::take(&mut state.frozen);
        if frozen {
            self.tree.go_on();
        }
        drop(state.guard.take());
        if frozen { self.gpus.put_back() } else { Ok(()) }
    }

    fn lend(&self, filled: Filled, name: String) -> ChunkRange {
        let Filled { file, offset, buffer, len, last } = filled;
        let place = (file as u64) << SHIFT | offset;
        self.lent.lock().expect(HELD).insert(place, Lent { buffer: Some(buffer), name, offset, len, last });
        // Members start on pages: what fills the last one up is part of the state, but for its end.
        let is_table = self.layout.get().is_some();
        ChunkRange { offset: place, len: if is_table { len } else { align_up(len) } }
    }

    fn step(&self, state: &mut State, idle: bool) -> Result<Next<ChunkRange>> {
        if state.ended.is_some() {
            return Ok(self.rest(state));
        }
        if state.peer.is_none() {
            self.start(state)?;
        }
        let peer = state.peer.as_mut().expect("just started");
        match peer.next(idle)? {
            Found::Nothing => Ok(Next::Later),
            Found::Chunk(filled) => {
                let name = peer.images[filled.file].name.clone();
                state.taken_bytes += filled.len as u64;
                Ok(Next::Take(self.lend(filled, name)))
            }
            Found::Ended(ended) => {
                state.times.marks = peer.marks;
                let images = std::mem::take(&mut peer.images);
                // Once more, now that it stands still: it may have met somebody in between.
                peers::check(&self.tree, &self.options)?;
                state.rest = self.lay_out(&images)?;
                state.ended = Some(ended);
                Ok(Next::Later)
            }
        }
    }

    /// Everything is known: lays it out, with the table at its end. Returns the table's chunks.
    fn lay_out(&self, images: &[Image]) -> Result<Vec<Filled>> {
        let files: Vec<_> =
            images.iter().map(|i| process_manifest::Image { name: i.name.clone(), bytes: i.bytes }).collect();
        // Now that it stands still.
        let processes = self.tree.pids();
        let alive = |pids: &[i32]| pids.iter().copied().filter(|pid| processes.contains(pid)).collect();
        let (stopped, gpus) = (alive(&self.table.stopped), alive(&self.table.gpus));
        let table = ProcessManifest { files, stopped, gpus, processes, ..self.table.clone() };
        table.check()?;
        let table = serde_json::to_vec(&table).expect("a table is plain data");
        let full = images.iter().filter(|image| image.bytes > 0).map(|image| (image.name.clone(), image.bytes, 0o600));
        let (members, bytes) = lay_out(full.chain([(PROCESS_MANIFEST.to_string(), table.len() as u64, 0o600)]));
        let mut places = members.iter().map(|member| member.offset);
        let mut starts: Vec<u64> =
            images.iter().map(|image| if image.bytes > 0 { places.next().unwrap_or(0) } else { 0 }).collect();
        starts.extend(places);
        self.layout.set(Layout { members, bytes, starts }).map_err(|_| Error::failed("a dump ended twice"))?;
        let mut chunks = Vec::new();
        for (index, part) in table.chunks(self.chunk_bytes).enumerate() {
            let offset = (index * self.chunk_bytes) as u64;
            let mut buffer = Buffer::alone(part.len())?;
            buffer[..part.len()].copy_from_slice(part);
            let last = offset + part.len() as u64 == table.len() as u64;
            chunks.push(Filled { file: images.len(), offset, buffer, len: part.len(), last });
        }
        Ok(chunks)
    }

    fn rest(&self, state: &mut State) -> Next<ChunkRange> {
        state.rest.pop().map_or(Next::End, |filled| Next::Take(self.lend(filled, PROCESS_MANIFEST.to_string())))
    }

    fn lock(&self, idle: bool) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            // Whoever has nothing in flight may wait: nobody waits for buffers that it holds.
            Err(TryLockError::WouldBlock) if idle => Some(self.state.lock().expect(HELD)),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(e)) => panic!("{e}"),
        }
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        // Whoever wants to know whether this works has called it already.
        let _ = self.let_go();
    }
}

impl StreamingSource for Dump {
    fn take(&self, idle: bool) -> Result<Next<ChunkRange>> {
        let Some(mut state) = self.lock(idle) else { return Ok(Next::Later) };
        if state.failed {
            return Err(Error::interrupted());
        }
        let found = self.step(&mut state, idle);
        state.failed |= found.is_err();
        found
    }

    fn left(&self) -> u64 {
        // Asked by a worker that has a chunk in its hands: it must not wait for one that looks for the next.
        let taken = self.state.try_lock().map_or(0, |state| state.taken_bytes);
        self.estimate.saturating_sub(taken)
    }

    fn fail(&self) {
        self.state.lock().expect(HELD).failed = true;
    }

    fn piece(&self, cut: ChunkRange, act: &mut dyn FnMut(&[Piece])) {
        let Some(lent) = self.lent.lock().expect(HELD).remove(&cut.offset) else { return act(&[]) };
        let end = lent.offset + lent.len as u64;
        let member_bytes = if lent.last { end } else { end + 1 };
        act(&[Piece { name: &lent.name, mode: 0o600, member_bytes, offset: lent.offset, start: 0, len: lent.len }]);
    }

    fn place(&self, offset: u64) -> u64 {
        let starts = self.layout.get().map_or(&[][..], |layout| &layout.starts);
        starts.get((offset >> SHIFT) as usize).map_or(offset, |start| start + (offset & ((1 << SHIFT) - 1)))
    }
}

impl Source for Dump {
    fn members(&self) -> &[Member] {
        self.layout.get().map_or(&[], |layout| &layout.members)
    }
    fn bytes(&self) -> u64 {
        self.layout.get().map_or(self.estimate, |layout| layout.bytes)
    }
    fn view(&self, offset: u64, _len: usize) -> Option<Buffer> {
        self.lent.lock().expect(HELD).get_mut(&offset)?.buffer.take()
    }
    fn read(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::failed("a chunk of a program was read twice; this is a bug in savemark"))
    }
    fn streaming(&self) -> Option<&dyn StreamingSource> {
        Some(self)
    }
}
