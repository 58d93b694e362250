//! Copy files between the target and a directory of this machine, in both directions, as `aws s3 cp` and its kin do.
//!
//! `upload` copies from the directory to the target, `download` back into new files, which are then compared.

mod job;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::job::{Job, Names};
use super::block::Sync;
use super::{Workload, own_calls};
use crate::bench::Bench;
use crate::common::Common;
use savemark_base::buffer::{ALIGN, align_up};
use savemark_base::error::{Error, Result};
use savemark_base::payload::content;
use savemark_base::record::{Cache, PathTaken, Payload, Phase};
use savemark_base::size::Size;
use savemark_base::{clock, payload};
use savemark_host::evidence;
use savemark_measure::phase::{self, Watch};
use savemark_storage::Storage;
use savemark_storage::posix::{self, PosixOptions};

/// Options of `copy`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CopyOptions {
    /// The directory of this machine to copy from and into; its page cache is used, as copiers do.
    pub disk: Option<PathBuf>,
    /// Files to copy.
    pub items: u64,
    /// Bytes of each.
    pub file_size: Size,
    /// Bytes that are read and written at a time.
    pub transfer_size: Size,
    /// Threads; they share the files, and the transfers of one file where it can be written at any offset.
    pub workers: u32,
    /// Whether files that were downloaded are made durable, inside the time. An object always is.
    pub sync: Sync,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            disk: None,
            items: 1,
            file_size: Size(64 << 20),
            transfer_size: Size(8 << 20),
            workers: 4,
            sync: Sync::End,
        }
    }
}

impl CopyOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        if self.disk.is_none() {
            return Err(Error::usage("disk: copy needs a directory of this machine").hint("use --disk /mnt/scratch"));
        }
        if !(1..=1024).contains(&self.workers) || !(1..=u64::from(u32::MAX)).contains(&self.items) {
            return Err(Error::usage("workers must be 1 to 1024, and items at least 1"));
        }
        if self.file_size.0 == 0 || !(1..=1 << 30).contains(&self.transfer_size.0) {
            return Err(Error::usage("file_size: at least 1 byte; transfer_size: 1 byte to 1GiB"));
        }
        if matches!(self.sync, Sync::Each | Sync::Group) {
            return Err(Error::usage("sync: a copy is made durable at the end of each file, or never")
                .hint("use --sync end or --sync none"));
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.items * self.file_size.0
    }
}

/// The workload.
pub struct Copy<'a> {
    options: &'a CopyOptions,
    /// The folder that we made in `disk`.
    folder: Option<PathBuf>,
    /// The files that we made in the target.
    made: Mutex<Vec<String>>,
    disk: Option<Arc<dyn Storage>>,
    /// What the data is made from: another number in each trial, so that no storage knows it from the one before.
    seed: u64,
}

impl<'a> Copy<'a> {
    /// With these options.
    pub fn new(options: &'a CopyOptions) -> Self {
        Self { options, folder: None, made: Mutex::default(), disk: None, seed: clock::unix_now() }
    }

    fn disk(&self) -> &Arc<dyn Storage> {
        self.disk.as_ref().expect("opened by prepare")
    }

    fn folder(&self) -> &Path {
        self.folder.as_deref().expect("made by prepare")
    }

    fn names(&self, kind: &str) -> Vec<String> {
        (0..self.options.items).map(|item| format!("savemark-{kind}-{item:08}.bin")).collect()
    }

    fn paths(&self, kind: &str) -> Vec<PathBuf> {
        self.names(kind).iter().map(|name| self.folder().join(name)).collect()
    }

    /// Writes the files to upload: together they are one stream of data, so that no two are alike.
    fn lay_out(&self, common: &Common) -> Result<()> {
        let (size, step) = (self.options.file_size.0, 4 << 20);
        let mut buffer = vec![0; size.min(step) as usize];
        for (item, name) in self.names("copy").iter().enumerate() {
            let file = self.disk().create(name)?;
            for offset in (0..size).step_by(step as usize) {
                let part = &mut buffer[..(size - offset).min(step) as usize];
                payload::fill(common.payload, self.seed ^ common.seed, item as u64 * size + offset, part);
                file.write_at(part, offset).map_err(|e| Error::io("write", file.path(), e))?;
            }
            file.sync()?;
        }
        Ok(())
    }

    /// Direct I/O moves whole pages.
    fn check_alignment(&self, storage: &dyn Storage) -> Result<()> {
        let whole = |size: Size| size.0.is_multiple_of(ALIGN as u64);
        if storage.path_taken().direct && !(whole(self.options.file_size) && whole(self.options.transfer_size)) {
            return Err(Error::usage("file_size, transfer_size: direct I/O moves multiples of 4KiB")
                .hint("use multiples of 4KiB, or --no-direct"));
        }
        Ok(())
    }

