//! States in the caller's own memory: any layout comes back, damage is refused, and what is aligned is not copied.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use savemark_base::buffer::{Arena, Buffer, Owner, Pool};
use savemark_base::{Error, Kind};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::segments::{Segment, Segments};
use savemark_checkpoint::state::{Discard, lay_out};
use savemark_checkpoint::{MANIFEST, Manifest, Member, RestoreOptions, SaveOptions, Sink, Source, restore, save};
use savemark_measure::control::Control;
use savemark_storage::Storage;
use savemark_storage::posix::PosixOptions;
use savemark_storage::uring::UringOptions;

const PAGE: u64 = 4096;

/// A tensor: its length, where it starts in a page of memory, and whether it is laid at the same place of a page.
#[derive(Clone, Copy, Debug)]
struct Tensor {
    len: usize,
    shift: usize,
    congruent: bool,
}

fn packed(len: usize) -> Tensor {
    Tensor { len, shift: 64, congruent: false }
}

/// The tensors in memory of their own.
struct Memory {
    arena: Arc<Arena>,
    /// Where each is in the arena and in the state.
    places: Vec<(usize, u64, usize)>,
    bytes: u64,
}

impl Memory {
    /// `more` moves each tensor to another place of its page than it was saved from.
    fn of(tensors: &[Tensor], more: usize) -> Self {
        let (mut at, mut offset) = (0, 0u64);
        let mut places = Vec::new();
        for tensor in tensors {
            let shift = tensor.shift as u64 % PAGE;
            offset = match tensor.congruent {
                true => offset + (shift + PAGE - offset % PAGE) % PAGE,
                false => offset.next_multiple_of(64),
            };
            places.push((at + (tensor.shift + more) % PAGE as usize, offset, tensor.len));
            at += (tensor.len + 2 * PAGE as usize).next_multiple_of(PAGE as usize);
            offset += tensor.len as u64;
        }
        Self { arena: Arena::new(at.max(1)).unwrap(), places, bytes: offset }
    }

    fn filled(tensors: &[Tensor], seed: u8) -> Self {
        let memory = Self::of(tensors, 0);
        for (index, (at, _, len)) in memory.places.iter().enumerate() {
            // SAFETY: inside the arena; nobody else has it yet.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.arena.as_ptr().add(*at), *len) };
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = (i as u64 * 31 + index as u64 * 7 + (i >> 12) as u64 + u64::from(seed)) as u8;
            }
        }
        memory
    }

    fn state(&self) -> Segments {
        let segment = |(at, offset, len): &(usize, u64, usize)| Segment {
            offset: *offset,
            ptr: NonNull::new(self.arena.as_ptr().wrapping_add(*at)).unwrap(),
            len: *len,
        };
        let (members, bytes) = lay_out([("tensors".to_string(), self.bytes, 0o644)]);
        let list = self.places.iter().map(segment).collect();
        // SAFETY: disjoint parts of the arena, which nobody else uses meanwhile.
        unsafe { Segments::new(list, members, bytes, Arc::clone(&self.arena) as Owner) }.unwrap()
    }

    fn tensors(&self) -> Vec<&[u8]> {
        // SAFETY: inside the arena, which nobody writes to now.
        let read = |(at, _, len): &(usize, u64, usize)| unsafe {
            std::slice::from_raw_parts(self.arena.as_ptr().add(*at), *len)
        };
        self.places.iter().map(read).collect()
    }

    /// The bytes of the arena in which no tensor is.
    fn around(&self) -> Vec<u8> {
        // SAFETY: the whole arena, which nobody writes to now.
        let mut bytes = unsafe { std::slice::from_raw_parts(self.arena.as_ptr(), self.arena.len()) }.to_vec();
        for (at, _, len) in self.places.iter().rev() {
            bytes.drain(*at..at + len);
        }
        bytes
    }
}

/// A state that counts the bytes that are copied out of it or into it.
struct Counting(Segments, AtomicU64);

