//! The moment at which a checkpoint becomes the new one, when the storage fails just then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use savemark_base::buffer::{Arena, Pool};
use savemark_base::error::Result;
use savemark_base::payload::PayloadKind;
use savemark_base::record::{Cache, PathTaken, Phase};
use savemark_base::{Error, Kind};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::{Discard, GeneratedState};
use savemark_checkpoint::{MANIFEST, Manifest, RestoreOptions, SaveOptions, restore, save};
use savemark_measure::control::Control;
use savemark_storage::memory::Memory;
use savemark_storage::{Capabilities, File, Lock, NotPut, Queue, Storage};

/// Which request fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    Nothing,
    /// The manifest is not put.
    Put,
    /// The manifest is put, and the answer says that it is not.
    Answer,
    /// The manifest is put, the answer says that it is not, and it cannot be looked at.
    AnswerAndGet,
    Remove,
    /// The manifest is put, the answer says that it is not, and what is looked at is an older copy of it.
    AnswerAndStale,
    /// The answer says that the manifest is put, and it is not.
    Forgets,
    /// The answer says that a shard is stored, and it is not there.
    ForgetsShard,
    /// The answer says that a shard is stored, and it is empty.
    EmptiesShard,
    /// The checkpoint is replaced while its shards are being opened.
    Replaces,
}

/// A storage that fails on demand; without locks, as a bucket is, if so asked.
struct Failing {
    inner: Memory,
    fails: Fails,
    locks: bool,
    stale: Mutex<Option<Vec<u8>>>,
}

fn refused() -> Error {
    Error::failed("as asked for")
}

impl Storage for Failing {
    fn path_taken(&self) -> PathTaken {
        self.inner.path_taken()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { locks: self.locks, calls_block: false, ..self.inner.capabilities() }
    }
    fn free_bytes(&self) -> Result<Option<u64>> {
        self.inner.free_bytes()
    }
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let elsewhere = format!("elsewhere-{name}");
        match self.fails {
            Fails::ForgetsShard => self.inner.create(&elsewhere),
            Fails::EmptiesShard => self.inner.create(name).and_then(|_| self.inner.create(&elsewhere)),
            _ => self.inner.create(name),
        }
    }
    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        if self.fails == Fails::Replaces && !REPLACED.swap(true, Ordering::SeqCst) {
            save_to(self, SECOND)?;
        }
        self.inner.open(name)
    }
    fn open_for_writing(&self, name: &str) -> Result<Arc<dyn File>> {
        self.inner.open_for_writing(name)
    }
    fn queue(&self, files: &[Arc<dyn File>], depth: u32, arena: &Arc<Arena>) -> Result<Box<dyn Queue>> {
        self.inner.queue(files, depth, arena)
    }
    fn put(&self, name: &str, bytes: &[u8]) -> std::result::Result<(), NotPut> {
        if self.fails == Fails::AnswerAndStale {
            *self.stale.lock().unwrap() = self.inner.get(name).unwrap();
        }
        if !matches!(self.fails, Fails::Put | Fails::Forgets) {
            self.inner.put(name, bytes)?;
        }
        match self.fails {
            Fails::Put if self.locks => Err(NotPut::surely(refused())),
            Fails::Put | Fails::Answer | Fails::AnswerAndGet | Fails::AnswerAndStale => Err(NotPut::perhaps(refused())),
            _ => Ok(()),
        }
    }
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let found = self.stale.lock().unwrap().clone().map_or_else(|| self.inner.get(name), |stale| Ok(Some(stale)))?;
        // Before the put the manifest is looked at as well: that of the first state is seen, any other is not.
        let is_first = found.as_ref().is_none_or(|f| Manifest::from_bytes(f).unwrap().state_bytes == FIRST);
        if self.fails == Fails::AnswerAndGet && !is_first { Err(refused()) } else { Ok(found) }
    }
    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }
    fn remove(&self, name: &str) -> Result<()> {
        if self.fails == Fails::Remove { Err(refused()) } else { self.inner.remove(name) }
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn lock(&self) -> Result<Box<dyn Lock>> {
        self.inner.lock()
    }
    fn evict(&self, names: &[String]) -> Result<()> {
        self.inner.evict(names)
    }
    fn residency(&self, names: &[String]) -> Result<Cache> {
        self.inner.residency(names)
    }
}

