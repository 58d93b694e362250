//! What a trial does. A workload's options and its name stand in one list, [`Options`].
//!
//! To add one: a file with its options struct and its `Workload`, and a line in each function of [`Options`].

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use savemark_base::error::Result;
use savemark_base::record::{PathTaken, Phase};
use savemark_base::schema::named;
use savemark_measure::ranks::Sharing;

pub mod block;
pub mod checkpoint;
pub mod codec;
pub mod copy;
pub mod file_per_process;
pub mod io500;
pub mod iterate;
pub mod memcpy;
pub mod metadata;
pub mod process;
pub mod random;
pub mod sequential;
pub mod shared_file;
pub mod strided;
mod wear_out;

/// Every workload by name, with its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "workload", rename_all = "snake_case")]
pub enum Options {
    /// Save a state durably, then restore it, cold and verified.
    Checkpoint(checkpoint::CheckpointOptions),
    /// Read or write files from front to back.
    Sequential(sequential::SequentialOptions),
    /// Read or write at random offsets of files.
    Random(random::RandomOptions),
    /// Read or write every so many bytes of files.
    Strided(strided::StridedOptions),
    /// Write one file from many workers and read it back, in IOR's geometry.
    SharedFile(shared_file::SharedFileOptions),
    /// Write a file from each worker and read them back, in IOR's geometry.
    FilePerProcess(file_per_process::FilePerProcessOptions),
    /// Create, stat, read, rename and remove many small files.
    Metadata(metadata::MetadataOptions),
    /// Run the twelve phases of IO500: IOR, mdtest and a find, easy and hard.
    Io500(io500::Io500Options),
    /// Solve an equation on many threads, and save the state every few iterations.
    Iterate(iterate::IterateOptions),
    /// Copy files between the target and a directory of this machine, there and back.
    Copy(copy::CopyOptions),
    /// Save a running program with CRIU, kill it, restore it, and ask it whether its memory is right.
    Process(process::ProcessOptions),
    /// Encode and decode a state in memory: what a codec can do without a storage.
    Codec(codec::CodecOptions),
    /// Copy a state in memory: what no storage can beat.
    Memcpy(memcpy::MemcpyOptions),
}

impl Options {
    /// The schema of each workload's options.
    pub(crate) fn schemas() -> Vec<(String, Schema)> {
        vec![
            named::<checkpoint::CheckpointOptions>("checkpoint"),
            named::<sequential::SequentialOptions>("sequential"),
            named::<random::RandomOptions>("random"),
            named::<strided::StridedOptions>("strided"),
            named::<shared_file::SharedFileOptions>("shared_file"),
            named::<file_per_process::FilePerProcessOptions>("file_per_process"),
            named::<metadata::MetadataOptions>("metadata"),
            named::<io500::Io500Options>("io500"),
            named::<iterate::IterateOptions>("iterate"),
            named::<copy::CopyOptions>("copy"),
            named::<process::ProcessOptions>("process"),
            named::<codec::CodecOptions>("codec"),
            named::<memcpy::MemcpyOptions>("memcpy"),
        ]
    }

    /// Checks what the types cannot say.
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Self::Checkpoint(o) => o.validate(),
            Self::Sequential(o) => o.validate(),
            Self::Random(o) => o.validate(),
            Self::Strided(o) => o.validate(),
            Self::SharedFile(o) => o.validate(),
            Self::FilePerProcess(o) => o.validate(),
            Self::Metadata(o) => o.validate(),
            Self::Io500(o) => o.validate(),
            Self::Iterate(o) => o.validate(),
            Self::Copy(o) => o.validate(),
            Self::Process(o) => o.validate(),
            Self::Codec(o) => o.validate(),
            Self::Memcpy(o) => o.validate(),
        }
    }

    /// The workload, ready to be prepared.
    pub(crate) fn build(&self) -> Box<dyn Workload + '_> {
        match self {
            Self::Checkpoint(o) => Box::new(checkpoint::Checkpoint::new(o)),
            Self::Sequential(o) => Box::new(o.build()),
            Self::Random(o) => Box::new(o.build()),
            Self::Strided(o) => Box::new(o.build()),
            Self::SharedFile(o) => Box::new(o.build()),
            Self::FilePerProcess(o) => Box::new(o.build()),
            Self::Metadata(o) => Box::new(metadata::Metadata::new(o)),
            Self::Io500(o) => Box::new(io500::Io500::new(o)),
            Self::Iterate(o) => Box::new(iterate::Iterate::new(o)),
            Self::Copy(o) => Box::new(copy::Copy::new(o)),
            Self::Process(o) => Box::new(process::Process::new(o)),
            Self::Codec(o) => Box::new(codec::Codec::new(o)),
            Self::Memcpy(o) => Box::new(memcpy::Memcpy::new(o)),
        }
    }
}

/// The path of a workload that makes its own system calls on an open directory.
pub(crate) fn own_calls(path: &mut PathTaken, direct: bool) {
    (path.storage, path.direct) = ("posix".into(), direct);
    (path.fixed_buffers, path.registered_files) = (false, false);
    path.notes.push("plain system calls of the workload's own".into());
}

/// The steps of a trial. `run.rs` calls them in this order; cleanup also after an error.
pub(crate) trait Workload {
    /// What several ranks can do with it.
    fn sharing(&self) -> Sharing {
        Sharing::Alone
    }
    /// Everything that must exist before the first clock starts. Returns a phase if it moved bytes to the storage.
    fn prepare(&mut self, bench: &mut Bench) -> Result<Option<Phase>>;
    /// The names of the measured phases, in order.
    fn phases(&self, bench: &Bench) -> Vec<&'static str>;
    /// Runs one of them.
    fn run(&mut self, phase: &str, bench: &mut Bench) -> Result<Phase>;
    /// Corrects the storage's account of the path, where the workload took another one.
    fn describe(&self, _path: &mut PathTaken) {}
    /// Removes what the workload made on the storage, and nothing else.
    fn cleanup(&mut self, bench: &mut Bench) -> Result<()>;
}