impl Source for Counting {
    fn members(&self) -> &[Member] {
        self.0.members()
    }
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn view(&self, offset: u64, len: usize) -> Option<Buffer> {
        self.0.view(offset, len)
    }
    fn lent(&self, min: usize) -> Vec<Range<u64>> {
        self.0.lent(min)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.1.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.0.read(offset, out)
    }
}

impl Sink for Counting {
    fn prepare(&self, members: &[Member], bytes: u64) -> Result<(), Error> {
        self.0.prepare(members, bytes)
    }
    fn window(&self, offset: u64, len: usize) -> Option<Buffer> {
        self.0.window(offset, len)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.1.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.0.write(offset, bytes)
    }
}

/// A state to whose first tensor somebody adds when it is being read for the sixth time.
struct Changing(Segments, Arc<Arena>, AtomicU64);

impl Changing {
    fn count(&self) {
        if self.2.fetch_add(1, Ordering::SeqCst) == 5 {
            // SAFETY: inside the arena. That it is written to while it is lent is what is tested.
            unsafe {
                let byte = self.1.as_ptr().add(PAGE as usize);
                byte.write_volatile(byte.read_volatile().wrapping_add(1));
            }
        }
    }
}

impl Source for Changing {
    fn members(&self) -> &[Member] {
        self.0.members()
    }
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn view(&self, offset: u64, len: usize) -> Option<Buffer> {
        self.count();
        self.0.view(offset, len)
    }
    fn lent(&self, min: usize) -> Vec<Range<u64>> {
        self.0.lent(min)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.count();
        self.0.read(offset, out)
    }
    fn may_change(&self) -> bool {
        self.0.may_change()
    }
}

#[test]
fn a_tensor_that_changes_during_the_save_replaces_nothing_and_is_named() {
    let target = disk();
    for storage in [uring(target.path()), posix(target.path())] {
        for (codec, streams) in [(CodecName::None, 1), (CodecName::None, 3), (CodecName::Zstd, 1), (CodecName::Tar, 0)]
        {
            let options = SaveOptions { codec, level: None, streams, chunk_bytes: 64 << 10, queue_depth: 2 };
            for tensors in [vec![Tensor { len: 1 << 20, shift: 0, congruent: true }; 2], vec![packed(300_001); 3]] {
                let save = |source: &dyn Source| {
                    save(source, &*storage, &options, &mut Pool::default(), &Control::default()).map(drop)
                };
                let still = Memory::filled(&tensors, 1);
                save(&still.state()).unwrap();
                let before = storage.list().unwrap();
                let moving = Memory::filled(&tensors, 2);
                let state = Changing(moving.state(), Arc::clone(&moving.arena), AtomicU64::new(0));
                let error = save(&state).expect_err("half of it is old and half is new");
                let range = error.range.clone().expect("it says where");
                assert!(range.contains(&PAGE) && range.end <= 128 << 10, "{range:?}");
                assert!(error.kind == Kind::Failed && error.hint.is_some(), "{error:?}");
                assert_eq!(storage.list().unwrap(), before, "{codec} {streams}");
                let found = Memory::of(&tensors, 0);
                let options = RestoreOptions { queue_depth: 2, in_place: true };
                restore(&*storage, &found.state(), &options, &mut Pool::default(), &Control::default()).unwrap();
                assert!(found.tensors() == still.tensors());
            }
        }
    }
}

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn uring(target: &Path) -> Arc<dyn Storage> {
    savemark_storage::open(&savemark_storage::Options::Uring(UringOptions::default()), target).unwrap()
}

fn posix(target: &Path) -> Arc<dyn Storage> {
    savemark_storage::open(&savemark_storage::Options::Posix(PosixOptions { direct: false }), target).unwrap()
}

fn options(codec: CodecName, streams: u32, chunk_bytes: usize) -> SaveOptions {
    SaveOptions { codec, level: None, streams, chunk_bytes, queue_depth: 2 }
}

fn save_to(storage: &dyn Storage, source: &dyn Source, options: &SaveOptions) -> Result<Manifest, Error> {
    save(source, storage, options, &mut Pool::default(), &Control::default()).map(|(manifest, _)| manifest)
}

