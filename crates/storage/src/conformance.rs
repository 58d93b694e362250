//! What every storage must do. A new storage gets a line in [`every_storage`] and with it all of these tests.

use std::path::Path;
use std::sync::Arc;

use super::*;
use savemark_base::buffer::{ALIGN, Arena};
use savemark_base::error::Kind;
use savemark_base::io::{Completion, Op, Operation};
use savemark_testing::s3::Server;

/// Each storage in a directory of its own, by name.
fn every_storage(root: &Path, server: &Server) -> Vec<(&'static str, Arc<dyn Storage>)> {
    let in_directory = |name: &'static str, options: Options| {
        let target = root.join(name.replace(' ', "-"));
        std::fs::create_dir(&target).unwrap();
        (name, open(&options, &target).unwrap())
    };
    let bucket = || -> Arc<dyn Storage> {
        let environment = object::Environment::from_variables(server.environment());
        let url = server.url("some/prefix").into();
        Arc::new(object::open_in(&Default::default(), &url, &environment).unwrap())
    };
    vec![
        in_directory("null", Options::Null(Default::default())),
        in_directory("memory", Options::Memory(Default::default())),
        in_directory("posix", Options::Posix(Default::default())),
        in_directory("posix buffered", Options::Posix(posix::PosixOptions { direct: false })),
        in_directory("uring", Options::Uring(Default::default())),
        in_directory("uring buffered", Options::Uring(uring::UringOptions { direct: false, ..Default::default() })),
        in_directory(
            "uring plain",
            Options::Uring(uring::UringOptions {
                fixed_buffers: uring::FixedBuffers::Off,
                registered_files: false,
                direct: true,
            }),
        ),
        in_directory(
            "posix of gds",
            Options::Gds(gds::GdsOptions { transfer: gds::Transfer::Cpu, ..Default::default() }),
        ),
        ("object", bucket()),
    ]
}

/// Direct I/O needs a disk below: the target directory is on one wherever the tests run from a checkout.
fn for_every_storage(test: impl Fn(&str, &dyn Storage)) {
    let root = savemark_testing::disk();
    let server = Server::start(&root.path().join("s3"));
    for (name, storage) in every_storage(root.path(), &server) {
        test(name, &*storage);
    }
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed) as u8).collect()
}

fn io(storage: &dyn Storage, file: &Arc<dyn File>, operation: Operation, blocks: &[(u64, usize)]) -> Vec<Completion> {
    let arena = Arena::new(blocks.len() * 4 * ALIGN).unwrap();
    let mut queue = storage.queue(&[Arc::clone(file)], blocks.len() as u32, &arena).unwrap();
    // SAFETY: the arena is new, and cut once.
    for ((offset, len), mut buffer) in blocks.iter().zip(unsafe { arena.cut(4 * ALIGN) }) {
        if operation == Operation::Write {
            buffer[..*len].copy_from_slice(&pattern(*offset as usize, *len));
        }
        queue.submit(Op { operation, file: 0, offset: *offset, len: *len, buffer, token: *offset }).unwrap();
    }
    let mut done = Vec::new();
    while queue.in_flight() > 0 {
        queue.wait(1, &mut done).unwrap();
    }
    done.sort_by_key(|c| c.token);
    done
}

#[test]
fn what_is_written_comes_back() {
    const BLOCKS: [(u64, usize); 5] =
        [(3 * 16384, 16384), (0, 4096), (16384, 16384), (2 * 16384, 16384), (4096, 3 * 4096)];
    for_every_storage(|name, storage| {
        let file = storage.create("data").unwrap();
        file.allocate(65536).unwrap();
        let mut order = BLOCKS;
        if !storage.capabilities().rewrites {
            order.sort_unstable();
        }
        let written = io(storage, &file, Operation::Write, &order);
        assert!(written.iter().all(|c| c.error.is_none()), "{name}: {written:?}");
        file.sync().unwrap();
        if storage.capabilities().keeps {
            let file = storage.open("data").unwrap();
            assert_eq!(file.size().unwrap(), 65536, "{name}");
            for done in io(storage, &file, Operation::Read, &BLOCKS) {
                assert!(done.error.is_none(), "{name}: {done:?}");
                let expected = pattern(done.token as usize, done.len);
                assert!(done.buffer[..done.len] == expected[..], "{name}: other bytes at {}", done.token);
            }
        }
    });
}

#[test]
fn a_read_behind_the_end_fails_and_names_the_place() {
    for_every_storage(|name, storage| {
        if storage.capabilities().keeps {
            let file = storage.create("short").unwrap();
            io(storage, &file, Operation::Write, &[(0, 4096)]);
            file.sync().unwrap();
            let file = storage.open("short").unwrap();
            let done = io(storage, &file, Operation::Read, &[(0, 8192)]);
            let error = done[0].error.as_ref().unwrap_or_else(|| panic!("{name}: read 8192 bytes of 4096"));
            assert!(error.to_string().contains("short") && error.to_string().contains("offset 0"), "{name}: {error}");
        }
    });
}

