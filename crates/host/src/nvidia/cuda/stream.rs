//! Copies that go on by themselves: started on a stream, in whose order they happen, and waited for by an event.

use std::ffi::c_uint;

use super::{Address, Code, Gpu, Raw};
use savemark_base::error::Result;

/// `CU_STREAM_NON_BLOCKING`: waits for nothing that others do on the GPU.
const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING`: who waits sleeps, and no time is taken.
const SLEEPING: c_uint = 1 | 2;
/// `CUDA_ERROR_NOT_READY`: no error.
const NOT_READY: Code = 600;

/// A queue of copies on one GPU.
pub struct Stream {
    gpu: Gpu,
    raw: Raw,
}

// SAFETY: a stream may be used on every thread.
unsafe impl Send for Stream {}
unsafe impl Sync for Stream {}

impl Gpu {
    /// A new stream.
    pub fn stream(&self) -> Result<Stream> {
        self.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: an address for the answer.
        let create = || unsafe { (self.cuda.calls.stream_create)(&raw mut raw, NON_BLOCKING) };
        self.cuda.call("make a stream", create)?;
        Ok(Stream { gpu: self.clone(), raw })
    }
}

impl Stream {
    /// Starts to copy `len` bytes of the GPU's memory out of it.
    ///
    /// # Safety
    /// Both ranges are valid, and nobody writes the one or uses the other, until an event recorded later is done.
    pub unsafe fn copy_out(&self, from: Address, to: *mut u8, len: usize) -> Result<()> {
        self.gpu.enter()?;
        let calls = &self.gpu.cuda.calls;
        // SAFETY: the caller's promise.
        self.gpu.cuda.call("copy from the GPU", || unsafe { (calls.start_to_host)(to.cast(), from, len, self.raw) })
    }

    /// Starts to copy `len` bytes into the GPU's memory.
    ///
    /// # Safety
    /// As [`copy_out`](Self::copy_out).
    pub unsafe fn copy_in(&self, to: Address, from: *const u8, len: usize) -> Result<()> {
        self.gpu.enter()?;
        let calls = &self.gpu.cuda.calls;
        // SAFETY: the caller's promise.
        self.gpu.cuda.call("copy to the GPU", || unsafe { (calls.start_to_device)(to, from.cast(), len, self.raw) })
    }

    /// An event that is done when everything started here so far is.
    pub fn record(&self) -> Result<Event> {
        self.gpu.enter()?;
        let (calls, mut raw) = (&self.gpu.cuda.calls, std::ptr::null_mut());
        // SAFETY: an address for the answer.
        self.gpu.cuda.call("make an event", || unsafe { (calls.event_create)(&raw mut raw, SLEEPING) })?;
        let event = Event { gpu: self.gpu.clone(), raw };
        // SAFETY: an event and a stream of the same context.
        self.gpu.cuda.call("record an event", || unsafe { (calls.event_record)(event.raw, self.raw) })?;
        Ok(event)
    }

    /// Waits until everything started here is done.
    pub fn synchronize(&self) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: a stream of ours.
        let wait = || unsafe { (self.gpu.cuda.calls.stream_synchronize)(self.raw) };
        self.gpu.cuda.call("finish its copies", wait)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: made by `Gpu::stream`, destroyed once; CUDA lets what was started end.
            unsafe { (self.gpu.cuda.calls.stream_destroy)(self.raw) };
        }
    }
}

/// A point in a stream.
pub struct Event {
    gpu: Gpu,
    raw: Raw,
}

// SAFETY: an event may be used on every thread.
unsafe impl Send for Event {}

impl Event {
    /// Whether everything before it is done.
    pub fn is_done(&self) -> Result<bool> {
        self.gpu.enter()?;
        // SAFETY: an event of ours.
        match unsafe { (self.gpu.cuda.calls.event_query)(self.raw) } {
            NOT_READY => Ok(false),
            code => self.gpu.cuda.call("copy", || code).map(|()| true),
        }
    }

    /// Waits for that.
    pub fn wait(&self) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: an event of ours.
        self.gpu.cuda.call("copy", || unsafe { (self.gpu.cuda.calls.event_synchronize)(self.raw) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: made by `Stream::record`, destroyed once.
            unsafe { (self.gpu.cuda.calls.event_destroy)(self.raw) };
        }
    }
}
