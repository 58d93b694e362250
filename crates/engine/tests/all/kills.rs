//! SIGKILL at random moments of everything that writes: nothing is lost, and nothing is false.
//!
//! `SAVEMARK_KILLS` says how many kills of each path there are; 1000 is the full size, a few are enough to see that it works.
//! A child is this test binary again, running the one test that acts as the child when its variable is set.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use savemark_base::Error;
use savemark_base::buffer::Pool;
use savemark_base::payload::PayloadKind;
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::GeneratedState;
use savemark_checkpoint::tree::TreeSource;
use savemark_checkpoint::tree_sink::{TreeSink, sweep};
use savemark_checkpoint::{MANIFEST, RestoreOptions, SaveOptions, Sink, Source, inspect, restore, save};
use savemark_measure::control::Control;
use savemark_storage::object::{self, Environment};
use savemark_storage::uring::UringOptions;
use savemark_storage::{Storage, Target};
use savemark_testing::only;
use savemark_testing::s3::Server;

const CHILD: &str = "SAVEMARK_TEST_CHILD";
const BEGUN: &str = "the child has begun";

fn kills() -> u64 {
    std::env::var("SAVEMARK_KILLS").map_or(20, |text| text.parse().expect("SAVEMARK_KILLS is a number"))
}

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn open(target: &Path) -> Arc<dyn Storage> {
    savemark_storage::open(&savemark_storage::Options::Uring(UringOptions::default()), target).unwrap()
}

const BYTES: u64 = 4 << 20;

/// The length of a generation's state tells which one it is.
fn generation(number: u64) -> GeneratedState {
    GeneratedState::new(PayloadKind::Random, number, BYTES + number)
}

fn save_to(storage: &dyn Storage, source: &dyn Source) {
    let options =
        SaveOptions { codec: CodecName::None, level: None, streams: 2, chunk_bytes: 256 << 10, queue_depth: 2 };
    save(source, storage, &options, &mut Pool::default(), &Control::default()).unwrap();
}

fn restore_into(storage: &dyn Storage, sink: &dyn Sink) {
    try_restore(storage, sink).unwrap();
}

fn try_restore(storage: &dyn Storage, sink: &dyn Sink) -> Result<(), Error> {
    let options = RestoreOptions { queue_depth: 2, in_place: false };
    restore(storage, sink, &options, &mut Pool::default(), &Control::default()).map(drop)
}

/// Which generation is there; panics unless it is whole and right.
fn holds(storage: &dyn Storage) -> u64 {
    let found = || restore::open(storage).expect("a checkpoint is always there").state_bytes - BYTES;
    loop {
        let number = found();
        match try_restore(storage, &generation(number)) {
            Ok(()) => return number,
            // A server was still at the last request of one that was killed: the next generation is there now.
            Err(_) if found() != number => {}
            Err(error) => panic!("generation {number}: {error}"),
        }
    }
}

/// Kills children that act as `test` on `target`, each after up to `most_ms`, and looks after each kill.
fn kill_children(test: &str, target: &str, variables: &[(String, String)], most_ms: u64, mut look: impl FnMut(u64)) {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for kill in 0..kills() {
        let mut process = only(module_path!(), test)
            .env(CHILD, target)
            .envs(variables.iter().cloned())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // However long a busy machine takes to start it.
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains(BEGUN)), "kill {kill}: the child did not start");
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % (most_ms * 1000)));
        process.kill().unwrap();
        let ended = process.wait().unwrap();
        assert!(!ended.success() && ended.code().is_none(), "kill {kill}: the child ended by itself: {ended}");
        look(kill);
    }
}

/// In the child: what it works on.
fn child_target() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// In the child: from here on it may be killed. Opening a directory is over: the empty file that it is tried with is gone.
fn begun() {
    println!("{BEGUN}");
}

#[test]
fn child_that_saves() {
    let Some(target) = child_target() else { return };
    let storage = open(&target);
    begun();
    for number in holds(&*storage) + 1.. {
        save_to(&*storage, &generation(number));
    }
}

#[test]
fn killed_saves_leave_the_old_or_the_new() {
    let target = disk();
    let storage = open(target.path());
    save_to(&*storage, &generation(0));
    let mut last = 0;
    kill_children("child_that_saves", target.path().to_str().unwrap(), &[], 60, |kill| {
        let found = holds(&*storage);
        assert!(found >= last, "kill {kill}: generation {found} after {last}");
        last = found;
    });
    println!("{last} saves ended");
    assert!(last > 0, "no save ended; the test does not test");
    save_to(&*storage, &generation(last + 1));
    assert_eq!(storage.list().unwrap().len(), 3, "what the killed ones left is gone: {:?}", storage.list());
}

/// Saves into a new directory, then removes the oldest: what `--keep 2` does.
#[test]
fn child_that_keeps() {
    let Some(target) = child_target() else { return };
    let first = kept(&target).last().expect("one is always there") + 1;
    begun();
    for number in first.. {
        let place = target.join(format!("{number:06}"));
        fs::create_dir_all(&place).unwrap();
        save_to(&*open(&place), &generation(number));
        for old in kept(&target).iter().rev().skip(2) {
            let old = target.join(format!("{old:06}"));
            inspect::remove(&*open(&old)).unwrap();
            fs::remove_dir(&old).unwrap();
        }
    }
}

