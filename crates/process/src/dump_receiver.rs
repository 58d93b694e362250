//! The peer of `criu dump --stream`: reads its pipes into chunks, for whichever stream comes next.
//!
//! One worker at a time looks after all pipes. It reads what is there until a chunk is full or its image has ended, and goes
//! to encode and write it while the next worker reads on. Nobody waits for one pipe alone: CRIU may be writing to another.
//!
//! Memory: a chunk for each pipe that is being filled (64 KiB for the many small images) and those that the streams hold.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::criu::{Ended, Running, stalled};
use super::criu_socket::{CriuSocket, Heard};
use super::limits::{self, IMAGE_BYTES};
use super::{POLL_INTERVAL, stall_timeout};
use savemark_base::buffer::{Buffer, align_up};
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::leased::LeasedPool;

/// The first chunk of an image: most images are smaller.
pub const FIRST: usize = 64 << 10;

/// What a worker with I/O in flight waits for CRIU before it looks after that.
const MOMENT: Duration = Duration::from_millis(1);

/// A chunk of one image.
pub struct Filled {
    /// Index of the image.
    pub file: usize,
    /// Where in it.
    pub offset: u64,
    /// Its bytes; zeros follow up to the next page.
    pub buffer: Buffer,
    /// How many.
    pub len: usize,
    /// Whether the image ends with it.
    pub last: bool,
}

/// What [`Peer::next`] found.
pub enum Found {
    /// A chunk.
    Chunk(Filled),
    /// Nothing yet.
    Nothing,
    /// CRIU is done, and every image is read.
    Ended(Ended),
}

/// An image that is being written.
struct Pipe {
    end: OwnedFd,
    file: usize,
    offset: u64,
    buffer: Option<Buffer>,
    filled: usize,
}

/// An image, by name and length so far.
#[derive(Clone, Debug)]
pub struct Image {
    /// As CRIU calls it.
    pub name: String,
    /// Bytes read of it.
    pub bytes: u64,
}

/// Readings of the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// CRIU asked for its first image: the program is frozen.
    pub first_ns: u64,
    /// CRIU has closed its socket.
    pub closed_ns: u64,
}

/// The peer's side.
pub struct Peer {
    line: CriuSocket,
    criu: Running,
    pipes: Vec<Pipe>,
    /// The pipe to look at first: the one that was busy last.
    busy: usize,
    pool: Arc<LeasedPool>,
    chunk_bytes: usize,
    waited: Duration,
    /// Every image so far.
    pub images: Vec<Image>,
    /// When what happened.
    pub marks: Marks,
}

impl Peer {
    /// Of a CRIU that was just started.
    pub fn new(line: CriuSocket, criu: Running, pool: Arc<LeasedPool>, chunk_bytes: usize) -> Self {
        let (pipes, images) = (Vec::new(), Vec::new());
        let (marks, waited) = (Marks::default(), Duration::ZERO);
        Self { line, criu, pipes, busy: 0, pool, chunk_bytes, waited, images, marks }
    }

    /// The next chunk; waits for one up to [`POLL_INTERVAL`], or a moment if the caller is not `idle`.
    pub fn next(&mut self, idle: bool) -> Result<Found> {
        let start = clock::now();
        let ready = self.look(if idle { POLL_INTERVAL } else { MOMENT })?;
        if ready.is_empty() {
            self.waited += Duration::from_nanos(clock::now() - start);
            return match self.waited > stall_timeout() {
                true => Err(stalled("dump", stall_timeout())),
                false => Ok(Found::Nothing),
            };
        }
        self.waited = Duration::ZERO;
        for place in ready {
            match place {
                Place::Pipe(index) => {
                    self.busy = index;
                    if let Some(chunk) = self.fill(index, idle)? {
                        return Ok(Found::Chunk(chunk));
                    }
                    // The list of pipes may have changed.
                    return Ok(Found::Nothing);
                }
                Place::CriuSocket => self.hear()?,
                Place::Criu => {
                    let ended = self.criu.wait(Duration::ZERO);
                    return match ended {
                        Some(ended) if ended.good && !self.line.is_open() && self.pipes.is_empty() => {
                            Ok(Found::Ended(ended))
                        }
                        Some(ended) if ended.good => Ok(Found::Nothing),
                        Some(_) => Err(self.criu.failed()),
                        None => Ok(Found::Nothing),
                    };
                }
            }
        }
        Ok(Found::Nothing)
    }

