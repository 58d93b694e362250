//! Out of GPUs: a thread for each GPU copies chunk after chunk into pinned memory, several copies at once on its streams, and
//! offers what has arrived to whichever stream of the save comes next.
//!
//! With a slot for every chunk the copies wait for nobody: when the last has arrived the application may go on.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::copies::{Copies, Started, Way};
use super::staging::Staging;
use super::state::GpuState;
use crate::ChunkRange;
use crate::codec::Piece;
use crate::state::{Member, Next, Source, StreamingSource, pieces};
use savemark_base::buffer::Buffer;
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_host::gpu::run_near;
use savemark_host::nvidia::cuda::Event;
use savemark_measure::control::Control;

/// Copies under way on one GPU: enough that it never waits for us.
const IN_FLIGHT: usize = 16;
/// How long somebody waits before he looks whether all is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const HELD: &str = "no panic while held";

/// A state on its way out.
pub struct Outbound<'a> {
    state: &'a GpuState,
    copies: Copies<'a>,
    staging: Arc<Staging>,
    lanes: Vec<Vec<ChunkRange>>,
    shared: Mutex<Shared>,
    changed: Condvar,
    /// Chunks between [`StreamingSource::take`] and [`Source::view`].
    lent: Mutex<HashMap<u64, Buffer>>,
}

struct Shared {
    ready: VecDeque<(ChunkRange, Buffer)>,
    /// User bytes that nobody has taken.
    left: u64,
    /// GPUs whose copies have not all arrived.
    copying: usize,
    /// When the first stream asked for a chunk, which is when the clock has started; 0 before.
    started_ns: u64,
    stopped: bool,
    error: Option<Error>,
    copied_ns: u64,
}

impl<'a> Outbound<'a> {
    /// Of the chunks in `lanes`, one lane for each GPU.
    pub fn new(state: &'a GpuState, lanes: Vec<Vec<ChunkRange>>, staging: Arc<Staging>) -> Result<Self> {
        let shared = Shared {
            ready: VecDeque::new(),
            left: state.bytes(),
            copying: lanes.len(),
            started_ns: 0,
            stopped: false,
            error: None,
            copied_ns: 0,
        };
        let (shared, changed, lent) = (Mutex::new(shared), Condvar::new(), Mutex::default());
        Ok(Self { state, copies: Copies::new(state)?, staging, lanes, shared, changed, lent })
    }

    /// Copies the chunks of one GPU; an error is told by the next [`StreamingSource::take`].
    pub fn copy(&self, lane: usize, control: &Control) {
        let panicked = Error::failed("a copy panicked; this is a bug in savemark");
        let mut ending = Ending { outbound: self, control, result: Err(panicked) };
        ending.result = self.copy_lane(lane);
    }

    /// From the first time that a chunk was asked for until the last copy had arrived.
    pub fn stall_ns(&self) -> u64 {
        let shared = self.shared.lock().expect(HELD);
        shared.copied_ns.saturating_sub(shared.started_ns)
    }

    /// Waits until the streams of the save are ready, or all is over: no byte moves before the clock has started.
    fn wait_for_start(&self) {
        let mut shared = self.shared.lock().expect(HELD);
        while shared.started_ns == 0 && !shared.stopped {
            shared = self.changed.wait_timeout(shared, POLL_INTERVAL).expect(HELD).0;
        }
    }

    fn copy_lane(&self, lane: usize) -> Result<()> {
        run_near(&self.state.gpus()[lane].pci_address);
        self.wait_for_start();
        self.copies.after_others()?;
        let mut flying = VecDeque::new();
        let result = self.copy_chunks(lane, &mut flying);
        // After an error, too: a slot goes back when nothing writes into it any more.
        let ended = self.copies.synchronize();
        result.and(ended)
    }

    fn copy_chunks(&self, lane: usize, flying: &mut VecDeque<Flying>) -> Result<()> {
        for cut in &self.lanes[lane] {
            let Some(buffer) = self.slot(*cut, flying)? else { return Ok(()) };
            // SAFETY: the slot is kept until its copy is done; nobody else copies this chunk.
            let started = unsafe { self.copies.start(Way::Out, cut.offset, buffer.ptr(), buffer.len())? };
            flying.push_back(Flying { started, cut: *cut, buffer });
            while flying.front().is_some_and(Flying::is_done) {
                self.land(flying)?;
            }
        }
        while !flying.is_empty() {
            self.land(flying)?;
        }
        Ok(())
    }

