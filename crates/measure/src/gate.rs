//! Where the workers of a phase wait for each other, so that no clock starts before all are ready.

use crate::barrier::Barrier;
use crate::control::Control;
use savemark_base::clock;
use savemark_base::cpu::CpuClock;
use savemark_base::error::Result;

/// Opened once; it knows when that was, and the CPU time of the process from there on.
#[derive(Debug)]
pub struct Gate(Barrier<(u64, CpuClock)>);

impl Gate {
    /// For so many.
    pub fn new(workers: usize) -> Self {
        Self(Barrier::new(workers, (0, CpuClock::start())))
    }

    /// Waits for all workers, the last to come for those of the other ranks, too; returns the common start time.
    pub fn pass(&self, control: &Control) -> Result<u64> {
        let open = |opened: &mut (u64, CpuClock)| {
            control.start_together()?;
            let cpu = CpuClock::start();
            *opened = (clock::now(), cpu);
            Ok(())
        };
        self.0.wait(Some(control), |_| (), open)?;
        Ok(self.opened().0)
    }

    /// Lets all who wait go: one of them will not come.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// When it opened, and the CPU time of the process from there on.
    pub fn opened(&self) -> (u64, CpuClock) {
        self.0.with(|opened| *opened)
    }
}
