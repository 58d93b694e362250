//! The directories of the workers, and the names in them.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use savemark_base::error::{Error, Result};

/// How items are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `item-<owner>-<index>` in hexadecimal, of constant length; `name-…` when they were renamed.
    Fixed,
    /// `file.mdtest.<owner>.<index>` as mdtest does, so that a search by name finds as many as there.
    Mdtest,
}

/// Directories of some owners, open: a call relative to one walks no path.
pub struct Directories {
    /// How many there are, of all ranks: one for each owner, or one that all share.
    count: usize,
    open: BTreeMap<usize, (PathBuf, File)>,
    naming: Naming,
}

fn path(root: &Path, index: usize) -> PathBuf {
    root.join(format!("{index:04}"))
}

/// Makes the directories `indices` below `root`.
pub fn make(root: &Path, mut indices: impl Iterator<Item = usize>) -> Result<()> {
    indices.try_for_each(|index| {
        let path = path(root, index);
        std::fs::create_dir(&path).map_err(|e| Error::io("make the directory", &path, e))
    })
}

impl Directories {
    /// Opens those of `owners`, of `count` in all below `root`.
    pub fn open(root: &Path, count: usize, owners: impl Iterator<Item = usize>, naming: Naming) -> Result<Self> {
        let open = |owner: usize| {
            let path = path(root, owner % count);
            let directory = File::open(&path).map_err(|e| Error::io("open the directory", &path, e))?;
            Ok((owner % count, (path, directory)))
        };
        Ok(Self { count, open: owners.map(open).collect::<Result<_>>()?, naming })
    }

    /// That of the items of `owner`: its own, or the one that all share.
    pub fn of(&self, owner: usize) -> (&Path, BorrowedFd<'_>) {
        let (path, directory) = &self.open[&(owner % self.count)];
        (path, directory.as_fd())
    }

    /// How the items in them are called.
    pub fn naming(&self) -> Naming {
        self.naming
    }

    /// Writes everything back, so that it can be dropped from memory.
    pub fn write_back(&self) -> Result<()> {
        let (path, directory) = self.open.values().next().expect("every rank has a worker");
        rustix::fs::syncfs(directory).map_err(|e| Error::io("write back", path, e))
    }
}

/// A name, written in place: no call pays for making it.
pub struct Name {
    bytes: [u8; 48],
    /// Those that are the same for all items of an owner.
    head: usize,
    naming: Naming,
}

impl Name {
    /// Of the first item of `owner`.
    pub fn new(naming: Naming, stem: &[u8; 4], owner: usize) -> Self {
        let head = match naming {
            Naming::Fixed => format!("{}-{owner:04x}-", stem.escape_ascii()),
            Naming::Mdtest => format!("file.mdtest.{owner}."),
        };
        let mut bytes = [0; 48];
        bytes[..head.len()].copy_from_slice(head.as_bytes());
        Self { bytes, head: head.len(), naming }
    }

    /// Of its item `index`.
    #[inline]
    pub fn at(&mut self, index: u64) -> &CStr {
        let digits = match self.naming {
            Naming::Fixed => 8,
            Naming::Mdtest => index.checked_ilog10().unwrap_or(0) as usize + 1,
        };
        let end = self.head + digits;
        let place = &mut self.bytes[self.head..end];
        match self.naming {
            Naming::Fixed => hex(place, index),
            Naming::Mdtest => decimal(place, index),
        }
        self.bytes[end] = 0; // a longer one may have stood there
        CStr::from_bytes_with_nul(&self.bytes[..=end]).expect("one zero, at the end")
    }
}

fn decimal(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
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
            let mut name = Name::new(Naming::Fixed, b"item", owner);
            for index in [0, 1, 255, 65_536, u64::from(u32::MAX)] {
                assert_eq!(name.at(index).to_bytes(), format!("item-{owner:04x}-{index:08x}").as_bytes());
                assert!(names.insert(name.at(index).to_owned()));
            }
        }
    }

    #[test]
    fn names_of_mdtest_have_as_many_digits_as_their_number() {
        let mut name = Name::new(Naming::Mdtest, b"item", 1023);
        for index in [u64::from(u32::MAX), 0, 9, 10, 101, 1_000_000] {
            assert_eq!(name.at(index).to_bytes(), format!("file.mdtest.1023.{index}").as_bytes());
        }
    }
}
