//! What a checkpoint of a program says of itself, beside CRIU's images: its last member.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Manifest, read};
use crate::error::{Error, Result};
use crate::storage::Storage;

/// The member's name.
pub const TABLE: &str = "savemark-process.json";
const FORMAT: &str = "savemark-process";
const VERSION: u32 = 1;
/// What is larger was not written by us.
const BYTES_MAX: u64 = 1 << 28;

/// A saved program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// `savemark-process`.
    pub format: String,
    /// Version of this table.
    pub version: u32,
    /// Number of the process at the top.
    pub root: i32,
    /// Numbers of all of its processes: they must be free for a restore.
    pub processes: Vec<i32>,
    /// Those of them that were stopped when they were saved.
    pub stopped: Vec<i32>,
    /// Those of them whose GPUs were emptied into their memory.
    #[serde(default)]
    pub gpus: Vec<i32>,
    /// How the root was called.
    pub program: String,
    /// Version of CRIU that wrote the images.
    pub criu: String,
    /// Options of CRIU that a restore needs too.
    pub criu_options: Vec<String>,
    /// CRIU's images, in the order in which it wrote them.
    pub files: Vec<Image>,
}

/// An image; its extents are the chunks of the member of this name. An empty one has no member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

impl Table {
    /// Of a program about to be saved.
    pub fn new(tree: &super::tree::Tree, criu: String, criu_options: Vec<String>) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            root: tree.root,
            processes: Vec::new(),
            stopped: tree.stopped().to_vec(),
            gpus: Vec::new(),
            program: super::tree::name(tree.root),
            criu,
            criu_options,
            files: Vec::new(),
        }
    }

    /// The table of a checkpoint.
    ///
    /// # Errors
    /// `Usage` if files or tensors were saved; `Corrupt` if it is not what was saved.
    pub fn of(storage: &dyn Storage, manifest: &Manifest) -> Result<Self> {
        let Some(bytes) = read::member(storage, manifest, TABLE, BYTES_MAX)? else {
            return Err(Error::usage("this is not the checkpoint of a process")
                .hint("to restore files, name the directory to restore them into"));
        };
        let table: Self = serde_json::from_slice(&bytes)
            .map_err(|e| Error::corrupt(format!("{TABLE} is damaged: it is not a table: {e}")))?;
        if table.format != FORMAT || table.version != VERSION {
            return Err(Error::corrupt(format!("{TABLE} has version {} of {}", table.version, table.format))
                .hint("restore it with the savemark that wrote it, or a newer one"));
        }
        Ok(table)
    }
}
