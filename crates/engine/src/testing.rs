//! What unit tests share.

#[path = "../tests/s3/mod.rs"]
#[allow(dead_code)] // the integration tests use the rest
pub mod s3;

#[path = "../tests/mutate/mod.rs"]
#[allow(dead_code)] // the same
pub mod mutate;

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
