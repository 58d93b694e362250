//! Saves a running program: freeze, stream, commit, and only then let go of it or kill it.

use std::collections::HashMap;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};

use super::criu::{Criu, Ended};
use super::feed::{Filled, Found, Image, Marks, Peer};
use super::folder::Folder;
use super::guard::Guard;
use super::slots::Slots;
use super::stats;
use super::table::{self, Table};
use super::tree::Tree;
use crate::buffer::{Buffer, Pool, align_up};
use crate::checkpoint::state::lay_out;
use crate::checkpoint::{self, Cut, Feed, Manifest, Member, Next, SaveOptions, Source};
use crate::codec::Piece;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::measure::clock;
use crate::record::{Phase, ProcessTimes, Stage};
use crate::storage::Storage;

/// What becomes of the program when its checkpoint is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It is killed: it goes on where it is restored.
    Kill,
    /// It goes on.
    Run,
}

/// How to save a program.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// The process at the top of it.
    pub pid: i32,
    /// What becomes of it.
    pub after: After,
    /// Options for CRIU, as [`super::criu::options`] reads them.
    pub criu_options: Vec<String>,
}

/// Saves the program as the checkpoint of `storage`, in place of the one that is there.
///
/// Memory beside that of [`checkpoint::save`](fn@checkpoint::save): `workers × (queue depth + 1) + 2` chunks, 64 KiB for each
/// image that CRIU has open at once, and a chunk for each that grows beside another.
///
/// # Errors
/// As [`checkpoint::save`](fn@checkpoint::save), and CRIU's reasons. In all cases the program goes on, and the previous
/// checkpoint remains.
pub fn save(
    storage: &dyn Storage,
    dump: &DumpOptions,
    options: &SaveOptions,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase)> {
    let criu = Criu::find()?;
    let tree = Tree::of(dump.pid)?;
    let cpu_before = tree.cpu_ns();
    let source = Dump::new(criu, tree.clone(), dump, options)?;
    // Until here nothing has happened to the program; from here on `source` lets it go on when it is dropped.
    let (manifest, mut phase) = checkpoint::save(&source, storage, options, pool, control)?;
    let times = source.times(tree.cpu_ns().saturating_sub(cpu_before));
    source.describe(&mut phase, times);
    if !phase.durable {
        phase.notes.push("the storage is not durable: the program was not killed".into());
    }
    source.finish(if phase.durable { dump.after } else { After::Run }, &mut phase)?;
    Ok((manifest, phase))
}

/// A program as a source: its images, as CRIU writes them.
struct Dump {
    criu: Criu,
    tree: Tree,
    table: Table,
    words: Vec<String>,
    folder: Arc<Folder>,
    slots: Arc<Slots>,
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
    start_ns: u64,
    marks: Marks,
    /// The program may be stopped.
    frozen: bool,
    failed: bool,
}

/// A chunk on its way from [`Feed::take`] to [`Source::view`], and what is known of it.
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
/// A chunk is offered at the index of its image, shifted by this, and its offset in it: images of up to 16 TiB.
const SHIFT: u32 = 44;

impl Dump {
    fn new(criu: Criu, tree: Tree, dump: &DumpOptions, options: &SaveOptions) -> Result<Self> {
        let mut words = vec!["--tree".to_string(), dump.pid.to_string(), "--leave-stopped".to_string()];
        words.extend(dump.criu_options.iter().cloned());
        let table = Table::new(&tree, criu.version.clone(), dump.criu_options.clone());
        let in_flight = if options.streams == 0 { 1 } else { options.queue_depth.max(1) as usize };
        let slots = Slots::new(options.workers() * (in_flight + 1) + 2, options.chunk_bytes)?;
        Ok(Self {
            criu,
            estimate: tree.memory_bytes().max(1),
            tree,
            table,
            words,
            folder: Arc::new(Folder::new()?),
            slots,
            chunk_bytes: options.chunk_bytes,
            state: Mutex::default(),
            lent: Mutex::default(),
            layout: OnceLock::new(),
        })
    }

    /// Starts CRIU; from here on the program may be frozen.
    fn start(&self, state: &mut State) -> Result<()> {
        let path = self.folder.path().join("streamer-capture.sock");
        let listener = UnixListener::bind(&path).map_err(|e| Error::io("listen at", &path, e))?;
        let mut guard = Guard::go_on(self.tree.root, self.tree.stopped())?;
        (state.frozen, state.start_ns) = (true, clock::now());
        let criu = self.criu.start("dump", &self.folder, None, &self.words)?;
        guard.watch(criu.pid())?;
        state.guard = Some(guard);
        state.peer = Some(Peer::new(listener, criu, self.slots.clone(), self.chunk_bytes));
        Ok(())
    }

    fn lend(&self, filled: Filled, name: String) -> Cut {
        let Filled { file, offset, buffer, len, last } = filled;
        let place = (file as u64) << SHIFT | offset;
        self.lent.lock().expect(HELD).insert(place, Lent { buffer: Some(buffer), name, offset, len, last });
        // Members start on pages: what fills the last one up is part of the state, but for its end.
        let is_table = self.layout.get().is_some();
        Cut { offset: place, len: if is_table { len } else { align_up(len) } }
    }

