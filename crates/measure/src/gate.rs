//! Where the workers of a phase wait for each other.

use std::sync::{Condvar, Mutex};

use crate::control::Control;
use savemark_base::clock;
use savemark_base::cpu::CpuClock;
use savemark_base::error::{Error, Result};

/// Where workers wait for each other, so that no clock starts before all are ready.
#[derive(Debug)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug)]
struct GateState {
    missing: usize,
    aborted: bool,
    opened_ns: u64,
    cpu: CpuClock,
}

impl Gate {
    /// For so many.
    pub fn new(workers: usize) -> Self {
        Self {
            state: Mutex::new(GateState { missing: workers, aborted: false, opened_ns: 0, cpu: CpuClock::start() }),
            changed: Condvar::new(),
        }
    }

    /// Waits for all workers, the last to come for those of the other ranks, too; returns the common start time.
    pub fn pass(&self, control: &Control) -> Result<u64> {
        let mut state = self.state.lock().expect("no panic while held");
        state.missing = state.missing.saturating_sub(1);
        if state.missing == 0 && state.opened_ns == 0 {
            // Nobody is left who could need the lock: all others wait for the gate to open.
            if let Err(error) = control.start_together() {
                state.aborted = true;
                self.changed.notify_all();
                return Err(error);
            }
            state.cpu = CpuClock::start();
            state.opened_ns = clock::now();
            self.changed.notify_all();
        }
        while state.opened_ns == 0 && !state.aborted {
            state = control.wait(&self.changed, state)?;
        }
        if state.aborted { Err(Error::interrupted()) } else { Ok(state.opened_ns) }
    }

    /// Lets all who wait go: one of them will not come.
    pub fn abort(&self) {
        self.state.lock().expect("no panic while held").aborted = true;
        self.changed.notify_all();
    }

    /// When it opened, and the CPU time of the process from there on.
    pub fn opened(&self) -> (u64, CpuClock) {
        let state = self.state.lock().expect("no panic while held");
        (state.opened_ns, state.cpu)
    }
}
