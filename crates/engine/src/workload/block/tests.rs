//! What the block workloads write, looked at between their phases.

use std::sync::Arc;

use super::content::Stamp;
use super::geometry::{Geometry, GeometryOptions, Sharing};
use super::options::{BlockOptions, Order};
use super::*;
use crate::bench::{Bench, Memory};
use crate::common::Common;
use crate::workload::Workload;
use savemark_base::error::Kind;
use savemark_base::io::Operation;
use savemark_base::payload::PayloadKind;
use savemark_base::record::Phase;
use savemark_base::size::Size;
use savemark_checkpoint::Source;
use savemark_measure::control::Control;
use savemark_storage::{Storage, object};
use savemark_testing::disk;
use savemark_testing::s3::{Faults, Server};

/// A workload on a storage, phase by phase.
struct Rig {
    common: Common,
    storage: Arc<dyn Storage>,
    memory: Memory,
    control: Control,
}

impl Rig {
    fn new(storage: Arc<dyn Storage>) -> Self {
        let common = Common { payload: PayloadKind::Random, seed: 3, ..Default::default() };
        Self { common, storage, memory: Memory::default(), control: Control::default() }
    }

    fn memory() -> Self {
        Self::new(
            savemark_storage::open(
                &savemark_storage::Options::Memory(Default::default()),
                savemark_storage::Target::default(),
            )
            .unwrap(),
        )
    }

    fn bench(&mut self) -> Bench<'_> {
        let storage = Arc::clone(&self.storage);
        Bench::new(&self.common, storage, &mut self.memory, &self.control)
    }

    /// Prepares and runs the first phase.
    fn begin(&mut self, workload: &mut dyn Workload) -> Phase {
        workload.prepare(&mut self.bench()).unwrap();
        let first = workload.phases(&self.bench())[0];
        workload.run(first, &mut self.bench()).unwrap()
    }

    fn content(&self, name: &str) -> Vec<u8> {
        let file = self.storage.open(name).unwrap();
        let size = file.size().unwrap() as usize;
        let arena = savemark_base::buffer::Arena::new(size).unwrap();
        // SAFETY: the arena is new, and cut once.
        let mut buffer = unsafe { arena.cut_some(savemark_base::buffer::align_up(size), 1) }.remove(0);
        file.read_at(&mut buffer[..size], 0).unwrap();
        buffer[..size].to_vec()
    }

    fn change(&self, name: &str, offset: u64, change: impl FnOnce(&mut [u8])) {
        let file = self.storage.open_for_writing(name).unwrap();
        let mut block = [0; 4096];
        file.read_at(&mut block, offset).unwrap();
        change(&mut block);
        file.write_at(&block, offset).unwrap();
    }
}

fn verified(operation: Operation) -> BlockOptions {
    let size = Size(1 << 20);
    BlockOptions { operation, size, transfer_size: Size(16 << 10), workers: 2, verify: true, ..Default::default() }
}

const SHARED: &str = "savemark-data.bin";

#[test]
fn a_flipped_bit_and_a_stale_block_are_found_and_named() {
    for order in [Order::Sequential, Order::Random, Order::Strided(3)] {
        let (mut rig, options) = (Rig::memory(), verified(Operation::Write));
        let mut block = Block::new(&options, order);
        rig.begin(&mut block);
        assert_eq!(block.phases(&rig.bench()), ["write", "verify"]);
        let good = block.run("verify", &mut rig.bench()).unwrap();
        assert_eq!((good.operations, good.verified.as_deref()), (64, Some("every block")), "{order:?}");
        let old = rig.content(SHARED);
        let wrong = |block: &mut Block, rig: &mut Rig| {
            let error = block.run("verify", &mut rig.bench()).unwrap_err();
            assert_eq!(error.kind, Kind::Corrupt);
            error.to_string()
        };
        rig.change(SHARED, 40 * 4096, |unit| unit[777] ^= 4);
        let text = wrong(&mut block, &mut rig);
        assert!(text.contains(SHARED) && text.contains(&format!("byte at offset {}", 40 * 4096 + 777)), "{text}");
        // Written once more: what was there before is stale now, whole or in part.
        block.run("write", &mut rig.bench()).unwrap();
        block.run("verify", &mut rig.bench()).unwrap();
        let stale = &old[4 * 4096..5 * 4096];
        rig.change(SHARED, 4 * 4096, |unit| unit.copy_from_slice(stale));
        let text = wrong(&mut block, &mut rig);
        let named = text.contains(&format!("offset {} holds a stale block", 4 * 4096));
        // A random order may not have written this one: then it is as it was.
        assert!(named || order == Order::Random, "{text}");
        rig.change(SHARED, 4 * 4096, |unit| unit.copy_from_slice(&old[..4096]));
        let text = wrong(&mut block, &mut rig);
        assert!(text.contains("holds another block") || text.contains("found offset 0"), "{text}");
        block.cleanup(&mut rig.bench()).unwrap();
        assert!(rig.storage.list().unwrap().is_empty());
    }
}

