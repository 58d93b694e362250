//! One object on its way up: parts in order, several in flight, completed or aborted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{MultipartId, PutPayload};
use tokio::task::JoinHandle;

use super::bucket_prefix::BucketPrefix;
use super::flights;
use super::parts::Gather;
use super::store::Store;
use savemark_base::buffer::Buffer;
use savemark_base::error::{Error, Result};
use savemark_base::leased::LeasedPool;

/// An upload; dropped before it is finished, it leaves nothing behind.
pub struct Upload {
    place: Arc<BucketPrefix>,
    key: Path,
    /// Nothing was there before.
    is_new: bool,
    gather: Gather,
    /// Bytes taken.
    offset: u64,
    /// Of the multipart upload, once there is more than one part.
    id: Option<MultipartId>,
    in_flight: VecDeque<JoinHandle<object_store::Result<PartId>>>,
    parts: Vec<PartId>,
}

/// S3's limit.
const MOST_PARTS: usize = 10_000;

impl Upload {
    /// Of the object `key`. Sends nothing yet.
    pub fn new(place: &Arc<BucketPrefix>, pool: &Arc<LeasedPool>, key: Path, is_new: bool) -> Self {
        let (place, gather) = (Arc::clone(place), Gather::new(pool));
        Self { place, key, is_new, gather, offset: 0, id: None, in_flight: VecDeque::new(), parts: Vec::new() }
    }

    /// Bytes taken so far.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// Takes a copy of `bytes`.
    pub fn copy(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        self.expect(offset)?;
        let mut left = bytes;
        while !left.is_empty() {
            let taken = self.gather.copy(left)?;
            left = &left[taken..];
            self.start_if_full()?;
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Takes `len` bytes of memory that nobody writes; they are read until the upload has ended.
    pub fn lend(&mut self, buffer: Buffer, len: usize, offset: u64) -> Result<()> {
        self.expect(offset)?;
        let mut left = self.gather.lend(buffer, len);
        while !left.is_empty() {
            self.gather.take_lent(&mut left);
            self.start_if_full()?;
        }
        self.offset += len as u64;
        Ok(())
    }

    fn expect(&self, offset: u64) -> Result<()> {
        if offset != self.offset {
            let why = format!("a write at offset {offset} after {} bytes", self.offset);
            return Err(Error::usage(format!(
                "cannot write {}: {why}; objects are written from front to back",
                self.url()
            ))
            .hint("use one worker per object; random writes need a directory"));
        }
        Ok(())
    }

    fn start_if_full(&mut self) -> Result<()> {
        if self.gather.is_full() { self.start_part() } else { Ok(()) }
    }

    /// Sends what is gathered as the next part; first waits until fewer than the allowed number are in flight.
    fn start_part(&mut self) -> Result<()> {
        let index = self.parts.len() + self.in_flight.len();
        if index == MOST_PARTS {
            return Err(Error::failed(format!("cannot write {}: it has more than {MOST_PARTS} parts", self.url()))
                .hint("use a larger --part-size, or more --streams"));
        }
        while self.in_flight.len() >= self.place.address.options.concurrency as usize {
            self.wait_for_part()?;
        }
        let id = self.id()?;
        let (place, key, payload) = (Arc::clone(&self.place), self.key.clone(), payload(self.gather.finish()));
        self.in_flight.push_back(self.place.stop.runtime.spawn(async move {
            let put = |store: Arc<dyn Store>| {
                let (key, id, payload) = (key.clone(), id.clone(), payload.clone());
                async move { store.put_part(&key, &id, index, payload).await }
            };
            place.writer.send(place.address.options.retries, put).await
        }));
        Ok(())
    }

    fn id(&mut self) -> Result<MultipartId> {
        if self.id.is_none() {
            let started =
                self.place.call("start the upload of", self.name(), || self.place.store.create_multipart(&self.key));
            self.id = Some(started?);
        }
        Ok(self.id.clone().expect("just put there"))
    }

    fn wait_for_part(&mut self) -> Result<()> {
        let Some(task) = self.in_flight.front_mut() else { return Ok(()) };
        let part = self.place.stop.wait(task)?; // interrupted, it is still there to be aborted
        self.in_flight.pop_front();
        let part = part.map_err(flights::lost)?;
        self.parts.push(self.place.explain_if(part, "upload", self.name())?);
        Ok(())
    }

    /// Sends the rest and makes the object appear, whole.
    pub fn finish(&mut self) -> Result<()> {
        if self.id.is_none() {
            let payload = payload(self.gather.finish());
            return self.place.put("upload", self.name(), &payload);
        }
        if self.gather.bytes() > 0 {
            self.start_part()?;
        }
        while !self.in_flight.is_empty() {
            self.wait_for_part()?;
        }
        let id = self.id()?;
        let complete = || self.place.store.complete_multipart(&self.key, &id, self.parts.clone());
        let completed = self.place.call("complete the upload of", self.name(), complete).map(drop);
        // An answer may be lost: repeated, the upload is gone, and the object is there.
        let completed = match completed {
            Err(e) if self.is_new => match self.place.head(self.name()) {
                Ok(Some(bytes)) if bytes == self.offset => Ok(()),
                _ => Err(e),
            },
            result => result,
        };
        self.id = completed.is_err().then_some(id);
        completed
    }

    fn name(&self) -> &str {
        self.key.filename().unwrap_or_default()
    }

    fn url(&self) -> String {
        self.place.url_of(self.name())
    }
}

impl Drop for Upload {
    /// Stops what is in flight, waits until nobody reads lent memory, and aborts; a server that is gone is not waited for.
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.in_flight.iter().for_each(JoinHandle::abort);
        let runtime = self.place.stop.runtime;
        let _ = runtime.block_on(async {
            for task in self.in_flight.drain(..) {
                let _ = task.await;
            }
            self.gather.finish();
            let abort = async {
                while self.gather.lends() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                self.place.store.abort_multipart(&self.key, &id).await
            };
            tokio::time::timeout(Duration::from_secs(10), abort).await
        });
    }
}

fn payload(pieces: Vec<Bytes>) -> PutPayload {
    pieces.into_iter().collect()
}
