//! A parallel find: every file below a directory is looked at, by its name; those whose name fits are asked for size and time.
//!
//! Directories and batches of names lie on one heap; each worker takes what is on top of it. One directory is listed by one
//! worker, while the others ask for the files it has found already. Ranks share no heap: a directory is one rank's, by its name,
//! or all ranks list it and each cares for some of its names.

mod heap;

use std::ffi::CStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{FileType, RawDir};

use self::heap::{Batch, GiveUp, Heap, Place, Task};
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_measure::control::Control;
use savemark_measure::phase::{self, Team};
use savemark_measure::ranks::Placement;
use savemark_measure::worker::Meter;

/// What is looked for.
pub struct Search<'a> {
    /// Everything below it is looked at.
    pub root: &'a Path,
    /// Letters that stand somewhere in the name.
    pub letters: &'a [u8],
    /// Length of the file.
    pub bytes: u64,
    /// When its inode changed at the earliest, in seconds and nanoseconds since 1970.
    pub since: (i64, i64),
    /// Which rank this is.
    pub ranks: Placement,
    /// Directories that all ranks list.
    pub together: &'a [PathBuf],
}

/// Names that are asked for together: enough to share a lock, few enough to be shared out.
const BATCH: usize = 256;
/// Room for the entries of one system call.
const LISTED: usize = 64 << 10;
const HELD: &str = "no panic while held";

