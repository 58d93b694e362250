//! Who really answers when this process calls the C library: a preloaded library may have taken a call's place.
//!
//! Asked of the dynamic linker and of the kernel, not of `LD_PRELOAD`: a library can come in by other ways.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::LazyLock;

use crate::kernel::read;
use savemark_base::record::Interposed;

/// Calls that decide whether bytes are durable, whether the cache is cold, where bytes go, and what the time is.
const FUNCTIONS: [&str; 15] = [
    "fsync",
    "fdatasync",
    "sync_file_range",
    "msync",
    "posix_fadvise",
    "posix_fadvise64",
    "open",
    "open64",
    "read",
    "write",
    "pread64",
    "pwrite64",
    "syscall",
    "clock_gettime",
    "gettimeofday",
];

/// Libraries known for making such calls do nothing, or lie; mapped is enough to be named.
const KNOWN: [&str; 5] = ["eatmydata", "nofadvise", "nosync", "faketime", "libfsync"];

/// The calls that another library than the C library answers, and the libraries that are known to cheat.
pub fn find() -> Vec<Interposed> {
    // A library that is loaded later comes after those that answered when the process started.
    static FOUND: LazyLock<Vec<Interposed>> = LazyLock::new(answered_by_others);
    let mut found = FOUND.clone();
    for library in known(&read("/proc/self/maps").unwrap_or_default()) {
        if found.iter().all(|each| each.library != library) {
            found.push(Interposed { function: "calls unknown".into(), library });
        }
    }
    found
}

fn answered_by_others() -> Vec<Interposed> {
    FUNCTIONS
        .into_iter()
        .filter_map(|function| Some((function, provider(function)?)))
        .filter(|(_, library)| !is_c_library(library))
        .map(|(function, library)| Interposed { function: function.into(), library })
        .collect()
}

/// Whether a debugger or strace stops this process at its calls.
pub fn traced() -> Option<bool> {
    let status = read("/proc/self/status")?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    Some(tracer.trim() != "0")
}

/// The file of the first library that provides `function`; `None` where nothing does (a static program).
fn provider(function: &str) -> Option<String> {
    let name = CString::new(function).ok()?;
    // SAFETY: the name is a C string; RTLD_DEFAULT searches what this process has loaded.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: Dl_info is plain pointers, for which zero is valid, and the address is one that dlsym gave.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let known = unsafe { libc::dladdr(address, &mut info) } != 0 && !info.dli_fname.is_null();
    // SAFETY: dladdr gave a C string that lives as long as the library is loaded.
    known.then(|| unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned())
}

/// glibc (its threads and vDSO too) and musl, by the names that their files have; a static program provides all itself.
fn is_c_library(file: &str) -> bool {
    let name = Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let own = std::env::current_exe().is_ok_and(|exe| exe.ends_with(&name));
    ["libc.so", "libc-", "libpthread", "librt", "ld-musl", "libc.musl", "linux-vdso", "ld-linux"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || own
}

/// Files of known cheats in `/proc/self/maps`, each once.
fn known(maps: &str) -> Vec<String> {
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let mut found: Vec<String> = files
        .filter(|file| {
            let name = file.rsplit('/').next().unwrap_or_default();
            name.contains(".so") && KNOWN.iter().any(|known| name.contains(known))
        })
        .map(str::to_string)
        .collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn here_the_c_library_answers() {
        assert_eq!(find(), []);
        assert_eq!(traced(), Some(false));
        assert!(provider("fsync").is_some_and(|file| is_c_library(&file)));
        assert_eq!(provider("no_such_function_anywhere"), None);
    }

    #[test]
    fn other_libraries_are_not_the_c_library() {
        for file in ["/usr/lib/x86_64-linux-gnu/libeatmydata.so.1", "/tmp/shim.so", "libdarshan.so"] {
            assert!(!is_c_library(file), "{file}");
        }
        for file in ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/ld-musl-x86_64.so.1", "/lib64/libc-2.31.so"] {
            assert!(is_c_library(file), "{file}");
        }
    }

    #[test]
    fn known_cheats_are_found_among_the_mapped_files() {
        let maps = "\
7f00-7f01 r--p 00000000 fe:00 1 /usr/lib/libeatmydata.so.1.3.0
7f01-7f02 r-xp 00001000 fe:00 1 /usr/lib/libeatmydata.so.1.3.0
7f02-7f03 r--p 00000000 fe:00 2 /home/eatmydata/libc.so.6
7f03-7f04 rw-p 00000000 00:00 0 [heap]
";
        assert_eq!(known(maps), ["/usr/lib/libeatmydata.so.1.3.0"]);
    }
}
