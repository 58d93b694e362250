//! The block workloads from the outside: what is counted, and what is refused.

use std::path::Path;

use savemark_base::{Error, Kind};
use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_measure::control::Control;
use serde_json::{Value, json};

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn tried(target: &Path, options: Value) -> Result<Value, Error> {
    let mut trial = json!({"storage": "memory", "target": target});
    trial.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let record = Engine::new().run(&Trial::parse(&trial.to_string())?, &Control::default());
    assert_eq!(std::fs::read_dir(target).unwrap().count(), 0, "{options} left something behind");
    record.map(|record| serde_json::to_value(record).unwrap())
}

/// The last phase.
fn phase(options: Value) -> Value {
    let record = tried(disk().path(), options.clone()).unwrap_or_else(|e| panic!("{options}: {e}"));
    record["phases"].as_array().unwrap().last().unwrap().clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_mix_has_its_ratio_and_tells_reads_and_writes_apart() {
    for (workload, storage) in [("random", "memory"), ("sequential", "uring"), ("random", "uring")] {
        let mix =
            phase(json!({"workload": workload, "storage": storage, "reads": 70, "operations": 2000, "workers": 2,
                               "size": "4MiB", "transfer_size": "4KiB", "queue_depth": 8, "duration": null}));
        assert_eq!((&mix["name"], number(&mix["operations"])), (&json!("mix"), 4000));
        let [read, write] = [&mix["read"], &mix["write"]];
        let reads = number(&read["operations"]);
        assert!((2680..2920).contains(&reads), "{workload} {storage}: {reads} of 4000");
        assert_eq!(reads + number(&write["operations"]), 4000);
        for share in [read, write] {
            assert_eq!(number(&share["bytes"]), number(&share["operations"]) * 4096);
            assert_eq!(share["latency"]["count"], share["operations"]);
        }
    }
    let pure = phase(json!({"workload": "random", "size": "1MiB", "operations": 10, "duration": null}));
    assert!(pure.get("read").is_none() && pure.get("slip").is_none(), "what there is not takes no room");
}

#[test]
fn once_through_is_every_block_once() {
    for options in [
        json!({"workload": "sequential", "operation": "write", "files": 3, "workers": 2}),
        json!({"workload": "sequential", "operation": "read", "files": 3, "workers": 2}),
        json!({"workload": "strided", "operation": "read", "stride": "256KiB", "files": 3, "workers": 2}),
        json!({"workload": "random", "operation": "write", "files": 3, "workers": 2, "duration": null}),
    ] {
        let mut all = json!({"storage": "posix", "size": "1MiB", "transfer_size": "64KiB", "verify": true});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        assert_eq!(number(&phase(all)["user_bytes"]), 6 << 20, "{options}");
    }
    let some = phase(json!({"workload": "sequential", "operations": 5, "workers": 3, "size": "16MiB"}));
    assert_eq!(number(&some["operations"]), 15);
    let round = phase(json!({"workload": "sequential", "operations": 50, "size": "16MiB", "verify": true}));
    assert_eq!((&round["name"], number(&round["operations"])), (&json!("verify"), 16));
}

#[test]
fn a_group_flushes_once_for_all() {
    // Per worker, and flushes of the group: whole rounds, and one for what is left.
    for (operations, every, flushes) in [(10, json!(4), 3), (8, json!(4), 2), (10, json!(null), 1), (3, json!(5), 1)] {
        for (storage, depth) in [("posix", 1), ("uring", 3)] {
            let done =
                phase(json!({"workload": "sequential", "storage": storage, "sync": "group", "sync_every": every,
                                    "operations": operations, "workers": 3, "queue_depth": depth,
                                    "size": "4MiB", "transfer_size": "4KiB"}));
            assert_eq!(number(&done["sync_latency"]["count"]), flushes, "{operations} {every} {storage}");
            assert_eq!((number(&done["operations"]), &done["durable"]), (3 * operations, &json!(true)));
        }
    }
    // Workers that end at different times leave the others behind, not waiting.
    let uneven = phase(json!({"workload": "random", "storage": "posix", "operation": "write", "sync": "group",
                              "sync_every": 1, "duration": "100ms", "workers": 4, "size": "1MiB"}));
    assert!(number(&uneven["sync_latency"]["count"]) > 0);
}

#[test]
fn an_open_loop_counts_from_when_an_io_was_due() {
    // Far more than can be done: what waits is in the latency, and how late it started in the slip.
    for storage in ["memory", "uring"] {
        let common = json!({"workload": "random", "storage": storage, "size": "8MiB", "transfer_size": "1MiB",
                            "queue_depth": 2, "duration": "300ms", "workers": 2});
        let with = |more: Value| {
            let mut all = common.clone();
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            phase(all)
        };
        let closed = with(json!({}));
        let open = with(json!({"rate": 10_000_000}));
        let service = number(&closed["latency"]["p50_ns"]);
        assert!(number(&open["latency"]["p50_ns"]) > 5 * service, "{storage}: {} {service}", open["latency"]);
        let slip = &open["slip"];
        assert_eq!((number(&slip["due"]), &slip["started"]), (3_000_000, &open["operations"]));
        assert!(number(&slip["late"]) * 2 > number(&slip["started"]), "{slip}");
        assert!(
            number(&slip["max_ns"]) >= number(&slip["p99_ns"]) && number(&slip["p99_ns"]) > number(&slip["mean_ns"])
        );
    }
}

#[test]
fn an_open_loop_that_can_be_kept_is_kept() {
    for storage in ["memory", "posix", "uring"] {
        for (sync, every) in [("none", json!(null)), ("group", json!(10))] {
            let done = phase(json!({"workload": "random", "storage": storage, "operation": "write", "size": "1MiB",
                                    "queue_depth": 4, "duration": null, "operations": 25, "workers": 2, "rate": 250,
                                    "sync": sync, "sync_every": every, "verify": true, "transfer_size": "4KiB"}));
            assert_eq!(done["name"], "verify");
            let done = phase(json!({"workload": "random", "storage": storage, "size": "1MiB", "queue_depth": 4,
                                    "duration": null, "operations": 25, "workers": 2, "rate": 250}));
            assert_eq!((number(&done["operations"]), number(&done["slip"]["due"])), (50, 50), "{storage}");
            // The last one was due 196 ms after the first.
            assert!(number(&done["elapsed_ns"]) >= 196_000_000, "{done}");
        }
    }
}

#[test]
fn what_is_warm_is_read_from_memory_and_what_is_cold_is_not() {
    for (cache, state) in [("warm", "warm"), ("cold", "cold")] {
        let done = phase(json!({"workload": "random", "storage": "posix", "direct": false, "size": "8MiB",
                                "cache": cache, "duration": "50ms"}));
        assert_eq!(done["cache"]["state"], state);
    }
    let error = tried(disk().path(), json!({"workload": "random", "storage": "posix", "cache": "warm"})).unwrap_err();
    assert!(error.hint.unwrap().contains("--no-direct"));
}

#[test]
fn the_geometry_of_ior_is_written_and_read_back_by_another() {
    for workload in ["shared_file", "file_per_process"] {
        for storage in ["posix", "uring", "memory"] {
            let options = json!({"workload": workload, "storage": storage, "block_size": "128KiB", "segments": 3,
                                 "transfer_size": "32KiB", "workers": 3, "queue_depth": 4, "verify": true,
                                 "random_offsets": storage == "uring", "reorder": 2});
            let record = tried(disk().path(), options).unwrap();
            let phases = record["phases"].as_array().unwrap();
            assert_eq!(phases.len(), 2);
            for (phase, name) in phases.iter().zip(["write", "read"]) {
                assert_eq!((&phase["name"], number(&phase["operations"])), (&json!(name), 36));
                assert!(phase["workers"].as_array().unwrap().iter().all(|worker| worker["operations"] == 12));
            }
            assert_eq!(
                (&phases[0]["durable"], &phases[1]["verified"]),
                (&json!(storage != "memory"), &json!("every block"))
            );
        }
    }
}

#[test]
fn after_the_deadline_every_worker_moves_as_much_as_the_fastest() {
    for (workload, wear_out) in [("shared_file", true), ("file_per_process", true), ("shared_file", false)] {
        let options = json!({"workload": workload, "storage": "posix", "direct": false, "block_size": "1MiB",
                             "segments": 100_000, "transfer_size": "256KiB", "workers": 3, "phase_deadline": "100ms",
                             "wear_out": wear_out, "sync": "none", "verify": true});
        let record = tried(disk().path(), options).unwrap();
        let [write, read] = [&record["phases"][0], &record["phases"][1]];
        let of = |phase: &Value| {
            let workers = phase["workers"].as_array().unwrap().iter();
            workers.map(|worker| number(&worker["operations"])).collect::<Vec<_>>()
        };
        let (written, back) = (of(write), of(read));
        assert!(written.iter().all(|count| *count > 0) && number(&write["elapsed_ns"]) >= 100_000_000, "{written:?}");
        assert_eq!(read["verified"], "every block");
        if wear_out {
            assert!(written.iter().all(|count| *count == written[0]), "{written:?}");
            assert_eq!(write["stages"][0], json!({"name": "until_deadline", "elapsed_ns": 100_000_000}));
            assert_eq!(write["stages"][1]["name"], "wear_out");
        }
        for (worker, count) in back.iter().enumerate() {
            assert!(*count <= written[(worker + 1) % 3], "nothing is read that was not written: {back:?} {written:?}");
        }
    }
}

#[test]
fn striping_is_refused_where_there_is_none() {
    let (on_disk, in_memory) = (disk(), tempfile::tempdir_in("/dev/shm").unwrap());
    for (target, storage, word) in [
        (on_disk.path(), "posix", "filesystem"),
        (in_memory.path(), "posix", "tmpfs"),
        (on_disk.path(), "memory", "memory"),
    ] {
        for options in [json!({"stripe_count": 4}), json!({"stripe_size": "1MiB"})] {
            for workload in ["shared_file", "file_per_process"] {
                let mut all = json!({"workload": workload, "storage": storage});
                if storage == "posix" {
                    all["direct"] = json!(false);
                }
                all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
                let error = tried(target, all).unwrap_err();
                assert!(error.kind == Kind::Usage && error.to_string().contains(word), "{error}");
                assert!(error.to_string().contains("stripes no files") && error.hint.unwrap().contains("Lustre"));
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_option_named() {
    for (options, word) in [
        (json!({"workload": "random", "reads": 101}), "reads"),
        (json!({"workload": "random", "dedup": 50}), "dedup"),
        (json!({"workload": "sequential", "dedup": 50, "verify": true}), "dedup"),
        (json!({"workload": "sequential", "dedup": 101}), "dedup"),
        (json!({"workload": "sequential", "rate": 0}), "rate"),
        (json!({"workload": "sequential", "operations": 0}), "operations"),
        (json!({"workload": "sequential", "files": 0}), "files"),
        (json!({"workload": "sequential", "files": 1_000_000, "workers": 2}), "files"),
        (json!({"workload": "sequential", "sync": "each"}), "each"),
        (json!({"workload": "sequential", "sync": "each", "queue_depth": 1, "reads": 50}), "each"),
        (json!({"workload": "sequential", "sync": "group", "operation": "read"}), "sync"),
        (json!({"workload": "sequential", "sync_every": 5}), "sync_every"),
        (json!({"workload": "sequential", "sync": "group", "sync_every": 0}), "sync_every"),
        (json!({"workload": "sequential", "transfer_size": 1000}), "transfer_size"),
        (json!({"workload": "sequential", "size": "4KiB"}), "size"),
        (json!({"workload": "sequential", "workers": 1000}), "workers"),
        (json!({"workload": "strided", "stride": "100KiB"}), "stride"),
        (json!({"workload": "strided", "stride": "1GiB"}), "stride"),
        (json!({"workload": "strided", "stride": 0}), "stride"),
        (json!({"workload": "shared_file", "block_size": "1500KiB"}), "block_size"),
        (json!({"workload": "shared_file", "segments": 0}), "segments"),
        (json!({"workload": "shared_file", "workers": 2, "reorder": 2}), "reorder"),
        (json!({"workload": "shared_file", "wear_out": true}), "wear_out"),
        (json!({"workload": "shared_file", "stripe_size": 1000}), "stripe_size"),
        (json!({"workload": "shared_file", "stripe_count": 70000}), "stripe_count"),
        (json!({"workload": "metadata", "sync": "group"}), "sync"),
    ] {
        let error = tried(disk().path(), options.clone()).unwrap_err();
        assert!(error.kind == Kind::Usage && error.to_string().contains(word), "{options}: {error}");
    }
}

#[test]
fn making_the_data_of_a_batch_is_no_latency() {
    // All blocks of a round are made before the first is submitted. If that counted, an I/O would last as long as the phase.
    let place = tempfile::tempdir_in("/dev/shm").unwrap(); // next to no time
    let options = json!({"target": place.path(), "workload": "sequential", "storage": "uring", "operation": "write", "size": "32MiB",
                             "transfer_size": "2MiB", "queue_depth": 16, "verify": true, "direct": false});
    let record = Engine::new().run(&Trial::parse(&options.to_string()).unwrap(), &Control::default()).unwrap();
    let write = serde_json::to_value(&record.phases[0]).unwrap();
    let whole = number(&write["elapsed_ns"]);
    assert!(number(&write["latency"]["p50_ns"]) * 2 < whole, "{whole} ns, {}", write["latency"]);
}

#[test]
fn a_cancelled_worker_is_not_waited_for() {
    for options in [
        json!({"workload": "random", "operation": "write", "sync": "group", "sync_every": 3, "duration": "1h"}),
        json!({"workload": "random", "rate": 1, "duration": "1h", "workers": 3}),
        json!({"workload": "shared_file", "segments": 1_000_000_000, "block_size": "4KiB", "transfer_size": "4KiB",
               "phase_deadline": "1h", "wear_out": true}),
    ] {
        let mut all = json!({"storage": "null", "size": "1MiB", "workers": 2});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        if options["rate"].is_number() {
            all["storage"] = json!("memory");
        }
        if options["workload"] == "shared_file" {
            all.as_object_mut().unwrap().remove("size");
        }
        let (trial, control) = (Trial::parse(&all.to_string()).unwrap(), Control::default());
        let error = std::thread::scope(|scope| {
            let run = scope.spawn(|| Engine::new().run(&trial, &control).map(drop));
            let begun = || ["read", "write"].contains(&control.progress().phase.as_str());
            while !begun() || control.done_bytes() == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            control.cancel();
            run.join().unwrap().unwrap_err()
        });
        assert_eq!(error.kind, Kind::Interrupted, "{options}");
    }
}
