//! A directory that a checkpoint is restored into: all of it appears at once, or nothing does.

mod partial;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, OFlags, StatxAttributes, StatxFlags, fallocate, statvfs, statx, syncfs,
};

use self::partial::Partial;
use super::direct;
use super::names;
use super::state::{Directory, Member, Sink};
use super::tree::parts;
use savemark_base::error::{Error, Result};

/// Above this many files one sync of the filesystem is cheaper than one of each file.
const SYNC_EACH: usize = 256;

/// Files in a private folder beside the destination, whose place it takes when all are durable.
#[derive(Debug)]
pub struct TreeSink {
    destination: PathBuf,
    partial: OnceLock<Partial>,
    members: OnceLock<Vec<Member>>,
    directories: OnceLock<Vec<Directory>>,
}

impl TreeSink {
    /// Into `destination`, which does not exist or is empty. A link to an empty directory stands for that directory.
    ///
    /// # Errors
    /// `Refused` if there is something already, or something is mounted there, so that nothing can take its place.
    pub fn new(destination: &Path) -> Result<Self> {
        let destination = resolved(destination)?;
        match fs::read_dir(&destination).map(|mut entries| entries.next().is_none()) {
            Ok(true) if is_mounted(&destination) => {
                return Err(Error::refused(format!(
                    "{} is a mount point: a restored directory cannot take its place",
                    destination.display()
                ))
                .hint(format!("name a directory in it, {}/restored for example", destination.display())));
            }
            Ok(true) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Ok(false) => return Err(occupied(&destination, "is not empty")),
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                return Err(occupied(&destination, "is not a directory"));
            }
            Err(e) => return Err(Error::io("look at", &destination, e)),
        }
        if destination.file_name().is_none() {
            return Err(occupied(&destination, "has no name"));
        }
        let (partial, members, directories) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(Self { destination, partial, members, directories })
    }

    fn partial(&self) -> Result<&Path> {
        self.partial.get().map(Partial::path).ok_or_else(|| Error::failed("a sink is prepared first"))
    }

    /// Sets the modes, makes everything durable and puts it in its place.
    pub fn finish(self) -> Result<()> {
        let members = self.members.get().map_or(&[][..], |m| m);
        let partial = self.partial()?;
        for member in members {
            let path = partial.join(&member.name);
            let file = fs::File::open(&path).map_err(|e| Error::io("open", &path, e))?;
            let mode = fs::Permissions::from_mode(kept(member.mode));
            file.set_permissions(mode).map_err(|e| Error::io("set the mode of", &path, e))?;
            if members.len() <= SYNC_EACH {
                file.sync_all().map_err(|e| Error::io("fsync", &path, e))?;
            }
        }
        // Children first: a directory may lose the right to be entered.
        for directory in self.directories.get().into_iter().flatten().rev() {
            let path = partial.join(&directory.name);
            let synced = fs::File::open(&path).and_then(|opened| {
                opened.set_permissions(fs::Permissions::from_mode(kept(directory.mode)))?;
                opened.sync_all()
            });
            synced.map_err(|e| Error::io("finish the directory", &path, e))?;
        }
        self.appear(partial, members.len() > SYNC_EACH)
    }

    fn appear(&self, partial: &Path, sync_all: bool) -> Result<()> {
        let wrong = |what: &'static str| move |e: io::Error| Error::io(what, &self.destination, e);
        let root = fs::File::open(partial).map_err(|e| Error::io("open", partial, e))?;
        if sync_all {
            syncfs(&root).map_err(|e| Error::io("sync the filesystem of", &self.destination, e))?;
        }
        // As mkdir would make it, by the user's own umask; an empty directory that is there keeps its mode.
        let mode = fs::metadata(&self.destination).map_or(0o777 & !umask(), |m| m.permissions().mode());
        root.set_permissions(fs::Permissions::from_mode(mode)).map_err(wrong("set the mode of"))?;
        root.sync_all().map_err(wrong("fsync"))?;
        fs::rename(partial, &self.destination).map_err(wrong("put in place"))?;
        let parent = self.destination.parent().unwrap_or(Path::new("/"));
        fs::File::open(parent).and_then(|d| d.sync_all()).map_err(|e| Error::io("fsync the directory", parent, e))
    }
}

fn create_file(path: &Path, bytes: u64) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let file = options.open(path).map_err(|e| Error::io("create", path, e))?;
    if bytes == 0 {
        return Ok(());
    }
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes).map_err(|e| Error::io("make room for", path, e)),
        Err(e) => Err(Error::io("reserve room for", path, e)),
    }
}

fn create_directory(path: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| Error::io("create the directory", path, e))
}

/// The directory that a destination is, or will be.
fn resolved(destination: &Path) -> Result<PathBuf> {
    let wrong = |e| Error::io("look at", destination, e);
    match fs::canonicalize(destination) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(destination) {
            Ok(_) => Err(occupied(destination, "is a link to nothing")),
            Err(_) => std::path::absolute(destination).map_err(wrong),
        },
        resolved => resolved.map_err(wrong),
    }
}

