//! The private folder that a restore fills beside its destination, until it takes its place.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use savemark_base::clock;
use savemark_base::error::{Error, Result};

const PARTIAL: &str = ".partial-";
/// How often a folder is made anew because a sweep was faster than its lock.
const ATTEMPTS: usize = 100;

/// `DEST.partial-ID`, which nobody else may enter. Dropped, it is removed, unless it has taken its place.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    /// Tells a sweep that this restore is alive; `kill -9` releases it.
    _lock: fs::File,
}

impl Partial {
    /// Makes the folder of a restore into `destination`.
    ///
    /// # Errors
    /// `Refused` while another restore fills one.
    pub fn make(destination: &Path) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let mut name = destination.file_name().unwrap_or_default().to_owned();
            name.push(format!("{PARTIAL}{:016x}-{:08x}", clock::unix_now(), std::process::id()));
            let path = destination.with_file_name(name);
            // Fails where anything has this name, a link to elsewhere too.
            let made = fs::DirBuilder::new().mode(0o700).create(&path);
            made.map_err(|e| Error::io("create the directory", &path, e))?;
            if let Some(lock) = locked(&path)? {
                let partial = Self { path, _lock: lock };
                partial.check_alone(destination)?;
                return Ok(partial);
            }
        }
        Err(Error::failed(format!("the folder beside {} is always removed", destination.display()))
            .hint("something sweeps there all the time; restore elsewhere"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Of two restores that start at once the one with the smaller name goes on: both see both.
    fn check_alone(&self, destination: &Path) -> Result<()> {
        let Beside { alive, .. } = look(destination)?;
        match alive.iter().find(|path| **path < self.path) {
            None => Ok(()),
            Some(other) => Err(Error::refused(format!(
                "another restore into {} is under way: it fills {}",
                destination.display(),
                other.display()
            ))
            .hint("wait for it, or restore elsewhere")),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path); // when it has taken its place, nothing is there any more
    }
}

/// Removes what killed restores into `destination` left beside it (or only tells it); a living one holds a lock.
pub fn sweep(destination: &Path, dry_run: bool) -> Result<Vec<PathBuf>> {
    let Beside { left, .. } = look(destination)?;
    if !dry_run {
        for (path, _lock) in &left {
            fs::remove_dir_all(path).map_err(|e| Error::io("remove", path, e))?;
        }
    }
    Ok(left.into_iter().map(|(path, _)| path).collect())
}

/// The folders of restores into one destination.
#[derive(Default)]
struct Beside {
    /// Of killed ones, with their locks.
    left: Vec<(PathBuf, fs::File)>,
    /// Those that somebody fills.
    alive: Vec<PathBuf>,
}

fn look(destination: &Path) -> Result<Beside> {
    let mut found = Beside::default();
    let (Some(parent), Some(name)) = (destination.parent(), destination.file_name().and_then(|n| n.to_str())) else {
        return Ok(found);
    };
    for entry in fs::read_dir(parent).map_err(|e| Error::io("list", parent, e))? {
        let entry = entry.map_err(|e| Error::io("list", parent, e))?;
        if !entry.file_name().to_str().and_then(|n| n.strip_prefix(name)).is_some_and(is_partial) {
            continue;
        }
        // In a directory of many users somebody else may have made one.
        let is_ours = |found: fs::Metadata| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        if !entry.metadata().is_ok_and(is_ours) {
            continue;
        }
        match locked(&entry.path())? {
            Some(lock) => found.left.push((entry.path(), lock)),
            None => found.alive.push(entry.path()),
        }
    }
    Ok(found)
}

/// The lock of a folder, unless somebody else has it, or the folder is gone.
fn locked(path: &Path) -> Result<Option<fs::File>> {
    let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32;
    let opened = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| Error::io("open", path, e))?,
    };
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        done => done.map_err(|e| Error::io("lock", path, e))?,
    }
    let is_there = match (opened.metadata(), fs::symlink_metadata(path)) {
        (Ok(opened), Ok(there)) => (opened.dev(), opened.ino()) == (there.dev(), there.ino()),
        _ => false,
    };
    Ok(is_there.then_some(opened))
}

/// `.partial-<16 hex digits>-<8 hex digits>`
fn is_partial(ending: &str) -> bool {
    let hex = |part: &str, len| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts = ending.strip_prefix(PARTIAL).and_then(|id| id.split_once('-'));
    parts.is_some_and(|(time, process)| hex(time, 16) && hex(process, 8))
}
