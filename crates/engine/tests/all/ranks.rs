//! Ranks that run a trial together: here threads, each with an engine of its own, that meet in memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use savemark_base::{Error, Kind, Result};
use savemark_engine::run::{Engine, Moment};
use savemark_engine::trial::Trial;
use savemark_measure::control::Control;
use savemark_measure::ranks::Placement;
use serde_json::{Value, json};

/// Where all ranks meet, as Python lets them meet by MPI.
#[derive(Default)]
struct Place {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    round: usize,
    came: Vec<Option<Vec<u64>>>,
    failed: bool,
    /// Of the rounds that are over: the place, the numbers of all, whether any had failed.
    over: Vec<(String, Vec<u64>, bool)>,
}

impl Place {
    fn meet(
        &self,
        (rank, ranks): (usize, usize),
        at: &str,
        numbers: &[u64],
        failure: Option<&Error>,
    ) -> Result<Vec<u64>> {
        let mut state = self.state.lock().unwrap();
        state.came.resize(ranks, None);
        let round = state.round;
        assert!(state.came[rank].is_none(), "rank {rank} meets twice at {at}");
        state.came[rank] = Some(numbers.to_vec());
        state.failed |= failure.is_some();
        if state.came.iter().all(Option::is_some) {
            let all = state.came.drain(..).flatten().flatten().collect();
            let failed = state.failed;
            state.over.push((at.to_string(), all, failed));
            state.round += 1;
            self.changed.notify_all();
        }
        while state.round == round {
            let (next, waited) = self.changed.wait_timeout(state, Duration::from_secs(120)).unwrap();
            assert!(!waited.timed_out(), "rank {rank} waits alone at {at}");
            state = next;
        }
        let (_, numbers, failed) = &state.over[round];
        if *failed { Err(Error::interrupted()) } else { Ok(numbers.clone()) }
    }
}

fn placement(rank: usize, nodes: usize, per_node: usize) -> Placement {
    Placement { rank, ranks: nodes * per_node, first_here: rank / per_node * per_node, nodes, per_node }
}

type Around<'a> = dyn Fn(usize, Moment, &str) -> Result<()> + Sync + 'a;

