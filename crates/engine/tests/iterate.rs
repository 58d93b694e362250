//! The solver: every policy saves what a restart needs, and keeps to its contract.

use std::path::Path;

use savemark_engine::control::Control;
use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_engine::workload::iterate::Policy;
use savemark_engine::{Error, Kind};
use serde_json::{Value, json};

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn trial(target: &Path, options: &Value) -> Result<Trial, Error> {
    let mut trial = json!({"workload": "iterate", "storage": "posix", "target": target});
    trial.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    Trial::parse(&trial.to_string())
}

fn run(target: &Path, options: &Value) -> Value {
    let record = Engine::new().run(&trial(target, options).unwrap(), &Control::default());
    assert_eq!(std::fs::read_dir(target).unwrap().count(), 0, "{options} left something behind");
    serde_json::to_value(record.unwrap_or_else(|e| panic!("{options}: {e}"))).unwrap()
}

/// Syncs of a run: 4 saves, 3 workers, 512 rows, a header per save.
fn syncs(policy: &str, layout: &str) -> u64 {
    let writes = match layout {
        "rows" => 4 * (512 + 1),
        "bands" => 4 * (3 + 1),
        _ => 4 * (1 + 1),
    };
    match policy {
        "fsync_each" | "linked" => writes,
        "fsync_leader" | "fdatasync_leader" | "sync_file_range" | "two_generations" => 4,
        "group" => 12,
        "rename" => 8,
        _ => 0,
    }
}

#[test]
fn a_restart_reaches_the_same_state_under_every_policy_and_layout() {
    let target = disk();
    for policy in Policy::ALL {
        let name = json!(policy).as_str().unwrap().to_string();
        for layout in ["rows", "bands", "matrix"] {
            let options =
                json!({"side": 512, "workers": 3, "iterations": 9, "every": 2, "policy": name, "layout": layout});
            let record = run(target.path(), &options);
            let [iterate, restart] = [&record["phases"][0], &record["phases"][1]];
            assert_eq!((iterate["name"].as_str(), restart["name"].as_str()), (Some("iterate"), Some("restart")));
            assert_eq!(record["path"]["direct"], name == "direct", "the trial's storage asks for direct I/O");
            assert_eq!(iterate["user_bytes"], 4 * 512 * 512 * 8, "{options}");
            assert_eq!(restart["verified"], "state and residual, bit for bit");
            let counted = iterate["sync_latency"]["count"].as_u64().unwrap_or(0);
            assert_eq!(counted, syncs(&name, layout), "{options}");
            assert_eq!(iterate["durable"].as_bool().unwrap(), policy.is_durable(), "{options}");
            assert!(iterate["notes"][0].as_str().unwrap().contains(policy.contract()));
            let spans: u64 =
                iterate["stages"].as_array().unwrap().iter().map(|s| s["elapsed_ns"].as_u64().unwrap()).sum();
            let elapsed = iterate["elapsed_ns"].as_u64().unwrap();
            assert!(spans <= elapsed + 1_000_000 && spans > elapsed / 2, "{spans} of {elapsed}: {options}");
        }
    }
}

#[test]
fn odd_sizes_and_more_threads_than_cores_work() {
    let target = disk();
    for (side, workers) in [(3, 1), (3, 3), (77, 12), (100, 7)] {
        for policy in ["none", "rename", "double_buffer"] {
            run(target.path(), &json!({"side": side, "workers": workers, "iterations": 5, "policy": policy}));
        }
    }
}

#[test]
fn a_thread_that_fails_ends_the_trial_and_not_in_a_deadlock() {
    let target = disk();
    let options = json!({"workers": 4, "side": 64, "iterations": 100_000_000, "policy": "rename"});
    let (trial, control) = (trial(target.path(), &options).unwrap(), Control::default());
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| Engine::new().run(&trial, &control).map(drop));
        let root = target.path().join("savemark-iterate");
        while !root.join("checkpoint").exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // Until nothing new can be made in it: a file may appear while the directory is being removed.
        while root.exists() {
            let _ = std::fs::remove_dir_all(&root);
        }
        running.join().unwrap().unwrap_err()
    });
    assert_eq!((error.kind, error.errno()), (Kind::Failed, Some(libc::ENOENT)), "{error}");
}

#[test]
fn a_cancelled_solver_removes_its_files() {
    let target = disk();
    let options = json!({"iterations": 100_000_000, "policy": "double_buffer"});
    let (trial, control) = (trial(target.path(), &options).unwrap(), Control::default());
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| Engine::new().run(&trial, &control).map(drop));
        while !target.path().join("savemark-iterate/checkpoint").exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        control.cancel();
        running.join().unwrap().unwrap_err()
    });
    assert_eq!(error.kind, Kind::Interrupted);
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    for (options, words) in [
        (json!({"side": 2}), "side"),
        (json!({"side": 4, "workers": 5}), "workers"),
        (json!({"every": 0}), "every"),
        (json!({"every": 7, "iterations": 6}), "never saves"),
        (json!({"side": 100, "policy": "direct"}), "whole pages"),
    ] {
        let error = trial(Path::new("/nowhere"), &options).unwrap_err();
        assert!(error.kind == Kind::Usage && error.to_string().contains(words), "{error}");
    }
    let memory = Trial::parse(r#"{"workload": "iterate", "storage": "memory"}"#).unwrap();
    let error = Engine::new().run(&memory, &Control::default()).unwrap_err();
    assert!(error.hint.is_some_and(|hint| hint.contains("--storage posix")));
}
