//! What the tests of several crates share.
#![allow(missing_docs)] // only tests read it

use std::process::Command;

pub mod gpu;
pub mod guarded;
pub mod mutate;
pub mod s3;
pub mod wire;

/// This program again, to run the test `name` of a module (`module_path!()`) and no other.
pub fn only(module: &str, name: &str) -> Command {
    let full = module.split_once("::").map_or(name.into(), |(_, inner)| format!("{inner}::{name}"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &full, "--nocapture", "--test-threads=1"]);
    command
}

/// Whether this process has no other test, whose memory or umask would be in the way. If not, one is started that has none, and
/// fails as this one.
pub fn alone(module: &str, name: &str) -> bool {
    const ALONE: &str = "SAVEMARK_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let ended = only(module, name).env(ALONE, "1").status().unwrap();
    assert!(ended.success(), "{name}, in a process of its own: {ended}");
    false
}

/// A fresh directory on a disk: /tmp may be memory, the build folder is not.
pub fn disk() -> tempfile::TempDir {
    let target = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    tempfile::Builder::new().prefix("savemark-test-").tempdir_in(target).unwrap()
}

/// Says why a test is skipped, or fails it where `SAVEMARK_REQUIRE` lists what is missing.
pub fn missing(peer: &str, why: &str) {
    let required = std::env::var("SAVEMARK_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word == peer));
    assert!(!required, "SAVEMARK_REQUIRE asks for {peer}, but {why}");
    eprintln!("skipped: {peer}: {why}");
}
