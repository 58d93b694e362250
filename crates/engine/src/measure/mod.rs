//! What a trial is measured with: clocks, distributions, and the kernel's own counters.

pub mod cache;
pub mod clock;
pub mod cpu;
pub mod device;
pub mod histogram;
pub mod mount;
pub mod timeline;
