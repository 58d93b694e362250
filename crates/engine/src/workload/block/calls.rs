//! The hot loop of storages whose calls block: one I/O at a time, and nothing between two of them that can be spared.

use super::mover::{Mover, Worker};
use super::pattern::Pattern;
use savemark_base::buffer::Buffer;
use savemark_base::clock;
use savemark_base::error::Result;
use savemark_base::io::Operation;
use savemark_measure::worker::Meter;
use savemark_storage::io_error;

/// One worker.
pub struct Calls<'a> {
    worker: Worker<'a>,
    /// Used in turn, the first at first.
    buffers: Vec<Buffer>,
    turn: usize,
}

impl<'a> Calls<'a> {
    /// Blocks go through `buffers`, round and round.
    pub fn new(worker: Worker<'a>, buffers: Vec<Buffer>) -> Self {
        Self { worker, turn: buffers.len(), buffers }
    }
}

impl Mover for Calls<'_> {
    /// One look at the clock per I/O: its time runs from the end of the one before, with some 20 ns of our own in it.
    fn transfer(&mut self, meter: &mut Meter, next: &mut Pattern, until_ns: u64) -> Result<()> {
        let Self { worker, buffers, turn } = self;
        let transfer = worker.options.transfer();
        let mut before_ns = clock::now();
        while before_ns < until_ns {
            if worker.flush.room == 0 {
                worker.flush.now(meter)?;
                before_ns = clock::now();
                continue;
            }
            let Some(place) = next.next() else { break };
            let (operation, offset) = (worker.choice.next(), place.block * transfer as u64);
            *turn = if *turn + 1 < buffers.len() { *turn + 1 } else { 0 };
            let buffer = &mut buffers[*turn][..transfer];
            if let Some(checks) = &mut worker.checks {
                checks.before(operation, place, buffer);
                before_ns = clock::now();
            }
            let file = &worker.files[place.file as usize];
            let moved = match operation {
                Operation::Read => file.read_at(buffer, offset),
                Operation::Write => file.write_at(buffer, offset),
            };
            let now_ns = clock::now();
            moved.map_err(|e| io_error(operation, file.path(), offset, transfer, e))?;
            meter.count_call(now_ns - before_ns, transfer as u64, now_ns);
            worker.flush.room -= 1;
            if worker.checks.is_some() || meter.split.is_some() {
                meter.count_split(operation, now_ns - before_ns, transfer as u64);
                worker.look(operation, place, buffer, meter)?;
            }
            meter.check()?;
            before_ns = now_ns;
        }
        Ok(())
    }

    fn flush(&mut self, meter: &mut Meter) -> Result<()> {
        self.worker.flush.end(meter)
    }
}
