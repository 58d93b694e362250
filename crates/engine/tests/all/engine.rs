//! The engine from the outside: a trial in, a record out, and nothing left behind.

use std::path::Path;

use savemark_base::Kind;
use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_measure::control::Control;
use serde_json::{Value, json};

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn run(engine: &mut Engine, target: &Path, mut trial: Value) -> Value {
    trial["target"] = json!(target);
    let trial = Trial::parse(&trial.to_string()).unwrap();
    let record = engine.run(&trial, &Control::default()).unwrap_or_else(|e| panic!("{trial:?}: {e}"));
    assert_eq!(std::fs::read_dir(target).unwrap().count(), 0, "{trial:?} left files behind");
    serde_json::to_value(&record).unwrap()
}

#[test]
fn every_codec_and_stream_count_saves_and_restores_on_every_storage() {
    let (mut engine, target) = (Engine::new(), disk());
    for storage in ["memory", "posix", "uring"] {
        for codec in ["none", "tar", "lz4", "zstd", "gzip", "zlib", "planes"] {
            for streams in [0, 1, 2, 3, 8] {
                let trial = json!({"workload": "checkpoint", "storage": storage, "codec": codec, "streams": streams,
                                   "size": 9_000_001, "chunk_size": "1MiB"});
                let record = run(&mut engine, target.path(), trial);
                let [save, restore] = [&record["phases"][0], &record["phases"][1]];
                assert_eq!((save["name"].as_str(), restore["name"].as_str()), (Some("save"), Some("restore")));
                assert_eq!(save["user_bytes"], 9_000_001);
                assert_eq!(restore["verified"], "every chunk");
                let workers = save["workers"].as_array().unwrap().len();
                assert_eq!(workers, streams.max(1), "{codec} on {storage}");
                let stages: u64 =
                    save["stages"].as_array().unwrap().iter().map(|s| s["elapsed_ns"].as_u64().unwrap()).sum();
                let elapsed = save["elapsed_ns"].as_u64().unwrap();
                assert!(
                    stages <= elapsed && elapsed - stages < elapsed / 5 + 2_000_000,
                    "stages {stages} of {elapsed}"
                );
            }
        }
    }
}

#[test]
fn a_restore_is_cold_and_the_device_saw_the_bytes() {
    let (mut engine, target) = (Engine::new(), disk());
    for (storage, direct) in [("uring", true), ("posix", true), ("posix", false)] {
        let trial = json!({"workload": "checkpoint", "storage": storage, "direct": direct, "size": "32MiB"});
        let record = run(&mut engine, target.path(), trial);
        let [save, restore] = [&record["phases"][0], &record["phases"][1]];
        assert_eq!(record["path"]["direct"], direct);
        assert_eq!(restore["cache"]["state"], "cold", "{restore}");
        assert_eq!(save["durable"], true);
        if save["device"].is_object() {
            let (written, read) = (save["device"]["written_bytes"].as_u64(), restore["device"]["read_bytes"].as_u64());
            assert!(written >= Some(32 << 20) && read >= Some(32 << 20), "{storage}: {written:?} {read:?}");
        }
    }
}

#[test]
fn a_record_says_what_stood_around_it() {
    let (mut engine, target) = (Engine::new(), disk());
    let trial = json!({"workload": "checkpoint", "storage": "posix", "size": "8MiB", "payload": "zeros"});
    let record = run(&mut engine, target.path(), trial);
    let met = &record["conditions"];
    assert_eq!((&met["interposed"], &met["traced"]), (&json!([]), &json!(false)));
    assert!(met["clock_tick_ns"].as_u64() > Some(0) && met["memory_bytes"].as_u64() > Some(1 << 20), "{met}");
    assert_eq!(met["mount"]["filesystem"], record["path"]["filesystem"]);
    let [save, restore] = [&record["phases"][0], &record["phases"][1]];
    assert_eq!(
        (save["payload"]["zero_share"].as_f64(), save["payload"]["entropy_bits"].as_f64()),
        (Some(1.0), Some(0.0))
    );
    assert!(save["extents"].is_null() && restore["payload"].is_null());
    for phase in [save, restore] {
        let machine = &phase["machine"];
        // Another test's look, a millisecond ago, may be the one after this phase.
        let least_ns = phase["elapsed_ns"].as_u64().unwrap() - 1_000_000;
        assert!(machine["elapsed_ns"].as_u64() >= Some(least_ns), "{machine}");
        assert!(machine["cpus"].as_u64() >= Some(1), "{machine}");
    }
    if restore["extents"]["method"] == "fiemap" {
        let (holes, unwritten) = (&restore["extents"]["hole_bytes"], &restore["extents"]["unwritten_bytes"]);
        assert_eq!((holes, unwritten), (&json!(0), &json!(0)), "a shard is written from end to end");
        assert!(restore["extents"]["bytes"].as_u64() >= Some(8 << 20));
    }
}

