//! A running program becomes a checkpoint and comes back: CRIU freezes and rebuilds it, its images go through the engine.
//!
//! `criu dump --stream` writes each image into a pipe. Chunks are read from the pipes straight into the buffers that the
//! codec reads or the device writes: one copy, and memory that does not grow with the program. `criu restore --stream`
//! asks for images by name; their chunks are fetched ahead, verified, and only then written into its pipes.
//!
//! What keeps the program safe:
//! * What ties it to processes outside of it is found before it is killed (`peers.rs`).
//! * CRIU leaves it stopped. It is killed (or goes on) when the checkpoint is durable; if the save fails, it goes on.
//! * CRIU leaves what it restores stopped. It runs when every chunk of the checkpoint has been verified.
//! * A small process of its own does the same if savemark is killed in between (`guard.rs`).

mod catalog;
pub mod criu;
mod criu_socket;
pub mod dump;
mod dump_receiver;
mod explain;
pub mod folder;
mod gpus;
mod guard;
mod image_prefetch;
mod image_writer;
pub mod images;
mod limits;
pub mod options;
mod peers;
pub mod process_manifest;
pub mod program;
mod protocol;
pub mod restore;
mod source;
pub mod stats;
pub mod tree;
mod unix;

pub use dump::save;
pub use options::{After, DumpOptions};
pub use process_manifest::ProcessManifest;
pub use restore::{Restored, restore};

use std::time::Duration;

/// How long CRIU may do nothing while it is waited for, in seconds.
const VARIABLE: &str = "SAVEMARK_CRIU_PATIENCE";

/// How long CRIU may do nothing while it is waited for: a minute if the user does not say. It may hang, or spin for ever.
fn stall_timeout() -> Duration {
    let said = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(said.unwrap_or(60).max(1))
}

/// How long it waits for the other end; then whoever runs the save looks for an order to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