/// The complete checkpoints of a place of several, oldest first.
fn kept(target: &Path) -> Vec<u64> {
    let names = fs::read_dir(target).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.filter(|name| target.join(name).join(MANIFEST).exists()).collect();
    found.sort();
    found.iter().map(|name| name.parse().unwrap()).collect()
}

#[test]
fn killed_saves_of_several_never_leave_fewer() {
    let target = disk();
    for number in 0..2 {
        let place = target.path().join(format!("{number:06}"));
        fs::create_dir(&place).unwrap();
        save_to(&*open(&place), &generation(number));
    }
    let mut last = 1;
    kill_children("child_that_keeps", target.path().to_str().unwrap(), &[], 60, |kill| {
        let found = kept(target.path());
        assert!(found.len() >= 2 && found[found.len() - 1] >= last, "kill {kill}: {found:?} after {last}");
        for number in &found[found.len() - 2..] {
            assert_eq!(holds(&*open(&target.path().join(format!("{number:06}")))), *number, "kill {kill}");
        }
        last = found[found.len() - 1];
    });
    println!("{} saves of several ended", last - 1);
    assert!(last > 1, "no save ended; the test does not test");
}

const FILES: u8 = 5;

#[test]
fn child_that_restores() {
    let Some(target) = child_target() else { return };
    let storage = open(&target.join("checkpoint"));
    begun();
    loop {
        let destination = target.join("out");
        let _ = fs::remove_dir_all(&destination);
        let sink = TreeSink::new(&destination).unwrap();
        restore_into(&*storage, &sink);
        sink.finish().unwrap();
    }
}

#[test]
fn killed_restores_leave_all_or_nothing_and_the_checkpoint() {
    let target = disk();
    let (from, checkpoint, out) =
        (target.path().join("from"), target.path().join("checkpoint"), target.path().join("out"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&checkpoint).unwrap();
    (0..FILES).for_each(|n| fs::write(from.join(n.to_string()), vec![n; 700_000]).unwrap());
    save_to(&*open(&checkpoint), &TreeSource::open(&from).unwrap());
    let before = open(&checkpoint).list().unwrap();
    let mut whole = 0;
    kill_children("child_that_restores", target.path().to_str().unwrap(), &[], 60, |kill| {
        // The child removes it, file by file, before it restores again.
        let names: Vec<_> = fs::read_dir(&out).map(|all| all.map(|e| e.unwrap().path()).collect()).unwrap_or_default();
        for path in &names {
            let number: u8 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            assert!(fs::read(path).unwrap() == vec![number; 700_000], "kill {kill}: {path:?} is half");
        }
        whole += usize::from(names.len() == usize::from(FILES));
        sweep(&out, false).unwrap();
        let _ = fs::remove_dir_all(&out);
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 2, "kill {kill}");
        assert_eq!(open(&checkpoint).list().unwrap(), before);
    });
    println!("{whole} restores had ended when they were looked at");
    // A few in a hundred: the child removes what is whole at once.
    assert!(whole > 0 || kills() < 500, "no restore ended; the test does not test");
    restore_into(&*open(&checkpoint), &savemark_checkpoint::state::Discard);
}

#[test]
fn child_that_cleans() {
    let Some(target) = child_target() else { return };
    let storage = open(&target);
    begun();
    for number in 0u64.. {
        for shard in 0..3 {
            fs::write(target.join(format!("shard-{number:016x}-00000001-{shard:04x}")), [1; 9000]).unwrap();
        }
        inspect::clean(&*storage, false).unwrap();
    }
}

#[test]
fn killed_cleanings_remove_nothing_that_is_needed() {
    let target = disk();
    let storage = open(target.path());
    save_to(&*storage, &generation(7));
    kill_children("child_that_cleans", target.path().to_str().unwrap(), &[], 40, |kill| {
        assert_eq!(holds(&*storage), 7, "kill {kill}");
    });
    inspect::clean(&*storage, false).unwrap();
    assert_eq!(storage.list().unwrap().len(), 3);
}

#[test]
fn child_that_uploads() {
    let Some(url) = child_target() else { return };
    let storage =
        object::open(&Default::default(), &Target::from(url.into_os_string().into_string().unwrap())).unwrap();
    begun();
    for number in holds(&storage) + 1.. {
        save_to(&storage, &generation(number));
    }
}

#[test]
fn killed_saves_to_a_bucket_leave_the_old_or_the_new() {
    let root = disk();
    let server = Server::start(root.path());
    let (url, variables) = (server.url("kills"), server.environment());
    let environment = Environment::from_variables(variables.clone());
    let storage = object::open_in(&Default::default(), &Target::from(url.clone()), &environment).unwrap();
    save_to(&storage, &generation(0));
    let (mut last, mut ended) = (0, 0);
    kill_children("child_that_uploads", &url, &variables, 250, |kill| {
        // The server may still be at the last request of the one that was killed.
        let found = holds(&storage);
        assert!(found >= last, "kill {kill}: generation {found} after {last}");
        ended += found - last;
        last = found;
        if kill % 50 == 49 {
            storage.clear(MANIFEST).unwrap();
            last = 0;
            save_to(&storage, &generation(0));
        }
    });
    println!("{ended} saves to the bucket ended");
    assert!(ended > 0 || kills() < 500, "no save ended; the test does not test");
}
