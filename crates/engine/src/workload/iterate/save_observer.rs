//! The solver outside of a trial: for those who stop it at any moment and look at what is left.

use std::path::Path;

use super::grid::Grid;
use super::{IterateOptions, Job, commit, file};
use savemark_base::error::Result;
use savemark_measure::control::Control;

/// Is told of every save, by one thread.
pub trait SaveObserver: Sync {
    /// No thread has written anything of the state after iteration `generation`.
    fn begins(&self, generation: u64) -> Result<()>;

    /// The save has returned to every thread: what the policy promises holds.
    fn returned(&self, generation: u64) -> Result<()>;
}

/// Runs the solver, which saves below the existing directory `root`.
///
/// # Errors
/// What the policy's calls say, and what the observer says.
pub fn save_all(options: &IterateOptions, root: &Path, observer: &dyn SaveObserver) -> Result<()> {
    let grid = Grid::new(options.side as usize)?;
    let commit = commit::new(options, root, &grid)?;
    let control = Control::default();
    let job = Job { commit: Some(&*commit), observer: Some(observer), ..Job::new(options, &grid, &control) };
    job.solve(0..options.iterations)?;
    commit.finish()
}

/// The state after each iteration, the first one's first.
pub fn states(options: &IterateOptions) -> Result<Vec<Vec<u8>>> {
    let (grid, control) = (Grid::new(options.side as usize)?, Control::default());
    let job = Job::new(options, &grid, &control);
    (1..=options.iterations).map(|i| job.solve(i - 1..i).map(|_| grid.state(i).0.to_vec())).collect()
}

/// What a restart would find below `root`: the iteration that the checkpoint says it is of, and the state.
///
/// # Errors
/// `Corrupt` where the policy can tell that there is no whole checkpoint.
pub fn load(options: &IterateOptions, root: &Path) -> Result<(u64, Vec<u8>)> {
    let grid = Grid::new(options.side as usize)?;
    let generation = file::load(root, options.policy, &grid)?;
    Ok((generation, grid.state(generation).0.to_vec()))
}
