//! Open loop: I/Os start when they are due, whether earlier ones have ended or not, and their latencies count from that moment.
//! An I/O that cannot start in time waits, and its waiting is in its latency: no coordinated omission.

use std::collections::VecDeque;

use super::mover::{Mover, Worker};
use super::pattern::{BlockAddress, Pattern};
use savemark_base::buffer::Buffer;
use savemark_base::clock;
use savemark_base::error::Result;
use savemark_base::io::{Op, Operation};
use savemark_measure::worker::Meter;
use savemark_storage::Queue;

/// The longest sleep without a look at whether somebody has cancelled.
const CHECK_EVERY_NS: u64 = 100_000_000;

/// When the I/Os of one worker are due: at equal distances, each worker's between those of the others.
pub struct Schedule {
    rate: u64,
    workers: u64,
    worker: u64,
    start_ns: u64,
    started: u64,
}

impl Schedule {
    /// Of `rate` I/Os per second of all `workers`.
    pub fn new(rate: u64, workers: usize, worker: usize) -> Self {
        Self { rate, workers: workers as u64, worker: worker as u64, start_ns: 0, started: 0 }
    }

    /// When the next I/O is due.
    fn due_ns(&self) -> u64 {
        let turn = u128::from(self.started * self.workers + self.worker);
        self.start_ns + (turn * 1_000_000_000 / u128::from(self.rate)) as u64
    }

    /// How many were due before `until_ns`; at least those that have started.
    fn due_before(&self, until_ns: u64) -> u64 {
        let turns = u128::from(until_ns.saturating_sub(self.start_ns)) * u128::from(self.rate);
        let turns = turns.div_ceil(1_000_000_000) as u64;
        turns.saturating_sub(self.worker).div_ceil(self.workers).max(self.started)
    }
}

/// One worker with its schedule.
pub struct Paced<'a> {
    worker: Worker<'a>,
    schedule: Schedule,
    queue: Box<dyn Queue>,
    depth: usize,
    free: VecDeque<Buffer>,
    /// What is in flight, by token.
    flights: Vec<Flight>,
    free_tokens: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Flight {
    operation: Operation,
    place: BlockAddress,
    due_ns: u64,
}

impl<'a> Paced<'a> {
    /// Has at most `depth` I/Os in flight.
    pub fn new(
        worker: Worker<'a>,
        schedule: Schedule,
        queue: Box<dyn Queue>,
        depth: usize,
        buffers: Vec<Buffer>,
    ) -> Self {
        let nothing = Flight { operation: Operation::Read, place: BlockAddress { file: 0, block: 0 }, due_ns: 0 };
        let (flights, free_tokens) = (vec![nothing; depth], (0..depth).collect());
        Self { worker, schedule, queue, depth, free: buffers.into(), flights, free_tokens }
    }

    /// Starts one I/O; `false` if one on the same block is under way.
    fn start(&mut self, flight: Flight, meter: &mut Meter) -> Result<bool> {
        let transfer = self.worker.options.transfer();
        let Flight { operation, place, due_ns } = flight;
        let mut buffer = self.free.pop_front().expect("at least as many buffers as may be in flight");
        if let Some(checks) = &mut self.worker.checks
            && !checks.before(operation, place, &mut buffer[..transfer])
        {
            self.free.push_front(buffer);
            return Ok(false);
        }
        let token = self.free_tokens.pop().expect("as many tokens as may be in flight");
        self.flights[token] = flight;
        meter.slipped(clock::now().saturating_sub(due_ns));
        let offset = place.block * transfer as u64;
        let (file, token) = (place.file as usize, token as u64);
        self.queue.submit(Op { operation, file, offset, len: transfer, buffer, token })?;
        self.schedule.started += 1;
        self.worker.flush.room -= 1;
        Ok(true)
    }

    /// Waits for an I/O to end, or for `until_ns` if that comes first.
    fn finish(&mut self, until_ns: u64, meter: &mut Meter) -> Result<()> {
        let mut done = Vec::new();
        let now_ns = self.queue.wait_until(until_ns, &mut done)?;
        for completion in done {
            if let Some(error) = completion.error {
                return Err(error);
            }
            let Flight { operation, place, due_ns } = self.flights[completion.token as usize];
            self.free_tokens.push(completion.token as usize);
            let latency_ns = completion.latency_ns.map(|_| now_ns.saturating_sub(due_ns));
            meter.count_call(latency_ns, completion.len as u64, now_ns);
            meter.count_split(operation, latency_ns, completion.len as u64);
            self.worker.look(operation, place, &completion.buffer[..completion.len], meter)?;
            self.free.push_back(completion.buffer);
        }
        Ok(())
    }
}

impl Mover for Paced<'_> {
    fn transfer(&mut self, meter: &mut Meter, next: &mut Pattern, until_ns: u64) -> Result<()> {
        exact_timers();
        self.schedule.start_ns = meter.start_ns();
        let mut held: Option<(Operation, BlockAddress)> = None;
        let mut open = true;
        while open || self.queue.in_flight() > 0 {
            meter.check()?;
            let due_ns = self.schedule.due_ns();
            open &= due_ns < until_ns && clock::now() < until_ns;
            let in_flight = self.queue.in_flight();
            if open && self.worker.flush.room == 0 && in_flight == 0 {
                self.worker.flush.now(meter)?;
            }
            let mut wait_ns = u64::MAX;
            if open && self.worker.flush.room > 0 && in_flight < self.depth {
                if clock::now() < due_ns {
                    wait_ns = due_ns.min(clock::now() + CHECK_EVERY_NS);
                } else {
                    let worker = &mut self.worker;
                    let drawn = held.take().or_else(|| next.next().map(|place| (worker.choice.next(), place)));
                    let Some((operation, place)) = drawn else {
                        open = false;
                        continue;
                    };
                    if self.start(Flight { operation, place, due_ns }, meter)? {
                        wait_ns = 0;
                    } else {
                        held = Some((operation, place));
                    }
                }
            }
            if open || self.queue.in_flight() > 0 {
                self.finish(wait_ns, meter)?;
            }
        }
        if self.worker.flush.room == 0 {
            self.worker.flush.now(meter)?;
        }
        let all_started = next.left() == 0 && held.is_none();
        meter.due(if all_started { self.schedule.started } else { self.schedule.due_before(until_ns) });
        Ok(())
    }

    fn flush(&mut self, meter: &mut Meter) -> Result<()> {
        self.worker.flush.end(meter)
    }
}

/// Lets this thread's sleeps end when they should, and not up to 50 µs later.
fn exact_timers() {
    // SAFETY: sets a number of this thread; where it fails, sleeps are a little longer, and the slip says so.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workers_share_the_rate_and_take_turns() {
        let mut all = Vec::new();
        for worker in 0..3 {
            let mut schedule = Schedule { start_ns: 1000, ..Schedule::new(3_000, 3, worker) };
            for started in 0..100 {
                schedule.started = started;
                assert_eq!(schedule.due_before(schedule.due_ns()), started);
                assert_eq!(schedule.due_before(schedule.due_ns() + 1), started + 1);
                all.push(schedule.due_ns());
            }
        }
        all.sort_unstable();
        let gaps: Vec<_> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(all[0] == 1000 && gaps.iter().all(|gap| gap.abs_diff(333_333) <= 1), "{gaps:?}");
    }
}
