//! How to save a running program.

use super::dump_receiver::Marks;

/// What becomes of the program when its checkpoint is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It is killed: it goes on where it is restored.
    Kill,
    /// It goes on.
    Run,
}

/// How to save a program.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// The process at the top of it.
    pub pid: i32,
    /// What becomes of it.
    pub after: After,
    /// Options for CRIU, as [`super::criu::options`] reads them.
    pub criu_options: Vec<String>,
    /// Save it although it has a pipe to a process outside, which will be at its end after a restore.
    pub cut_pipes: bool,
}

impl DumpOptions {
    /// With no options for CRIU.
    pub fn new(pid: i32, after: After) -> Self {
        Self { pid, after, criu_options: Vec::new(), cut_pipes: false }
    }
}

/// Readings of the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// The program had gone on undisturbed until then.
    pub start_ns: u64,
    /// Its GPUs are empty, CRIU starts.
    pub criu_ns: u64,
    /// What the peer saw.
    pub marks: Marks,
}
