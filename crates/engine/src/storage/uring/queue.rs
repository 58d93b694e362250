//! The queue of a ring: what is submitted, what has completed, and the rest of what came short.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};

use crate::buffer::Arena;
use crate::error::{Error, Result};
use crate::measure::clock;
use crate::storage::{Completion, File, Op, Operation, Queue, io_error};

/// What is known of an I/O in flight.
struct Pending {
    op: Op,
    moved: usize,
    start_ns: u64,
}

/// I/Os of one thread on one ring.
pub struct UringQueue {
    ring: IoUring,
    files: Vec<Arc<dyn File>>,
    registered_files: bool,
    /// The registered range; empty if nothing is registered.
    fixed: std::ops::Range<usize>,
    pending: Vec<Option<Pending>>,
    free: Vec<u32>,
    /// Room for completion-queue entries between taking and handling them.
    reaped: Vec<(u32, i32)>,
    /// Time of the first submission since the last wait: a batch shares one reading of the clock.
    now_ns: u64,
    _arena: Arc<Arena>,
}

impl UringQueue {
    /// `fixed` is the range of addresses that is registered with `ring`; empty without one.
    pub fn new(
        ring: IoUring,
        files: &[Arc<dyn File>],
        depth: u32,
        arena: &Arc<Arena>,
        fixed: std::ops::Range<usize>,
        registered_files: bool,
    ) -> Result<Self> {
        let depth = depth.max(1);
        if registered_files {
            let fds: Vec<_> = files.iter().filter_map(|f| f.fd()).map(|fd| fd.as_raw_fd()).collect();
            let registered = ring.submitter().register_files(&fds);
            registered
                .map_err(|e| Error { source: Some(e), ..Error::failed("cannot register files with io_uring") })?;
        }
        Ok(Self {
            ring,
            files: files.to_vec(),
            registered_files,
            fixed,
            pending: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            reaped: Vec::with_capacity(2 * depth as usize),
            now_ns: 0,
            _arena: Arc::clone(arena),
        })
    }

    /// Queues the part of `slot`'s I/O that has not been moved yet.
    fn push(&mut self, slot: u32) -> Result<()> {
        let pending = self.pending[slot as usize].as_ref().expect("a queued slot is pending");
        let entry = self.entry(&pending.op, pending.moved).user_data(u64::from(slot));
        // SAFETY: the buffer and the file stay in `pending` and `files` until the completion.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            return Err(Error::failed("the io_uring submission queue is full; this is a bug in savemark"));
        }
        Ok(())
    }

    fn entry(&self, op: &Op, moved: usize) -> squeue::Entry {
        // SAFETY: `moved < len <= buffer.len()`.
        let address = unsafe { op.buffer.ptr().add(moved) };
        let (len, offset) = ((op.len - moved) as u32, op.offset + moved as u64);
        let fixed = self.fixed.contains(&(address as usize));
        let (file, flags) = match self.registered_files {
            true => (op.file as i32, squeue::Flags::FIXED_FILE),
            false => (self.files[op.file].fd().map_or(-1, |fd| fd.as_raw_fd()), squeue::Flags::empty()),
        };
        build(types::Fd(file), op.operation, fixed, address, len, offset).flags(flags)
    }

    /// Appends all that has completed; returns when it was seen.
    fn reap(&mut self, done: &mut Vec<Completion>) -> Result<u64> {
        self.now_ns = 0;
        let now_ns = clock::now();
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(self.ring.completion().map(|entry| (entry.user_data() as u32, entry.result())));
        for (slot, result) in reaped.drain(..) {
            self.complete(slot, result, now_ns, done)?;
        }
        self.reaped = reaped;
        Ok(now_ns)
    }

    /// Turns a completion-queue entry into a [`Completion`], or queues the rest of a short I/O.
    fn complete(&mut self, slot: u32, result: i32, now_ns: u64, done: &mut Vec<Completion>) -> Result<()> {
        let pending = self.pending[slot as usize].as_mut().expect("the kernel completes what was queued");
        let error = match result {
            n if n > 0 => {
                pending.moved += n as usize;
                if pending.moved < pending.op.len {
                    return self.push(slot);
                }
                None
            }
            0 => Some(std::io::ErrorKind::UnexpectedEof.into()),
            e if e == -libc::EINTR || e == -libc::EAGAIN => return self.push(slot),
            e => Some(std::io::Error::from_raw_os_error(-e)),
        };
        let Pending { op, start_ns, .. } = self.pending[slot as usize].take().expect("pending, as above");
        self.free.push(slot);
        let error = error.map(|e| io_error(op.operation, self.files[op.file].path(), op.offset, op.len, e));
        let latency_ns = now_ns.saturating_sub(start_ns);
        done.push(Completion { token: op.token, buffer: op.buffer, len: op.len, latency_ns, error });
        Ok(())
    }
}

