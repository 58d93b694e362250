//! Encode and decode a state in memory: what a codec can do on this machine, on this data, without a storage.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Workload;
use crate::bench::Bench;
use savemark_base::buffer::{Arena, align_up};
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::record::Phase;
use savemark_base::size::Size;
use savemark_checkpoint::Source;
use savemark_checkpoint::codec::{self, CodecName};
use savemark_checkpoint::limits::check_chunk;
use savemark_checkpoint::state::{MemoryState, pieces};
use savemark_measure::phase::{self, Watch};
use savemark_measure::ranks::Sharing;
use savemark_measure::worker::{Meter, timed};

/// Options of `codec`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodecOptions {
    /// What is measured.
    pub codec: CodecName,
    /// Its level; its default (1) when left out.
    pub level: Option<i32>,
    /// Bytes of the generated state; of a real one, at most so many of its first bytes.
    pub size: Size,
    /// A directory to take as the state instead (a model, say).
    pub state: Option<PathBuf>,
    /// Bytes that are encoded at a time.
    pub chunk_size: Size,
    /// Threads; each encodes a part of the state.
    pub workers: u32,
}

impl Default for CodecOptions {
    fn default() -> Self {
        Self {
            codec: CodecName::Zstd,
            level: None,
            size: Size(64 << 20),
            state: None,
            chunk_size: Size(1 << 20),
            workers: 1,
        }
    }
}

impl CodecOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        codec::new(self.codec, self.level, false)?;
        check_chunk(self.chunk_size.0)?;
        if self.size.0 == 0 || !(1..=1024).contains(&self.workers) {
            return Err(Error::usage("size must not be 0, and workers 1 to 1024"));
        }
        Ok(())
    }
}

/// The workload.
pub struct Codec<'a> {
    options: &'a CodecOptions,
    job: Option<Job>,
}

/// The state, and per worker the room for its extents with their lengths.
struct Job {
    state: Arc<MemoryState>,
    arenas: Vec<Arc<Arena>>,
    bound: usize,
    stored: Vec<std::sync::Mutex<Vec<usize>>>,
}

impl<'a> Codec<'a> {
    /// With these options.
    pub fn new(options: &'a CodecOptions) -> Self {
        Self { options, job: None }
    }

    /// Offsets and lengths of the chunks of one worker.
    fn chunks(&self, state: &MemoryState, worker: usize) -> Vec<(u64, usize)> {
        let (size, chunk) = (self.options.size.0.min(state.bytes()), self.options.chunk_size.0);
        let step = self.options.workers as usize;
        (0..size.div_ceil(chunk))
            .skip(worker)
            .step_by(step)
            .map(|i| (i * chunk, (size - i * chunk).min(chunk) as usize))
            .collect()
    }

    fn encode(&self, job: &Job, meter: &mut Meter) -> Result<()> {
        let mut codec = codec::new(self.options.codec, self.options.level, false)?;
        // SAFETY: each worker has an arena of its own, and a phase drops its buffers before the next one cuts it.
        let mut room = unsafe { job.arenas[meter.index].cut(job.bound) };
        let mut lengths = Vec::new();
        let start_ns = meter.start()?;
        for ((offset, len), out) in self.chunks(&job.state, meter.index).into_iter().zip(&mut room) {
            meter.check()?;
            let user = job.state.view(offset, len).expect("memory has a view");
            let pieces = pieces(job.state.members(), offset, len);
            let chunk = codec::Chunk { user: &user[..len], pieces: &pieces };
            let stored = timed(&mut meter.thread_time.codec_ns, || codec.encode(&chunk, out))?;
            lengths.push(stored);
            tally(meter, start_ns, len, stored);
        }
        *job.stored[meter.index].lock().expect("one worker each") = lengths;
        Ok(())
    }

    fn decode(&self, job: &Job, meter: &mut Meter) -> Result<()> {
        let mut codec = codec::new(self.options.codec, self.options.level, false)?;
        let chunk = align_up(self.options.chunk_size.0 as usize);
        // SAFETY: as in `encode`.
        let room = unsafe { job.arenas[meter.index].cut(job.bound) };
        let lengths = job.stored[meter.index].lock().expect("one worker each").clone();
        // SAFETY: the range behind the extents is used by this worker alone.
        let mut out = unsafe { job.arenas[meter.index].buffer(lengths.len() * job.bound, chunk) };
        let start_ns = meter.start()?;
        for (((offset, len), extent), stored) in
            self.chunks(&job.state, meter.index).into_iter().zip(&room).zip(lengths)
        {
            meter.check()?;
            let pieces = pieces(job.state.members(), offset, len);
            timed(&mut meter.thread_time.codec_ns, || codec.decode(&extent[..stored], &pieces, &mut out[..len]))?;
            tally(meter, start_ns, len, stored);
        }
        Ok(())
    }
}

fn tally(meter: &mut Meter, start_ns: u64, user: usize, stored: usize) {
    meter.count_user(user as u64);
    meter.stored_bytes += stored as u64;
    meter.operations += 1;
    meter.timeline.add(clock::now().saturating_sub(start_ns), user as u64);
}

impl Workload for Codec<'_> {
    fn sharing(&self) -> Sharing {
        Sharing::Apart
    }

    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        let bytes = bench.ranks.share(self.options.size.0).max(1);
        let state = bench.memory.source(bench.common, bytes, self.options.state.as_deref())?;
        let chunk = self.options.chunk_size.0 as usize;
        let chunks = self.chunks(&state, 0);
        let most = chunks.iter().map(|(offset, len)| pieces(state.members(), *offset, *len).len()).max().unwrap_or(0);
        let bound = align_up(codec::new(self.options.codec, self.options.level, false)?.bound(chunk, most));
        let workers = self.options.workers as usize;
        let arenas = bench.memory.room.take(workers, chunks.len() * bound + align_up(chunk))?;
        let stored = (0..workers).map(|_| std::sync::Mutex::default()).collect();
        self.job = Some(Job { state, arenas, bound, stored });
        Ok(None)
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        vec!["encode", "decode"]
    }

    fn run(&mut self, name: &str, bench: &mut Bench) -> Result<Phase> {
        let job = self.job.as_ref().expect("prepared before it runs");
        bench.control.begin(name, bench.ranks.share(self.options.size.0));
        let watch = Watch::start();
        let team = phase::run(self.options.workers as usize, bench.control, |meter| match name {
            "encode" => self.encode(job, meter),
            _ => self.decode(job, meter),
        })?;
        Ok(team.into_phase(watch, name))
    }

    fn cleanup(&mut self, _: &mut Bench) -> Result<()> {
        Ok(())
    }
}
