//! Evidence around what other programs do, and data for them: each function converts and returns JSON text.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use savemark_base::payload::{PayloadKind, fill};
use savemark_base::{Error, Result};
use savemark_engine::run::Moment;
use savemark_host::evidence;
use serde_json::json;

use crate::raise;

/// Calls who stands around the phases; what it raises ends the trial.
pub fn call(around: Option<&Py<PyAny>>, moment: Moment, phase: &str) -> Result<()> {
    let Some(around) = around else { return Ok(()) };
    let moment = if moment == Moment::Before { "before" } else { "after" };
    Python::attach(|py| around.call1(py, (moment, phase)).map(drop).map_err(|e| Error::failed(e.value(py).to_string())))
}

/// Why a rank goes no further: kind, message and hint.
pub type Failure = (String, String, Option<String>);

/// As Python is told of it.
pub fn failure(error: &Error) -> Failure {
    (error.kind.name().to_string(), error.to_string(), error.hint.clone())
}

/// Meets the other ranks of a trial by way of Python: what the others say comes back, or that the trial is over.
pub fn meet(others: &Py<PyAny>, at: &str, numbers: &[u64], failure: Option<Failure>) -> Result<Vec<u64>> {
    let answer = Python::attach(|py| {
        others.call1(py, (at, numbers.to_vec(), failure)).and_then(|answer| answer.extract::<Vec<u64>>(py))
    });
    // Why is known to whoever meets: he says it when the trial has ended.
    answer.map_err(|_| Error::interrupted())
}

/// Looks at a directory, the disk below it and the machine.
#[pyclass]
struct Witness {
    witness: evidence::Evidence,
    before: Option<evidence::Counters>,
}

#[pymethods]
impl Witness {
    #[new]
    #[pyo3(signature = (directory=None))]
    fn new(directory: Option<PathBuf>) -> Self {
        Self { witness: evidence::Evidence::of(directory.as_deref()), before: None }
    }

    /// What can make figures untrue here.
    fn conditions(&self) -> String {
        crate::json(&self.witness.conditions())
    }

    /// The type of the filesystem; empty where there is none.
    fn filesystem(&self) -> String {
        self.witness.filesystem()
    }

    /// Takes the counters before.
    fn begin(&mut self) {
        self.before = Some(self.witness.look());
    }

    /// What happened since `begin`: device and machine, null where nobody tells.
    fn end(&mut self) -> String {
        let after = self.witness.look();
        let seen = self.before.take().map(|before| after.since(before));
        let (device, machine) = seen.map_or((None, None), |seen| (seen.device, seen.machine));
        json!({"device": device, "machine": machine}).to_string()
    }
}

/// Asks the page cache to forget files.
#[pyfunction]
fn evict(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<()> {
    py.detach(|| evidence::evict(&files)).map_err(|e| raise(py, e))
}

/// How much of files is in the page cache.
#[pyfunction]
fn residency(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<String> {
    py.detach(|| evidence::residency(&files)).map(|found| crate::json(&found)).map_err(|e| raise(py, e))
}

/// Whether files have data on the storage.
#[pyfunction]
fn extents(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<String> {
    py.detach(|| evidence::extents(&files)).map(|found| crate::json(&found)).map_err(|e| raise(py, e))
}

/// What the bytes of files look like.
#[pyfunction]
fn content(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<String> {
    py.detach(|| evidence::content(&files)).map(|found| crate::json(&found)).map_err(|e| raise(py, e))
}

/// `bytes` bytes of data of the kind, from `offset` on.
#[pyfunction]
fn payload<'py>(py: Python<'py>, kind: &str, seed: u64, offset: u64, bytes: usize) -> PyResult<Bound<'py, PyBytes>> {
    let kind: PayloadKind = serde_json::from_value(kind.into()).map_err(|e| raise(py, Error::usage(e.to_string())))?;
    PyBytes::new_with(py, bytes, |buffer| {
        fill(kind, seed, offset, buffer);
        Ok(())
    })
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Witness>()?;
    module.add_function(wrap_pyfunction!(evict, module)?)?;
    module.add_function(wrap_pyfunction!(residency, module)?)?;
    module.add_function(wrap_pyfunction!(extents, module)?)?;
    module.add_function(wrap_pyfunction!(content, module)?)?;
    module.add_function(wrap_pyfunction!(payload, module)?)
}
