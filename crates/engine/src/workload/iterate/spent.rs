//! Where a solver's thread spent its time.

use savemark_base::record::{Stage, ThreadTime};

/// Where a thread's time went. It has no other: the four add up to the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    pub compute_ns: u64,
    pub write_ns: u64,
    /// At barriers.
    pub wait_ns: u64,
    pub sync_ns: u64,
}

impl Spent {
    /// As spans of the wall time `elapsed_ns`: nobody waits for the thread that comes last but to be woken.
    pub fn stages(&self, elapsed_ns: u64) -> Vec<Stage> {
        let wait_ns = elapsed_ns.saturating_sub(self.compute_ns + self.write_ns + self.sync_ns);
        let spans = [("compute", self.compute_ns), ("write", self.write_ns), ("sync", self.sync_ns), ("wait", wait_ns)];
        spans.map(|(name, elapsed_ns)| Stage { name: name.into(), elapsed_ns }).to_vec()
    }

    /// What was spent after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            compute_ns: self.compute_ns - earlier.compute_ns,
            write_ns: self.write_ns - earlier.write_ns,
            wait_ns: self.wait_ns - earlier.wait_ns,
            sync_ns: self.sync_ns - earlier.sync_ns,
        }
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.compute_ns + self.write_ns + self.wait_ns + self.sync_ns
    }

    /// Adds another span.
    pub fn add(&mut self, other: &Self) {
        self.compute_ns += other.compute_ns;
        self.write_ns += other.write_ns;
        self.wait_ns += other.wait_ns;
        self.sync_ns += other.sync_ns;
    }

    /// As thread time, to be summed over threads.
    pub fn add_to(&self, time: &mut ThreadTime) {
        time.compute_ns += self.compute_ns;
        time.write_ns += self.write_ns;
        time.wait_ns += self.wait_ns;
        time.sync_ns += self.sync_ns;
    }
}
