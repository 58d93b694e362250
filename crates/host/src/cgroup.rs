//! Limits of the control group, versions 1 and 2 (`Documentation/admin-guide/cgroup-v1` and `cgroup-v2.rst`).

use std::fmt;
use std::path::{Path, PathBuf};

use crate::kernel::{OpenProcFile, read};
use savemark_base::record::Limits;

const ROOT: &str = "/sys/fs/cgroup";
/// Version 1 writes "no limit" as the largest number of whole pages; anything near it is none.
const NO_LIMIT: u64 = 1 << 60;

/// The tightest memory limit in bytes of our group and those above it.
pub fn memory_bytes() -> Option<u64> {
    let number = |path: PathBuf| read(path)?.parse().ok().filter(|&limit: &u64| limit < NO_LIMIT);
    let new = groups("").into_iter().filter_map(|dir| number(dir.join("memory.max")));
    let old = groups("memory").into_iter().filter_map(|dir| number(dir.join("memory.limit_in_bytes")));
    new.chain(old).min()
}

/// A group's limit on its tasks: processes and threads.
#[derive(Debug)]
pub struct Tasks {
    /// That there may be.
    pub most: u64,
    /// That there are.
    pub now: u64,
    file: PathBuf,
}

impl fmt::Display for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "raise the control group's limit on threads: {} (now {})", self.file.display(), self.most)
    }
}

/// The limit of our group or of one above it that leaves room for the fewest more tasks.
pub fn tasks() -> Option<Tasks> {
    let of = |dir: PathBuf| {
        let number = |name: &str| read(dir.join(name))?.parse::<u64>().ok();
        Some(Tasks { most: number("pids.max")?, now: number("pids.current")?, file: dir.join("pids.max") })
    };
    let found = groups("").into_iter().chain(groups("pids")).filter_map(of);
    found.min_by_key(|tasks| tasks.most.saturating_sub(tasks.now))
}

/// The tightest CPU quota, in CPUs, of our group and those above it.
pub fn cpus() -> Option<f64> {
    let new = groups("").into_iter().filter_map(|dir| quota(&read(dir.join("cpu.max"))?));
    new.chain(groups("cpu").into_iter().filter_map(|dir| old_quota(&dir))).reduce(f64::min)
}

/// The CPU quota of a group of version 1.
fn old_quota(dir: &Path) -> Option<f64> {
    let (quota_us, period_us) = (read(dir.join("cpu.cfs_quota_us"))?, read(dir.join("cpu.cfs_period_us"))?);
    quota(&format!("{quota_us} {period_us}"))
}

/// Where a group's `cpu.stat` says for how long its quota kept it from running since it was made.
pub struct Throttled {
    file: OpenProcFile,
    name: &'static str,
    unit_ns: u64,
    /// Without one the count stands still.
    pub has_quota: bool,
}

/// Of our group and those above it, where there is such a count; open, to be read often.
pub fn throttled() -> Vec<Throttled> {
    let new = groups("").into_iter().filter_map(|dir| {
        let has_quota = read(dir.join("cpu.max")).is_some_and(|text| quota(&text).is_some());
        Some(Throttled {
            file: OpenProcFile::open(dir.join("cpu.stat"))?,
            name: "throttled_usec",
            unit_ns: 1000,
            has_quota,
        })
    });
    let old = groups("cpu").into_iter().filter_map(|dir| {
        let has_quota = old_quota(&dir).is_some();
        Some(Throttled {
            file: OpenProcFile::open(dir.join("cpu.stat"))?,
            name: "throttled_time",
            unit_ns: 1,
            has_quota,
        })
    });
    new.chain(old).filter(|group| group.ns().is_some()).collect()
}

impl Throttled {
    /// Until now; `None` where the group has gone.
    pub fn ns(&self) -> Option<u64> {
        let value = |line: &str| line.strip_prefix(self.name)?.trim().parse::<u64>().ok();
        Some(self.file.look(|stat| stat.lines().find_map(value))?.saturating_mul(self.unit_ns))
    }
}

