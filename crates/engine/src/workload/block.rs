//! What reading and writing a file sequentially and at random have in common: a file, workers, and the hot loop.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::{ALIGN, Arena, Buffer};
use crate::checkpoint::digest;
use crate::error::{Error, Result};
use crate::measure::{clock, content};
use crate::payload;
use crate::phase::{self, Watch};
use crate::record::{Cache, Extents, Payload, Phase};
use crate::run::Bench;
use crate::size::{Size, Span};
use crate::storage::{File, Op, Operation, Storage};
use crate::trial::Common;
use crate::worker::{Meter, timed};

/// When written bytes are made durable; always inside the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// Never.
    None,
    /// After each write.
    Each,
    /// Once, after each worker's last write.
    #[default]
    End,
}

/// What all workers do.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub operation: Operation,
    pub file_bytes: u64,
    pub transfer_bytes: usize,
    pub queue_depth: u32,
    pub workers: usize,
    /// Completions to wait for in one system call.
    pub batch: usize,
    pub sync: Sync,
    pub duration: Option<Span>,
    /// Bytes of memory that each worker moves through, round and round; at least what is in flight.
    pub memory_bytes: u64,
    /// Look at every byte that was read.
    pub checksum: bool,
    /// Each worker moves a part of its own, from front to back.
    pub in_parts: bool,
}

impl Plan {
    /// `batch` as given, or an eighth of the depth: enough to share a system call, too little to drain the queue.
    pub fn batch_or_default(batch: Option<u32>, queue_depth: u32) -> usize {
        batch.unwrap_or(queue_depth / 8).clamp(1, queue_depth.max(1)) as usize
    }

    pub fn check(&self) -> Result<()> {
        if self.transfer_bytes == 0 || !self.transfer_bytes.is_multiple_of(ALIGN) {
            return Err(Error::usage(format!("transfer_size: {} is not a multiple of 4KiB", self.transfer_bytes)));
        }
        if self.blocks() == 0 {
            return Err(Error::usage(format!("size: {} is less than one transfer", Size(self.file_bytes))));
        }
        if !(1..=4096).contains(&self.queue_depth) || !(1..=1024).contains(&self.workers) {
            return Err(Error::usage("queue_depth must be 1 to 4096 and workers 1 to 1024"));
        }
        if (self.workers as u64) > self.blocks() {
            return Err(Error::usage(format!("{} workers share {} transfers", self.workers, self.blocks()))
                .hint("fewer --workers or a larger --size"));
        }
        if self.sync == Sync::Each && (self.queue_depth > 1 || self.operation == Operation::Read) {
            return Err(Error::usage("sync: `each` means writing one block at a time").hint("use --queue-depth 1"));
        }
        Ok(())
    }

    /// Whole transfers in the file.
    pub fn blocks(&self) -> u64 {
        self.file_bytes / self.transfer_bytes.max(1) as u64
    }

    /// The blocks that are `worker`'s part.
    pub fn part(&self, worker: usize) -> Range<u64> {
        let (blocks, workers, worker) = (self.blocks(), self.workers as u64, worker as u64);
        blocks * worker / workers..blocks * (worker + 1) / workers
    }

    /// Whether each worker writes a file of its own: where a file is written once, from front to back, by one.
    fn splits(&self, storage: &dyn Storage) -> bool {
        self.operation == Operation::Write && self.in_parts && self.workers > 1 && !storage.rewrites()
    }

    /// The files that are written or read; worker `i` writes the file `i`, or all the only one.
    pub fn names(&self, storage: &dyn Storage) -> Vec<String> {
        match self.splits(storage) {
            true => (0..self.workers).map(|worker| format!("savemark-data-{worker:04}.bin")).collect(),
            false => vec![FILE.to_string()],
        }
    }

    fn arena_bytes(&self) -> usize {
        self.buffers() * self.transfer_bytes
    }

    fn buffers(&self) -> usize {
        (self.memory_bytes as usize / self.transfer_bytes).max(self.queue_depth as usize)
    }
}

