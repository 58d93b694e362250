//! A directory of files (or one file) as a state, read as its chunks are taken: memory does not grow with it.

mod walk;

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::OFlags;

use self::walk::{Walk, unkept};
use super::direct;
use super::state::{Directory, Member, MemoryState, Sink, Source, lay_out};
use savemark_base::error::{Error, Result};
use savemark_host::cache;

/// Reads all files below `root` into memory.
///
/// # Errors
/// As [`TreeSource::open`] and its `read`.
pub fn load(root: &Path) -> Result<MemoryState> {
    let tree = TreeSource::open(root)?;
    let state = MemoryState::with_members(tree.members.clone(), tree.bytes)?;
    for member in tree.members.iter().filter(|m| m.bytes > 0) {
        let mut window = state.window(member.offset, member.bytes as usize).expect("memory has a window");
        tree.read(member.offset, &mut window[..member.bytes as usize])?;
    }
    Ok(state)
}

/// The files below a directory, or one file. They must stay as they are until the save has ended.
#[derive(Debug)]
pub struct TreeSource {
    root: PathBuf,
    members: Vec<Member>,
    directories: Vec<Directory>,
    /// Of each member, when it was listed.
    stamps: Vec<Stamp>,
    /// Of each member: whether little of it is in the page cache. Found out when it is first read.
    cold: Vec<OnceLock<bool>>,
    bytes: u64,
}

/// What tells that a file has been written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    inode: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            bytes: metadata.len(),
            inode: metadata.ino(),
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
        }
    }
}

impl TreeSource {
    /// Lists the files below `path` in the order of their names, so that a state is the same each time.
    ///
    /// # Errors
    /// `Usage` if there is nothing to save or something cannot be kept (a name that is not UTF-8, a link, a device);
    /// `Failed` on I/O errors.
    pub fn open(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|e| Error::io("look at", path, e))?;
        let (walk, root) = if metadata.is_dir() {
            (Walk::below(path)?, path)
        } else {
            let mut walk = Walk::default();
            walk.entry(path, "", path.file_name().ok_or_else(|| unkept(path))?.to_owned(), &metadata)?;
            (walk, path.parent().unwrap_or(Path::new("")))
        };
        let (files, stamps): (Vec<_>, Vec<_>) = walk.files.into_iter().unzip();
        let (members, bytes) = lay_out(files);
        if bytes == 0 {
            return Err(Error::usage(format!("there is nothing to save in {}", path.display())));
        }
        let cold = members.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { root: root.to_path_buf(), members, directories: walk.directories, stamps, cold, bytes })
    }

    fn fill(&self, index: usize, file: &fs::File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let is_cold = *self.cold[index].get_or_init(|| {
            write_back(file);
            is_cold(file)
        });
        let mut done = direct::len(out, offset);
        if done > 0 && !(is_cold && direct::read(file, &mut out[..done], offset)?) {
            done = 0;
        }
        file.read_exact_at(&mut out[done..], offset + done as u64)
    }

    /// Reads a part of one file, and makes sure that the file is still the one that was listed.
    fn read_file(&self, index: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let path = self.root.join(&self.members[index].name);
        let mut options = fs::OpenOptions::new();
        // A link put in the place of a file meanwhile could lead anywhere, and nobody may ever write into a pipe.
        options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
        let file = options.open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => changed(&path, "vanished"),
            _ => Error::io("read", &path, e),
        })?;
        match self.fill(index, &file, offset, out) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(changed(&path, "became shorter")),
            result => result.map_err(|e| Error::io("read", &path, e))?,
        }
        // Looked at after the read, by the descriptor that was read: what was written before it, or during it, shows.
        let metadata = file.metadata().map_err(|e| Error::io("look at", &path, e))?;
        match Stamp::of(&metadata) == self.stamps[index] {
            true => Ok(()),
            false => Err(changed(&path, "was written to")),
        }
    }
}

/// Writes the file's dirty pages out: a program that has mapped one that is dirty already changes it without a trace, and one
/// that is clean only after the kernel has set the file's time. A filesystem that is all memory has no such pages; nothing
/// tells there.
fn write_back(file: &fs::File) {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: a plain system call on an open descriptor.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
}

/// What is cached is faster read from there; what is not should not be put there on its way.
fn is_cold(file: &fs::File) -> bool {
    let found = cache::residency([file]);
    found.total_pages > 0 && found.resident_pages * 2 < found.total_pages
}

