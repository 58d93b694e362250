//! IO500's phases: that they do what its rules say, that what they made adds up, and that nothing stays.

use std::path::Path;
use std::process::{Command, Stdio};

use savemark_base::{Error, Kind};
use savemark_engine::run::{Engine, Moment};
use savemark_engine::trial::Trial;
use savemark_measure::control::Control;
use serde_json::{Value, json};

const PHASES: [&str; 12] = [
    "ior-easy-write",
    "mdtest-easy-write",
    "ior-hard-write",
    "mdtest-hard-write",
    "find",
    "ior-easy-read",
    "mdtest-easy-stat",
    "ior-hard-read",
    "mdtest-hard-stat",
    "mdtest-easy-delete",
    "mdtest-hard-read",
    "mdtest-hard-delete",
];

fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn trial(target: &Path, options: &Value) -> Trial {
    let mut trial = json!({"workload": "io500", "storage": "posix", "direct": false, "target": target});
    trial.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    Trial::parse(&trial.to_string()).unwrap()
}

/// A few of everything: the phases end long before their deadline.
fn small() -> Value {
    json!({"workers": 3, "block_size": "4MiB", "segments": 7, "files_per_worker": 350, "cache": "warm"})
}

fn tried(target: &Path, options: &Value) -> Result<Value, Error> {
    let record = Engine::new().run(&trial(target, options), &Control::default());
    let left: Vec<_> = std::fs::read_dir(target).unwrap().collect();
    assert!(left.is_empty(), "{options} left something behind: {left:?}");
    record.map(|record| serde_json::to_value(record).unwrap())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_twelve_phases_run_in_order_and_move_what_they_should() {
    let target = memory();
    for storage in ["posix", "uring"] {
        let mut options = small();
        options["storage"] = json!(storage);
        let record = match tried(target.path(), &options) {
            Err(error) if error.kind == Kind::Refused && storage == "uring" => continue, // none in this container
            record => record.unwrap(),
        };
        let phases = record["phases"].as_array().unwrap();
        let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
        assert_eq!(names, PHASES);
        for (phase, name) in phases.iter().zip(PHASES) {
            let (operations, bytes) = match name {
                "ior-easy-write" | "ior-easy-read" => (6, 12 << 20),
                "ior-hard-write" | "ior-hard-read" => (21, 21 * 47_008),
                "find" => (3 + 1 + 2 * 1050, 0),
                "mdtest-hard-write" | "mdtest-hard-read" => (1050, 1050 * 3901),
                _ => (1050, 0),
            };
            assert_eq!((number(&phase["operations"]), number(&phase["user_bytes"])), (operations, bytes), "{name}");
            assert_eq!(phase["workers"].as_array().unwrap().len(), 3, "{name}");
        }
        let verified = |name: &str| phases[PHASES.iter().position(|n| *n == name).unwrap()]["verified"].clone();
        assert_eq!(
            (verified("ior-easy-read"), verified("ior-hard-read")),
            (json!("every block"), json!("every block"))
        );
        assert_eq!((verified("mdtest-hard-read"), verified("find")), (json!("every file"), json!("every file")));
        // file.mdtest.0.1 … of three workers: those with 01 in them.
        let fitting = (0..3).flat_map(|w| (0..350).map(move |i| format!("file.mdtest.{w}.{i}")));
        assert_eq!(phases[4]["found"], fitting.filter(|name| name.contains("01")).count());
        let stages = phases[0]["stages"].as_array().unwrap();
        let sum: u64 = stages.iter().map(|stage| number(&stage["elapsed_ns"])).sum();
        assert_eq!((&stages[0]["name"], sum), (&json!("create"), number(&phases[0]["elapsed_ns"])));
    }
}

#[test]
fn after_the_deadline_all_workers_end_with_as_much_as_the_fastest() {
    let target = memory();
    let options = json!({"workers": 3, "phase_deadline": "100ms", "cache": "warm", "block_size": "128MiB",
                         "segments": 2000, "files_per_worker": 500_000});
    let record = tried(target.path(), &options).unwrap();
    for (phase, name) in record["phases"].as_array().unwrap().iter().zip(PHASES) {
        if name == "find" {
            continue; // whoever is free looks
        }
        let done: Vec<u64> = phase["workers"].as_array().unwrap().iter().map(|w| number(&w["operations"])).collect();
        assert!(done[0] > 0 && done.iter().all(|count| *count == done[0]), "{name}: {done:?}");
        if name.starts_with("mdtest") && name.ends_with("write") {
            assert!(number(&phase["elapsed_ns"]) >= 100_000_000, "{name}");
        }
    }
}

/// Runs a trial and calls `act` with the folder of its data before the phase `name`; returns the error.
fn disturbed(name: &str, act: impl Fn(&Path)) -> Error {
    let target = memory();
    let data = target.path().join("savemark-io500/data");
    let mut around = |moment: Moment, phase: &str| {
        if moment == Moment::Before && phase == name {
            act(&data);
        }
        Ok(())
    };
    let error =
        Engine::new().run_around(&trial(target.path(), &small()), &Control::default(), &mut around).unwrap_err();
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0, "{error}");
    error
}

