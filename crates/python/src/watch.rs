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

/// Runs `job` to its end; an exception of `progress`, or Ctrl-C, cancels it first.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let control = Arc::new(Control::default());
    let shared = Arc::clone(&control);
    let (sender, receiver) = channel::<Result<T>>();
    let receiver = Mutex::new(receiver);
    let thread = std::thread::spawn(move || {
        let _ = sender.send(job(&shared));
    });
    let mut stopped = None;
    let result = loop {
        match py.detach(|| receiver.lock().expect("one receiver").recv_timeout(TICK)) {
            Ok(result) => break result,
            Err(RecvTimeoutError::Disconnected) => {
                break Err(Error::failed("the engine panicked; this is a bug in savemark"));
            }
            Err(RecvTimeoutError::Timeout) if stopped.is_some() => {}
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = py.check_signals().and_then(|()| report(py, progress.as_ref(), &control)) {
                    control.cancel();
                    stopped = Some(error);
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
