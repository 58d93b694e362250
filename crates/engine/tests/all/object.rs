//! Checkpoints in a bucket: whole or not there, whatever the server and the network do.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use savemark_base::buffer::{Arena, Pool};
use savemark_base::io::{Op, Operation};
use savemark_base::payload::PayloadKind;
use savemark_base::size::{Size, Span};
use savemark_base::{Error, Kind};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::{GeneratedState, MemoryState};
use savemark_checkpoint::{MANIFEST, Manifest, RestoreOptions, SaveOptions, Source, restore, save};
use savemark_measure::control::Control;
use savemark_storage::object::{self, Environment, Object, ObjectOptions};
use savemark_storage::{File, Storage, Target};
use savemark_testing::only;
use savemark_testing::s3::{Faults, Server, StatusCode};

const CHILD: &str = "SAVEMARK_TEST_CHILD";

/// How often what is random is tried: SAVEMARK_TEST_POINTS says how much more thorough a run is to be.
fn points(default: u64) -> u64 {
    std::env::var("SAVEMARK_TEST_POINTS").map_or(default, |text| text.parse().unwrap())
}

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Small parts, so that small states are uploaded in several.
fn small() -> ObjectOptions {
    ObjectOptions { part_size: Size(5 << 20), concurrency: 2, ..Default::default() }
}

fn bucket(server: &Server, prefix: &str, options: &ObjectOptions) -> Object {
    let environment = Environment::from_variables(server.environment());
    object::open_in(options, &Target::from(server.url(prefix)), &environment).unwrap()
}

fn options(codec: CodecName, streams: u32) -> SaveOptions {
    SaveOptions { codec, level: None, streams, chunk_bytes: 256 << 10, queue_depth: 2 }
}

fn save_to(storage: &dyn Storage, source: &dyn Source, options: &SaveOptions) -> Result<Manifest, Error> {
    save(source, storage, options, &mut Pool::default(), &Control::default()).map(|(manifest, _)| manifest)
}

/// Restores and compares with what was generated.
fn restores(storage: &dyn Storage, state: &GeneratedState) -> Result<(), Error> {
    let options = RestoreOptions { queue_depth: 3, in_place: false };
    restore(storage, state, &options, &mut Pool::default(), &Control::default()).map(drop)
}

/// Aborts what is unfinished. The server may be at work for a client that is gone, so not every listed upload is still there.
fn abort_all(storage: &Object) {
    for _ in 0..100 {
        let uploads = storage.uploads().unwrap();
        if uploads.is_empty() {
            return;
        }
        if uploads.iter().any(|upload| storage.abort(upload).is_err()) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    panic!("uploads that cannot be aborted: {:?}", storage.uploads());
}

#[test]
fn every_codec_and_number_of_streams_comes_back() {
    const BYTES: u64 = (12 << 20) + 4321; // several parts per shard where there is one shard
    let root = disk();
    let server = Server::start(root.path());
    let state = GeneratedState::new(PayloadKind::Bf16, 5, BYTES);
    let in_memory = MemoryState::generate(PayloadKind::Bf16, 5, BYTES).unwrap();
    for codec in CodecName::ALL {
        for streams in [0, 1, 3] {
            let storage = bucket(&server, &format!("{codec}/{streams}"), &small());
            // From memory that is lent, and again from memory that is not, in place of the first.
            for source in [&in_memory as &dyn Source, &state] {
                let manifest = save_to(&storage, source, &options(codec, streams)).unwrap();
                assert_eq!(storage.list().unwrap().len(), manifest.shards.len() + 1, "{codec} {streams}");
                restores(&storage, &state).unwrap_or_else(|e| panic!("{codec} × {streams}: {e}"));
            }
            assert!(storage.uploads().unwrap().is_empty());
        }
    }
}

#[test]
fn a_checkpoint_has_the_same_layout_on_disk_and_in_a_bucket() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "there", &small());
    let state = GeneratedState::new(PayloadKind::Random, 1, 3 << 20);
    save_to(&storage, &state, &options(CodecName::Zstd, 2)).unwrap();
    // What s3s-fs keeps is what `aws s3 sync` would copy.
    let copy = disk();
    for name in storage.list().unwrap() {
        std::fs::copy(root.path().join("bucket/there").join(&name), copy.path().join(&name)).unwrap();
    }
    let posix = savemark_storage::Options::Posix(savemark_storage::posix::PosixOptions { direct: false });
    restores(&*savemark_storage::open(&posix, copy.path()).unwrap(), &state).unwrap();
}

