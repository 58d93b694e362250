//! A phase: workers that start together, and what they did, added up.

use crate::control::Control;
use crate::gate::Gate;
use crate::worker::Meter;
use savemark_base::clock;
use savemark_base::cpu::CpuClock;
use savemark_base::error::{Error, Result};
use savemark_base::record::{Phase, Stage};
use savemark_host::threads;

/// Runs `work` on `workers` threads. Each opens what it needs, calls [`Meter::start`] once, moves its bytes and returns.
///
/// Workers that fail before they start release the others, as a thread that cannot be started does; the first error in worker
/// order is returned.
pub fn run<F>(workers: usize, control: &Control, work: F) -> Result<Team>
where
    F: Fn(&mut Meter) -> Result<()> + Sync,
{
    let gate = Gate::new(workers);
    let meters: Vec<Result<Meter<'static>>> = std::thread::scope(|scope| {
        let (gate, work) = (&gate, &work);
        let (mut started, mut refused) = (Vec::with_capacity(workers), None);
        for index in 0..workers {
            match threads::start(scope, (index, workers), move || one(index, gate, control, work)) {
                Ok(thread) => started.push(thread),
                Err(error) => {
                    gate.abort();
                    refused = Some(Err(error));
                    break;
                }
            }
        }
        let ended = started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
        refused.into_iter().chain(ended).collect()
    });
    let meters = collect(meters)?;
    Ok(Team::new(meters, &gate, control))
}

/// As [`run`] with one worker, on the calling thread.
pub fn run_here<F>(control: &Control, work: F) -> Result<Team>
where
    F: Fn(&mut Meter) -> Result<()>,
{
    let gate = Gate::new(1);
    let meter = one(0, &gate, control, &work)?;
    Ok(Team::new(vec![meter], &gate, control))
}

fn one<F: Fn(&mut Meter) -> Result<()>>(
    index: usize,
    gate: &Gate,
    control: &Control,
    work: &F,
) -> Result<Meter<'static>> {
    let mut meter = Meter::new(index, gate, control);
    let guard = Abort(gate);
    let result = work(&mut meter);
    meter.finish();
    if result.is_ok() {
        std::mem::forget(guard);
    }
    result.map(|()| meter.detach())
}

/// Opens the gate when a worker fails or panics, so that nobody waits for it for ever.
struct Abort<'a>(&'a Gate);
impl Drop for Abort<'_> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn panicked() -> Error {
    Error::failed("a worker panicked; this is a bug in savemark")
}

