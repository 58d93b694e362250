//! Reading and writing files in blocks: what `sequential`, `random` and `strided` are, and what `shared_file` and
//! `file_per_process` are made of.
//!
//! `options` says what is asked for, `files` which files there are, `pattern` which block comes next. `team` starts the
//! workers; each moves its blocks in one of three hot loops: `queued` (many I/Os in flight), `calls` (a call that blocks) or
//! `paced` (open loop, I/Os start when they are due). What costs something for each I/O and is seldom asked for is in `checks`.

mod calls;
mod checks;
mod content;
mod files;
mod flush;
pub mod geometry;
mod mover;
mod options;
mod paced;
mod pattern;
mod queued;
mod stripe;
mod team;
mod workload;

#[cfg(test)]
mod tests;

pub use options::{BlockOptions, Order, Sync};
pub(super) use workload::Block;
