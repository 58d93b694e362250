//! Where bytes go. A storage is a small trait; its options and its name stand in one list, [`Options`].
//!
//! To add one: a file with its options struct and its [`Storage`], and a line in [`Options`] and [`open`].

#[cfg(test)]
mod conformance;
pub mod directory;
mod file;
pub mod gds;
pub mod memory;
pub mod null;
pub mod object;
mod options;
pub mod posix;
mod queue;
mod storage;
mod synchronous;
mod target;
pub mod uring;

pub use file::File;
pub use options::{Options, open};
pub use queue::{Queue, io_error};
pub use storage::{Capabilities, Lock, NotPut, SMALL_BYTES, Storage, too_long};
pub use target::Target;