#[test]
fn what_is_missing_or_changed_is_found_by_the_phase_that_meets_it() {
    let overwrite = |path: std::path::PathBuf, at: usize| {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    };
    for (phase, act, words) in [
        (
            "find",
            Box::new(|data: &Path| std::fs::write(data.join("01"), [0; 3901]).unwrap()) as Box<dyn Fn(&Path)>,
            "fit",
        ),
        (
            "find",
            Box::new(|data: &Path| std::fs::remove_file(data.join("mdtest-hard/0000/file.mdtest.0.1")).unwrap()),
            "made",
        ),
        (
            "ior-easy-read",
            Box::new(move |data: &Path| overwrite(data.join("ior-easy/file-0001.bin"), 3 << 20)),
            "file-0001",
        ),
        (
            "ior-hard-read",
            Box::new(move |data: &Path| overwrite(data.join("ior-hard/file.bin"), 47_008 * 5 - 1)),
            "file.bin",
        ),
        (
            "ior-hard-read",
            Box::new(move |data: &Path| overwrite(data.join("ior-hard/file.bin"), 47_008 * 8)),
            "file.bin",
        ),
        (
            "mdtest-hard-read",
            Box::new(move |data: &Path| overwrite(data.join("mdtest-hard/0000/file.mdtest.2.301"), 3900)),
            "file.mdtest.2.301",
        ),
    ] {
        let error = disturbed(phase, act);
        assert_eq!(error.kind, Kind::Corrupt, "{phase}: {error}");
        assert!(error.message.starts_with(&format!("{phase}: ")) && error.message.contains(words), "{error}");
    }
    let gone = |data: &Path| std::fs::remove_file(data.join("mdtest-easy/0001/file.mdtest.1.7")).unwrap();
    let error = disturbed("mdtest-easy-stat", gone);
    assert!(error.errno() == Some(libc::ENOENT) && error.message.starts_with("mdtest-easy-stat: "), "{error}");
}

#[test]
fn a_file_that_cannot_be_opened_ends_the_phase_for_all_workers() {
    // A worker that fails when the clock runs already is not waited for at the deadline.
    let error = disturbed("ior-easy-read", |data| std::fs::remove_file(data.join("ior-easy/file-0002.bin")).unwrap());
    assert!(error.message.starts_with("ior-easy-read: ") && error.message.contains("file-0002"), "{error}");
}

/// A tmpfs of so many MiB; none where this user may not mount.
struct Small(tempfile::TempDir);

