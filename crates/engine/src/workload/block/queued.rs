//! The hot loop of storages that have many I/Os in flight.

use std::collections::VecDeque;

use super::mover::{Mover, Worker};
use super::pattern::{BlockAddress, Pattern};
use savemark_base::buffer::Buffer;
use savemark_base::clock;
use savemark_base::error::Result;
use savemark_base::io::{Completion, Op, Operation};
use savemark_measure::worker::Meter;
use savemark_storage::Queue;

/// One worker with its queue.
pub struct Queued<'a> {
    worker: Worker<'a>,
    queue: Box<dyn Queue>,
    /// First in, first out: the I/Os go round all of the memory.
    free: VecDeque<Buffer>,
}

impl<'a> Queued<'a> {
    /// Blocks go through `buffers`; there are as many as may be in flight, or more.
    pub fn new(worker: Worker<'a>, queue: Box<dyn Queue>, buffers: Vec<Buffer>) -> Self {
        Self { worker, queue, free: buffers.into() }
    }
}

/// A place and what is done to it, in the token of an I/O: 1 bit, 20 bits for the file, 43 for the block.
pub fn token(operation: Operation, place: BlockAddress) -> u64 {
    u64::from(operation == Operation::Read) << 63 | u64::from(place.file) << 43 | place.block
}

/// What [`token`] holds.
pub fn untoken(token: u64) -> (Operation, BlockAddress) {
    let operation = if token >> 63 == 1 { Operation::Read } else { Operation::Write };
    (operation, BlockAddress { file: (token >> 43 & 0xF_FFFF) as u32, block: token & ((1 << 43) - 1) })
}

impl Mover for Queued<'_> {
    fn transfer(&mut self, meter: &mut Meter, next: &mut Pattern, until_ns: u64) -> Result<()> {
        let Self { worker, queue, free } = self;
        let (transfer, depth, batch) = (worker.options.transfer(), worker.options.depth(), worker.options.batch());
        let mut done = Vec::with_capacity(depth);
        let mut ready = Vec::with_capacity(depth);
        // A block that waits for an I/O on it to end.
        let mut held = None;
        let mut open = true;
        loop {
            while open && worker.flush.room > 0 && queue.in_flight() + ready.len() < depth {
                let drawn = held.take().or_else(|| next.next().map(|place| (worker.choice.next(), place)));
                let Some((operation, place)) = drawn else {
                    open = false;
                    break;
                };
                let mut buffer = free.pop_front().expect("at least as many buffers as may be in flight");
                if let Some(checks) = &mut worker.checks
                    && !checks.before(operation, place, &mut buffer[..transfer])
                {
                    held = Some((operation, place));
                    free.push_front(buffer);
                    break;
                }
                let (offset, token) = (place.block * transfer as u64, token(operation, place));
                ready.push(Op { operation, file: place.file as usize, offset, len: transfer, buffer, token });
                worker.flush.room -= 1;
            }
            // After the last of them was made: a batch shares one reading of the clock, and making data is no latency.
            ready.drain(..).try_for_each(|op| queue.submit(op))?;
            if queue.in_flight() == 0 {
                if worker.flush.room > 0 {
                    return Ok(());
                }
                worker.flush.now(meter)?;
                open &= clock::now() < until_ns;
                continue;
            }
            let now_ns = queue.wait(batch, &mut done)?;
            meter.count(&done, now_ns);
            meter.count_user((done.len() * transfer) as u64);
            for completion in done.drain(..) {
                free.push_back(worker.completed(completion, meter)?);
            }
            meter.check()?;
            open &= now_ns < until_ns;
        }
    }

    fn flush(&mut self, meter: &mut Meter) -> Result<()> {
        self.worker.flush.end(meter)
    }
}

impl Worker<'_> {
    /// Looks at an I/O that ended, as far as somebody asks for it; returns its buffer.
    #[inline]
    fn completed(&mut self, completion: Completion, meter: &mut Meter) -> Result<Buffer> {
        if let Some(error) = completion.error {
            return Err(error);
        }
        if self.checks.is_some() || meter.split.is_some() {
            let (operation, place) = untoken(completion.token);
            meter.count_split(operation, completion.latency_ns, completion.len as u64);
            self.look(operation, place, &completion.buffer[..completion.len], meter)?;
        }
        Ok(completion.buffer)
    }
}
