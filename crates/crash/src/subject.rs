//! What is put to the test: the solver under each policy, and savemark's own save.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use savemark_base::buffer::Pool;
use savemark_base::payload::PayloadKind;
use savemark_base::{Error, Kind, Result};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::GeneratedState;
use savemark_checkpoint::{RestoreOptions, SaveOptions, restore, save};
use savemark_engine::workload::iterate::save_observer::{self, SaveObserver};
use savemark_engine::workload::iterate::{IterateOptions, Lasts, Policy};
use savemark_measure::control::Control;
use savemark_storage::Storage;
use savemark_storage::posix::PosixOptions;
use savemark_storage::uring::UringOptions;
use serde::{Deserialize, Serialize};

/// Something that saves one generation after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// `savemark save`, with the calls of storage `posix`.
    SavePosix,
    /// The same with `uring`.
    SaveUring,
    /// The solver.
    #[serde(untagged)]
    Solver(Policy),
}

/// What stands in a directory after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The state after this generation, every byte of it.
    Whole(u64),
    /// Something that a restart takes for a state, and that never was one.
    Torn(String),
    /// Nothing that a restart could read.
    Nothing(String),
}

impl Subject {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let policies = Policy::ALL.into_iter().map(Self::Solver);
        policies.chain([Self::SavePosix, Self::SaveUring]).collect()
    }

    /// When a save is durable.
    pub fn lasts(self) -> Lasts {
        if let Self::Solver(policy) = self { policy.lasts() } else { Lasts::OnReturn }
    }

    /// Whether a crash may leave a checkpoint that is neither the old one nor the new one.
    pub fn can_tear(self) -> bool {
        if let Self::Solver(policy) = self { policy.can_tear() } else { false }
    }

    /// What is promised, in words.
    pub fn contract(self) -> &'static str {
        match self {
            Self::Solver(policy) => policy.contract(),
            _ => "durable when it returns; a crash leaves the old or the new, whole and verified",
        }
    }

    /// Saves of a recording: few where each has hundreds of flushes, or is large.
    pub fn saves(self) -> u64 {
        match self {
            Self::Solver(Policy::FsyncEach | Policy::Dsync | Policy::Linked) => 16,
            Self::Solver(Policy::Direct) => 8,
            _ => 40,
        }
    }

    fn options(self, policy: Policy, saves: u64) -> IterateOptions {
        // Rows of 512 bytes, and of a page where pages are needed.
        let side = if policy.is_direct() { 512 } else { 64 };
        IterateOptions { side, workers: 3, iterations: saves, policy, ..Default::default() }
    }

    /// Saves `saves` generations below `root`, and tells the observer.
    pub fn run(self, root: &Path, saves: u64, observer: &dyn SaveObserver) -> Result<()> {
        if let Self::Solver(policy) = self {
            return save_observer::save_all(&self.options(policy, saves), root, observer);
        }
        let storage = self.storage(root)?;
        let options =
            SaveOptions { codec: CodecName::None, level: None, streams: 2, chunk_bytes: 32 << 10, queue_depth: 2 };
        let mut pool = Pool::default();
        for number in 1..=saves {
            observer.begins(number)?;
            save(&generation(number), &*storage, &options, &mut pool, &Control::default())?;
            observer.returned(number)?;
        }
        Ok(())
    }

    fn storage(self, root: &Path) -> Result<Arc<dyn Storage>> {
        let options = match self {
            Self::SavePosix => savemark_storage::Options::Posix(PosixOptions::default()),
            _ => savemark_storage::Options::Uring(UringOptions::default()),
        };
        savemark_storage::open(&options, root)
    }

    /// Gets ready to look at what up to `saves` generations leave.
    pub fn judge(self, saves: u64) -> Result<Judge> {
        let states = match self {
            Self::Solver(policy) => save_observer::states(&self.options(policy, saves))?,
            _ => Vec::new(),
        };
        Ok(Judge { subject: self, saves, states })
    }
}

/// The length of a generation's state tells which one it is.
fn generation(number: u64) -> GeneratedState {
    GeneratedState::new(PayloadKind::Random, number, BYTES + number)
}

const BYTES: u64 = 100_000;

/// Knows the right state of every generation.
pub struct Judge {
    subject: Subject,
    saves: u64,
    states: Vec<Vec<u8>>,
}

impl Judge {
    /// Does what a restart would do with the checkpoint below `root`, and compares.
    pub fn look(&self, root: &Path) -> Found {
        let looked = match self.subject {
            Subject::Solver(policy) => self.solver(policy, root),
            _ => self.restore(root),
        };
        looked.unwrap_or_else(|error| Found::Nothing(error.to_string()))
    }

    fn solver(&self, policy: Policy, root: &Path) -> Result<Found> {
        let options = self.subject.options(policy, self.saves);
        let (generation, state) = save_observer::load(&options, root)?;
        let right = self.states.get((generation as usize).wrapping_sub(1));
        let row = options.side as usize * 8;
        Ok(match right {
            None => Found::Torn(format!("a state of iteration {generation}, which never was")),
            Some(right) if *right == state => Found::Whole(generation),
            Some(right) => {
                let differ = right.chunks(row).zip(state.chunks(row)).filter(|(right, found)| right != found).count();
                Found::Torn(format!("iteration {generation}, with {differ} of {} rows of another", right.len() / row))
            }
        })
    }

    fn restore(&self, root: &Path) -> Result<Found> {
        let storage = self.subject.storage(root)?;
        let manifest = restore::open(&*storage)?;
        let number = manifest.state_bytes.wrapping_sub(BYTES);
        if !(1..=self.saves).contains(&number) {
            return Ok(Found::Torn(format!("a state of {} bytes, which never was", manifest.state_bytes)));
        }
        let options = RestoreOptions { queue_depth: 2, in_place: false };
        match restore(&*storage, &generation(number), &options, &mut Pool::default(), &Control::default()) {
            Ok(_) => Ok(Found::Whole(number)),
            Err(error) if error.kind == Kind::Corrupt => Ok(Found::Nothing(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

/// Where a subject keeps its checkpoint on a filesystem mounted at `at`.
pub fn root(at: &Path) -> PathBuf {
    at.join("checkpoint")
}

/// Makes it, durably: what is tested is the saves.
pub fn make_root(at: &Path) -> Result<()> {
    let root = root(at);
    std::fs::create_dir(&root).map_err(|e| Error::io("make the directory", &root, e))?;
    std::fs::File::open(at).and_then(|opened| opened.sync_all()).map_err(|e| Error::io("sync", at, e))
}
