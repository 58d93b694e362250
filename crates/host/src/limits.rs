//! The limits on the number of threads, and which of them is met.

use rustix::process::{Resource, geteuid, getrlimit};

use super::cgroup;
use crate::kernel::read;

/// What to raise so that more threads can be started: the limit that is met now, or else those that there are.
pub fn of_threads() -> Option<String> {
    let number = |path: &str| read(path)?.parse::<u64>().ok();
    let group = cgroup::tasks();
    if let Some(group) = group.as_ref().filter(|group| group.now >= group.most) {
        return Some(group.to_string());
    }
    // `0.00 0.00 0.00 RUNNING/ALL LAST`: threads count.
    let load = read("/proc/loadavg").unwrap_or_default();
    let all = load.split(['/', ' ']).nth(4).and_then(|all| all.parse::<u64>().ok());
    let most = number("/proc/sys/kernel/threads-max");
    let system = most.map(|most| format!("raise the system's limit: sysctl kernel.threads-max (now {most})"));
    if all.zip(most).is_some_and(|(all, most)| all >= most) {
        return system;
    }
    // The superuser is not held to it.
    let own = if geteuid().is_root() { None } else { getrlimit(Resource::Nproc).current };
    let own = own.map(|most| format!("raise this user's limit on processes and threads: ulimit -u (now {most})"));
    own.or_else(|| group.map(|group| group.to_string())).or(system)
}