    fn copy(&self, bench: &mut Bench, from: &dyn Storage, to: &dyn Storage, names: Names) -> Result<phase::Team> {
        let workers = self.options.workers as usize;
        let arenas = bench.memory.pool.take(workers, align_up(Job::buffer_bytes(self.options)))?;
        let job = Job::new(self.options, from, to, names);
        let done = phase::run(workers, bench.control, |meter| job.work(&arenas[meter.index], meter));
        self.made.lock().expect("no panic while held").extend(job.into_made());
        done
    }

    /// Holds what came back against the data itself, which nobody has to keep.
    fn compare(&self, common: &Common) -> Result<()> {
        let (size, step) = (self.options.file_size.0, 4 << 20);
        let (mut found, mut wanted) = (vec![0; size.min(step) as usize], vec![0; size.min(step) as usize]);
        for (item, name) in self.names("back").iter().enumerate() {
            let file = self.disk().open(name)?;
            for offset in (0..size).step_by(step as usize) {
                let len = (size - offset).min(step) as usize;
                file.read_at(&mut found[..len], offset).map_err(|e| Error::io("read", file.path(), e))?;
                payload::fill(common.payload, self.seed ^ common.seed, item as u64 * size + offset, &mut wanted[..len]);
                if found[..len] != wanted[..len] {
                    let why = format!("{} is not what was uploaded (from byte {offset} on)", file.path().display());
                    return Err(Error::corrupt(why));
                }
            }
        }
        Ok(())
    }

    fn payload(&self) -> Result<Payload> {
        let first = self.paths("copy").into_iter().take(16).collect::<Vec<_>>();
        if self.options.file_size.0 >= content::BLOCK as u64 {
            evidence::content(&first)
        } else {
            Ok(Payload::default())
        }
    }
}

impl Workload for Copy<'_> {
    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>> {
        self.check_alignment(&*bench.storage)?;
        let disk = self.options.disk.as_deref().expect("validated");
        let folder = disk.join(format!("savemark-copy-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|e| Error::io("make the directory", &folder, e))?;
        self.folder = Some(folder.clone());
        self.disk = Some(Arc::new(posix::open(&PosixOptions { direct: false }, &folder)?));
        self.lay_out(bench.common)?;
        Ok(None)
    }

    fn phases(&self, _: &Bench) -> Vec<&'static str> {
        vec!["upload", "download"]
    }

    fn run(&mut self, name: &str, bench: &mut Bench) -> Result<Phase> {
        let upload = name == "upload";
        let (here, there) = (self.names("copy"), self.names("data"));
        let cache = self.drop_caches(upload, bench)?;
        bench.control.begin(name, self.options.bytes());
        let watch = Watch::start();
        let (disk, target) = (Arc::clone(self.disk()), Arc::clone(&bench.storage));
        let team = if upload {
            self.copy(bench, &*disk, &*target, (here, there))?
        } else {
            self.copy(bench, &*target, &*disk, (there, self.names("back")))?
        };
        let mut phase = team.into_phase(watch, name);
        let to = if upload { &target } else { &disk };
        phase.durable = (self.options.sync == Sync::End || !to.capabilities().rewrites) && to.capabilities().durable;
        if upload {
            phase.payload = Some(self.payload()?);
        } else {
            self.compare(bench.common)?;
            phase.verified = Some("every byte".into());
        }
        phase.cache = Some(cache);
        Ok(phase)
    }

    /// Files are read and written by plain calls, whatever has opened them.
    fn describe(&self, path: &mut PathTaken) {
        if !path.filesystem.is_empty() {
            own_calls(path, path.direct);
        }
    }

    fn cleanup(&mut self, bench: &mut Bench) -> Result<()> {
        self.disk = None;
        let made = std::mem::take(&mut *self.made.lock().expect("no panic while held"));
        let mut names = self.names("data").into_iter().filter(|name| made.contains(name));
        let removed = names.try_for_each(|name| bench.storage.remove(&name));
        match self.folder.take() {
            Some(folder) => fs::remove_dir_all(&folder).map_err(|e| Error::io("remove", &folder, e))?,
            None => return Ok(()),
        }
        removed
    }
}

