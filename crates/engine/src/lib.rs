//! The savemark engine: measures and moves bytes.
//!
//! A [`trial::Trial`] goes in, a [`trial::record::Record`] comes out. The engine knows no Python and no MPI, and never prints.

pub mod bench;
pub mod buffer;
pub mod checkpoint;
pub mod clock;
pub mod codec;
pub mod commands;
pub mod common;
pub mod control;
pub mod cpu;
pub mod digest;
pub mod error;
pub mod features;
pub mod gate;
pub mod host;
pub mod measure;
pub mod operation;
mod parallel;
pub mod payload;
pub mod phase;
pub mod process;
mod random;
pub mod ranks;
pub mod record;
pub mod run;
mod schema;
pub mod size;
pub mod storage;
#[cfg(test)]
mod testing;
pub mod trial;
pub mod worker;
pub mod workload;

pub use error::{Error, Kind, Result};

/// The engine's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
