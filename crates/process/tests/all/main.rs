//! Programs that really run, saved with CRIU and brought back; and what is left of them when that does not end well.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use savemark_base::buffer::Pool;
use savemark_base::payload::PayloadKind;
use savemark_base::{Error, Kind as Why};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::{MANIFEST, RestoreOptions, SaveOptions};
use savemark_measure::control::Control;
use savemark_process::criu::Criu;
use savemark_process::program::{Kind, Program};
use savemark_process::{After, DumpOptions, Restored, tree};
use savemark_storage::Storage;
use savemark_storage::posix::PosixOptions;
use savemark_storage::uring::UringOptions;
use savemark_testing::{alone, only};

mod failing;
mod gpus;
mod killed;
mod messages;
mod odd;
mod peers;
mod stuck;
mod whole;
use failing::Failing;

const MIB: u64 = 1 << 20;
const CHILD: &str = "SAVEMARK_TEST_CHILD";

/// Whether CRIU works here; says why not, and fails where `SAVEMARK_REQUIRE` has `criu`.
fn criu() -> bool {
    let found = Criu::find().and_then(|criu| criu.check());
    let required = std::env::var("SAVEMARK_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word == "criu"));
    if let Err(why) = &found {
        assert!(!required, "SAVEMARK_REQUIRE asks for criu, but {why}");
        eprintln!("skipped: criu: {why}");
    }
    // Children of a program that was killed come to us, to be reaped.
    std::mem::forget(tree::adopt());
    found.is_ok()
}

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn uring(target: &Path) -> Arc<dyn Storage> {
    savemark_storage::open(&savemark_storage::Options::Uring(UringOptions::default()), target).unwrap()
}

fn options(codec: CodecName, streams: u32) -> SaveOptions {
    SaveOptions { codec, level: None, streams, chunk_bytes: 1 << 20, queue_depth: 2 }
}

fn start(kind: Kind, bytes: u64) -> Program {
    Program::start(kind, PayloadKind::Random, 7, bytes, &Control::default()).unwrap()
}

fn dump_of(pid: i32, after: After) -> DumpOptions {
    DumpOptions::new(pid, after)
}

fn save(
    storage: &dyn Storage,
    program: &Program,
    options: &SaveOptions,
) -> Result<savemark_base::record::Phase, Error> {
    let dump = dump_of(program.pid, After::Kill);
    savemark_process::save(storage, &dump, options, &mut Pool::default(), &Control::default()).map(|(_, phase)| phase)
}

fn restore(storage: &dyn Storage) -> Result<Restored, Error> {
    let options = RestoreOptions { queue_depth: 2, in_place: true };
    savemark_process::restore(storage, &options, &mut Pool::default(), &Control::default())
}

fn runs(program: &mut Program) {
    program.check(&Control::default(), "sum").unwrap();
}

/// It does not run: its counter stands still, or it is not there.
fn does_not_run(program: &Program) {
    let before = program.counter();
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(program.counter(), before, "it runs");
    assert!(!program.is_alive(), "a process is left: {:?}", tree::state(program.pid));
}

#[test]
fn a_program_of_each_kind_goes_on_with_its_memory_under_every_codec() {
    if !criu() {
        return;
    }
    let kinds = [Kind::Memory, Kind::Threads, Kind::Tree];
    for (index, codec) in CodecName::ALL.into_iter().enumerate() {
        let (place, streams) = (disk(), [0, 1, 4][index % 3]);
        let storage = uring(place.path());
        let kind = kinds[(index + index / 3) % 3];
        let mut program = start(kind, 9 * MIB + 123);
        runs(&mut program);
        let saved =
            save(&*storage, &program, &options(codec, streams)).unwrap_or_else(|e| panic!("{codec} {streams}: {e}"));
        does_not_run(&program);
        let restored = restore(&*storage).unwrap_or_else(|e| panic!("{codec} {streams}: {e}"));
        runs(&mut program);
        let names: Vec<_> = saved.stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["freeze", "dump", "transfer", "flush", "commit"]);
        let processes = if kind == Kind::Tree { 4 } else { 1 };
        let (dumped, rebuilt) = (saved.process.unwrap(), restored.phase.process.unwrap());
        assert_eq!((dumped.processes, restored.table.processes.len()), (processes, processes as usize));
        assert!(dumped.criu_cpu_ns > 0 && dumped.stats.frozen_ns.unwrap() > 0 && dumped.stats.pages.unwrap() > 2304);
        assert!(rebuilt.criu_cpu_ns > 0 && rebuilt.program_cpu_ns > 0 && rebuilt.stats.restore_ns.unwrap() > 0);
        assert_eq!(restored.phase.verified.as_deref(), Some("every chunk"));
    }
}

