//! What a directory holds: files and directories, in the order in which a walk meets them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Stamp;
use crate::names;
use crate::state::Directory;
use savemark_base::error::{Error, Result};

/// A file: name, bytes, mode, and what tells that it has been written to.
pub type Found = ((String, u64, u32), Stamp);

/// What was found.
#[derive(Default)]
pub struct Walk {
    pub files: Vec<Found>,
    /// Parents before children.
    pub directories: Vec<Directory>,
}

/// A directory whose entries are being looked at: where it is in the tree, and what is left of it.
struct Open {
    prefix: String,
    names: std::vec::IntoIter<OsString>,
}

impl Walk {
    /// Everything below `root`, by name. As deep as a name may be; the stack does not grow with it.
    pub fn below(root: &Path) -> Result<Self> {
        let mut walk = Self::default();
        let mut open = vec![Open::new(root, String::new())?];
        while let Some(directory) = open.last_mut() {
            let Some(name) = directory.names.next() else {
                open.pop();
                continue;
            };
            let path = root.join(&directory.prefix).join(&name);
            let metadata = fs::symlink_metadata(&path).map_err(|e| Error::io("look at", &path, e))?;
            if let Some(name) = walk.entry(&path, &directory.prefix, name, &metadata)? {
                open.push(Open::new(&path, format!("{name}/"))?);
            }
        }
        Ok(walk)
    }

    /// Takes an entry; returns the name of a directory, which is to be looked into.
    pub fn entry(
        &mut self,
        path: &Path,
        prefix: &str,
        name: OsString,
        metadata: &fs::Metadata,
    ) -> Result<Option<String>> {
        let name = name.into_string().map_err(|_| {
            Error::usage(format!("the name of {} is not UTF-8", path.display()))
                .hint("rename it, or save an archive of it")
        })?;
        let (name, mode) = (format!("{prefix}{name}"), metadata.permissions().mode() & 0o7777);
        names::check(&name).map_err(|why| {
            Error::usage(format!("{} cannot be saved: its name {why}", path.display()))
                .hint("save its directory by itself, or an archive of it")
        })?;
        if metadata.is_dir() {
            self.directories.push(Directory { name: name.clone(), mode });
            return Ok(Some(name));
        }
        if !metadata.is_file() {
            return Err(unkept(path));
        }
        self.files.push(((name, metadata.len(), mode), Stamp::of(metadata)));
        Ok(None)
    }
}

impl Open {
    fn new(path: &Path, prefix: String) -> Result<Self> {
        let names = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
        let mut names: Vec<OsString> = names.map_err(|e: io::Error| Error::io("list", path, e))?;
        names.sort_unstable();
        Ok(Self { prefix, names: names.into_iter() })
    }
}

pub fn unkept(path: &Path) -> Error {
    Error::usage(format!("{} is a link or a device, not a file", path.display()))
        .hint("give a directory of plain files; cp -rL resolves links")
}