#[test]
fn a_read_is_verified_against_what_was_laid_out() {
    for order in [Order::Sequential, Order::Random] {
        let (mut rig, options) = (Rig::memory(), verified(Operation::Read));
        let mut block = Block::new(&options, order);
        assert_eq!(rig.begin(&mut block).verified.as_deref(), Some("every block"));
        assert_eq!(block.phases(&rig.bench()), ["read"]);
        (0..256).for_each(|unit| rig.change(SHARED, unit * 4096, |unit| unit[100] ^= 1));
        assert_eq!(block.run("read", &mut rig.bench()).unwrap_err().kind, Kind::Corrupt);
    }
}

/// Reads and writes of one block may not meet: with 8 of 16 blocks in flight they would.
#[test]
fn a_mix_reads_what_was_written_last() {
    let target = disk();
    let options =
        savemark_storage::Options::Uring(savemark_storage::uring::UringOptions { direct: false, ..Default::default() });
    let storage = savemark_storage::open(&options, target.path()).unwrap();
    for order in [Order::Sequential, Order::Random] {
        let mut rig = Rig::new(Arc::clone(&storage));
        let io = BlockOptions {
            reads: Some(50),
            operations: Some(1000),
            size: Size(512 << 10),
            ..verified(Operation::Read)
        };
        let mut block = Block::new(&io, order);
        let phase = rig.begin(&mut block);
        assert_eq!((phase.name.as_str(), phase.operations), ("mix", 2000));
        assert_eq!(block.run("verify", &mut rig.bench()).unwrap().operations, 32);
        block.cleanup(&mut rig.bench()).unwrap();
    }
}

#[test]
fn every_worker_has_files_of_its_own() {
    let (mut rig, options) = (Rig::memory(), BlockOptions { files: Some(3), ..verified(Operation::Write) });
    let mut block = Block::new(&options, Order::Sequential);
    assert_eq!(rig.begin(&mut block).user_bytes, (2 * 3) << 20);
    let names = rig.storage.list().unwrap();
    assert_eq!(names.len(), 6);
    assert!(names.iter().all(|name| rig.content(name).len() == 1 << 20));
    // A block in the place of the same block of another file is found.
    let other = rig.content(&names[4])[8192..12288].to_vec();
    rig.change(&names[1], 8192, |unit| unit.copy_from_slice(&other));
    let error = block.run("verify", &mut rig.bench()).unwrap_err().to_string();
    assert!(error.contains(&names[1]) && error.contains("of file 1") && error.contains("of file 4"), "{error}");
}