/// `SAVEMARK_TEST_PROCESS=4GiB` for a larger one.
#[test]
fn a_large_program_takes_no_more_memory_than_a_small_one() {
    if !alone(module_path!(), "a_large_program_takes_no_more_memory_than_a_small_one") || !criu() {
        return;
    }
    let text = std::env::var("SAVEMARK_TEST_PROCESS").unwrap_or("256MiB".into());
    let bytes = text.parse::<savemark_base::size::Size>().unwrap().0;
    let place = disk();
    let mut program = start(Kind::Tree, bytes);
    let peak = |reset: bool| {
        if reset {
            fs::write("/proc/self/clear_refs", "5").unwrap();
        }
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    };
    let before = peak(true);
    let storage = uring(place.path());
    let saved = save(&*storage, &program, &options(CodecName::None, 4)).unwrap();
    storage.evict(&storage.list().unwrap()).unwrap();
    restore(&*storage).unwrap();
    let used = peak(false) - before;
    runs(&mut program);
    assert!(saved.user_bytes > bytes);
    assert!(used < 160 * MIB, "{} MiB for {text}", used / MIB);
}

#[test]
fn a_program_that_is_to_run_on_does_and_its_numbers_are_refused_to_its_copy() {
    if !criu() {
        return;
    }
    let place = disk();
    let storage = uring(place.path());
    let mut program = start(Kind::Tree, 4 * MIB);
    let dump = dump_of(program.pid, After::Run);
    let save = |options: SaveOptions| {
        savemark_process::save(&*storage, &dump, &options, &mut Pool::default(), &Control::default())
    };
    save(options(CodecName::Zstd, 2)).unwrap();
    runs(&mut program);
    let error = restore(&*storage).unwrap_err();
    assert_eq!(error.kind, Why::Refused);
    assert!(error.message.contains(&program.pid.to_string()) && error.hint.unwrap().contains("unshare"));
    runs(&mut program);
    // What somebody had stopped stays stopped, in the original and in the copy.
    tree::signal(program.pid, rustix::process::Signal::STOP);
    save(options(CodecName::None, 4)).unwrap();
    assert_eq!(tree::state(program.pid), Some('T'));
    tree::Tree::of(program.pid).unwrap().kill().unwrap();
    let restored = restore(&*storage).unwrap();
    assert_eq!((tree::state(program.pid), restored.table.stopped), (Some('T'), vec![program.pid]));
    tree::signal(program.pid, rustix::process::Signal::CONT);
    runs(&mut program);
}

#[test]
fn a_storage_that_dies_at_any_point_costs_the_program_nothing() {
    if !criu() {
        return;
    }
    let points: u64 = std::env::var("SAVEMARK_TEST_POINTS").map_or(10, |text| text.parse().unwrap());
    let bytes = 12 * MIB;
    let place = disk();
    let mut program = start(Kind::Threads, bytes);
    let inner =
        savemark_storage::open(&savemark_storage::Options::Posix(PosixOptions::default()), place.path()).unwrap();
    let mut failed = 0;
    for point in 0..points {
        let codec = [CodecName::None, CodecName::Lz4][point as usize % 2];
        let storage = Failing::new(Arc::clone(&inner), bytes * point / points * 11 / 10);
        let error = save(&storage, &program, &options(codec, [0, 2, 4][point as usize % 3])).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOSPC), "{error}");
        failed += 1;
        runs(&mut program);
        assert!(inner.get(MANIFEST).unwrap().is_none());
        assert!(inner.list().unwrap().is_empty(), "{:?}", inner.list());
    }
    assert_eq!(failed, points);
    // The last of its I/Os: the manifest itself.
    let storage = Failing::new(Arc::clone(&inner), u64::MAX).without_manifest();
    save(&storage, &program, &options(CodecName::None, 2)).unwrap_err();
    runs(&mut program);
    save(&*inner, &program, &options(CodecName::None, 2)).unwrap();
    does_not_run(&program);
    restore(&*inner).unwrap();
    runs(&mut program);
}

#[test]
fn no_flipped_bit_and_no_missing_end_of_any_file_lets_a_wrong_program_run() {
    if !criu() {
        return;
    }
    let rounds: u64 = std::env::var("SAVEMARK_TEST_POINTS").map_or(2, |text| text.parse().unwrap());
    let place = disk();
    let storage = uring(place.path());
    let mut program = start(Kind::Tree, 6 * MIB);
    save(&*storage, &program, &options(CodecName::None, 3)).unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for name in storage.list().unwrap() {
        let path = place.path().join(&name);
        let good = fs::read(&path).unwrap();
        for round in 0..rounds {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 20) % good.len() as u64;
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            if round % 2 == 0 {
                file.write_all_at(&[good[at as usize] ^ 1 << (random >> 16 & 7)], at).unwrap();
            } else {
                file.set_len(at).unwrap();
            }
            let error = restore(&*storage).err().unwrap_or_else(|| panic!("{name} at {at}: it was restored"));
            assert_eq!(error.kind, Why::Corrupt, "{name} at {at}: {error}");
            does_not_run(&program);
            fs::write(&path, &good).unwrap();
        }
    }
    restore(&*storage).unwrap();
    runs(&mut program);
}

