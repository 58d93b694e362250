//! What is left when a save does not end: killed processes, full disks, forbidden system calls.
//!
//! A child is this test binary again, running the one test that acts as the child when its variable is set.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use savemark_base::buffer::Pool;
use savemark_base::payload::PayloadKind;
use savemark_base::{Error, Kind};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::GeneratedState;
use savemark_checkpoint::{Manifest, RestoreOptions, SaveOptions, restore, save};
use savemark_measure::control::Control;
use savemark_storage::Storage;
use savemark_storage::posix::PosixOptions;
use savemark_storage::uring::UringOptions;
use savemark_testing::only;

const CHILD: &str = "SAVEMARK_TEST_CHILD";

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn uring(target: &Path) -> Arc<dyn Storage> {
    savemark_storage::open(&savemark_storage::Options::Uring(UringOptions::default()), target).unwrap()
}

fn options(codec: CodecName) -> SaveOptions {
    SaveOptions { codec, level: None, streams: 2, chunk_bytes: 256 << 10, queue_depth: 2 }
}

/// The length of a generation's state tells which one it is.
fn generation(number: u64) -> GeneratedState {
    GeneratedState::new(PayloadKind::Random, number, BYTES + number)
}

const BYTES: u64 = 6 << 20;

fn save_to(storage: &dyn Storage, state: &GeneratedState, codec: CodecName) -> Result<Manifest, Error> {
    save(state, storage, &options(codec), &mut Pool::default(), &Control::default()).map(|(manifest, _)| manifest)
}

/// Which generation is there; panics unless it is whole and right.
fn restored_generation(storage: &dyn Storage) -> u64 {
    let manifest = savemark_checkpoint::restore::open(storage).expect("a checkpoint is always there");
    let number = manifest.state_bytes - BYTES;
    let options = RestoreOptions { queue_depth: 2, in_place: false };
    let result = restore(storage, &generation(number), &options, &mut Pool::default(), &Control::default());
    result.unwrap_or_else(|e| panic!("generation {number} does not restore: {e}"));
    number
}

fn child(test: &str, target: &Path) -> Child {
    only(module_path!(), test).env(CHILD, target).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn child_target() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// The child: saves one generation after the other until it is killed.
#[test]
fn child_that_saves_for_ever() {
    let Some(target) = child_target() else { return };
    let storage = uring(&target);
    let first = restored_generation(&*storage) + 1;
    for number in first.. {
        save_to(&*storage, &generation(number), CodecName::ALL[number as usize % 3]).unwrap();
    }
}

#[test]
fn two_hundred_kills_never_leave_a_checkpoint_that_is_wrong_or_half() {
    let target = disk();
    let storage = uring(target.path());
    save_to(&*storage, &generation(0), CodecName::None).unwrap();
    let (mut last, mut interrupted, mut random) = (0, 0, 0x9e37_79b9_7f4a_7c15u64);
    for kill in 0..200 {
        let mut process = child("child_that_saves_for_ever", target.path());
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(10_000 + random % 60_000));
        process.kill().unwrap();
        process.wait().unwrap();
        let found = restored_generation(&*storage);
        assert!(found >= last, "kill {kill}: generation {found} after {last}");
        last = found;
        let shards = storage.list().unwrap().iter().filter(|name| name.starts_with("shard-")).count();
        interrupted += usize::from(shards > 2);
    }
    assert!(interrupted >= 20, "only {interrupted} of 200 kills hit a save; the test does not test");
    assert!(last >= 20, "only {last} saves ended; the test does not test");
    // The next save sweeps up what the killed ones left.
    save_to(&*storage, &generation(last + 1), CodecName::None).unwrap();
    assert_eq!(storage.list().unwrap().len(), 3, "{:?}", storage.list());
    println!("{interrupted} of 200 kills hit a save in flight; {last} saves ended");
}

/// A filesystem of its own, unmounted whatever happens.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// `None`, with the reason, where this machine does not let us mount; fails there if `SAVEMARK_REQUIRE` has `mount`.
    fn ext4(mebibytes: u64) -> Option<Self> {
        let place = disk();
        let image = place.path().join("image");
        fs::File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        let at = place.path().join("at");
        fs::create_dir(&at).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status().is_ok_and(|s| s.success());
        let mounted = Mounted(place);
        let done =
            made && Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at).status().is_ok_and(|s| s.success());
        if !done {
            let required =
                std::env::var("SAVEMARK_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word == "mount"));
            assert!(!required, "SAVEMARK_REQUIRE asks for mount, and it does not work here");
            eprintln!("skipped: no right to mount a loop device");
            return None;
        }
        Some(mounted)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("at")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_disk_that_fills_up_in_the_middle_keeps_the_previous_checkpoint() {
    let Some(mounted) = Mounted::ext4(48) else { return };
    let target = mounted.path().join("checkpoint");
    fs::create_dir(&target).unwrap();
    let direct = savemark_storage::Options::Posix(PosixOptions { direct: true });
    for options in [savemark_storage::Options::Uring(UringOptions::default()), direct] {
        let storage = savemark_storage::open(&options, &target).unwrap();
        save_to(&*storage, &generation(1), CodecName::None).unwrap();
        let before = storage.list().unwrap();
        // zstd cannot say beforehand what it will need, so this one finds out while writing.
        let huge = GeneratedState::new(PayloadKind::Random, 2, 400 << 20);
        let error = save_to(&*storage, &huge, CodecName::Zstd).unwrap_err();
        assert_eq!((error.kind, error.errno()), (Kind::Failed, Some(libc::ENOSPC)), "{error}");
        assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("--size")), "{error:?}");
        assert_eq!(storage.list().unwrap(), before, "the shards of the failed save are gone");
        assert_eq!(restored_generation(&*storage), 1);
        let error = save_to(&*storage, &huge, CodecName::None).unwrap_err();
        assert!(error.to_string().contains("no room"), "{error}");
    }
}

