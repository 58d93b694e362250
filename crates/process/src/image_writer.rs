//! The thread that talks with `criu restore --stream`, and writes verified chunks into its pipes.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::criu::{Running, stalled};
use super::criu_socket::{CriuSocket, Heard};
use super::image_prefetch::ImagePrefetch;
use super::{POLL_INTERVAL, stall_timeout};
use savemark_base::buffer::Buffer;
use savemark_base::clock;
use savemark_base::error::Result;

/// An image on its way into CRIU.
struct Pipe {
    id: u64,
    end: OwnedFd,
    chunks: Range<usize>,
    /// Bytes of the image that are not written yet.
    left: u64,
    buffer: Option<Buffer>,
    written: usize,
}

/// One restore's connection.
pub struct ImageWriter<'a> {
    serve: &'a ImagePrefetch<'a>,
    criu: &'a mut Running,
    line: CriuSocket,
    pipes: Vec<Pipe>,
    next_id: u64,
    waited: Duration,
}

impl<'a> ImageWriter<'a> {
    /// With a CRIU that was just started.
    pub fn new(serve: &'a ImagePrefetch<'a>, criu: &'a mut Running, line: CriuSocket) -> Self {
        Self { serve, criu, line, pipes: Vec::new(), next_id: 0, waited: Duration::ZERO }
    }

    /// Serves until CRIU has ended or the workers have.
    pub fn run(mut self) {
        while !self.serve.is_stopped() {
            match self.turn() {
                Ok(false) => {}
                Ok(true) => return,
                Err(error) => return self.serve.give_up(error),
            }
        }
    }

    /// Does what can be done now, or waits for it; `true` once CRIU has ended well.
    fn turn(&mut self) -> Result<bool> {
        for pipe in &mut self.pipes {
            if pipe.buffer.is_none() {
                (pipe.buffer, pipe.written) = (self.serve.ready(pipe.id, pipe.chunks.start), 0);
            }
        }
        let start = clock::now();
        let ready = self.look()?;
        if !ready.iter().any(|ready| *ready) {
            // It is CRIU that is waited for, unless a chunk is still on its way to it.
            let fetching = self.pipes.iter().any(|pipe| pipe.buffer.is_none());
            self.waited =
                if fetching { Duration::ZERO } else { self.waited + Duration::from_nanos(clock::now() - start) };
            return if self.waited > stall_timeout() { Err(stalled("restore", stall_timeout())) } else { Ok(false) };
        }
        self.waited = Duration::ZERO;
        if ready[0] {
            let mut count = [0; 8];
            let _ = rustix::io::read(self.serve.wake(), &mut count);
        }
        for index in (0..self.pipes.len()).rev().filter(|index| ready[3 + index]) {
            self.write(index)?;
        }
        if ready[1] {
            self.hear()?;
        } else if ready[2] {
            return match self.criu.wait(Duration::ZERO) {
                Some(ended) if ended.good => {
                    self.serve.ended(ended);
                    Ok(true)
                }
                Some(_) => Err(self.criu.failed()),
                None => Ok(false),
            };
        }
        Ok(false)
    }

    /// What is ready: the bell, the line, CRIU's end, and each pipe that is written to, or closed.
    fn look(&self) -> Result<Vec<bool>> {
        let fixed: [BorrowedFd; 3] = [self.serve.wake().as_fd(), self.line.as_fd(), self.criu.as_fd()];
        let mut polled: Vec<PollFd> = fixed.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        polled.extend(self.pipes.iter().map(|pipe| {
            let wanted = if pipe.buffer.is_some() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(&pipe.end, wanted)
        }));
        match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL.subsec_nanos().into() })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(self.line.lost(e)),
        }
        Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
    }

    /// Answers whether there is an image, and takes the pipe for it.
    fn hear(&mut self) -> Result<()> {
        let Heard::Image(name) = self.line.hear()? else { return Ok(()) };
        let Some((chunks, left)) = self.serve.catalog().image(&name) else { return self.line.reply(false) };
        self.line.reply(true)?;
        let end = self.line.pipe()?;
        self.next_id += 1;
        self.serve.open(self.next_id, chunks.clone());
        self.pipes.push(Pipe { id: self.next_id, end, chunks, left, buffer: None, written: 0 });
        Ok(())
    }

    /// Writes as much as the pipe takes; closes it at the image's end, or when CRIU has closed it.
    fn write(&mut self, index: usize) -> Result<()> {
        let pipe = &mut self.pipes[index];
        let len = self.serve.catalog().chunk_bytes(pipe.chunks.start).min(pipe.left + pipe.written as u64) as usize;
        let Some(buffer) = &pipe.buffer else { return self.close(index) };
        match rustix::io::write(&pipe.end, &buffer[pipe.written..len]) {
            Ok(written) => {
                pipe.written += written;
                pipe.left -= written as u64;
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
            Err(rustix::io::Errno::PIPE) => return self.close(index),
            Err(e) => return Err(self.line.lost(e)),
        }
        if pipe.written == len {
            pipe.buffer = None;
            pipe.written = 0;
            pipe.chunks.start += 1;
            self.serve.written(pipe.id);
            if self.pipes[index].left == 0 {
                return self.close(index);
            }
        }
        Ok(())
    }

    fn close(&mut self, index: usize) -> Result<()> {
        let pipe = self.pipes.swap_remove(index);
        self.serve.close(pipe.id, pipe.chunks);
        Ok(())
    }
}