/// The file that is read or written; a marker of ours in its name.
pub(super) const FILE: &str = "savemark-data.bin";

/// Writes the whole file, unmeasured by the study but recorded: nothing sparse or unwritten is ever read.
pub(super) fn lay_out(plan: &Plan, bench: &mut Bench) -> Result<Phase> {
    const TRANSFER: usize = 4 << 20;
    let whole = Plan {
        operation: Operation::Write,
        transfer_bytes: if plan.file_bytes.is_multiple_of(TRANSFER as u64) { TRANSFER } else { plan.transfer_bytes },
        queue_depth: 4,
        workers: 1,
        batch: 1,
        sync: Sync::End,
        duration: None,
        memory_bytes: 0,
        checksum: false,
        in_parts: true,
        ..plan.clone()
    };
    create(&whole, bench)?;
    let blocks = whole.blocks();
    run("prepare", &whole, bench, |_| {
        let mut next = 0..blocks;
        move || next.next()
    })
}

/// Before a read: drops the file from the page cache, says what is left of it there, and whether it has data.
pub(super) fn cold(plan: &Plan, bench: &Bench) -> Result<(Option<Cache>, Option<Extents>)> {
    if plan.operation == Operation::Write {
        return Ok((None, None));
    }
    let names = [FILE.to_string()];
    bench.storage.evict(&names)?;
    Ok((Some(bench.storage.residency(&names)?), bench.storage.extents(&names)?))
}

/// What the buffers of the first worker hold; the others' differ by the seed's place only.
fn content(plan: &Plan, buffers: &[Buffer]) -> Option<Payload> {
    let copy = |offset: u64, block: &mut [u8]| -> Result<()> {
        let (buffer, at) = (offset as usize / plan.transfer_bytes, offset as usize % plan.transfer_bytes);
        block.copy_from_slice(&buffers[buffer][at..at + block.len()]);
        Ok(())
    };
    content::sample((buffers.len() * plan.transfer_bytes) as u64, copy).ok()
}

/// Creates the file with its room reserved, as fio does: what is measured is writing, not allocating.
pub(super) fn create(plan: &Plan, bench: &Bench) -> Result<()> {
    if plan.operation == Operation::Write && !bench.storage.rewrites() {
        check_written_once(plan)?;
    }
    let names = plan.names(&*bench.storage);
    let bytes = plan.file_bytes.div_ceil(names.len() as u64);
    names.iter().try_for_each(|name| bench.storage.create(name)?.allocate(bytes))
}

/// Removes what [`create`] made.
pub(super) fn remove(plan: &Plan, bench: &Bench) -> Result<()> {
    plan.names(&*bench.storage).iter().try_for_each(|name| bench.storage.remove(name))
}

/// An object is written once, from front to back, by one worker, and is there when it is synced.
fn check_written_once(plan: &Plan) -> Result<()> {
    let why = match plan {
        _ if !plan.in_parts => "--workload sequential",
        _ if plan.duration.is_some() => "no --duration",
        _ if plan.sync != Sync::End => "--sync end",
        _ => return Ok(()),
    };
    Err(Error::usage("this storage writes a file once, from front to back, and keeps it when it is synced")
        .hint(format!("use {why}, or --workload checkpoint, which writes many objects at once")))
}