impl Copy<'_> {
    /// Drops what is to be read from the page cache.
    fn drop_caches(&self, upload: bool, bench: &Bench) -> Result<Cache> {
        let (storage, names) =
            if upload { (self.disk(), self.names("copy")) } else { (&bench.storage, self.names("data")) };
        storage.evict(&names)?;
        storage.residency(&names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Engine, Moment};
    use crate::trial::Trial;
    use savemark_measure::control::Control;
    use savemark_testing::disk;

    fn trial(target: &Path, disk: &Path, more: &str) -> Trial {
        let text = format!(
            r#"{{"workload":"copy","storage":"posix","direct":false,"target":{target:?},"disk":{disk:?},{more}}}"#
        );
        Trial::parse(&text).unwrap()
    }

    fn left(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn files_go_there_and_come_back() {
        let (there, here) = (disk(), disk());
        for more in [
            r#""items":3,"file_size":10000,"transfer_size":4096"#,
            r#""items":40,"file_size":1,"workers":8"#,
            r#""items":1,"file_size":9000001,"transfer_size":1048576,"sync":"none""#,
        ] {
            let trial = trial(there.path(), here.path(), more);
            let record = Engine::new().run(&trial, &Control::default()).unwrap();
            let names: Vec<_> = record.phases.iter().map(|phase| phase.name.as_str()).collect();
            assert_eq!(names, ["upload", "download"]);
            let options = match &trial.workload {
                super::super::Options::Copy(options) => options,
                _ => unreachable!(),
            };
            for phase in &record.phases {
                assert_eq!(phase.user_bytes, options.bytes(), "{more}");
                assert_eq!(phase.durable, options.sync == Sync::End);
                assert_eq!(phase.operations, options.items * options.file_size.0.div_ceil(options.transfer_size.0));
            }
            assert_eq!(record.phases[1].verified.as_deref(), Some("every byte"));
            assert_eq!((left(there.path()), left(here.path())), (0, 0), "nothing is left");
        }
    }

    /// Through memory that direct I/O takes, and under the name of the calls that ran.
    #[test]
    fn direct_files_are_copied_by_plain_calls() {
        let (there, here) = (disk(), disk());
        let text = |file_size| {
            let (there, here) = (there.path(), here.path());
            let text = format!(r#""target":{there:?},"disk":{here:?},"items":2,"file_size":{file_size}"#);
            Trial::parse(&format!(r#"{{"workload":"copy","storage":"uring","transfer_size":65536,{text}}}"#)).unwrap()
        };
        let path = Engine::new().run(&text(200 << 10), &Control::default()).unwrap().path;
        assert_eq!((path.storage.as_str(), path.direct), ("posix", true));
        assert!(!path.fixed_buffers && !path.registered_files && path.notes.iter().any(|note| note.contains("plain")));
        let error = Engine::new().run(&text(10_000), &Control::default()).unwrap_err();
        assert!(error.kind == savemark_base::Kind::Usage && error.to_string().contains("4KiB"), "{error}");
        assert_eq!((left(there.path()), left(here.path())), (0, 0), "nothing is left");
    }

    #[test]
    fn a_file_that_was_there_before_stays() {
        let (there, here) = (disk(), disk());
        let theirs = there.path().join("savemark-data-00000001.bin");
        fs::write(&theirs, "theirs").unwrap();
        let trial = trial(there.path(), here.path(), r#""items":3,"file_size":10000,"workers":1"#);
        assert!(Engine::new().run(&trial, &Control::default()).is_err());
        assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
        assert_eq!((left(there.path()), left(here.path())), (1, 0), "only ours are removed");
    }

    #[test]
    fn a_changed_byte_is_corrupt() {
        let (there, here) = (disk(), disk());
        let trial = trial(there.path(), here.path(), r#""items":2,"file_size":10000"#);
        let mut around = |moment, phase: &str| {
            if moment == Moment::After && phase == "upload" {
                let path = there.path().join("savemark-data-00000001.bin");
                let mut bytes = fs::read(&path).unwrap();
                bytes[9999] ^= 1;
                fs::write(&path, bytes).unwrap();
            }
            Ok(())
        };
        let error = Engine::new().run_around(&trial, &Control::default(), &mut around).unwrap_err();
        assert_eq!(error.kind, savemark_base::Kind::Corrupt);
        assert!(error.to_string().contains("back-00000001"), "{error}");
        assert_eq!((left(there.path()), left(here.path())), (0, 0), "nothing is left");
    }

    #[test]
    fn what_cannot_be_copied_is_refused() {
        for (more, why) in [
            (r#""disk":null"#, "disk"),
            (r#""disk":"/x","sync":"each""#, "sync"),
            (r#""disk":"/x","sync":"group""#, "sync"),
            (r#""disk":"/x","file_size":0"#, "file_size"),
            (r#""disk":"/x","workers":0"#, "workers"),
        ] {
            let text = format!(r#"{{"workload":"copy","storage":"posix","target":"/y",{more}}}"#);
            let error = Trial::parse(&text).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        let here = disk();
        let trial = trial(here.path(), Path::new("/no/such/place"), r#""items":1"#);
        let error = Engine::new().run(&trial, &Control::default()).unwrap_err();
        assert!(error.to_string().contains("/no/such/place"), "{error}");
        assert_eq!(left(here.path()), 0);
    }
}
