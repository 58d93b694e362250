//! What the whole machine did meanwhile: its processors, the hypervisor, the limits of our control group.

use super::kernel::{Fresh, Kept};
use super::{clock, cpu};
use crate::host::cgroup::{self, Throttled};
use crate::record;

/// Counters of the machine and of this process at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    at_ns: u64,
    cpus: u32,
    busy_ns: u64,
    steal_ns: u64,
    own_ns: u64,
    throttled_ns: Option<u64>,
    thermal_throttles: Option<u64>,
}

/// The counters now; `None` where `/proc/stat` cannot be read.
pub fn snapshot() -> Option<Snapshot> {
    // SAFETY: sysconf has no preconditions.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let tick_ns = 1_000_000_000 / u64::try_from(ticks_per_s).ok().filter(|&ticks| ticks > 0)?;
    FILES.with((), Files::open, |files| {
        let (cpus, busy, steal) = files.stat.as_ref()?.look(parse)?;
        let own = cpu::process();
        Some(Snapshot {
            at_ns: clock::now(),
            cpus,
            busy_ns: busy * tick_ns,
            steal_ns: steal * tick_ns,
            own_ns: own.user_ns + own.system_ns,
            throttled_ns: files.throttled.iter().filter_map(Throttled::ns).max(),
            thermal_throttles: files.thermal_throttles(),
        })
    })
}

/// Read twice in each phase, so they stay open; opened again each second, for a process can be put into another group.
static FILES: Fresh<(), Files> = Fresh::new();

struct Files {
    stat: Option<Kept>,
    throttled: Vec<Throttled>,
    /// Of each processor.
    thermal: Vec<Kept>,
}

impl Files {
    fn open() -> Self {
        let of =
            |cpu: usize| Kept::open(format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"));
        let thermal = (0..).map_while(of).collect();
        Self { stat: Kept::open("/proc/stat"), throttled: cgroup::throttled(), thermal }
    }

    /// How often the processors have slowed down for heat; `None` where they do not count it (virtual machines, most ARM).
    fn thermal_throttles(&self) -> Option<u64> {
        let counts = self.thermal.iter().filter_map(|file| file.look(|text| text.trim().parse::<u64>().ok()));
        (!self.thermal.is_empty()).then(|| counts.sum())
    }
}

impl Snapshot {
    /// What happened between an earlier snapshot and this one.
    pub fn since(&self, earlier: &Self) -> record::Machine {
        let more = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        record::Machine {
            elapsed_ns: self.at_ns.saturating_sub(earlier.at_ns),
            cpus: self.cpus,
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            own_ns: self.own_ns.saturating_sub(earlier.own_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
            throttled_ns: more(self.throttled_ns, earlier.throttled_ns),
            thermal_throttles: more(self.thermal_throttles, earlier.thermal_throttles),
        }
    }
}

/// CPUs, busy ticks and stolen ticks of all of them together (proc_stat(5)). Guests' time is in the user time already.
fn parse(stat: &str) -> Option<(u32, u64, u64)> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = all.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let field = |place: usize| ticks.get(place).copied();
    const BUSY: [usize; 5] = [0, 1, 2, 5, 6]; // user, nice, system, irq, softirq
    let busy = BUSY.into_iter().map(field).sum::<Option<u64>>()?;
    let cpus = stat.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    Some((cpus as u32, busy, field(7).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_ticks_leave_out_idle_waiting_and_stolen_ones() {
        let stat =
            "cpu  10 1 5 1000 50 2 3 7 4 0\ncpu0 5 0 3 500 25 1 1 3 2 0\ncpu1 5 1 2 500 25 1 2 4 2 0\nintr 1 2\n";
        assert_eq!(parse(stat), Some((2, 21, 7)));
        assert_eq!(parse("cpu  1 2\n"), None);
        assert_eq!(parse("intr 1\n"), None);
    }

    #[test]
    fn own_work_shows_in_both_counters() {
        let before = snapshot().unwrap();
        let start = cpu::thread_ns();
        while cpu::thread_ns() - start < 200_000_000 {
            std::hint::spin_loop();
        }
        let after = snapshot().unwrap().since(&before);
        assert!(after.own_ns >= 200_000_000 && after.busy_ns >= 150_000_000, "{after:?}");
        assert!(after.cpus >= 1 && after.elapsed_ns >= 200_000_000, "{after:?}");
    }
}
