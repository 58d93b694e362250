//! Save: source → codec → shards → manifest. The previous checkpoint stays whole until the new one is.

use std::sync::{Arc, Mutex};

use super::existing::Existing;
use super::manifest::Manifest;
use super::state::Source;
use crate::codec::CodecName;
use savemark_base::buffer::{Arena, Pool};
use savemark_base::error::Result;
use savemark_base::record::Phase;
use savemark_measure::control::Control;
use savemark_measure::phase::{self, Watch};
use savemark_measure::worker::Meter;
use savemark_storage::Storage;

mod job;
mod stream;

use job::Job;
use stream::{Stream, Written};

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
    let orphans =
        job.make_room(if storage.capabilities().locks { existing.orphans(&storage.list()?) } else { Vec::new() })?;

    let written = write(&job, &arenas, control).and_then(|written| source.check_unchanged().map(|()| written));
    let (team, shards) = written.inspect_err(|_| job.remove_shards())?;
    watch.started(&team);
    watch.stage_until("transfer", shards.iter().map(|s| s.transferred_ns).max().unwrap_or(0));
    watch.stage("flush");
    let manifest = manifest(&job, shards);
    let bytes = manifest.to_bytes().inspect_err(|_| job.remove_shards())?;
    let proven = job.commit(&bytes, &existing)?;
    watch.stage("commit");

    let mut phase = watch.finish("save");
    team.add_to(&mut phase);
    phase.user_bytes = manifest.user_bytes();
    phase.stored_bytes = manifest.stored_bytes();
    phase.durable = storage.capabilities().durable;
    // After the clock has stopped, and no reason to fail: the new checkpoint is complete.
    for unneeded in existing.replaced(&proven).into_iter().chain(orphans) {
        if let Err(error) = unneeded.remove(storage) {
            phase.notes.push(format!("what the checkpoint before left was not removed: {error}"));
        }
    }
    Ok((manifest, phase))
}

/// Runs the streams until every shard is durable.
fn write(job: &Job, arenas: &[Arc<Arena>], control: &Control) -> Result<(phase::Team, Vec<Written>)> {
    let written = Mutex::new(Vec::new());
    let work = |meter: &mut Meter| {
        let index = meter.index;
        let result = Stream::open(job, index, &arenas[index]).and_then(|stream| stream.run(meter));
        let result = result.inspect_err(|_| {
            if let Some(streaming) = job.source.streaming() {
                streaming.fail();
            }
        })?;
        written.lock().expect("no panic while held").push((index, result));
        Ok(())
    };
    let team = if job.options.streams == 0 {
        phase::run_here(control, work)?
    } else {
        phase::run(job.options.workers(), control, work)?
    };
    let mut written = written.into_inner().expect("no panic while held");
    written.sort_by_key(|(index, _)| *index);
    Ok((team, written.into_iter().map(|(_, shard)| shard).collect()))
}

fn manifest(job: &Job, written: Vec<Written>) -> Manifest {
    let options = job.options;
    let library = job.codec().map(|codec| codec.library()).unwrap_or_default();
    let streaming = job.source.streaming();
    let streams = if streaming.is_some() { options.workers() as u32 } else { options.streams };
    let mut manifest = Manifest::new(&job.id, options.codec, library, streams, options.chunk_bytes as u64);
    manifest.members = job.source.members().to_vec();
    manifest.directories = job.source.directories().to_vec();
    manifest.state_bytes = job.source.bytes();
    for shard in written {
        manifest.chunks.extend(shard.chunks);
        manifest.shards.push(shard.shard);
    }
    if let Some(streaming) = streaming {
        manifest.chunks.iter_mut().for_each(|chunk| chunk.offset = streaming.place(chunk.offset));
    }
    manifest.chunks.sort_by_key(|c| c.offset);
    manifest
}
