//! What goes up arrives as it was sent, and what killed savers left in a bucket is found.

use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use savemark_base::buffer::Pool;
use savemark_base::payload::PayloadKind;
use savemark_base::size::{Size, Span};
use savemark_base::{Error, Kind};
use savemark_checkpoint::abandoned::{Leftover, clean};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::GeneratedState;
use savemark_checkpoint::{MANIFEST, RestoreOptions, SaveOptions, Source, inspect, restore, save};
use savemark_measure::control::Control;
use savemark_storage::object::{self, Environment, Object, ObjectOptions};
use savemark_storage::{Storage, Target};
use savemark_testing::only;
use savemark_testing::s3::{Faults, Server};

const CHILD: &str = "SAVEMARK_TEST_UPLOADER";
const MINUTES: Span = Span(1_200_000_000_000);
const HOUR: Span = Span(3_600_000_000_000);

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Small parts, so that small states are uploaded in several.
fn options(retries: u32) -> ObjectOptions {
    ObjectOptions { part_size: Size(5 << 20), concurrency: 2, retries, ..Default::default() }
}

fn bucket(server: &Server, prefix: &str, retries: u32) -> Object {
    let environment = Environment::from_variables(server.environment());
    object::open_in(&options(retries), &Target::from(server.url(prefix)), &environment).unwrap()
}

fn state(number: u64) -> GeneratedState {
    GeneratedState::new(PayloadKind::Random, number, (12 << 20) + number)
}

fn save_to(storage: &dyn Storage, state: &dyn Source) -> Result<(), Error> {
    let options = SaveOptions { codec: CodecName::None, level: None, streams: 2, chunk_bytes: 1 << 20, queue_depth: 2 };
    save(state, storage, &options, &mut Pool::default(), &Control::default()).map(drop)
}

fn restores(storage: &dyn Storage, state: &GeneratedState) -> Result<(), Error> {
    let options = RestoreOptions { queue_depth: 3, in_place: false };
    restore(storage, state, &options, &mut Pool::default(), &Control::default()).map(drop)
}

/// Saves while bits flip on the way up: a save that says that it is done must be, and most must be done.
fn saves_while_bits_flip(server: &Server, prefix: &str, faults: Faults) {
    let storage = bucket(server, prefix, 10);
    let rounds = std::env::var("SAVEMARK_TEST_POINTS").map_or(12, |text| text.parse().unwrap());
    for round in 0..rounds {
        server.set(faults);
        save_to(&storage, &state(round)).unwrap_or_else(|e| panic!("round {round}: {e}"));
        server.set(Faults::default());
        restores(&storage, &state(round)).unwrap_or_else(|e| panic!("round {round}: what was saved is wrong: {e}"));
    }
    let (_, hits) = server.counts();
    assert!(hits >= 4, "{hits} flips: the test does not test");
}

#[test]
fn a_bit_that_flips_on_the_way_up_is_found_by_the_checksum_and_the_part_is_sent_again() {
    let root = disk();
    let server = Server::start(root.path());
    saves_while_bits_flip(&server, "flips", Faults { flips_up: 250, ..Faults::default() });
}

#[test]
fn a_server_that_says_nothing_about_the_checksum_is_sent_signed_bytes() {
    let root = disk();
    let server = Server::start(root.path());
    saves_while_bits_flip(&server, "silent", Faults { flips_up: 250, silent: true, ..Faults::default() });
}

/// Whoever has stopped a save or a restore is not kept waiting by a request that is not answered.
#[test]
fn what_is_cancelled_waits_for_no_answer_and_leaves_nothing() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = std::sync::Arc::new(bucket(&server, "stopped", 10));
    server.set(Faults { hangs: true, ..Faults::default() });
    let (control, asked) = (Control::default(), std::sync::Arc::clone(&storage));
    control.on_cancel(move || asked.stop());
    let began = Instant::now();
    let options = SaveOptions { codec: CodecName::None, level: None, streams: 2, chunk_bytes: 1 << 20, queue_depth: 2 };
    let error = std::thread::scope(|scope| {
        let saving = scope.spawn(|| save(&state(1), &*storage, &options, &mut Pool::default(), &control).map(drop));
        while storage.uploads().unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(200));
        control.cancel();
        saving.join().unwrap().unwrap_err()
    });
    assert!(error.kind == Kind::Interrupted && began.elapsed() < Duration::from_secs(30), "{error}");
    assert!(storage.uploads().unwrap().is_empty() && storage.list().unwrap().is_empty());
    // Cancelled before: not begun. Taken up again: as ever.
    storage.stop();
    assert_eq!(storage.get("any").unwrap_err().kind, Kind::Interrupted);
    storage.resume();
    assert_eq!(storage.get("any").unwrap(), None);
    let late = std::sync::Arc::clone(&storage);
    control.on_cancel(move || late.stop());
    assert_eq!(storage.list().unwrap_err().kind, Kind::Interrupted, "who is told late is told at once");
}

#[test]
fn a_line_that_flips_every_time_stops_the_save_and_the_previous_checkpoint_stays() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "always", 2);
    save_to(&storage, &state(1)).unwrap();
    for silent in [false, true] {
        server.set(Faults { flips_up: 1000, silent, ..Faults::default() });
        let error = save_to(&storage, &state(2)).unwrap_err();
        server.set(Faults::default());
        assert_eq!(error.kind, Kind::Failed, "{error}");
        if !silent {
            let told = error.to_string();
            assert!(told.contains("not those that were sent") && told.contains("shard-"), "{told}");
            assert!(error.hint.is_some_and(|hint| hint.contains("memory")));
        }
        restores(&storage, &state(1)).unwrap();
    }
}

