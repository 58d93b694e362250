//! A checkpoint is whole or it is not there: damage, full disks, other savers, and memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use savemark_base::buffer::Pool;
use savemark_base::payload::PayloadKind;
use savemark_base::{Error, Kind};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::{Discard, GeneratedState, MemoryState};
use savemark_checkpoint::{MANIFEST, RestoreOptions, SaveOptions, Source, restore, save};
use savemark_measure::control::Control;
use savemark_storage::Storage;
use savemark_storage::posix::PosixOptions;
use savemark_storage::uring::UringOptions;

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn posix(target: &Path) -> Arc<dyn Storage> {
    savemark_storage::open(&savemark_storage::Options::Posix(PosixOptions { direct: false }), target).unwrap()
}

fn uring(target: &Path) -> Arc<dyn Storage> {
    savemark_storage::open(&savemark_storage::Options::Uring(UringOptions::default()), target).unwrap()
}

fn options(codec: CodecName, streams: u32) -> SaveOptions {
    SaveOptions { codec, level: None, streams, chunk_bytes: 64 << 10, queue_depth: 2 }
}

fn save_to(storage: &dyn Storage, source: &dyn Source, options: &SaveOptions) -> Result<(), Error> {
    save(source, storage, options, &mut Pool::default(), &Control::default()).map(drop)
}

fn verify(storage: &dyn Storage) -> Result<(), Error> {
    restore(
        storage,
        &Discard,
        &RestoreOptions { queue_depth: 2, in_place: false },
        &mut Pool::default(),
        &Control::default(),
    )
    .map(drop)
}

/// Restores and compares with what was generated.
fn restores(storage: &dyn Storage, state: &GeneratedState) -> Result<(), Error> {
    restore(
        storage,
        state,
        &RestoreOptions { queue_depth: 2, in_place: false },
        &mut Pool::default(),
        &Control::default(),
    )
    .map(drop)
}

#[test]
fn every_flipped_bit_is_refused_in_data_and_manifest() {
    for (codec, streams) in [(CodecName::None, 2), (CodecName::Zstd, 2), (CodecName::Gzip, 0), (CodecName::Tar, 0)] {
        let target = disk();
        let storage = posix(target.path());
        save_to(&*storage, &GeneratedState::new(PayloadKind::Bf16, 1, 150_001), &options(codec, streams)).unwrap();
        verify(&*storage).unwrap();
        for name in storage.list().unwrap() {
            let path = target.path().join(&name);
            let whole = fs::read(&path).unwrap();
            // All of the manifest, and every 97th byte of a shard: a few hundred places each, another bit each time.
            let step = if name == MANIFEST { 1 } else { 97 };
            for (turn, at) in (0..whole.len()).step_by(step).enumerate() {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << (turn % 8);
                fs::write(&path, &damaged).unwrap();
                let error = verify(&*storage).err().unwrap_or_else(|| panic!("{codec}: {name} byte {at} was accepted"));
                assert_eq!(error.kind, Kind::Corrupt, "{codec}: {name} byte {at}: {error}");
                assert!(error.to_string().contains(&name), "{error}");
            }
            fs::write(&path, &whole).unwrap();
        }
        verify(&*storage).unwrap();
    }
}

#[test]
fn the_first_bad_chunk_is_named_with_its_offset() {
    let target = disk();
    let storage = posix(target.path());
    save_to(&*storage, &GeneratedState::new(PayloadKind::Random, 1, 1 << 20), &options(CodecName::None, 1)).unwrap();
    let shard = storage.list().unwrap().into_iter().find(|n| n != MANIFEST).unwrap();
    let path = target.path().join(&shard);
    let mut bytes = fs::read(&path).unwrap();
    for chunk in [5, 3, 9] {
        bytes[chunk * 65536 + 11] ^= 0x40;
    }
    fs::write(&path, &bytes).unwrap();
    let message = verify(&*storage).unwrap_err().to_string();
    assert!(message.contains(&shard) && message.contains(&format!("offset {}", 3 * 65536)), "{message}");
}

#[test]
fn a_shard_that_is_cut_longer_or_gone_is_refused() {
    let target = disk();
    let storage = posix(target.path());
    save_to(&*storage, &GeneratedState::new(PayloadKind::Bf16, 1, 300_000), &options(CodecName::Lz4, 2)).unwrap();
    let shard = storage.list().unwrap().into_iter().find(|n| n != MANIFEST && bytes_of(target.path(), n) > 0).unwrap();
    let path = target.path().join(&shard);
    let whole = fs::read(&path).unwrap();
    for damaged in [&whole[..whole.len() - 1], &[&whole[..], b"x"].concat(), b""] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(verify(&*storage).unwrap_err().kind, Kind::Corrupt);
    }
    fs::remove_file(&path).unwrap();
    let error = verify(&*storage).unwrap_err();
    assert!(error.kind == Kind::Corrupt && error.to_string().contains("missing"), "{error}");
}

fn bytes_of(directory: &Path, name: &str) -> u64 {
    fs::metadata(directory.join(name)).unwrap().len()
}

