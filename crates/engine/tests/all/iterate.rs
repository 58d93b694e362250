//! The solver: every policy saves what a restart needs, and keeps to its contract.

use std::path::Path;
use std::sync::Mutex;

use savemark_base::{Error, Kind};
use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_engine::workload::iterate::save_observer::{self, SaveObserver};
use savemark_engine::workload::iterate::{IterateOptions, Policy};
use savemark_measure::control::Control;
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

/// Writes of a thread of its own are two; a save has a header.
fn writes(policy: &str) -> u64 {
    if policy == "double_buffer" { 2 } else { 64 + 1 }
}

#[test]
fn a_duration_is_filled_with_iterations_and_the_record_says_what_of_them_lasts() {
    let target = disk();
    for policy in Policy::ALL.into_iter().filter(|policy| !policy.is_direct()) {
        let name = json!(policy).as_str().unwrap().to_string();
        let options =
            json!({"side": 64, "workers": 3, "iterations": 4, "duration": "30ms", "every": 2, "policy": name});
        let record = run(target.path(), &options);
        let iterate = &record["phases"][0];
        let number = |key: &str| iterate[key].as_u64().unwrap();
        let (iterations, state) = (number("iterations"), 64 * 64 * 8);
        let saves = iterations / 2;
        assert!(iterations >= 4 && number("elapsed_ns") >= 30_000_000, "{name}: {iterations}");
        assert_eq!((number("user_bytes"), number("operations")), (saves * state, saves * writes(&name)), "{name}");
        assert_eq!(number("durable_bytes"), if policy.is_durable() { saves * state } else { state }, "{name}");
        assert!(number("durable_ns") >= number("elapsed_ns"));
        assert_eq!(record["phases"][1]["workers"].as_array().unwrap().len(), 1, "one thread reads");
    }
}

/// What a observer was told, as `(generation, returned)`.
#[derive(Default)]
struct Told(Mutex<Vec<(u64, bool)>>);

impl SaveObserver for Told {
    fn begins(&self, generation: u64) -> Result<(), Error> {
        self.0.lock().unwrap().push((generation, false));
        Ok(())
    }

    fn returned(&self, generation: u64) -> Result<(), Error> {
        self.0.lock().unwrap().push((generation, true));
        if generation == 6 { Err(Error::failed("seen enough")) } else { Ok(()) }
    }
}

#[test]
fn an_observer_sees_every_save_begin_and_return_and_can_end_the_solver() {
    for policy in Policy::ALL.into_iter().filter(|policy| !policy.is_direct()) {
        let (root, told) = (disk(), Told::default());
        let options = IterateOptions { side: 64, workers: 3, iterations: 9, every: 2, policy, ..Default::default() };
        let error = save_observer::save_all(&options, root.path(), &told).unwrap_err();
        assert_eq!(error.to_string(), "seen enough", "{policy:?}");
        let expected: Vec<_> = [2, 4, 6].into_iter().flat_map(|i| [(i, false), (i, true)]).collect();
        assert_eq!(*told.0.lock().unwrap(), expected, "{policy:?}");
        // What lasts when the next begins may be the one before.
        let (generation, state) = save_observer::load(&options, root.path()).unwrap();
        assert!(generation == 6 || generation == 4 && policy == Policy::DoubleBuffer, "{policy:?}: {generation}");
        assert!(state == save_observer::states(&options).unwrap()[generation as usize - 1]);
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
