//! Workers that move blocks: what each needs, and the phase that they make.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::Sync;
use super::calls::Calls;
use super::checks::{BlockChecks, Verify};
use super::content::Content;
use super::files::{Files, allow_open};
use super::flush::{Flush, Group};
use super::mover::{Mover, Worker};
use super::options::BlockOptions;
use super::paced::{Paced, Schedule};
use super::pattern::{Choice, Pattern};
use super::queued::Queued;
use crate::bench::Bench;
use crate::common::Common;
use crate::workload::wear_out::{Seat, WearOut};
use savemark_base::buffer::{Arena, Buffer, align_up};
use savemark_base::error::Result;
use savemark_base::payload;
use savemark_base::record::{Phase, Stage};
use savemark_checkpoint::Sink;
use savemark_checkpoint::state::MemoryState;
use savemark_measure::phase::{self, Watch};
use savemark_measure::worker::{Meter, own_descriptors};
use savemark_storage::Queue;

/// What a team does.
pub struct Job<'a> {
    /// The phase.
    pub name: &'a str,
    /// What is asked for; `duration` is the phase's deadline.
    pub options: &'a BlockOptions,
    /// The files.
    pub files: &'a Files,
    /// A worker has the files of the one so many further.
    pub shift: usize,
    /// The blocks of each worker; workers count through over all ranks.
    pub pattern: &'a (dyn Fn(usize) -> Pattern + std::marker::Sync),
    /// How the blocks of each worker are compared, if they are.
    pub verify: &'a (dyn Fn(usize) -> Option<Verify<'a>> + std::marker::Sync),
    /// After the deadline every worker goes on until it has moved as many blocks as the fastest.
    pub wear_out: bool,
    /// Each worker opens its files when the clock has started, and closes them before it stops, as IOR does.
    pub opens: bool,
    /// Blocks that are verified differ by their heads alone.
    pub marked: bool,
}

/// One worker that has at most so many I/Os to do works on the calling thread: making one of its own costs some 30 µs, and what it
/// saves by its own table of open files is 10 ns each.
const FEW: u64 = 4096;

/// Runs the job.
pub fn run(job: &Job, bench: &mut Bench) -> Result<Phase> {
    let watch = Watch::start();
    let (options, files, storage) = (job.options, job.files, Arc::clone(&bench.storage));
    let (workers, direction) = (options.workers as usize, options.direction());
    let (mine, all) = (bench.ranks.workers(options.workers), bench.ranks.all(options.workers));
    let blocks = |worker| (job.pattern)(worker).left();
    let total = if options.duration.is_some() { 0 } else { mine.clone().map(blocks).sum::<u64>() };
    bench.control.begin(job.name, total * options.transfer() as u64);
    let room = options.buffers() * align_up(options.transfer());
    let arenas = bench.memory.pool.take_of(workers, room, options.pages())?;
    allow_open(workers * files.count() as usize);
    let open = |worker: usize| files.open(&*storage, direction, worker + job.shift);
    let before = |worker: usize| if job.opens { Ok(Vec::new()) } else { open(worker) };
    let opened = mine.clone().map(before).collect::<Result<Vec<_>>>()?;
    // Filled before the clock starts: making data is not the storage's doing.
    let state = match options.from_state && storage.capabilities().moves_host_memory {
        true => Some(state(job, total, bench)?),
        false => None,
    };
    let filled: Vec<_> = match &state {
        Some(state) => state_buffers(job, state, mine.clone()),
        None => mine.clone().zip(&arenas).map(|(worker, arena)| buffers(job, arena, bench.common, worker)).collect(),
    };
    let filled: Vec<_> = filled.into_iter().map(Mutex::new).collect();
    let sampled = Mutex::new(state.as_ref().map(|state| state.sample()).unwrap_or_default());
    let written = if files.is_shared() { opened[0].clone() } else { opened.concat() };
    let group = (direction.writes() && options.sync == Sync::Group).then(|| Group::new(workers, written));
    let wear_out = job.wear_out.then(|| WearOut::new(workers, bench.control));
    let wear_out = wear_out.as_ref();
    let alone = workers == 1 && !job.opens && (1..=FEW).contains(&total);
    let one = |meter: &mut Meter| {
        let (here, index) = (meter.index, mine.start + meter.index);
        let (mut seat, mut own) = (None, opened[here].clone());
        if job.opens {
            // Or closing them here would leave them open in the table that all share.
            // SAFETY: this thread opens and closes what it uses, and nothing else.
            unsafe { own_descriptors() };
            meter.start()?;
            seat = wear_out.map(WearOut::seat);
            own = open(index)?;
        }
        let (files, names) = (&own[..], files.names(index + job.shift));
        let flush = if direction.writes() { Flush::new(options, files, group.as_ref()) } else { Flush::never() };
        let written = (storage.capabilities().moves_host_memory && state.is_none()).then_some(&sampled);
        let checks = BlockChecks::new(options, bench.common, index, (job.verify)(index), written);
        let choice = Choice::new(direction, bench.common.seed, index);
        let worker = Worker { options, files, names, choice, checks, flush };
        let buffers = std::mem::take(&mut *filled[here].lock().expect("one worker each"));
        let queue = |depth: usize| -> Result<Box<dyn Queue>> {
            match job.files.is_whole() {
                true => storage.queue_of_whole(names, depth as u32),
                false => storage.queue(files, depth as u32, &arenas[here]),
            }
        };
        meter.split_up(direction.reads() && direction.writes());
        match options.rate {
            Some(rate) => {
                let depth = if storage.capabilities().calls_block { 1 } else { options.depth() };
                let schedule = Schedule::new(rate, all, index);
                work(Paced::new(worker, schedule, queue(depth)?, depth, buffers), job, index, meter, wear_out, seat)
            }
            None if storage.capabilities().calls_block => {
                if !alone {
                    // SAFETY: the files were opened before the thread was started, and are closed when it is gone.
                    unsafe { own_descriptors() };
                }
                work(Calls::new(worker, buffers), job, index, meter, wear_out, seat)
            }
            None => work(Queued::new(worker, queue(options.depth())?, buffers), job, index, meter, wear_out, seat),
        }
    };
    let team = if alone { phase::run_here(bench.control, one) } else { phase::run(workers, bench.control, one) }?;
    let moved_ns = team.meters.iter().map(|meter| meter.moved_ns).max().unwrap_or(0);
    let mut phase = team.into_phase(watch, job.name);
    if direction.writes() && options.sync == Sync::End {
        // The application could go on at the first of the two.
        let stage = |name: &str, elapsed_ns| Stage { name: name.into(), elapsed_ns };
        phase.stages = vec![stage("transfer", moved_ns), stage("flush", phase.elapsed_ns.saturating_sub(moved_ns))];
    }
    phase.payload = sampled.into_inner().expect("no panic while held").payload();
    phase.durable = direction.writes() && options.sync != Sync::None && bench.storage.capabilities().durable;
    phase.verified = (options.verify && direction.reads()).then(|| "every block".to_string());
    Ok(phase)
}

