//! A storage that forgets every byte at once: what remains is the cost of the engine itself.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::synchronous::Synchronous;
use super::{Capabilities, File, Lock, NotPut, Queue, Storage};
use savemark_base::buffer::Arena;
use savemark_base::error::{Error, Result};
use savemark_base::record::{Cache, PathTaken};

/// `null` has no options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NullOptions {}

/// The storage.
#[derive(Debug)]
pub struct Null;

struct NullFile;
struct NullLock;
impl Lock for NullLock {}

impl Storage for Null {
    fn path_taken(&self) -> PathTaken {
        PathTaken { storage: "null".into(), alignment_bytes: 1, ..Default::default() }
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { keeps: false, durable: false, calls_block: true, ..Default::default() }
    }
    fn free_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    fn create(&self, _: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(NullFile))
    }
    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        Err(Error::usage(format!("null storage keeps nothing, so `{name}` cannot be read from it"))
            .hint("use --storage memory to measure without a device"))
    }
    fn open_for_writing(&self, _: &str) -> Result<Arc<dyn File>> {
        Ok(Arc::new(NullFile))
    }
    fn queue(&self, files: &[Arc<dyn File>], _: u32, _: &Arc<Arena>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Synchronous::new(files)))
    }
    fn put(&self, _: &str, _: &[u8]) -> std::result::Result<(), NotPut> {
        Ok(())
    }
    fn get(&self, _: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
    fn list(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    fn remove(&self, _: &str) -> Result<()> {
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn lock(&self) -> Result<Box<dyn Lock>> {
        Ok(Box::new(NullLock))
    }
    fn evict(&self, _: &[String]) -> Result<()> {
        Ok(())
    }
    fn residency(&self, _: &[String]) -> Result<Cache> {
        Ok(no_page_cache())
    }
}

/// The answer of storages that do not go through the page cache at all.
pub(super) fn no_page_cache() -> Cache {
    Cache { state: "none".into(), method: "this storage has no page cache".into(), ..Default::default() }
}

impl File for NullFile {
    fn path(&self) -> &Path {
        Path::new("null")
    }
    fn read_at(&self, _: &mut [u8], _: u64) -> std::io::Result<()> {
        Err(std::io::Error::other("null storage keeps nothing"))
    }
    fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<()> {
        Ok(())
    }
    fn size(&self) -> Result<u64> {
        Ok(0)
    }
    fn allocate(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn truncate(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
