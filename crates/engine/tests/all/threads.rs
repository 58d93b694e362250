//! Threads that the system refuses: an error that says which limit to raise, and nobody waits for what never comes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_measure::control::Control;
use savemark_testing::only;

const ASKED: &str = "SAVEMARK_TEST_FEW_THREADS";
/// A user that nobody is, so that its threads are only ours.
const NOBODY_ELSE: u32 = 64_973;

/// In a process of its own: as a user that may have 24 threads.
#[test]
fn as_a_user_with_few_threads() {
    let Ok(trial) = std::env::var(ASKED) else { return };
    // SAFETY: plain calls with plain numbers; this process has no other use.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setuid(NOBODY_ELSE), 0);
        }
        let few = libc::rlimit { rlim_cur: 24, rlim_max: 24 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &few), 0);
    }
    let error = Engine::new().run(&Trial::parse(&trial).unwrap(), &Control::default()).unwrap_err();
    println!("{:?}: {error}; {}", error.kind, error.hint.as_deref().unwrap_or_default());
}

/// What the run of `trial` says.
fn told(trial: &str) -> String {
    let mut command = only(module_path!(), "as_a_user_with_few_threads");
    let mut child = command.env(ASKED, trial).stdout(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{trial}: still waits");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn threads_that_cannot_be_started_end_the_trial() {
    for trial in [
        r#"{"workload":"checkpoint","storage":"null","size":"64MiB","streams":64,"chunk_size":"64KiB"}"#,
        r#"{"workload":"sequential","storage":"memory","size":"4MiB","transfer_size":"4KiB","workers":64}"#,
        r#"{"workload":"codec","storage":"null","size":"4MiB","workers":64}"#,
    ] {
        let told = told(trial);
        let said = told.lines().find(|line| line.contains("threads")).unwrap_or_default();
        assert!(said.contains("of 64 threads could not be started"), "{trial}: {told}");
        assert!(said.contains("Failed: ") && said.contains("ulimit -u (now 24)"), "{trial}: {told}");
    }
}
