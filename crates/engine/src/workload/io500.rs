//! IO500's twelve phases in its order: IOR and mdtest, each easy and hard, and a find over all of it.
//!
//! The rules are those of <https://io500.org/rules-submission>: writes end with everything on stable storage, what is read or
//! looked at somebody else has written, and the deadline of a write is followed by a wear-out.

use std::fs;
use std::path::PathBuf;

use super::Workload;
use super::block::geometry::{Geometry, Sharing};
use super::metadata::{Metadata, Name, Naming};
use crate::bench::Bench;
use savemark_base::error::{Error, Kind, Result};
use savemark_base::record::{PathTaken, Phase};
use savemark_measure::phase::Watch;
use savemark_measure::ranks::Sharing as Ranks;

mod find;
mod options;

use find::Search;
use options::HARD_FILE;
pub use options::Io500Options;

/// Letters that `find` looks for in a name.
const LETTERS: &[u8] = b"01";

/// The directory below the target that holds everything.
const ROOT: &str = "savemark-io500";

/// The workload.
pub struct Io500<'a> {
    options: &'a Io500Options,
    root: PathBuf,
    /// Made by this rank: removed in the end.
    made: bool,
    parts: Option<Parts>,
    /// When the hard part began, by the clock of the filesystem: `find` looks for what is newer.
    since: (i64, i64),
}

/// What the phases are made of.
struct Parts {
    easy: Geometry<'static>,
    hard: Geometry<'static>,
    easy_files: Metadata<'static>,
    hard_files: Metadata<'static>,
}

impl<'a> Io500<'a> {
    /// With these options.
    pub fn new(options: &'a Io500Options) -> Self {
        Self { options, root: PathBuf::new(), made: false, parts: None, since: (0, 0) }
    }

    /// What is searched: everything but the file that tells the time.
    fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    fn phase(&mut self, name: &str, bench: &mut Bench) -> Result<Phase> {
        match name {
            "find" => return self.find(bench),
            "ior-hard-write" => self.stamp(bench)?,
            _ => {}
        }
        // mdtest shifts its ranks by one node (or rank) more for each kind of phase; here nobody meets its own again.
        let further = |times| bench.ranks.further(self.options.workers, times);
        let parts = self.parts.as_mut().expect("made by prepare");
        match name {
            "ior-easy-write" => parts.easy.write(name, bench),
            "ior-easy-read" => parts.easy.read(name, bench),
            "ior-hard-write" => parts.hard.write(name, bench),
            "ior-hard-read" => parts.hard.read(name, bench),
            "mdtest-easy-write" => parts.easy_files.phase(name, "create", 0, bench),
            "mdtest-easy-stat" => parts.easy_files.phase(name, "stat", further(1), bench),
            "mdtest-easy-delete" => parts.easy_files.phase(name, "remove", further(3), bench),
            "mdtest-hard-write" => parts.hard_files.phase(name, "create", 0, bench),
            "mdtest-hard-stat" => parts.hard_files.phase(name, "stat", further(1), bench),
            "mdtest-hard-read" => parts.hard_files.phase(name, "read", further(2), bench),
            _ => parts.hard_files.phase(name, "remove", further(3), bench),
        }
    }

    /// Asks the filesystem what time it is: its clock may be another machine's.
    fn stamp(&mut self, bench: &Bench) -> Result<()> {
        let mut told = Vec::new();
        if bench.ranks.is_first() {
            let path = self.root.join("timestampfile");
            let made = fs::File::create(&path).map_err(|e| Error::io("make", &path, e))?;
            let stat = rustix::fs::fstat(&made).map_err(|e| Error::io("look at", &path, e))?;
            told = vec![stat.st_ctime as u64, stat.st_ctime_nsec as u64];
        }
        let told = bench.control.meet("the time stamp", &told)?;
        self.since = (told[0] as i64, told[1] as i64);
        Ok(())
    }

    /// Searches everything for the hard part's files with these letters in their names, and counts whether all were found.
    fn find(&self, bench: &mut Bench) -> Result<Phase> {
        let (root, parts) = (self.data(), self.parts.as_ref().expect("made by prepare"));
        let made = |files: &Metadata| files.made().iter().sum::<u64>();
        let files = parts.easy.count() + parts.hard.count() + made(&parts.easy_files) + made(&parts.hard_files);
        let fitting = fitting(parts.hard_files.made());
        bench.control.begin("find", 0);
        let cache = parts.hard_files.drop_caches(bench)?;
        // Of the folders that have folders, and of the one with most files, all ranks have a part.
        let together =
            [root.clone(), root.join("mdtest-easy"), root.join("mdtest-hard"), root.join("mdtest-hard/0000")];
        let (letters, bytes, since) = (LETTERS, HARD_FILE, self.since);
        let search = Search { root: &root, letters, bytes, since, ranks: bench.ranks, together: &together };
        let watch = Watch::start();
        let (team, found) = search.run(self.options.workers as usize, bench.control)?;
        let phase = team.into_phase(watch, "find");
        let all = bench.control.meet("what was found", &[phase.operations, found])?;
        let sum = |place: usize| all.iter().skip(place).step_by(2).sum::<u64>();
        let (looked_at, found) = (sum(0), sum(1));
        if (looked_at, found) != (files, fitting) {
            return Err(Error::corrupt(format!(
                "{found} files of {looked_at} fit, and {fitting} of {files} were made to"
            ))
            .hint("a filesystem that lists files late or twice, or somebody else's files in the target"));
        }
        let verified = Some("every file".to_string());
        Ok(Phase { found: Some(found), cache: Some(cache), verified, ..phase })
    }
}

