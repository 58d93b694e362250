//! What stands around a measurement, and what happened meanwhile: the same evidence whoever moves the bytes.
//!
//! `savemark_engine::run` looks with it around its own phases. Whoever runs another program around that program's.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::block_device::{self, BlockDevice};
use crate::mount::{self, Mount};
use crate::nvidia::{cufile, nvidia_fs};
use crate::{cache, conditions, extents, machine};
use savemark_base::error::{Error, Result};
use savemark_base::payload::content;
use savemark_base::record::{Cache, Conditions, CuFileCounts, Device, Extents, Machine, Payload};

/// Looks at a directory, the disk below it and the machine.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What it lies on.
    mount: Option<Mount>,
    device: Option<BlockDevice>,
}

/// Counters at one time.
#[derive(Debug)]
pub struct Counters {
    device: Option<block_device::Snapshot>,
    machine: Option<machine::Snapshot>,
    gds_bytes: Option<u64>,
    cufile: Option<CuFileCounts>,
}

/// What happened between two looks.
#[derive(Debug)]
pub struct CountersDelta {
    /// At the disk.
    pub device: Option<Device>,
    /// In the machine.
    pub machine: Option<Machine>,
    /// Bytes that went straight into GPUs, or out of them.
    pub gds_bytes: Option<u64>,
    /// What cuFile counted; absent where it moved nothing.
    pub cufile: Option<CuFileCounts>,
}

impl Evidence {
    /// Of `directory`; without one, of the machine alone.
    pub fn of(directory: Option<&Path>) -> Self {
        let mount = directory.and_then(mount::of);
        Self { device: directory.and_then(|path| BlockDevice::on(path, mount.clone()).ok()), mount }
    }

    /// What can make figures untrue here.
    pub fn conditions(&self) -> Conditions {
        conditions::conditions(self.mount.as_ref(), self.device.as_ref())
    }

    /// The type of the filesystem; empty where there is none.
    pub fn filesystem(&self) -> String {
        self.mount.as_ref().map(|mount| mount.filesystem.clone()).unwrap_or_default()
    }

    /// The counters now.
    pub fn look(&self) -> Counters {
        let device = self.device.as_ref().and_then(BlockDevice::snapshot);
        let cufile = cufile::opened().and_then(cufile::CuFile::counts);
        Counters { device, machine: machine::snapshot(), gds_bytes: nvidia_fs::direct_bytes(), cufile }
    }
}

impl Counters {
    /// What happened between an earlier look and this one.
    pub fn since(self, earlier: Self) -> CountersDelta {
        let cufile = earlier.cufile.zip(self.cufile).map(|(before, after)| after.since(before));
        CountersDelta {
            device: earlier.device.zip(self.device).map(|(before, after)| after.since(&before)),
            machine: earlier.machine.zip(self.machine).and_then(|(before, after)| after.since(&before)),
            gds_bytes: earlier.gds_bytes.zip(self.gds_bytes).map(|(before, after)| after.saturating_sub(before)),
            cufile: cufile.filter(|counts| *counts != CuFileCounts::default()),
        }
    }
}

/// Writes back what is dirty of `files` and asks the page cache to forget them; the effect is told by [`residency`].
pub fn evict(files: &[PathBuf]) -> Result<()> {
    for path in files {
        cache::evict(&open(path)?).map_err(|e| Error::io("drop from the page cache", path, e))?;
    }
    Ok(())
}

/// How much of `files` is in the page cache.
pub fn residency(files: &[PathBuf]) -> Result<Cache> {
    Ok(cache::residency(&opened(files)?))
}

/// Whether `files` have data on the storage.
pub fn extents(files: &[PathBuf]) -> Result<Extents> {
    Ok(extents::of(&opened(files)?))
}

/// What the bytes of `files` look like, from a sample of each; weighed alike.
pub fn content(files: &[PathBuf]) -> Result<Payload> {
    use std::os::unix::fs::FileExt;
    let mut found = Vec::new();
    for path in files {
        let file = open(path)?;
        let bytes = file.metadata().map_err(|e| Error::io("look at", path, e))?.len();
        let read = |offset, block: &mut [u8]| file.read_exact_at(block, offset);
        found.push(content::sample(bytes, read).map_err(|e| Error::io("read", path, e))?);
    }
    let share = |of: fn(&Payload) -> f64| found.iter().map(of).sum::<f64>() / found.len().max(1) as f64;
    Ok(Payload {
        sampled_bytes: found.iter().map(|p| p.sampled_bytes).sum(),
        zero_share: share(|p| p.zero_share),
        repeated_share: share(|p| p.repeated_share),
        entropy_bits: share(|p| p.entropy_bits),
    })
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::io("open", path, e))
}

fn opened(files: &[PathBuf]) -> Result<Vec<File>> {
    files.iter().map(|path| open(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use savemark_testing::disk;

    #[test]
    fn what_others_did_shows_as_our_own_does() {
        let root = disk();
        let evidence = Evidence::of(Some(root.path()));
        let before = evidence.look();
        let path = root.path().join("file");
        std::fs::write(&path, vec![7u8; 4 << 20]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let CountersDelta { device, machine, .. } = evidence.look().since(before);
        assert!(machine.unwrap().elapsed_ns > 0);
        if let Some(device) = device {
            assert!(device.written_bytes >= 4 << 20, "{device:?}");
        }
        assert!(!evidence.filesystem().is_empty() && evidence.conditions().mount.is_some());
    }

    #[test]
    fn files_are_dropped_counted_and_looked_at() {
        let root = disk();
        let files = ["a", "b"].map(|name| root.path().join(name)).to_vec();
        std::fs::write(&files[0], vec![0u8; 1 << 20]).unwrap();
        std::fs::write(&files[1], vec![7u8; 1 << 20]).unwrap();
        let warm = residency(&files).unwrap();
        assert_eq!((warm.total_pages, warm.state.as_str()), (512, "warm"));
        let payload = content(&files).unwrap();
        assert_eq!((payload.zero_share, payload.entropy_bits), (0.5, 0.0));
        evict(&files).unwrap();
        let there = extents(&files).unwrap();
        assert!(there.bytes == 2 << 20 || there.method != "fiemap", "{there:?}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let files = [PathBuf::from("/no/such/file")];
        for error in [
            evict(&files).unwrap_err(),
            residency(&files).unwrap_err(),
            extents(&files).unwrap_err(),
            content(&files).unwrap_err(),
        ] {
            assert!(error.to_string().contains("/no/such/file"), "{error}");
        }
    }
}
