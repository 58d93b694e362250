//! Saves a running program: freeze, stream, commit, and only then let go of it or kill it.

use super::criu::Criu;
use super::gpus::Gpus;
use super::options::{After, DumpOptions, Times};
use super::peers;
use super::source::Dump;
use super::stats;
use super::tree::Tree;
use savemark_base::buffer::Pool;
use savemark_base::error::{Error, Result};
use savemark_base::record::{Phase, ProcessTimes, Stage};
use savemark_checkpoint::{Manifest, SaveOptions};
use savemark_measure::control::Control;
use savemark_storage::Storage;

/// Saves the program as the checkpoint of `storage`, in place of the one that is there.
///
/// Memory beside that of [`savemark_checkpoint::save`](fn@savemark_checkpoint::save): `workers × (queue depth + 1) + 2` chunks, 64 KiB for each
/// image that CRIU has open at once, and a chunk for each that grows beside another.
///
/// # Errors
/// As [`savemark_checkpoint::save`](fn@savemark_checkpoint::save); `Refused` where the program has peers outside of it, or a GPU that cannot be
/// saved; and CRIU's reasons. In all cases the program goes on, and the previous checkpoint remains.
pub fn save(
    storage: &dyn Storage,
    dump: &DumpOptions,
    options: &SaveOptions,
    pool: &mut Pool,
    control: &Control,
) -> Result<(Manifest, Phase)> {
    let criu = Criu::find()?;
    let tree = Tree::of(dump.pid)?;
    peers::check(&tree, dump)?;
    let gpus = Gpus::of(&tree.pids())?;
    let cpu_before = tree.cpu_ns();
    let mut source = Dump::new(criu, tree, gpus, dump, options)?;
    // Until here nothing has happened to the program; from here on `source` lets it go on when it is dropped.
    let saved = savemark_checkpoint::save(&source, storage, options, pool, control);
    let (manifest, mut phase) = match saved {
        Ok(saved) => saved,
        Err(error) => {
            return Err(match source.let_go() {
                Ok(()) => error,
                Err(stuck) => both(error, &stuck),
            });
        }
    };
    describe(&source, &mut phase, cpu_before);
    if !phase.durable {
        phase.notes.push("the storage is not durable: the program was not killed".into());
    }
    if phase.durable && dump.after == After::Kill {
        if let Err(error) = source.kill() {
            let hint = error.hint.as_deref().unwrap_or_default();
            phase.notes.push(format!("{error}; {hint}"));
        }
    } else {
        source.let_go()?;
    }
    Ok((manifest, phase))
}

/// Why the save failed, and what is wrong with the program since.
fn both(error: Error, stuck: &Error) -> Error {
    let (first, second) = (error.hint.clone().unwrap_or_default(), stuck.hint.clone().unwrap_or_default());
    error.hint(format!("{first}. And the program does not go on: {stuck} ({second})"))
}

/// Splits the time of the transfer, and adds what CRIU and its parasite in the program used.
fn describe(source: &Dump, phase: &mut Phase, cpu_before: u64) {
    let (ended, times) = source.ended();
    let criu = ended.map(|ended| ended.cpu).unwrap_or_default();
    let program_cpu_ns = source.tree.cpu_ns().saturating_sub(cpu_before);
    phase.cpu_user_ns += criu.user_ns;
    phase.cpu_system_ns += criu.system_ns + program_cpu_ns;
    phase.process = Some(ProcessTimes {
        criu: source.criu.version.clone(),
        mode: "stream".into(),
        processes: source.tree.pids().len() as u32,
        criu_cpu_ns: criu.user_ns + criu.system_ns,
        program_cpu_ns,
        stats: stats::read(source.folder.path(), "stats-dump").unwrap_or_default(),
        ..Default::default()
    });
    split(&mut phase.stages, times, source.has_gpu());
}

/// `transfer` began when the workers did: until CRIU was started `gpu` (where there is one), until the first image `freeze`,
/// until the connection was closed `dump`.
fn split(stages: &mut Vec<Stage>, times: Times, has_gpu: bool) {
    let Some(index) = stages.iter().position(|stage| stage.name == "transfer") else { return };
    let mut left = stages[index].elapsed_ns;
    let mut part = |name: &str, from: u64, to: u64| {
        let elapsed_ns = to.saturating_sub(from).min(left);
        left -= elapsed_ns;
        Stage { name: name.into(), elapsed_ns }
    };
    let Times { start_ns, criu_ns, marks } = times;
    let gpu = has_gpu.then(|| part("gpu", start_ns, criu_ns));
    let freeze = part("freeze", if has_gpu { criu_ns } else { start_ns }, marks.first_ns);
    let dump = part("dump", marks.first_ns, marks.closed_ns);
    let transfer = Stage { name: "transfer".into(), elapsed_ns: left };
    stages.splice(index..=index, gpu.into_iter().chain([freeze, dump, transfer]));
}