/// How many of the names of so many files of each worker have the letters.
fn fitting(made: &[u64]) -> u64 {
    let of_worker = |(worker, count): (usize, &u64)| {
        let mut name = Name::new(Naming::Mdtest, b"item", worker);
        let fits = |index: &u64| name.at(*index).to_bytes().windows(LETTERS.len()).any(|part| part == LETTERS);
        (0..*count).filter(fits).count() as u64
    };
    made.iter().enumerate().map(of_worker).sum()
}

impl Workload for Io500<'_> {
    fn sharing(&self) -> Ranks {
        Ranks::Together
    }

    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        let taken = bench.storage.path_taken();
        let Some(target) = bench.storage.directory() else {
            return Err(Error::usage(format!("io500 needs a directory; storage {} has none", taken.storage))
                .hint("use --storage posix and a directory as the target"));
        };
        if taken.direct {
            return Err(Error::usage("io500: its transfers of 47008 bytes are no multiple of what direct I/O needs")
                .hint("add --no-direct"));
        }
        self.root = target.join(ROOT);
        let data = self.data();
        if bench.ranks.is_first() {
            let make = |path: &PathBuf| fs::create_dir(path).map_err(|e| Error::io("make the directory", path, e));
            make(&self.root)?;
            self.made = true;
            [data.clone(), data.join("ior-easy"), data.join("ior-hard")].iter().try_for_each(make)?;
        }
        let (options, ranks) = (self.options, bench.ranks.ranks);
        let stem = |part: &str| format!("{ROOT}/data/{part}/file");
        self.parts = Some(Parts {
            easy: Geometry::of_io500(options.easy(), Sharing::FileEach, &stem("ior-easy")),
            hard: Geometry::of_io500(options.hard(), Sharing::OneFile, &stem("ior-hard")),
            easy_files: Metadata::of_io500(options.files(false, ranks), data.join("mdtest-easy"), bench)?,
            hard_files: Metadata::of_io500(options.files(true, ranks), data.join("mdtest-hard"), bench)?,
        });
        Ok(None)
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        vec![
            "ior-easy-write",
            "mdtest-easy-write",
            "ior-hard-write",
            "mdtest-hard-write",
            "find",
            "ior-easy-read",
            "mdtest-easy-stat",
            "ior-hard-read",
            "mdtest-hard-stat",
            "mdtest-easy-delete",
            "mdtest-hard-read",
            "mdtest-hard-delete",
        ]
    }

    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase> {
        self.phase(phase, bench).map_err(|error| explain(phase, error))
    }

    fn describe(&self, path: &mut PathTaken) {
        path.notes.push("names and small files by plain system calls of the workload's own".into());
    }

    fn cleanup(&mut self, _: &mut Bench) -> Result<()> {
        self.parts = None;
        match std::mem::take(&mut self.made) {
            true => fs::remove_dir_all(&self.root).map_err(|e| Error::io("remove", &self.root, e)),
            false => Ok(()),
        }
    }
}

/// Which of the twelve it was, and what to do about it here.
fn explain(phase: &str, mut error: Error) -> Error {
    match (error.errno(), error.kind) {
        (Some(libc::ENOSPC | libc::EDQUOT), _) => {
            let limits = "--block-size, --segments and --files-per-worker limit what the phases write";
            error.hint = Some(format!("free some space (or quota), or use a shorter --phase-deadline; {limits}"));
        }
        (_, Kind::Refused) => error.hint = Some("run as root, or use --names warm".into()),
        _ => {}
    }
    if error.kind != Kind::Interrupted {
        error.message = format!("{phase}: {}", error.message);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn as_many_names_fit_as_have_the_letters() {
        let made = [1500, 0, 102];
        let named = |(worker, count): (usize, &u64)| {
            (0..*count).filter(|index| format!("file.mdtest.{worker}.{index}").contains("01")).count()
        };
        let expected: usize = made.iter().enumerate().map(named).sum();
        assert!(expected > 20);
        assert_eq!(fitting(&made), expected as u64);
    }
}
