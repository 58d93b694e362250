//! Starting threads where the system may refuse them, and saying which limit it met.

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use crate::error::{Error, Result};
use crate::host::limits;

/// Starts `work` as one of `wanted` threads, after `started` of them.
///
/// # Errors
/// How many could not be started, and which limit to raise.
pub fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    (started, wanted): (usize, usize),
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).map_err(|e| refused(started, wanted, e))
}

/// As [`start`], of a single thread that may outlive its caller.
pub fn start_one<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new().spawn(work).map_err(|e| refused(0, 1, e))
}

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

/// Only `started` of `wanted` threads could be started. Called while those still exist: a limit that was met shows as met.
pub fn refused(started: usize, wanted: usize, source: io::Error) -> Error {
    let message = format!("{} of {wanted} threads could not be started", wanted - started);
    let hint = limits::of_threads().unwrap_or_else(|| "raise the limit on memory or on threads".into());
    Error { source: Some(source), ..Error::failed(message) }
        .hint(format!("{hint}; or use fewer --streams or --workers"))
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
