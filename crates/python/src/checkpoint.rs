//! Checkpoints of files and of memory: each function takes a trial of the workload `checkpoint`, which names the place.

use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use savemark_base::buffer::Owner;
use savemark_base::{Error, Result};
use savemark_checkpoint::gpu::{Extent, GpuState};
use savemark_checkpoint::inspect::STATE_INDEX;
use savemark_checkpoint::segments::{Segment, Segments};
use savemark_checkpoint::state::lay_out;
use savemark_checkpoint::{Manifest, Member, tree_sink};
use savemark_engine::commands::CheckpointLocation;
use savemark_engine::trial::Trial;
use savemark_host::nvidia::cuda;
use savemark_process::{After, DumpOptions, criu};

use crate::{json, raise, watch};

/// The members of a state in memory: its tree, dtypes and shapes, then the bytes of all tensors.
const INDEX: &str = STATE_INDEX;
const DATA: &str = "savemark-state.bin";
/// Bytes of an index: some hundred thousand tensors. What reads it needs many times as much memory for its dicts.
const INDEX_MAX: u64 = 64 << 20;

/// Caller's memory, and where it starts in the data.
type Lent = Vec<(u64, PyBuffer<u8>)>;
/// Caller's memory on GPUs: where it starts in the data, the GPU, the address in its memory, the length; and who keeps it.
type LentByGpus = Vec<(u64, u32, u64, usize, Py<PyAny>)>;

fn parse(py: Python<'_>, trial: &str) -> PyResult<Trial> {
    Trial::parse(trial).map_err(|e| raise(py, e))
}

/// Calls `act` with the place, without the GIL; Ctrl-C waits for no answer of a bucket.
fn quick<T: Send + 'static>(
    py: Python<'_>,
    trial: &str,
    act: impl FnOnce(&CheckpointLocation) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let trial = parse(py, trial)?;
    watch::run(py, None, move |control| act(CheckpointLocation::open(&trial)?.stopping_with(control)))
}

/// Saves a directory of files, or one file; returns the report.
#[pyfunction]
#[pyo3(signature = (trial, source, progress=None))]
fn save_tree(py: Python<'_>, trial: &str, source: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let trial = parse(py, trial)?;
    let report =
        watch::run_whole(py, progress, move |control| CheckpointLocation::open(&trial)?.save_tree(&source, control))?;
    Ok(json(&report))
}

/// Restores files below a destination that does not exist yet, or is empty; returns the report.
#[pyfunction]
#[pyo3(signature = (trial, destination, progress=None))]
fn restore_tree(py: Python<'_>, trial: &str, destination: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let trial = parse(py, trial)?;
    let report = watch::run_whole(py, progress, move |control| {
        CheckpointLocation::open(&trial)?.restore_tree(&destination, control)
    })?;
    Ok(json(&report))
}

/// Saves the running process `pid` with its descendants, then kills it unless it is to run on; returns the report.
#[pyfunction]
#[pyo3(signature = (trial, pid, run_on, criu_options, cut_pipes=false, progress=None))]
fn save_process(
    py: Python<'_>,
    trial: &str,
    pid: i32,
    run_on: bool,
    criu_options: &str,
    cut_pipes: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (trial, after) = (parse(py, trial)?, if run_on { After::Run } else { After::Kill });
    let criu_options = criu::options(criu_options).map_err(|e| raise(py, e))?;
    let dump = DumpOptions { pid, after, criu_options, cut_pipes };
    let report =
        watch::run_whole(py, progress, move |control| CheckpointLocation::open(&trial)?.save_process(&dump, control))?;
    Ok(json(&report))
}

/// Restores the process that was saved in the place; returns its number and the report.
#[pyfunction]
#[pyo3(signature = (trial, progress=None))]
fn restore_process(py: Python<'_>, trial: &str, progress: Option<Py<PyAny>>) -> PyResult<(i32, String)> {
    let trial = parse(py, trial)?;
    let (table, report) =
        watch::run_whole(py, progress, move |control| CheckpointLocation::open(&trial)?.restore_process(control))?;
    Ok((table.root, json(&report)))
}

/// Reads and checks every byte; returns the report.
#[pyfunction]
#[pyo3(signature = (trial, progress=None))]
fn verify(py: Python<'_>, trial: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let trial = parse(py, trial)?;
    let report = watch::run_whole(py, progress, move |control| CheckpointLocation::open(&trial)?.verify(control))?;
    Ok(json(&report))
}