#[test]
fn a_failed_save_leaves_the_previous_checkpoint_and_no_rubbish() {
    let target = disk();
    let storage = uring(target.path());
    let old = GeneratedState::new(PayloadKind::Bf16, 1, 400_000);
    save_to(&*storage, &old, &options(CodecName::None, 2)).unwrap();
    let before = storage.list().unwrap();
    let error =
        save_to(&*storage, &Broken(GeneratedState::new(PayloadKind::Bf16, 2, 900_000)), &options(CodecName::Zstd, 3));
    assert_eq!(error.unwrap_err().to_string(), "the source broke");
    assert_eq!(storage.list().unwrap(), before);
    restores(&*storage, &old).unwrap();
}

/// A source that fails in the middle.
struct Broken(GeneratedState);
impl Source for Broken {
    fn members(&self) -> &[savemark_checkpoint::Member] {
        self.0.members()
    }
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        if offset > 500_000 { Err(Error::failed("the source broke")) } else { self.0.read(offset, out) }
    }
}

#[test]
fn a_new_save_replaces_the_old_one_and_removes_orphans_but_nothing_foreign() {
    let target = disk();
    let storage = uring(target.path());
    for foreign in ["shard-of-somebody", "notes.txt", "shard-0123-4567-8.bin"] {
        fs::write(target.path().join(foreign), b"mine").unwrap();
    }
    fs::write(target.path().join("shard-0123456789abcdef-00000001-0000.zst"), b"orphan").unwrap();
    let (first, second) =
        (GeneratedState::new(PayloadKind::Text, 1, 500_000), GeneratedState::new(PayloadKind::Text, 2, 70_000));
    save_to(&*storage, &first, &options(CodecName::Zstd, 2)).unwrap();
    save_to(&*storage, &second, &options(CodecName::None, 1)).unwrap();
    restores(&*storage, &second).unwrap();
    assert!(restores(&*storage, &first).is_err());
    assert_eq!(storage.list().unwrap().len(), 3 + 2, "{:?}", storage.list());
}

#[test]
fn two_savers_do_not_meet() {
    let target = disk();
    let storage = posix(target.path());
    let state = GeneratedState::new(PayloadKind::Zeros, 1, 100_000);
    let lock = storage.lock().unwrap();
    assert_eq!(save_to(&*storage, &state, &options(CodecName::None, 1)).unwrap_err().kind, Kind::Refused);
    drop(lock);
    save_to(&*storage, &state, &options(CodecName::None, 1)).unwrap();
}

#[test]
fn no_checkpoint_is_not_an_empty_one() {
    let target = disk();
    let error = verify(&*posix(target.path())).unwrap_err();
    assert!(error.kind == Kind::Usage && error.to_string().contains(MANIFEST), "{error}");
    let empty = GeneratedState::new(PayloadKind::Zeros, 1, 0);
    assert_eq!(save_to(&*posix(target.path()), &empty, &options(CodecName::None, 1)).unwrap_err().kind, Kind::Usage);
}

/// 2 GiB through a few MiB of buffers.
#[test]
fn memory_stays_bounded_whatever_the_size_of_the_state() {
    let target = disk();
    let storage = uring(target.path());
    let state = GeneratedState::new(PayloadKind::Zeros, 1, 2 << 30);
    let options = SaveOptions { chunk_bytes: 1 << 20, ..options(CodecName::Lz4, 2) };
    let (mut pool, control) = (Pool::default(), Control::default());
    let before = resident_bytes();
    save(&state, &*storage, &options, &mut pool, &control).unwrap();
    restore(&*storage, &state, &RestoreOptions { queue_depth: 2, in_place: false }, &mut pool, &control).unwrap();
    // workers × (depth + 1) × the bound of a chunk, in huge pages
    assert!(pool.bytes() <= 2 * (8 << 20), "{} bytes of buffers", pool.bytes());
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 128 << 20, "the process grew by {grown} bytes for a state of 2 GiB");
}

/// The high-water mark: what was freed again counts too.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_full_disk_is_told_before_when_the_size_is_known() {
    let target = disk();
    let storage = posix(target.path());
    let free = storage.free_bytes().unwrap().unwrap();
    let huge = GeneratedState::new(PayloadKind::Zeros, 1, free + (1 << 30));
    let error = save_to(&*storage, &huge, &options(CodecName::None, 1)).unwrap_err();
    assert!(error.to_string().contains("no room") && error.hint.is_some(), "{error}");
    assert_eq!(storage.list().unwrap(), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_state_comes_back(bytes in 1u64..700_000, streams in 0u32..5, chunk in 1usize..40, codec in 0usize..6, seed in 0u64..9) {
        let target = disk();
        let storage = uring(target.path());
        let state = MemoryState::generate(PayloadKind::Bf16, seed, bytes).unwrap();
        let options = SaveOptions { chunk_bytes: chunk * 4096, ..options(CodecName::ALL[codec], streams) };
        save_to(&*storage, &state, &options).unwrap();
        restores(&*storage, &GeneratedState::new(PayloadKind::Bf16, seed, bytes)).unwrap();
        let destination = MemoryState::empty(bytes).unwrap();
        restore(&*storage, &destination, &RestoreOptions { queue_depth: 3, in_place: true }, &mut Pool::default(), &Control::default()).unwrap();
    }
}
