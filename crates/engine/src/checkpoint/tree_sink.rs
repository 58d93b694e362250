//! A directory that a checkpoint is restored into: all of it appears at once, or nothing does.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, statvfs, syncfs};

use super::direct;
use super::names;
use super::state::{Directory, Member, Sink};
use super::tree::parts;
use crate::error::{Error, Result};
use crate::measure::clock;

/// Above this many files one sync of the filesystem is cheaper than one of each file.
const SYNC_EACH: usize = 256;

/// Files below `DEST.partial-ID`, which becomes `DEST` when all are durable. Dropped before, it removes them.
#[derive(Debug)]
pub struct TreeSink {
    destination: PathBuf,
    partial: PathBuf,
    members: OnceLock<Vec<Member>>,
    directories: OnceLock<Vec<Directory>>,
    /// Tells a sweep that this restore is alive; `kill -9` releases it.
    lock: OnceLock<fs::File>,
}

impl TreeSink {
    /// Into `destination`, which does not exist or is empty.
    ///
    /// # Errors
    /// `Refused` if there is something already.
    pub fn new(destination: &Path) -> Result<Self> {
        match fs::read_dir(destination).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Ok(false) => return Err(occupied(destination, "is not empty")),
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                return Err(occupied(destination, "is not a directory"));
            }
            Err(e) => return Err(Error::io("look at", destination, e)),
        }
        let destination = std::path::absolute(destination).map_err(|e| Error::io("look at", destination, e))?;
        let name = destination.file_name().ok_or_else(|| occupied(&destination, "is the root"))?.to_owned();
        let mut partial = name;
        partial.push(format!("{PARTIAL}{:016x}-{:08x}", clock::unix_now(), std::process::id()));
        Ok(Self {
            partial: destination.with_file_name(partial),
            destination,
            members: OnceLock::new(),
            directories: OnceLock::new(),
            lock: OnceLock::new(),
        })
    }

    /// Sets the modes, makes everything durable and puts it in its place.
    pub fn finish(self) -> Result<()> {
        let members = self.members.get().map_or(&[][..], |m| m);
        for member in members {
            let path = self.partial.join(&member.name);
            let file = fs::File::open(&path).map_err(|e| Error::io("open", &path, e))?;
            let mode = fs::Permissions::from_mode(kept(member.mode));
            file.set_permissions(mode).map_err(|e| Error::io("set the mode of", &path, e))?;
            if members.len() <= SYNC_EACH {
                file.sync_all().map_err(|e| Error::io("fsync", &path, e))?;
            }
        }
        // Children first: a directory may lose the right to be entered.
        for directory in self.directories.get().into_iter().flatten().rev() {
            let path = self.partial.join(&directory.name);
            let synced = fs::File::open(&path).and_then(|opened| {
                opened.set_permissions(fs::Permissions::from_mode(kept(directory.mode)))?;
                opened.sync_all()
            });
            synced.map_err(|e| Error::io("finish the directory", &path, e))?;
        }
        self.appear(members.len() > SYNC_EACH)
    }

    fn appear(&self, sync_all: bool) -> Result<()> {
        let wrong = |what: &'static str| move |e: io::Error| Error::io(what, &self.destination, e);
        let root = fs::File::open(&self.partial).map_err(|e| Error::io("open", &self.partial, e))?;
        if sync_all {
            syncfs(&root).map_err(|e| Error::io("sync the filesystem of", &self.destination, e))?;
        }
        // As mkdir would make it, by the user's own umask; an empty directory that is there keeps its mode.
        let mode = fs::metadata(&self.destination).map_or(0o777 & !umask(), |m| m.permissions().mode());
        root.set_permissions(fs::Permissions::from_mode(mode)).map_err(wrong("set the mode of"))?;
        root.sync_all().map_err(wrong("fsync"))?;
        fs::rename(&self.partial, &self.destination).map_err(wrong("put in place"))?;
        let parent = self.destination.parent().unwrap_or(Path::new("/"));
        fs::File::open(parent).and_then(|d| d.sync_all()).map_err(|e| Error::io("fsync the directory", parent, e))
    }

    fn create_file(&self, member: &Member) -> Result<()> {
        let path = self.partial.join(&member.name);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(|e| Error::io("create", &path, e))?;
        if member.bytes == 0 {
            return Ok(());
        }
        match fallocate(&file, FallocateFlags::empty(), 0, member.bytes) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => {
                file.set_len(member.bytes).map_err(|e| Error::io("make room for", &path, e))
            }
            Err(e) => Err(Error::io("reserve room for", &path, e)),
        }
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|e| Error::io("create the directory", path, e))
    }
}