impl Search<'_> {
    /// Looks with so many workers; the operations of the team are the files looked at. Returns also how many fit.
    pub fn run(&self, workers: usize, control: &Control) -> Result<(Team, u64)> {
        let heap = Heap::new(Task::List(self.root.to_path_buf()));
        let found = Mutex::new(0);
        let team = phase::run(workers, control, |meter| {
            let guard = GiveUp(&heap);
            meter.start()?;
            let mut fitting = 0;
            while let Some(task) = heap.take(meter)? {
                meter.check()?;
                match task {
                    Task::List(path) => fitting += self.list(path, &heap, meter)?,
                    Task::Ask(batch) => fitting += self.ask(&batch, meter)?,
                }
                heap.done();
            }
            *found.lock().expect(HELD) += fitting;
            std::mem::forget(guard);
            Ok(())
        })?;
        Ok((team, found.into_inner().expect(HELD)))
    }

    /// Lists one directory; returns how many of the files that it asked for itself fit.
    fn list(&self, path: PathBuf, heap: &Heap, meter: &mut Meter) -> Result<u64> {
        let file = File::open(&path).map_err(|e| Error::io("open the directory", &path, e))?;
        let place = Arc::new(Place { path, file });
        let shared = self.together.contains(&place.path);
        let mut room = [MaybeUninit::uninit(); LISTED];
        let mut entries = RawDir::new(&place.file, &mut room);
        let (mut batch, mut fitting) = (Batch::new(&place), 0);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|e| Error::io("list", &place.path, e))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // Some filesystems do not say what an entry is.
            let kind = match entry.file_type() {
                FileType::Unknown => FileType::from_raw_mode(place.stat(name)?.st_mode),
                known => known,
            };
            if kind == FileType::Directory {
                let path = place.child(name);
                if self.together.contains(&path) || !shared || self.is_mine(name) {
                    heap.push(Task::List(path), true);
                }
                continue;
            }
            if shared && !self.is_mine(name) {
                continue;
            }
            meter.operations += 1;
            if !self.letters.is_empty() && name.to_bytes().windows(self.letters.len()).any(|part| part == self.letters)
            {
                batch.add(name);
            }
            if batch.count == BATCH {
                let full = std::mem::replace(&mut batch, Batch::new(&place));
                if let Some(Task::Ask(mine)) = heap.push(Task::Ask(full), false) {
                    meter.check()?;
                    fitting += self.ask(&mine, meter)?;
                }
            }
        }
        if let Some(Task::Ask(mine)) = heap.push(Task::Ask(batch), false) {
            fitting += self.ask(&mine, meter)?;
        }
        Ok(fitting)
    }

    /// Whether this rank cares for a name in a directory that all list (FNV-1a: any hash that all ranks agree on will do).
    fn is_mine(&self, name: &CStr) -> bool {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.to_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
        self.ranks.is_alone() || (hash >> 32) as usize % self.ranks.ranks == self.ranks.rank
    }

    /// Asks for size and time of each name; returns how many fit.
    fn ask(&self, batch: &Batch, meter: &mut Meter) -> Result<u64> {
        let (mut fitting, mut before_ns) = (0, clock::now());
        for name in batch.names.split_inclusive(|byte| *byte == 0) {
            let name = CStr::from_bytes_with_nul(name).expect("one zero, at the end");
            let stat = batch.place.stat(name)?;
            let now_ns = clock::now();
            meter.latency.record(now_ns - before_ns);
            before_ns = now_ns;
            let changed = (stat.st_ctime, stat.st_ctime_nsec as i64);
            fitting += u64::from(stat.st_size as u64 == self.bytes && changed >= self.since);
        }
        Ok(fitting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use savemark_testing::disk;

    fn looking(root: &Path) -> Search<'_> {
        Search { root, letters: b"01", bytes: 3, since: (0, 0), ranks: Placement::default(), together: &[] }
    }

    fn search(root: &Path, workers: usize) -> Result<(u64, u64)> {
        let search = looking(root);
        let (team, found) = search.run(workers, &Control::default())?;
        Ok((team.meters.iter().map(|meter| meter.operations).sum(), found))
    }

    #[test]
    fn every_file_is_looked_at_once_and_those_that_fit_are_counted() {
        let root = disk();
        // More batches than one, in directories that lie in each other.
        let deep = root.path().join("a/b01");
        std::fs::create_dir_all(&deep).unwrap();
        let mut fitting = 0;
        for index in 0..1500 {
            let name = format!("file.{index}");
            fitting += u64::from(name.contains("01"));
            std::fs::write(deep.join(name), b"abc").unwrap();
        }
        std::fs::write(root.path().join("01-too-long"), b"abcd").unwrap();
        std::fs::write(root.path().join("10-other-name"), b"abc").unwrap();
        std::os::unix::fs::symlink(&deep, root.path().join("link01")).unwrap();
        for workers in [1, 2, 7] {
            assert_eq!(search(root.path(), workers).unwrap(), (1503, fitting), "{workers} workers");
        }
        let soon = Search { since: (i64::MAX, 0), ..looking(root.path()) };
        assert_eq!(soon.run(2, &Control::default()).unwrap().1, 0, "nothing is that new");
    }

    #[test]
    fn a_directory_that_is_gone_ends_the_search_with_its_name() {
        let root = disk();
        let error = search(&root.path().join("missing"), 3).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
    }

    #[test]
    fn a_search_that_was_cancelled_ends() {
        let (root, control) = (disk(), Control::default());
        control.cancel();
        assert_eq!(looking(root.path()).run(2, &control).unwrap_err().kind, savemark_base::Kind::Interrupted);
    }

    #[test]
    fn ranks_share_out_what_there_is() {
        let root = disk();
        for folder in ["a", "b", "c", "all"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
            (0..300).for_each(|i| std::fs::write(root.path().join(folder).join(format!("f{i}")), b"abc").unwrap());
        }
        let together = [root.path().to_path_buf(), root.path().join("all")];
        let part = |rank| {
            let ranks = Placement { rank, ranks: 3, ..Default::default() };
            let search = Search { ranks, together: &together, ..looking(root.path()) };
            let (team, found) = search.run(2, &Control::default()).unwrap();
            (team.meters.iter().map(|meter| meter.operations).sum::<u64>(), found)
        };
        let parts = [part(0), part(1), part(2)];
        let fitting = 4 * (0..300).filter(|i: &u64| format!("f{i}").contains("01")).count() as u64;
        assert_eq!(parts.iter().map(|part| part.0).sum::<u64>(), 1200, "{parts:?}");
        assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), fitting, "{parts:?}");
        assert!(parts.iter().all(|part| part.0 >= 50), "each has some of what all list: {parts:?}");
    }
}
