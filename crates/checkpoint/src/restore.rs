//! Restore: manifest → shards → codec → sink. Every chunk is verified before the sink is told that it is whole.

mod plan;
mod stream;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub use self::plan::Plan;
use self::stream::Stream;
use super::manifest::{Chunk, MANIFEST, Manifest, Shard};
use super::state::{Next, Sink};
use savemark_base::buffer::Pool;
use savemark_base::error::{Error, Kind, Result};
use savemark_base::record::Phase;
use savemark_measure::control::Control;
use savemark_measure::phase::{self, Watch};
use savemark_measure::worker::Meter;
use savemark_storage::{File, Storage};

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

/// How often a checkpoint that is replaced while its shards are being opened is opened anew.
const ATTEMPTS: usize = 8;

/// The manifest and its shards. A save that ends in between removes the shards of the manifest that was read: then there
/// is a new one, and its shards are opened.
///
/// # Errors
/// As [`open`]; `Corrupt` if a shard is missing or has another length, though the manifest is still the same.
pub(super) fn open_whole(storage: &dyn Storage) -> Result<(Manifest, Vec<Arc<dyn File>>)> {
    let mut manifest = open(storage)?;
    for _ in 0..ATTEMPTS {
        let error = match manifest.shards.iter().map(|shard| open_shard(storage, shard)).collect() {
            Ok(files) => return Ok((manifest, files)),
            Err(error) => error,
        };
        let now = open(storage)?;
        if now.id == manifest.id {
            return Err(error);
        }
        manifest = now;
    }
    Err(replaced())
}

fn replaced() -> Error {
    Error::failed("the checkpoint was replaced while it was restored").hint("restore it again")
}

/// Restores the checkpoint of `storage` into `sink`.
///
/// # Errors
/// `Corrupt`, naming shard and offset of the first chunk that is not what was saved; `Failed` if a save has replaced the
/// checkpoint meanwhile, where the storage does not keep what is open.
pub fn restore(
    storage: &dyn Storage,
    sink: &dyn Sink,
    options: &RestoreOptions,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase)> {
    control.begin("restore", 0);
    let watch = Watch::start();
    let (manifest, files) = open_whole(storage)?;
    let job = Job::new(&manifest, files, storage, sink, options);
    match job.run(pool, control, watch) {
        Ok(phase) => Ok((manifest, phase)),
        // What was read of shards that are gone says nothing about what is there now.
        Err(error) if error.kind != Kind::Interrupted && open(storage).is_ok_and(|now| now.id != manifest.id) => {
            Err(replaced())
        }
        Err(error) => Err(error),
    }
}

const HELD: &str = "no panic while held";

struct Job<'a> {
    manifest: &'a Manifest,
    storage: &'a dyn Storage,
    sink: &'a dyn Sink,
    options: &'a RestoreOptions,
    plan: Plan,
    files: Vec<Arc<dyn File>>,
    /// Per shard the chunks that nobody has taken, from front to back.
    waiting: Vec<Mutex<VecDeque<&'a Chunk>>>,
    /// When the last extent had arrived; what follows is checking and decoding it.
    fetched_ns: AtomicU64,
    /// The first bad chunk found so far, by shard and offset.
    bad: Mutex<Option<((u32, u64), Error)>>,
}

impl<'a> Job<'a> {
    fn new(
        manifest: &'a Manifest,
        files: Vec<Arc<dyn File>>,
        storage: &'a dyn Storage,
        sink: &'a dyn Sink,
        options: &'a RestoreOptions,
    ) -> Self {
        let waiting = manifest.by_shard().into_iter().map(|chunks| Mutex::new(chunks.into())).collect();
        let (plan, fetched_ns) = (Plan::of(manifest, options.queue_depth), AtomicU64::new(0));
        Self { manifest, storage, sink, options, plan, files, waiting, fetched_ns, bad: Mutex::new(None) }
    }

    /// Fills the sink.
    fn run(&'a self, pool: &mut Pool, control: &Control, mut watch: Watch) -> Result<Phase> {
        let (manifest, sink) = (self.manifest, self.sink);
        control.begin("restore", manifest.state_bytes);
        sink.prepare(&manifest.members, manifest.state_bytes)?;
        sink.directories(&manifest.directories)?;
        let arenas = pool.take(self.plan.workers, self.plan.arena_bytes())?;
        let work = |meter: &mut Meter| {
            let index = meter.index;
            let done = Stream::open(self, index, &arenas[index]).and_then(|stream| stream.run(meter));
            done.inspect_err(|_| {
                if let Some(chunk_order) = sink.chunk_order() {
                    chunk_order.fail();
                }
            })
        };
        let team = if manifest.streams == 0 {
            phase::run_here(control, work)?
        } else {
            phase::run(self.plan.workers, control, work)?
        };
        let bad = self.bad.lock().expect(HELD).take();
        if let Some((_, error)) = bad {
            return Err(error);
        }
        sink.settle()?;
        watch.started(&team);
        watch.stage_until("transfer", self.fetched_ns.load(Ordering::Relaxed));
        watch.stage("verify");
        let mut phase = watch.finish("restore");
        team.add_to(&mut phase);
        phase.user_bytes = manifest.user_bytes();
        phase.stored_bytes = manifest.stored_bytes();
        phase.verified = Some("every chunk".into());
        phase.notes.extend(self.plan.note(manifest, self.options.queue_depth));
        Ok(phase)
    }

    /// The next chunk of the worker's own shards; when those are done, it helps with the next ones.
    fn next(&self, worker: usize, idle: bool) -> Result<Next<&'a Chunk>> {
        if self.bad.lock().expect(HELD).is_some() {
            return Ok(Next::End);
        }
        if let Some(chunk_order) = self.sink.chunk_order() {
            return Ok(match chunk_order.next(idle)? {
                Next::Take(index) => Next::Take(&self.manifest.chunks[index]),
                Next::Later => Next::Later,
                Next::End => Next::End,
            });
        }
        let (shards, first) = (self.waiting.len(), self.shards_of(worker).start);
        let mut turns = (0..shards).map(|turn| self.waiting[(first + turn) % shards].lock().expect(HELD).pop_front());
        Ok(turns.find_map(|chunk| chunk).map_or(Next::End, Next::Take))
    }

    /// The shards that a worker begins with.
    fn shards_of(&self, worker: usize) -> Range<usize> {
        let start = |worker: usize| worker * self.waiting.len() / self.plan.workers;
        start(worker)..start(worker + 1)
    }

    fn is_bad(&self, chunk: &Chunk, why: &str) {
        let place = (chunk.shard, chunk.shard_offset);
        let error = bad_at(&self.manifest.shards[chunk.shard as usize].name, chunk.shard_offset, why);
        let mut bad = self.bad.lock().expect(HELD);
        if bad.as_ref().is_none_or(|(known, _)| place < *known) {
            *bad = Some((place, error));
        }
    }
}

/// Opens a shard, and checks what can be checked without reading it.
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