#[test]
fn a_hundred_saves_and_restores_under_a_failing_server_lose_nothing_and_accept_nothing_wrong() {
    let root = disk();
    // Most of the time is waiting for a retry, so four savers share the machine, each with a server of its own.
    let (mut refused, mut whole) = (0, 0);
    let each = points(100).div_ceil(4);
    std::thread::scope(|scope| {
        let savers = [0, 1, 2, 3].map(|saver| (saver, root.path().join(saver.to_string())));
        let rounds = |saver: u64| saver * each..(saver + 1) * each;
        let savers = savers.map(|(saver, root)| scope.spawn(move || under_faults(&root, rounds(saver))));
        for saver in savers {
            let counted = saver.join().unwrap();
            whole += counted.0;
            refused += counted.1;
        }
    });
    println!("{whole} restores whole, {refused} refused for a flipped bit");
    assert!(whole > 10 && refused > 10, "the test does not test");
}

/// Saves and restores; returns how many restores were whole, and how many were refused.
fn under_faults(root: &std::path::Path, rounds: std::ops::Range<u64>) -> (u32, u32) {
    let server = Server::start(root);
    let storage = bucket(&server, "faulty", &small());
    let (mut whole, mut refused) = (0, 0);
    for round in rounds {
        let state = GeneratedState::new(PayloadKind::Random, round, (6 << 20) + round * 4099);
        let codec = CodecName::ALL[round as usize % CodecName::ALL.len()];
        server.set(Faults { errors: 100, delays: 100, cuts: 50, ..Faults::default() });
        let options = SaveOptions { chunk_bytes: 1 << 20, ..options(codec, (round % 3) as u32) };
        save_to(&storage, &state, &options).unwrap_or_else(|e| panic!("round {round}: {e}"));
        // A flipped bit must be found; a restore that finds none must be right.
        server.set(Faults { errors: 100, delays: 50, cuts: 50, flips: 30, ..Faults::default() });
        match restores(&storage, &state) {
            Ok(()) => whole += 1,
            Err(e) if e.kind == Kind::Corrupt => refused += 1,
            Err(e) => panic!("round {round}: {e}"),
        }
        server.set(Faults { errors: 100, cuts: 50, ..Faults::default() });
        restores(&storage, &state).unwrap_or_else(|e| panic!("round {round}: what was saved is lost: {e}"));
    }
    server.set(Faults::default());
    let (requests, hits) = server.counts();
    println!("{hits} faults in {requests} requests");
    assert!(hits > requests / 10, "the test does not test");
    // An upload whose start was answered, but never heard of, is nobody's: it is found, and goes.
    abort_all(&storage);
    (whole, refused)
}

#[test]
fn a_body_that_is_always_cut_is_never_accepted() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "cut", &ObjectOptions { retries: 2, ..small() });
    let state = GeneratedState::new(PayloadKind::Random, 1, 1 << 20);
    save_to(&storage, &state, &options(CodecName::None, 1)).unwrap();
    let file = storage.open(&storage.list().unwrap()[1]).unwrap();
    server.set(Faults { cuts: 1000, ..Faults::default() });
    let error = file.read_at(&mut vec![0; 1 << 20], 0).unwrap_err().to_string();
    assert!(error.contains("shard-") && error.contains("breaks off"), "{error}");
    let error = storage.get(MANIFEST).unwrap_err();
    assert!(error.hint.is_some(), "{error:?}");
}

#[test]
fn a_save_that_fails_leaves_the_previous_checkpoint_and_no_parts() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "p", &ObjectOptions { retries: 1, ..small() });
    let first = GeneratedState::new(PayloadKind::Random, 1, 12 << 20);
    save_to(&storage, &first, &options(CodecName::None, 1)).unwrap();
    let before = storage.list().unwrap();
    let second = GeneratedState::new(PayloadKind::Random, 2, 24 << 20);
    let mut failed = 0;
    for _ in 0..10 {
        server.set(Faults { errors: 300, ..Faults::default() });
        let saved = save_to(&storage, &second, &options(CodecName::None, 1));
        server.set(Faults::default());
        let is_second = bytes_in_place(&storage) == second.bytes();
        match saved {
            Ok(_) => assert!(is_second),
            Err(error) => {
                failed += 1;
                assert!(error.to_string().contains("after 1 retries") && error.hint.is_some(), "{error}");
            }
        }
        // The answer to the last request may be the one that was lost: then it is the second, and whole.
        restores(&storage, if is_second { &second } else { &first }).unwrap();
        save_to(&storage, &first, &options(CodecName::None, 1)).unwrap();
    }
    assert!(failed > 0, "the test does not test");
    // Removing and aborting may have failed too: what is left is found, and goes.
    abort_all(&storage);
    assert!(storage.list().unwrap().len() >= before.len());
    restores(&storage, &first).unwrap();
}

