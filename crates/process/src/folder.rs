//! A folder for CRIU's sockets and logs: of nobody else, and removed even if savemark is killed, then by the next one.
//!
//! A lock says that somebody is at work in it: the number of a process says nothing where containers share a directory. The
//! kernel drops it with its last holder, savemark or the guard (`guard.rs`) that ends the matter for it.

use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use tempfile::TempDir;

use savemark_base::error::{Error, Result};

const PREFIX: &str = "savemark-criu-";
const LOCK: &str = "lock";
/// What is worth reading after a failure.
const LOGS: [&str; 2] = ["log", "out"];

/// Removed when dropped; if its logs are to be read, by the next of its kind.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
    lock: File,
    kept: AtomicBool,
}

impl Folder {
    /// A new one, in the folder for temporary files.
    pub fn new() -> Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// A new one in `place`, where those of the dead are removed.
    pub fn below(place: &Path) -> Result<Self> {
        sweep(place);
        loop {
            let private = Permissions::from_mode(0o700);
            let made = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(place);
            let folder = made.map_err(|e| Error::io("create a directory in", place, e))?;
            let path = folder.path().join(LOCK);
            let lock = File::create_new(&path).map_err(|e| Error::io("create", &path, e))?;
            flock(&lock, FlockOperation::LockExclusive).map_err(|e| Error::io("lock", &path, e))?;
            // Another savemark may have found it unlocked, and swept it up: then once more.
            if path.exists() {
                return Ok(Self { folder, lock, kept: AtomicBool::new(false) });
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Somebody will want to read the logs in it.
    pub fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }
}

/// The lock, for a process that is to hold it too.
impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Relaxed) {
            return; // `TempDir` removes it
        }
        self.folder.disable_cleanup(true);
        let is_log = |path: &Path| path.extension().is_some_and(|end| LOGS.iter().any(|log| end == *log));
        for entry in fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            if !is_log(&path) && path.file_name().is_some_and(|name| name != LOCK) {
                let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            }
        }
    }
}

/// Removes those of ours in `place` that nobody is at work in.
fn sweep(place: &Path) {
    let found = fs::read_dir(place).into_iter().flatten().flatten();
    let named = found.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    for path in named.map(|entry| entry.path()) {
        if let Some(lock) = lock_of_the_dead(&path) {
            let _ = fs::remove_dir_all(&path);
            drop(lock); // until then nobody else takes it for its own
        }
    }
}

/// The lock of a folder that is ours and that nobody holds.
fn lock_of_the_dead(path: &PathBuf) -> Option<File> {
    let about = fs::symlink_metadata(path).ok()?;
    if !about.is_dir() || about.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = File::from(open(path.join(LOCK), flags, Mode::empty()).ok()?);
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(place: &Path) -> Vec<PathBuf> {
        fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn a_folder_is_private_and_goes_with_its_value() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (Folder::below(place.path()).unwrap(), Folder::below(place.path()).unwrap());
        assert_ne!(one.path(), two.path());
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o700);
        drop(two);
        assert_eq!(names(place.path()), [one.path()]);
        drop(one);
        assert!(names(place.path()).is_empty());
    }

    /// Containers that share the directory have processes of the same number.
    #[test]
    fn what_another_process_of_our_number_has_there_stays() {
        let place = tempfile::tempdir().unwrap();
        let before = place.path().join(format!("{PREFIX}{}-0", std::process::id()));
        fs::create_dir(&before).unwrap();
        fs::write(before.join("streamer-capture.sock"), "of a save under way").unwrap();
        for _ in 0..3 {
            drop(Folder::below(place.path()).unwrap());
        }
        assert!(before.join("streamer-capture.sock").exists());
    }

    #[test]
    fn what_the_killed_left_goes_and_what_a_guard_still_holds_stays() {
        let place = tempfile::tempdir().unwrap();
        let leave = |name: &str| {
            let path = place.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join("dump.sock"), "").unwrap();
            File::create(path.join(LOCK)).unwrap()
        };
        let (dead, guarded) = (leave("dead"), leave("guarded"));
        drop(dead);
        flock(&guarded, FlockOperation::LockExclusive).unwrap();
        std::os::unix::fs::symlink("/", place.path().join(format!("{PREFIX}link"))).unwrap();
        drop(Folder::below(place.path()).unwrap());
        let mut left = names(place.path());
        left.sort();
        assert_eq!(left, ["guarded", "link"].map(|name| place.path().join(format!("{PREFIX}{name}"))));
        drop(guarded);
        drop(Folder::below(place.path()).unwrap());
        assert_eq!(names(place.path()).len(), 1);
    }

    #[test]
    fn of_a_failure_the_logs_stay_until_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::below(place.path()).unwrap();
        let path = folder.path().to_path_buf();
        for name in ["dump.log", "dump.out", "streamer-capture.sock", "pid"] {
            fs::write(path.join(name), "").unwrap();
        }
        fs::create_dir(path.join("images")).unwrap();
        folder.keep();
        drop(folder);
        let mut left = names(&path);
        left.sort();
        assert_eq!(left, ["dump.log", "dump.out", LOCK].map(|name| path.join(name)));
        drop(Folder::below(place.path()).unwrap());
        assert!(names(place.path()).is_empty());
    }
}
