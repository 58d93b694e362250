//! CPU time of the process and of one thread.

use rustix::time::ClockId;

use super::clock::nanoseconds;

/// CPU time, split as the kernel splits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Nanoseconds in user mode.
    pub user_ns: u64,
    /// Nanoseconds in the kernel on behalf of the process, io_uring's own workers included.
    pub system_ns: u64,
}

/// CPU time that the whole process has used since it started (getrusage, microsecond steps).
pub fn process() -> Cpu {
    // SAFETY: rusage is plain integers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage; RUSAGE_SELF cannot fail with a valid pointer.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    Cpu { user_ns: of_timeval(usage.ru_utime), system_ns: of_timeval(usage.ru_stime) }
}

/// CPU time of the calling thread in nanoseconds, user and kernel together.
pub fn thread_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Measures the process's CPU time from one point on.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock {
    start: Cpu,
}

impl CpuClock {
    /// Starts now.
    pub fn start() -> Self {
        Self { start: process() }
    }

    /// CPU time of the process since the start.
    pub fn elapsed(&self) -> Cpu {
        let now = process();
        Cpu {
            user_ns: now.user_ns.saturating_sub(self.start.user_ns),
            system_ns: now.system_ns.saturating_sub(self.start.system_ns),
        }
    }
}

fn of_timeval(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burn(ns: u64) {
        let start = thread_ns();
        while thread_ns() - start < ns {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn work_shows_in_process_and_thread() {
        let clock = CpuClock::start();
        burn(50_000_000);
        let used = clock.elapsed();
        assert!(used.user_ns + used.system_ns >= 40_000_000, "{used:?}");
    }

    #[test]
    fn sleep_costs_the_thread_nothing() {
        let start = thread_ns();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(thread_ns() - start < 40_000_000);
    }
}
