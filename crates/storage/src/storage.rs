//! What a storage does.

use std::path::Path;
use std::sync::Arc;

use savemark_base::buffer::{ALIGN, Arena};
use savemark_base::error::{Error, Result};
use savemark_base::record::{Cache, Extents, PathTaken};

use crate::file::File;
use crate::queue::Queue;

/// What a storage can do; by default what a directory on a disk can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What was written can be read again (false for `null` alone).
    pub keeps: bool,
    /// A file can be written at any offset, and again. If not: once, from front to back, and it is there when synced.
    pub rewrites: bool,
    /// A sync reaches stable storage, as far as the kernel can say.
    pub durable: bool,
    /// [`Storage::lock`] keeps others out. Where it cannot, a save must not sweep up what may be another's.
    pub locks: bool,
    /// An I/O is a call that returns when it has ended, so that a queue only adds to it.
    pub calls_block: bool,
    /// What is written are the bytes of the host's buffers. If not, nobody here can make or look at them.
    pub moves_host_memory: bool,
    /// Where memory must start to be moved without a copy in between.
    pub memory_alignment: usize,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            keeps: true,
            rewrites: true,
            durable: true,
            locks: true,
            calls_block: false,
            moves_host_memory: true,
            memory_alignment: ALIGN,
        }
    }
}

/// A place that holds named files.
pub trait Storage: Send + Sync {
    /// The path that bytes really take here.
    fn path_taken(&self) -> PathTaken;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

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
pub fn too_long(path: &Path, bytes: u64) -> Error {
    Error::corrupt(format!("{} has {bytes} bytes; at most {SMALL_BYTES} are read", path.display()))
}

/// Held while writing; released on drop.
pub trait Lock: Send {}
