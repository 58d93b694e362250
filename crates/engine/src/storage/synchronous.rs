//! A queue for files whose calls block: each I/O runs when it is submitted.

use std::sync::Arc;

use super::{Completion, File, Op, Operation, Queue, io_error};
use crate::error::Result;
use crate::measure::clock;

/// Depth one, whatever is asked for: the next I/O starts when the last has ended.
pub struct Synchronous {
    files: Vec<Arc<dyn File>>,
    done: Vec<Completion>,
}

impl Synchronous {
    /// A queue on `files`.
    pub fn new(files: &[Arc<dyn File>]) -> Self {
        Self { files: files.to_vec(), done: Vec::new() }
    }
}

impl Queue for Synchronous {
    fn submit(&mut self, mut op: Op) -> Result<()> {
        let file = &self.files[op.file];
        let start = clock::now();
        let result = match op.operation {
            Operation::Read => file.read_at(&mut op.buffer[..op.len], op.offset),
            Operation::Write => file.write_at(&op.buffer[..op.len], op.offset),
        };
        let latency_ns = clock::now() - start;
        let error = result.err().map(|e| io_error(op.operation, file.path(), op.offset, op.len, e));
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
