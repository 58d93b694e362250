//! The policies: what happens between the end of an iteration's computing and the moment its state is as safe as promised.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::file::{self, HEADER_BYTES};
use super::grid::Grid;
use super::turn::Turn;
use super::{IterateOptions, Policy};
use savemark_base::error::{Error, Result};

mod double_buffer;
mod group;
mod in_place;
mod linked;
mod rename;
mod two_generations;

/// One policy at work.
pub trait Commit: Sync {
    /// Called by every thread at a checkpoint; returns when what the policy promises holds for this thread.
    fn save(&self, turn: &mut Turn) -> Result<()>;

    /// Waits for what is still under way when the solver has ended.
    fn finish(&self) -> Result<()> {
        Ok(())
    }
}

/// The policy that the options name, with its files made below `root`.
pub fn new(options: &IterateOptions, root: &Path, grid: &Grid) -> Result<Box<dyn Commit>> {
    let paths = file::paths(root, options.policy);
    let bytes = HEADER_BYTES + grid.bytes();
    // Durable before the clock starts, with its name: what is measured is saving into a file that is there.
    let open = |path: &PathBuf| {
        let file = create(path, options.policy, bytes)?;
        file.sync_all().map_err(|e| Error::io("make room for", path, e))?;
        if options.policy.is_durable() {
            file::sync_directory(root)?;
        }
        Ok(file)
    };
    Ok(match options.policy {
        Policy::Group => Box::new(group::Group::new(open(&paths[0])?, paths[0].clone())),
        Policy::Linked => Box::new(linked::Linked::new(open(&paths[0])?, paths[0].clone(), options.workers as usize)?),
        Policy::Rename => Box::new(rename::Rename::new(paths[0].clone(), bytes)?),
        Policy::DoubleBuffer => Box::new(double_buffer::DoubleBuffer::new(paths[0].clone(), grid)?),
        Policy::TwoGenerations => {
            let files = [open(&paths[0])?, open(&paths[1])?];
            Box::new(two_generations::TwoGenerations::new(files, [paths[0].clone(), paths[1].clone()]))
        }
        policy => Box::new(in_place::InPlace::new(open(&paths[0])?, paths[0].clone(), policy)),
    })
}

/// A file of `bytes`, so that no write has to grow it.
fn create(path: &Path, policy: Policy, bytes: u64) -> Result<File> {
    let flags = match policy {
        Policy::Direct => OFlags::DIRECT,
        Policy::Dsync => OFlags::DSYNC,
        _ => OFlags::empty(),
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).custom_flags(flags.bits() as i32);
    let file = options.open(path).map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) if policy == Policy::Direct => {
            Error::refused(format!("{} refuses O_DIRECT", path.display())).hint("use another --policy here")
        }
        _ => Error::io("create", path, e),
    })?;
    file.set_len(bytes).map_err(|e| Error::io("make room for", path, e))?;
    Ok(file)
}