/// What is in the place: the checkpoint, what interrupted saves left, names of foreign files.
#[pyfunction]
fn contents(py: Python<'_>, trial: &str) -> PyResult<String> {
    quick(py, trial, |place| place.contents()).map(|found| json(&found))
}

/// Removes what interrupted saves left; returns names and sizes.
#[pyfunction]
fn clean(py: Python<'_>, trial: &str, dry_run: bool) -> PyResult<String> {
    quick(py, trial, move |place| place.clean(dry_run)).map(|removed| json(&removed))
}

/// Removes what killed restores into `destination` left beside it; returns the paths.
#[pyfunction]
fn sweep(py: Python<'_>, destination: PathBuf, dry_run: bool) -> PyResult<Vec<PathBuf>> {
    py.detach(|| tree_sink::sweep(&destination, dry_run)).map_err(|e| raise(py, e))
}

/// Removes the checkpoint of the place.
#[pyfunction]
fn remove(py: Python<'_>, trial: &str) -> PyResult<()> {
    quick(py, trial, |place| place.remove())
}

/// The number of the GPU that `address` is memory of, if it is any's.
#[pyfunction]
fn gpu_of(py: Python<'_>, address: u64) -> PyResult<Option<u32>> {
    cuda::driver().map(|driver| driver.owner(address)).map_err(|e| raise(py, e))
}

/// Saves `index` and the bytes of the caller's buffers, and of what is on GPUs; returns the report. Nobody may write to them
/// before `released` is called: as soon as everything is copied out of GPUs, or at the end.
#[pyfunction]
#[pyo3(signature = (trial, index, lent, data_bytes, progress=None, on_gpus=vec![], released=None))]
#[allow(clippy::too_many_arguments)] // a call from Python
fn save_state(
    py: Python<'_>,
    trial: &str,
    index: PyBuffer<u8>,
    lent: Lent,
    data_bytes: u64,
    progress: Option<Py<PyAny>>,
    on_gpus: LentByGpus,
    released: Option<Py<PyAny>>,
) -> PyResult<String> {
    let trial = parse(py, trial)?;
    if index.len_bytes() as u64 > INDEX_MAX {
        let message =
            format!("the state's keys and shapes take {} bytes; at most {INDEX_MAX} are saved", index.len_bytes());
        return Err(raise(
            py,
            Error::usage(message).hint("save parts of it as checkpoints of their own, or longer tensors"),
        ));
    }
    let mut files = vec![(INDEX.to_string(), index.len_bytes() as u64, 0o644)];
    if data_bytes > 0 {
        files.push((DATA.to_string(), data_bytes, 0o644));
    }
    let (members, bytes) = lay_out(files);
    let start = members.get(1).map_or(0, |m| m.offset);
    let mut all: Lent = lent.into_iter().map(|(offset, buffer)| (start + offset, buffer)).collect();
    all.push((0, index));
    let report = if on_gpus.is_empty() {
        let source = segments(py, all, members, bytes)?;
        let save =
            move |control: &_| CheckpointLocation::open(&trial)?.save(&*source, control).map_err(|e| in_data(e, start));
        watch::run_releasing(py, progress, released, save)?
    } else {
        let state = on_gpus_too(py, all, on_gpus, start, members, bytes)?;
        watch::run_releasing(py, progress, released, move |control| {
            CheckpointLocation::open(&trial)?.save_gpu(&state, control)
        })?
    };
    Ok(json(&report))
}

/// The error, its range as one of the data, which starts at `start` of the state.
fn in_data(error: Error, start: u64) -> Error {
    let range = error.range.clone().map(|r| r.start.saturating_sub(start)..r.end.saturating_sub(start));
    Error { range, ..error }
}

/// The index of a saved state, the manifest's id and the bytes of the data; `None` where files were saved.
#[pyfunction]
fn read_index<'py>(py: Python<'py>, trial: &str) -> PyResult<Option<(Bound<'py, PyBytes>, String, u64)>> {
    let found = quick(py, trial, |place| {
        let manifest = place.manifest()?;
        let data = data_of(&manifest).map_or(0, |m| m.bytes);
        Ok(place.member(&manifest, INDEX, INDEX_MAX)?.map(|index| (index, manifest.id.clone(), data)))
    })?;
    Ok(found.map(|(index, id, data)| (PyBytes::new(py, &index), id, data)))
}

fn data_of(manifest: &Manifest) -> Option<&Member> {
    manifest.members.iter().find(|m| m.name == DATA)
}

