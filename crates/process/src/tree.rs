//! A process and its descendants, as /proc tells them.

use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use savemark_base::error::{Error, Result};

/// A process that is to be saved, with all of its descendants.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The process that was named.
    pub root: i32,
    /// Those that somebody had stopped already: they stay so.
    stopped: Vec<i32>,
}

impl Tree {
    /// Looks at the process `root`.
    ///
    /// # Errors
    /// `Usage` if there is none; `Refused` if savemark would freeze itself.
    pub fn of(root: i32) -> Result<Self> {
        if root < 1 || state(root).is_none() {
            return Err(Error::usage(format!("there is no process {root}")).hint("see `ps -e` for its number"));
        }
        if state(root) == Some('Z') {
            return Err(Error::usage(format!(
                "the process {root} has ended; its parent has not asked for its result yet"
            )));
        }
        let all = pids(root);
        if all.contains(&(std::process::id() as i32)) {
            return Err(Error::refused(format!("process {root} is savemark itself, or has started it"))
                .hint("run savemark from another terminal, or name a process below"));
        }
        let stopped = all.into_iter().filter(|pid| matches!(state(*pid), Some('T'))).collect();
        Ok(Self { root, stopped })
    }

    /// A tree that is being restored.
    pub fn restored(root: i32, stopped: Vec<i32>) -> Self {
        Self { root, stopped }
    }

    /// All of it, the root first.
    pub fn pids(&self) -> Vec<i32> {
        pids(self.root)
    }

    /// Those that were stopped before.
    pub fn stopped(&self) -> &[i32] {
        &self.stopped
    }

    /// Lets it go on, except for what was stopped before.
    pub fn go_on(&self) {
        for pid in self.pids().into_iter().filter(|pid| !self.stopped.contains(pid)) {
            signal(pid, Signal::CONT);
        }
    }

    /// Kills it and waits until it has ended. Children of ours are reaped; others may stay as zombies for their parent.
    ///
    /// # Errors
    /// `Failed` if one of them does not end (it waits for a device that does not answer).
    pub fn kill(&self) -> Result<()> {
        let all = self.pids();
        all.iter().for_each(|pid| signal(*pid, Signal::KILL));
        wait(&all, Duration::from_secs(10), true)
    }

    /// Memory that a dump will hold, roughly.
    pub fn memory_bytes(&self) -> u64 {
        self.pids().into_iter().map(|pid| status(pid, "RssAnon:") + status(pid, "RssShmem:")).sum::<u64>() * 1024
    }

    /// CPU time of all of its threads so far.
    pub fn cpu_ns(&self) -> u64 {
        self.pids().into_iter().map(cpu_ns).sum()
    }
}

/// `root` and its descendants; empty if it is gone.
pub fn pids(root: i32) -> Vec<i32> {
    if state(root).is_none() {
        return Vec::new();
    }
    let mut found = vec![root];
    let mut index = 0;
    while let Some(pid) = found.get(index).copied() {
        for task in tasks(pid) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{task}/children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
        index += 1;
    }
    found
}

fn tasks(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The letter of its state: `T` is stopped, `Z` has ended. `None` if there is no such process.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// How the process was called.
pub fn name(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    words.join(" ").trim().to_string()
}

fn status(pid: i32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn cpu_ns(pid: i32) -> u64 {
    let of = |task| fs::read_to_string(format!("/proc/{pid}/task/{task}/schedstat")).ok();
    tasks(pid).into_iter().filter_map(|task| of(task)?.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

/// Sends a signal; a process that is gone is no error.
pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Waits until the numbers `all` are free again; children of ours are reaped.
///
/// # Errors
/// `Failed` if a parent leaves one of them as a zombie.
pub fn wait_gone(all: &[i32], most: Duration) -> Result<()> {
    wait(all, most, false)
}

fn wait(all: &[i32], most: Duration, or_zombie: bool) -> Result<()> {
    let start = Instant::now();
    for pid in all {
        while let Some(now) = state(*pid) {
            let reaped = match Pid::from_raw(*pid) {
                Some(pid) if now == 'Z' => matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_))),
                _ => false,
            };
            if reaped || (or_zombie && now == 'Z') {
                break;
            }
            if start.elapsed() > most {
                return Err(Error::failed(format!("the process {pid} was killed and its number is still in use"))
                    .hint(
                        "its parent has not asked for its result (a zombie): end the parent; see `ps -o ppid= PID`",
                    ));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

/// While it lives this process is the parent of its descendants' orphans: a program that it starts, kills and restores leaves
/// no zombies whose numbers would be in use. Not longer, for nobody waits for those of others.
#[derive(Debug)]
pub struct Adopting(());

/// Those that are alive.
static ADOPTING: Mutex<u32> = Mutex::new(0);

/// Becomes the parent of orphans.
pub fn adopt() -> Adopting {
    adopting(|count| count + 1);
    Adopting(())
}

impl Drop for Adopting {
    fn drop(&mut self) {
        adopting(|count| count - 1);
    }
}

fn adopting(change: impl FnOnce(u32) -> u32) {
    let mut count = ADOPTING.lock().expect("no panic while held");
    *count = change(*count);
    let _ = rustix::process::set_child_subreaper(Pid::from_raw(i32::from(*count > 0)));
}
