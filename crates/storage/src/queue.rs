//! What a queue of I/Os does.

use std::path::Path;

use savemark_base::error::{Error, Result};
use savemark_base::io::{Completion, Op, Operation};

/// I/Os in flight from one thread.
pub trait Queue {
    /// Takes an I/O; fails only if more than the queue's depth are in flight.
    fn submit(&mut self, op: Op) -> Result<()>;
    /// Starts what was submitted, waits until at least `min` I/Os have completed (0: does not wait), and appends all that have.
    /// Returns when it saw them, as [`savemark_base::clock::now`] tells it.
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<u64>;
    /// As [`Queue::wait`] for one I/O, but only until `until_ns`.
    fn wait_until(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> Result<u64>;
    /// I/Os submitted and not yet returned by `wait`.
    fn in_flight(&self) -> usize;
}

/// The message for an I/O that failed.
pub fn io_error(operation: Operation, path: &Path, offset: u64, len: usize, source: std::io::Error) -> Error {
    let mut error = Error::io(operation.name(), path, source);
    error.message = format!("{} ({len} bytes at offset {offset})", error.message);
    error
}
