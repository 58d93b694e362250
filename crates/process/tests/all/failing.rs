//! A storage that is full after some bytes, or cannot put the manifest, or never ends doing so.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

use savemark_base::buffer::Arena;
use savemark_base::io::{Completion, Op, Operation};
use savemark_base::record::{Cache, PathTaken};
use savemark_storage::{Capabilities, File, Lock, NotPut, Queue};

pub struct Failing {
    inner: Arc<dyn Storage>,
    left: Arc<AtomicU64>,
    manifest: bool,
    /// Says that it hangs.
    hang: Option<PathBuf>,
}

impl Failing {
    pub fn new(inner: Arc<dyn Storage>, left: u64) -> Self {
        Self { inner, left: Arc::new(AtomicU64::new(left)), manifest: true, hang: None }
    }

    pub fn without_manifest(self) -> Self {
        Self { manifest: false, ..self }
    }

    pub fn that_hangs(self, marker: PathBuf) -> Self {
        Self { hang: Some(marker), ..self }
    }
}

/// Writes at once, while there is room.
struct Full {
    files: Vec<Arc<dyn File>>,
    left: Arc<AtomicU64>,
    done: Vec<Completion>,
}

impl Queue for Full {
    fn submit(&mut self, op: Op) -> Result<(), Error> {
        let Op { operation, file, offset, len, mut buffer, token } = op;
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(len as u64));
        let done = match operation {
            Operation::Read => self.files[file].read_at(&mut buffer[..len], offset),
            Operation::Write if taken.is_err() => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Operation::Write => self.files[file].write_at(&buffer[..len], offset),
        };
        let error = done.err().map(|e| Error::io("write", self.files[file].path(), e));
        self.done.push(Completion { token, buffer, len, latency_ns: Some(1), error });
        Ok(())
    }
    fn wait(&mut self, _: usize, done: &mut Vec<Completion>) -> Result<u64, Error> {
        done.append(&mut self.done);
        Ok(0)
    }
    fn wait_until(&mut self, _: u64, done: &mut Vec<Completion>) -> Result<u64, Error> {
        self.wait(0, done)
    }
    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

impl Storage for Failing {
    fn path_taken(&self) -> PathTaken {
        self.inner.path_taken()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { durable: self.inner.capabilities().durable, ..Default::default() }
    }
    fn free_bytes(&self) -> Result<Option<u64>, Error> {
        Ok(None)
    }
    fn create(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.inner.create(name)
    }
    fn open(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.inner.open(name)
    }
    fn open_for_writing(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.inner.open_for_writing(name)
    }
    fn queue(&self, files: &[Arc<dyn File>], _: u32, _: &Arc<Arena>) -> Result<Box<dyn Queue>, Error> {
        Ok(Box::new(Full { files: files.to_vec(), left: Arc::clone(&self.left), done: Vec::new() }))
    }
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), NotPut> {
        if let Some(marker) = &self.hang {
            fs::write(marker, "").unwrap();
            std::thread::sleep(Duration::from_secs(3600));
        }
        match self.manifest {
            true => self.inner.put(name, bytes),
            false => {
                let error = io::Error::from_raw_os_error(libc::EIO);
                Err(NotPut::surely(Error::io("write", &PathBuf::from(name), error)))
            }
        }
    }
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.inner.get(name)
    }
    fn list(&self) -> Result<Vec<String>, Error> {
        self.inner.list()
    }
    fn remove(&self, name: &str) -> Result<(), Error> {
        self.inner.remove(name)
    }
    fn sync(&self) -> Result<(), Error> {
        self.inner.sync()
    }
    fn lock(&self) -> Result<Box<dyn Lock>, Error> {
        self.inner.lock()
    }
    fn evict(&self, names: &[String]) -> Result<(), Error> {
        self.inner.evict(names)
    }
    fn residency(&self, names: &[String]) -> Result<Cache, Error> {
        self.inner.residency(names)
    }
}