    /// Where something can be read: pipes first, the busy one before all.
    fn look(&self, most: Duration) -> Result<Vec<Place>> {
        let count = self.pipes.len();
        let mut places: Vec<Place> = (0..count).map(|turn| Place::Pipe((self.busy + turn) % count.max(1))).collect();
        places.extend([Place::CriuSocket, Place::Criu]);
        let mut polled: Vec<PollFd> =
            places.iter().map(|place| PollFd::from_borrowed_fd(self.descriptor(*place), PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
        match poll(&mut polled, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(self.line.lost(e)),
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        Ok(places.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(place, _)| place).collect())
    }

    fn descriptor(&self, place: Place) -> std::os::fd::BorrowedFd<'_> {
        match place {
            Place::Pipe(index) => self.pipes[index].end.as_fd(),
            Place::CriuSocket => self.line.as_fd(),
            Place::Criu => self.criu.as_fd(),
        }
    }

    /// Takes the pipe of a new image.
    fn hear(&mut self) -> Result<()> {
        match self.line.hear()? {
            Heard::Hello => {}
            Heard::Bye => self.marks.closed_ns = clock::now(),
            Heard::Image(name) => {
                limits::check_image(&name, self.images.len())?;
                let end = self.line.pipe()?;
                if self.images.is_empty() {
                    self.marks.first_ns = clock::now();
                }
                self.pipes.push(Pipe { end, file: self.images.len(), offset: 0, buffer: None, filled: 0 });
                self.images.push(Image { name, bytes: 0 });
            }
        }
        Ok(())
    }

    /// Reads what is there; a chunk if one became full, or ended its image.
    fn fill(&mut self, index: usize, idle: bool) -> Result<Option<Filled>> {
        loop {
            let pipe = &mut self.pipes[index];
            if pipe.offset >= IMAGE_BYTES - self.chunk_bytes as u64 {
                let name = &self.images[pipe.file].name;
                return Err(Error::failed(format!("the image {name} of criu dump has more than {IMAGE_BYTES} bytes"))
                    .hint("save a part of the program: name a process further down"));
            }
            let most = if pipe.offset == 0 { FIRST.min(self.chunk_bytes) } else { self.chunk_bytes };
            if pipe.buffer.is_none() {
                let filling = self.pipes.iter().filter(|pipe| pipe.offset > 0 && pipe.buffer.is_some()).count();
                let Some(buffer) = self.buffer(index, most, filling)? else {
                    if idle {
                        self.pool.wait(POLL_INTERVAL);
                    }
                    return Ok(None);
                };
                self.pipes[index].buffer = Some(buffer);
            }
            let pipe = &mut self.pipes[index];
            let buffer = pipe.buffer.as_mut().expect("just made sure");
            if pipe.filled == most {
                // Whether it is the image's last chunk is known when another byte is there, or its end.
                match waiting(&pipe.end).map_err(|e| self.line.lost(e))? {
                    Waiting::Bytes => return Ok(Some(self.take(index, false))),
                    Waiting::End => return Ok(Some(self.ended(index))),
                    Waiting::Nothing => return Ok(None),
                }
            }
            match rustix::io::read(&pipe.end, &mut buffer[pipe.filled..most]) {
                Ok(0) if pipe.filled == 0 => {
                    self.pipes.swap_remove(index);
                    self.busy = 0;
                    return Ok(None);
                }
                Ok(0) => return Ok(Some(self.ended(index))),
                Ok(read) => pipe.filled += read,
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(self.line.lost(e)),
            }
        }
    }

    /// A buffer for a pipe. Where several images grow at once, as many more as that takes: none may wait for another.
    fn buffer(&self, index: usize, most: usize, filling: usize) -> Result<Option<Buffer>> {
        if self.pipes[index].offset == 0 {
            return Buffer::alone(most).map(Some);
        }
        match self.pool.take() {
            Some(buffer) => Ok(Some(buffer)),
            None if filling > 0 => Buffer::alone(most).map(Some),
            None => Ok(None),
        }
    }

    fn take(&mut self, index: usize, last: bool) -> Filled {
        let pipe = &mut self.pipes[index];
        let (mut buffer, len) = (pipe.buffer.take().expect("it is being filled"), pipe.filled);
        buffer[len..align_up(len)].fill(0);
        let filled = Filled { file: pipe.file, offset: pipe.offset, buffer, len, last };
        pipe.offset += len as u64;
        pipe.filled = 0;
        self.images[pipe.file].bytes = pipe.offset;
        filled
    }

    fn ended(&mut self, index: usize) -> Filled {
        let filled = self.take(index, true);
        self.pipes.swap_remove(index);
        self.busy = 0;
        filled
    }

    /// Closes everything, which ends a dump that has not ended, and waits for CRIU.
    pub fn stop(mut self) {
        self.line.close();
        self.pipes.clear();
        self.criu.stop();
    }
}

#[derive(Clone, Copy)]
enum Place {
    Pipe(usize),
    CriuSocket,
    Criu,
}

enum Waiting {
    Bytes,
    End,
    Nothing,
}

fn waiting(pipe: &OwnedFd) -> io::Result<Waiting> {
    let mut polled = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    let events = polled[0].revents();
    Ok(match (events.contains(PollFlags::IN), events.contains(PollFlags::HUP)) {
        (true, _) => Waiting::Bytes,
        (false, true) => Waiting::End,
        (false, false) => Waiting::Nothing,
    })
}
