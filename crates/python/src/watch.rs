//! Runs a job of the engine on a thread of its own: the GIL is free meanwhile, progress goes out, Ctrl-C comes in.

use std::cell::Cell;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use savemark_base::{Error, Result};
use savemark_host::threads;
use savemark_measure::control::Control;

use crate::raise;

/// How often a running job reports progress and looks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What a job tells.
enum News<T> {
    /// What it saves may be changed again.
    Released,
    /// It has ended.
    Ended(Result<T>),
}

/// What became of the last whole operation of a thread.
#[derive(Clone, Copy, Default)]
struct Outcome {
    complete: bool,
    /// It was told to stop when nothing could be stopped any more.
    too_late: bool,
}

thread_local! {
    // Python handles signals on one thread, where a handler asks whether there is still something to stop.
    static OUTCOME: Cell<Outcome> = const { Cell::new(Outcome { complete: false, too_late: false }) };
}

/// Whether this thread's last save, restore or verification is complete: it cannot be interrupted any more.
#[pyfunction]
fn is_complete() -> bool {
    OUTCOME.get().complete
}

/// Whether that one was interrupted when it was complete, or all but; told once.
#[pyfunction]
fn was_too_late() -> bool {
    let outcome = OUTCOME.take();
    OUTCOME.set(Outcome { too_late: false, ..outcome });
    outcome.too_late
}

/// Runs `job`, a step of something larger, to its end; an exception of `progress`, or Ctrl-C, cancels it first.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    watch(py, progress, None, Control::default(), job).and_then(|watched| watched.unless_stopped(py))
}

/// As [`run`], of a `job` that is all that was asked for: it has happened or it has not, whoever interrupts it. What is
/// complete when an interrupt comes is a success, and [`was_too_late`].
pub fn run_whole<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    whole(py, progress, None, job)
}

/// As [`run`], under a control that somebody has made.
pub fn run_with<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    control: Control,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    watch(py, progress, None, control, job).and_then(|watched| watched.unless_stopped(py))
}

/// As [`run_whole`]; calls `released` once, as soon as the job says that what it saves may be changed, at the latest when it has
/// ended well. After a failure nobody is told to go on as if all were saved.
pub fn run_releasing<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    released: Option<Py<PyAny>>,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    whole(py, progress, released, job)
}

fn whole<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    released: Option<Py<PyAny>>,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    OUTCOME.set(Outcome::default());
    let watched = watch(py, progress, released, Control::default(), job)?;
    if watched.result.is_ok() {
        OUTCOME.set(Outcome { complete: true, too_late: watched.interrupted });
        return watched.result.map_err(|e| raise(py, e));
    }
    watched.unless_stopped(py)
}

/// How a job ended, and whether somebody wanted it to.
struct Watched<T> {
    result: Result<T>,
    interrupted: bool,
}

impl<T> Watched<T> {
    fn unless_stopped(self, py: Python<'_>) -> PyResult<T> {
        let result = if self.interrupted { Err(Error::interrupted()) } else { self.result };
        result.map_err(|e| raise(py, e))
    }
}

fn watch<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    mut released: Option<Py<PyAny>>,
    control: Control,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<Watched<T>> {
    let control = Arc::new(control);
    let shared = Arc::clone(&control);
    let (sender, receiver) = channel::<News<T>>();
    let receiver = Mutex::new(receiver);
    let telling = sender.clone();
    control.on_release(move || {
        let _ = telling.send(News::Released);
    });
    let thread = threads::start_one(move || {
        let result = job(&shared);
        if result.is_ok() {
            shared.release();
        }
        let _ = sender.send(News::Ended(result));
    });
    let thread = thread.map_err(|e| raise(py, e))?;
    let mut stopped = None;
    let result = loop {
        match py.detach(|| receiver.lock().expect("one receiver").recv_timeout(POLL_INTERVAL)) {
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
        stopped => Ok(Watched { result, interrupted: stopped.is_some() }),
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

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(is_complete, module)?)?;
    module.add_function(wrap_pyfunction!(was_too_late, module)?)?;
    Ok(())
}
