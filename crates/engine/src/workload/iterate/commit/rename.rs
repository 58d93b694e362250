//! A new file each time, in place of the old one when it is durable: a reader sees the old or the new, whole.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::fsync;

use super::{Commit, create};
use crate::workload::iterate::Policy;
use crate::workload::iterate::file::Header;
use crate::workload::iterate::turn::Turn;
use savemark_base::error::{Error, Result};
use savemark_measure::worker::timed;

/// See the [module](self).
pub struct Rename {
    path: PathBuf,
    bytes: u64,
    directory: File,
    /// The file of the save under way.
    new: Mutex<Option<Arc<File>>>,
}

impl Rename {
    /// At `path`, of `bytes`.
    pub fn new(path: PathBuf, bytes: u64) -> Result<Self> {
        let directory = open_directory(&path)?;
        Ok(Self { path, bytes, directory, new: Mutex::default() })
    }
}

/// The directory of `path`, to be synced.
pub fn open_directory(path: &Path) -> Result<File> {
    let directory = path.parent().expect("a file in a directory");
    File::open(directory).map_err(|e| Error::io("open", directory, e))
}

/// Where the new file is until it is complete.
pub fn partial(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

impl Commit for Rename {
    fn save(&self, turn: &mut Turn) -> Result<()> {
        let partial = partial(&self.path);
        turn.alone(|turn| {
            let file = timed(&mut turn.spent.write_ns, || create(&partial, Policy::Rename, self.bytes))?;
            *self.new.lock().expect("no panic while held") = Some(Arc::new(file));
            Ok(())
        })?;
        let file = Arc::clone(self.new.lock().expect("no panic while held").as_ref().expect("just made"));
        let header = Some(Header { generation: turn.generation, digest: 0 });
        turn.write_parts(&file, &partial, header, |_| Ok(()))?;
        turn.alone(|turn| {
            turn.sync(&partial, || fsync(&file))?;
            let renamed = timed(&mut turn.spent.sync_ns, || std::fs::rename(&partial, &self.path));
            renamed.map_err(|e| Error::io("rename", &partial, e))?;
            turn.sync(&self.path, || fsync(&self.directory))
        })
    }
}