#[test]
fn each_byte_of_iors_geometry_is_written_by_the_worker_that_should() {
    let content = content::Content::new(&Rig::memory().common);
    for (sharing, random_offsets) in
        [(Sharing::OneFile, false), (Sharing::OneFile, true), (Sharing::FileEach, false), (Sharing::FileEach, true)]
    {
        let options = GeometryOptions {
            block_size: Size(32 << 10),
            segments: 3,
            transfer_size: Size(8 << 10),
            workers: 4,
            random_offsets,
            verify: true,
            ..Default::default()
        };
        let mut rig = Rig::memory();
        let mut geometry = Geometry::new(&options, sharing);
        assert_eq!(rig.begin(&mut geometry).operations, 4 * 12);
        let names = rig.storage.list().unwrap();
        assert_eq!(names.len(), if sharing == Sharing::OneFile { 1 } else { 4 });
        for (file, name) in names.iter().enumerate() {
            let bytes = rig.content(name);
            assert_eq!(bytes.len(), 4 * 3 * (32 << 10) / names.len());
            for (index, found) in bytes.chunks(8 << 10).enumerate() {
                // Segment after segment, in each the blocks of four transfers of worker 0, 1, 2, 3.
                let owner = if sharing == Sharing::OneFile { index / 4 % 4 } else { file } as u32;
                let mut expected = vec![0; 8 << 10];
                content.fill(Stamp { owner, file: 0, offset: (index as u64) << 13, generation: 1 }, &mut expected);
                assert!(found == expected, "{sharing:?} {name} transfer {index}");
            }
        }
        // Reordered by one: who reads this block is not who wrote it, and says so.
        let read = geometry.run("read", &mut rig.bench()).unwrap();
        assert_eq!((read.operations, read.verified.as_deref()), (48, Some("every block")));
        rig.change(names.last().unwrap(), 4096, |unit| unit[9] ^= 1);
        let error = geometry.run("read", &mut rig.bench()).unwrap_err();
        assert!(error.kind == Kind::Corrupt && error.to_string().contains("offset 4096"), "{error}");
        geometry.cleanup(&mut rig.bench()).unwrap();
        assert!(rig.storage.list().unwrap().is_empty());
    }
}

/// Held against a stand-in for a storage that removes duplicates: a set of all blocks that it was given, over several trials.
#[test]
fn nothing_is_written_twice() {
    let on_disk = disk();
    let here = savemark_storage::Target::Directory(on_disk.path().to_path_buf());
    let uring = savemark_storage::open(&savemark_storage::Options::Uring(Default::default()), here).unwrap();
    for mut rig in [Rig::memory(), Rig::new(uring)] {
        let mut given = std::collections::HashSet::new();
        for operation in [Operation::Read, Operation::Write, Operation::Read, Operation::Write] {
            let options =
                BlockOptions { operation, size: Size(16 << 20), queue_depth: 2, workers: 2, ..Default::default() };
            let mut block = Block::new(&options, Order::Sequential);
            let prepared = block.prepare(&mut rig.bench()).unwrap();
            let ran = block.run(options.direction().name(), &mut rig.bench()).unwrap();
            assert_eq!(ran.payload.is_some(), operation == Operation::Write);
            let payload = prepared.unwrap_or(ran).payload.unwrap();
            assert!(payload.repeated_share == 0.0 && payload.sampled_bytes >= 1 << 18, "{payload:?}");
            for unit in rig.content(SHARED).chunks(4096) {
                assert!(given.insert(unit.to_vec()), "{operation:?}: a block that was written before");
            }
            block.cleanup(&mut rig.bench()).unwrap();
        }
    }
}

/// What a save is held against: the same memory, whether calls block or not, and whoever of the workers writes which part.
#[test]
fn a_state_is_written_from_its_own_memory() {
    let on_disk = disk();
    let here = savemark_storage::Target::Directory(on_disk.path().to_path_buf());
    let uring = savemark_storage::open(&savemark_storage::Options::Uring(Default::default()), here).unwrap();
    for mut rig in [Rig::memory(), Rig::new(uring)] {
        let (size, workers) = (Size(10 << 20), 3);
        let options = BlockOptions { size, workers, queue_depth: 2, from_state: true, ..Default::default() };
        let mut before = Vec::new();
        for _ in 0..2 {
            let mut block = Block::new(&options, Order::Sequential);
            let phase = rig.begin(&mut block);
            let common = rig.common.clone();
            let state = rig.memory.source(&common, size.0, None).unwrap();
            let saved = state.view(0, size.0 as usize).unwrap();
            let written = rig.content(SHARED);
            assert!(written == saved[..], "each block comes from its place in the state");
            let payload = phase.payload.unwrap();
            assert!(payload.repeated_share == 0.0 && payload.sampled_bytes >= 1 << 18, "{payload:?}");
            let same = |(old, new): (&[u8], &[u8])| old == new;
            assert!(!before.chunks(4096).zip(written.chunks(4096)).any(same), "other bytes than the time before");
            before = written;
            block.cleanup(&mut rig.bench()).unwrap();
        }
        assert!(rig.memory.pool.bytes() < size.0 * 2, "the buffers are the state's");
    }
}

