//! What a trial is measured with: clocks, distributions, and the kernel's own counters.

pub mod cache;
pub mod clock;
pub mod content;
pub mod cpu;
pub mod device;
pub mod extents;
pub mod histogram;
pub(crate) mod kernel;
pub mod machine;
pub mod mount;
pub mod slip;
pub mod split;
pub mod timeline;
pub mod written;
