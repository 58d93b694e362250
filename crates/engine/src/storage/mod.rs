//! Where bytes go. A storage is a small trait; its options and its name stand in one list, [`Options`].
//!
//! To add one: a file with its options struct and its `Storage`, and a line in [`Options`] and [`open`].

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::{ALIGN, Arena, Buffer};
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::record::{Cache, Extents, PathTaken};
use crate::schema::named;

#[cfg(test)]
mod conformance;
pub mod directory;
pub mod gds;
pub mod memory;
pub mod null;
pub mod object;
pub mod posix;
mod synchronous;
mod target;
pub mod uring;

pub use target::Target;

/// Every storage by name, with its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "storage", rename_all = "snake_case")]
pub enum Options {
    /// Forgets every byte: what the engine itself costs.
    Null(null::NullOptions),
    /// The engine's own memory: what the path costs without a device.
    Memory(memory::MemoryOptions),
    /// Files through pread and pwrite, one request at a time per worker.
    Posix(posix::PosixOptions),
    /// Files through io_uring, many requests in flight per worker.
    Uring(uring::UringOptions),
    /// Objects in a bucket of S3 (or what speaks its protocol), Google Cloud Storage or Azure.
    Object(object::ObjectOptions),
    /// Files to and from the memory of NVIDIA GPUs: by GPUDirect Storage, or by what it competes with.
    Gds(gds::GdsOptions),
}

impl Options {
    /// The schema of each storage's options.
    pub(crate) fn schemas() -> Vec<(String, schemars::Schema)> {
        vec![
            named::<null::NullOptions>("null"),
            named::<memory::MemoryOptions>("memory"),
            named::<posix::PosixOptions>("posix"),
            named::<uring::UringOptions>("uring"),
            named::<object::ObjectOptions>("object"),
            named::<gds::GdsOptions>("gds"),
        ]
    }

    /// Checks what the types cannot say, also of storage and `workload` (as JSON) together.
    pub(crate) fn validate(&self, workload: &serde_json::Value) -> Result<()> {
        match self {
            Self::Object(options) => options.validate(),
            Self::Gds(options) => options.validate(workload),
            _ => Ok(()),
        }
    }
}

/// Opens the storage at `target` (a directory or a URL; ignored by storages that have none).
pub fn open(options: &Options, target: impl Into<Target>) -> Result<Arc<dyn Storage>> {
    let target = target.into();
    Ok(match options {
        Options::Null(_) => Arc::new(null::Null),
        Options::Memory(_) => Arc::new(memory::Memory::default()),
        Options::Posix(options) => Arc::new(posix::open(options, target.directory("posix")?)?),
        Options::Uring(options) => Arc::new(uring::open(options, target.directory("uring")?)?),
        Options::Object(options) => Arc::new(object::open(options, &target)?),
        Options::Gds(options) => Arc::new(gds::open(options, target.directory("gds")?)?),
    })
}

/// A place that holds named files.
pub trait Storage: Send + Sync {
    /// The path that bytes really take here.
    fn path_taken(&self) -> PathTaken;

    /// Whether what was written can be read again (false for `null` alone).
    fn keeps(&self) -> bool {
        true
    }

    /// Whether a file can be written at any offset, and again. If not: once, from front to back, and it is there when synced.
    fn rewrites(&self) -> bool {
        true
    }

    /// Where memory must start to be moved without a copy in between.
    fn memory_alignment(&self) -> usize {
        ALIGN
    }

    /// Whether what is written are the bytes of the host's buffers. If not, nobody here can make or look at them.
    fn moves_host_memory(&self) -> bool {
        true
    }

    /// Whether a sync reaches stable storage, as far as the kernel can say.
    fn durable(&self) -> bool;

    /// The directory that it is, for calls on names instead of bytes.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Bytes that can still be written; `None` where there is no such limit.
    fn free_bytes(&self) -> Result<Option<u64>>;

