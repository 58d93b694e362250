//! Into GPUs: chunks are read or decoded in pinned memory, verified there, and copied on while the next ones come.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::copies::{Copies, Started, Way};
use super::staging::Staging;
use super::state::GpuState;
use crate::state::{Member, Sink};
use savemark_base::buffer::Buffer;
use savemark_base::error::{Error, Result};
use savemark_host::nvidia::cuda::Event;

const HELD: &str = "no panic while held";

/// A state on its way in.
pub struct Inbound<'a> {
    state: &'a GpuState,
    copies: Copies<'a>,
    staging: Arc<Staging>,
    flying: Mutex<Flying>,
}

#[derive(Default)]
struct Flying {
    /// From the oldest on.
    chunks: VecDeque<(Started, Buffer)>,
    /// The first one.
    error: Option<Error>,
}

impl<'a> Inbound<'a> {
    /// Into the memory of `state`.
    pub fn new(state: &'a GpuState, staging: Arc<Staging>) -> Result<Self> {
        Ok(Self { state, copies: Copies::new(state)?, staging, flying: Mutex::default() })
    }

    /// Takes back the slot of the oldest copy, if that is done, or waits for it; whether there was one to take back.
    fn land(&self, wait: bool) -> bool {
        let mut flying = self.flying.lock().expect(HELD);
        let done = |events: &[Event]| events.iter().all(|event| event.is_done().unwrap_or(true));
        if !flying.chunks.front().is_some_and(|(events, _)| wait || done(events)) {
            return false;
        }
        let (events, buffer) = flying.chunks.pop_front().expect("just seen");
        drop(flying);
        // An error of a copy is told by every later call on the same GPU, at last by `settle`.
        let ended = events.iter().map(Event::wait).fold(Ok(()), Result::and);
        self.note(ended);
        drop(buffer);
        true
    }

    fn note(&self, result: Result<()>) {
        if let Err(error) = result {
            self.flying.lock().expect(HELD).error.get_or_insert(error);
        }
    }
}

impl Sink for Inbound<'_> {
    fn prepare(&self, members: &[Member], bytes: u64) -> Result<()> {
        let places = |members: &[Member]| members.iter().map(|m| (m.name.clone(), m.offset)).collect::<Vec<_>>();
        if bytes != self.state.bytes() || places(members) != places(self.state.members()) {
            return Err(Error::failed("the checkpoint was replaced while it was restored").hint("restore it again"));
        }
        // What the application has started may still be reading.
        self.copies.after_others()
    }
    fn window(&self, _: u64, len: usize) -> Option<Buffer> {
        while self.land(false) {}
        loop {
            match self.staging.slot(len) {
                Ok(Some(buffer)) => return Some(buffer),
                Ok(None) if self.land(true) => {}
                Ok(None) => return None,
                Err(error) => {
                    self.note(Err(error));
                    return None;
                }
            }
        }
    }
    fn filled(&self, offset: u64, window: Buffer) {
        // SAFETY: the slot is kept until its copy is done; each chunk comes once.
        match unsafe { self.copies.start(Way::In, offset, window.ptr(), window.len()) } {
            Ok(started) => self.flying.lock().expect(HELD).chunks.push_back((started, window)),
            Err(error) => self.note(Err(error)),
        }
    }
    /// Where no slot was left: from a buffer that is not pinned, one chunk after the other.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: only read, and borrowed until the copy is done.
        let started = unsafe { self.copies.start(Way::In, offset, bytes.as_ptr().cast_mut(), bytes.len())? };
        started.iter().try_for_each(Event::wait)
    }
    fn settle(&self) -> Result<()> {
        while self.land(true) {}
        self.flying.lock().expect(HELD).error.take().map_or(Ok(()), Err)
    }
}

impl Drop for Inbound<'_> {
    /// After an error: slots go back when nothing reads them any more.
    fn drop(&mut self) {
        while self.land(true) {}
    }
}