#[test]
fn the_schema_of_records_names_every_field_of_one() {
    let (mut engine, target) = (Engine::new(), disk());
    let trial = json!({"workload": "sequential", "storage": "memory", "operation": "write", "size": "1MiB"});
    let record = run(&mut engine, target.path(), trial);
    let schema = serde_json::to_value(savemark_engine::record::schema()).unwrap();
    let named = |owner: &Value, value: &Value| {
        for key in value.as_object().unwrap().keys() {
            assert!(owner["properties"][key].is_object(), "{key} is not in the schema");
        }
    };
    named(&schema, &record);
    named(&schema["$defs"]["Conditions"], &record["conditions"]);
    named(&schema["$defs"]["Phase"], &record["phases"][0]);
    named(&schema["$defs"]["Payload"], &record["phases"][0]["payload"]);
}

#[test]
fn sequential_and_random_move_what_they_say() {
    let (mut engine, target) = (Engine::new(), disk());
    for storage in ["memory", "posix", "uring"] {
        for operation in ["read", "write"] {
            let trial = json!({"workload": "sequential", "storage": storage, "operation": operation, "size": "16MiB",
                               "workers": 2});
            let record = run(&mut engine, target.path(), trial);
            let phase = record["phases"].as_array().unwrap().last().unwrap();
            assert_eq!((phase["name"].as_str(), phase["user_bytes"].as_u64()), (Some(operation), Some(16 << 20)));
            assert_eq!((phase["operations"].as_u64(), phase["latency"]["count"].as_u64()), (Some(16), Some(16)));
            let trial = json!({"workload": "random", "storage": storage, "operation": operation, "size": "4MiB",
                               "duration": null, "operations": 500, "workers": 2, "queue_depth": 16});
            let record = run(&mut engine, target.path(), trial);
            let phase = record["phases"].as_array().unwrap().last().unwrap();
            assert_eq!(phase["operations"].as_u64(), Some(1000), "{storage} {operation}");
            let timeline: u64 =
                phase["timeline"]["bytes"].as_array().unwrap().iter().map(|b| b.as_u64().unwrap()).sum();
            assert_eq!(timeline, 1000 * 4096);
            assert!(phase["first_done_ns"].as_u64() <= phase["last_done_ns"].as_u64());
        }
    }
}

#[test]
fn more_memory_than_is_in_flight_is_gone_round() {
    let (mut engine, target) = (Engine::new(), disk());
    for (memory, checksum) in [("16MiB", false), ("1MiB", true)] {
        let trial = json!({"workload": "sequential", "storage": "uring", "operation": "read", "size": "20MiB",
                           "memory": memory, "checksum": checksum, "queue_depth": 4});
        let record = run(&mut engine, target.path(), trial);
        let phase = record["phases"].as_array().unwrap().last().unwrap();
        assert_eq!(phase["operations"], 20);
        assert_eq!(phase["thread_time"]["digest_ns"].as_u64() > Some(0), checksum);
    }
}

#[test]
fn syncs_are_counted_and_timed() {
    let (mut engine, target) = (Engine::new(), disk());
    let trial = json!({"workload": "sequential", "storage": "posix", "operation": "write", "size": "64KiB",
                       "transfer_size": "4KiB", "queue_depth": 1, "sync": "each"});
    let record = run(&mut engine, target.path(), trial);
    assert!(record["phases"][0]["sync_latency"]["count"].as_u64() >= Some(16));
}

#[test]
fn codec_and_memcpy_need_no_storage() {
    let mut engine = Engine::new();
    for codec in ["lz4", "zstd", "gzip", "zlib", "planes"] {
        let text = json!({"workload": "codec", "storage": "null", "codec": codec, "size": "8MiB", "workers": 2});
        let record = engine.run(&Trial::parse(&text.to_string()).unwrap(), &Control::default()).unwrap();
        assert_eq!(record.phases.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["encode", "decode"]);
        assert!(record.phases.iter().all(|p| p.user_bytes == 8 << 20 && p.stored_bytes > 0 && p.elapsed_ns > 0));
    }
    let text = json!({"workload": "memcpy", "storage": "null", "size": "32MiB"});
    let record = engine.run(&Trial::parse(&text.to_string()).unwrap(), &Control::default()).unwrap();
    assert_eq!(record.phases[0].user_bytes, 32 << 20);
}