    fn step(&self, state: &mut State, idle: bool) -> Result<Next<Cut>> {
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
                state.marks = peer.marks;
                let images = std::mem::take(&mut peer.images);
                state.rest = self.lay_out(&images)?;
                state.ended = Some(ended);
                Ok(Next::Later)
            }
        }
    }

    /// Everything is known: lays it out, with the table at its end. Returns the table's chunks.
    fn lay_out(&self, images: &[Image]) -> Result<Vec<Filled>> {
        let files: Vec<_> = images.iter().map(|i| table::Image { name: i.name.clone(), bytes: i.bytes }).collect();
        // Now that it stands still.
        let processes = self.tree.pids();
        let table = Table { files, processes, ..self.table.clone() };
        let table = serde_json::to_vec(&table).expect("a table is plain data");
        let full = images.iter().filter(|image| image.bytes > 0).map(|image| (image.name.clone(), image.bytes, 0o600));
        let (members, bytes) = lay_out(full.chain([(table::TABLE.to_string(), table.len() as u64, 0o600)]));
        let mut places = members.iter().map(|member| member.offset);
        let mut starts: Vec<u64> =
            images.iter().map(|image| if image.bytes > 0 { places.next().unwrap_or(0) } else { 0 }).collect();
        starts.extend(places);
        self.layout.set(Layout { members, bytes, starts }).map_err(|_| Error::failed("a dump ended twice"))?;
        let mut chunks = Vec::new();
        for (index, part) in table.chunks(self.chunk_bytes).enumerate() {
            let offset = (index * self.chunk_bytes) as u64;
            let mut buffer = Slots::extra(part.len())?;
            buffer[..part.len()].copy_from_slice(part);
            let last = offset + part.len() as u64 == table.len() as u64;
            chunks.push(Filled { file: images.len(), offset, buffer, len: part.len(), last });
        }
        Ok(chunks)
    }

    fn rest(&self, state: &mut State) -> Next<Cut> {
        state.rest.pop().map_or(Next::End, |filled| Next::Take(self.lend(filled, table::TABLE.to_string())))
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

    fn times(&self, program_cpu_ns: u64) -> ProcessTimes {
        let criu = self.state.lock().expect(HELD).ended.map(|ended| ended.cpu).unwrap_or_default();
        ProcessTimes {
            criu: self.criu.version.clone(),
            mode: "stream".into(),
            processes: self.tree.pids().len() as u32,
            criu_cpu_ns: criu.user_ns + criu.system_ns,
            program_cpu_ns,
            stats: stats::read(self.folder.path(), "stats-dump").unwrap_or_default(),
            ..Default::default()
        }
    }

    /// Splits the time of the transfer, and adds what CRIU and its parasite in the program used.
    fn describe(&self, phase: &mut Phase, times: ProcessTimes) {
        let state = self.state.lock().expect(HELD);
        let criu = state.ended.map(|ended| ended.cpu).unwrap_or_default();
        phase.cpu_user_ns += criu.user_ns;
        phase.cpu_system_ns += criu.system_ns + times.program_cpu_ns;
        phase.process = Some(times);
        split(&mut phase.stages, state.start_ns, state.marks);
    }

    /// The checkpoint is complete: does with the program what was asked for.
    fn finish(self, after: After, phase: &mut Phase) -> Result<()> {
        if after == After::Kill {
            self.state.lock().expect(HELD).frozen = false;
            if let Err(error) = self.tree.kill() {
                let hint = error.hint.as_deref().unwrap_or_default();
                phase.notes.push(format!("{error}; {hint}"));
            }
        }
        Ok(())
    }
}

/// `transfer` began when the workers did: before the first image was `freeze`, before the socket was closed `dump`.
fn split(stages: &mut Vec<Stage>, start_ns: u64, marks: Marks) {
    let Some(index) = stages.iter().position(|stage| stage.name == "transfer") else { return };
    let whole = stages[index].elapsed_ns;
    let freeze = marks.first_ns.saturating_sub(start_ns).min(whole);
    let dump = marks.closed_ns.saturating_sub(start_ns).min(whole).saturating_sub(freeze);
    let stage = |name: &str, elapsed_ns| Stage { name: name.into(), elapsed_ns };
    let parts = [stage("freeze", freeze), stage("dump", dump), stage("transfer", whole - freeze - dump)];
    stages.splice(index..=index, parts);
}

/// Unless it was killed, the program goes on.
impl Drop for Dump {
    fn drop(&mut self) {
        let state = match self.state.get_mut() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some(peer) = state.peer.take() {
            peer.stop();
        }
        if state.frozen {
            self.tree.go_on();
        }
        drop(state.guard.take());
    }
}

impl Feed for Dump {
    fn take(&self, idle: bool) -> Result<Next<Cut>> {
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

    fn piece(&self, cut: Cut, act: &mut dyn FnMut(&[Piece])) {
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
    fn feed(&self) -> Option<&dyn Feed> {
        Some(self)
    }
}
