//! The filesystem under a directory, and the disk under the filesystem.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statvfs, statx};
use serde::Serialize;

use crate::block_device::BlockDevice;
use crate::kernel::{chosen, read};
use crate::mount;
use savemark_base::record::FilesystemClass;

const MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];
const NETWORK: [&str; 17] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "lustre",
    "gpfs",
    "ceph",
    "beegfs",
    "glusterfs",
    "orangefs",
    "pvfs2",
    "wekafs",
    "panfs",
    "afs",
    "9p",
    "virtiofs",
    "vboxsf",
];

/// A target directory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Target {
    /// Canonical path of the directory, or of its nearest parent that exists.
    pub path: PathBuf,
    /// Filesystem type.
    pub filesystem: Option<String>,
    /// What kind of storage it is.
    pub class: Option<FilesystemClass>,
    /// Where it is mounted.
    pub mount_point: Option<PathBuf>,
    /// Options of the mount.
    pub mount_options: Option<String>,
    /// What is mounted there.
    pub source: Option<String>,
    /// Size of the filesystem.
    pub total_bytes: Option<u64>,
    /// Room for an ordinary user.
    pub free_bytes: Option<u64>,
    /// Files that can still be created; absent where the filesystem has no such limit.
    pub free_inodes: Option<u64>,
    /// Alignment of memory for O_DIRECT (statx); absent when it is unknown, 0 when O_DIRECT is refused.
    pub direct_memory_align_bytes: Option<u32>,
    /// Alignment of offsets and lengths for O_DIRECT (statx); absent when it is unknown, 0 when O_DIRECT is refused.
    pub direct_offset_align_bytes: Option<u32>,
    /// The disk.
    pub disk: Option<Disk>,
    /// Why there is no disk.
    pub disk_missing: Option<String>,
}

/// A block device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Disk {
    /// The device that holds the filesystem: a partition, a logical volume or a whole disk.
    pub device: String,
    /// The whole disk's name.
    pub name: String,
    /// Model, where the device states one.
    pub model: Option<String>,
    /// Size of the whole disk.
    pub bytes: Option<u64>,
    /// Whether the kernel takes it for a spinning disk.
    pub rotational: Option<bool>,
    /// I/O scheduler in force.
    pub scheduler: Option<String>,
    /// Requests that its queue holds.
    pub nr_requests: Option<u32>,
    /// Unit of addressing.
    pub logical_block_bytes: Option<u32>,
    /// Unit of writing without a read before.
    pub physical_block_bytes: Option<u32>,
    /// `write back` (a flush costs something) or `write through`.
    pub write_cache: Option<String>,
}

/// Describes the directory, or its nearest parent that exists.
pub fn describe(path: &Path) -> Target {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let existing = absolute.ancestors().find_map(|path| fs::canonicalize(path).ok());
    let path = existing.unwrap_or(absolute);
    let mut target = Target { path: path.clone(), ..Target::default() };
    if let Some(mount) = mount::of(&path) {
        target.class = Some(classify(&mount.filesystem, &mount.source));
        target.filesystem = Some(mount.filesystem);
        target.mount_point = Some(mount.point);
        target.mount_options = Some(mount.options);
        target.source = Some(mount.source);
    }
    if let Ok(space) = statvfs(&path) {
        target.total_bytes = Some(space.f_blocks.saturating_mul(space.f_frsize));
        target.free_bytes = Some(space.f_bavail.saturating_mul(space.f_frsize));
        target.free_inodes = (space.f_files > 0).then_some(space.f_favail);
    }
    (target.direct_memory_align_bytes, target.direct_offset_align_bytes) = direct_alignment(&path).unzip();
    match BlockDevice::of(&path) {
        Ok(device) => target.disk = Some(disk(&device)),
        Err(reason) => target.disk_missing = Some(reason),
    }
    target
}