/// A program that runs as somebody else must not come out of a file that somebody handed over.
fn kept(mode: u32) -> u32 {
    mode & 0o777
}

/// Linux tells it without changing it; elsewhere the usual one.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
}

impl Sink for TreeSink {
    fn prepare(&self, members: &[Member], bytes: u64) -> Result<()> {
        let parent = self.destination.parent().unwrap_or(Path::new("/"));
        let room = statvfs(parent).map_err(|e| Error::io("ask for the free space of", parent, e))?;
        if room.f_bavail * room.f_frsize < bytes {
            let free = room.f_bavail * room.f_frsize;
            return Err(Error::failed(format!(
                "no room: {bytes} bytes to restore and {free} are free in {}",
                parent.display()
            ))
            .hint("free some space, or restore elsewhere"));
        }
        sweep(&self.destination, false)?;
        self.create_directory(&self.partial)?;
        let root = fs::File::open(&self.partial).map_err(|e| Error::io("open", &self.partial, e))?;
        flock(&root, FlockOperation::NonBlockingLockExclusive).map_err(|e| Error::io("lock", &self.partial, e))?;
        let _ = self.lock.set(root);
        let mut made = HashSet::new();
        for member in members {
            check(&member.name)?;
            let (directory, _) = member.name.rsplit_once('/').unwrap_or_default();
            if made.insert(directory) {
                self.create_directory(&self.partial.join(directory))?;
            }
            self.create_file(member)?;
        }
        let _ = self.members.set(members.to_vec());
        Ok(())
    }

    fn directories(&self, directories: &[Directory]) -> Result<()> {
        for directory in directories {
            check(&directory.name)?;
            self.create_directory(&self.partial.join(&directory.name))?;
        }
        let _ = self.directories.set(directories.to_vec());
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let members = self.members.get().ok_or_else(|| Error::failed("a sink is prepared first"))?;
        for part in parts(members, offset, bytes.len()) {
            let path = self.partial.join(&members[part.index].name);
            let data = &bytes[part.start..part.start + part.len];
            write(&path, data, part.offset).map_err(|e| Error::io("write", &path, e))?;
        }
        Ok(())
    }
}

/// What starts and ends on pages goes around the cache, the odd end of a file through it.
fn write(path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = direct::len(bytes, offset);
    if done > 0 && !direct::write(path, &bytes[..done], offset)? {
        done = 0;
    }
    if done == bytes.len() {
        return Ok(());
    }
    fs::OpenOptions::new().write(true).open(path)?.write_all_at(&bytes[done..], offset + done as u64)
}

impl Drop for TreeSink {
    fn drop(&mut self) {
        if self.lock.get().is_some() {
            let _ = fs::remove_dir_all(&self.partial); // after `finish` it is not there any more
        }
    }
}

/// The manifest has been checked already; this is the last door before the filesystem.
fn check(name: &str) -> Result<()> {
    match names::check(name).is_ok() {
        true => Ok(()),
        false => Err(Error::corrupt(format!("the member `{name}` would leave the directory it is restored into"))),
    }
}

fn occupied(path: &Path, why: &str) -> Error {
    Error::refused(format!("{} {why}; a restore never writes over files", path.display()))
        .hint("name a directory that does not exist yet, or an empty one")
}

const PARTIAL: &str = ".partial-";

