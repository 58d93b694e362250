//! The machine that a run was made on, as far as it explains the figures.
//!
//! Facts only, each optional: what the kernel does not tell is `None`, and nothing here fails. Of the environment
//! only `LD_PRELOAD` is looked at (it can replace the I/O calls); mount options lose anything like a password.

pub mod block_device;
pub mod cache;
pub mod cgroup;
mod conditions;
mod cpu;
mod description;
pub mod evidence;
pub mod extents;
pub mod gpu;
mod interposed;
mod kernel;
pub mod limits;
pub mod machine;
mod memory;
pub mod mount;
pub mod nvidia;
mod target;
pub mod threads;
mod topology;

pub use cpu::Cpu;
pub use description::{Host, Limits, describe};
pub use gpu::Gpu;
pub use memory::{Memory, available_bytes};
pub use target::{Disk, Target};
