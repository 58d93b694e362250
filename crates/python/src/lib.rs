//! The Python binding: JSON text in, JSON text out. It converts, releases the GIL and maps errors; nothing else.

mod checkpoint;
mod hall;
mod watch;
mod witness;

use std::path::Path;
use std::sync::{Arc, Mutex};

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use savemark_base::Error;
use savemark_base::size::{Size, Span};
use savemark_checkpoint::abandoned;
use savemark_engine::run;
use savemark_engine::trial::{self, Trial};
use savemark_measure::control::{Control, Meet};
use savemark_measure::ranks::Placement;
use savemark_storage::object::{self, Environment, Object, ObjectOptions};
use savemark_storage::{Storage, Target};

create_exception!(_engine, EngineError, PyException, "Why the engine stopped: attributes kind, message and hint.");

fn raise(py: Python<'_>, error: Error) -> PyErr {
    let raised = EngineError::new_err(error.to_string());
    let value = raised.value(py);
    let set = value
        .setattr("kind", error.kind.name())
        .and_then(|()| value.setattr("message", error.to_string()))
        .and_then(|()| value.setattr("hint", error.hint))
        .and_then(|()| value.setattr("range", error.range.map(|range| (range.start, range.end))));
    set.err().unwrap_or(raised)
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("records are plain data")
}

/// Runs trials; keeps memory between them.
#[pyclass]
#[derive(Default)]
struct Engine {
    engine: Arc<Mutex<run::Engine>>,
}

#[pymethods]
impl Engine {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Runs one trial and returns its record. The GIL is free meanwhile; Ctrl-C stops the trial.
    /// `around` is called with `before` or `after` and the phase's name, outside its time.
    /// Among other ranks `placement` says which one this is, and `meet` meets them; those of one node do so in `hall`, if there is
    /// one.
    #[pyo3(signature = (trial, progress=None, around=None, placement=None, meet=None, hall=None))]
    #[expect(clippy::too_many_arguments, reason = "one for each word of Python's")]
    fn run(
        &self,
        py: Python<'_>,
        trial: &str,
        progress: Option<Py<PyAny>>,
        around: Option<Py<PyAny>>,
        placement: Option<&str>,
        meet: Option<Py<PyAny>>,
        hall: Option<&hall::Hall>,
    ) -> PyResult<String> {
        let trial = Trial::parse(trial).map_err(|e| raise(py, e))?;
        let engine = Arc::clone(&self.engine);
        let control = match (placement, meet) {
            (Some(placement), Some(others)) => {
                let placement: Placement =
                    serde_json::from_str(placement).map_err(|e| raise(py, Error::usage(format!("placement: {e}"))))?;
                let meet: Box<Meet> = match hall.map(|hall| hall.meets(others.clone_ref(py))) {
                    Some(meet) => {
                        Box::new(move |at, numbers, failure| meet(at, numbers, failure.map(witness::failure)))
                    }
                    None => Box::new(move |at, numbers, failure| {
                        witness::meet(&others, at, numbers, failure.map(witness::failure))
                    }),
                };
                Control::among(placement, meet)
            }
            _ => Control::default(),
        };
        let record = watch::run_with(py, progress, control, move |control| {
            let mut around = |moment, phase: &str| witness::call(around.as_ref(), moment, phase);
            // A panic poisons the engine, not the process: the next trial starts with fresh memory.
            engine.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).run_around(&trial, control, &mut around)
        })?;
        Ok(json(&record))
    }

    /// Only prepares a trial: what another program is to read or write over stays on the storage. Returns the phase, or null.
    fn prepare(&self, py: Python<'_>, trial: &str) -> PyResult<String> {
        let trial = Trial::parse(trial).map_err(|e| raise(py, e))?;
        let engine = Arc::clone(&self.engine);
        let phase = watch::run(py, None, move |control| {
            engine.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).prepare(&trial, control)
        })?;
        Ok(json(&phase))
    }
}

/// The objects directly below a URL; endpoint and credentials come from the environment.
#[pyclass]
struct Bucket(Arc<Object>);

#[pymethods]
impl Bucket {
    /// `timeout`, in seconds, is of one request; None is the default of both.
    #[new]
    #[pyo3(signature = (url, *, retries=None, timeout=None))]
    fn new(py: Python<'_>, url: &str, retries: Option<u32>, timeout: Option<f64>) -> PyResult<Self> {
        let target = Target::from(url.to_string());
        let mut options = ObjectOptions::default();
        options.retries = retries.unwrap_or(options.retries);
        options.timeout = timeout.map_or(options.timeout, |seconds| Span((seconds.max(0.0) * 1e9) as u64));
        py.detach(|| object::open(&options, &target)).map(|object| Self(Arc::new(object))).map_err(|e| raise(py, e))
    }

    /// Replaces the object `name` by `text`.
    fn put(&self, py: Python<'_>, name: String, text: String) -> PyResult<()> {
        self.ask(py, move |object| object.put(&name, text.as_bytes()).map_err(|not_put| not_put.error))
    }

