//! The block device under a path, and what it did meanwhile (`/proc/diskstats`).

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};

use super::kernel::{self, OpenProcFile, TtlCache};
use super::mount::{self, Mount};
use savemark_base::record;

/// `/proc/diskstats` counts in sectors of 512 bytes, whatever the device's own are.
const SECTOR: u64 = 512;

/// A block device: a partition where the filesystem lies on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Major and minor number.
    pub number: (u32, u32),
    /// Name as in `/proc/diskstats`.
    pub name: String,
}

/// A device's counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    name: String,
    reads: u64,
    sectors_read: u64,
    writes: u64,
    sectors_written: u64,
    flushes: u64,
}

impl BlockDevice {
    /// The device under `path`, which must exist.
    ///
    /// # Errors
    /// Why there is none: a filesystem in memory, on the network, or one that spans several devices.
    pub fn of(path: &Path) -> Result<Self, String> {
        Self::on(path, mount::of(path))
    }

    /// As [`BlockDevice::of`], of a path whose mount was looked up.
    pub fn on(path: &Path, mount: Option<Mount>) -> Result<Self, String> {
        static FOUND: TtlCache<(u64, Option<Mount>), Result<BlockDevice, String>> = TtlCache::new();
        let meta = fs::metadata(path).map_err(|e| format!("cannot look at {}: {e}", path.display()))?;
        FOUND.with((meta.dev(), mount.clone()), || Self::find(path, meta.dev(), mount), Clone::clone)
    }

    fn find(path: &Path, device: u64, mount: Option<Mount>) -> Result<Self, String> {
        let stats = diskstats()?;
        if let Some(device) = Self::named(&stats, device) {
            return Ok(device);
        }
        // btrfs, overlay, tmpfs and nfs have device numbers of their own; btrfs at least says what it is mounted from.
        let mount = mount.ok_or_else(|| format!("no mount found for {}", path.display()))?;
        let source = fs::metadata(&mount.source).ok().filter(|meta| meta.file_type().is_block_device());
        source
            .and_then(|meta| Self::named(&stats, meta.rdev()))
            .ok_or_else(|| format!("{} on {} has no block device", mount.filesystem, mount.source))
    }

    fn named(stats: &str, device: u64) -> Option<Self> {
        let number = (major(device), minor(device));
        let name = line_of(stats, number)?.split_whitespace().nth(2)?.to_string();
        Some(Self { number, name })
    }

    /// The counters now; `None` when the device has gone.
    pub fn snapshot(&self) -> Option<Snapshot> {
        // Its own file in sysfs is made in a fraction of the time of the table of all.
        static OWN: TtlCache<(u32, u32), Option<OpenProcFile>> = TtlCache::new();
        let (major, minor) = self.number;
        let open = || OpenProcFile::open(format!("/sys/dev/block/{major}:{minor}/stat"));
        let own = OWN.with(self.number, open, |file| file.as_ref()?.look(|line| counters(&self.name, line)));
        own.or_else(|| parse(line_of(&diskstats().ok()?, self.number)?))
    }
}

impl Snapshot {
    /// What happened between an earlier snapshot of the same device and this one.
    pub fn since(&self, earlier: &Self) -> record::Device {
        record::Device {
            name: self.name.clone(),
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.sectors_read.saturating_sub(earlier.sectors_read) * SECTOR,
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.sectors_written.saturating_sub(earlier.sectors_written) * SECTOR,
            flushes: self.flushes.saturating_sub(earlier.flushes),
        }
    }
}

fn diskstats() -> Result<String, String> {
    kernel::text("/proc/diskstats").map_err(|e| format!("cannot read /proc/diskstats: {e}"))
}

fn line_of(stats: &str, (major, minor): (u32, u32)) -> Option<&str> {
    stats.lines().find(|line| {
        let mut fields = line.split_whitespace().map(str::parse);
        fields.next() == Some(Ok(major)) && fields.next() == Some(Ok(minor))
    })
}

/// A line of `/proc/diskstats`.
fn parse(line: &str) -> Option<Snapshot> {
    let (_, line) = line.trim_start().split_once(char::is_whitespace)?;
    let (_, line) = line.trim_start().split_once(char::is_whitespace)?;
    let (name, line) = line.trim_start().split_once(char::is_whitespace)?;
    counters(name, line)
}

/// Fields as numbered in the kernel's `Documentation/admin-guide/iostats.rst`, from 1, after the name.
fn counters(name: &str, line: &str) -> Option<Snapshot> {
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let field = |number: usize| fields.get(number - 1).copied();
    Some(Snapshot {
        name: name.to_string(),
        reads: field(1)?,
        sectors_read: field(3)?,
        writes: field(5)?,
        sectors_written: field(7)?,
        // Since Linux 5.5.
        flushes: field(16).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "\
 254       0 vda 100 5 2000 30 200 6 4000 40 0 50 60 7 0 800 9 11 12
 254       1 vda1 1 0 8 0 2 0 16 0 0 0 0
";

    #[test]
    fn reads_new_and_old_lines() {
        let new = parse(line_of(STATS, (254, 0)).unwrap()).unwrap();
        let old = parse(line_of(STATS, (254, 1)).unwrap()).unwrap();
        assert_eq!((old.name.as_str(), old.sectors_written, old.flushes), ("vda1", 16, 0));
        let difference = new.since(&Snapshot { reads: 90, sectors_written: 3000, ..Snapshot::default() });
        let expected = record::Device {
            name: "vda".into(),
            reads: 10,
            read_bytes: 2000 * 512,
            writes: 200,
            written_bytes: 1000 * 512,
            flushes: 11,
        };
        assert_eq!(difference, expected);
        assert_eq!(line_of(STATS, (25, 40)), None);
        assert_eq!(parse("1 2 sda x"), None);
    }

    #[test]
    fn a_devices_own_file_says_what_the_table_says() {
        let Ok(device) = BlockDevice::of(Path::new(env!("CARGO_MANIFEST_DIR"))) else {
            return eprintln!("skipped: the source tree lies on no block device");
        };
        let table = || parse(line_of(&diskstats().unwrap(), device.number).unwrap()).unwrap();
        let (before, own, after) = (table(), device.snapshot().unwrap(), table());
        assert_eq!(own.name, before.name);
        for (low, value, high) in [
            (before.reads, own.reads, after.reads),
            (before.sectors_read, own.sectors_read, after.sectors_read),
            (before.writes, own.writes, after.writes),
            (before.sectors_written, own.sectors_written, after.sectors_written),
            (before.flushes, own.flushes, after.flushes),
        ] {
            assert!((low..=high).contains(&value), "{before:?} {own:?} {after:?}");
        }
    }

    #[test]
    fn memory_filesystems_say_why_they_have_none() {
        let reason = BlockDevice::of(Path::new("/proc/self")).unwrap_err();
        assert!(reason.contains("proc"), "{reason}");
        assert!(BlockDevice::of(Path::new("/no/such/path")).unwrap_err().contains("/no/such/path"));
    }
}
