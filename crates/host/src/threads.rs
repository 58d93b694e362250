//! Starting threads where the system may refuse them, and saying which limit it met.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use super::limits;
use savemark_base::error::{Error, Result};

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

/// Only `started` of `wanted` threads could be started. Called while those still exist: a limit that was met shows as met.
pub fn refused(started: usize, wanted: usize, source: io::Error) -> Error {
    let message = format!("{} of {wanted} threads could not be started", wanted - started);
    let hint = limits::of_threads().unwrap_or_else(|| "raise the limit on memory or on threads".into());
    Error { source: Some(source), ..Error::failed(message) }
        .hint(format!("{hint}; or use fewer --streams or --workers"))
}
