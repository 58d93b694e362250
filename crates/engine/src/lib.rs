//! The savemark engine: measures and moves bytes.
//!
//! A [`trial::Trial`] goes in, a [`record::Record`] comes out. The engine knows no Python and no MPI, and never prints.

mod bench;
pub mod commands;
pub mod common;
pub mod features;
pub mod record;
pub mod run;
pub mod trial;
pub mod workload;

/// The engine's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