/// Whether something is mounted there: the kernel says so since 5.8; before, another filesystem than its parent's shows it.
fn is_mounted(directory: &Path) -> bool {
    if let Ok(found) = statx(CWD, directory, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)
        && found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
    {
        return found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    }
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    directory.parent().is_some_and(|parent| device(parent) != device(directory))
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
        partial::sweep(&self.destination, false)?;
        let _ = self.partial.set(Partial::make(&self.destination)?);
        let partial = self.partial()?;
        let mut made = HashSet::new();
        for member in members {
            check(&member.name)?;
            let (directory, _) = member.name.rsplit_once('/').unwrap_or_default();
            if made.insert(directory) {
                create_directory(&partial.join(directory))?;
            }
            create_file(&partial.join(&member.name), member.bytes)?;
        }
        let _ = self.members.set(members.to_vec());
        Ok(())
    }

    fn directories(&self, directories: &[Directory]) -> Result<()> {
        for directory in directories {
            check(&directory.name)?;
            create_directory(&self.partial()?.join(&directory.name))?;
        }
        let _ = self.directories.set(directories.to_vec());
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let members = self.members.get().ok_or_else(|| Error::failed("a sink is prepared first"))?;
        for part in parts(members, offset, bytes.len()) {
            let path = self.partial()?.join(&members[part.index].name);
            let data = &bytes[part.start..part.start + part.len];
            write(&path, data, part.offset).map_err(|e| Error::io("write", &path, e))?;
        }
        Ok(())
    }
}

/// What starts and ends on pages goes around the cache, the odd end of a file through it.
fn write(path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    let mut done = direct::len(bytes, offset);
    if done > 0 && !direct::write(&file, &bytes[..done], offset)? {
        done = 0;
    }
    file.write_all_at(&bytes[done..], offset + done as u64)
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

/// Removes what killed restores into `destination` left beside it (or only tells it).
pub fn sweep(destination: &Path, dry_run: bool) -> Result<Vec<PathBuf>> {
    partial::sweep(&resolved(destination)?, dry_run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::lay_out;
    use savemark_testing::disk;

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
            assert_eq!(sink.prepare(&members, bytes).unwrap_err().kind, savemark_base::Kind::Corrupt, "{name}");
            drop(sink);
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{name}");
        }
    }

    #[test]
    fn what_is_there_is_never_written_over() {
        let place = disk();
        fs::write(place.path().join("notes"), b"mine").unwrap();
        for path in [place.path().to_path_buf(), place.path().join("notes")] {
            assert_eq!(TreeSink::new(&path).unwrap_err().kind, savemark_base::Kind::Refused);
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

    #[test]
    fn of_two_restores_into_one_directory_one_is_refused_at_once() {
        let place = disk();
        let (members, bytes) = members(&["a"]);
        let sinks = [(); 2].map(|()| TreeSink::new(&place.path().join("out")).unwrap());
        sinks[0].prepare(&members, bytes).unwrap();
        let error = sinks[1].prepare(&members, bytes).unwrap_err();
        assert!(error.kind == savemark_base::Kind::Refused && error.message.contains("another restore"), "{error}");
        let [first, second] = sinks;
        drop(second);
        first.finish().unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_to_an_empty_directory_is_that_directory() {
        let place = disk();
        fs::create_dir(place.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", place.path().join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", place.path().join("broken")).unwrap();
        assert_eq!(TreeSink::new(&place.path().join("broken")).unwrap_err().kind, savemark_base::Kind::Refused);
        let sink = TreeSink::new(&place.path().join("link")).unwrap();
        let (members, bytes) = members(&["a"]);
        sink.prepare(&members, bytes).unwrap();
        sink.finish().unwrap();
        assert!(place.path().join("real/a").is_file() && place.path().join("link").is_symlink());
    }

    #[test]
    fn a_mount_point_is_refused_before_anything_is_read() {
        let place = disk();
        let (other, on) = (place.path().join("other"), place.path().join("on"));
        fs::create_dir(&other).unwrap();
        fs::create_dir(&on).unwrap();
        // Of the same filesystem: only the kernel knows.
        let mounted = std::process::Command::new("mount").arg("--bind").args([&other, &on]).status();
        if !mounted.is_ok_and(|status| status.success()) {
            return savemark_testing::missing("mount", "nothing can be mounted here");
        }
        let refused = TreeSink::new(&on);
        let _ = std::process::Command::new("umount").arg(&on).status();
        let error = refused.unwrap_err();
        assert!(error.kind == savemark_base::Kind::Refused && error.message.contains("mount point"), "{error}");
    }

    #[test]
    fn a_folder_of_that_name_that_is_there_already_is_not_used() {
        let place = disk();
        let outside = disk();
        // Whoever guesses the name in a directory of many users cannot lead a restore elsewhere.
        let sink = TreeSink::new(&place.path().join("out")).unwrap();
        let (members, bytes) = members(&["a"]);
        sink.prepare(&members, bytes).unwrap();
        let partial = sink.partial().unwrap().to_path_buf();
        assert_eq!(fs::metadata(&partial).unwrap().permissions().mode() & 0o7777, 0o700);
        assert_eq!(fs::metadata(partial.join("a")).unwrap().permissions().mode() & 0o7777, 0o600);
        fs::remove_file(partial.join("a")).unwrap();
        fs::write(outside.path().join("victim"), [7; 10]).unwrap();
        std::os::unix::fs::symlink(outside.path().join("victim"), partial.join("a")).unwrap();
        assert!(sink.write(0, &[1; 10]).is_err(), "a link is not followed");
        assert_eq!(fs::read(outside.path().join("victim")).unwrap(), [7; 10]);
    }
}
