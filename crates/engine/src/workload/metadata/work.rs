//! One worker's calls: the hot loops.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fsync, mkdirat, openat, renameat, statat, syncfs, unlinkat};
use rustix::io::{Errno, read, write};

use super::items::{Directories, Name, Naming};
use super::{Kind, MetadataOptions, failed};
use crate::common::Common;
use crate::workload::block::Sync;
use savemark_base::error::{Error, Result};
use savemark_base::{clock, payload};
use savemark_measure::worker::{Meter, own_descriptors};

/// What a worker needs for its calls on the items of one owner.
pub struct Work<'a> {
    options: &'a MetadataOptions,
    path: &'a Path,
    directory: BorrowedFd<'a>,
    naming: Naming,
    owner: usize,
    /// What each file holds; the first eight bytes of each block of it say whose and which it is, so that no two files share one.
    content: Vec<u8>,
    buffer: Vec<u8>,
}

/// Calls between two looks at whether somebody has cancelled.
const CHECK_EVERY: u64 = 64;

impl<'a> Work<'a> {
    /// On the items of `owner`, for the calling thread.
    pub fn new(options: &'a MetadataOptions, common: &Common, directories: &'a Directories, owner: usize) -> Self {
        // SAFETY: the calling thread opens and closes what it uses, and nothing else.
        unsafe { own_descriptors() };
        let (path, directory) = directories.of(owner);
        let mut content = vec![0; options.file_size.0 as usize];
        payload::fill(common.payload, common.seed, 0, &mut content);
        let naming = directories.naming();
        Self { options, path, directory, naming, owner, buffer: vec![0; content.len()], content }
    }

    /// Makes the items `range`, until `deadline_ns`; returns how many there are then.
    pub fn create(&mut self, meter: &mut Meter, range: Range<u64>, deadline_ns: u64) -> Result<u64> {
        let each = self.options.sync == Sync::Each;
        let bytes = self.content.len() as u64;
        match self.options.kind {
            Kind::Files => self.go(meter, "create", b"item", range, deadline_ns, bytes, |work, name, index| {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let file = openat(work.directory, name, flags, Mode::from_raw_mode(0o644))?;
                if !work.content.is_empty() {
                    work.mark(index);
                    write_all(&file, &work.content)?;
                }
                if each { fsync(&file).and_then(|()| fsync(work.directory)) } else { Ok(()) }
            }),
            Kind::Directories => self.go(meter, "create", b"item", range, deadline_ns, 0, |work, name, _| {
                mkdirat(work.directory, name, Mode::from_raw_mode(0o755))?;
                if each { fsync(work.directory) } else { Ok(()) }
            }),
        }
    }

    /// Asks for the attributes of the first `count` items.
    pub fn stat(&mut self, meter: &mut Meter, count: u64) -> Result<()> {
        let call = |work: &mut Self, name: &CStr, _| statat(work.directory, name, AtFlags::empty()).map(drop);
        self.go(meter, "stat", b"item", 0..count, u64::MAX, 0, call).map(drop)
    }

    /// Opens them, reads all their bytes and compares.
    pub fn read(&mut self, meter: &mut Meter, count: u64) -> Result<()> {
        let mut wrong = None;
        let bytes = self.content.len() as u64;
        self.go(meter, "read", b"item", 0..count, u64::MAX, bytes, |work, name, index| {
            let file = openat(work.directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            if work.content.is_empty() {
                return Ok(());
            }
            work.mark(index);
            let found = read_all(&file, &mut work.buffer)?;
            if work.buffer[..found] != work.content[..] && wrong.is_none() {
                wrong = Some(name.to_owned());
            }
            Ok(())
        })?;
        wrong.map_or(Ok(()), |name| {
            let path = self.path.join(name.to_string_lossy().as_ref());
            Err(Error::corrupt(format!("{} does not hold what was written", path.display())))
        })
    }

    /// Gives them another name in the same directory.
    pub fn rename(&mut self, meter: &mut Meter, count: u64) -> Result<()> {
        let (each, mut new) = (self.options.sync == Sync::Each, Name::new(self.naming, b"name", self.owner));
        self.go(meter, "rename", b"item", 0..count, u64::MAX, 0, |work, name, index| {
            renameat(work.directory, name, work.directory, new.at(index))?;
            if each { fsync(work.directory) } else { Ok(()) }
        })?;
        self.end(meter)
    }

    /// Removes them, by the names that they have now; those of mdtest's names keep them.
    pub fn remove(&mut self, meter: &mut Meter, count: u64) -> Result<()> {
        let each = self.options.sync == Sync::Each;
        let flags = if self.options.kind == Kind::Files { AtFlags::empty() } else { AtFlags::REMOVEDIR };
        let call = |work: &mut Self, name: &CStr, _| {
            unlinkat(work.directory, name, flags)?;
            if each { fsync(work.directory) } else { Ok(()) }
        };
        let stem = if self.options.rename { b"name" } else { b"item" };
        self.go(meter, "remove", stem, 0..count, u64::MAX, 0, call).map(drop)
    }

    /// What `sync: end` promises.
    pub fn end(&self, meter: &mut Meter) -> Result<()> {
        if self.options.sync == Sync::End {
            let start_ns = clock::now();
            syncfs(self.directory).map_err(|e| Error::io("write back", self.path, e))?;
            meter.sync_latency.record(clock::now() - start_ns);
        }
        Ok(())
    }

    /// Calls `call` for each item, and counts. Returns the index after the last one.
    ///
    /// One look at the clock per call: an item's time runs from the end of the one before.
    #[allow(clippy::too_many_arguments)]
    fn go(
        &mut self,
        meter: &mut Meter,
        what: &str,
        stem: &[u8; 4],
        range: Range<u64>,
        deadline_ns: u64,
        bytes: u64,
        mut call: impl FnMut(&mut Self, &CStr, u64) -> std::result::Result<(), Errno>,
    ) -> Result<u64> {
        let mut name = Name::new(self.naming, stem, self.owner);
        let mut before_ns = clock::now();
        let end = range.end;
        for index in range {
            if before_ns >= deadline_ns {
                return Ok(index);
            }
            if index % CHECK_EVERY == 0 {
                meter.check()?;
            }
            let name = name.at(index);
            call(self, name, index).map_err(|e| failed(what, self.path, name, e))?;
            let now_ns = clock::now();
            meter.count_call(now_ns - before_ns, bytes, now_ns);
            before_ns = now_ns;
        }
        Ok(end)
    }

    fn mark(&mut self, index: u64) {
        let mark = (self.owner as u64) << 32 | index;
        for block in self.content.chunks_mut(payload::BLOCK) {
            let len = block.len().min(8);
            block[..len].copy_from_slice(&mark.to_le_bytes()[..len]);
        }
    }
}

fn write_all(file: impl std::os::fd::AsFd, mut bytes: &[u8]) -> std::result::Result<(), Errno> {
    while !bytes.is_empty() {
        match write(&file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Bytes read: fewer than asked for where the file ends.
fn read_all(file: impl std::os::fd::AsFd, buffer: &mut [u8]) -> std::result::Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(&file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
