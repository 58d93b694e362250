//! What happens to a chunk between memory and storage: one file per codec.
//!
//! A chunk becomes an *extent*: its encoded bytes, padded to a multiple of [`ALIGN`] so that O_DIRECT can write it.
//! Each codec pads in a way its standard tool skips, so the concatenated extents of a shard are a file
//! that `zstd -dc`, `lz4 -dc`, `gzip -dc` or `tar tf` reads. (`planes` has no standard tool.)

mod gzip;
mod lz4;
mod none;
mod pad;
mod planes;
mod tar;
#[cfg(test)]
mod tests;
mod zlib;
mod zstd;

use std::fmt;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pad::{SKIPPABLE_MIN, is_skippable, is_zero, padded, room, write_skippable};
use savemark_base::buffer::ALIGN;
use savemark_base::error::{Error, Result};

/// Defines [`CodecName`] from the list of codecs: the name in trials, flags and file names is that of the codec's file.
macro_rules! codecs {
    ($($(#[$about:meta])* $variant:ident = $file:ident,)*) => {
        /// The codecs, by the name used in trials, flags and file names.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum CodecName {
            $($(#[$about])* $variant,)*
        }

        impl CodecName {
            /// Every codec, in the order in which tables show them.
            pub const ALL: [Self; [$(stringify!($file)),*].len()] = [$(Self::$variant),*];

            /// The name as written in a trial.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($file),)*
                }
            }

            /// Whether what is stored can be smaller than what was saved.
            pub fn compresses(self) -> bool {
                self.about().compresses
            }

            fn about(self) -> &'static About {
                match self {
                    $(Self::$variant => &$file::ABOUT,)*
                }
            }
        }
    };
}

codecs! {
    /// The bytes as they are, without a copy.
    #[default]
    None = none,
    /// A pax archive, uncompressed, that any `tar` lists and extracts.
    Tar = tar,
    /// LZ4 frames: the cheapest compression.
    Lz4 = lz4,
    /// Zstandard frames (levels -7 to 22).
    Zstd = zstd,
    /// gzip members (levels 0 to 12).
    Gzip = gzip,
    /// zlib streams (levels 0 to 12).
    Zlib = zlib,
    /// Weights split into byte planes, exponents Huffman-coded; zstd for what is not weights.
    Planes = planes,
}

impl fmt::Display for CodecName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What each codec's file says of it, as `ABOUT`.
struct About {
    /// Whether what is stored can be smaller than what was saved.
    compresses: bool,
    /// The levels that a trial may ask for; none where the codec has no level.
    levels: Option<RangeInclusive<i32>>,
    /// A level in that range that a record must not name, because its meaning changes with the library's version.
    vague_level: Option<i32>,
    /// Name and version of the library behind it, as linked; none where the code is ours.
    library: fn() -> Option<String>,
    /// Makes it at a level (1 where there are none); see [`new`] for `sequential`.
    make: fn(level: i32, sequential: bool) -> Result<Box<dyn Codec>>,
}

/// Libraries behind the codecs, with versions, each once.
pub fn libraries() -> Vec<String> {
    let mut libraries: Vec<_> = CodecName::ALL.iter().filter_map(|name| (name.about().library)()).collect();
    libraries.sort();
    libraries.dedup();
    libraries
}

/// A piece of one member (file) of the state inside a chunk.
///
/// Members start on [`ALIGN`] boundaries of the state, so every piece starts on one in its chunk,
/// and only a member's last piece has an odd end.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The member's name: a relative path.
    pub name: &'a str,
    /// Permission bits of the member.
    pub mode: u32,
    /// Size of the whole member.
    pub member_bytes: u64,
    /// Where the piece starts in the member.
    pub offset: u64,
    /// Where the piece starts in the chunk.
    pub start: usize,
    /// Bytes of the piece; 0 only for an empty member.
    pub len: usize,
}

impl Piece<'_> {
    /// Where the piece ends in the chunk.
    pub fn end(&self) -> usize {
        self.start + self.len
    }
    /// Whether the member ends with this piece.
    pub fn is_last(&self) -> bool {
        self.offset + self.len as u64 == self.member_bytes
    }
}

/// The unit of coding: consecutive bytes of the state, and which members they belong to.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The bytes.
    pub user: &'a [u8],
    /// The members in them, in order; bytes between pieces are zero padding.
    pub pieces: &'a [Piece<'a>],
}

/// Turns chunks into extents and back. One object per worker: contexts are made once and reused.
pub trait Codec: Send {
    /// Whether an extent is the chunk itself, so that the caller may write the state's own memory. True only for `none`.
    fn is_identity(&self) -> bool {
        false
    }

    /// Bytes of output that [`encode`](Self::encode) needs for `user` bytes in at most `pieces` pieces, padding included.
    fn bound(&self, user: usize, pieces: usize) -> usize;

    /// Encodes `chunk` into `out`; returns the stored length, a multiple of [`ALIGN`].
    ///
    /// # Errors
    /// `failed` when `out` is smaller than [`bound`](Self::bound); `usage` when a member's name cannot be stored.
    fn encode(&mut self, chunk: &Chunk, out: &mut [u8]) -> Result<usize>;

    /// Decodes exactly `user.len()` bytes from an extent, padding included, with the pieces that it was encoded with.
    ///
    /// # Errors
    /// `corrupt` when the extent is not one that [`encode`](Self::encode) writes for a chunk of this size.
    fn decode(&mut self, stored: &[u8], pieces: &[Piece], user: &mut [u8]) -> Result<()>;

    /// Bytes that end a shard, a multiple of [`ALIGN`]; empty where the format needs none.
    fn trailer(&self) -> &'static [u8] {
        &[]
    }

    /// Ending of a shard's file name, without the dot; empty for `none`.
    fn extension(&self) -> &'static str;

    /// Library, version and level, `libdeflate 1.26 level 1` for example.
    fn library(&self) -> String;
}

/// A codec at a level (`None`: its default). `sequential` says that consecutive chunks go to one shard in order
/// (streams 0), which lets `tar` continue a member across extents.
///
/// # Errors
/// `usage`, naming the range, when the codec has no such level.
pub fn new(name: CodecName, level: Option<i32>, sequential: bool) -> Result<Box<dyn Codec>> {
    let about = name.about();
    (about.make)(about.level(name, level)?, sequential)
}

impl About {
    /// The level asked for, or 1: the fastest usual level, the one a checkpoint can afford.
    fn level(&self, name: CodecName, level: Option<i32>) -> Result<i32> {
        match (level, &self.levels) {
            (None, _) => Ok(1),
            (Some(level), None) => {
                Err(Error::usage(format!("codec {name} has no level (got {level})")).hint("leave out level"))
            }
            (Some(level), Some(range)) if range.contains(&level) && self.vague_level != Some(level) => Ok(level),
            (Some(level), Some(range)) => {
                let except = if self.vague_level == Some(level) { format!(", without {level}") } else { String::new() };
                let (low, high) = (range.start(), range.end());
                let levels = format!("its levels are {low} to {high}{except}");
                Err(Error::usage(format!("codec {name} has no level {level}; {levels}")))
            }
        }
    }
}
