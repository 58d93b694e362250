//! What the whole machine did meanwhile: its processors, the hypervisor, the limits of our control group.

use std::sync::Mutex;

use super::kernel::{OpenProcFile, TtlCache};
use crate::cgroup::{self, Throttled};
use savemark_base::{clock, cpu, record};

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
    static LAST: Mutex<Option<Snapshot>> = Mutex::new(None);
    FILES.with((), Files::open, |files| {
        let mut last = LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !last.as_ref().is_some_and(|last| files.are_as_at(last)) {
            *last = files.look();
        }
        last.clone()
    })
}

/// A look is good for so long at most.
const GOOD_FOR_NS: u64 = 1_000_000;

/// Read around each phase, so they stay open; opened again each second, for a process can be put into another group.
static FILES: TtlCache<(), Files> = TtlCache::new();

struct Files {
    /// In which `/proc/stat` counts.
    tick_ns: u64,
    stat: Option<OpenProcFile>,
    throttled: Vec<Throttled>,
    /// Of each processor.
    thermal: Vec<OpenProcFile>,
}

impl Files {
    fn open() -> Self {
        let of = |cpu: usize| {
            OpenProcFile::open(format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"))
        };
        let thermal = (0..).map_while(of).collect();
        // SAFETY: sysconf has no preconditions.
        let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let tick_ns = 1_000_000_000 / u64::try_from(ticks_per_s).unwrap_or(0).max(1);
        Self { tick_ns, stat: OpenProcFile::open("/proc/stat"), throttled: cgroup::throttled(), thermal }
    }

    fn look(&self) -> Option<Snapshot> {
        let (cpus, busy, steal) = self.stat.as_ref()?.look(parse)?;
        let own = cpu::process();
        Some(Snapshot {
            at_ns: clock::now(),
            cpus,
            busy_ns: busy * self.tick_ns,
            steal_ns: steal * self.tick_ns,
            own_ns: own.user_ns + own.system_ns,
            throttled_ns: self.throttled.iter().filter_map(Throttled::ns).max(),
            thermal_throttles: self.thermal_throttles(),
        })
    }

    /// Whether another look would tell nothing new. `/proc/stat` counts in steps of milliseconds, and the kernel takes as long to
    /// make it as a short phase lasts: a look is good until the processors together have had time for one step. What a quota
    /// takes away is counted at once, and told at once.
    fn are_as_at(&self, last: &Snapshot) -> bool {
        let step_ns = self.tick_ns / u64::from(last.cpus.max(1));
        clock::now() < last.at_ns + step_ns.min(GOOD_FOR_NS) && !self.throttled.iter().any(|group| group.has_quota)
    }

    /// How often the processors have slowed down for heat; `None` where they do not count it (virtual machines, most ARM).
    fn thermal_throttles(&self) -> Option<u64> {
        let counts = self.thermal.iter().filter_map(|file| file.look(|text| text.trim().parse::<u64>().ok()));
        (!self.thermal.is_empty()).then(|| counts.sum())
    }
}

impl Snapshot {
    /// What happened between an earlier snapshot and this one; `None` where that was one look: too short to be told.
    pub fn since(&self, earlier: &Self) -> Option<record::Machine> {
        let more = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        (self.at_ns > earlier.at_ns).then(|| record::Machine {
            elapsed_ns: self.at_ns.saturating_sub(earlier.at_ns),
            cpus: self.cpus,
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            own_ns: self.own_ns.saturating_sub(earlier.own_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
            throttled_ns: more(self.throttled_ns, earlier.throttled_ns),
            thermal_throttles: more(self.thermal_throttles, earlier.thermal_throttles),
        })
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
        let after = snapshot().unwrap().since(&before).unwrap();
        assert!(after.own_ns >= 200_000_000 && after.busy_ns >= 150_000_000, "{after:?}");
        assert!(after.cpus >= 1 && after.elapsed_ns >= 200_000_000, "{after:?}");
    }

    #[test]
    fn a_look_is_good_for_a_step_of_the_counters_unless_a_quota_counts_at_once() {
        let mut files = Files::open();
        let old = |age_ns| Snapshot { at_ns: clock::now() - age_ns, cpus: 1, ..files.look().unwrap() };
        let [new, long_ago] = [0, GOOD_FOR_NS].map(old);
        let many = Snapshot { at_ns: clock::now() - GOOD_FOR_NS / 2, cpus: 1000, ..new.clone() };
        let quota = |has_quota| crate::cgroup::tests::never_stopped(has_quota);
        files.throttled = vec![quota(false)];
        assert!(files.are_as_at(&Snapshot { at_ns: clock::now(), ..new.clone() }));
        assert!(!files.are_as_at(&long_ago) && !files.are_as_at(&many));
        files.throttled.push(quota(true));
        assert!(!files.are_as_at(&Snapshot { at_ns: clock::now(), ..new.clone() }));
        assert_eq!(new.since(&new), None, "one look tells of no time");
    }
}
