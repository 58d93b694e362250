//! Where the ranks of one node meet, as Python makes it and the engine uses it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use savemark_base::{Error, Result};
use savemark_measure::ranks::Address;
use savemark_measure::ranks::node_barrier::{BarrierOutcome, BarrierUse, Beyond, NodeBarrier};

use crate::raise;
use crate::witness::{self, Failure};

/// The numbers of all nodes, or none where all are to meet by messages.
type Answer = Option<Vec<u64>>;

/// Memory that the ranks of one node share.
#[pyclass]
pub struct Hall {
    hall: Arc<NodeBarrier>,
    visit: Mutex<Option<Arc<Guests>>>,
}

/// A trial's use of the hall.
struct Guests {
    visit: BarrierUse,
    /// Python's part in it: has `beyond`, `late` and `failing`.
    crew: Py<PyAny>,
}

#[pymethods]
impl Hall {
    /// For `seats` ranks of this node, of `ranks` in all, that may run on `cores`. Whoever makes it has the first seat.
    #[new]
    fn new(seats: usize, ranks: usize, cores: usize) -> PyResult<Self> {
        NodeBarrier::make(seats, ranks, cores).map(Self::with).map_err(|e| PyOSError::new_err(e.to_string()))
    }

    /// The same hall from another seat; `address` as its maker tells it.
    #[staticmethod]
    fn join(address: (u32, i32, String), seat: usize, seats: usize, ranks: usize, cores: usize) -> PyResult<Self> {
        let (pid, file, name) = address;
        let joined = NodeBarrier::join(&Address { pid, file, name }, seat, seats, ranks, cores);
        joined.map(Self::with).map_err(|e| PyOSError::new_err(e.to_string()))
    }

    /// How the others find it.
    fn address(&self) -> (u32, i32, String) {
        let Address { pid, file, name } = self.hall.address().clone();
        (pid, file, name)
    }

    /// A trial of the first `seats` ranks begins. A meeting is waited for `patience_s` and `times` the time since the last one.
    /// `crew` meets `several` nodes (`beyond`), is told when somebody is `late`, and before this rank meets the others as one that
    /// is `failing`.
    fn begin(&self, py: Python<'_>, seats: usize, patience_s: f64, times: f64, several: bool, crew: Py<PyAny>) {
        let leader = crew.clone_ref(py);
        let meets = move |at: &str, numbers: &[u64], apart: bool| meet_beyond(&leader, at, numbers, apart);
        let beyond = several.then(|| Box::new(meets) as Box<Beyond>);
        let stall_timeout = Duration::from_secs_f64(patience_s.max(0.0));
        let guests = Guests { visit: BarrierUse { seats, stall_timeout, times, beyond }, crew };
        *self.visit.lock().expect("no panic while held") = Some(Arc::new(guests));
        self.hall.begin();
    }

    /// Where this rank was seen last.
    fn place(&self) -> String {
        self.hall.place()
    }

    /// Says where this rank is, apart from meetings.
    fn say(&self, place: &str) {
        self.hall.say(place);
    }

    /// Seconds since this rank met the others, or since the trial began.
    fn since_met_s(&self) -> f64 {
        self.hall.since_met().as_secs_f64()
    }

    /// When this rank left the start of each phase, on the monotonic clock.
    fn left_ns(&self) -> Vec<(String, u64)> {
        self.hall.left_ns()
    }

    /// Meets the others as the engine does; `others` as in `Engine.run`.
    fn meet(
        &self,
        py: Python<'_>,
        at: &str,
        numbers: Vec<u64>,
        failure: Option<Failure>,
        others: Py<PyAny>,
    ) -> PyResult<Vec<u64>> {
        let meet = self.meets(others);
        py.detach(|| meet(at, &numbers, failure)).map_err(|e| raise(py, e))
    }

    /// Waits for nobody any more.
    fn leave(&self) {
        self.hall.leave();
    }
}

impl Hall {
    fn with(hall: NodeBarrier) -> Self {
        Self { hall: Arc::new(hall), visit: Mutex::new(None) }
    }

    /// What a trial meets by: here, or where that is not possible by `others`.
    pub fn meets(
        &self,
        others: Py<PyAny>,
    ) -> impl Fn(&str, &[u64], Option<Failure>) -> Result<Vec<u64>> + Send + Sync + use<> {
        let (hall, guests) = (Arc::clone(&self.hall), self.visit.lock().expect("no panic while held").clone());
        move |at: &str, numbers: &[u64], failure: Option<Failure>| {
            let Some(guests) = &guests else { return witness::meet(&others, at, numbers, failure) };
            if let Some((kind, ..)) = &failure {
                guests.tell("failing", kind.as_str());
            }
            match hall.meet(&guests.visit, at, numbers, failure.is_some()) {
                BarrierOutcome::All(numbers) => Ok(numbers),
                BarrierOutcome::Apart => witness::meet(&others, at, numbers, failure),
                BarrierOutcome::Late(limit) => {
                    guests.tell("late", limit.as_secs_f64());
                    Err(Error::interrupted())
                }
                BarrierOutcome::Left => Err(Error::interrupted()),
                BarrierOutcome::Lost(error) => Err(error),
            }
        }
    }
}

impl Guests {
    /// Calls Python, which has nothing to answer.
    fn tell(&self, name: &str, what: impl for<'py> IntoPyObject<'py>) {
        let _ = Python::attach(|py| self.crew.call_method1(py, name, (what,)));
    }
}

fn meet_beyond(crew: &Py<PyAny>, at: &str, numbers: &[u64], apart: bool) -> Result<Answer> {
    let answer = Python::attach(|py| {
        crew.call_method1(py, "beyond", (at, numbers.to_vec(), apart)).and_then(|answer| answer.extract::<Answer>(py))
    });
    answer.map_err(|_| Error::interrupted())
}