    /// Creates the file `name`, empty; fails if it exists.
    fn create(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens the existing file `name` for reading.
    fn open(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens the existing file `name` for writing over it (where nothing can be rewritten: for replacing it whole).
    fn open_for_writing(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Whether an I/O is a call that returns when it has ended, so that a queue only adds to it.
    fn calls_block(&self) -> bool {
        false
    }

    /// A queue of I/Os on `files` for the calling thread alone; `arena` holds the buffers used most.
    fn queue(&self, files: &[Arc<dyn File>], depth: u32, arena: &Arc<Arena>) -> Result<Box<dyn Queue>>;

    /// A queue of whole files for the calling thread alone: a read fetches all of one, a write makes or replaces it, and is as
    /// durable as a sync when it has ended. Only where nothing can be rewritten; elsewhere files are moved by [`Storage::queue`].
    fn queue_of_whole(&self, names: &[String], depth: u32) -> Result<Box<dyn Queue>> {
        let _ = (names, depth);
        Err(Error::failed("this storage moves no whole files; this is a bug in savemark"))
    }

    /// Replaces the small file `name` by `bytes`, durably and at once: a reader sees the old or the new, whole.
    fn put(&self, name: &str, bytes: &[u8]) -> std::result::Result<(), NotPut>;

    /// The whole of the small file `name`, or `None` if there is none. One of more than [`SMALL_BYTES`] is an error.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Names of all files here, sorted.
    fn list(&self) -> Result<Vec<String>>;

    /// Removes the file `name`; none there is no error.
    fn remove(&self, name: &str) -> Result<()>;

    /// Makes the names of created and removed files durable.
    fn sync(&self) -> Result<()>;

    /// Ends all waiting for answers with `interrupted`, where that can take long, until [`Storage::resume`].
    fn stop(&self) {}

    /// Answers are waited for again: what was begun is to be cleaned up.
    fn resume(&self) {}

    /// Whether [`Storage::lock`] keeps others out. Where it cannot, a save must not sweep up what may be another's.
    fn locks(&self) -> bool {
        true
    }

    /// Keeps other writers out until it is dropped; refused if one is in.
    fn lock(&self) -> Result<Box<dyn Lock>>;

    /// Asks the page cache to forget `names`; the effect is told by [`Storage::residency`].
    fn evict(&self, names: &[String]) -> Result<()>;

    /// How much of `names` is in the page cache.
    fn residency(&self, names: &[String]) -> Result<Cache>;

    /// Whether `names` have data on the storage; `None` where nobody can tell.
    fn extents(&self, names: &[String]) -> Result<Option<Extents>> {
        let _ = names;
        Ok(None)
    }

    /// [`Storage::residency`] and [`Storage::extents`] of `names`, before they are read.
    fn look(&self, names: &[String]) -> Result<(Cache, Option<Extents>)> {
        Ok((self.residency(names)?, self.extents(names)?))
    }
}

/// The longest file that [`Storage::get`] reads: what stands there was perhaps not written by us.
pub const SMALL_BYTES: u64 = 128 << 20;

/// Why a small file was not put.
#[derive(Debug)]
pub struct NotPut {
    /// What went wrong.
    pub error: Error,
    /// Whether a reader may find it all the same, now or later: it was put and the answer was lost, or it is not durable.
    pub may_be_there: bool,
}

impl NotPut {
    /// Nothing was replaced.
    pub fn surely(error: Error) -> Self {
        Self { error, may_be_there: false }
    }

    /// Nobody knows.
    pub fn perhaps(error: Error) -> Self {
        Self { error, may_be_there: true }
    }
}

/// What is said of a small file that is longer than [`SMALL_BYTES`].
pub(crate) fn too_long(path: &Path, bytes: u64) -> Error {
    Error::corrupt(format!("{} has {bytes} bytes; at most {SMALL_BYTES} are read", path.display()))
}

/// Held while writing; released on drop.
pub trait Lock: Send {}

/// An open file. Offsets and lengths are multiples of [`crate::buffer::ALIGN`] where I/O is direct.
pub trait File: Any + Send + Sync {
    /// Where it is, for messages.
    fn path(&self) -> &Path;
    /// Reads until `buffer` is full; a file that ends before is an error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()>;
    /// Writes all of `buffer`.
    fn write_at(&self, buffer: &[u8], offset: u64) -> std::io::Result<()>;
    /// Length in bytes.
    fn size(&self) -> Result<u64>;
    /// Reserves room up to `bytes` and makes the file that long, so that writes need not grow it.
    fn allocate(&self, bytes: u64) -> Result<()>;
    /// Cuts the file to `bytes`.
    fn truncate(&self, bytes: u64) -> Result<()>;
    /// Makes content and length durable.
    fn sync(&self) -> Result<()>;
    /// The descriptor, where there is one.
    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// One I/O of the first `len` bytes of `buffer`.
#[derive(Debug)]
pub struct Op {
    /// Direction.
    pub operation: Operation,
    /// Index into the queue's files.
    pub file: usize,
    /// Where in the file.
    pub offset: u64,
    /// Bytes to move.
    pub len: usize,
    /// From or into which memory.
    pub buffer: Buffer,
    /// Comes back with the completion.
    pub token: u64,
}

/// An I/O that ended. It moved all its bytes, or it failed.
#[derive(Debug)]
pub struct Completion {
    /// The token of the [`Op`].
    pub token: u64,
    /// The buffer of the [`Op`].
    pub buffer: Buffer,
    /// Bytes moved.
    pub len: usize,
    /// From submission until the queue saw it complete; none of a write that an upload has taken, whose requests end later.
    pub latency_ns: Option<u64>,
    /// Where it went wrong and why, if it did.
    pub error: Option<Error>,
}

/// I/Os in flight from one thread.
pub trait Queue {
    /// Takes an I/O; fails only if more than the queue's depth are in flight.
    fn submit(&mut self, op: Op) -> Result<()>;
    /// Starts what was submitted, waits until at least `min` I/Os have completed (0: does not wait), and appends all that have.
    /// Returns when it saw them, as [`crate::clock::now`] tells it.
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<u64>;
    /// As [`Queue::wait`] for one I/O, but only until `until_ns`.
    fn wait_until(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> Result<u64>;
    /// I/Os submitted and not yet returned by `wait`.
    fn in_flight(&self) -> usize;
}

/// The message for an I/O that failed.
pub(crate) fn io_error(operation: Operation, path: &Path, offset: u64, len: usize, source: std::io::Error) -> Error {
    let mut error = Error::io(operation.name(), path, source);
    error.message = format!("{} ({len} bytes at offset {offset})", error.message);
    error
}
