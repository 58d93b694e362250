//! Which mount a path lies on (`/proc/self/mountinfo`, proc_pid_mountinfo(5)).
//!
//! Sources and options end up in records and reports: anything like a password is taken out here, at the source.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// One line of mountinfo, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// Filesystem type, `ext4` for example.
    pub filesystem: String,
    /// What is mounted: a device node, `server:/export`, or a mere word.
    pub source: String,
    /// Options of the mount, then those of the filesystem that differ, separated by commas.
    pub options: String,
}

/// The mount that `path`, which must exist, lies on.
pub fn of(path: &Path) -> Option<Mount> {
    TABLE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).of(path)
}

static TABLE: Mutex<Table> = Mutex::new(Table { file: None, mounts: Vec::new() });

/// All mounts by their numbers, read again when the kernel says that they have changed.
struct Table {
    file: Option<File>,
    mounts: Vec<(u64, Mount)>,
}

impl Table {
    fn of(&mut self, path: &Path) -> Option<Mount> {
        if self.changed() {
            self.read()?;
        }
        let stat = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
        let told = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0; // since Linux 5.8
        if told && let Some((_, mount)) = self.mounts.iter().find(|(number, _)| *number == stat.stx_mnt_id) {
            return Some(mount.clone());
        }
        // Not among the mounts that were open: this process is in another namespace now.
        self.file = None;
        self.read()?;
        find(&self.mounts, &fs::canonicalize(path).ok()?).cloned()
    }

    /// Whether anything was mounted, unmounted or mounted with other options since the last look (proc_pid_mounts(5)).
    fn changed(&self) -> bool {
        let Some(file) = &self.file else { return true };
        let mut asked = [PollFd::new(file, PollFlags::PRI | PollFlags::ERR)];
        !matches!(poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
    }

    fn read(&mut self) -> Option<()> {
        if self.file.is_none() {
            self.file = Some(File::open("/proc/self/mountinfo").ok()?);
        }
        let (file, mut text) = (self.file.as_mut()?, String::new());
        file.rewind().and_then(|()| file.read_to_string(&mut text)).ok()?;
        self.mounts = text.lines().filter_map(parse).collect();
        Some(())
    }
}

/// The innermost mount round `path`; of mounts on one point, the last hides the others.
fn find<'a>(mounts: &'a [(u64, Mount)], path: &Path) -> Option<&'a Mount> {
    let around = mounts.iter().map(|(_, mount)| mount).filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.components().count())
}

/// A mount and its number.
fn parse(line: &str) -> Option<(u64, Mount)> {
    let (left, right) = line.split_once(" - ")?;
    let number = left.split(' ').next()?.parse().ok()?;
    let mut left = left.split(' ').skip(4);
    let (point, mount_options) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (filesystem, source) = (right.next()?, right.next()?);
    let options = match right.next() {
        Some(own) => joined(mount_options, own),
        None => mount_options.to_string(),
    };
    let mount = Mount {
        point: unescape(point).into(),
        filesystem: filesystem.to_string(),
        source: without_user(&unescape(source).to_string_lossy()),
        options: without_secrets(&options),
    };
    Some((number, mount))
}

/// The mount's options, and those of the filesystem that they do not say already.
fn joined(mount: &str, own: &str) -> String {
    let said: Vec<&str> = mount.split(',').collect();
    let more = own.split(',').filter(|option| !option.is_empty() && !said.contains(option));
    said.iter().copied().chain(more).collect::<Vec<_>>().join(",")
}

/// Undoes the kernel's octal escapes of space, tab, newline and backslash.
fn unescape(text: &str) -> OsString {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = text.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (bytes[at], octal) {
            (b'\\', Some(byte)) => {
                plain.push(byte);
                at += 4;
            }
            (byte, _) => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    OsString::from_vec(plain)
}

/// Mount options whose name sounds like a secret keep only the name.
fn without_secrets(options: &str) -> String {
    let clean = |option: &str| match option.split_once('=') {
        Some((name, _)) if ["pass", "secret", "token", "cred", "key"].iter().any(|word| name.contains(word)) => {
            format!("{name}=…")
        }
        _ => option.to_string(),
    };
    options.split(',').map(clean).collect::<Vec<_>>().join(",")
}

/// `scheme://user:password@host/path` without what stands before the `@`.
fn without_user(source: &str) -> String {
    let Some((before, rest)) = source.split_once("://") else { return source.to_string() };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) => format!("{before}://{}", &rest[user.len() + 1..]),
        None => source.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:25 / /data rw - tmpfs tmpfs rw,size=1024k
31 22 0:26 /sub /data rw,noatime - btrfs /dev/vdb1 rw,compress=zstd
32 31 0:27 / /data/with\\040space rw master:2 propagate_from:1 - nfs4 host:/a rw
";

    #[test]
    fn innermost_and_latest_mount_wins() {
        let mounts: Vec<_> = INFO.lines().filter_map(parse).collect();
        let at = |path: &str| find(&mounts, Path::new(path)).unwrap();
        assert_eq!(at("/home/x").source, "/dev/vda");
        assert_eq!(at("/database").source, "/dev/vda");
        assert_eq!(at("/data/x").filesystem, "btrfs");
        assert_eq!(at("/data/x").options, "rw,noatime,compress=zstd");
        assert_eq!(at("/data/with space/x").source, "host:/a");
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn what_is_mounted_later_is_found() {
        let table = || Table { file: None, mounts: Vec::new() };
        let (mut kept, here) = (table(), Path::new("/proc/self"));
        let found = kept.of(here).unwrap();
        assert!(!kept.changed() && kept.of(here).as_ref() == Some(&found));
        // A mount that is not known: as in another namespace.
        kept.mounts.clear();
        assert_eq!(kept.of(here).unwrap(), found);
        let folder = tempfile::tempdir().unwrap();
        let mount = |words: &[&str]| std::process::Command::new("mount").args(words).arg(folder.path()).output();
        if !mount(&["-t", "tmpfs", "tmpfs"]).is_ok_and(|done| done.status.success()) {
            eprintln!("skipped: this process may not mount");
            return;
        }
        let [mounted, changed] = ["rw", "ro"].map(|word| {
            assert!(mount(&["-o", &format!("remount,{word}")]).unwrap().status.success());
            kept.of(folder.path()).unwrap()
        });
        assert!(std::process::Command::new("umount").arg(folder.path()).status().unwrap().success());
        assert_eq!((mounted.point.as_path(), mounted.filesystem.as_str()), (folder.path(), "tmpfs"));
        assert!(mounted.options.starts_with("rw") && changed.options.starts_with("ro"), "{changed:?}");
        assert_ne!(kept.of(folder.path()).unwrap().point, folder.path());
    }

    #[test]
    fn finds_proc_itself() {
        assert_eq!(of(Path::new("/proc/self")).unwrap().filesystem, "proc");
    }

    #[test]
    fn secrets_do_not_survive() {
        let clean = without_secrets("rw,username=ann,password=hunter2,secretkey=abc,passwd_file=/x,vers=3");
        assert_eq!(clean, "rw,username=ann,password=…,secretkey=…,passwd_file=…,vers=3");
        assert_eq!(without_user("https://ann:hunter2@host/a@b"), "https://host/a@b");
        assert_eq!(without_user("/dev/vda"), "/dev/vda");
    }
}