fn changed(path: &Path, how: &str) -> Error {
    Error::failed(format!("{} {how} while it was saved. Nothing was replaced", path.display()))
        .hint("stop what writes to it during the save, or save a snapshot or a copy")
}

impl Source for TreeSource {
    fn members(&self) -> &[Member] {
        &self.members
    }
    fn directories(&self) -> &[Directory] {
        &self.directories
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    /// No file was written to after it was read, either.
    fn check_unchanged(&self) -> Result<()> {
        self.members.iter().zip(&self.stamps).try_for_each(|(member, stamp)| {
            let path = self.root.join(&member.name);
            match fs::symlink_metadata(&path) {
                Ok(found) if Stamp::of(&found) == *stamp => Ok(()),
                Ok(_) => Err(changed(&path, "was written to")),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Err(changed(&path, "vanished")),
                Err(e) => Err(Error::io("look at", &path, e)),
            }
        })
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut end = 0;
        for part in parts(&self.members, offset, out.len()) {
            out[end..part.start].fill(0);
            end = part.start + part.len;
            self.read_file(part.index, part.offset, &mut out[part.start..end])?;
        }
        out[end..].fill(0);
        Ok(())
    }
}

/// What a range of the state holds of one member.
pub(super) struct Part {
    /// Of the member.
    pub index: usize,
    /// Where it starts in the member.
    pub offset: u64,
    /// Where it starts in the range.
    pub start: usize,
    /// Bytes, at least 1.
    pub len: usize,
}

/// The parts of `members` in `len` bytes at `offset`, in order; empty members have none.
pub(super) fn parts(members: &[Member], offset: u64, len: usize) -> impl Iterator<Item = Part> + '_ {
    let end = offset + len as u64;
    let first = members.partition_point(|m| m.offset + m.bytes <= offset);
    members.iter().enumerate().skip(first).take_while(move |(_, m)| m.offset < end).filter(|(_, m)| m.bytes > 0).map(
        move |(index, m)| {
            let (from, to) = (m.offset.max(offset), (m.offset + m.bytes).min(end));
            Part { index, offset: from - m.offset, start: (from - offset) as usize, len: (to - from) as usize }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DEPTH;
    use savemark_testing::disk;

    #[test]
    fn a_range_is_read_across_files_and_gaps_are_zero() {
        let place = disk();
        fs::create_dir_all(place.path().join("b/empty")).unwrap();
        fs::write(place.path().join("a"), [1; 5000]).unwrap();
        fs::write(place.path().join("b/none"), b"").unwrap();
        fs::write(place.path().join("b/z"), [2; 100]).unwrap();
        let tree = TreeSource::open(place.path()).unwrap();
        assert_eq!(tree.bytes(), 8192 + 100);
        assert_eq!(tree.directories().iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["b", "b/empty"]);
        let mut out = vec![9; 8000];
        tree.read(4096, &mut out).unwrap();
        let expected = [&[1; 904][..], &[0; 3192], &[2; 100], &[0; 3804]].concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn what_a_program_has_mapped_and_writes_to_is_noticed() {
        use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
        let place = disk();
        let path = place.path().join("mapped");
        fs::write(&path, [1; 9000]).unwrap();
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of our own, of a file that is as long, unmapped at the end.
        let base = unsafe { mmap(std::ptr::null_mut(), 8192, access, MapFlags::SHARED, &file, 0) }.unwrap();
        let write = |byte: u8| unsafe { base.cast::<u8>().write_volatile(byte) };
        write(2); // the page is dirty before anything is listed
        let tree = TreeSource::open(place.path()).unwrap();
        tree.read(0, &mut [0; 4096]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20)); // the clock of the filesystem ticks
        write(3);
        for error in [tree.read(4096, &mut [0; 4096]), tree.check_unchanged()] {
            let message = error.unwrap_err().to_string();
            assert!(message.contains("mapped was written to"), "{message}");
        }
        // SAFETY: mapped above.
        unsafe { munmap(base, 8192) }.unwrap();
    }

    #[test]
    fn one_file_is_a_state() {
        let place = disk();
        fs::write(place.path().join("w.bin"), [7; 10]).unwrap();
        let tree = TreeSource::open(&place.path().join("w.bin")).unwrap();
        assert_eq!(tree.members()[0].name, "w.bin");
        let mut out = [0; 10];
        tree.read(0, &mut out).unwrap();
        assert_eq!(out, [7; 10]);
    }

    #[test]
    fn a_file_that_changes_is_named() {
        let place = disk();
        let path = place.path().join("log");
        let read = |act: &dyn Fn()| {
            fs::write(&path, [1; 100]).unwrap();
            let tree = TreeSource::open(place.path()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20)); // the clock of the filesystem ticks
            act();
            tree.read(0, &mut [0; 100]).unwrap_err().to_string()
        };
        for (act, word) in [
            (&(|| fs::write(&path, [2; 101]).unwrap()) as &dyn Fn(), "written to"),
            (&|| fs::write(&path, [2; 100]).unwrap(), "written to"),
            (&|| fs::write(&path, [2; 99]).unwrap(), "shorter"),
            (&|| fs::remove_file(&path).unwrap(), "vanished"),
        ] {
            let message = read(act);
            assert!(message.contains(word) && message.contains("log"), "{message}");
        }
    }

    /// Two files change places all the time: what is read is the one that was listed, or an error.
    #[test]
    fn bytes_are_those_of_the_file_that_was_looked_at() {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let place = disk();
        let (ours, other) = (place.path().join("a"), place.path().join("b"));
        for (path, byte) in [(&ours, 1), (&other, 2)] {
            fs::write(path, vec![byte; 128 << 10]).unwrap();
            fs::File::open(path).unwrap().sync_all().unwrap();
            cache::evict(std::os::fd::AsFd::as_fd(&fs::File::open(path).unwrap())).unwrap();
        }
        let tree = TreeSource::open(&ours).unwrap();
        let arena = savemark_base::buffer::Arena::new(128 << 10).unwrap();
        // SAFETY: the arena is new, and cut once.
        let mut out = unsafe { arena.cut(128 << 10) }.remove(0);
        let is_ours = move || tree.read(0, &mut out).is_err() || out.iter().all(|byte| *byte == 1);
        let reader = std::thread::spawn(move || std::iter::repeat_with(is_ours).take(2000).all(|is_ours| is_ours));
        while !reader.is_finished() {
            renameat_with(CWD, &ours, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        }
        assert!(reader.join().unwrap(), "the bytes of the other file");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_does_not_hold_up_the_save() {
        let place = disk();
        let path = place.path().join("log");
        fs::write(&path, [1; 100]).unwrap();
        let tree = TreeSource::open(place.path()).unwrap();
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(tree.read(0, &mut [0; 100]).is_err());
        assert_eq!(TreeSource::open(place.path()).unwrap_err().kind, savemark_base::Kind::Usage);
    }

    #[test]
    fn a_deep_tree_needs_no_deep_stack_and_one_that_is_too_deep_is_refused() {
        let place = disk();
        let deep = |parts: usize| place.path().join(vec!["d"; parts].join("/"));
        fs::create_dir_all(deep(DEPTH - 1)).unwrap();
        fs::write(deep(DEPTH - 1).join("f"), [1; 10]).unwrap();
        let open = |path: PathBuf| {
            let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(move || TreeSource::open(&path));
            thread.unwrap().join().unwrap()
        };
        let tree = open(place.path().to_path_buf()).unwrap();
        assert_eq!((tree.members().len(), tree.directories().len()), (1, DEPTH - 1));
        fs::create_dir_all(deep(1900)).unwrap();
        let error = open(place.path().to_path_buf()).unwrap_err();
        assert!(error.kind == savemark_base::Kind::Usage && error.message.contains("too deep"), "{error}");
        let removed = std::process::Command::new("rm").arg("-rf").arg(deep(1)).status();
        assert!(removed.unwrap().success());
    }

    #[test]
    fn a_name_that_is_not_utf_8_is_refused_with_the_way_out() {
        use std::os::unix::ffi::OsStrExt;
        let place = disk();
        let path = place.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
        fs::write(&path, b"x").unwrap();
        for path in [place.path(), &path] {
            let error = TreeSource::open(path).unwrap_err();
            assert!(error.kind == savemark_base::Kind::Usage && error.message.contains("UTF-8"), "{error}");
            assert!(error.hint.unwrap().contains("rename"));
        }
    }

    #[test]
    fn links_are_refused_with_the_way_out() {
        let place = disk();
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("link")).unwrap();
        let error = TreeSource::open(place.path()).unwrap_err();
        assert_eq!(error.kind, savemark_base::Kind::Usage);
        assert!(error.to_string().contains("link") && error.hint.unwrap().contains("cp -rL"));
    }
}