#[test]
fn a_checkpoint_on_a_read_only_filesystem_restores() {
    let Some(mounted) = Mounted::ext4(64) else { return };
    let target = mounted.path().join("checkpoint");
    fs::create_dir(&target).unwrap();
    let direct = savemark_storage::Options::Posix(PosixOptions { direct: true });
    save_to(&*savemark_storage::open(&direct, &target).unwrap(), &generation(1), CodecName::None).unwrap();
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(mounted.path()).status();
    assert!(remounted.is_ok_and(|status| status.success()));
    for options in [savemark_storage::Options::Uring(UringOptions::default()), direct] {
        let storage = savemark_storage::open(&options, &target).unwrap();
        assert_eq!(restored_generation(&*storage), 1);
        let error = save_to(&*storage, &generation(2), CodecName::None).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EROFS), "{error}");
        assert_eq!(restored_generation(&*storage), 1);
    }
}

/// The child: forbids itself io_uring, as container runtimes do, and tries.
#[test]
fn child_without_io_uring() {
    let Some(target) = child_target() else { return };
    forbid(libc::SYS_io_uring_setup);
    let error = savemark_storage::open(&savemark_storage::Options::Uring(UringOptions::default()), &target).err();
    let told =
        error.map_or("opened".to_string(), |e| format!("{:?}|{e}|{}", e.kind, e.hint.as_deref().unwrap_or_default()));
    fs::write(target.join("told"), told).unwrap();
}

/// A seccomp filter that answers one system call with EPERM and lets all others pass.
fn forbid(call: libc::c_long) {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let jump =
        libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: 0, jf: 1, k: call as u32 };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        jump,
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a valid program; it concerns this process alone, which is a child made for it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

#[test]
fn io_uring_forbidden_by_seccomp_is_told_with_the_way_out() {
    let target = disk();
    let status = child("child_without_io_uring", target.path()).wait().unwrap();
    assert!(status.success());
    let told = fs::read_to_string(target.path().join("told")).unwrap();
    assert!(told.starts_with("Refused|") && told.contains("seccomp"), "{told}");
    assert!(told.contains("--storage posix"), "{told}");
}

/// The child: holds the lock of its directory until it is killed.
#[test]
fn child_that_holds_the_lock() {
    let Some(target) = child_target() else { return };
    let storage = uring(&target);
    let _lock = storage.lock().unwrap();
    fs::write(target.join("locked"), b"").unwrap();
    std::thread::sleep(Duration::from_secs(300));
}

#[test]
fn a_killed_saver_does_not_keep_others_out() {
    let target = disk();
    let mut process = child("child_that_holds_the_lock", target.path());
    let start = Instant::now();
    while !target.path().join("locked").exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "the child did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let storage = uring(target.path());
    assert_eq!(save_to(&*storage, &generation(1), CodecName::None).unwrap_err().kind, Kind::Refused);
    process.kill().unwrap();
    process.wait().unwrap();
    save_to(&*storage, &generation(1), CodecName::None).unwrap();
}

/// The child: may lock little memory, enough for a ring alone, and cannot override that.
#[test]
fn child_without_locked_memory() {
    let Some(target) = child_target() else { return };
    let little = libc::rlimit { rlim_cur: 4 << 20, rlim_max: 4 << 20 };
    let header = [0x2008_0522u32, 0]; // _LINUX_CAPABILITY_VERSION_3, this thread
    // SAFETY: plain system calls; they concern this thread of a child that was made for it.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &little), 0);
        assert_eq!(libc::syscall(libc::SYS_capset, header.as_ptr(), [0u32; 6].as_ptr()), 0);
    }
    let run = |fixed: &str| {
        let text = serde_json::json!({"workload": "checkpoint", "storage": "uring", "target": target, "size": "4MiB",
                                      "streams": 0, "chunk_size": "16MiB", "fixed_buffers": fixed});
        let trial = savemark_engine::trial::Trial::parse(&text.to_string()).unwrap();
        savemark_engine::run::Engine::new().run(&trial, &Control::default())
    };
    let path = run("auto").unwrap().path;
    let error = run("on").unwrap_err();
    let told = format!("{} {:?} | {error} {:?}", path.fixed_buffers, path.notes, error.hint);
    fs::write(target.join("told"), told).unwrap();
}

#[test]
fn without_locked_memory_the_record_says_that_buffers_are_not_fixed() {
    let target = disk();
    assert!(child("child_without_locked_memory", target.path()).wait().unwrap().success());
    let told = fs::read_to_string(target.path().join("told")).unwrap();
    let (auto, on) = told.split_once(" | ").unwrap();
    assert!(auto.starts_with("false") && auto.contains("ulimit -l"), "{told}");
    assert!(on.contains("cannot register") && on.contains("--fixed-buffers off"), "{told}");
}
