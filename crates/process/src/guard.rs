//! What happens to the program if savemark is killed half-way: a shell waits for that and ends the matter.
//!
//! It reads lines from savemark: `criu PID`, then `done`. If they end before `done`, savemark is dead. CRIU then finds its
//! socket closed and ends by itself; it is never killed while it is inside of the program.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::folder::Folder;
use savemark_base::error::{Error, Result};

const SCRIPT: &str = r#"
signal=$1 root=$2 except=" $3 "
while read -r word value; do
    case $word in criu) criu=$value ;; done) exit ;; esac
done
# Where nobody reaps it, it stays as a zombie.
at_work() { read -r stat <"/proc/$criu/stat" && case $stat in *') Z '*) false ;; esac; }
while [ -n "$criu" ] && at_work; do sleep 0.05; done
[ -f "$root" ] && root=$(cat "$root")
act() {
    for child in $(cat "/proc/$1/task/"*/children); do (act "$child"); done
    case $except in *" $1 "*) ;; *) kill "-$signal" "$1" ;; esac
}
case $root in *[!0-9]*|'') ;; *) act "$root" ;; esac
"#;

/// A watch over the program while savemark has it in its hands.
pub struct Guard {
    shell: Child,
}

impl Guard {
    /// If savemark dies, lets the tree of `root` go on, except for the processes in `except`.
    pub fn go_on(root: i32, except: &[i32], folder: &Folder) -> Result<Self> {
        let except: Vec<String> = except.iter().map(i32::to_string).collect();
        Self::start(&["CONT", &root.to_string(), &except.join(" ")], folder)
    }

    /// If savemark dies, kills the half-restored tree whose root CRIU has written to `pid_file`.
    pub fn kill(pid_file: &Path, folder: &Folder) -> Result<Self> {
        Self::start(&["KILL", &pid_file.to_string_lossy(), ""], folder)
    }

    /// It holds the lock of `folder` too: what is in there is needed until it has ended.
    fn start(words: &[&str], folder: &Folder) -> Result<Self> {
        let lock = folder.as_fd().as_raw_fd();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "savemark-guard"]).args(words).process_group(0);
        // SAFETY: between fork and exec only fcntl is called, on a descriptor that the folder keeps open.
        unsafe {
            command.pre_exec(move || {
                let lock = BorrowedFd::borrow_raw(lock);
                rustix::io::fcntl_setfd(lock, rustix::io::FdFlags::empty()).map_err(Into::into)
            });
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self { shell: spawned.map_err(|e| Error::io("start", Path::new("/bin/sh"), e))? })
    }

    /// Tells which CRIU to wait for.
    pub fn watch(&mut self, criu: u32) -> Result<()> {
        self.say(&format!("criu {criu}\n"))
    }

    fn say(&mut self, line: &str) -> Result<()> {
        let input = self.shell.stdin.as_mut().expect("it is piped");
        input.write_all(line.as_bytes()).map_err(|e| Error::io("speak to", Path::new("/bin/sh"), e))
    }
}

/// The matter is ended: by what savemark did itself.
impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.say("done\n");
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