/// What stops io_uring_enter and is no failure: a signal, a full queue, the end of a wait.
fn entered(result: std::io::Result<usize>) -> Result<()> {
    match result {
        Err(e) if !matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME)) => {
            Err(Error { source: Some(e), ..Error::failed("io_uring_enter failed") })
        }
        _ => Ok(()),
    }
}

fn build(file: types::Fd, operation: Operation, fixed: bool, address: *mut u8, len: u32, offset: u64) -> squeue::Entry {
    match (operation, fixed) {
        (Operation::Read, true) => opcode::ReadFixed::new(file, address, len, 0).offset(offset).build(),
        (Operation::Read, false) => opcode::Read::new(file, address, len).offset(offset).build(),
        (Operation::Write, true) => opcode::WriteFixed::new(file, address, len, 0).offset(offset).build(),
        (Operation::Write, false) => opcode::Write::new(file, address, len).offset(offset).build(),
    }
}

/// Pins the buffers once, not at each I/O.
pub fn register_buffers(ring: &IoUring, arena: &Arena) -> Result<()> {
    let vector = libc::iovec { iov_base: arena.as_ptr().cast(), iov_len: arena.len() };
    // SAFETY: the queue keeps the arena alive as long as the ring.
    let registered = unsafe { ring.submitter().register_buffers(&[vector]) };
    registered.map_err(|e| {
        let message = format!("cannot register {} bytes of buffers with io_uring", arena.len());
        Error { source: Some(e), ..Error::failed(message) }
            .hint("raise the locked-memory limit: ulimit -l unlimited; or use --fixed-buffers off")
    })
}

impl Queue for UringQueue {
    fn submit(&mut self, op: Op) -> Result<()> {
        let Some(slot) = self.free.pop() else {
            return Err(Error::failed("more I/Os in flight than the queue is deep; this is a bug in savemark"));
        };
        if self.now_ns == 0 {
            self.now_ns = clock::now();
        }
        self.pending[slot as usize] = Some(Pending { op, moved: 0, start_ns: self.now_ns });
        self.push(slot)
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<u64> {
        let wanted = done.len() + min.min(self.in_flight());
        loop {
            let missing = wanted.saturating_sub(done.len());
            entered(self.ring.submit_and_wait(missing))?;
            let now_ns = self.reap(done)?;
            if done.len() >= wanted {
                return Ok(now_ns);
            }
        }
    }

    fn wait_until(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> Result<u64> {
        loop {
            let left_ns = until_ns.saturating_sub(clock::now());
            let left = types::Timespec::from(std::time::Duration::from_nanos(left_ns));
            let args = types::SubmitArgs::new().timespec(&left);
            entered(self.ring.submitter().submit_with_args(1, &args))?;
            let before = done.len();
            let now_ns = self.reap(done)?;
            if done.len() > before || now_ns >= until_ns {
                return Ok(now_ns);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.pending.len() - self.free.len()
    }
}

impl Drop for UringQueue {
    /// The kernel may still write into buffers that are in flight: they must not be freed before it has ended.
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.in_flight() > 0 && self.wait(self.in_flight(), &mut done).is_ok() {}
        if self.registered_files {
            // A closed ring lets go of its files some time later; till then a removed file keeps its room on the disk.
            let _ = self.ring.submitter().unregister_files();
        }
    }
}