#[test]
fn who_is_interrupted_leaves_the_program_running() {
    if !criu() {
        return;
    }
    let place = disk();
    let storage = uring(place.path());
    let mut program = start(Kind::Tree, 24 * MIB);
    let mut interrupted = 0;
    for wait_ms in [20, 60, 120, 180] {
        let control = Control::default();
        let saved = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(wait_ms));
                control.cancel();
            });
            let dump = dump_of(program.pid, After::Run);
            savemark_process::save(&*storage, &dump, &options(CodecName::None, 3), &mut Pool::default(), &control)
        });
        if let Err(error) = saved {
            assert_eq!(error.kind, Why::Interrupted, "{error}");
            interrupted += 1;
        }
        runs(&mut program);
    }
    assert!(interrupted > 0, "no save was interrupted; the test does not test");
}

/// The child: saves the process, or restores the checkpoint, that its variable names.
#[test]
fn child_that_is_killed() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let (pid, target) = text.split_once(' ').unwrap();
    let storage = uring(Path::new(target));
    if pid == "restore" {
        restore(&*storage).map(drop).unwrap();
    } else {
        let dump = dump_of(pid.parse().unwrap(), After::Kill);
        savemark_process::save(
            &*storage,
            &dump,
            &options(CodecName::None, 2),
            &mut Pool::default(),
            &Control::default(),
        )
        .unwrap();
    }
}

fn child(what: &str, target: &Path) -> Child {
    only(module_path!(), "child_that_is_killed")
        .env(CHILD, format!("{what} {}", target.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills the child after a while that is spread over `most`; returns whether it was still at work.
fn kill_after(mut child: Child, turn: u64, turns: u64, most: Duration) -> bool {
    std::thread::sleep(most * turn as u32 / turns as u32);
    let at_work = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    at_work
}

fn within(most: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < most {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn killed_savers_never_lose_the_program() {
    if !criu() {
        return;
    }
    let turns: u64 = std::env::var("SAVEMARK_TEST_POINTS").map_or(12, |text| text.parse().unwrap());
    let place = disk();
    let storage = uring(place.path());
    let mut program = start(Kind::Tree, 24 * MIB);
    let whole = Instant::now();
    assert!(child(&program.pid.to_string(), place.path()).wait().unwrap().success());
    let whole = whole.elapsed();
    restore(&*storage).unwrap();
    let mut hits = 0;
    for turn in 0..turns {
        runs(&mut program);
        let processes = tree::pids(program.pid);
        hits += u64::from(kill_after(child(&program.pid.to_string(), place.path()), turn, turns, whole));
        let goes_on = |program: &Program| {
            let before = program.counter();
            std::thread::sleep(Duration::from_millis(20));
            program.counter() != before
        };
        // Killed after its checkpoint was complete, it comes from there; else it never went.
        let settled = within(Duration::from_secs(60), || goes_on(&program) || !program.is_alive());
        assert!(settled, "turn {turn}: the program stands still: {:?}", tree::state(program.pid));
        if !program.is_alive() {
            tree::wait_gone(&processes, Duration::from_secs(60)).unwrap();
            restore(&*storage).unwrap_or_else(|e| panic!("turn {turn}: {e}"));
        }
    }
    runs(&mut program);
    assert!(hits * 4 >= turns, "only {hits} of {turns} kills hit a save; the test does not test");
}

#[test]
fn killed_restorers_leave_nothing_or_a_program_that_runs() {
    if !criu() {
        return;
    }
    let turns: u64 = std::env::var("SAVEMARK_TEST_POINTS").map_or(8, |text| text.parse().unwrap());
    let place = disk();
    let storage = uring(place.path());
    let mut program = start(Kind::Tree, 24 * MIB);
    save(&*storage, &program, &options(CodecName::None, 2)).unwrap();
    let whole = Instant::now();
    assert!(child("restore", place.path()).wait().unwrap().success());
    let whole = whole.elapsed();
    runs(&mut program);
    let mut hits = 0;
    for turn in 0..turns {
        tree::Tree::of(program.pid).unwrap().kill().unwrap();
        hits += u64::from(kill_after(child("restore", place.path()), turn, turns, whole));
        // CRIU may take a moment to see that nobody serves it any more.
        let settled = || match tree::state(program.pid) {
            None | Some('Z') => Some(false),
            Some('R' | 'S') => Some(true),
            _ => None,
        };
        let mut last = (None, Instant::now());
        let calm = within(Duration::from_secs(60), || {
            let now = settled();
            if now != last.0 {
                last = (now, Instant::now());
            }
            now.is_some() && last.1.elapsed() > Duration::from_millis(300)
        });
        assert!(calm, "turn {turn}: something half is left: {:?}", tree::state(program.pid));
        program.forget();
        if !program.is_alive() {
            restore(&*storage).unwrap_or_else(|e| panic!("turn {turn}: {e}"));
        }
        runs(&mut program);
    }
    assert!(hits * 4 >= turns, "only {hits} of {turns} kills hit a restore; the test does not test");
}
