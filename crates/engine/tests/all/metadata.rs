//! Many small files: what is counted, what a deadline means, and that nothing stays.

use std::path::Path;

use savemark_base::{Error, Kind};
use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_measure::control::Control;
use serde_json::{Value, json};

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn tried(target: &Path, options: &Value) -> Result<Value, Error> {
    let mut trial = json!({"workload": "metadata", "storage": "posix", "direct": false, "target": target});
    trial.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let record = Engine::new().run(&Trial::parse(&trial.to_string())?, &Control::default());
    assert_eq!(std::fs::read_dir(target).unwrap().count(), 0, "{options} left something behind");
    record.map(|record| serde_json::to_value(record).unwrap())
}

fn names(record: &Value) -> Vec<&str> {
    record["phases"].as_array().unwrap().iter().map(|phase| phase["name"].as_str().unwrap()).collect()
}

#[test]
fn every_phase_visits_every_item() {
    let target = disk();
    for options in [
        json!({}),
        json!({"file_size": 3901, "shared": true}),
        json!({"file_size": 3901, "neighbour": true, "sync": "end"}),
        json!({"sync": "each", "file_size": 5}),
        json!({"rename": false}),
        json!({"kind": "directories", "rename": false, "neighbour": true}),
        json!({"kind": "directories", "neighbour": true}),
        json!({"kind": "directories", "shared": true, "sync": "each"}),
    ] {
        let mut all = json!({"items": 101, "workers": 3});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let record = tried(target.path(), &all).unwrap_or_else(|e| panic!("{all}: {e}"));
        assert_eq!((&record["path"]["storage"], &record["path"]["direct"]), (&json!("posix"), &json!(false)));
        let files = options["kind"].is_null();
        let renamed = options["rename"].is_null();
        let asked = |name: &&str| (files || *name != "read") && (renamed || *name != "rename");
        let expected = ["create", "stat", "read", "rename", "remove"];
        assert_eq!(names(&record), expected.into_iter().filter(asked).collect::<Vec<_>>());
        for phase in record["phases"].as_array().unwrap() {
            assert_eq!((&phase["operations"], &phase["latency"]["count"]), (&json!(101), &json!(101)), "{phase}");
            assert_eq!(phase["workers"].as_array().unwrap().len(), 3);
            let moves = matches!(phase["name"].as_str().unwrap(), "create" | "read");
            let bytes = if moves { 101 * options["file_size"].as_u64().unwrap_or(0) } else { 0 };
            assert_eq!(phase["user_bytes"], bytes, "{phase}");
            let changes = !matches!(phase["name"].as_str().unwrap(), "stat" | "read");
            assert_eq!(phase["durable"].as_bool().unwrap(), changes && !options["sync"].is_null(), "{phase}");
        }
        if options["file_size"].is_number() {
            assert_eq!(record["phases"][2]["verified"], "every file");
        }
    }
}

#[test]
fn after_the_deadline_every_worker_makes_as_many_as_the_fastest() {
    let target = disk();
    let record = tried(target.path(), &json!({"items": 50_000_000, "workers": 4, "phase_deadline": "100ms"})).unwrap();
    let create = &record["phases"][0];
    let made: Vec<u64> =
        create["workers"].as_array().unwrap().iter().map(|w| w["operations"].as_u64().unwrap()).collect();
    assert!(made[0] > 0 && made.iter().all(|n| *n == made[0]), "{made:?}");
    assert!(create["elapsed_ns"].as_u64().unwrap() >= 100_000_000);
    assert_eq!(create["stages"][0], json!({"name": "until_deadline", "elapsed_ns": 100_000_000}));
    assert_eq!(create["stages"][1]["name"], "wear_out");
    for phase in &record["phases"].as_array().unwrap()[1..] {
        assert_eq!(phase["operations"], create["operations"]);
    }
}

#[test]
fn names_are_dropped_from_memory_or_the_trial_is_refused() {
    let target = disk();
    match tried(target.path(), &json!({"items": 10, "cache": "cold"})) {
        Ok(record) => assert_eq!(record["phases"][1]["cache"]["state"], "dropped"),
        Err(e) => assert!(e.kind == Kind::Refused && e.hint.is_some_and(|h| h.contains("--cache warm")), "not root"),
    }
    let record = tried(target.path(), &json!({"items": 10})).unwrap();
    assert_eq!(record["phases"][1]["cache"]["state"], "warm");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let target = disk();
    for (options, words) in [
        (json!({"items": 1, "workers": 2}), "items"),
        (json!({"workers": 0}), "workers"),
        (json!({"file_size": "65MiB"}), "file_size"),
        (json!({"kind": "directories", "file_size": 1}), "directories have no bytes"),
    ] {
        let error = tried(target.path(), &options).unwrap_err();
        assert!(error.kind == Kind::Usage && error.to_string().contains(words), "{error}");
    }
    let memory = Trial::parse(r#"{"workload": "metadata", "storage": "memory"}"#).unwrap();
    let error = Engine::new().run(&memory, &Control::default()).unwrap_err();
    assert!(error.hint.is_some_and(|hint| hint.contains("--storage posix")));
    std::fs::create_dir(target.path().join("savemark-metadata")).unwrap();
    std::fs::write(target.path().join("savemark-metadata/theirs"), b"kept").unwrap();
    let trial = json!({"workload": "metadata", "storage": "posix", "direct": false, "target": target.path()});
    let error = Engine::new().run(&Trial::parse(&trial.to_string()).unwrap(), &Control::default()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EEXIST), "{error}");
    assert!(target.path().join("savemark-metadata/theirs").exists(), "what is not ours stays");
}

#[test]
fn a_cancelled_trial_removes_what_it_made() {
    let target = disk();
    let trial = json!({"workload": "metadata", "storage": "posix", "direct": false, "target": target.path(),
                       "items": 50_000_000, "workers": 2, "phase_deadline": "1h"});
    let (trial, control) = (Trial::parse(&trial.to_string()).unwrap(), Control::default());
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| Engine::new().run(&trial, &control).map(drop));
        while !target.path().join("savemark-metadata/0001/item-0001-00000010").exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        control.cancel();
        run.join().unwrap().unwrap_err()
    });
    assert_eq!(error.kind, Kind::Interrupted);
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
}
