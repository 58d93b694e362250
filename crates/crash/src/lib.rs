//! What a crash leaves of a checkpoint.
//!
//! Two crashes are played, of every policy of the solver and of savemark's own save:
//!
//! * a **kill**: a process that saves is killed at a random moment;
//! * a **power loss**: a process saves on a real filesystem, on a loop device, on a file whose server ([`fuse`]) writes down
//!   every write and every flush that reaches it ([`log`]). Then devices are made as a failure would have left them ([`points`]):
//!   all that was flushed, and any part of what was not. Each is mounted, so that the filesystem recovers, and the checkpoint
//!   is restored and compared, byte for byte, with the states that the solver was in ([`subject`]).
//!
//! The process under test says beside the device when a save begins and when it has returned, in the order of the writes. So a
//! checkpoint that was promised and is gone is told from one that was never promised ([`verdict`]).
//!
//! A [`run`] needs a process of its own, with one thread, as it forks and lives in mounts of its own ([`process`]).

pub mod disk;
pub mod fuse;
pub mod image;
pub mod kill;
pub mod log;
pub mod points;
pub mod power;
pub mod process;
pub mod random;
pub mod subject;
pub mod verdict;

use savemark_base::{Error, Result};
use serde::{Deserialize, Serialize};

use disk::Filesystem;
use subject::Subject;

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Crash {
    /// The process is killed; the kernel and its cache live on.
    Kill,
    /// The device keeps what was flushed, and a part of what was not.
    Power,
}

/// One subject on one filesystem.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// How it ends.
    pub crash: Crash,
    /// What is tested.
    pub subject: Subject,
    /// On what.
    pub filesystem: Filesystem,
    /// Crashes to play.
    pub points: u32,
    /// Of the random choices.
    pub seed: u64,
    /// Power only: the disk says that it has flushed, and is up to so many entries behind, in their order.
    #[serde(default)]
    pub lag: u32,
}

/// A job and what it found.
#[derive(Debug, Serialize)]
pub struct Done {
    /// What was asked.
    pub job: Job,
    /// What came of it.
    pub report: Found,
}

/// What a job found.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Found {
    /// Of kills.
    Kill(kill::Report),
    /// Of power losses.
    Power(power::Report),
}

/// A subject, its contract and when it lasts.
#[derive(Debug, Serialize)]
pub struct Contract {
    /// What promises.
    pub subject: Subject,
    /// The promise in words.
    pub contract: &'static str,
    /// When a save is durable.
    pub lasts: savemark_engine::workload::iterate::Lasts,
    /// Whether a crash may leave a mixture.
    pub can_tear: bool,
}

/// All that can be tested, and what it promises.
pub fn contracts() -> Vec<Contract> {
    let of = |subject: Subject| Contract {
        subject,
        contract: subject.contract(),
        lasts: subject.lasts(),
        can_tear: subject.can_tear(),
    };
    Subject::all().into_iter().map(of).collect()
}

/// Does the job given as JSON. The process ends soon after: its mounts are its own from now on.
///
/// # Errors
/// `Refused` without the right to mount, or where the process has more than one thread.
pub fn run(job: &str) -> Result<Done> {
    let job: Job = serde_json::from_str(job).map_err(|e| Error::usage(format!("the job: {e}")))?;
    process::enter_room()?;
    let report = match job.crash {
        Crash::Kill => Found::Kill(kill::run(&job)?),
        Crash::Power => Found::Power(power::run(&job)?),
    };
    Ok(Done { job, report })
}
