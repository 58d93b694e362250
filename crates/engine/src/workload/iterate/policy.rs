//! The policies by name, and what each promises.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the state of a save is on the device to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasts {
    /// Nothing says when.
    Unknown,
    /// When the next save begins.
    ByTheNext,
    /// When the save returns.
    OnReturn,
}

/// How a save is made to last. All but the last three overwrite one file in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Writes, and leaves the rest to the kernel.
    None,
    /// fsync after every write.
    FsyncEach,
    /// One fsync by the first thread, between two barriers: the published "optimized".
    #[default]
    FsyncLeader,
    /// The same with fdatasync: no flush of what a reader does not need.
    FdatasyncLeader,
    /// Every write is durable when it returns (O_DSYNC).
    Dsync,
    /// Past the page cache (O_DIRECT), and no flush.
    Direct,
    /// sync_file_range by the first thread: pages are written out, nothing is flushed.
    SyncFileRange,
    /// Every write is linked to an fsync in one submission (io_uring).
    Linked,
    /// A thread that wants to be durable joins the fsync that the next one does for all.
    Group,
    /// A new file, fsync, rename over the old one, fsync of the directory.
    Rename,
    /// Two files in turn, each with a checksum and the number of its iteration.
    TwoGenerations,
    /// As rename, by a thread of its own from a copy, while the solver goes on.
    DoubleBuffer,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 12] = [
        Self::None,
        Self::FsyncEach,
        Self::FsyncLeader,
        Self::FdatasyncLeader,
        Self::Dsync,
        Self::Direct,
        Self::SyncFileRange,
        Self::Linked,
        Self::Group,
        Self::Rename,
        Self::TwoGenerations,
        Self::DoubleBuffer,
    ];

    /// What holds when a save has returned, and what a crash can leave.
    pub fn contract(self) -> &'static str {
        match self {
            Self::None => "nothing is durable; a crash leaves any mixture of old and new",
            Self::FsyncEach | Self::Dsync | Self::Linked => {
                "durable when it returns; a crash in the middle of a save leaves a mixture"
            }
            Self::FsyncLeader | Self::FdatasyncLeader => {
                "durable when it returns; a crash before that leaves any mixture"
            }
            Self::Direct => "handed to the device, whose cache may lose it; a crash leaves any mixture",
            Self::SyncFileRange => {
                "handed to the device, whose cache may lose it, as may the filesystem's metadata; any mixture"
            }
            Self::Group => "durable when it returns, for the thread's own band; a crash leaves any mixture of bands",
            Self::Rename => "durable when it returns; a crash leaves the old or the new, whole",
            Self::TwoGenerations => {
                "durable when it returns; a crash leaves the old or the new, and the checksum says which"
            }
            Self::DoubleBuffer => "durable when the next save begins; a crash leaves the old or the one before, whole",
        }
    }

    /// Whether a crash can leave a checkpoint that is neither the old one nor the new one.
    pub fn can_tear(self) -> bool {
        !matches!(self, Self::Rename | Self::TwoGenerations | Self::DoubleBuffer)
    }

    /// When a save is durable.
    pub fn lasts(self) -> Lasts {
        match self {
            Self::None | Self::Direct | Self::SyncFileRange => Lasts::Unknown,
            Self::DoubleBuffer => Lasts::ByTheNext,
            _ => Lasts::OnReturn,
        }
    }

    /// Whether the last save is durable when the solver has ended.
    pub fn is_durable(self) -> bool {
        self.lasts() != Lasts::Unknown
    }

    /// Whether writes bypass the page cache.
    pub fn is_direct(self) -> bool {
        self == Self::Direct
    }
}