const FIRST: u64 = 1 << 20;
const SECOND: u64 = 2 << 20;

fn state(bytes: u64) -> GeneratedState {
    GeneratedState::new(PayloadKind::Random, bytes, bytes)
}

fn save_to(storage: &Failing, bytes: u64) -> Result<Phase> {
    let options =
        SaveOptions { codec: CodecName::None, level: None, streams: 2, chunk_bytes: 64 << 10, queue_depth: 2 };
    save(&state(bytes), storage, &options, &mut Pool::default(), &Control::default()).map(|(_, phase)| phase)
}

/// Whatever manifest is in place restores; returns the length of its state, and how many shards there are.
fn holds(storage: &mut Failing) -> (u64, usize) {
    storage.fails = Fails::Nothing;
    *storage.stale.lock().unwrap() = None;
    let bytes = Manifest::from_bytes(&storage.get(MANIFEST).unwrap().unwrap()).unwrap().state_bytes;
    let options = RestoreOptions { queue_depth: 2, in_place: false };
    restore(storage, &state(bytes), &options, &mut Pool::default(), &Control::default()).unwrap();
    (bytes, storage.list().unwrap().iter().filter(|name| name.starts_with("shard-")).count())
}

/// Saves the first state, then the second while something fails.
fn second_save(fails: Fails, locks: bool) -> (Result<Phase>, Failing) {
    let mut storage = Failing { inner: Memory::default(), fails: Fails::Nothing, locks, stale: Mutex::default() };
    save_to(&storage, FIRST).unwrap();
    storage.fails = fails;
    (save_to(&storage, SECOND), storage)
}

#[test]
fn a_manifest_that_is_not_put_leaves_the_previous_checkpoint_alone() {
    let (saved, mut storage) = second_save(Fails::Put, true);
    assert_eq!(saved.unwrap_err().kind, Kind::Failed);
    assert_eq!(holds(&mut storage), (FIRST, 2), "nothing is left of the second");
}

#[test]
fn a_request_that_may_still_arrive_finds_its_shards() {
    let (saved, mut storage) = second_save(Fails::Put, false);
    assert!(saved.is_err());
    assert_eq!(holds(&mut storage), (FIRST, 4));
}

#[test]
fn a_manifest_that_is_in_place_after_all_restores() {
    for fails in [Fails::Answer, Fails::AnswerAndGet, Fails::AnswerAndStale] {
        for locks in [true, false] {
            let (saved, mut storage) = second_save(fails, locks);
            assert!(saved.is_err(), "{fails:?}: it may not be durable");
            assert_eq!(holds(&mut storage), (SECOND, 4), "{fails:?} {locks}");
        }
    }
}

#[test]
fn a_checkpoint_is_saved_even_if_the_one_before_cannot_be_removed() {
    let (saved, mut storage) = second_save(Fails::Remove, false);
    assert!(saved.unwrap().notes.iter().any(|note| note.contains("not removed")));
    assert_eq!(holds(&mut storage), (SECOND, 4));
}

#[test]
fn what_was_answered_as_stored_and_is_not_there_replaces_nothing() {
    for fails in [Fails::Forgets, Fails::ForgetsShard, Fails::EmptiesShard] {
        for locks in [true, false] {
            let (saved, mut storage) = second_save(fails, locks);
            let error = saved.expect_err("it is not durable");
            assert!(error.kind == Kind::Failed && error.hint.is_some(), "{fails:?}: {error:?}");
            assert_eq!(holds(&mut storage).0, FIRST, "{fails:?} {locks}");
        }
    }
}

/// Of the one test with [`Fails::Replaces`].
static REPLACED: AtomicBool = AtomicBool::new(false);

#[test]
fn a_checkpoint_that_is_replaced_while_it_is_opened_is_opened_anew() {
    let mut storage = Failing { inner: Memory::default(), fails: Fails::Nothing, locks: true, stale: Mutex::default() };
    save_to(&storage, FIRST).unwrap();
    storage.fails = Fails::Replaces;
    let options = RestoreOptions { queue_depth: 2, in_place: false };
    let (manifest, _) = restore(&storage, &Discard, &options, &mut Pool::default(), &Control::default()).unwrap();
    assert_eq!(manifest.state_bytes, SECOND);
}