/// The tightest limits of our group and those above it on the whole disk `(major, minor)`, and on CPU time.
pub fn limits(disk: Option<(u32, u32)>) -> Limits {
    let mut found = Limits { cpus: cpus(), ..Limits::default() };
    let Some(disk) = disk else { return found };
    for dir in groups("") {
        let line = read(dir.join("io.max")).and_then(|text| of_disk(&text, disk).map(str::to_string));
        for (name, value) in line.iter().flat_map(|line| line.split(' ')).filter_map(|part| part.split_once('=')) {
            let slot = match name {
                "rbps" => &mut found.read_bytes_per_s,
                "wbps" => &mut found.write_bytes_per_s,
                "riops" => &mut found.read_ops_per_s,
                "wiops" => &mut found.write_ops_per_s,
                _ => continue,
            };
            tighten(slot, value);
        }
    }
    for dir in groups("blkio") {
        for (name, slot) in [
            ("read_bps", &mut found.read_bytes_per_s),
            ("write_bps", &mut found.write_bytes_per_s),
            ("read_iops", &mut found.read_ops_per_s),
            ("write_iops", &mut found.write_ops_per_s),
        ] {
            let text = read(dir.join(format!("blkio.throttle.{name}_device")));
            if let Some(value) = text.as_deref().and_then(|text| of_disk(text, disk)) {
                tighten(slot, value);
            }
        }
    }
    found
}

/// What stands behind `MAJOR:MINOR ` on the disk's line.
fn of_disk(text: &str, (major, minor): (u32, u32)) -> Option<&str> {
    let number = format!("{major}:{minor} ");
    text.lines().find_map(|line| line.strip_prefix(&number))
}

/// Takes the lower limit; `max` is none.
fn tighten(slot: &mut Option<u64>, value: &str) {
    if let Ok(limit) = value.trim().parse::<u64>() {
        *slot = Some(slot.map_or(limit, |known| known.min(limit)));
    }
}

/// `QUOTA PERIOD` in microseconds as CPUs; `max` and -1 are no quota.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// Folders of our group of a controller (empty: version 2) and of those above it, up to the root.
fn groups(controller: &str) -> Vec<PathBuf> {
    let own = read("/proc/self/cgroup").and_then(|text| group(&text, controller)).unwrap_or_else(|| "/".into());
    // In a container the path may be the host's, of which only the mounted part is there; missing files read as none.
    let below: Vec<&Path> = Path::new(own.trim_start_matches('/')).ancestors().collect();
    let mounts = if controller.is_empty() { ["", "unified"] } else { [controller, "cpu,cpuacct"] };
    mounts.iter().flat_map(|mount| below.iter().map(move |group| Path::new(ROOT).join(mount).join(group))).collect()
}

/// Our group's path, from lines `ID:CONTROLLERS:PATH`.
fn group(cgroup: &str, controller: &str) -> Option<String> {
    cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then(|| path.to_string())
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A group that was never kept from running.
    pub(crate) fn never_stopped(has_quota: bool) -> Throttled {
        Throttled {
            file: OpenProcFile::open("/proc/self/cgroup").unwrap(),
            name: "throttled_usec",
            unit_ns: 1000,
            has_quota,
        }
    }

    #[test]
    fn quotas_are_cpus() {
        assert_eq!(quota("150000 100000"), Some(1.5));
        assert_eq!(quota("max 100000"), None);
        assert_eq!(quota("-1 100000"), None);
        assert_eq!(quota("100000 0"), None);
    }

    #[test]
    fn limits_of_a_disk_are_told_from_those_of_others() {
        let v2 = "254:16 rbps=1 wbps=2 riops=max wiops=max\n254:1 rbps=max wbps=1048576 riops=max wiops=100";
        assert_eq!(of_disk(v2, (254, 1)), Some("rbps=max wbps=1048576 riops=max wiops=100"));
        assert_eq!(of_disk(v2, (25, 41)), None);
        let mut slot = None;
        for value in ["max", "300", "200", "250"] {
            tighten(&mut slot, value);
        }
        assert_eq!(slot, Some(200));
    }

    #[test]
    fn finds_its_group_in_both_versions() {
        let mixed = "5:cpu,cpuacct:/a\n4:memory:/docker/x:y\n0::/user.slice\n";
        assert_eq!(group(mixed, "memory").as_deref(), Some("/docker/x:y"));
        assert_eq!(group(mixed, "cpu").as_deref(), Some("/a"));
        assert_eq!(group(mixed, "").as_deref(), Some("/user.slice"));
        assert_eq!(group(mixed, "blkio"), None);
    }
}
