//! How a trial is measured: phases whose workers start together, and what they count.

pub mod barrier;
pub mod control;
pub mod gate;
pub mod histogram;
pub mod phase;
pub mod ranks;
pub mod read_write;
pub mod schedule_lag;
pub mod timeline;
pub mod worker;
