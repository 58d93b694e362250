//! A directory of files: the storage that `posix` and `uring` are. They differ only in how they queue I/Os.

mod direct;
mod file;
mod lock;
mod plain;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{OFlags, statvfs};

use self::file::DirectoryFile;
use super::{Capabilities, File, Lock, NotPut, Queue, SMALL_BYTES, Storage, too_long};
use savemark_base::buffer::{ALIGN, Arena};
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::random::random;
use savemark_base::record::{Cache, Extents, PathTaken};
use savemark_host::{cache, extents, mount};

/// How a storage in a directory moves bytes: the one thing in which they differ.
pub trait Queueing: Send + Sync {
    /// Adds the storage's name and what it uses to the path taken.
    fn describe(&self, path: &mut PathTaken);
    /// Adds what it can do to what the directory can.
    fn capabilities(&self, of_directory: Capabilities) -> Capabilities {
        of_directory
    }
    /// As [`Storage::queue`].
    fn queue(&self, files: &[Arc<dyn File>], depth: u32, arena: &Arc<Arena>) -> Result<Box<dyn Queue>>;
}

/// An existing directory, opened for direct or buffered I/O.
pub struct Directory {
    queueing: Box<dyn Queueing>,
    path: PathBuf,
    direct: bool,
    /// Permission bits of the files that are made.
    mode: u32,
    alignment_bytes: u64,
    memory_alignment: usize,
    filesystem: String,
}

impl Directory {
    /// Opens `path`. Refuses `direct` where it would not mean anything, before a byte is written.
    pub fn open(path: &Path, direct: bool, queueing: Box<dyn Queueing>) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|e| Error::io("open the directory", path, e))?;
        if !metadata.is_dir() {
            return Err(Error::refused(format!("{} is not a directory", path.display()))
                .hint("give a directory; savemark never writes to a file or a raw device"));
        }
        let filesystem = mount::of(path).map(|m| m.filesystem).unwrap_or_default();
        if direct && matches!(filesystem.as_str(), "tmpfs" | "ramfs") {
            return Err(direct::refused(path, &filesystem));
        }
        let (path, mode) = (path.to_path_buf(), private(metadata.mode()));
        Self { queueing, path, direct, mode, alignment_bytes: 0, memory_alignment: 1, filesystem }.aligned()
    }

    /// Asks the filesystem what direct I/O needs (statx, Linux 6.1 and later); a page is always enough.
    fn aligned(mut self) -> Result<Self> {
        if self.direct {
            (self.alignment_bytes, self.memory_alignment) = self.probe()?.unwrap_or((ALIGN as u64, ALIGN));
            if self.alignment_bytes > ALIGN as u64 {
                return Err(Error::refused(format!(
                    "{} wants direct I/O aligned to {} bytes; savemark aligns to {ALIGN}",
                    self.path.display(),
                    self.alignment_bytes
                ))
                .hint("use --no-direct"));
            }
        }
        Ok(self)
    }

    /// The alignments of offsets and memory, of a file made for it. Where nothing can be made, a checkpoint can still be read:
    /// then of a file that is there.
    fn probe(&self) -> Result<Option<(u64, usize)>> {
        // Ranks on other nodes may have the same process id.
        let path = self.path.join(format!(".savemark-probe-{}{:020}", std::process::id(), clock::unix_now()));
        match self.create_file(&path) {
            Ok(_) => {
                let found = direct::alignment(&path);
                let _ = fs::remove_file(&path);
                Ok(found)
            }
            Err(e) if matches!(e.errno(), Some(libc::EROFS | libc::EACCES | libc::EPERM)) => {
                let Some(name) = self.list()?.into_iter().next() else { return Err(e) };
                self.open_existing(&name, false)?;
                Ok(direct::alignment(&self.path.join(name)))
            }
            Err(e) => Err(e),
        }
    }

    fn create_file(&self, path: &Path) -> Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(self.mode);
        self.open_with(options, "create", path)
    }

    fn open_existing(&self, name: &str, write: bool) -> Result<Arc<dyn File>> {
        let path = self.path.join(name);
        let mut options = fs::OpenOptions::new();
        options.read(true).write(write);
        Ok(Arc::new(DirectoryFile { file: self.open_with(options, "open", &path)?, path }))
    }

    fn open_with(&self, options: fs::OpenOptions, what: &str, path: &Path) -> Result<fs::File> {
        let flags = if self.direct { OFlags::DIRECT } else { OFlags::empty() };
        plain::open(options, flags, path).map_err(|e| match e.raw_os_error() {
            Some(libc::EINVAL) if self.direct => {
                // The kernel creates the file before it refuses the flag. One that we only open is never removed.
                if what == "create" {
                    let _ = fs::remove_file(path);
                }
                direct::refused(&self.path, &self.filesystem)
            }
            _ => Error::io(what, path, e),
        })
    }

    fn opened(&self, names: &[String]) -> Result<Vec<fs::File>> {
        names.iter().map(|name| self.opened_one(name)).collect()
    }

    /// A file to ask about, or to read by the page cache.
    fn opened_one(&self, name: &str) -> Result<fs::File> {
        let path = self.path.join(name);
        plain::open_for_reading(&path).map_err(|e| Error::io("open", &path, e))
    }

    /// Makes a new file of `bytes` beside the others, durably but for its name, and puts it in the place of `path`.
    fn write_and_rename(&self, bytes: &[u8], path: &Path) -> std::result::Result<(), NotPut> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!(".{:016x}.partial", random().map_err(NotPut::surely)?));
        let partial = PathBuf::from(partial);
        let wrong = |e| Error::io("write", path, e);
        // A name of its own, and new: nobody can have put a link there.
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(self.mode);
        let mut file = plain::open(options, OFlags::empty(), &partial).map_err(|e| NotPut::surely(wrong(e)))?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let renamed = match written {
            Err(e) => Err(NotPut::surely(wrong(e))),
            // Over a network it may have happened, and the answer been lost.
            Ok(()) => fs::rename(&partial, path).map_err(|e| NotPut::perhaps(wrong(e))),
        };
        renamed.inspect_err(|_| drop(fs::remove_file(&partial)))
    }
}

