//! What everything else of the engine is made of. It knows nothing of storages, checkpoints or this machine.

pub mod buffer;
pub mod clock;
pub mod cpu;
pub mod digest;
pub mod error;
pub mod io;
pub mod leased;
pub mod parallel;
pub mod payload;
pub mod random;
pub mod record;
pub mod schema;
pub mod size;

pub use error::{Error, Kind, Result};
