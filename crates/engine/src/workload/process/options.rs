//! What may be chosen: the program, how it travels, and how the engine saves it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use savemark_base::error::{Error, Result};
use savemark_base::size::{Size, Span};
use savemark_checkpoint::codec::{self, CodecName};
use savemark_checkpoint::limits::check_chunk;
use savemark_checkpoint::{RestoreOptions, SaveOptions};
use savemark_process::program::Kind;

/// Options of `process`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessOptions {
    /// The program: `memory` (one Python process), `threads` (with four), `tree` (four processes with pipes between them). Its
    /// memory is filled with `payload`, and it answers with a checksum.
    pub program: Kind,
    /// A command to run instead (through sh): it cannot be asked, so only CRIU's and the engine's own checks are made.
    pub cmd: Option<String>,
    /// How long the command is left alone before it is saved.
    pub ready_after: Span,
    /// Bytes of memory that the program holds beside its own.
    pub size: Size,
    /// How CRIU's images travel.
    pub mode: Mode,
    /// What happens to a chunk between the program and the storage.
    pub codec: CodecName,
    /// Level of the codec; its default (1) when left out.
    pub level: Option<i32>,
    /// Parallel streams, each a thread with a shard of its own; 0 for one, one step at a time.
    pub streams: u32,
    /// Bytes of an image in a chunk, the unit of codec and checksum, and of I/O.
    pub chunk_size: Size,
    /// Chunks in flight per stream.
    pub queue_depth: u32,
}

/// How CRIU's images travel between the program and the storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Through pipes into the engine, and back.
    #[default]
    Stream,
    /// As files that CRIU itself writes and reads, then synced: no codec, no streams, no checksums.
    Images,
    /// As files in memory (/dev/shm), which are then saved as any files are; restored there first.
    Tmpfs,
    /// As `images`, and restored lazily: the program runs at once, a page comes when it is touched.
    Lazy,
}

impl Mode {
    /// As in a study.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Images => "images",
            Self::Tmpfs => "tmpfs",
            Self::Lazy => "lazy",
        }
    }

    /// CRIU reads and writes the storage's files itself.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Images | Self::Lazy)
    }
}

impl Default for ProcessOptions {
    fn default() -> Self {
        Self {
            program: Kind::Memory,
            cmd: None,
            ready_after: Span(1_000_000_000),
            size: Size(256 << 20),
            mode: Mode::Stream,
            codec: CodecName::None,
            level: None,
            streams: 4,
            chunk_size: Size(1 << 20),
            queue_depth: 2,
        }
    }
}

impl ProcessOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        codec::new(self.codec, self.level, false)?;
        check_chunk(self.chunk_size.0)?;
        if self.streams > 1024 || !(1..=1024).contains(&self.queue_depth) {
            return Err(Error::usage("streams: at most 1024; queue_depth: 1 to 1024"));
        }
        if self.mode.is_plain() && (self.codec != CodecName::None || self.streams != 0) {
            return Err(Error::usage(format!("mode: with {} CRIU writes its files itself", self.mode.name()))
                .hint("use codec none and streams 0"));
        }
        Ok(())
    }

    /// Those of the engine's save.
    pub(super) fn save_options(&self) -> SaveOptions {
        SaveOptions {
            codec: self.codec,
            level: self.level,
            streams: self.streams,
            chunk_bytes: self.chunk_size.0 as usize,
            queue_depth: self.queue_depth,
        }
    }

    /// Those of the engine's restore.
    pub(super) fn restore_options(&self) -> RestoreOptions {
        RestoreOptions { queue_depth: self.queue_depth, in_place: false }
    }
}