/// What a filesystem of this type and source is.
pub(super) fn classify(filesystem: &str, source: &str) -> FilesystemClass {
    match filesystem {
        _ if MEMORY.contains(&filesystem) => FilesystemClass::Memory,
        _ if NETWORK.contains(&filesystem) => FilesystemClass::Network,
        _ if filesystem.starts_with("fuse") => FilesystemClass::Fuse,
        "overlay" => FilesystemClass::Overlay,
        // A zfs source is a pool, not a device node.
        "zfs" => FilesystemClass::Disk,
        _ if source.starts_with("/dev/") => FilesystemClass::Disk,
        _ => FilesystemClass::Other,
    }
}

/// Alignment of memory and of offsets for O_DIRECT. The kernel tells it of regular files only, so an unnamed one
/// is opened: it has no name at any time and leaves nothing behind.
fn direct_alignment(dir: &Path) -> Option<(u32, u32)> {
    let mode = Mode::RUSR | Mode::WUSR;
    let file = openat(CWD, dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode).ok()?;
    let stat = statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_said = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    is_said.then_some((stat.stx_dio_mem_align, stat.stx_dio_offset_align))
}

/// The whole disk's folder in sysfs.
pub(super) fn folder_of(path: &Path) -> Option<PathBuf> {
    Some(folder(&BlockDevice::of(path).ok()?))
}

fn folder(device: &BlockDevice) -> PathBuf {
    let link = format!("/sys/dev/block/{}:{}", device.number.0, device.number.1);
    let folder = fs::canonicalize(link).unwrap_or_default();
    // A partition's folder lies in its disk's.
    let is_partition = folder.join("partition").exists();
    if is_partition { folder.parent().unwrap_or(&folder).to_path_buf() } else { folder }
}

/// Major and minor number of the whole disk, which limits are set on.
pub(super) fn whole_disk(device: &BlockDevice) -> (u32, u32) {
    let text = read(folder(device).join("dev"));
    let number = text.as_deref().and_then(|text| text.split_once(':'));
    let parsed = number.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parsed.unwrap_or(device.number)
}

/// `write back` or `write through`, as the disk says.
pub(super) fn write_cache(device: &BlockDevice) -> Option<String> {
    read(folder(device).join("queue/write_cache"))
}

fn disk(device: &BlockDevice) -> Disk {
    let folder = folder(device);
    let field = |name: &str| read(folder.join(name));
    let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok());
    let small = |name: &str| number(name).and_then(|n| u32::try_from(n).ok());
    Disk {
        device: device.name.clone(),
        name: folder.file_name().map_or_else(|| device.name.clone(), |name| name.to_string_lossy().into_owned()),
        model: field("device/model").or_else(|| field("dm/name")),
        // Always in units of 512 bytes.
        bytes: number("size").map(|sectors| sectors * 512),
        rotational: number("queue/rotational").map(|flag| flag != 0),
        scheduler: field("queue/scheduler").map(|text| chosen(&text).unwrap_or(text)),
        nr_requests: small("queue/nr_requests"),
        logical_block_bytes: small("queue/logical_block_size"),
        physical_block_bytes: small("queue/physical_block_size"),
        write_cache: write_cache(device),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filesystems_have_their_class() {
        for (filesystem, source, class) in [
            ("ext4", "/dev/vda", FilesystemClass::Disk),
            ("btrfs", "/dev/mapper/a-b", FilesystemClass::Disk),
            ("tmpfs", "tmpfs", FilesystemClass::Memory),
            ("nfs4", "host:/export", FilesystemClass::Network),
            ("fuse.s3fs", "bucket", FilesystemClass::Fuse),
            ("fuseblk", "/dev/sda1", FilesystemClass::Fuse),
            ("overlay", "overlay", FilesystemClass::Overlay),
            ("proc", "proc", FilesystemClass::Other),
        ] {
            assert_eq!(classify(filesystem, source), class, "{filesystem}");
        }
    }

    #[test]
    fn a_missing_directory_is_described_by_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let target = describe(&dir.path().join("not/yet"));
        assert_eq!(target.path, dir.path().canonicalize().unwrap());
        assert!(target.filesystem.is_some() && target.total_bytes >= target.free_bytes);
        assert!(target.disk.is_some() != target.disk_missing.is_some());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
    }
}
