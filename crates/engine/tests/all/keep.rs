//! Files that stay for the next trial, and the moment at which a writer may go on.

use std::path::Path;

use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_measure::control::Control;
use serde_json::{Value, json};

const SIZE: u64 = 1 << 20;

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn run(target: &Path, changes: Value) -> Value {
    let mut trial = json!({"workload": "sequential", "storage": "posix", "operation": "read", "size": SIZE,
                           "transfer_size": "64KiB", "keep": true, "target": target});
    trial.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let trial = Trial::parse(&trial.to_string()).unwrap();
    serde_json::to_value(Engine::new().run(&trial, &Control::default()).unwrap()).unwrap()
}

fn names(record: &Value) -> Vec<&str> {
    record["phases"].as_array().unwrap().iter().map(|phase| phase["name"].as_str().unwrap()).collect()
}

fn files(target: &Path) -> usize {
    std::fs::read_dir(target).unwrap().count()
}

#[test]
fn a_kept_file_is_laid_out_once_and_said_to_be_found() {
    let target = disk();
    let first = run(target.path(), json!({}));
    assert_eq!(names(&first), ["prepare", "read"]);
    assert_eq!(first["phases"][1]["notes"], json!([]));
    assert_eq!(files(target.path()), 2, "the file, and the one that says it is whole");
    let again = run(target.path(), json!({"workers": 4, "transfer_size": "16KiB"}));
    assert_eq!(names(&again), ["read"], "another way to read the same file");
    assert!(again["phases"][0]["notes"][0].as_str().unwrap().contains("earlier trial"));
    assert_eq!(again["phases"][0]["extents"]["hole_bytes"], 0);
    assert_eq!(files(target.path()), 2);
}

#[test]
fn other_data_size_or_number_is_another_file() {
    let target = disk();
    run(target.path(), json!({}));
    for other in [json!({"seed": 1}), json!({"payload": "zeros"}), json!({"size": 2 * SIZE}), json!({"files": 2})] {
        assert_eq!(names(&run(target.path(), other.clone()))[0], "prepare", "{other}");
        assert_eq!(names(&run(target.path(), other.clone())), ["read"], "{other}");
    }
}

#[test]
fn a_file_without_its_mark_is_laid_out_anew() {
    let target = disk();
    run(target.path(), json!({}));
    let path = |ending: &str| {
        let find = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            path.to_str().unwrap().ends_with(ending).then_some(path)
        };
        std::fs::read_dir(target.path()).unwrap().find_map(find).unwrap()
    };
    std::fs::remove_file(path(".laid-out")).unwrap();
    std::fs::write(path(".bin"), b"torn").unwrap();
    let record = run(target.path(), json!({"verify": false}));
    assert_eq!(names(&record), ["prepare", "read"]);
    assert_eq!(std::fs::metadata(path(".bin")).unwrap().len(), SIZE);
}

#[test]
fn what_is_written_is_not_kept() {
    let trial =
        json!({"workload": "sequential", "storage": "posix", "operation": "write", "keep": true, "target": "/x"});
    let error = Trial::parse(&trial.to_string()).unwrap_err();
    assert!(error.to_string().contains("keep"), "{error}");
}

#[test]
fn a_write_that_is_flushed_at_the_end_says_when_its_last_byte_was_taken() {
    let target = disk();
    for workers in [1, 3] {
        let changes = json!({"operation": "write", "keep": false, "direct": false, "workers": workers});
        let record = run(target.path(), changes);
        let phase = &record["phases"][0];
        let stages = phase["stages"].as_array().unwrap();
        assert_eq!((&stages[0]["name"], &stages[1]["name"]), (&json!("transfer"), &json!("flush")));
        let times: Vec<u64> = stages.iter().map(|stage| stage["elapsed_ns"].as_u64().unwrap()).collect();
        assert_eq!(times.iter().sum::<u64>(), phase["elapsed_ns"].as_u64().unwrap());
        assert!(times[0] > 0 && times[1] > 0, "{times:?}");
    }
    let buffered = run(target.path(), json!({"operation": "write", "keep": false, "sync": "none"}));
    assert_eq!(buffered["phases"][0]["stages"], json!([]), "nothing is flushed, nothing to tell apart");
    assert_eq!(files(target.path()), 0);
}
