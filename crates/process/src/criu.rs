//! CRIU's command: where it is, whether it can work here, and running it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::explain;
use super::folder::Folder;
use super::limits::LOG_BYTES;
use savemark_base::cpu::Cpu;
use savemark_base::error::{Error, Result};

/// Older ones fail on newer kernels, in ways that look like the program's fault.
const OLDEST: (u32, u32) = (4, 2);
/// Names the command where it is not on PATH.
const VARIABLE: &str = "SAVEMARK_CRIU";
const INSTALL: &str =
    "install CRIU 4.2 or newer (docs/processes.md says how), and put `criu` on PATH or name it in SAVEMARK_CRIU";

/// An installed CRIU that is new enough.
#[derive(Clone, Debug)]
pub struct Criu {
    path: PathBuf,
    /// As it says itself.
    pub version: String,
}

impl Criu {
    /// Looks for it.
    ///
    /// # Errors
    /// `Refused` if it is missing or too old.
    pub fn find() -> Result<Self> {
        let path = place().ok_or_else(|| Error::refused("CRIU is not installed: there is no `criu`").hint(INSTALL))?;
        let asked = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
        let said = asked.map_err(|e| Error::io("start", &path, e))?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let version =
            text.lines().find_map(|line| line.strip_prefix("Version:")).unwrap_or_default().trim().to_string();
        match parsed(&version) {
            Some(found) if found >= OLDEST => Ok(Self { path, version }),
            Some(_) => Err(Error::refused(format!("CRIU {version} is too old: 4.2 or newer is needed")).hint(INSTALL)),
            None => {
                Err(Error::refused(format!("{} is no CRIU: it does not tell its version", path.display()))
                    .hint(INSTALL))
            }
        }
    }

    /// Lets it try what it needs of the kernel.
    ///
    /// # Errors
    /// `Refused`, with CRIU's reason.
    pub fn check(&self) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::refused("CRIU needs root here")
                .hint("run savemark with sudo, or with the capabilities CAP_CHECKPOINT_RESTORE and CAP_SYS_PTRACE"));
        }
        let run = Command::new(&self.path).arg("check").stdin(Stdio::null()).output();
        let said = run.map_err(|e| Error::io("start", &self.path, e))?;
        let log = String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout);
        if said.status.success() { Ok(()) } else { Err(explain::error("check", &log)) }
    }

    /// Starts `criu ACTION` with logs and sockets in `folder`, images in `images` or streamed through `folder`.
    pub fn start(
        &self,
        action: &'static str,
        folder: &Arc<Folder>,
        images: Option<&Path>,
        words: &[String],
    ) -> Result<Running> {
        let output = |name: String| {
            let path = folder.path().join(name);
            File::create(&path).map_err(|e| Error::io("create", &path, e))
        };
        let mut command = Command::new(&self.path);
        command.arg(action).arg("--images-dir").arg(images.unwrap_or(folder.path()));
        command.arg("--work-dir").arg(folder.path()).args(["--log-file", &log_name(action)]).args(words);
        if images.is_none() {
            command.arg("--stream");
        }
        // A group of its own: Ctrl-C is for savemark, which ends CRIU in order.
        command.process_group(0).stdin(Stdio::null());
        let said = output(format!("{action}.out"))?;
        command.stdout(said.try_clone().map_err(|e| Error::io("write", folder.path(), e))?).stderr(said);
        #[allow(clippy::zombie_processes)] // `Running` waits with wait4, for the CPU time
        let child = command.spawn().map_err(|e| Error::io("start", &self.path, e))?;
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| Error::io("watch", &self.path, e))?;
        Ok(Running { action, pid, pidfd, folder: Arc::clone(folder), ended: None })
    }
}

/// The end of a log, where the reason stands.
fn end_of(path: &Path) -> std::io::Result<String> {
    let (mut file, mut bytes) = (File::open(path)?, Vec::new());
    let from = file.metadata()?.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(from))?;
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn log_name(action: &str) -> String {
    format!("{action}.log")
}

fn place() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(known).map(|folder| folder.join("criu"));
    named.or_else(|| places.find(|path| path.is_file()))
}

fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next().and_then(|n| n.ok()).unwrap_or(0)))
}

/// How a CRIU ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// With what it was asked to do done.
    pub good: bool,
    /// Its CPU time, and that of what it waited for.
    pub cpu: Cpu,
}

/// A CRIU at work.
pub struct Running {
    action: &'static str,
    pid: Pid,
    /// Readable once it has ended.
    pub pidfd: OwnedFd,
    folder: Arc<Folder>,
    ended: Option<Ended>,
}

impl Running {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// How it ended; waits up to `most` for that.
    pub fn wait(&mut self, most: Duration) -> Option<Ended> {
        if self.ended.is_none() {
            let limit = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
            let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
            let _ = poll(&mut polled, Some(&limit));
            if polled[0].revents().contains(PollFlags::IN) {
                self.ended = Some(self.reap());
            }
        }
        self.ended
    }