fn restore_to(storage: &dyn Storage, sink: &dyn Sink, in_place: bool) -> Result<(), Error> {
    let options = RestoreOptions { queue_depth: 2, in_place };
    restore(storage, sink, &options, &mut Pool::default(), &Control::default()).map(drop)
}

/// Three large tensors where torch puts them, small ones between.
const MODEL: [Tensor; 6] = [
    Tensor { len: 5 << 20, shift: 64, congruent: true },
    Tensor { len: 1000, shift: 64, congruent: false },
    Tensor { len: 20, shift: 64, congruent: false },
    Tensor { len: (3 << 20) + 17, shift: 64, congruent: true },
    Tensor { len: 0, shift: 64, congruent: false },
    Tensor { len: 2 << 20, shift: 2048, congruent: true },
];

#[test]
fn of_large_tensors_only_the_first_and_last_page_are_copied() {
    let target = disk();
    let storage = uring(target.path());
    let memory = Memory::filled(&MODEL, 1);
    let source = Counting(memory.state(), AtomicU64::new(0));
    let manifest = save_to(&*storage, &source, &options(CodecName::None, 2, 1 << 20)).unwrap();
    let copied = source.1.into_inner();
    assert!(copied <= 5 * 2 * PAGE, "{copied} of {} bytes were copied", memory.bytes);
    assert_eq!(manifest.stored_bytes(), memory.bytes.next_multiple_of(PAGE), "no chunk is padded but the last");

    let back = Memory::of(&MODEL, 0);
    let sink = Counting(back.state(), AtomicU64::new(0));
    restore_to(&*storage, &sink, true).unwrap();
    let copied = sink.1.into_inner();
    assert!(copied <= 5 * 2 * PAGE, "{copied} of {} bytes were copied", memory.bytes);
    assert!(back.tensors() == memory.tensors());
}

#[test]
fn what_the_device_can_take_decides_whether_another_place_in_the_page_is_good_enough() {
    let target = disk();
    let storage = uring(target.path());
    let alignment = storage.capabilities().memory_alignment;
    assert!(alignment.is_power_of_two() && alignment <= 4096);
    let memory = Memory::filled(&MODEL, 2);
    save_to(&*storage, &memory.state(), &options(CodecName::None, 2, 1 << 20)).unwrap();
    for (more, lent) in [(0, true), (512, alignment <= 512), (64, alignment <= 64)] {
        let back = Memory::of(&MODEL, more);
        let sink = Counting(back.state(), AtomicU64::new(0));
        restore_to(&*storage, &sink, true).unwrap();
        assert_eq!(sink.1.into_inner() <= 5 * 2 * PAGE, lent, "moved by {more}, alignment {alignment}");
        assert!(back.tensors() == memory.tensors(), "moved by {more}");
    }
}

#[test]
fn small_tensors_share_chunks() {
    let target = disk();
    let tensors = vec![packed(700); 5000];
    let memory = Memory::filled(&tensors, 3);
    let storage = uring(target.path());
    let manifest = save_to(&*storage, &memory.state(), &options(CodecName::None, 2, 1 << 20)).unwrap();
    assert_eq!(manifest.chunks.len() as u64, memory.bytes.div_ceil(1 << 20));
    let back = Memory::of(&tensors, 5);
    restore_to(&*storage, &back.state(), true).unwrap();
    assert!(back.tensors() == memory.tensors());
}

#[test]
fn damage_is_refused_by_shard_and_offset_wherever_it_is_read_to() {
    let memory = Memory::filled(&MODEL, 4);
    for in_place in [false, true] {
        let target = disk();
        let storage = uring(target.path());
        let manifest = save_to(&*storage, &memory.state(), &options(CodecName::None, 1, 1 << 20)).unwrap();
        let shard = &manifest.shards[0].name;
        let path = target.path().join(shard);
        let whole = fs::read(&path).unwrap();
        for chunk in &manifest.chunks {
            for at in [0, chunk.stored_bytes / 2, chunk.stored_bytes - 1] {
                // What lies after the end of the state is padding, digested all the same.
                let mut damaged = whole.clone();
                damaged[(chunk.shard_offset + at) as usize] ^= 4;
                fs::write(&path, &damaged).unwrap();
                let error = restore_to(&*storage, &Memory::of(&MODEL, 0).state(), in_place).unwrap_err();
                let place = format!("{shard} is damaged at offset {}", chunk.shard_offset);
                assert!(error.kind == Kind::Corrupt && error.to_string().contains(&place), "{place}: {error}");
            }
        }
        fs::write(&path, &whole[..whole.len() - PAGE as usize]).unwrap();
        assert_eq!(restore_to(&*storage, &Memory::of(&MODEL, 0).state(), in_place).unwrap_err().kind, Kind::Corrupt);
        fs::write(&path, &whole).unwrap();
        restore_to(&*storage, &Memory::of(&MODEL, 0).state(), in_place).unwrap();
    }
}

