//! Requests whose answers nobody waits for any more: the user has asked for an end.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, select};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use savemark_base::error::{Error, Result};

/// Of one place in a bucket.
pub struct Stop {
    /// What does the requests.
    pub runtime: &'static Runtime,
    stopped: AtomicBool,
    told: Notify,
}

impl Stop {
    /// Of a place whose requests are done by `runtime`.
    pub fn new(runtime: &'static Runtime) -> Self {
        Self { runtime, stopped: AtomicBool::new(false), told: Notify::new() }
    }

    /// Ends all waiting, now and until [`Stop::lift`].
    pub fn set(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    /// Answers are waited for again: what was begun is to be cleaned up.
    pub fn lift(&self) {
        self.stopped.store(false, Ordering::SeqCst);
    }

    /// Waits for a request, on a thread that is not the runtime's.
    ///
    /// # Errors
    /// `Interrupted`; the request is given up.
    pub fn wait<F: Future>(&self, request: F) -> Result<F::Output> {
        self.runtime.block_on(async {
            let mut told = pin!(self.told.notified());
            told.as_mut().enable(); // before the look: whoever stops after it is heard
            if self.stopped.load(Ordering::SeqCst) {
                return Err(Error::interrupted());
            }
            match select(told, pin!(request)).await {
                Either::Left(_) => Err(Error::interrupted()),
                Either::Right((answer, _)) => Ok(answer),
            }
        })
    }
}