#[test]
fn a_queue_counts_what_is_in_flight_and_returns_every_buffer_once() {
    for_every_storage(|name, storage| {
        let file = storage.create("data").unwrap();
        let arena = Arena::new(8 * ALIGN).unwrap();
        let mut queue = storage.queue(&[file], 8, &arena).unwrap();
        // SAFETY: the arena is new, and cut once.
        for (i, buffer) in unsafe { arena.cut(ALIGN) }.into_iter().enumerate() {
            let (offset, token) = ((i * ALIGN) as u64, i as u64);
            queue.submit(Op { operation: Operation::Write, file: 0, offset, len: ALIGN, buffer, token }).unwrap();
        }
        assert_eq!(queue.in_flight(), 8, "{name}");
        let mut done = Vec::new();
        queue.wait(8, &mut done).unwrap();
        assert_eq!((queue.in_flight(), done.len()), (0, 8), "{name}");
        let mut tokens: Vec<_> = done.iter().map(|c| c.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..8).collect::<Vec<_>>(), "{name}");
        queue.wait(1, &mut done).unwrap(); // nothing in flight: must not hang
    });
}

#[test]
fn put_replaces_at_once_and_get_tells_absence() {
    for_every_storage(|name, storage| {
        assert_eq!(storage.get("manifest").unwrap(), None, "{name}");
        storage.put("manifest", b"first").unwrap();
        storage.put("manifest", b"second, longer").unwrap();
        if storage.capabilities().keeps {
            assert_eq!(storage.get("manifest").unwrap().unwrap(), b"second, longer", "{name}");
            assert_eq!(storage.list().unwrap(), ["manifest"], "{name}: put leaves no other file");
        }
    });
}

#[test]
fn names_are_listed_and_removed() {
    for_every_storage(|name, storage| {
        for file in ["b", "a", "c"] {
            storage.create(file).unwrap().sync().unwrap();
        }
        storage.remove("b").unwrap();
        storage.remove("never there").unwrap();
        storage.sync().unwrap();
        if storage.capabilities().keeps {
            assert_eq!(storage.list().unwrap(), ["a", "c"], "{name}");
            assert!(storage.create("a").is_err(), "{name}: an existing file is never overwritten");
        }
        let missing = storage.open("b").err().unwrap_or_else(|| panic!("{name}: opened a removed file"));
        assert!(missing.kind == Kind::Failed || missing.kind == Kind::Usage, "{name}: {missing}");
    });
}

#[test]
fn one_writer_at_a_time() {
    for_every_storage(|name, storage| {
        if storage.capabilities().keeps && storage.capabilities().locks {
            let lock = storage.lock().unwrap();
            assert_eq!(storage.lock().err().map(|e| e.kind), Some(Kind::Refused), "{name}");
            drop(lock);
            storage.lock().unwrap();
        }
    });
}

#[test]
fn truncate_cuts_and_allocate_does_not() {
    for_every_storage(|name, storage| {
        if storage.capabilities().keeps && storage.capabilities().rewrites {
            let file = storage.create("data").unwrap();
            io(storage, &file, Operation::Write, &[(0, 16384)]);
            file.allocate(8192).unwrap();
            assert_eq!(file.size().unwrap(), 16384, "{name}");
            file.truncate(4096).unwrap();
            assert_eq!(file.size().unwrap(), 4096, "{name}");
        }
    });
}

#[test]
fn eviction_is_seen_in_the_residency() {
    for_every_storage(|name, storage| {
        if storage.capabilities().keeps {
            let file = storage.create("data").unwrap();
            io(storage, &file, Operation::Write, &[(0, 16384), (16384, 16384)]);
            file.sync().unwrap();
            let names = ["data".to_string()];
            storage.evict(&names).unwrap();
            let cache = storage.residency(&names).unwrap();
            assert!(cache.state == "cold" || cache.state == "none", "{name}: {cache:?}");
            if name == "posix buffered" {
                io(storage, &storage.open("data").unwrap(), Operation::Read, &[(0, 16384), (16384, 16384)]);
                assert_eq!(storage.residency(&names).unwrap().state, "warm", "{name}");
            }
        }
    });
}

#[test]
fn the_path_taken_is_told() {
    for_every_storage(|name, storage| {
        let path = storage.path_taken();
        assert!(name.starts_with(&path.storage), "{name}: {path:?}");
        let direct = matches!(name, "posix" | "uring" | "uring plain" | "posix of gds");
        assert_eq!(path.direct, direct, "{name}");
        assert!(!direct || path.alignment_bytes >= 512, "{name}: {path:?}");
    });
}

#[test]
fn memory_filesystems_refuse_direct_and_nothing_is_written() {
    let shm = Path::new("/dev/shm");
    if savemark_host::mount::of(shm).is_none_or(|m| m.filesystem != "tmpfs") {
        eprintln!("skipped: /dev/shm is not a tmpfs here");
        return;
    }
    let target = tempfile::tempdir_in(shm).unwrap();
    let error = open(&Options::Uring(Default::default()), target.path()).err().unwrap();
    assert_eq!(error.kind, Kind::Refused);
    assert!(error.to_string().contains("O_DIRECT") && error.hint.unwrap().contains("--no-direct"));
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
    open(&Options::Posix(posix::PosixOptions { direct: false }), target.path()).unwrap();
}
