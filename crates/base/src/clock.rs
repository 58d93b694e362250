//! The two clocks: one to subtract, one to read.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Monotonic time in nanoseconds, from an arbitrary start. CLOCK_MONOTONIC through the vDSO: about 20 ns, no system call.
#[inline]
pub fn now() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Sleeps until [`now`] shows `until_ns`, or a little longer.
pub fn sleep_until(until_ns: u64) {
    let left_ns = until_ns.saturating_sub(now());
    if left_ns > 0 {
        std::thread::sleep(std::time::Duration::from_nanos(left_ns));
    }
}

/// Wall clock in nanoseconds since 1970. It may jump: for people to read, never for subtracting.
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The smallest step seen between two readings of [`now`]: what the clock can tell apart, calls included.
pub fn tick_ns() -> u64 {
    let step = || {
        let start = now();
        (0..1000).map(|_| now() - start).find(|&step| step > 0)
    };
    (0..100).filter_map(|_| step()).min().unwrap_or(u64::MAX)
}

#[inline]
/// What a clock of the kernel shows, in nanoseconds.
pub fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn counts_nanoseconds() {
        let start = now();
        std::thread::sleep(Duration::from_millis(20));
        let elapsed = now() - start;
        assert!((20_000_000..10_000_000_000).contains(&elapsed), "{elapsed}");
    }

    #[test]
    fn wall_clock_is_in_this_century() {
        let year = unix_now() / (365 * 86_400 * 1_000_000_000) + 1970;
        assert!((2024..2100).contains(&year), "{year}");
    }
}