#[test]
fn a_state_is_written_once_and_whole() {
    let state = || BlockOptions { from_state: true, ..Default::default() };
    for options in [
        BlockOptions { operation: Operation::Read, ..state() },
        BlockOptions { reads: Some(50), ..state() },
        BlockOptions { operations: Some(3), ..state() },
        BlockOptions { duration: Some(savemark_base::size::Span(1)), ..state() },
        BlockOptions { memory: Some(Size(1 << 20)), ..state() },
        BlockOptions { verify: true, ..state() },
        BlockOptions { dedup: Some(1), ..state() },
    ] {
        let error = options.check(Order::Sequential).unwrap_err();
        assert!(error.kind == Kind::Usage && error.to_string().contains("from_state"), "{error}");
    }
    state().check(Order::Sequential).unwrap();
}

#[test]
fn as_many_blocks_repeat_as_asked_for() {
    for percent in [0, 40, 100] {
        let mut rig = Rig::memory();
        let dedup = Some(percent);
        let options = BlockOptions { size: Size(4 << 20), dedup, transfer_size: Size(4096), ..Default::default() };
        let phase = rig.begin(&mut Block::new(&options, Order::Sequential));
        let bytes = rig.content(SHARED);
        let unique = bytes.chunks(4096).collect::<std::collections::HashSet<_>>().len();
        let (low, high) = ((100 - percent as usize) * 1024 / 100, (100 - percent as usize) * 1024 / 100 + 8);
        assert!((low.saturating_sub(60)..=high + 60).contains(&unique), "{percent}: {unique} of 1024");
        let told = phase.payload.unwrap().repeated_share * 100.0;
        assert!((told - f64::from(percent)).abs() < 12.0, "{percent}: {told}");
    }
}

fn bucket(server: &Server) -> Arc<dyn Storage> {
    let environment = object::Environment::from_variables(server.environment());
    let options = object::ObjectOptions { retries: 3, ..Default::default() };
    Arc::new(object::open_in(&options, &server.url("blocks").into(), &environment).unwrap())
}

#[test]
fn whole_objects_are_put_and_got_by_one_request_each() {
    let root = disk();
    let server = Server::start(root.path());
    let size = Size(256 << 10);
    let whole =
        BlockOptions { files: Some(5), size, transfer_size: size, queue_depth: 3, ..verified(Operation::Write) };
    for (reads, order) in [(None, Order::Sequential), (None, Order::Random), (Some(50), Order::Random)] {
        let mut rig = Rig::new(bucket(&server));
        let options = BlockOptions { reads, operations: Some(20), ..whole.clone() };
        let mut block = Block::new(&options, order);
        block.prepare(&mut rig.bench()).unwrap();
        let before = server.counts().0;
        let phase = block.run(options.direction().name(), &mut rig.bench()).unwrap();
        assert_eq!((phase.operations, server.counts().0 - before), (40, 40), "{order:?}");
        assert!(phase.durable);
        block.run("verify", &mut rig.bench()).unwrap();
        assert_eq!(rig.storage.list().unwrap().len(), 10);
        block.cleanup(&mut rig.bench()).unwrap();
        assert!(rig.storage.list().unwrap().is_empty());
    }
    // What the server sends wrong, or refuses, is told with the object's name.
    let read = BlockOptions { operation: Operation::Read, ..whole.clone() };
    let mut rig = Rig::new(bucket(&server));
    let mut block = Block::new(&read, Order::Sequential);
    block.prepare(&mut rig.bench()).unwrap();
    server.set(Faults { flips: 1000, ..Default::default() });
    let error = block.run("read", &mut rig.bench()).unwrap_err();
    assert!(error.kind == Kind::Corrupt && error.to_string().contains("savemark-data-000"), "{error}");
    server.set(Faults {
        always: Some((savemark_testing::s3::StatusCode::FORBIDDEN, "AccessDenied")),
        ..Default::default()
    });
    let mut block = Block::new(&whole, Order::Sequential);
    block.prepare(&mut rig.bench()).unwrap();
    let error = block.run("write", &mut rig.bench()).unwrap_err().to_string();
    assert!(error.contains("savemark-data-000"), "{error}");
}

