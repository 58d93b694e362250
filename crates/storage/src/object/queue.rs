//! Reads in flight on the runtime; writes taken by the uploads of their files.

use std::any::Any;
use std::sync::Arc;

use super::bucket_prefix::BucketPrefix;
use super::file::{ObjectFile, foreign};
use super::flights::Flights;
use crate::{File, Queue};
use savemark_base::clock;
use savemark_base::error::Result;
use savemark_base::io::{Completion, Op, Operation};

/// A queue on objects.
pub struct ObjectQueue {
    files: Vec<Arc<dyn File>>,
    flights: Flights,
}

impl ObjectQueue {
    /// A queue on `files`.
    pub fn new(place: &BucketPrefix, files: &[Arc<dyn File>]) -> Self {
        Self { files: files.to_vec(), flights: Flights::new(&place.stop) }
    }

    fn read(&mut self, file: Arc<ObjectFile>, op: Op, start_ns: u64) {
        let Op { offset, len, mut buffer, token, .. } = op;
        self.flights.start(start_ns, async move {
            let result = file.place.read(&file.key, offset, &mut buffer[..len]).await;
            let error = result.err().map(|e| file.read_error(offset, len, &e));
            Completion { token, buffer, len, latency_ns: None, error }
        });
    }
}

impl Queue for ObjectQueue {
    fn submit(&mut self, op: Op) -> Result<()> {
        let start_ns = clock::now();
        let file: Arc<dyn Any + Send + Sync> = Arc::clone(&self.files[op.file]) as _;
        let file = file.downcast::<ObjectFile>();
        let error = match (op.operation, file) {
            (Operation::Read, Ok(file)) => {
                self.read(file, op, start_ns);
                return Ok(());
            }
            (Operation::Write, Ok(file)) => file.append(&op.buffer, op.len, op.offset).err(),
            (operation, Err(_)) => Some(foreign(&*self.files[op.file], operation, op.offset, op.len)),
        };
        self.flights.ended(Completion { token: op.token, buffer: op.buffer, len: op.len, latency_ns: None, error });
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<u64> {
        self.flights.wait(min, done)
    }

    fn wait_until(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> Result<u64> {
        self.flights.wait_until(until_ns, done)
    }

    fn in_flight(&self) -> usize {
        self.flights.count()
    }
}