/// All ranks at once; what each of them got, and where they met.
fn run_all(trial: &Trial, (nodes, per_node): (usize, usize), around: &Around) -> (Vec<Result<Value>>, Vec<String>) {
    let (place, ranks) = (Arc::new(Place::default()), nodes * per_node);
    let results = std::thread::scope(|scope| {
        let start = |rank: usize| {
            let place = Arc::clone(&place);
            scope.spawn(move || {
                let meet = move |at: &str, numbers: &[u64], failure: Option<&Error>| {
                    place.meet((rank, ranks), at, numbers, failure)
                };
                let control = Control::among(placement(rank, nodes, per_node), Box::new(meet));
                let mut around = |moment, phase: &str| around(rank, moment, phase);
                let record = Engine::new().run_around(trial, &control, &mut around);
                record.map(|record| serde_json::to_value(record).unwrap())
            })
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let met = place.state.lock().unwrap().over.iter().map(|(at, ..)| at.clone()).collect();
    (results, met)
}

fn trial(target: &Path, options: &Value) -> Trial {
    let own = options.get("storage").is_some();
    let mut trial =
        if own { json!({"target": target}) } else { json!({"storage": "posix", "direct": false, "target": target}) };
    trial.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    Trial::parse(&trial.to_string()).unwrap()
}

/// As `run_all`; nothing may stay.
fn run(target: &Path, ranks: (usize, usize), options: &Value, around: &Around) -> (Vec<Result<Value>>, Vec<String>) {
    let done = run_all(&trial(target, options), ranks, around);
    assert_eq!(std::fs::read_dir(target).unwrap().count(), 0, "{options} left something behind");
    done
}

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn nobody(_: usize, _: Moment, _: &str) -> Result<()> {
    Ok(())
}

fn phase<'a>(record: &'a Value, name: &str) -> &'a Value {
    record["phases"].as_array().unwrap().iter().find(|phase| phase["name"] == name).unwrap()
}

fn sum(records: &[Value], name: &str, field: &str) -> u64 {
    records.iter().map(|record| phase(record, name)[field].as_u64().unwrap()).sum()
}

/// The records of a trial in which all went well.
fn good(ranks: (usize, usize), options: Value) -> (Vec<Value>, Vec<String>) {
    let (results, met) = run(disk().path(), ranks, &options, &nobody);
    (results.into_iter().map(|result| result.unwrap_or_else(|e| panic!("{options}: {e}"))).collect(), met)
}

#[test]
fn geometry_goes_by_all_workers_and_every_rank_verifies() {
    for workload in ["shared_file", "file_per_process"] {
        for (ranks, more) in [
            ((1, 2), json!({})),
            ((1, 3), json!({"workers": 2, "random_offsets": true})),
            ((2, 2), json!({"workers": 2})),
            ((1, 4), json!({"reorder": 3})),
            ((1, 2), json!({"preallocate": true, "sync": "group"})),
        ] {
            let mut options = json!({"workload": workload, "block_size": "64KiB", "segments": 3,
                                     "transfer_size": "16KiB", "verify": true});
            options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let workers = more["workers"].as_u64().unwrap_or(1);
            let (records, met) = good(ranks, options);
            let whole = 3 * 65536 * workers * (ranks.0 * ranks.1) as u64;
            for name in ["write", "read"] {
                assert_eq!(sum(&records, name, "user_bytes"), whole, "{workload} {ranks:?} {more}");
                assert!(met.contains(&format!("the start of {name}")));
            }
            // Behind the last phase all part; they meet behind each other one.
            assert!(met.contains(&"the end of write".into()) && !met.contains(&"the end of read".into()), "{met:?}");
            assert!(records.iter().all(|record| phase(record, "read")["verified"] == "every block"));
            assert!(records.iter().all(|record| phase(record, "write")["histograms"]["latency"]["counts"].is_array()));
        }
    }
}

#[test]
fn a_deadline_is_that_of_the_fastest_of_all_ranks() {
    let options = json!({"workload": "shared_file", "block_size": "1MiB", "segments": 400, "transfer_size": "4KiB",
                         "sync": "none", "phase_deadline": "20ms", "wear_out": true});
    let (records, met) = good((1, 2), options);
    let [one, other] = [0, 1].map(|rank| phase(&records[rank], "write")["operations"].as_u64().unwrap());
    assert!(one == other && one > 0, "{one} and {other}");
    assert_eq!(met.iter().filter(|at| *at == "the deadline").count(), 2, "of write and of read");
    // Without wear-out each reads what another one wrote, however much that was.
    let options = json!({"workload": "file_per_process", "block_size": "1MiB", "segments": 400, "transfer_size": "4KiB",
                         "sync": "none", "phase_deadline": "20ms", "verify": true});
    let (records, met) = good((1, 2), options);
    assert!(met.contains(&"what was written".to_string()));
    let [wrote, read] = ["write", "read"].map(|name| phase(&records[0], name)["operations"].as_u64().unwrap());
    let other = phase(&records[1], "write")["operations"].as_u64().unwrap();
    assert!(wrote > 0 && read > 0 && read <= other, "read {read} of the {other} of the other");
}

#[test]
fn blocks_are_each_visited_once_by_all_ranks_together() {
    for more in [
        json!({"workload": "sequential", "operation": "write", "workers": 2, "verify": true}),
        json!({"workload": "sequential", "operation": "read", "files": 2, "workers": 2}),
        json!({"workload": "sequential", "operation": "read", "cache": "warm"}),
        json!({"workload": "random", "operation": "write", "verify": true, "duration": null}),
        json!({"workload": "strided", "operation": "read", "stride": "64KiB"}),
        json!({"workload": "sequential", "operation": "read", "keep": false, "files": 1, "verify": true}),
    ] {
        let mut options = json!({"size": "1MiB", "transfer_size": "16KiB", "queue_depth": 1});
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (records, _) = good((1, 3), options);
        let workers = 3 * more["workers"].as_u64().unwrap_or(1);
        let files = more["files"].as_u64().map_or(1, |files| files * workers);
        let name = more["operation"].as_str().unwrap();
        assert_eq!(sum(&records, name, "operations"), 64 * files, "{more}");
        let prepared = |record: &Value| record["phases"][0]["name"] == "prepare";
        let laid_out: u64 =
            records.iter().filter(|r| prepared(r)).map(|r| r["phases"][0]["user_bytes"].as_u64().unwrap()).sum();
        let needed = if name == "read" || more["workload"] == "random" { files << 20 } else { 0 };
        assert_eq!(laid_out, needed, "{more}");
    }
}

#[test]
fn kept_files_are_made_once_and_found_by_all_ranks() {
    let target = disk();
    let options = json!({"workload": "random", "operation": "read", "size": "1MiB", "operations": 10, "duration": null,
                         "keep": true, "files": 1});
    let phases = |_| {
        let (results, _) = run_all(&trial(target.path(), &options), (1, 2), &nobody);
        results.into_iter().map(|result| result.unwrap()["phases"].as_array().unwrap().len()).collect::<Vec<_>>()
    };
    let made: Vec<_> = (0..2).map(phases).collect();
    assert_eq!(made, [[2, 2], [1, 1]], "laid out by the first trial alone");
}

#[test]
fn metadata_is_shared_out_and_visited_by_the_next_node() {
    for (ranks, more) in [
        ((1, 2), json!({})),
        ((2, 2), json!({"neighbour": true, "file_size": 100})),
        ((1, 3), json!({"shared": true, "file_size": 3901, "workers": 2, "neighbour": true})),
        ((1, 2), json!({"kind": "directories"})),
        ((1, 2), json!({"phase_deadline": "20ms", "items": 1_000_000, "neighbour": true})),
    ] {
        let mut options = json!({"workload": "metadata", "items": 101});
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (records, _) = good(ranks, options);
        let created = sum(&records, "create", "operations");
        let limited = more["phase_deadline"].is_string();
        assert!(if limited { created > 0 } else { created == 101 }, "{created} {more}");
        for name in ["stat", "rename", "remove"] {
            assert_eq!(sum(&records, name, "operations"), created, "{name} {more}");
        }
    }
}

#[test]
fn each_rank_saves_a_part_of_the_state_in_a_folder_of_its_own() {
    let target = disk();
    let seen = Mutex::new(Vec::new());
    let around = |rank: usize, moment: Moment, phase: &str| {
        if moment == Moment::After && phase == "save" {
            let folder = target.path().join(format!("rank-{rank:05}"));
            let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let shards = files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("shard-"));
            // One stream may take all chunks, and leave the other's shard empty.
            let full = shards.map(|path| std::fs::read(path).unwrap()).filter(|shard| !shard.is_empty());
            seen.lock().unwrap().extend(full.map(|shard| (rank, shard)));
        }
        Ok(())
    };
    let options = json!({"workload": "checkpoint", "size": "3MiB", "streams": 2, "codec": "lz4", "cache": "warm"});
    let (results, met) = run(target.path(), (1, 2), &options, &around);
    let records: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.iter().map(|(rank, _)| rank).collect::<BTreeSet<_>>().len(), 2, "both ranks have saved");
    assert_eq!(seen.iter().map(|(_, shard)| shard).collect::<BTreeSet<_>>().len(), seen.len(), "no two are alike");
    for name in ["save", "restore"] {
        assert_eq!(sum(&records, name, "user_bytes"), 3 << 20);
        assert_eq!(met.iter().filter(|at| **at == format!("the start of {name}")).count(), 1, "{met:?}");
    }
    let (records, _) = good((1, 2), json!({"workload": "codec", "size": "4MiB", "storage": "null"}));
    assert_eq!(sum(&records, "encode", "user_bytes"), 4 << 20);
}