/// The child: uploads until it is killed.
#[test]
fn child_that_uploads() {
    let Some(url) = std::env::var_os(CHILD) else { return };
    let storage = object::open(&options(10), &Target::from(url.into_string().unwrap())).unwrap();
    save_to(&storage, &GeneratedState::new(PayloadKind::Random, 9, 4 << 30)).unwrap();
}

/// Kills a saver in the middle of its uploads.
fn leave_uploads(server: &Server, prefix: &str) {
    let mut child = only(module_path!(), "child_that_uploads")
        .env(CHILD, server.url(prefix))
        .envs(server.environment())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (storage, start) = (bucket(server, prefix, 10), Instant::now());
    let arrived = || {
        let uploads = storage.uploads_here().unwrap();
        uploads.iter().any(|(_, upload)| storage.parts(upload).unwrap().bytes > 0)
    };
    while !arrived() {
        assert!(start.elapsed() < Duration::from_secs(300), "no upload has begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The server may still be at work for the one that is gone.
    std::thread::sleep(Duration::from_millis(300));
}

fn names(found: &[Leftover]) -> Vec<&str> {
    found.iter().map(|one| one.name.as_str()).collect()
}

#[test]
fn what_killed_savers_left_is_found_and_goes_when_it_is_old_enough() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "left", 10);
    save_to(&storage, &state(1)).unwrap();
    let kept = storage.list().unwrap();
    leave_uploads(&server, "left");
    storage.put("shard-18e9e1188022315b-00001529-0000", b"an orphan").unwrap();
    storage.put("notes.txt", b"not ours").unwrap();
    storage.put("deeper/shard-18e9e1188022315b-00001529-0001", b"another place's").unwrap();

    let found = clean(&storage, HOUR, false).unwrap();
    assert!(found.iter().all(|one| !one.abandoned && one.idle_ns < HOUR.0), "{found:?}");
    assert_eq!(found.iter().filter(|one| !one.upload).count(), 1);
    let uploads: Vec<_> = found.iter().filter(|one| one.upload).collect();
    assert!(!uploads.is_empty() && uploads.iter().any(|one| one.bytes > 0), "{found:?}");

    let told = clean(&storage, Span(0), true).unwrap();
    assert!(told.iter().all(|one| one.abandoned) && names(&told) == names(&found), "{told:?}");
    assert_eq!(storage.uploads_here().unwrap().len(), uploads.len(), "a dry run removes nothing");

    clean(&storage, Span(0), false).unwrap();
    assert!(storage.uploads_here().unwrap().is_empty());
    assert!(clean(&storage, Span(0), true).unwrap().is_empty());
    let mut left = storage.list().unwrap();
    left.retain(|name| name != "notes.txt");
    assert_eq!(left, kept);
    assert_eq!(bucket(&server, "left/deeper", 10).list().unwrap().len(), 1);
    restores(&storage, &state(1)).unwrap();
}

#[test]
fn beside_a_damaged_manifest_no_shard_is_called_abandoned() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "damaged", 10);
    save_to(&storage, &state(1)).unwrap();
    let before = storage.list().unwrap();
    storage.put(MANIFEST, b"{\"format\":\"savemark-checkpoint\"").unwrap();
    assert!(clean(&storage, Span(0), false).unwrap().is_empty());
    assert_eq!(storage.list().unwrap(), before);
}

#[test]
fn without_locks_nothing_is_swept_up_that_may_be_anothers() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "sweep", 10);
    save_to(&storage, &state(1)).unwrap();
    storage.put("shard-18e9e1188022315b-00001529-0000", b"perhaps of a save under way").unwrap();
    assert_eq!(inspect::clean(&storage, false).unwrap_err().kind, Kind::Refused);
    save_to(&storage, &state(2)).unwrap();
    inspect::remove(&storage).unwrap();
    assert_eq!(storage.list().unwrap(), ["shard-18e9e1188022315b-00001529-0000"]);
}

#[test]
fn a_save_that_is_under_way_is_told_apart_by_its_id_and_its_youngest_part() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "under-way", 10);
    let old = "shard-18e9e1188022315b-00001529-0000";
    storage.put(old, b"an orphan").unwrap();
    let file = std::fs::File::options().write(true).open(root.path().join("bucket/under-way").join(old)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(1800)).unwrap();
    // A second shard of the same save, completed just now: the save may be about to put its manifest in place.
    storage.put("shard-18e9e1188022315b-00001529-0001", b"of the same save").unwrap();
    let other = "shard-18e9e1188022315c-00001529-0000";
    storage.put(other, b"of another save").unwrap();
    let age = |name: &str| {
        let found = clean(&storage, HOUR, true).unwrap();
        found.into_iter().find(|one| one.name == name).unwrap().idle_ns
    };
    assert!(age(old) < MINUTES.0, "{}", age(old));
    storage.remove("shard-18e9e1188022315b-00001529-0001").unwrap();
    assert!(age(old) > MINUTES.0, "{}", age(old));
    let removed = clean(&storage, MINUTES, false).unwrap();
    assert_eq!(removed.iter().filter(|one| one.abandoned).count(), 1, "{removed:?}");
    assert_eq!(storage.list().unwrap(), [other]);
}
