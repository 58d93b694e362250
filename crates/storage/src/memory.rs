//! Files in the engine's own memory: the whole path without a device.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::null::no_page_cache;
use super::synchronous::Synchronous;
use super::{Capabilities, File, Lock, NotPut, Queue, Storage};
use savemark_base::buffer::Arena;
use savemark_base::error::{Error, Result};
use savemark_base::record::{Cache, PathTaken};

/// `memory` has no options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryOptions {}

/// The storage: a map from names to bytes.
#[derive(Default)]
pub struct Memory {
    files: Mutex<BTreeMap<String, Arc<MemoryFile>>>,
    locked: Arc<Mutex<bool>>,
}

struct MemoryFile {
    path: PathBuf,
    bytes: RwLock<Vec<u8>>,
}

struct MemoryLock(Arc<Mutex<bool>>);
impl Lock for MemoryLock {}
impl Drop for MemoryLock {
    fn drop(&mut self) {
        *self.0.lock().expect(HELD) = false;
    }
}

const HELD: &str = "no panic while held";

impl Memory {
    fn find(&self, name: &str) -> Option<Arc<MemoryFile>> {
        self.files.lock().expect(HELD).get(name).cloned()
    }

    fn insert(&self, name: &str, bytes: Vec<u8>) -> Arc<MemoryFile> {
        let file = Arc::new(MemoryFile { path: Path::new("memory").join(name), bytes: RwLock::new(bytes) });
        self.files.lock().expect(HELD).insert(name.to_string(), Arc::clone(&file));
        file
    }
}

impl Storage for Memory {
    fn path_taken(&self) -> PathTaken {
        PathTaken { storage: "memory".into(), alignment_bytes: 1, ..Default::default() }
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { durable: false, calls_block: true, ..Default::default() }
    }
    fn free_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        if self.find(name).is_some() {
            return Err(Error::failed(format!("cannot create {name} in memory: it exists")));
        }
        Ok(self.insert(name, Vec::new()))
    }
    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        match self.find(name) {
            Some(file) => Ok(file),
            None => {
                Err(Error::io("open", &Path::new("memory").join(name), std::io::Error::from_raw_os_error(libc::ENOENT)))
            }
        }
    }
    fn open_for_writing(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open(name)
    }
    fn queue(&self, files: &[Arc<dyn File>], _: u32, _: &Arc<Arena>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Synchronous::new(files)))
    }
    fn put(&self, name: &str, bytes: &[u8]) -> std::result::Result<(), NotPut> {
        self.insert(name, bytes.to_vec());
        Ok(())
    }
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.find(name).map(|file| file.bytes.read().expect(HELD).clone()))
    }
    fn list(&self) -> Result<Vec<String>> {
        Ok(self.files.lock().expect(HELD).keys().cloned().collect())
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.files.lock().expect(HELD).remove(name);
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn lock(&self) -> Result<Box<dyn Lock>> {
        let mut locked = self.locked.lock().expect(HELD);
        if std::mem::replace(&mut *locked, true) {
            return Err(Error::refused("another save into this memory storage is under way"));
        }
        Ok(Box::new(MemoryLock(Arc::clone(&self.locked))))
    }
    fn evict(&self, _: &[String]) -> Result<()> {
        Ok(())
    }
    fn residency(&self, _: &[String]) -> Result<Cache> {
        Ok(no_page_cache())
    }
}

impl File for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let bytes = self.bytes.read().expect(HELD);
        let start = offset as usize;
        match bytes.get(start..start + buffer.len()) {
            Some(found) => buffer.copy_from_slice(found),
            None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }
    fn write_at(&self, buffer: &[u8], offset: u64) -> std::io::Result<()> {
        let mut bytes = self.bytes.write().expect(HELD);
        let end = offset as usize + buffer.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(buffer);
        Ok(())
    }
    fn size(&self) -> Result<u64> {
        Ok(self.bytes.read().expect(HELD).len() as u64)
    }
    fn allocate(&self, bytes: u64) -> Result<()> {
        let mut held = self.bytes.write().expect(HELD);
        if (held.len() as u64) < bytes {
            held.resize(bytes as usize, 0);
        }
        Ok(())
    }
    fn truncate(&self, bytes: u64) -> Result<()> {
        self.bytes.write().expect(HELD).truncate(bytes as usize);
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