#[test]
fn a_rank_that_fails_ends_the_trial_for_all() {
    for (fails, moment, name) in [
        (0, Moment::Before, "write"),
        (1, Moment::Before, "write"),
        (2, Moment::After, "write"),
        (1, Moment::Before, "read"),
        (1, Moment::After, "read"),
    ] {
        let around = |rank: usize, now: Moment, phase: &str| match (rank, now, phase) == (fails, moment, name) {
            true => Err(Error::failed("it broke")),
            false => Ok(()),
        };
        let options = json!({"workload": "file_per_process", "block_size": "64KiB", "segments": 1,
                             "transfer_size": "16KiB"});
        let target = disk();
        let (results, _) = run(target.path(), (1, 3), &options, &around);
        for (rank, result) in results.into_iter().enumerate() {
            let error = result.unwrap_err();
            let (kind, said) =
                if rank == fails { (Kind::Failed, "it broke") } else { (Kind::Interrupted, "interrupted") };
            assert!(error.kind == kind && error.to_string() == said, "rank {rank}: {error}");
        }
    }
}

#[test]
fn a_file_that_one_rank_cannot_make_leaves_nothing_of_the_others() {
    let target = disk();
    let taken = target.path().join("savemark-data-0001.bin");
    std::fs::write(&taken, b"not ours").unwrap();
    let options = json!({"workload": "file_per_process", "block_size": "64KiB", "segments": 1,
                         "transfer_size": "16KiB"});
    let (results, _) = run_all(&trial(target.path(), &options), (1, 2), &nobody);
    let kinds: Vec<_> = results.into_iter().map(|result| result.unwrap_err().kind).collect();
    assert_eq!(kinds, [Kind::Interrupted, Kind::Failed]);
    assert_eq!(std::fs::read(&taken).unwrap(), b"not ours");
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 1);
}