/// Of the state that the manifest in place tells of.
fn bytes_in_place(storage: &Object) -> u64 {
    Manifest::from_bytes(&storage.get(MANIFEST).unwrap().unwrap()).unwrap().state_bytes
}

#[test]
fn a_manifest_whose_answer_was_lost_is_in_place_and_restores() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "lost", &ObjectOptions { retries: 0, ..small() });
    let (first, second) =
        (GeneratedState::new(PayloadKind::Random, 1, 3 << 20), GeneratedState::new(PayloadKind::Random, 2, 4 << 20));
    save_to(&storage, &first, &options(CodecName::None, 1)).unwrap();
    server.set(Faults { lost: Some("manifest.json"), ..Faults::default() });
    save_to(&storage, &second, &options(CodecName::None, 1)).unwrap();
    restores(&storage, &second).unwrap();
}

#[test]
fn a_manifest_that_the_server_says_it_stored_and_did_not_replaces_nothing() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "forgotten", &ObjectOptions { retries: 0, ..small() });
    let (first, second) =
        (GeneratedState::new(PayloadKind::Random, 1, 3 << 20), GeneratedState::new(PayloadKind::Random, 2, 4 << 20));
    for silent in [false, true] {
        save_to(&storage, &first, &options(CodecName::None, 1)).unwrap();
        server.set(Faults { forgotten: Some("manifest.json"), silent, ..Faults::default() });
        let error = save_to(&storage, &second, &options(CodecName::None, 1)).expect_err("it is not durable");
        assert!(error.kind == Kind::Failed && error.hint.is_some(), "{error:?}");
        server.set(Faults::default());
        restores(&storage, &first).unwrap();
    }
}

#[test]
fn objects_are_written_from_front_to_back_and_once() {
    let root = disk();
    let server = Server::start(root.path());
    let storage = bucket(&server, "x", &small());
    let arena = Arena::new(8 << 20).unwrap();
    let file = storage.create("data").unwrap();
    let mut queue = storage.queue(&[Arc::clone(&file)], 2, &arena).unwrap();
    let mut write = |offset: u64, file: &Arc<dyn File>| {
        // SAFETY: the buffer of the write before has come back.
        let buffer = unsafe { arena.cut(4 << 20) }.swap_remove(0);
        queue.submit(Op { operation: Operation::Write, file: 0, offset, len: 4 << 20, buffer, token: 0 }).unwrap();
        let mut done = Vec::new();
        queue.wait(1, &mut done).unwrap();
        (done.swap_remove(0).error, file.size().unwrap())
    };
    assert_eq!(write(0, &file).1, 4 << 20);
    let (error, size) = write(0, &file);
    assert!(error.unwrap().to_string().contains("front to back") && size == 4 << 20);
    assert!(write(4 << 20, &file).0.is_none(), "the second part begins");
    assert!(storage.get("data").unwrap().is_none(), "nothing is there before the sync");
    assert!(file.truncate(4096).unwrap_err().to_string().contains("cannot be cut"));
    file.truncate(8 << 20).unwrap();
    file.sync().unwrap();
    file.sync().unwrap();
    assert!(write(8 << 20, &file).0.unwrap().to_string().contains("written once"));
    assert_eq!(storage.open("data").unwrap().size().unwrap(), 8 << 20);
}

