//! Whole objects in flight: one GET or one PUT for each.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::{ObjectStoreExt, PutPayload};
use tokio::sync::oneshot;

use super::bucket_prefix::BucketPrefix;
use super::flights::Flights;
use super::store::Store;
use crate::{Queue, io_error};
use savemark_base::buffer::Buffer;
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::io::{Completion, Op, Operation};

/// A queue on objects by name.
pub struct WholeQueue {
    place: Arc<BucketPrefix>,
    names: Vec<Arc<str>>,
    flights: Flights,
    /// Held by each buffer that is on its way up.
    lent: Arc<()>,
}

/// A buffer that is being sent; it comes back when nobody reads it any more.
struct Loan {
    buffer: Option<Buffer>,
    len: usize,
    back: Option<oneshot::Sender<Buffer>>,
    _token: Arc<()>,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[..self.len])
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let (Some(back), Some(buffer)) = (self.back.take(), self.buffer.take()) {
            let _ = back.send(buffer); // nobody waits for it when the queue is gone
        }
    }
}

impl WholeQueue {
    /// A queue on the objects `names`.
    pub fn new(place: &Arc<BucketPrefix>, names: &[String]) -> Self {
        let names = names.iter().map(|name| Arc::from(name.as_str())).collect();
        Self { place: Arc::clone(place), names, flights: Flights::new(&place.stop), lent: Arc::default() }
    }
}

impl Queue for WholeQueue {
    fn submit(&mut self, op: Op) -> Result<()> {
        let (place, name) = (Arc::clone(&self.place), Arc::clone(&self.names[op.file]));
        let Op { operation, offset, len, buffer, token, .. } = op;
        let start_ns = clock::now();
        if offset != 0 {
            let why = std::io::Error::other("an object is moved whole; this is a bug in savemark");
            return Err(io_error(operation, place.url_of(&name).as_ref(), offset, len, why));
        }
        let lent = Arc::clone(&self.lent);
        self.flights.start(start_ns, async move {
            let (buffer, error) = match operation {
                Operation::Read => get(&place, &name, buffer, len).await,
                Operation::Write => put(&place, &name, buffer, len, lent).await,
            };
            Completion { token, buffer, len, latency_ns: None, error }
        });
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

async fn get(place: &BucketPrefix, name: &str, mut buffer: Buffer, len: usize) -> (Buffer, Option<Error>) {
    let done = place.read(&place.key(name), 0, &mut buffer[..len]).await;
    (buffer, done.err().map(|e| place.explain("read", name, &e)))
}

async fn put(place: &BucketPrefix, name: &str, buffer: Buffer, len: usize, lent: Arc<()>) -> (Buffer, Option<Error>) {
    let (back, returned) = oneshot::channel();
    let loan = Loan { buffer: Some(buffer), len, back: Some(back), _token: lent };
    let payload = PutPayload::from_bytes(Bytes::from_owner(loan));
    let key = place.key(name);
    let send = |store: Arc<dyn Store>| {
        let (key, payload) = (key.clone(), payload.clone());
        async move { store.put(&key, payload).await }
    };
    let done = place.writer.send(place.address.options.retries, send).await;
    drop(payload);
    let buffer = returned.await.expect("a loan is sent back when it is dropped");
    (buffer, done.err().map(|e| place.explain("write", name, &e)))
}

impl Drop for WholeQueue {
    /// What is being sent must not be written by its next owner. A connection that does not let go is not waited for long.
    fn drop(&mut self) {
        self.flights.give_up();
        self.place.stop.runtime.block_on(async {
            for _ in 0..1000 {
                if Arc::strong_count(&self.lent) == 1 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
}