#[test]
fn an_object_is_moved_whole_or_written_from_front_to_back() {
    let root = disk();
    let server = Server::start(root.path());
    let some = BlockOptions { size: Size(1 << 20), workers: 2, ..Default::default() };
    for (options, order, word) in [
        (
            BlockOptions { files: Some(2), transfer_size: Size(64 << 10), ..some.clone() },
            Order::Sequential,
            "--transfer-size",
        ),
        (BlockOptions { reads: Some(50), ..some.clone() }, Order::Sequential, "--files"),
        (some.clone(), Order::Random, "sequential"),
        (BlockOptions { sync: Sync::None, ..some.clone() }, Order::Sequential, "--sync end"),
    ] {
        let mut rig = Rig::new(bucket(&server));
        let error = Block::new(&options, order).prepare(&mut rig.bench()).unwrap_err();
        assert!(error.kind == Kind::Usage && error.hint.as_deref().unwrap_or_default().contains(word), "{error}");
    }
    let mut rig = Rig::new(bucket(&server));
    let options = BlockOptions { transfer_size: Size(128 << 10), ..verified(Operation::Write) };
    let mut block = Block::new(&options, Order::Sequential);
    assert_eq!(rig.begin(&mut block).user_bytes, 1 << 20);
    assert_eq!(rig.storage.list().unwrap().len(), 2, "an object of each worker");
    block.run("verify", &mut rig.bench()).unwrap();
    let geometry =
        GeometryOptions { block_size: Size(1 << 20), segments: 1, workers: 2, verify: true, ..Default::default() };
    let error = Geometry::new(&geometry, Sharing::OneFile).prepare(&mut rig.bench()).unwrap_err();
    assert!(error.hint.unwrap().contains("file_per_process"));
    block.cleanup(&mut rig.bench()).unwrap();
    let mut each = Geometry::new(&geometry, Sharing::FileEach);
    rig.begin(&mut each);
    each.run("read", &mut rig.bench()).unwrap();
}

/// What somebody else has under our name is neither overwritten nor removed.
#[test]
fn a_file_that_is_there_already_stays() {
    let mut rig = Rig::memory();
    let options = BlockOptions { files: Some(2), size: Size(1 << 20), ..Default::default() };
    rig.storage.create("savemark-data-0000-000001.bin").unwrap().write_at(b"theirs", 0).unwrap();
    let mut block = Block::new(&options, Order::Sequential);
    assert!(block.prepare(&mut rig.bench()).is_err());
    block.cleanup(&mut rig.bench()).unwrap();
    assert_eq!(rig.storage.list().unwrap(), ["savemark-data-0000-000001.bin"]);
    assert_eq!(rig.content("savemark-data-0000-000001.bin"), b"theirs");
}

#[test]
fn a_deep_queue_waits_for_more_at_once() {
    for (queue_depth, batch, expected) in [
        (1, None, 1),
        (8, None, 1),
        (32, None, 4),
        (127, None, 15),
        (128, None, 32),
        (128, Some(16), 16),
        (4, Some(9), 4),
    ] {
        let options = BlockOptions { queue_depth, batch, ..Default::default() };
        assert_eq!(options.batch(), expected, "depth {queue_depth}, batch {batch:?}");
    }
}