/// Removes what killed restores into `destination` left beside it (or only tells it); a living one holds a lock.
pub fn sweep(destination: &Path, dry_run: bool) -> Result<Vec<PathBuf>> {
    let destination = std::path::absolute(destination).map_err(|e| Error::io("look at", destination, e))?;
    let (Some(parent), Some(name)) = (destination.parent(), destination.file_name().and_then(|n| n.to_str())) else {
        return Ok(Vec::new());
    };
    let mut swept = Vec::new();
    for entry in fs::read_dir(parent).map_err(|e| Error::io("list", parent, e))? {
        let entry = entry.map_err(|e| Error::io("list", parent, e))?;
        let is_ours = entry.file_name().to_str().and_then(|n| n.strip_prefix(name)).is_some_and(is_partial);
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        let opened = fs::File::open(&path).map_err(|e| Error::io("open", &path, e))?;
        if flock(&opened, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if !dry_run {
            fs::remove_dir_all(&path).map_err(|e| Error::io("remove", &path, e))?;
        }
        swept.push(path);
    }
    Ok(swept)
}

/// `.partial-<16 hex digits>-<8 hex digits>`
fn is_partial(ending: &str) -> bool {
    let hex = |part: &str, len| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts = ending.strip_prefix(PARTIAL).and_then(|id| id.split_once('-'));
    parts.is_some_and(|(time, process)| hex(time, 16) && hex(process, 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::state::lay_out;
    use crate::testing::disk;

    fn members(names: &[&str]) -> (Vec<Member>, u64) {
        lay_out(names.iter().map(|name| (name.to_string(), 10, 0o4640)))
    }

    #[test]
    fn a_tree_appears_whole_with_its_modes_and_without_setuid() {
        let place = disk();
        let sink = TreeSink::new(&place.path().join("out")).unwrap();
        let (members, bytes) = members(&["a", "d/e/b"]);
        sink.prepare(&members, bytes).unwrap();
        let closed = Directory { name: "d".into(), mode: 0o500 };
        sink.directories(&[closed, Directory { name: "d/none".into(), mode: 0o755 }]).unwrap();
        sink.write(0, &[&[1; 10][..], &[0; 4086], &[2; 10]].concat()).unwrap();
        assert!(!place.path().join("out").exists());
        sink.finish().unwrap();
        let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("out/a"), mode("out/d"), mode("out/d/none")), (0o640, 0o500, 0o755));
        assert_eq!(fs::read(place.path().join("out/d/e/b")).unwrap(), [2; 10]);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn names_that_escape_are_refused_and_a_failure_leaves_nothing() {
        for name in ["../a", "/etc/a", "a/../../b", "", "a//b", "./a"] {
            let place = disk();
            let sink = TreeSink::new(&place.path().join("out")).unwrap();
            let (members, bytes) = members(&["fine", name]);
            assert_eq!(sink.prepare(&members, bytes).unwrap_err().kind, crate::Kind::Corrupt, "{name}");
            drop(sink);
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{name}");
        }
    }

    #[test]
    fn what_is_there_is_never_written_over() {
        let place = disk();
        fs::write(place.path().join("notes"), b"mine").unwrap();
        for path in [place.path().to_path_buf(), place.path().join("notes")] {
            assert_eq!(TreeSink::new(&path).unwrap_err().kind, crate::Kind::Refused);
        }
        let out = place.path().join("out");
        fs::create_dir(&out).unwrap();
        assert!(TreeSink::new(&out).is_ok(), "an empty directory is a destination");
    }

    #[test]
    fn a_sweep_takes_what_killed_restores_left_and_nothing_else() {
        let place = disk();
        let out = place.path().join("out");
        for name in
            ["out.partial-0123456789abcdef-00000001", "out.partial-mine", "out2.partial-0123456789abcdef-00000001"]
        {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        let alive = TreeSink::new(&out).unwrap();
        let (members, bytes) = members(&["a"]);
        alive.prepare(&members, bytes).unwrap();
        assert_eq!(
            sweep(&out, false).unwrap(),
            Vec::<PathBuf>::new(),
            "prepare has swept, and the living one is locked"
        );
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
    }
}