impl Storage for Directory {
    fn path_taken(&self) -> PathTaken {
        let mut taken = PathTaken {
            direct: self.direct,
            alignment_bytes: self.alignment_bytes,
            filesystem: self.filesystem.clone(),
            ..Default::default()
        };
        self.queueing.describe(&mut taken);
        taken
    }

    /// Memory filesystems lose everything with the power.
    fn capabilities(&self) -> Capabilities {
        let durable = !matches!(self.filesystem.as_str(), "tmpfs" | "ramfs");
        self.queueing.capabilities(Capabilities {
            durable,
            memory_alignment: self.memory_alignment,
            ..Default::default()
        })
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.path)
    }

    /// Room for an ordinary user.
    fn free_bytes(&self) -> Result<Option<u64>> {
        let stat = statvfs(&self.path).map_err(|e| Error::io("ask for the free space of", &self.path, e))?;
        Ok(Some(stat.f_bavail * stat.f_frsize))
    }

    fn queue(&self, files: &[Arc<dyn File>], depth: u32, arena: &Arc<Arena>) -> Result<Box<dyn Queue>> {
        self.queueing.queue(files, depth, arena)
    }

    /// Creates `name`, empty.
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let path = self.path.join(name);
        Ok(Arc::new(DirectoryFile { file: self.create_file(&path)?, path }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_existing(name, false)
    }

    fn open_for_writing(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open_existing(name, true)
    }

    /// Temporary file, fsync, rename, fsync of the directory.
    fn put(&self, name: &str, bytes: &[u8]) -> std::result::Result<(), NotPut> {
        self.write_and_rename(bytes, &self.path.join(name))?;
        self.sync().map_err(NotPut::perhaps)
    }

    /// The whole of `name`, if it exists.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path.join(name);
        let mut bytes = Vec::new();
        let read = |file: fs::File| match file.metadata()?.len() {
            long if long > SMALL_BYTES => Ok(long),
            _ => file.take(SMALL_BYTES + 1).read_to_end(&mut bytes).map(|read| read as u64),
        };
        match plain::open_for_reading(&path).and_then(read) {
            Ok(long) if long > SMALL_BYTES => Err(too_long(&path, long)),
            Ok(_) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", &path, e)),
        }
    }

    /// Names of the regular files here, sorted.
    fn list(&self) -> Result<Vec<String>> {
        let wrong = |e| Error::io("list", &self.path, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            if entry.file_type().map_err(wrong)?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Removes `name` if it is there.
    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &path, e)),
            _ => Ok(()),
        }
    }

    /// fsync of the directory.
    fn sync(&self) -> Result<()> {
        let synced = plain::open_directory(&self.path).and_then(|directory| directory.sync_all());
        synced.map_err(|e| Error::io("fsync the directory", &self.path, e))
    }

    fn lock(&self) -> Result<Box<dyn Lock>> {
        lock::take(&self.path)
    }

    /// Writes back and drops the clean pages of `names`.
    fn evict(&self, names: &[String]) -> Result<()> {
        // One at a time: there may be more than a process may open.
        names.iter().try_for_each(|name| {
            let evicted = cache::evict(self.opened_one(name)?.as_fd());
            evicted.map_err(|e| Error::io("drop the cache of", &self.path.join(name), e))
        })
    }

    /// Pages of `names` in the page cache.
    fn residency(&self, names: &[String]) -> Result<Cache> {
        Ok(cache::residency(&self.opened(names)?))
    }

    fn extents(&self, names: &[String]) -> Result<Option<Extents>> {
        Ok(Some(extents::of(&self.opened(names)?)))
    }

    /// Both of files that are opened once.
    fn look(&self, names: &[String]) -> Result<(Cache, Option<Extents>)> {
        let files = self.opened(names)?;
        Ok((cache::residency(&files), Some(extents::of(&files))))
    }
}

/// The mode of files in a directory of this one: its owner's alone, and its group's where the directory says with its
/// set-group-ID bit that what is in it belongs to the group.
fn private(directory: u32) -> u32 {
    let is_shared = directory & libc::S_ISGID != 0;
    0o600 | if is_shared { directory & 0o060 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posix::{self, PosixOptions};
    use savemark_testing::{disk, missing};

    /// ramfs refuses O_DIRECT when the file has been made already.
    #[test]
    fn a_refused_o_direct_leaves_what_was_there_and_nothing_new() {
        let place = disk();
        let mounted = std::process::Command::new("mount").args(["-t", "ramfs", "none"]).arg(place.path()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            return missing("mount", "ramfs cannot be mounted here");
        }
        let mut directory = posix::open(&PosixOptions { direct: false }, place.path()).unwrap();
        directory.direct = true;
        fs::write(place.path().join("old"), b"kept").unwrap();
        let refused = [directory.open("old"), directory.open_for_writing("old"), directory.create("new")];
        let listed = directory.list();
        let _ = std::process::Command::new("umount").arg(place.path()).status();
        for error in refused.map(|result| result.map(drop).unwrap_err().to_string()) {
            assert!(error.contains("refuses O_DIRECT"), "{error}");
        }
        assert_eq!(listed.unwrap(), ["old"]);
    }
}