    /// The text of the object `name`, if there is one.
    fn get(&self, py: Python<'_>, name: String) -> PyResult<Option<String>> {
        let found = self.ask(py, move |object| object.get(&name))?;
        Ok(found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The length of the object `name`, if there is one.
    fn size(&self, py: Python<'_>, name: String) -> PyResult<Option<u64>> {
        self.ask(py, move |object| object.size(&name))
    }

    /// `bytes` bytes of the object `name` from `offset` on.
    fn read<'py>(&self, py: Python<'py>, name: String, offset: u64, bytes: usize) -> PyResult<Bound<'py, PyBytes>> {
        let buffer = self.ask(py, move |object| {
            let mut buffer = vec![0; bytes];
            let file = object.open(&name)?;
            file.read_at(&mut buffer, offset).map_err(|e| Error::io("read", file.path(), e))?;
            Ok(buffer)
        })?;
        Ok(PyBytes::new(py, &buffer))
    }

    /// The names of folders and of objects directly below the URL.
    fn list(&self, py: Python<'_>) -> PyResult<(Vec<String>, Vec<String>)> {
        self.ask(py, |object| Ok((object.folders()?, object.list()?)))
    }

    /// What interrupted saves left directly below the URL: removes what has been idle for `older_than_s` seconds, tells the rest.
    fn clean(&self, py: Python<'_>, older_than_s: f64, dry_run: bool) -> PyResult<String> {
        let older_than = Span((older_than_s.max(0.0) * 1e9) as u64);
        let found = self.ask(py, move |object| abandoned::clean(object, older_than, dry_run))?;
        Ok(json(&found))
    }

    /// Names of the folders directly below the URL in which uploads are unfinished.
    fn uploading(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.ask(py, Object::folders_with_uploads)
    }

    /// Removes all objects below the URL, `last` at the end, and unfinished uploads; returns how many.
    fn clear(&self, py: Python<'_>, last: String) -> PyResult<usize> {
        self.ask(py, move |object| object.clear(&last))
    }
}

impl Bucket {
    /// Does requests with the GIL free; Ctrl-C waits for none of them.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        requests: impl FnOnce(&Object) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let object = Arc::clone(&self.0);
        watch::run(py, None, move |control| {
            let asked = Arc::clone(&object);
            control.on_cancel(move || asked.stop());
            requests(&object)
        })
    }
}

/// The URL of the server that the environment names for buckets of `scheme` instead of the provider's own: without
/// credentials, or it is refused.
#[pyfunction]
fn endpoint(py: Python<'_>, scheme: &str) -> PyResult<Option<String>> {
    object::named_endpoint(scheme, &Environment::of_process()).map_err(|e| raise(py, e))
}

/// The engine's version.
#[pyfunction]
fn version() -> &'static str {
    savemark_engine::VERSION
}

/// The JSON Schemas of all options.
#[pyfunction]
fn schema() -> String {
    json(&trial::schema())
}

/// The JSON Schema of a record.
#[pyfunction]
fn record_schema() -> String {
    json(&savemark_engine::record::schema())
}

/// A trial with its defaults filled in.
#[pyfunction]
fn resolve(py: Python<'_>, trial: &str) -> PyResult<String> {
    Trial::parse(trial).map(|trial| json(&trial)).map_err(|e| raise(py, e))
}

/// Bytes of a size such as 4KiB.
#[pyfunction]
fn parse_size(py: Python<'_>, text: &str) -> PyResult<u64> {
    text.parse::<Size>().map(|size| size.0).map_err(|e| raise(py, Error::usage(e)))
}

/// Seconds of a duration such as 200ms.
#[pyfunction]
fn parse_span(py: Python<'_>, text: &str) -> PyResult<f64> {
    text.parse::<Span>().map(|span| span.0 as f64 / 1e9).map_err(|e| raise(py, Error::usage(e)))
}

/// The shortest exact way to write a number of bytes.
#[pyfunction]
fn format_size(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// What the machine, and the storage below `target`, are.
#[pyfunction(name = "host")]
#[pyo3(signature = (target=None))]
fn describe_host(target: Option<&str>) -> String {
    json(&savemark_host::describe(target.map(Path::new), savemark_engine::features::libraries()))
}

/// What the engine can do here, and why not where it cannot.
#[pyfunction]
fn features() -> String {
    json(&savemark_engine::features::list())
}

/// What can be put to a crash test, and what each promises.
#[pyfunction]
fn crash_contracts() -> String {
    json(&savemark_crash::contracts())
}

/// One crash test. Only in a process of its own, with one thread, that ends after it.
#[pyfunction]
fn crash(py: Python<'_>, job: &str) -> PyResult<String> {
    savemark_crash::run(job).map(|done| json(&done)).map_err(|e| raise(py, e))
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("EngineError", module.py().get_type::<EngineError>())?;
    module.add_class::<Engine>()?;
    module.add_class::<Bucket>()?;
    module.add_class::<hall::Hall>()?;
    module.add_function(wrap_pyfunction!(endpoint, module)?)?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(record_schema, module)?)?;
    module.add_function(wrap_pyfunction!(resolve, module)?)?;
    module.add_function(wrap_pyfunction!(parse_size, module)?)?;
    module.add_function(wrap_pyfunction!(parse_span, module)?)?;
    module.add_function(wrap_pyfunction!(format_size, module)?)?;
    module.add_function(wrap_pyfunction!(describe_host, module)?)?;
    module.add_function(wrap_pyfunction!(features, module)?)?;
    module.add_function(wrap_pyfunction!(crash_contracts, module)?)?;
    module.add_function(wrap_pyfunction!(crash, module)?)?;
    checkpoint::add_to(module)?;
    watch::add_to(module)?;
    witness::add_to(module)?;
    Ok(())
}
