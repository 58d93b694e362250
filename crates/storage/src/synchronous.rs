//! A queue for files whose calls block: each I/O runs when it is submitted.

use std::sync::Arc;

use super::{File, Queue, io_error};
use savemark_base::clock;
use savemark_base::error::Result;
use savemark_base::io::{Completion, Op, Operation};

/// Calls that move the bytes of an I/O, and return when they have.
pub trait Calls {
    /// Moves the bytes of `op`.
    fn run(&self, op: &mut Op) -> Result<()>;
}

/// Depth one, whatever is asked for: the next I/O starts when the last has ended.
pub struct Synchronous<C> {
    calls: C,
    done: Vec<Completion>,
}

impl<C: Calls> Synchronous<C> {
    /// A queue of these calls.
    pub fn of(calls: C) -> Self {
        Self { calls, done: Vec::new() }
    }
}

/// The calls of the files themselves.
pub struct OnFiles(Vec<Arc<dyn File>>);

impl Synchronous<OnFiles> {
    /// A queue on `files`.
    pub fn new(files: &[Arc<dyn File>]) -> Self {
        Self::of(OnFiles(files.to_vec()))
    }
}

impl Calls for OnFiles {
    fn run(&self, op: &mut Op) -> Result<()> {
        let file = &self.0[op.file];
        let result = match op.operation {
            Operation::Read => file.read_at(&mut op.buffer[..op.len], op.offset),
            Operation::Write => file.write_at(&op.buffer[..op.len], op.offset),
        };
        result.map_err(|e| io_error(op.operation, file.path(), op.offset, op.len, e))
    }
}

impl<C: Calls> Queue for Synchronous<C> {
    fn submit(&mut self, mut op: Op) -> Result<()> {
        let start = clock::now();
        let error = self.calls.run(&mut op).err();
        let latency_ns = Some(clock::now() - start);
        self.done.push(Completion { token: op.token, buffer: op.buffer, len: op.len, latency_ns, error });
        Ok(())
    }

    fn wait(&mut self, _min: usize, done: &mut Vec<Completion>) -> Result<u64> {
        done.append(&mut self.done);
        Ok(clock::now())
    }

    /// What was submitted has ended; without anything there is nothing to do until then.
    fn wait_until(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> Result<u64> {
        if self.done.is_empty() {
            clock::sleep_until(until_ns);
        }
        self.wait(0, done)
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}
