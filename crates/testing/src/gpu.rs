//! Makes the stand-in for NVIDIA's libraries and names it in the environment: they are loaded once per process, so this comes
//! before the first test asks for one.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the library, for files; `None` where there is no C compiler.
pub fn stand_in() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(make).as_ref()
}

/// The library.
#[allow(dead_code)] // not every test looks into it
pub fn library() -> Option<PathBuf> {
    stand_in().map(|folder| folder.join("libstandin.so"))
}

fn make() -> Option<PathBuf> {
    let folder = std::env::current_exe().unwrap().parent().unwrap().join(format!("gpu-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, library) = (folder.join("standin.c"), folder.join("libstandin.so"));
    std::fs::write(&source, include_str!("standin.c")).unwrap();
    let flags = ["-shared", "-fPIC", "-O1", "-pthread", "-o"];
    let made = Command::new("cc").args(flags).arg(&library).arg(&source).status();
    if !made.is_ok_and(|status| status.success()) {
        let required = std::env::var("SAVEMARK_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word == "cc"));
        assert!(!required, "SAVEMARK_REQUIRE asks for cc, and it cannot make a library");
        eprintln!("skipped: no C compiler");
        return None;
    }
    for variable in ["SAVEMARK_LIBCUDA", "SAVEMARK_LIBCUFILE", "SAVEMARK_LIBNVML"] {
        // SAFETY: every test comes here first, and they wait for each other in `get_or_init`.
        unsafe { std::env::set_var(variable, &library) };
    }
    Some(folder)
}
