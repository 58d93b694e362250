//! Copies of chunks between pinned memory and wherever the parts of a state are, in both directions.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::state::{GpuState, Home};
use savemark_base::error::Result;
use savemark_host::nvidia::cuda::{Event, Gpu, Stream};

/// Streams of a GPU: one copy starts while the other moves bytes.
const STREAMS: usize = 2;

/// Direction of a copy, seen from the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of the state; what is no part of it becomes zero.
    Out,
    /// Into the state; what is no part of it is dropped.
    In,
}

/// The streams of every GPU of a state.
pub struct Copies<'a> {
    state: &'a GpuState,
    streams: Vec<Vec<Stream>>,
    turn: AtomicUsize,
}

/// A copy that was started: done when every event is.
pub type Started = Vec<Event>;

impl<'a> Copies<'a> {
    /// New streams.
    pub fn new(state: &'a GpuState) -> Result<Self> {
        let of = |gpu: &Gpu| (0..STREAMS).map(|_| gpu.stream()).collect::<Result<Vec<_>>>();
        let streams = state.gpus().iter().map(of).collect::<Result<Vec<_>>>()?;
        Ok(Self { state, streams, turn: AtomicUsize::new(0) })
    }

    /// Waits for what the application has started on the GPUs: it may be using the memory.
    pub fn after_others(&self) -> Result<()> {
        self.state.gpus().iter().try_for_each(Gpu::synchronize)
    }

    /// Starts the copies between `len` bytes at `offset` of the state and the memory at `bytes`. If one cannot be started, none is
    /// under way.
    ///
    /// # Safety
    /// `bytes` is valid for `len`, and belongs to the copy until it is done; chunks that are copied at one time are disjoint.
    pub unsafe fn start(&self, way: Way, offset: u64, bytes: *mut u8, len: usize) -> Result<Started> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % STREAMS;
        let mut used: Vec<&Stream> = Vec::new();
        // SAFETY: the caller's promise.
        let started = unsafe { self.start_parts(way, offset, bytes, len, turn, &mut used) };
        let events = used.iter().map(|stream| stream.record()).collect::<Result<Started>>();
        started.and(events).inspect_err(|_| used.iter().for_each(|stream| drop(stream.synchronize())))
    }

    /// # Safety
    /// As [`start`](Self::start).
    unsafe fn start_parts<'b>(
        &'b self,
        way: Way,
        offset: u64,
        bytes: *mut u8,
        len: usize,
        turn: usize,
        used: &mut Vec<&'b Stream>,
    ) -> Result<()> {
        let mut end = 0;
        for part in self.state.parts(offset, len) {
            let start = part.offset as usize;
            // SAFETY: parts lie inside the range; their memory is the caller's, by the contract of `GpuState`.
            unsafe {
                let here = bytes.add(start);
                if way == Way::Out {
                    bytes.add(end).write_bytes(0, start - end);
                }
                match (way, part.home) {
                    (Way::Out, Home::Host(from)) => here.copy_from_nonoverlapping(from.as_ptr(), part.len),
                    (Way::In, Home::Host(to)) => here.copy_to_nonoverlapping(to.as_ptr(), part.len),
                    (_, Home::Gpu(index, address)) => {
                        let stream = &self.streams[index][turn];
                        if !used.iter().any(|known| std::ptr::eq(*known, stream)) {
                            used.push(stream);
                        }
                        match way {
                            Way::Out => stream.copy_out(address, here, part.len)?,
                            Way::In => stream.copy_in(address, here, part.len)?,
                        }
                    }
                }
            }
            end = start + part.len;
        }
        if way == Way::Out {
            // SAFETY: the rest of the range.
            unsafe { bytes.add(end).write_bytes(0, len - end) };
        }
        Ok(())
    }

    /// Waits until nothing is under way, however it ends.
    pub fn synchronize(&self) -> Result<()> {
        self.streams.iter().flatten().map(Stream::synchronize).fold(Ok(()), Result::and)
    }
}
