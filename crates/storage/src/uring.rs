//! Files through io_uring: many I/Os in flight from one thread, one system call for a batch of them.

mod queue;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use io_uring::IoUring;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::queue::{Submitted, UringQueue, register_buffers};
use super::directory::{Directory, Queueing};
use super::{File, Queue};
use savemark_base::buffer::Arena;
use savemark_base::error::{Error, Result};
use savemark_base::record::PathTaken;

/// Options of `uring`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UringOptions {
    /// Bypass the page cache (O_DIRECT). Without it a rate may be that of memory.
    pub direct: bool,
    /// Register the workers' buffers with the ring: pinned once, not at each I/O. They count against RLIMIT_MEMLOCK;
    /// `auto` goes without where that is too low, and the record says so.
    pub fixed_buffers: FixedBuffers,
    /// Register the files with the ring: no reference counting at each I/O.
    pub registered_files: bool,
}

impl Default for UringOptions {
    fn default() -> Self {
        Self { direct: true, fixed_buffers: FixedBuffers::Auto, registered_files: true }
    }
}

/// Whether to register buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixedBuffers {
    /// Where the limit on locked memory allows it.
    #[default]
    Auto,
    /// Or fail.
    On,
    /// Never.
    Off,
}

/// Opens the directory `target`, after a trial ring has shown that io_uring works here.
pub fn open(options: &UringOptions, target: &Path) -> Result<Directory> {
    probe()?;
    Directory::open(
        target,
        options.direct,
        Box::new(Ring { options: options.clone(), went_without: OnceLock::new(), submitted: Arc::default() }),
    )
}

/// Whether io_uring works here, and if not, who refuses it.
pub fn probe() -> Result<()> {
    ring(2).map(drop)
}

struct Ring {
    options: UringOptions,
    /// Why a queue was made without fixed buffers, once one was.
    went_without: OnceLock<String>,
    /// What was submitted to rings that are gone.
    submitted: Arc<Submitted>,
}

impl Ring {
    /// The address range registered with `ring`; empty without one.
    fn register(&self, ring: &IoUring, arena: &Arena) -> Result<std::ops::Range<usize>> {
        let start = arena.as_ptr() as usize;
        match (self.options.fixed_buffers, register_buffers(ring, arena)) {
            (_, Ok(())) => Ok(start..start + arena.len()),
            (FixedBuffers::Auto, Err(error)) if error.errno() == Some(libc::ENOMEM) => {
                let hint = "raise the locked-memory limit to use them: ulimit -l unlimited";
                self.went_without.get_or_init(|| format!("no fixed buffers: {error}; {hint}"));
                Ok(0..0)
            }
            (_, Err(error)) => Err(error),
        }
    }
}

impl Queueing for Ring {
    fn describe(&self, path: &mut PathTaken) {
        path.storage = "uring".into();
        path.fixed_buffers = self.submitted.all_fixed();
        path.notes.extend(self.went_without.get().cloned().or_else(|| self.submitted.some_fixed()));
        path.registered_files = self.options.registered_files && self.submitted.count() > 0;
    }
    fn queue(&self, files: &[Arc<dyn File>], depth: u32, arena: &Arc<Arena>) -> Result<Box<dyn Queue>> {
        let ring = ring(depth.max(1).next_power_of_two())?;
        let fixed = match self.options.fixed_buffers {
            FixedBuffers::Off => 0..0,
            _ => self.register(&ring, arena)?,
        };
        Ok(Box::new(UringQueue::new(ring, files, depth, arena, fixed, self.options.registered_files, &self.submitted)?))
    }
}

/// One thread submits and reaps, so the kernel need not lock, and completes only when we ask: no interrupts of our work.
fn ring(depth: u32) -> Result<IoUring> {
    let modern = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        // Or completions that have arrived stay invisible to a wait for none, until the next wait for one.
        .setup_taskrun_flag()
        .setup_cqsize(depth.max(2).next_power_of_two() * 2)
        .build(depth);
    match modern {
        // Kernels before 6.1 do not know these flags; the plain ring is the same path, a little dearer.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => IoUring::new(depth).map_err(refusal),
        other => other.map_err(refusal),
    }
}

fn refusal(source: std::io::Error) -> Error {
    refused(source, &std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default())
}

/// Who refuses io_uring: the sysctl can be read, so what is left is a seccomp filter or an old kernel.
fn refused(source: std::io::Error, sysctl: &str) -> Error {
    let (why, hint) = match (source.raw_os_error(), sysctl.trim()) {
        (Some(libc::ENOMEM), _) => {
            ("the kernel has no locked memory left for the ring", "raise it: ulimit -l unlimited")
        }
        (Some(libc::EPERM), level @ ("1" | "2")) => match level {
            "1" => ("sysctl kernel.io_uring_disabled = 1 forbids it to this user", "sysctl kernel.io_uring_disabled=0"),
            _ => ("sysctl kernel.io_uring_disabled = 2 forbids it to everyone", "sysctl kernel.io_uring_disabled=0"),
        },
        (Some(libc::ENOSYS), "") => {
            ("this kernel has no io_uring, or a seccomp filter hides it", "use Linux 5.10 or later")
        }
        (Some(libc::EPERM | libc::EACCES | libc::ENOSYS), _) => (
            "a seccomp filter forbids it (containers often do)",
            "start the container with a profile that allows io_uring_setup, io_uring_enter and io_uring_register",
        ),
        _ => ("io_uring_setup failed", "see dmesg"),
    };
    let message = format!("io_uring is refused here: {why}. Nothing was written");
    Error { source: Some(source), ..Error::refused(message) }.hint(format!("{hint}; or use --storage posix"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_is_told_apart() {
        for (errno, sysctl, word) in [
            (libc::EPERM, "2\n", "io_uring_disabled = 2"),
            (libc::EPERM, "1\n", "io_uring_disabled = 1"),
            (libc::EPERM, "0\n", "seccomp"),
            (libc::ENOSYS, "0\n", "seccomp"),
            (libc::ENOSYS, "", "no io_uring"),
            (libc::ENOMEM, "0\n", "locked memory"),
        ] {
            let error = refused(std::io::Error::from_raw_os_error(errno), sysctl);
            assert_eq!(error.kind, savemark_base::Kind::Refused);
            assert!(error.to_string().contains(word), "{errno} {sysctl:?}: {error}");
            assert!(error.hint.unwrap().contains("--storage posix"));
        }
    }
}
