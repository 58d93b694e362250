//! What the tests of several crates share.
#![allow(missing_docs)] // only tests read it

pub mod gpu;
pub mod guarded;
pub mod mutate;
pub mod s3;
pub mod wire;

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
