//! Independent parts of a piece of work, on all usable CPUs.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

/// Most threads of [`share_out`].
const MOST: usize = 16;

/// Calls `work` with each number below `parts`, on as many threads as there are usable CPUs; on this one alone where the
/// system gives no more.
pub fn share_out(parts: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let take = || {
        while let part = next.fetch_add(1, Ordering::Relaxed)
            && part < parts
        {
            work(part);
        }
    };
    let usable = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST).min(parts);
    std::thread::scope(|scope| {
        for _ in 1..usable {
            // Refused, the others do its part.
            let _ = Builder::new().spawn_scoped(scope, take);
        }
        take();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_done_once() {
        for parts in [0, 1, 2, 1000] {
            let done: Vec<_> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
            share_out(parts, |part| {
                done[part].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{parts}: {done:?}");
        }
    }
}
