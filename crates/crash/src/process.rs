//! Children of this process, which has one thread, and the mounts that only they and it see.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use savemark_base::{Error, Result};

/// Everything that is made lies below it, on a filesystem in memory.
pub const ROOM: &str = "/mnt";

/// Gives this process mounts of its own, with an empty filesystem in memory at [`ROOM`].
///
/// When the last process here ends, however it ends, the kernel undoes all of it: mounts, loop devices, files.
///
/// # Errors
/// `Refused` without the right to mount.
pub fn enter_room() -> Result<()> {
    die_with_parent();
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    if threads != 1 {
        return Err(Error::refused(format!(
            "a crash test needs a process with one thread, and this one has {threads}"
        )));
    }
    let room = Path::new(ROOM);
    // SAFETY: no thread of this process relies on the shared mounts: it has one thread.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.map_err(|e| {
        Error::refused(format!("crash tests mount filesystems, and this user may not: {e}"))
            .hint("run them as root, on a machine or in a container that may mount")
    })?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)
        .map_err(|e| Error::io("keep to itself the mounts of", Path::new("/"), e))?;
    mount("savemark", room, "tmpfs", "mode=0700")
}

/// Gives a child that serves the device at `served` mounts of its own, without that one.
///
/// Were it killed as the last one in the room, it would have to unmount what lies on its own device, and wait for itself to
/// answer: the kernel gives back a process's mounts before it closes the last of its files. What others mount later in the
/// room is not in these.
pub fn leave_room(served: &Path) -> Result<()> {
    // SAFETY: as above: one thread.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }
        .map_err(|e| Error::io("leave the mounts of", served, e))?;
    rustix::mount::unmount(served, UnmountFlags::DETACH).map_err(|e| Error::io("unmount", served, e))
}

fn die_with_parent() {
    // SAFETY: a call with no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Mounts; see `mount(2)`.
pub fn mount(source: &str, at: &Path, kind: &str, data: &str) -> Result<()> {
    let data = std::ffi::CString::new(data).expect("no zero in it");
    rustix::mount::mount(source, at, kind, MountFlags::empty(), data.as_c_str())
        .map_err(|e| Error::io(&format!("mount {kind} on"), at, e))
}

const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A mount that ends with its owner.
pub struct Mounted(pub std::path::PathBuf);

impl Mounted {
    /// Unmounts; all that was written reaches the device before.
    pub fn unmount(self) -> Result<()> {
        let path = self.0.clone();
        std::mem::forget(self);
        let start = Instant::now();
        loop {
            match rustix::mount::unmount(&path, UnmountFlags::empty()) {
                // A ring of io_uring lives on for a moment after its process, and holds its files.
                Err(Errno::BUSY) if start.elapsed() < STALL_TIMEOUT => std::thread::sleep(Duration::from_millis(1)),
                result => return result.map_err(|e| Error::io("unmount", &path, e)),
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A child; killed when it is dropped.
pub struct Child {
    pid: i32,
    told: Option<File>,
}

/// Runs `work` in a child of its own.
pub fn fork(work: impl FnOnce() -> Result<()>) -> Result<Child> {
    let wrong = |what: &str| Error::io(what, Path::new("a child"), std::io::Error::last_os_error());
    let mut ends: [RawFd; 2] = [0; 2];
    // SAFETY: the array has room for two.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(wrong("make a pipe to"));
    }
    // SAFETY: just made, and nobody else's.
    let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    // SAFETY: this process has one thread, so the child's memory is in no thread's hands.
    match unsafe { libc::fork() } {
        -1 => Err(wrong("start")),
        0 => {
            drop(read);
            die_with_parent();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let result = result.unwrap_or_else(|_| Err(Error::failed("a child panicked; this is a bug in savemark")));
            if let Err(error) = &result {
                let _ = File::from(write).write_all(error.to_string().as_bytes());
            }
            // SAFETY: ends the child here; nothing of the parent's is run twice.
            unsafe { libc::_exit(i32::from(result.is_err())) }
        }
        pid => Ok(Child { pid, told: Some(File::from(read)) }),
    }
}

impl Child {
    /// Waits for its end.
    ///
    /// # Errors
    /// What its work said.
    pub fn wait(mut self) -> Result<()> {
        let mut told = String::new();
        // Ends when the child does.
        let _ = self.told.take().map(|mut pipe| pipe.read_to_string(&mut told));
        match self.reap() {
            0 => Ok(()),
            _ if told.is_empty() => Err(Error::failed("a child of the crash test was killed")),
            _ => Err(Error::failed(told)),
        }
    }

    /// Kills it, at whatever it is.
    pub fn kill(mut self) {
        self.end();
    }

    /// Whether it has ended by itself; it can still be waited for.
    pub fn has_ended(&self) -> bool {
        // SAFETY: zeros are a valid one.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is ours.
        let done = unsafe {
            libc::waitid(libc::P_PID, self.pid as u32, &mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)
        };
        // SAFETY: a child's signal has it.
        done == 0 && unsafe { info.si_pid() } == self.pid
    }

    fn end(&mut self) {
        if self.pid != 0 {
            // SAFETY: a child of ours that was not waited for, so the number is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            self.reap();
        }
    }

    fn reap(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: `status` is ours.
        while unsafe { libc::waitpid(self.pid, &mut status, 0) } == -1
            && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
        {}
        self.pid = 0;
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}
