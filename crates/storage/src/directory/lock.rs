//! Other savers are kept out by the kernel.

use std::fs;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::plain::open_directory;
use crate::Lock;
use savemark_base::error::{Error, Result};

/// flock on the directory itself: no lock file to leave behind, and the kernel releases it on `kill -9`.
pub fn take(path: &Path) -> Result<Box<dyn Lock>> {
    let directory = open_directory(path).map_err(|e| Error::io("open", path, e))?;
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Box::new(Held(directory))),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Error::refused(format!("another save into {} is under way", path.display()))
                .hint("wait for it, or save into another directory"))
        }
        Err(e) => Err(Error::io("lock", path, e)),
    }
}

struct Held(fs::File);
impl Lock for Held {}
impl Drop for Held {
    /// Closing the file is not enough: a process forked at this moment holds it too, until it executes its program.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
