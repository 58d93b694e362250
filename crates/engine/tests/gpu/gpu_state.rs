//! States in GPUs' memory, saved and restored against the stand-in, whose copies happen later and on their own threads.

use std::ffi::{CString, c_int, c_long, c_uint, c_ulong};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use savemark_base::{Error, Kind};
use savemark_checkpoint::Member;
use savemark_checkpoint::gpu::{Extent, GpuState};
use savemark_checkpoint::segments::{Segment, Segments};
use savemark_checkpoint::state::lay_out;
use savemark_engine::commands::{CheckpointLocation, Report};
use savemark_engine::record::Record;
use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_host::nvidia::cuda::{self, Memory};
use savemark_measure::control::Control;
use savemark_measure::ranks::Placement;

/// The library has knobs and counters: one test at a time.
struct StandIn {
    _turn: MutexGuard<'static, ()>,
    fail: extern "C" fn(c_long, c_long),
    counts: extern "C" fn(*mut c_ulong),
    work: extern "C" fn(u64, c_int, usize, c_uint),
}

#[derive(Debug, PartialEq)]
struct Counts {
    unpinned: u64,
    streams: u64,
    events: u64,
    pinned_bytes: u64,
    /// Into GPUs, on streams.
    copies_in: u64,
}

impl StandIn {
    fn new() -> Option<Self> {
        let turn = crate::turn();
        let name = CString::new(savemark_testing::gpu::library()?.to_str()?).unwrap();
        // SAFETY: the library that we have made, whose functions have these types.
        unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
            let find = |name: &std::ffi::CStr| libc::dlsym(library, name.as_ptr());
            let stand_in = Self {
                _turn: turn,
                fail: std::mem::transmute::<*mut libc::c_void, extern "C" fn(c_long, c_long)>(find(c"standin_fail")),
                counts: std::mem::transmute::<*mut libc::c_void, extern "C" fn(*mut c_ulong)>(find(c"standin_counts")),
                work: std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64, c_int, usize, c_uint)>(find(
                    c"standin_work",
                )),
            };
            (stand_in.fail)(-1, -1);
            Some(stand_in)
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = [0; 5];
        (self.counts)(counts.as_mut_ptr());
        let [unpinned, streams, events, pinned_bytes, copies_in] = counts;
        Counts { unpinned, streams, events, pinned_bytes, copies_in }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        (self.fail)(-1, -1);
    }
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(savemark_testing::gpu::stand_in().unwrap()).unwrap()
}

fn trial(place: &Path, keys: &str) -> Trial {
    let head = format!(r#""workload":"checkpoint","storage":"posix","target":"{}""#, place.display());
    Trial::parse(&format!("{{{head}{}{keys}}}", if keys.is_empty() { "" } else { "," })).unwrap()
}

fn run(keys: &str) -> Result<Record, Error> {
    let place = place();
    let result = Engine::new().run(&trial(place.path(), keys), &Control::default());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "something was left");
    result
}

#[test]
fn a_generated_state_goes_out_of_gpus_and_back_into_them() {
    let Some(stand_in) = StandIn::new() else { return };
    for keys in [
        r#""state":"gpu","size":"9MiB""#,
        r#""state":"gpu:0,1","size":"9MiB","streams":3,"codec":"zstd""#,
        r#""state":"gpu:1","size":"5000","streams":1,"codec":"planes""#,
        r#""state":"gpu:0+1","size":"3MiB","streams":0,"codec":"tar""#,
        r#""state":"gpu:0-1","size":"9MiB","chunk_size":"64KiB","queue_depth":4,"cache":"warm","direct":false,"streams":2"#,
    ] {
        let before = stand_in.counts();
        let record = run(keys).unwrap();
        let [save, restore] = &record.phases[..] else { panic!("{keys}: {:?}", record.phases) };
        assert!(save.stall_ns.unwrap() > 0 && save.stall_ns.unwrap() <= save.elapsed_ns, "{keys}");
        assert!(restore.verified.as_ref().unwrap().contains("every byte in the GPUs' memory"), "{keys}");
        let payload = save.payload.as_ref().unwrap();
        assert!(payload.zero_share < 0.1 && save.user_bytes == restore.user_bytes, "{keys}");
        assert!(record.path.notes.iter().any(|note| note.contains("state on GPU")), "{:?}", record.path.notes);
        assert!(record.buffer_bytes > save.user_bytes, "pinned memory counts");
        let after = stand_in.counts();
        assert_eq!((after.unpinned, after.streams, after.events), (before.unpinned, 0, 0), "{keys}");
    }
}