/// One worker from its start to its last flush.
fn work<'s, 'a>(
    mut mover: impl Mover,
    job: &Job,
    index: usize,
    meter: &mut Meter,
    wear_out: Option<&'s WearOut<'a>>,
    seat: Option<Seat<'s, 'a>>,
) -> Result<()> {
    let mut next = (job.pattern)(index);
    let all = next.left();
    let deadline_ns = meter.start()?.saturating_add(job.options.duration.map_or(u64::MAX / 2, |span| span.0));
    let seat = seat.or_else(|| wear_out.map(WearOut::seat));
    let moved = mover.transfer(meter, &mut next, deadline_ns);
    if let Some(seat) = seat {
        moved?;
        next.limit(seat.arrive(meter.operations).wait(meter)?.min(all) - meter.operations);
        mover.transfer(meter, &mut next, u64::MAX)?;
    } else {
        moved?;
    }
    meter.moved();
    mover.flush(meter)
}

/// The state that this rank's `blocks` are written from, with other bytes than before.
fn state(job: &Job, blocks: u64, bench: &mut Bench) -> Result<Arc<MemoryState>> {
    let bytes = bench.ranks.share(job.options.size.0).max(blocks * job.options.transfer() as u64);
    let common = Common { seed: bench.ranks.seed(bench.common.seed), ..bench.common.clone() };
    bench.memory.renewed_source(&common, bytes)
}

/// The memory of a state in blocks, in the order in which each of these workers writes them.
fn state_buffers(job: &Job, state: &MemoryState, workers: Range<usize>) -> Vec<Vec<Buffer>> {
    let transfer = job.options.transfer();
    let mut places = (0..).step_by(transfer);
    let mut next = |_| state.window(places.next().expect("no end"), transfer).expect("memory has a window");
    workers.map(|worker| (0..(job.pattern)(worker).left()).map(&mut next).collect()).collect()
}

fn buffers(job: &Job, arena: &Arc<Arena>, common: &Common, worker: usize) -> Vec<Buffer> {
    let (options, count) = (job.options, job.options.buffers());
    let transfer = align_up(options.transfer());
    // SAFETY: each worker has an arena of its own, which it cuts once in a phase; the buffers of the phase before are gone.
    let mut buffers = unsafe { arena.cut_some(transfer, count) };
    if options.direction().writes() && job.marked {
        buffers.iter_mut().for_each(|buffer| Content::new(common).ground(buffer));
    } else if options.direction().writes() && !options.verify {
        for (index, buffer) in buffers.iter_mut().enumerate() {
            let place = (worker * count + index) * transfer;
            payload::fill(common.payload, common.seed, place as u64, buffer);
        }
    }
    buffers
}