impl Small {
    fn new(mib: u64) -> Option<Self> {
        let at = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let size = format!("size={mib}m");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at.path())
            .stderr(Stdio::null())
            .status();
        if !mount.is_ok_and(|status| status.success()) {
            let required =
                std::env::var("SAVEMARK_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word == "mount"));
            assert!(!required, "SAVEMARK_REQUIRE asks for mount, and it does not work here");
            eprintln!("skipped: no right to mount a tmpfs");
            return None;
        }
        Some(Self(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_filesystem_that_fills_up_is_named_with_the_phase_and_left_empty() {
    let Some(mounted) = Small::new(32) else { return };
    for (phase, options) in [
        ("ior-easy-write", json!({})),
        ("ior-hard-write", json!({"block_size": "2MiB", "files_per_worker": 10})),
        ("mdtest-hard-write", json!({"block_size": "2MiB", "segments": 10, "files_per_worker": 20_000})),
    ] {
        let mut all = json!({"workers": 2, "phase_deadline": "1m", "cache": "warm"});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let error = tried(mounted.0.path(), &all).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOSPC), "{error}");
        assert!(error.message.starts_with(&format!("{phase}: ")), "{error}");
        assert!(error.hint.is_some_and(|hint| hint.contains("--block-size")));
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let target = memory();
    let parse = |options: Value| {
        let mut all = json!({"workload": "io500", "storage": "posix"});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        Trial::parse(&all.to_string())
    };
    for (options, word) in [
        (json!({"workers": 0}), "workers"),
        (json!({"phase_deadline": 0}), "phase_deadline"),
        (json!({"files_per_worker": 0}), "files_per_worker"),
        (json!({"files_per_worker": 5_000_000_000_u64}), "items"),
        (json!({"segments": 0}), "segments"),
        (json!({"block_size": "3MiB"}), "block_size"),
        (json!({"transfer_size": 1000, "block_size": 1000}), "transfer_size"),
        (json!({"file_size": 1}), "file_size"),
    ] {
        let error = parse(options).unwrap_err();
        assert!(error.kind == Kind::Usage && error.to_string().contains(word), "{error}");
    }
    let run = |storage: &str, direct: bool| {
        let mut all = json!({"workload": "io500", "storage": storage, "target": target.path()});
        if storage != "memory" {
            all["direct"] = json!(direct);
        }
        Engine::new().run(&Trial::parse(&all.to_string()).unwrap(), &Control::default()).unwrap_err()
    };
    assert!(run("memory", false).hint.is_some_and(|hint| hint.contains("--storage posix")));
    let on_disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let direct = json!({"workload": "io500", "storage": "posix", "direct": true, "target": on_disk.path()});
    let error = Engine::new().run(&Trial::parse(&direct.to_string()).unwrap(), &Control::default()).unwrap_err();
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("--no-direct")), "{error}");
    std::fs::create_dir(target.path().join("savemark-io500")).unwrap();
    assert_eq!(run("posix", false).errno(), Some(libc::EEXIST));
    assert!(target.path().join("savemark-io500").exists(), "what is not ours stays");
}

#[test]
fn names_are_dropped_from_memory_or_the_trial_is_refused() {
    let target = memory();
    let mut options = small();
    options["names"] = json!("cold");
    match tried(target.path(), &options) {
        Ok(record) => assert_eq!(record["phases"][4]["cache"]["state"], "dropped"),
        Err(e) => assert!(e.kind == Kind::Refused && e.hint.is_some_and(|h| h.contains("--names warm")), "not root"),
    }
}

#[test]
fn a_cancelled_trial_removes_what_it_made() {
    let target = memory();
    let options = json!({"workers": 2, "phase_deadline": "1h", "block_size": "2MiB", "cache": "warm"});
    let (trial, control) = (trial(target.path(), &options), Control::default());
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| Engine::new().run(&trial, &control).map(drop));
        while !target.path().join("savemark-io500/data/mdtest-easy/0001/file.mdtest.1.10").exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        control.cancel();
        run.join().unwrap().unwrap_err()
    });
    assert_eq!(error.kind, Kind::Interrupted);
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
}
