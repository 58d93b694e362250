//! What uses GPUs, against a stand-in for NVIDIA's libraries: a process loads them once, so these tests have a program of their own.

mod gds;
mod gpu_state;

use std::sync::{Mutex, MutexGuard};

/// Lets one test at a time use the stand-in, for some make it fail.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
