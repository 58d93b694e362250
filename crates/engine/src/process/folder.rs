//! A folder for CRIU's sockets and logs: ours alone, removed unless there is something in it to read.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::error::{Error, Result};

/// Removed when dropped, unless it was kept.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    kept: AtomicBool,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Folder {
    /// A new one, in the folder for temporary files.
    pub fn new() -> Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// A new one in `place`.
    pub fn below(place: &Path) -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("savemark-criu-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path); // of a process of this number that was killed
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| Error::io("create the directory", &path, e))?;
        Ok(Self { path, kept: AtomicBool::new(false) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Somebody will want to read the logs in it.
    pub fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Relaxed) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
