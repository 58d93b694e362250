//! One file, overwritten: with no sync, with one after each write, or with one for all between two barriers.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use rustix::fs::{fdatasync, fsync};
use rustix::io::Errno;

use super::Commit;
use crate::workload::iterate::Policy;
use crate::workload::iterate::file::Header;
use crate::workload::iterate::turn::Turn;
use savemark_base::error::Result;

/// See the [module](self).
pub struct InPlace {
    file: File,
    path: PathBuf,
    policy: Policy,
}

impl InPlace {
    /// Over `file`.
    pub fn new(file: File, path: PathBuf, policy: Policy) -> Self {
        Self { file, path, policy }
    }

    /// Starts writing out the pages of the file and waits for it. Neither metadata nor the device's cache is flushed.
    fn write_out(&self) -> std::result::Result<(), Errno> {
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: a call with no memory of ours.
        match unsafe { libc::sync_file_range(self.file.as_raw_fd(), 0, 0, flags) } {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }
}

impl Commit for InPlace {
    fn save(&self, turn: &mut Turn) -> Result<()> {
        let header = Some(Header { generation: turn.generation, digest: 0 });
        let each = self.policy == Policy::FsyncEach;
        turn.write_parts(&self.file, &self.path, header, |turn| {
            if each { turn.sync(&self.path, || fsync(&self.file)) } else { Ok(()) }
        })?;
        match self.policy {
            Policy::FsyncLeader => turn.alone(|turn| turn.sync(&self.path, || fsync(&self.file))),
            Policy::FdatasyncLeader => turn.alone(|turn| turn.sync(&self.path, || fdatasync(&self.file))),
            Policy::SyncFileRange => turn.alone(|turn| turn.sync(&self.path, || self.write_out())),
            _ => Ok(()),
        }
    }
}