/// Runs the workers of `plan`; `offsets(worker)` makes the sequence of blocks of each, ended by `None`.
pub(super) fn run<N, F>(name: &str, plan: &Plan, bench: &mut Bench, offsets: N) -> Result<Phase>
where
    N: Fn(usize) -> F + std::marker::Sync,
    F: FnMut() -> Option<u64>,
{
    let total = if plan.duration.is_some() { 0 } else { plan.file_bytes };
    bench.control.begin(name, total);
    let arenas = bench.memory.pool.take(plan.workers, plan.arena_bytes())?;
    let writing = plan.operation == Operation::Write;
    let storage = &bench.storage;
    let open = |name: &String| if writing { storage.open_for_writing(name) } else { storage.open(name) };
    let files = plan.names(&**storage).iter().map(open).collect::<Result<Vec<_>>>()?;
    // Filled before the clock starts: making data is not the storage's doing.
    let filled: Vec<_> = (0..plan.workers).map(|i| buffers(plan, &arenas[i], bench.common, i)).collect();
    let payload = filled.first().filter(|_| writing).and_then(|first| content(plan, first));
    let filled: Vec<_> = filled.into_iter().map(Mutex::new).collect();
    let watch = Watch::start();
    let team = phase::run(plan.workers, bench.control, |meter| {
        let arena = &arenas[meter.index];
        let free = std::mem::take(&mut *filled[meter.index].lock().expect("one worker each"));
        let file = files.get(meter.index).unwrap_or(&files[0]);
        let base = if files.len() > 1 { plan.part(meter.index).start } else { 0 };
        let queue = storage.queue(&[Arc::clone(file)], plan.queue_depth, arena)?;
        Loop { plan, base, file: &**file, queue, free: free.into() }.run(meter, offsets(meter.index))
    })?;
    let mut phase = team.into_phase(watch, name);
    phase.payload = payload;
    phase.durable = writing && plan.sync != Sync::None && bench.storage.durable();
    Ok(phase)
}

fn buffers(plan: &Plan, arena: &Arc<Arena>, common: &Common, worker: usize) -> Vec<Buffer> {
    let mut buffers = arena.cut(plan.transfer_bytes);
    buffers.truncate(plan.buffers());
    if plan.operation == Operation::Write {
        for (index, buffer) in buffers.iter_mut().enumerate() {
            let place = (worker * plan.buffers() + index) * plan.transfer_bytes;
            payload::fill(common.payload, common.seed, place as u64, buffer);
        }
    }
    buffers
}

/// The hot loop.
struct Loop<'a> {
    plan: &'a Plan,
    /// The block at which the file starts.
    base: u64,
    file: &'a dyn File,
    queue: Box<dyn crate::storage::Queue>,
    /// First in, first out: the I/Os go round all of the memory.
    free: VecDeque<Buffer>,
}

impl Loop<'_> {
    fn run(mut self, meter: &mut Meter, mut next: impl FnMut() -> Option<u64>) -> Result<()> {
        let plan = self.plan;
        let mut done = Vec::with_capacity(plan.queue_depth as usize);
        let deadline_ns = meter.start()?.saturating_add(plan.duration.map_or(u64::MAX / 2, |span| span.0));
        let (mut open, mut sum) = (true, 0);
        loop {
            while open && self.queue.in_flight() < plan.queue_depth as usize {
                let Some(block) = next() else {
                    open = false;
                    break;
                };
                let buffer = self.free.pop_front().expect("at least as many buffers as may be in flight");
                let offset = (block - self.base) * plan.transfer_bytes as u64;
                let (operation, len) = (plan.operation, plan.transfer_bytes);
                self.queue.submit(Op { operation, file: 0, offset, len, buffer, token: 0 })?;
            }
            if self.queue.in_flight() == 0 {
                break;
            }
            self.queue.wait(plan.batch, &mut done)?;
            let now_ns = clock::now();
            meter.count(&done, now_ns);
            meter.count_user((done.len() * plan.transfer_bytes) as u64);
            for completion in done.drain(..) {
                if let Some(error) = completion.error {
                    return Err(error);
                }
                if plan.checksum {
                    let bytes = &completion.buffer[..completion.len];
                    sum ^= timed(&mut meter.thread_time.digest_ns, || digest(bytes));
                }
                self.free.push_back(completion.buffer);
            }
            if plan.sync == Sync::Each {
                self.sync(meter)?;
            }
            meter.check()?;
            open &= now_ns < deadline_ns;
        }
        std::hint::black_box(sum);
        if plan.sync == Sync::End && plan.operation == Operation::Write { self.sync(meter) } else { Ok(()) }
    }

    fn sync(&self, meter: &mut Meter) -> Result<()> {
        let mut elapsed_ns = 0;
        timed(&mut elapsed_ns, || self.file.sync())?;
        meter.sync_latency.record(elapsed_ns);
        Ok(())
    }
}