    fn reap(&self) -> Ended {
        // SAFETY: rusage is plain integers, for which zero is valid; both pointers are to live values.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let mut status = 0;
        let reaped = unsafe { libc::wait4(self.pid() as i32, &mut status, 0, &mut usage) };
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        let cpu = Cpu { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) };
        Ended { good: reaped > 0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, cpu }
    }

    /// Waits for its end, as long as the program that it works on takes part of the processor or `most` has not passed.
    pub fn finish(&mut self, most: Duration, cancelled: impl Fn() -> Result<()>) -> Result<Ended> {
        let start = Instant::now();
        loop {
            if let Some(ended) = self.wait(super::POLL_INTERVAL) {
                return if ended.good { Ok(ended) } else { Err(self.failed()) };
            }
            cancelled()?;
            if start.elapsed() > most {
                return Err(stalled(self.action, most));
            }
        }
    }

    /// Why it failed, from its log, which stays.
    pub fn failed(&self) -> Error {
        let path = self.folder.path().join(log_name(self.action));
        let said = |path: &Path| end_of(path).unwrap_or_default();
        let log = said(&path) + &said(&self.folder.path().join(format!("{}.out", self.action)));
        self.folder.keep();
        let error = explain::error(self.action, &log);
        let hint = error.hint.clone().unwrap_or_default();
        error.hint(format!("{hint}. CRIU's log: {}", path.display()))
    }

    /// Ends it. Its sockets and pipes are closed already, so a dump cures the program and ends by itself; what does not is
    /// asked to, and killed in the end.
    pub fn stop(&mut self) {
        let most = super::stall_timeout().min(Duration::from_secs(5));
        let last = Duration::from_secs(60);
        for (signal, stall_timeout) in [(None, most), (Some(Signal::TERM), most), (Some(Signal::KILL), last)] {
            if let Some(signal) = signal {
                // What it started is part of it; a half-restored program is not, and has no owner but this one.
                let below = if self.action == "restore" { super::tree::pids(self.pid() as i32) } else { Vec::new() };
                let _ = kill_process(self.pid, signal);
                below.into_iter().skip(1).for_each(|pid| super::tree::signal(pid, signal));
            }
            if self.wait(stall_timeout).is_some() {
                return;
            }
        }
    }
}

impl AsFd for Running {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// CRIU does nothing any more.
pub fn stalled(action: &str, stall_timeout: Duration) -> Error {
    Error::failed(format!("criu {action} has done nothing for {} s; it was stopped", stall_timeout.as_secs()))
        .hint("try again; if it happens again, its log and `dmesg` may say more")
}

/// Options of CRIU that a user may pass on, and whether a value follows: those that say what may be in a program.
const OPTIONS: [(&str, bool); 11] = [
    ("--shell-job", false),
    ("--tcp-established", false),
    ("--tcp-close", false),
    ("--skip-in-flight", false),
    ("--ext-unix-sk", false),
    ("--file-locks", false),
    ("--link-remap", false),
    ("--evasive-devices", false),
    ("--ghost-limit", true),
    ("--manage-cgroups", true),
    ("--cpu-cap", true),
];

/// Reads options of CRIU as a user writes them: `--shell-job --ghost-limit=64M`.
///
/// # Errors
/// `Usage` for one that is not in the list: a checkpoint keeps them, and none may make CRIU run something else.
pub fn options(text: &str) -> Result<Vec<String>> {
    let known = |word: &str| {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        OPTIONS.iter().any(|(option, valued)| *option == name && *valued == value.is_some_and(|v| !v.is_empty()))
    };
    match text.split_whitespace().find(|word| !known(word)) {
        None => Ok(text.split_whitespace().map(str::to_string).collect()),
        Some(word) => {
            let all = OPTIONS.map(|(name, valued)| format!("{name}{}", if valued { "=VALUE" } else { "" }));
            Err(Error::usage(format!("criu_options: `{word}` is not known"))
                .hint(format!("one of: {}", all.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_options_that_run_something_are_refused() {
        assert_eq!(parsed("4.2.1"), Some((4, 2)));
        assert_eq!(parsed("3.17"), Some((3, 17)));
        assert_eq!(parsed("5"), Some((5, 0)));
        assert_eq!(parsed("none"), None);
        assert_eq!(options(" --shell-job  --ghost-limit=64M ").unwrap(), ["--shell-job", "--ghost-limit=64M"]);
        assert!(options("").unwrap().is_empty());
        for wrong in ["--action-script=/x", "--ghost-limit", "--shell-job=1", "shell-job", "--exec-cmd"] {
            let error = options(wrong).unwrap_err();
            assert!(error.to_string().contains(wrong) && error.hint.unwrap().contains("--shell-job"));
        }
    }
}
