//! The queue of a ring: what is submitted, what has completed, and the rest of what came short.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use io_uring::{IoUring, opcode, squeue, types};

use crate::{File, Queue, io_error};
use savemark_base::buffer::Arena;
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_base::io::{Completion, Op, Operation};

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
    /// I/Os from registered memory, and from other memory: reads, then writes.
    counts: [[u64; 2]; 2],
    submitted: Arc<Submitted>,
    _arena: Arc<Arena>,
}

/// I/Os that were submitted to the rings of one storage: by direction, from registered memory and from other memory.
#[derive(Debug, Default)]
pub struct Submitted([[AtomicU64; 2]; 2]);

impl Submitted {
    fn counts(&self) -> [[u64; 2]; 2] {
        self.0.each_ref().map(|way| way.each_ref().map(|count| count.load(Relaxed)))
    }

    /// All of them.
    pub fn count(&self) -> u64 {
        self.counts().as_flattened().iter().sum()
    }

    /// Whether there were any, all from registered memory.
    pub fn all_fixed(&self) -> bool {
        self.count() > 0 && self.counts().iter().all(|[_, plain]| *plain == 0)
    }

    /// How many used registered memory, where some did and some did not.
    pub fn some_fixed(&self) -> Option<String> {
        let [[read, plain_read], [written, plain_written]] = self.counts();
        let (reads, writes) = (read + plain_read, written + plain_written);
        let mixed = read + written > 0 && plain_read + plain_written > 0;
        mixed.then(|| format!("fixed buffers: {read} of {reads} reads and {written} of {writes} writes, not those from memory of the state"))
    }
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
        submitted: &Arc<Submitted>,
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
            counts: Default::default(),
            submitted: Arc::clone(submitted),
            _arena: Arc::clone(arena),
        })
    }

    /// Queues the part of `slot`'s I/O that has not been moved yet.
    fn push(&mut self, slot: u32) -> Result<()> {
        let pending = self.pending[slot as usize].as_ref().expect("a queued slot is pending");
        let fixed = self.fixed.contains(&(pending.op.buffer.ptr() as usize));
        self.counts[usize::from(pending.op.operation == Operation::Write)][usize::from(!fixed)] += 1;
        let entry = self.entry(&pending.op, pending.moved, fixed).user_data(u64::from(slot));
        // SAFETY: the buffer and the file stay in `pending` and `files` until the completion.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            return Err(Error::failed("the io_uring submission queue is full; this is a bug in savemark"));
        }
        Ok(())
    }

    fn entry(&self, op: &Op, moved: usize, fixed: bool) -> squeue::Entry {
        // SAFETY: `moved < len <= buffer.len()`.
        let address = unsafe { op.buffer.ptr().add(moved) };
        let (len, offset) = ((op.len - moved) as u32, op.offset + moved as u64);
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
        let latency_ns = Some(now_ns.saturating_sub(start_ns));
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
        if self.in_flight() > 0 {
            // The kernel cannot be asked any more, and may still write: this memory is nobody's again.
            std::mem::forget((std::mem::take(&mut self.pending), Arc::clone(&self._arena)));
        }
        for (sums, counts) in self.submitted.0.iter().zip(self.counts) {
            for (sum, count) in sums.iter().zip(counts) {
                sum.fetch_add(count, Relaxed);
            }
        }
        if self.registered_files {
            // A closed ring lets go of its files some time later; till then a removed file keeps its room on the disk.
            let _ = self.ring.submitter().unregister_files();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::path::Path;

    use super::*;

    /// A read from it ends only when somebody writes.
    struct Pipe(OwnedFd);

    impl File for Pipe {
        fn path(&self) -> &Path {
            Path::new("a pipe")
        }
        fn read_at(&self, _: &mut [u8], _: u64) -> std::io::Result<()> {
            unreachable!("read through the ring")
        }
        fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<()> {
            unreachable!("never written")
        }
        fn size(&self) -> Result<u64> {
            Ok(0)
        }
        fn fd(&self) -> Option<BorrowedFd<'_>> {
            Some(std::os::fd::AsFd::as_fd(&self.0))
        }
        fn allocate(&self, _: u64) -> Result<()> {
            Ok(())
        }
        fn truncate(&self, _: u64) -> Result<()> {
            Ok(())
        }
        fn sync(&self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn memory_that_the_kernel_may_still_write_is_never_freed() {
        let (reads, _writes) = rustix::pipe::pipe().unwrap();
        let files: [Arc<dyn File>; 1] = [Arc::new(Pipe(reads))];
        let arena = Arena::new(4096).unwrap();
        let ring = IoUring::new(2).unwrap();
        let fd = ring.as_raw_fd();
        let mut queue = UringQueue::new(ring, &files, 2, &arena, 0..0, false, &Arc::default()).unwrap();
        // SAFETY: the arena is new, and cut once.
        let buffer = unsafe { arena.cut(4096) }.remove(0);
        queue.submit(Op { operation: Operation::Read, file: 0, offset: 0, len: 4096, buffer, token: 0 }).unwrap();
        queue.wait(0, &mut Vec::new()).unwrap();
        let nothing = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the ring's descriptor becomes one of /dev/null, so that entering the ring fails.
        assert_eq!(unsafe { libc::dup2(nothing.as_raw_fd(), fd) }, fd);
        let kept = Arc::downgrade(&arena);
        drop((arena, queue));
        assert!(kept.upgrade().is_some(), "the read is still in flight");
    }
}