#[test]
fn a_cancelled_trial_says_so_and_leaves_nothing() {
    let (mut engine, target) = (Engine::new(), disk());
    let control = Control::default();
    control.cancel();
    for workload in ["checkpoint", "sequential", "random"] {
        let text = json!({"workload": workload, "storage": "uring", "target": target.path(), "size": "16MiB"});
        let error = engine.run(&Trial::parse(&text.to_string()).unwrap(), &control).unwrap_err();
        assert_eq!(error.kind, Kind::Interrupted, "{workload}");
        assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0, "{workload}");
    }
}

#[test]
fn a_missing_directory_is_named() {
    let text = json!({"workload": "checkpoint", "storage": "uring", "target": "/nowhere/at/all"});
    let error = Engine::new().run(&Trial::parse(&text.to_string()).unwrap(), &Control::default()).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all") && error.hint.unwrap().contains("mkdir"), "no hint");
}

#[test]
fn a_directory_of_files_is_a_state() {
    let (mut engine, target, state) = (Engine::new(), disk(), disk());
    std::fs::create_dir(state.path().join("layers")).unwrap();
    std::fs::write(state.path().join("config.json"), b"{}").unwrap();
    std::fs::write(state.path().join("empty"), b"").unwrap();
    std::fs::write(state.path().join("layers/0.bin"), vec![7u8; 3_000_001]).unwrap();
    for codec in ["none", "tar", "zstd"] {
        for streams in [0, 2] {
            let trial = json!({"workload": "checkpoint", "storage": "uring", "codec": codec, "streams": streams,
                               "state": state.path(), "chunk_size": "1MiB"});
            let record = run(&mut engine, target.path(), trial);
            assert_eq!(record["phases"][1]["user_bytes"], 3_000_003, "{codec}");
        }
        let ceiling =
            json!({"workload": "codec", "storage": "null", "codec": codec, "state": state.path(), "size": "2MiB"});
        let record = run(&mut engine, target.path(), ceiling);
        assert_eq!(record["phases"][1]["user_bytes"], 2 << 20, "the first 2 MiB of the state, by {codec}");
    }
}

/// A trial neither replaces nor removes what is not its own.
#[test]
fn a_checkpoint_that_is_there_stays() {
    let target = disk();
    let make = |target: &Path| json!({"workload": "checkpoint", "storage": "posix", "size": 100_000, "target": target});
    let theirs = savemark_checkpoint::state::MemoryState::generate(Default::default(), 7, 50_000).unwrap();
    let storage = savemark_storage::Options::Posix(Default::default());
    let storage = savemark_storage::open(&storage, savemark_storage::Target::Directory(target.path().into())).unwrap();
    let options = (&savemark_engine::workload::checkpoint::CheckpointOptions::default()).into();
    savemark_checkpoint::save(&theirs, &*storage, &options, &mut Default::default(), &Control::default()).unwrap();
    let list = || savemark_storage::Storage::list(&*storage).unwrap();
    let before = list();
    let error =
        Engine::new().run(&Trial::parse(&make(target.path()).to_string()).unwrap(), &Control::default()).unwrap_err();
    assert_eq!(error.kind, Kind::Refused, "{error}");
    assert_eq!(list(), before);
}

/// The record names what ran: a save out of the state's own memory uses no registered buffers, however they were asked for.
#[test]
fn fixed_buffers_are_those_that_were_used() {
    let (mut engine, target) = (Engine::new(), disk());
    let block = json!({"workload": "sequential", "storage": "uring", "size": "4MiB", "operation": "write"});
    let path = run(&mut engine, target.path(), block)["path"].clone();
    assert_eq!((&path["fixed_buffers"], &path["notes"]), (&json!(true), &json!([])));
    let save = json!({"workload": "checkpoint", "storage": "uring", "size": "4MiB"});
    let path = run(&mut engine, target.path(), save)["path"].clone();
    assert_eq!(path["fixed_buffers"], false);
    assert!(path["notes"][0].as_str().unwrap().contains("4 of 4 reads and 0 of 4 writes"), "{path}");
    let memory = json!({"workload": "memcpy", "storage": "uring", "size": "4MiB"});
    let path = run(&mut engine, target.path(), memory)["path"].clone();
    assert_eq!((&path["fixed_buffers"], &path["registered_files"]), (&json!(false), &json!(false)));
}
