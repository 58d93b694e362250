//! The savemark engine: measures and moves bytes.
//!
//! A [`trial::Trial`] goes in, a [`record::Record`] comes out. The engine knows no Python and no MPI, and never prints.

pub mod buffer;
pub mod checkpoint;
pub mod codec;
pub mod commands;
pub mod control;
pub mod device;
pub mod error;
pub mod features;
pub mod host;
pub mod measure;
pub mod payload;
pub mod phase;
pub mod process;
mod random;
pub mod ranks;
pub mod record;
pub mod run;
pub mod size;
pub mod storage;
#[cfg(test)]
mod testing;
pub mod threads;
pub mod trial;
pub mod witness;
pub mod worker;
pub mod workload;

pub use error::{Error, Kind, Result};

/// The engine's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