/// Restores the data of the checkpoint `id` into the caller's buffers; returns the report.
#[pyfunction]
#[pyo3(signature = (trial, id, lent, progress=None, on_gpus=vec![]))]
fn restore_state(
    py: Python<'_>,
    trial: &str,
    id: String,
    lent: Lent,
    progress: Option<Py<PyAny>>,
    on_gpus: LentByGpus,
) -> PyResult<String> {
    if lent.iter().any(|(_, buffer)| buffer.readonly()) {
        return Err(raise(py, Error::usage("a buffer to restore into is read-only")));
    }
    let manifest = quick(py, trial, |place| place.manifest())?;
    if manifest.id != id {
        return Err(raise(
            py,
            Error::failed("the checkpoint was replaced while it was restored").hint("restore it again"),
        ));
    }
    let start = data_of(&manifest).map_or(0, |m| m.offset);
    let all = lent.into_iter().map(|(offset, buffer)| (start + offset, buffer)).collect();
    let trial = parse(py, trial)?;
    if !on_gpus.is_empty() {
        let chunk = manifest.chunk_bytes;
        let state = on_gpus_too(py, all, on_gpus, start, manifest.members, manifest.state_bytes)?;
        let restore = move |control: &_| CheckpointLocation::open(&trial)?.restore_gpu(&state, chunk, control);
        return Ok(json(&watch::run_whole(py, progress, restore)?));
    }
    let sink = segments(py, all, manifest.members, manifest.state_bytes)?;
    let report =
        watch::run_whole(py, progress, move |control| CheckpointLocation::open(&trial)?.restore(&*sink, control))?;
    Ok(json(&report))
}

/// The state in the caller's memory; the buffers stay exported, so that Python neither moves nor frees them.
fn segments(py: Python<'_>, lent: Lent, members: Vec<Member>, bytes: u64) -> PyResult<Arc<Segments>> {
    let list = places(py, &lent)?;
    // SAFETY: `lent` is the owner and keeps the memory exported. That nobody writes to it during a save, nor touches it
    // during a restore, is the documented duty of the caller, as with every buffer given to a system call.
    let made = unsafe { Segments::new(list, members, bytes, Arc::new(lent) as Owner) };
    made.map(Arc::new).map_err(|e| raise(py, e))
}

/// The state in the caller's memory and in that of GPUs, where the data starts at `start` of it.
fn on_gpus_too(
    py: Python<'_>,
    lent: Lent,
    on_gpus: LentByGpus,
    start: u64,
    members: Vec<Member>,
    bytes: u64,
) -> PyResult<GpuState> {
    let list = places(py, &lent)?;
    let extent = |(offset, gpu, address, len, _): &(u64, u32, u64, usize, _)| Extent {
        offset: start + offset,
        gpu: *gpu,
        address: *address,
        len: *len,
    };
    let extents: Vec<Extent> = on_gpus.iter().map(extent).collect();
    let owner = Arc::new((lent, on_gpus)) as Owner;
    // SAFETY: as above; the objects that own the GPUs' memory are kept, too.
    unsafe { GpuState::new(&extents, &list, members, bytes, owner) }.map_err(|e| raise(py, e))
}

fn places(py: Python<'_>, lent: &Lent) -> PyResult<Vec<Segment>> {
    let place = |(offset, buffer): &(u64, PyBuffer<u8>)| {
        let ptr = NonNull::new(buffer.buf_ptr().cast::<u8>())?;
        Some(Segment { offset: *offset, ptr, len: buffer.len_bytes() })
    };
    if !lent.iter().all(|(_, buffer)| buffer.is_c_contiguous()) {
        return Err(raise(py, Error::usage("a buffer is not contiguous")));
    }
    Ok(lent.iter().filter_map(place).collect())
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(save_tree, module)?)?;
    module.add_function(wrap_pyfunction!(restore_tree, module)?)?;
    module.add_function(wrap_pyfunction!(save_process, module)?)?;
    module.add_function(wrap_pyfunction!(restore_process, module)?)?;
    module.add_function(wrap_pyfunction!(verify, module)?)?;
    module.add_function(wrap_pyfunction!(contents, module)?)?;
    module.add_function(wrap_pyfunction!(clean, module)?)?;
    module.add_function(wrap_pyfunction!(sweep, module)?)?;
    module.add_function(wrap_pyfunction!(remove, module)?)?;
    module.add_function(wrap_pyfunction!(gpu_of, module)?)?;
    module.add_function(wrap_pyfunction!(save_state, module)?)?;
    module.add_function(wrap_pyfunction!(read_index, module)?)?;
    module.add_function(wrap_pyfunction!(restore_state, module)?)?;
    Ok(())
}