/// All meters, or the error that matters most: a real one before `interrupted`, corruption before others.
fn collect(results: Vec<Result<Meter<'static>>>) -> Result<Vec<Meter<'static>>> {
    let mut meters = Vec::new();
    let mut worst: Option<Error> = None;
    let weight = |e: &Error| match e.kind {
        savemark_base::Kind::Corrupt => 0,
        savemark_base::Kind::Interrupted => 2,
        _ => 1,
    };
    for result in results {
        match result {
            Ok(meter) => meters.push(meter),
            Err(e) if worst.as_ref().is_none_or(|w| weight(&e) < weight(w)) => worst = Some(e),
            Err(_) => {}
        }
    }
    worst.map_or(Ok(meters), Err)
}

/// The workers of a phase that ended well.
#[derive(Debug)]
pub struct Team {
    /// When they started to move bytes.
    pub start_ns: u64,
    /// One per worker.
    pub meters: Vec<Meter<'static>>,
    /// CPU time from there on.
    cpu: CpuClock,
    /// There are other ranks, who add up the distributions.
    is_among: bool,
}

impl Team {
    fn new(meters: Vec<Meter<'static>>, gate: &Gate, control: &Control) -> Self {
        let (start_ns, cpu) = gate.opened();
        Self { start_ns, meters, cpu, is_among: control.is_among() }
    }

    /// The phase `name`, over when the last worker has ended.
    pub fn into_phase(self, mut watch: Watch, name: &str) -> Phase {
        watch.started(&self);
        let mut phase = watch.finish(name);
        self.add_to(&mut phase);
        phase.elapsed_ns = phase.last_done_ns;
        phase
    }

    /// Adds everything up into `phase`.
    pub fn add_to(self, phase: &mut Phase) {
        let first = self.meters.iter().min_by_key(|m| m.done_ns);
        phase.first_done_ns = first.map_or(0, |m| m.done_ns);
        phase.first_done_bytes = first.map_or(0, |m| m.team_bytes_when_done);
        phase.last_done_ns = self.meters.iter().map(|m| m.done_ns).max().unwrap_or(0);
        phase.workers = self.meters.iter().map(Meter::record).collect();
        // The first one's counts are the beginning of the sum: there is nothing to add to where it was alone.
        let mut meters = self.meters.into_iter();
        let mut total = meters.next().unwrap_or_else(Meter::empty);
        for meter in meters {
            total.merge(&meter);
        }
        phase.operations = total.operations;
        phase.user_bytes = total.user_bytes;
        phase.stored_bytes = total.stored_bytes;
        phase.thread_time = total.thread_time;
        phase.latency = total.latency.summary();
        phase.sync_latency = total.sync_latency.summary();
        phase.histograms = self.is_among.then(|| Box::new(total.histograms()));
        phase.timeline = total.timeline.into_record();
        if let Some(split) = total.split {
            (phase.read, phase.write) = (Some(split.read.into_record()), Some(split.write.into_record()));
        }
        phase.slip = total.slip.map(|slip| slip.into_record());
    }
}

/// Clock and CPU of a phase, from its start barrier to its last byte made durable. What comes before the barrier is its
/// preparation: memory is made and touched, files and rings are opened.
pub struct Watch {
    begun_ns: u64,
    start_ns: u64,
    mark_ns: u64,
    cpu: CpuClock,
    stages: Vec<Stage>,
}

impl Watch {
    /// Begins to prepare; without a barrier that is the start.
    pub fn start() -> Self {
        let now = clock::now();
        Self { begun_ns: now, start_ns: now, mark_ns: now, cpu: CpuClock::start(), stages: Vec::new() }
    }

    /// The start was when the workers of `team` had passed the barrier.
    pub fn started(&mut self, team: &Team) {
        (self.start_ns, self.mark_ns, self.cpu) = (team.start_ns, team.start_ns, team.cpu);
    }

    /// Ends the stage `name` at `at_ns` (a reading of [`clock::now`]).
    pub fn stage_until(&mut self, name: &str, at_ns: u64) {
        self.stages.push(Stage { name: name.into(), elapsed_ns: at_ns.saturating_sub(self.mark_ns) });
        self.mark_ns = at_ns.max(self.mark_ns);
    }

    /// Ends the stage `name` now.
    pub fn stage(&mut self, name: &str) {
        self.stage_until(name, clock::now());
    }

    /// A phase with times filled in.
    pub fn finish(self, name: &str) -> Phase {
        let elapsed_ns = clock::now() - self.start_ns;
        let cpu = self.cpu.elapsed();
        Phase {
            name: name.into(),
            prepare_ns: self.start_ns - self.begun_ns,
            elapsed_ns,
            cpu_user_ns: cpu.user_ns,
            cpu_system_ns: cpu.system_ns,
            stages: self.stages,
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    #[test]
    fn nobody_waits_for_a_worker_that_does_not_come_once_somebody_has_cancelled() {
        let control = Control::default();
        let (released, waits): (_, Receiver<()>) = channel();
        let (released, waits) = (Mutex::new(Some(released)), Mutex::new(waits));
        let result = run(2, &control, |meter| {
            if meter.index == 0 {
                let _released = released.lock().unwrap().take();
                return meter.start().map(drop);
            }
            control.cancel();
            // Disconnected when the other worker has gone.
            let gone = waits.lock().unwrap().recv_timeout(Duration::from_secs(30));
            assert_eq!(gone, Err(std::sync::mpsc::RecvTimeoutError::Disconnected), "it still waits");
            Err(Error::interrupted())
        });
        assert_eq!(result.unwrap_err().kind, savemark_base::Kind::Interrupted);
    }
}
