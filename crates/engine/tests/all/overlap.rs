//! While a restore looks at a chunk, the device has as much to do as it may have.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use savemark_base::Error;
use savemark_base::buffer::{Arena, Pool};
use savemark_base::io::{Completion, Op};
use savemark_base::payload::PayloadKind;
use savemark_base::record::{Cache, PathTaken};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::GeneratedState;
use savemark_checkpoint::{Member, RestoreOptions, SaveOptions, Sink, restore, save};
use savemark_measure::control::Control;
use savemark_storage::{Capabilities, File, Lock, NotPut, Queue, Storage};

/// Reads that were handed to the device and have not come back.
type Flying = Arc<AtomicUsize>;

/// A device that ends one I/O each time that somebody waits for it; what was only submitted it does not have.
struct Slow {
    files: Vec<Arc<dyn File>>,
    submitted: Vec<Op>,
    flying: Vec<Op>,
    count: Flying,
}

impl Queue for Slow {
    fn submit(&mut self, op: Op) -> Result<(), Error> {
        self.submitted.push(op);
        Ok(())
    }
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<u64, Error> {
        self.flying.append(&mut self.submitted);
        for _ in 0..min {
            let mut op = self.flying.remove(0);
            self.files[op.file].read_at(&mut op.buffer[..op.len], op.offset).unwrap();
            let Op { token, buffer, len, .. } = op;
            done.push(Completion { token, buffer, len, latency_ns: Some(1), error: None });
        }
        self.count.store(self.flying.len(), Ordering::Relaxed);
        Ok(0)
    }
    fn wait_until(&mut self, _: u64, done: &mut Vec<Completion>) -> Result<u64, Error> {
        self.wait(1, done)
    }
    fn in_flight(&self) -> usize {
        self.submitted.len() + self.flying.len()
    }
}

struct Device {
    files: Arc<dyn Storage>,
    count: Flying,
}

impl Storage for Device {
    fn queue(&self, files: &[Arc<dyn File>], _: u32, _: &Arc<Arena>) -> Result<Box<dyn Queue>, Error> {
        let (files, count) = (files.to_vec(), Arc::clone(&self.count));
        Ok(Box::new(Slow { files, submitted: Vec::new(), flying: Vec::new(), count }))
    }
    fn path_taken(&self) -> PathTaken {
        self.files.path_taken()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { durable: false, ..Default::default() }
    }
    fn free_bytes(&self) -> Result<Option<u64>, Error> {
        Ok(None)
    }
    fn create(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.files.create(name)
    }
    fn open(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.files.open(name)
    }
    fn open_for_writing(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.files.open_for_writing(name)
    }
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), NotPut> {
        self.files.put(name, bytes)
    }
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.files.get(name)
    }
    fn list(&self) -> Result<Vec<String>, Error> {
        self.files.list()
    }
    fn remove(&self, name: &str) -> Result<(), Error> {
        self.files.remove(name)
    }
    fn sync(&self) -> Result<(), Error> {
        self.files.sync()
    }
    fn lock(&self) -> Result<Box<dyn Lock>, Error> {
        self.files.lock()
    }
    fn evict(&self, names: &[String]) -> Result<(), Error> {
        self.files.evict(names)
    }
    fn residency(&self, names: &[String]) -> Result<Cache, Error> {
        self.files.residency(names)
    }
}

/// Notes how many reads are on their way each time that it is given a chunk, which it compares.
struct Watching {
    state: GeneratedState,
    count: Flying,
    seen: Mutex<Vec<usize>>,
}

impl Sink for Watching {
    fn prepare(&self, members: &[Member], bytes: u64) -> Result<(), Error> {
        self.state.prepare(members, bytes)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.seen.lock().unwrap().push(self.count.load(Ordering::Relaxed));
        self.state.write(offset, bytes)
    }
}

const CHUNKS: usize = 12;

/// What was on its way as each chunk was looked at.
fn seen(codec: CodecName, streams: u32, queue_depth: u32) -> Vec<usize> {
    let files =
        savemark_storage::open(&savemark_storage::Options::Memory(Default::default()), std::path::Path::new(""))
            .unwrap();
    let bytes = (CHUNKS as u64) << 16;
    let state = || GeneratedState::new(PayloadKind::Bf16, 3, bytes);
    let options = SaveOptions { codec, level: None, streams, chunk_bytes: 64 << 10, queue_depth };
    let control = Control::default();
    save(&state(), &*files, &options, &mut Pool::default(), &control).unwrap();
    let count = Flying::default();
    let device = Device { files, count: Arc::clone(&count) };
    let sink = Watching { state: state(), count, seen: Mutex::default() };
    let options = RestoreOptions { queue_depth, in_place: false };
    restore(&device, &sink, &options, &mut Pool::default(), &control).unwrap();
    sink.seen.into_inner().unwrap()
}

#[test]
fn the_queue_is_full_while_a_chunk_is_looked_at() {
    for codec in [CodecName::None, CodecName::Lz4] {
        for depth in [1, 2, 4] {
            let seen = seen(codec, 1, depth);
            let expected = |index: usize| (depth as usize).min(CHUNKS - 1 - index);
            assert_eq!(seen, (0..CHUNKS).map(expected).collect::<Vec<_>>(), "{codec:?} at depth {depth}");
        }
    }
}

#[test]
fn a_sequential_archive_is_restored_one_step_after_the_other() {
    assert_eq!(seen(CodecName::None, 0, 4), [0; CHUNKS]);
}
