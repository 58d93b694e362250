//! Reads in flight on the runtime; writes taken by the uploads of their files.

use std::any::Any;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::file::{ObjectFile, foreign};
use super::place::{block_on, runtime};
use crate::error::{Error, Result};
use crate::measure::clock;
use crate::storage::{Completion, File, Op, Operation, Queue};

/// A queue on objects.
pub struct ObjectQueue {
    files: Vec<Arc<dyn File>>,
    reads: JoinSet<Completion>,
    done: Vec<Completion>,
}

impl ObjectQueue {
    /// A queue on `files`.
    pub fn new(files: &[Arc<dyn File>]) -> Self {
        Self { files: files.to_vec(), reads: JoinSet::new(), done: Vec::new() }
    }

    fn read(&mut self, file: Arc<ObjectFile>, op: Op, start_ns: u64) {
        let Op { offset, len, mut buffer, token, .. } = op;
        let read = async move {
            let result = file.place.read(&file.key, offset, &mut buffer[..len]).await;
            let error = result.err().map(|e| file.read_error(offset, len, &e));
            Completion { token, buffer, len, latency_ns: clock::now() - start_ns, error }
        };
        self.reads.spawn_on(read, runtime().handle());
    }

    fn take(&mut self, ended: std::result::Result<Completion, tokio::task::JoinError>) -> Result<()> {
        self.done.push(ended.map_err(|_| Error::failed("a read panicked; this is a bug in savemark"))?);
        Ok(())
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
        let latency_ns = clock::now() - start_ns;
        self.done.push(Completion { token: op.token, buffer: op.buffer, len: op.len, latency_ns, error });
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<()> {
        while let Some(ended) = self.reads.try_join_next() {
            self.take(ended)?;
        }
        while self.done.len() < min
            && let Some(ended) = block_on(self.reads.join_next())
        {
            self.take(ended)?;
        }
        done.append(&mut self.done);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.reads.len() + self.done.len()
    }
}

impl Drop for ObjectQueue {
    /// Reads fill memory that belongs to the caller: none goes on behind its back.
    fn drop(&mut self) {
        self.reads.abort_all();
        block_on(async { while self.reads.join_next().await.is_some() {} });
    }
}
