//! Requests in flight on the runtime, and those that have ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};

use super::stop::Stop;
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::io::Completion;

/// When a request was submitted, and how it ended. None for what needed no answer: its time is no latency.
type Ended = (Option<u64>, Completion);

/// Of one queue.
pub struct Flights {
    stop: Arc<Stop>,
    tasks: JoinSet<Ended>,
    done: Vec<Ended>,
}

impl Flights {
    /// None yet; they are waited for until `stop` is set.
    pub fn new(stop: &Arc<Stop>) -> Self {
        Self { stop: Arc::clone(stop), tasks: JoinSet::new(), done: Vec::new() }
    }

    /// Starts a request that was submitted at `start_ns`.
    pub fn start(&mut self, start_ns: u64, request: impl Future<Output = Completion> + Send + 'static) {
        self.tasks.spawn_on(async move { (Some(start_ns), request.await) }, self.stop.runtime.handle());
    }

    /// One that was submitted without a request.
    pub fn ended(&mut self, completion: Completion) {
        self.done.push((None, completion));
    }

    /// Requests that [`Flights::wait`] has not told of yet.
    pub fn count(&self) -> usize {
        self.tasks.len() + self.done.len()
    }

    /// As [`crate::Queue::wait`].
    pub fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<u64> {
        while let Some(ended) = self.tasks.try_join_next() {
            self.take(ended)?;
        }
        while self.done.len() < min
            && let Some(ended) = self.stop.wait(self.tasks.join_next())?
        {
            self.take(ended)?;
        }
        let now_ns = clock::now();
        done.extend(self.done.drain(..).map(|(start_ns, completion)| {
            let latency_ns = start_ns.map(|start_ns| now_ns.saturating_sub(start_ns));
            Completion { latency_ns, ..completion }
        }));
        Ok(now_ns)
    }

    /// As [`crate::Queue::wait_until`].
    pub fn wait_until(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> Result<u64> {
        if self.done.is_empty() {
            match self.tasks.is_empty() {
                true => clock::sleep_until(until_ns),
                false => self.wait_for_one(until_ns)?,
            }
        }
        self.wait(0, done)
    }

    fn wait_for_one(&mut self, until_ns: u64) -> Result<()> {
        let left = Duration::from_nanos(until_ns.saturating_sub(clock::now()));
        let tasks = &mut self.tasks;
        match self.stop.wait(async { tokio::time::timeout(left, tasks.join_next()).await })? {
            Ok(Some(ended)) => self.take(ended),
            _ => Ok(()),
        }
    }

    fn take(&mut self, ended: std::result::Result<Ended, JoinError>) -> Result<()> {
        self.done.push(ended.map_err(lost)?);
        Ok(())
    }
}

/// Why a request has no answer: it was given up, or it panicked.
pub fn lost(error: JoinError) -> Error {
    match error.is_cancelled() {
        true => Error::interrupted(),
        false => Error::failed("a request to a bucket panicked; this is a bug in savemark"),
    }
}

impl Flights {
    /// Requests use memory that belongs to the caller: none goes on behind its back.
    pub fn give_up(&mut self) {
        self.tasks.abort_all();
        self.stop.runtime.block_on(async { while self.tasks.join_next().await.is_some() {} });
    }
}

impl Drop for Flights {
    fn drop(&mut self) {
        self.give_up();
    }
}