#[test]
fn ranks_start_the_restore_that_is_measured_together() {
    let Some(stand_in) = StandIn::new() else { return };
    let (count, place) = (stand_in.counts, place());
    let copies_in = move || {
        let mut counts = [0; 5];
        (count)(counts.as_mut_ptr());
        counts[4]
    };
    let (before, met) = (copies_in(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&met);
    let meet = move |at: &str, numbers: &[u64], _: Option<&Error>| {
        seen.lock().unwrap().push((at.to_string(), copies_in()));
        Ok(numbers.to_vec())
    };
    let alone = Placement { rank: 0, ranks: 1, first_here: 0, nodes: 1, per_node: 1 };
    let warm = trial(place.path(), r#""state":"gpu","size":"3MiB","cache":"warm","direct":false"#);
    Engine::new().run(&warm, &Control::among(alone, Box::new(meet))).unwrap();
    let met = met.lock().unwrap();
    let at_start = met.iter().find(|(at, _)| at == "the start of restore").unwrap_or_else(|| panic!("{met:?}")).1;
    let each = (copies_in() - before) / 2;
    assert_eq!((each > 0, at_start - before), (true, each), "the warm-up came first, alone: {met:?}");
}

#[test]
fn pinned_memory_is_bounded_and_used_again() {
    let Some(stand_in) = StandIn::new() else { return };
    let keys = |staging: &str| format!(r#""state":"gpu:0,1","size":"24MiB","chunk_size":"1MiB"{staging}"#);
    run(&keys(r#","staging":"1""#)).unwrap();
    assert!(stand_in.counts().pinned_bytes <= 2 << 20, "one chunk, on a huge page");
    run(&keys("")).unwrap();
    let grown = stand_in.counts().pinned_bytes;
    assert!(grown >= 24 << 20);
    run(&keys("")).unwrap();
    assert_eq!(stand_in.counts().pinned_bytes, grown, "nothing is pinned twice");
    run(r#""state":"gpu","size":"1MiB","chunk_size":"64KiB""#).unwrap();
    assert_eq!(stand_in.counts().pinned_bytes, grown, "a small state gives nothing back");
    run(&keys(r#","staging":"2MiB""#)).unwrap();
    assert!(stand_in.counts().pinned_bytes < grown, "given back");
}

#[test]
fn what_cannot_be_is_said() {
    let Some(stand_in) = StandIn::new() else { return };
    let refused = |keys: &str| {
        let place = place();
        let head = format!(r#""workload":"checkpoint","storage":"posix","target":"{}""#, place.path().display());
        Trial::parse(&format!("{{{head},{keys}}}"))
            .and_then(|trial| Engine::new().run(&trial, &Control::default()))
            .unwrap_err()
    };
    for (keys, kind, message) in [
        (r#""state":"gpu:2""#, Kind::Usage, "there is no GPU 2"),
        (r#""state":"gpu:a""#, Kind::Usage, "state: `a` is no list of GPUs"),
        (r#""state":"gpu","size":"0""#, Kind::Usage, "0 bytes are no state"),
        (
            r#""state":"gpu","size":"1GiB""#,
            Kind::Failed,
            "CUDA cannot allocate 1073741824 bytes on GPU 0: out of memory",
        ),
    ] {
        let error = refused(keys);
        assert!(error.kind == kind && error.to_string().contains(message), "{keys}: {error}");
    }
    run(r#""state":"gpu","size":"1MiB","staging":"1""#).unwrap(); // gives back what is pinned
    (stand_in.fail)(-1, 0);
    let error = refused(r#""state":"gpu","size":"200MiB","chunk_size":"1MiB""#);
    assert!(error.to_string().contains("CUDA cannot pin host memory: out of memory"), "{error}");
    assert!(error.hint.unwrap().contains("--staging"));
}

/// Tensors on both GPUs and on the host, with gaps, across chunks.
struct Tensors {
    memories: Vec<Memory>,
    extents: Vec<Extent>,
    host: Vec<Vec<u8>>,
    segments: Vec<Segment>,
    members: Vec<Member>,
    bytes: u64,
}

/// SAFETY of the states made of it: its memory lives as long as the test, which uses it in turn.
impl Tensors {
    fn new() -> Self {
        let (index, start) = (600usize, 4096);
        // Where in the data, on which GPU (2: the host), how long.
        let places = [
            (0, 0, 5_000),
            (5_056, 1, 300),
            (5_376, 2, 70_000),
            (80_000, 1, 1_200_003),
            (1_290_000, 0, 9),
            (1_290_010, 0, 2_000_000),
            (3_300_000, 2, 1_000_000),
        ];
        let (members, bytes) = lay_out([("index".into(), index as u64, 0o644), ("data".into(), 4_300_001, 0o644)]);
        let driver = cuda::driver().unwrap();
        let mut made = Self { memories: vec![], extents: vec![], host: vec![], segments: vec![], members, bytes };
        made.keep_on_host(0, index);
        for (offset, gpu, len) in places {
            if gpu == 2 {
                made.keep_on_host(start + offset, len);
                continue;
            }
            let memory = driver.gpu(gpu).unwrap().memory(len).unwrap();
            let address = memory.address;
            assert_eq!(driver.owner(address), Some(gpu));
            made.extents.push(Extent { offset: start + offset, gpu, address, len });
            made.memories.push(memory);
        }
        made
    }

    fn keep_on_host(&mut self, offset: u64, len: usize) {
        let mut bytes = vec![0; len];
        self.segments.push(Segment { offset, ptr: NonNull::new(bytes.as_mut_ptr()).unwrap(), len });
        self.host.push(bytes);
    }

    fn state(&self) -> GpuState {
        let (members, owner) = (self.members.clone(), Arc::new(()));
        unsafe { GpuState::new(&self.extents, &self.segments, members, self.bytes, owner) }.unwrap()
    }

    /// Every byte depends on its place in the state, and on `seed`.
    fn fill(&mut self, seed: u8) {
        for (memory, extent) in self.memories.iter().zip(&self.extents) {
            memory.fill(0, &pattern(extent.offset, extent.len, seed)).unwrap();
        }
        for (bytes, segment) in self.host.iter_mut().zip(&self.segments) {
            bytes.copy_from_slice(&pattern(segment.offset, segment.len, seed));
        }
    }

    fn check(&self, seed: u8) {
        for (memory, extent) in self.memories.iter().zip(&self.extents) {
            let mut bytes = vec![0; extent.len];
            memory.read(0, &mut bytes).unwrap();
            assert!(bytes == pattern(extent.offset, extent.len, seed), "on GPU {} at {}", extent.gpu, extent.offset);
        }
        for (bytes, segment) in self.host.iter().zip(&self.segments) {
            assert!(*bytes == pattern(segment.offset, segment.len, seed), "on the host at {}", segment.offset);
        }
    }

    fn save(&self, place: &Path, keys: &str) -> Result<Report, Error> {
        CheckpointLocation::open(&trial(place, keys))?.save_gpu(&self.state(), &Control::default())
    }

    fn restore(&self, place: &Path, keys: &str) -> Result<Report, Error> {
        let trial = trial(place, keys);
        let place = CheckpointLocation::open(&trial)?;
        let chunk = place.manifest()?.chunk_bytes;
        place.restore_gpu(&self.state(), chunk, &Control::default())
    }
}

fn pattern(offset: u64, len: usize, seed: u8) -> Vec<u8> {
    (offset..offset + len as u64).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed).collect()
}

/// All of it in the host's memory.
fn on_host(tensors: &Tensors, room: &mut [u8]) -> Segments {
    let whole = Segment { offset: 0, ptr: NonNull::new(room.as_mut_ptr()).unwrap(), len: room.len() };
    unsafe { Segments::new(vec![whole], tensors.members.clone(), tensors.bytes, Arc::new(())) }.unwrap()
}

#[test]
fn tensors_on_gpus_and_on_the_host_are_one_state() {
    let Some(stand_in) = StandIn::new() else { return };
    let mut tensors = Tensors::new();
    for keys in [
        "",
        r#""chunk_size":"64KiB","staging":"64KiB","streams":3"#,
        r#""codec":"lz4","chunk_size":"256KiB""#,
        r#""streams":0,"queue_depth":1,"staging":"1""#,
    ] {
        let place = place();
        tensors.fill(7);
        let report = tensors.save(place.path(), keys).unwrap();
        assert!(report.phase.stall_ns.is_some() && report.path.notes.iter().any(|note| note.contains("GPU 1")));
        tensors.fill(8);
        tensors.restore(place.path(), keys).unwrap();
        tensors.check(7);
        // The same files as those of a state in the host's memory: what is between tensors is zero.
        let mut room = vec![1u8; tensors.bytes as usize];
        let trial = trial(place.path(), keys);
        CheckpointLocation::open(&trial).unwrap().restore(&on_host(&tensors, &mut room), &Control::default()).unwrap();
        for part in
            tensors.extents.iter().map(|e| (e.offset, e.len)).chain(tensors.segments.iter().map(|s| (s.offset, s.len)))
        {
            let range = part.0 as usize..part.0 as usize + part.1;
            assert!(room[range.clone()] == pattern(part.0, part.1, 7), "{keys} {range:?}");
            room[range].fill(0);
        }
        assert!(room.iter().all(|byte| *byte == 0), "{keys}");
    }
    assert_eq!((stand_in.counts().streams, stand_in.counts().events), (0, 0));
}

#[test]
fn what_was_saved_from_the_host_is_restored_into_gpus() {
    let Some(_stand_in) = StandIn::new() else { return };
    let (tensors, place) = (Tensors::new(), place());
    let mut room = pattern(0, tensors.bytes as usize, 3);
    let trial = trial(place.path(), r#""chunk_size":"128KiB""#);
    CheckpointLocation::open(&trial).unwrap().save(&on_host(&tensors, &mut room), &Control::default()).unwrap();
    for keys in ["", r#""staging":"1","queue_depth":8"#] {
        tensors.restore(place.path(), keys).unwrap();
        tensors.check(3);
    }
}

#[test]
fn what_the_application_has_started_is_waited_for() {
    let Some(stand_in) = StandIn::new() else { return };
    let (mut tensors, place) = (Tensors::new(), place());
    tensors.fill(0);
    let late = &tensors.extents[3];
    (stand_in.work)(late.address, 0x5A, late.len, 200_000);
    tensors.save(place.path(), "").unwrap();
    // A kernel that still writes when the restore is asked for must not come after it.
    (stand_in.work)(late.address, 0x77, late.len, 200_000);
    tensors.restore(place.path(), "").unwrap();
    let mut bytes = vec![0; late.len];
    tensors.memories[3].read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0x5A), "{:x?}", &bytes[..4]);
}

#[test]
fn the_application_is_released_once_and_before_the_end() {
    let Some(_stand_in) = StandIn::new() else { return };
    let (mut tensors, place) = (Tensors::new(), place());
    tensors.fill(1);
    let (control, calls) = (Control::default(), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&calls);
    control.on_release(move || {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let trial = trial(place.path(), "");
    CheckpointLocation::open(&trial).unwrap().save_gpu(&tensors.state(), &control).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_failed_copy_fails_the_save_and_the_checkpoint_before_remains() {
    let Some(stand_in) = StandIn::new() else { return };
    let (mut tensors, place) = (Tensors::new(), place());
    tensors.fill(4);
    tensors.save(place.path(), "").unwrap();
    tensors.fill(5);
    for after in [0, 3, 6] {
        (stand_in.fail)(after, -1);
        let error = tensors.save(place.path(), r#""chunk_size":"64KiB""#).unwrap_err();
        assert!(error.to_string().contains("CUDA cannot copy from the GPU: an illegal memory access"), "{error}");
    }
    (stand_in.fail)(2, -1);
    let error = tensors.restore(place.path(), "").unwrap_err();
    assert!(error.to_string().contains("CUDA cannot copy to the GPU: an illegal memory access"), "{error}");
    (stand_in.fail)(-1, -1);
    tensors.restore(place.path(), "").unwrap();
    tensors.check(4);
    assert_eq!((stand_in.counts().streams, stand_in.counts().events), (0, 0));
}

#[test]
fn a_damaged_byte_is_found_before_it_is_in_a_gpu() {
    let Some(_stand_in) = StandIn::new() else { return };
    let (mut tensors, place) = (Tensors::new(), place());
    tensors.fill(6);
    tensors.save(place.path(), r#""streams":1"#).unwrap();
    let shard = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("shard-"))
        .unwrap();
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[2_000_000] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    let error = tensors.restore(place.path(), "").unwrap_err();
    assert!(error.kind == Kind::Corrupt && error.to_string().contains("is damaged at offset"), "{error}");
}
