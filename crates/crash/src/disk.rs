//! Filesystems on loop devices.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use savemark_base::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::process::{Mounted, mount};

/// A filesystem whose recovery is part of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filesystem {
    /// A journal of metadata; data is written before the metadata that names it.
    Ext4,
    /// A log of metadata.
    Xfs,
    /// Copy on write, with a tree of its own for what is synced between two commits.
    Btrfs,
}

impl Filesystem {
    /// As `mount` knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Makes a fresh one in a new file. The sizes are the least that their tools accept; holes cost nothing.
    ///
    /// # Errors
    /// `Failed` if the tool is missing or fails.
    pub fn make(self, image: &Path) -> Result<()> {
        let (mebibytes, arguments): (u64, &[&str]) = match self {
            // Nothing is left for later: what a thread of the kernel fills in would be in the recording.
            Self::Ext4 => (64, &["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
            Self::Xfs => (300, &["-q", "-f"]),
            Self::Btrfs => (128, &["-q", "-f", "-m", "single"]),
        };
        let file = File::create(image).map_err(|e| Error::io("create", image, e))?;
        file.set_len(mebibytes << 20).map_err(|e| Error::io("make room for", image, e))?;
        let tool = format!("mkfs.{}", self.name());
        let made = Command::new(&tool).args(arguments).arg(image).output();
        let made = made.map_err(|e| {
            let package = ["e2fsprogs", "xfsprogs", "btrfs-progs"][self as usize];
            Error::failed(format!("cannot run {tool}: {e}")).hint(format!("install {package}"))
        })?;
        match made.status.success() {
            true => Ok(()),
            false => Err(Error::failed(format!("{tool}: {}", String::from_utf8_lossy(&made.stderr).trim()))),
        }
    }

    /// Mounts the filesystem in the file `image` at `at`, through a loop device that ends with the mount.
    pub fn mount(self, image: &Path, at: &Path) -> Result<Mounted> {
        let (_device, path) = attach(image)?;
        mount(&path.to_string_lossy(), at, self.name(), "")?;
        Ok(Mounted(at.to_path_buf()))
    }
}

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_config`, with the fields of `struct loop_info64` that are not 0.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    before_flags: [u8; 52],
    flags: u32,
    after_flags: [u8; 176],
    reserved: [u64; 8],
}

/// A loop device on `image`; it is free again when the last of this file and a mount ends.
fn attach(image: &Path) -> Result<(File, PathBuf)> {
    let open =
        |path: &Path| OpenOptions::new().read(true).write(true).open(path).map_err(|e| Error::io("open", path, e));
    let (backing, control) = (open(image)?, open(Path::new("/dev/loop-control"))?);
    let wrong = |path: &Path| Error::io("attach a loop device to", path, std::io::Error::last_os_error());
    loop {
        // SAFETY: a call with no memory of ours.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
        if number < 0 {
            return Err(wrong(image));
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open(&path)?;
        let config = LoopConfig {
            fd: backing.as_raw_fd() as u32,
            block_size: 512,
            before_flags: [0; 52],
            flags: LO_FLAGS_AUTOCLEAR,
            after_flags: [0; 176],
            reserved: [0; 8],
        };
        // SAFETY: the structure is as large as the kernel's, and outlives the call.
        if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &config) } == 0 {
            return Ok((device, path));
        }
        // Somebody else was faster: the next free one.
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EBUSY) {
            return Err(wrong(image));
        }
    }
}

const _: () = assert!(size_of::<LoopConfig>() == 8 + 232 + 64);
