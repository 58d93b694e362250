//! The directories of the workers, and the names in them.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Directories, open: a call relative to one walks no path.
pub struct Directories(Vec<(PathBuf, File)>);

impl Directories {
    /// Makes `count` of them below `root`.
    pub fn make(root: &Path, count: usize) -> Result<Self> {
        let make = |index: usize| {
            let path = root.join(format!("{index:04}"));
            std::fs::create_dir(&path)
                .and_then(|()| File::open(&path))
                .map(|directory| (path.clone(), directory))
                .map_err(|e| Error::io("make the directory", &path, e))
        };
        (0..count).map(make).collect::<Result<_>>().map(Self)
    }

    /// That of the items of `owner`: its own, or the one that all share.
    pub fn of(&self, owner: usize) -> (&Path, BorrowedFd<'_>) {
        let (path, directory) = &self.0[owner % self.0.len()];
        (path, directory.as_fd())
    }

    /// Writes everything back, so that it can be dropped from memory.
    pub fn write_back(&self) -> Result<()> {
        let (path, directory) = &self.0[0];
        rustix::fs::syncfs(directory).map_err(|e| Error::io("write back", path, e))
    }
}

/// `item-<owner>-<index>` in hexadecimal, of constant length, written in place: no call pays for making its name.
pub struct Name([u8; 19]);

impl Name {
    /// Of the first item of `owner`.
    pub fn new(stem: &[u8; 4], owner: usize) -> Self {
        let mut bytes = *b"item-0000-00000000\0";
        bytes[..4].copy_from_slice(stem);
        hex(&mut bytes[5..9], owner as u64);
        Self(bytes)
    }

    /// Of its item `index`.
    pub fn at(&mut self, index: u64) -> &CStr {
        hex(&mut self.0[10..18], index);
        CStr::from_bytes_with_nul(&self.0).expect("one zero, at the end")
    }
}

fn hex(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let mut names = std::collections::BTreeSet::new();
        for owner in [0, 1, 15, 16, 1023] {
            let mut name = Name::new(b"item", owner);
            for index in [0, 1, 255, 65_536, u64::from(u32::MAX)] {
                assert_eq!(name.at(index).to_bytes(), format!("item-{owner:04x}-{index:08x}").as_bytes());
                assert!(names.insert(name.at(index).to_owned()));
            }
        }
    }
}