    /// A slot for the next chunk; `None` when all is over.
    fn slot(&self, cut: ChunkRange, flying: &mut VecDeque<Flying>) -> Result<Option<Buffer>> {
        loop {
            if self.shared.lock().expect(HELD).stopped {
                return Ok(None);
            }
            if flying.len() < IN_FLIGHT
                && let Some(buffer) = self.staging.slot(cut.len)?
            {
                return Ok(Some(buffer));
            }
            match flying.is_empty() {
                true => self.staging.wait(POLL_INTERVAL),
                false => self.land(flying)?,
            }
        }
    }

    /// Waits for the oldest copy and offers its chunk.
    fn land(&self, flying: &mut VecDeque<Flying>) -> Result<()> {
        let Some(first) = flying.front() else { return Ok(()) };
        first.started.iter().try_for_each(Event::wait)?;
        let Flying { cut, buffer, .. } = flying.pop_front().expect("just seen");
        self.shared.lock().expect(HELD).ready.push_back((cut, buffer));
        self.changed.notify_one();
        Ok(())
    }
}

/// A copy under way.
struct Flying {
    started: Started,
    cut: ChunkRange,
    buffer: Buffer,
}

impl Flying {
    /// Also if it failed, which waiting for it tells.
    fn is_done(&self) -> bool {
        self.started.iter().all(|event| event.is_done().unwrap_or(true))
    }
}

/// Tells the others how the copies of a GPU ended, also if their thread panicked.
struct Ending<'a, 'b> {
    outbound: &'a Outbound<'b>,
    control: &'a Control,
    result: Result<()>,
}

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        let mut shared = self.outbound.shared.lock().expect(HELD);
        shared.copying -= 1;
        match std::mem::replace(&mut self.result, Ok(())) {
            Err(error) => {
                shared.stopped = true;
                shared.error.get_or_insert(error);
            }
            Ok(()) if shared.copying == 0 && !shared.stopped => {
                shared.copied_ns = clock::now();
                self.control.release();
            }
            Ok(()) => {}
        }
        drop(shared);
        self.outbound.changed.notify_all();
    }
}

impl Source for Outbound<'_> {
    fn members(&self) -> &[Member] {
        self.state.members()
    }
    fn bytes(&self) -> u64 {
        self.state.bytes()
    }
    fn view(&self, offset: u64, _: usize) -> Option<Buffer> {
        self.lent.lock().expect(HELD).remove(&offset)
    }
    fn read(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::failed("a chunk of a GPU was read twice; this is a bug in savemark"))
    }
    fn streaming(&self) -> Option<&dyn StreamingSource> {
        Some(self)
    }
}

impl StreamingSource for Outbound<'_> {
    fn take(&self, idle: bool) -> Result<Next<ChunkRange>> {
        let mut shared = self.shared.lock().expect(HELD);
        if shared.started_ns == 0 {
            shared.started_ns = clock::now();
            self.changed.notify_all();
        }
        if idle && shared.ready.is_empty() && shared.copying > 0 && !shared.stopped {
            shared = self.changed.wait_timeout(shared, POLL_INTERVAL).expect(HELD).0;
        }
        if shared.stopped {
            return Err(shared.error.take().unwrap_or_else(Error::interrupted));
        }
        let copying = shared.copying > 0;
        let Some((cut, buffer)) = shared.ready.pop_front() else {
            return Ok(if copying { Next::Later } else { Next::End });
        };
        shared.left -= cut.len as u64;
        drop(shared);
        self.lent.lock().expect(HELD).insert(cut.offset, buffer);
        Ok(Next::Take(cut))
    }
    fn left(&self) -> u64 {
        self.shared.lock().expect(HELD).left
    }
    fn fail(&self) {
        self.shared.lock().expect(HELD).stopped = true;
        self.changed.notify_all();
    }
    fn piece(&self, cut: ChunkRange, act: &mut dyn FnMut(&[Piece])) {
        act(&pieces(self.state.members(), cut.offset, cut.len));
    }
    /// They are offered where they lie.
    fn place(&self, offset: u64) -> u64 {
        offset
    }
}
