//! Runs a job of the engine on a thread of its own: the GIL is free meanwhile, progress goes out, Ctrl-C comes in.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use savemark_engine::control::Control;
use savemark_engine::{Error, Result};

use crate::raise;

/// How often a running job reports progress and looks for Ctrl-C.
const TICK: Duration = Duration::from_millis(100);

/// What a job tells.
enum News<T> {
    /// What it saves may be changed again.
    Released,
    /// It has ended.
    Ended(Result<T>),
}

/// Runs `job` to its end; an exception of `progress`, or Ctrl-C, cancels it first.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    watch(py, progress, None, Control::default(), job)
}

/// As [`run`], under a control that somebody has made.
pub fn run_with<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    control: Control,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    watch(py, progress, None, control, job)
}

/// As [`run`]; calls `released` once, as soon as the job says that what it saves may be changed, at the latest when it has
/// ended well. After a failure nobody is told to go on as if all were saved.
pub fn run_releasing<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    released: Option<Py<PyAny>>,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    watch(py, progress, released, Control::default(), job)
}

fn watch<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    mut released: Option<Py<PyAny>>,
    control: Control,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let control = Arc::new(control);
    let shared = Arc::clone(&control);
    let (sender, receiver) = channel::<News<T>>();
    let receiver = Mutex::new(receiver);
    let telling = sender.clone();
    control.on_release(move || {
        let _ = telling.send(News::Released);
    });
    let thread = std::thread::spawn(move || {
        let result = job(&shared);
        if result.is_ok() {
            shared.release();
        }
        let _ = sender.send(News::Ended(result));
    });
    let mut stopped = None;
    let result = loop {
        match py.detach(|| receiver.lock().expect("one receiver").recv_timeout(TICK)) {
            Ok(News::Ended(result)) => break result,
            Ok(News::Released) => {
                if let Err(error) = released.take().map_or(Ok(()), |call| call.call0(py).map(drop)) {
                    control.cancel();
                    stopped = Some(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                break Err(Error::failed("the engine panicked; this is a bug in savemark"));
            }
            // A job that was stopped goes on until it notices, and may have to say meanwhile that it lives.
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = py.check_signals().and_then(|()| report(py, progress.as_ref(), &control)) {
                    control.cancel();
                    stopped.get_or_insert(error);
                }
            }
        }
    };
    let _ = py.detach(|| thread.join());
    match stopped {
        Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
        Some(_) => Err(raise(py, Error::interrupted())),
        None => result.map_err(|e| raise(py, e)),
    }
}

fn report(py: Python<'_>, progress: Option<&Py<PyAny>>, control: &Control) -> PyResult<()> {
    let Some(callback) = progress else { return Ok(()) };
    let now = control.progress();
    let fields = PyDict::new(py);
    fields.set_item("phase", now.phase)?;
    fields.set_item("done_bytes", now.done_bytes)?;
    fields.set_item("total_bytes", now.total_bytes)?;
    callback.call1(py, (fields,)).map(drop)
}
