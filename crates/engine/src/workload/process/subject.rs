//! The program that is saved: one of ours, which can be asked, or a command of the user's.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use savemark_base::error::{Error, Result};
use savemark_base::size::Span;
use savemark_process::program::Program;
use savemark_process::tree::{self, Tree};

/// What is saved.
pub(super) enum Subject {
    Ours(Program),
    /// A command of the user's.
    Own(i32),
}

impl Subject {
    pub fn pid(&self) -> i32 {
        match self {
            Self::Ours(program) => program.pid,
            Self::Own(pid) => *pid,
        }
    }

    pub fn own(cmd: &str, ready_after: Span) -> Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("exec {cmd}")]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: setsid may be called between fork and exec.
        unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
        #[allow(clippy::zombie_processes)] // killing the tree reaps it
        let child = command.spawn().map_err(|e| Error::io("start", Path::new("/bin/sh"), e))?;
        let own = Self::Own(child.id() as i32);
        std::thread::sleep(Duration::from_nanos(ready_after.0));
        own.check_alive()?;
        Ok(own)
    }

    pub fn check_alive(&self) -> Result<()> {
        match tree::state(self.pid()) {
            None | Some('Z') => Err(Error::failed(format!("the program (process {}) has ended by itself", self.pid()))
                .hint("cmd: a command that goes on; see what it writes by running it in a terminal")),
            _ => Ok(()),
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Self::Own(pid) = self {
            let _ = Tree::restored(*pid, Vec::new()).kill();
        }
    }
}