#[test]
fn what_ranks_cannot_share_is_refused_by_all() {
    for (options, word) in [
        (json!({"workload": "iterate"}), "one process"),
        (json!({"workload": "checkpoint", "state": "/etc"}), "state"),
        (json!({"workload": "checkpoint", "size": 1}), "size"),
        (json!({"workload": "shared_file", "storage": "memory"}), "memory"),
        (json!({"workload": "shared_file", "reorder": 2}), "reorder"),
        (json!({"workload": "sequential", "size": "16KiB", "transfer_size": "16KiB"}), "transfers"),
        (json!({"workload": "metadata", "items": 1}), "items"),
        (json!({"workload": "memcpy", "size": "4MiB", "storage": "null"}), "4MiB"),
    ] {
        let target = disk();
        let (results, _) = run(target.path(), (1, 2), &options, &nobody);
        let errors: Vec<_> = results.into_iter().map(Result::unwrap_err).collect();
        let own = errors.iter().filter(|error| error.kind == Kind::Usage && error.to_string().contains(word)).count();
        assert!(own > 0, "{options}: {errors:?}");
    }
}

#[test]
fn io500_is_one_run_of_all_ranks() {
    let options = json!({"workload": "io500", "workers": 2, "block_size": "4MiB", "segments": 9, "files_per_worker": 130,
                         "cache": "warm"});
    for ranks in [(1, 2), (2, 2)] {
        let (records, met) = good(ranks, options.clone());
        let workers = 2 * (ranks.0 * ranks.1) as u64;
        for name in ["ior-easy-write", "ior-easy-read"] {
            assert_eq!(sum(&records, name, "user_bytes"), workers * (4 << 20), "{name}");
        }
        for name in ["ior-hard-write", "ior-hard-read"] {
            assert_eq!(sum(&records, name, "user_bytes"), workers * 9 * 47_008, "{name}");
        }
        for name in ["mdtest-easy-write", "mdtest-easy-stat", "mdtest-hard-read", "mdtest-hard-delete"] {
            assert_eq!(sum(&records, name, "operations"), workers * 130, "{name}");
        }
        assert_eq!(sum(&records, "find", "operations"), workers + 1 + 2 * workers * 130);
        let names = (0..workers).flat_map(|w| (0..130).map(move |i| format!("file.mdtest.{w}.{i}")));
        let fitting = names.filter(|name| name.contains("01")).count();
        assert!(records.iter().all(|record| phase(record, "find")["found"] == fitting), "each knows of all");
        assert!(records.iter().all(|record| phase(record, "ior-hard-read")["verified"] == "every block"));
        let created = |record| phase(record, "ior-hard-write")["stages"][0].clone();
        assert!(records.iter().all(|record| created(record) == created(&records[0])), "all wait for the first");
        assert_eq!(met.iter().filter(|at| *at == "the deadline").count(), 4, "of the four writes");
    }
}

#[test]
fn a_rank_that_fails_in_io500_ends_it_for_all() {
    let options =
        json!({"workload": "io500", "block_size": "2MiB", "segments": 3, "files_per_worker": 20, "cache": "warm"});
    for (name, file) in [
        ("ior-easy-read", "ior-easy/file-0000.bin"),
        ("ior-hard-read", "ior-hard/file.bin"),
        ("mdtest-hard-read", "mdtest-hard/0000/file.mdtest.1.7"),
        ("find", "mdtest-hard/0000/file.mdtest.1.7"),
    ] {
        let target = disk();
        let path = target.path().join("savemark-io500/data").join(file);
        let act = |rank: usize, moment: Moment, phase: &str| {
            if rank == 0 && moment == Moment::Before && phase == name {
                std::fs::remove_file(&path).unwrap();
            }
            Ok(())
        };
        let (results, _) = run(target.path(), (1, 2), &options, &act);
        let errors: Vec<_> = results.into_iter().map(|result| result.unwrap_err()).collect();
        assert!(errors.iter().any(|e| e.message.starts_with(&format!("{name}: "))), "{name}: {errors:?}");
    }
}