/// The shards and the manifest are what they have always been, so any reader takes them, on another storage too.
#[test]
fn a_checkpoint_of_tensors_can_be_copied_and_verified_like_any_other() {
    let (target, copy) = (disk(), disk());
    let memory = Memory::filled(&MODEL, 5);
    save_to(&*uring(target.path()), &memory.state(), &options(CodecName::None, 3, 256 << 10)).unwrap();
    for entry in fs::read_dir(target.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    restore_to(&*posix(copy.path()), &Discard, false).unwrap();
    let back = Memory::of(&MODEL, 9);
    restore_to(&*posix(copy.path()), &back.state(), true).unwrap();
    assert!(back.tensors() == memory.tensors());
}

/// Chunks of equal length, as every checkpoint had them before: written where nothing is lent.
#[test]
fn evenly_cut_checkpoints_restore() {
    let target = disk();
    let memory = Memory::filled(&MODEL, 6);
    let manifest = save_to(&*posix(target.path()), &memory.state(), &options(CodecName::None, 2, 1 << 20)).unwrap();
    assert!(manifest.chunks.iter().rev().skip(1).all(|c| c.user_bytes == 1 << 20));
    for in_place in [false, true] {
        let back = Memory::of(&MODEL, 0);
        restore_to(&*uring(target.path()), &back.state(), in_place).unwrap();
        assert!(back.tensors() == memory.tensors());
    }
}

fn any_tensor() -> impl Strategy<Value = Tensor> {
    let len = prop_oneof![
        3 => 0usize..300,
        3 => (1usize..40, -2i64..3).prop_map(|(pages, off)| (pages as i64 * 4096 + off).max(0) as usize),
        2 => (1usize..5, -2i64..3).prop_map(|(chunks, off)| (chunks as i64 * 65536 + off * 64) as usize),
        2 => 0usize..400_000,
    ];
    let shift = prop_oneof![Just(0usize), Just(16), Just(64), Just(512), Just(4032), 0usize..4096];
    (len, shift, any::<bool>()).prop_map(|(len, shift, congruent)| Tensor { len, shift, congruent })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn any_layout_comes_back(
        tensors in proptest::collection::vec(any_tensor(), 1..12),
        more in prop_oneof![Just(0usize), Just(512), Just(1), 0usize..4096],
        streams in 0u32..4, chunk in 1usize..33, codec in 0usize..CodecName::ALL.len(), direct in any::<bool>(), in_place in any::<bool>(),
    ) {
        let memory = Memory::filled(&tensors, 9);
        prop_assume!(memory.bytes > 0);
        let target = disk();
        let storage = if direct { uring(target.path()) } else { posix(target.path()) };
        // Half of the cases without a codec: there memory is lent.
        let codec = if codec % 2 == 0 { CodecName::None } else { CodecName::ALL[codec] };
        let manifest = save_to(&*storage, &memory.state(), &options(codec, streams, chunk * 4096)).unwrap();
        prop_assert!(Manifest::from_bytes(&fs::read(target.path().join(MANIFEST)).unwrap()).unwrap() == manifest);
        let back = Memory::of(&tensors, more);
        restore_to(&*storage, &back.state(), in_place).unwrap();
        prop_assert!(back.tensors() == memory.tensors());
        prop_assert!(back.around().iter().all(|byte| *byte == 0), "bytes beside the tensors were written");
    }
}