#[test]
fn each_error_says_what_to_do_and_no_secret() {
    let root = disk();
    let server = Server::start(root.path());
    let quick = ObjectOptions { retries: 1, timeout: Span(2_000_000_000), ..small() };
    let with = |changes: &[(&str, &str)], url: &str| {
        let mut variables = server.environment();
        for (name, value) in changes {
            variables.retain(|(known, _)| known != name);
            variables.push((name.to_string(), value.to_string()));
        }
        let environment = Environment::from_variables(variables);
        object::open_in(&quick, &Target::from(url.to_string()), &environment)
            .and_then(|bucket| bucket.get("x").map(drop))
    };
    let told = |result: Result<(), Error>, words: &[&str]| {
        let error = result.expect_err(words[0]);
        let text = format!("{error} | {}", error.hint.as_deref().unwrap_or_default());
        println!("{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{words:?} in: {text}");
        assert!(!text.contains(savemark_testing::s3::SECRET) && !text.contains(savemark_testing::s3::KEY), "{text}");
    };
    let (url, keys) = ("s3://bucket/p", [("AWS_ACCESS_KEY_ID", ""), ("AWS_EC2_METADATA_DISABLED", "true")]);
    told(with(&[("AWS_SECRET_ACCESS_KEY", "wrong")], url), &["signature", "AWS_SECRET_ACCESS_KEY"]);
    told(with(&[("AWS_ACCESS_KEY_ID", "wrong")], url), &["does not know", "AWS_ACCESS_KEY_ID"]);
    told(with(&keys, url), &["no credentials", "AWS_PROFILE"]);
    told(with(&[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")], url), &["nothing listens", "AWS_ENDPOINT_URL"]);
    told(with(&[("AWS_ENDPOINT_URL", "http://no.such.host.invalid")], url), &["plain HTTP", "AWS_ALLOW_HTTP"]);
    told(with(&[("AWS_ENDPOINT_URL", "https://no.such.host.invalid")], url), &["is not known", "AWS_ENDPOINT_URL"]);
    let over_tls = server.environment()[0].1.replace("http://", "https://");
    told(with(&[("AWS_ENDPOINT_URL", &over_tls)], url), &["TLS", "AWS_CA_BUNDLE"]);
    for (status, code, words) in [
        (404, "NoSuchBucket", ["no bucket `bucket`", "AWS_ENDPOINT_URL"]),
        (403, "AccessDenied", ["denies access", "GetObject"]),
        (403, "RequestTimeTooSkewed", ["clock", "timedatectl"]),
        (400, "ExpiredToken", ["expired", "renew"]),
        (403, "InvalidAccessKeyId", ["does not know", "AWS_ACCESS_KEY_ID"]),
        (400, "AuthorizationHeaderMalformed", ["region us-east-1", "AWS_REGION"]),
        (301, "PermanentRedirect", ["region us-east-1", "AWS_REGION"]),
        (503, "SlowDown", ["503 (SlowDown)", "--concurrency"]),
        (507, "XMinioStorageFull", ["no room", "free some space"]),
    ] {
        server.set(Faults { always: Some((StatusCode::from_u16(status).unwrap(), code)), ..Faults::default() });
        told(with(&[], url), &words);
    }
    let in_url = with(&[], &format!("s3://{}:{}@bucket/p", savemark_testing::s3::KEY, savemark_testing::s3::SECRET));
    told(in_url, &["environment", "s3://bucket/prefix"]);
}

const BYTES: u64 = 24 << 20;

/// The length of a generation's state tells which one it is.
fn generation(number: u64) -> GeneratedState {
    GeneratedState::new(PayloadKind::Random, number, BYTES + number)
}

/// The child: saves one generation after the other until it is killed.
#[test]
fn child_that_uploads_for_ever() {
    let Some(url) = std::env::var_os(CHILD) else { return };
    let storage = object::open(&small(), &Target::from(url.into_string().unwrap())).unwrap();
    for number in 1.. {
        save_to(&storage, &generation(number), &options(CodecName::None, 2)).unwrap();
    }
}

fn child(server: &Server, prefix: &str) -> Child {
    only(module_path!(), "child_that_uploads_for_ever")
        .env(CHILD, server.url(prefix))
        .envs(server.environment())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Whether there is a checkpoint; panics unless it is whole and right.
fn holds_a_checkpoint(storage: &Object) -> bool {
    loop {
        let Some(bytes) = storage.get(MANIFEST).unwrap() else { return false };
        let number = Manifest::from_bytes(&bytes).unwrap().state_bytes - BYTES;
        match restores(storage, &generation(number)) {
            Ok(()) => return true,
            // The server may still be at the last request of the one that was killed: putting the next manifest in place.
            Err(_) if storage.get(MANIFEST).unwrap().as_ref() != Some(&bytes) => {}
            Err(e) => panic!("generation {number} does not restore: {e}"),
        }
    }
}

#[test]
fn kills_during_uploads_leave_the_previous_checkpoint_or_none() {
    let root = disk();
    let server = Server::start(root.path());
    let (mut interrupted, mut none, mut random) = (0, 0, 0x9e37_79b9_7f4a_7c15u64);
    let kills = points(40);
    for kill in 0..kills {
        let prefix = format!("kill/{kill}");
        let storage = bucket(&server, &prefix, &small());
        let has_previous = kill % 2 == 0;
        if has_previous {
            save_to(&storage, &generation(0), &options(CodecName::None, 2)).unwrap();
        }
        let mut process = child(&server, &prefix);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(20_000 + random % 300_000));
        process.kill().unwrap();
        process.wait().unwrap();
        if !holds_a_checkpoint(&storage) {
            assert!(!has_previous, "kill {kill}: the previous checkpoint is gone");
            none += 1;
        }
        let uploads = storage.uploads().unwrap();
        interrupted += usize::from(!uploads.is_empty());
        abort_all(&storage);
        storage.clear(MANIFEST).unwrap();
        assert!(storage.list().unwrap().is_empty(), "kill {kill}");
    }
    println!("{interrupted} of {kills} kills hit an upload; {none} left no checkpoint where there was none");
    assert!(
        interrupted >= 5 && none >= 2,
        "{interrupted} kills hit an upload, {none} left none; the test does not test"
    );
}
