//! What the workers of a copy share: they take whole files, or one transfer after the other of any file.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::CopyOptions;
use crate::workload::block::Sync;
use savemark_base::buffer::{Arena, align_up};
use savemark_base::clock;
use savemark_base::error::{Error, Result};
use savemark_measure::worker::Meter;
use savemark_storage::{File, Storage};

/// What the files are called where they come from, and where they go.
pub type Names = (Vec<String>, Vec<String>);

/// A file that is being copied.
struct Open {
    from: Arc<dyn File>,
    to: Arc<dyn File>,
}

/// What the workers share.
pub struct Job<'a> {
    options: &'a CopyOptions,
    from: &'a dyn Storage,
    to: &'a dyn Storage,
    names: Names,
    /// Whether one worker copies a whole file, from front to back.
    whole: bool,
    next: AtomicU64,
    files: Vec<Mutex<Option<Arc<Open>>>>,
    /// Transfers that each file still needs.
    left: Vec<AtomicUsize>,
    /// The files that were made, also if the copy fails later.
    made: Mutex<Vec<String>>,
}

impl<'a> Job<'a> {
    /// Of the files `names`; a worker takes whole files where they cannot be written at any offset.
    pub fn new(options: &'a CopyOptions, from: &'a dyn Storage, to: &'a dyn Storage, names: Names) -> Self {
        let whole = !to.capabilities().rewrites;
        let steps = options.file_size.0.div_ceil(options.transfer_size.0) as usize;
        let count = names.0.len();
        let files = (0..count).map(|_| Mutex::new(None)).collect();
        let left = (0..count).map(|_| AtomicUsize::new(steps)).collect();
        Self { options, from, to, names, whole, next: AtomicU64::new(0), files, left, made: Mutex::default() }
    }

    /// The files that it made.
    pub fn into_made(self) -> Vec<String> {
        self.made.into_inner().expect("no panic while held")
    }

    /// Bytes that a worker moves at a time.
    pub fn buffer_bytes(options: &CopyOptions) -> usize {
        options.transfer_size.0.min(options.file_size.0) as usize
    }

    fn steps(&self) -> u64 {
        self.options.file_size.0.div_ceil(self.options.transfer_size.0)
    }

    /// Copies through the worker's memory until there is nothing left to take.
    pub fn work(&self, arena: &Arc<Arena>, meter: &mut Meter) -> Result<()> {
        // SAFETY: each worker has an arena of its own, which it cuts once in a phase.
        let mut buffer = unsafe { arena.cut_some(align_up(Self::buffer_bytes(self.options)), 1) }.remove(0);
        meter.start()?;
        let units = if self.whole { self.names.0.len() as u64 } else { self.names.0.len() as u64 * self.steps() };
        loop {
            let unit = self.next.fetch_add(1, Ordering::Relaxed);
            if unit >= units {
                return Ok(());
            }
            let (item, steps) = match self.whole {
                true => (unit, 0..self.steps()),
                false => (unit / self.steps(), unit % self.steps()..unit % self.steps() + 1),
            };
            for step in steps {
                meter.check()?;
                self.transfer(item as usize, step, &mut buffer, meter)?;
            }
        }
    }

    fn transfer(&self, item: usize, step: u64, buffer: &mut [u8], meter: &mut Meter) -> Result<()> {
        let open = self.open(item)?;
        let offset = step * self.options.transfer_size.0;
        let len = (self.options.file_size.0 - offset).min(self.options.transfer_size.0) as usize;
        let began = clock::now();
        open.from.read_at(&mut buffer[..len], offset).map_err(|e| Error::io("read", open.from.path(), e))?;
        open.to.write_at(&buffer[..len], offset).map_err(|e| Error::io("write", open.to.path(), e))?;
        let now = clock::now();
        // An upload takes what is written into an object, and its requests end later.
        meter.count_call((!self.whole).then_some(now - began), len as u64, now);
        if self.left[item].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end(item, &open, meter)?;
        }
        Ok(())
    }

    /// Opens a file for whoever comes first; the others share it.
    fn open(&self, item: usize) -> Result<Arc<Open>> {
        let mut slot = self.files[item].lock().expect("no panic while held");
        if let Some(open) = &*slot {
            return Ok(Arc::clone(open));
        }
        let (from, to) = (self.from.open(&self.names.0[item])?, self.to.create(&self.names.1[item])?);
        self.made.lock().expect("no panic while held").push(self.names.1[item].clone());
        let open = Arc::new(Open { from, to });
        *slot = Some(Arc::clone(&open));
        Ok(open)
    }

    /// After its last transfer: makes a file durable, or an object be there.
    fn end(&self, item: usize, open: &Open, meter: &mut Meter) -> Result<()> {
        *self.files[item].lock().expect("no panic while held") = None;
        if self.whole || self.options.sync == Sync::End {
            let began = clock::now();
            open.to.sync()?;
            meter.sync_latency.record(clock::now() - began);
        }
        Ok(())
    }
}
