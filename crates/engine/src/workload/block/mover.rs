//! What moves the blocks of one worker.

use std::path::Path;
use std::sync::Arc;

use super::checks::BlockChecks;
use super::flush::Flush;
use super::options::BlockOptions;
use super::pattern::{BlockAddress, Choice, Pattern};
use savemark_base::error::Result;
use savemark_base::io::Operation;
use savemark_measure::worker::Meter;
use savemark_storage::File;

/// What moves blocks.
pub trait Mover {
    /// Moves the blocks of `next` until there are no more or the clock shows `until_ns`; nothing is in flight then.
    fn transfer(&mut self, meter: &mut Meter, next: &mut Pattern, until_ns: u64) -> Result<()>;
    /// After the last block: makes durable what is not yet.
    fn flush(&mut self, meter: &mut Meter) -> Result<()>;
}

/// What one worker has, whatever moves its blocks.
pub struct Worker<'a> {
    pub options: &'a BlockOptions,
    /// Open; none where they are moved whole.
    pub files: &'a [Arc<dyn File>],
    pub names: &'a [String],
    pub choice: Choice,
    pub checks: Option<BlockChecks<'a>>,
    pub flush: Flush<'a>,
}

impl Worker<'_> {
    /// Looks at a block that was moved, if somebody asks for it.
    #[inline]
    pub fn look(&mut self, operation: Operation, place: BlockAddress, block: &[u8], meter: &mut Meter) -> Result<()> {
        let Some(checks) = &mut self.checks else { return Ok(()) };
        let file = place.file as usize;
        let path = self.files.get(file).map_or_else(|| Path::new(&self.names[file]), |file| file.path());
        checks.after(operation, place, block, path, meter)
    }
}
