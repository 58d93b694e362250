//! What is done with a block besides moving it, where somebody asks for it: unique data, looking at it, comparing it.

use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use super::content::{Content, Dedup, Stamp};
use super::options::BlockOptions;
use super::pattern::BlockAddress;
use crate::common::Common;
use savemark_base::digest::digest;
use savemark_base::error::{Error, Result};
use savemark_base::io::Operation;
use savemark_base::payload::PayloadKind;
use savemark_base::payload::written::Written;
use savemark_measure::worker::{Meter, timed};

/// How often each block of a worker's own part has been written.
pub struct WriteGenerations {
    files: u32,
    range: Range<u64>,
    /// The highest bit: an I/O on it is under way.
    generations: Vec<u32>,
    /// All blocks were written before, as generation 0.
    laid_out: bool,
}

const BUSY: u32 = 1 << 31;

impl WriteGenerations {
    /// Of the blocks `range` of each of `files`.
    pub fn new(files: u32, range: Range<u64>, laid_out: bool) -> Self {
        let len = (range.end - range.start) * u64::from(files);
        Self { files, range, generations: vec![0; len as usize], laid_out }
    }

    fn at(&mut self, place: BlockAddress) -> &mut u32 {
        let len = self.range.end - self.range.start;
        let index = u64::from(place.file) * len + place.block - self.range.start;
        &mut self.generations[index as usize]
    }

    /// All blocks that hold what was written, from front to back.
    pub fn written(&self) -> Vec<BlockAddress> {
        let len = self.range.end - self.range.start;
        let place = |index: u64| BlockAddress { file: (index / len) as u32, block: self.range.start + index % len };
        let written = |index: &u64| self.laid_out || self.generations[*index as usize] > 0;
        (0..len * u64::from(self.files)).filter(written).map(place).collect()
    }
}

/// How the blocks of a worker are written and compared.
pub struct Verify<'a> {
    content: Content,
    /// Whose blocks, and which is the first of its files.
    owner: u32,
    first_file: u32,
    /// Without one, every block is of `generation`.
    generations: Option<MutexGuard<'a, WriteGenerations>>,
    generation: u32,
    /// Blocks differ by their heads alone; buffers hold the rest before the first write.
    marked: bool,
    expected: Vec<u8>,
}

impl<'a> Verify<'a> {
    /// Of blocks that are written once, as `generation`.
    pub fn once(common: &Common, owner: usize, generation: u32) -> Self {
        let (content, owner) = (Content::new(common), owner as u32);
        Self { content, owner, first_file: 0, generations: None, generation, marked: false, expected: Vec::new() }
    }

    /// As [`Verify::once`], of blocks of `transfer` bytes that differ by their heads alone, in buffers that hold
    /// [`Content::ground`].
    pub fn marked(common: &Common, owner: usize, transfer: usize) -> Self {
        let mut verify = Self { marked: true, expected: vec![0; transfer], ..Self::once(common, owner, 1) };
        verify.content.ground(&mut verify.expected);
        verify
    }

    /// Of files that count from `first_file`, and blocks whose generations are in `generations`, if there is one, or 0.
    pub fn counted(common: &Common, first_file: u32, generations: Option<&'a Mutex<WriteGenerations>>) -> Self {
        let generations = generations.map(|generations| generations.lock().expect("one worker each"));
        Self { first_file, generations, ..Self::once(common, 0, 0) }
    }

    fn stamp(&mut self, place: BlockAddress, transfer: usize) -> Stamp {
        let generation =
            self.generations.as_mut().map_or(self.generation, |generations| *generations.at(place) & !BUSY);
        let (file, offset) = (self.first_file + place.file, place.block * transfer as u64);
        Stamp { owner: self.owner, file, offset, generation }
    }

    fn before(&mut self, operation: Operation, place: BlockAddress, buffer: &mut [u8]) -> bool {
        if let Some(generations) = &mut self.generations {
            let generation = generations.at(place);
            if *generation & BUSY != 0 {
                return false;
            }
            *generation += u32::from(operation == Operation::Write);
            *generation |= BUSY;
        }
        if operation == Operation::Write {
            let stamp = self.stamp(place, buffer.len());
            self.make(stamp, buffer);
        }
        true
    }

    fn make(&self, stamp: Stamp, block: &mut [u8]) {
        if self.marked { self.content.mark(stamp, block) } else { self.content.fill(stamp, block) }
    }

    fn after(&mut self, operation: Operation, place: BlockAddress, buffer: &[u8], path: &Path) -> Result<()> {
        if let Some(generations) = &mut self.generations {
            *generations.at(place) &= !BUSY;
        }
        if operation == Operation::Write {
            return Ok(());
        }
        let stamp = self.stamp(place, buffer.len());
        let mut expected = std::mem::take(&mut self.expected);
        expected.resize(buffer.len(), 0);
        self.make(stamp, &mut expected);
        let difference = self.content.difference(stamp, buffer, &expected);
        self.expected = expected;
        difference.map_or(Ok(()), |wrong| Err(Error::corrupt(format!("{}: {wrong}", path.display()))))
    }
}

/// What is done with each block of one worker.
pub struct BlockChecks<'a> {
    checksum: bool,
    dedup: Option<Dedup>,
    verify: Option<Verify<'a>>,
    /// A sample of what is written, and where it goes at the end.
    written: Option<(Written, &'a Mutex<Written>)>,
    sum: u64,
}

impl<'a> BlockChecks<'a> {
    /// As the options say; `None` if that is nothing. `written` is told at the end what this worker has written, unless the
    /// bytes that are written are none of the buffers'.
    pub fn new(
        options: &BlockOptions,
        common: &Common,
        worker: usize,
        verify: Option<Verify<'a>>,
        written: Option<&'a Mutex<Written>>,
    ) -> Option<Self> {
        let written = written.filter(|_| options.direction().writes());
        // Zeros are asked for to see what a storage makes of them.
        let unique = written.is_some() && verify.is_none() && common.payload != PayloadKind::Zeros;
        let dedup = options.dedup.or(unique.then_some(0)).map(|percent| Dedup::new(percent, common.seed, worker));
        let asked = options.checksum || written.is_some() || dedup.is_some() || verify.is_some();
        let written = written.map(|sum| (Written::default(), sum));
        asked.then_some(Self { checksum: options.checksum, dedup, verify, written, sum: 0 })
    }

    /// Makes a block ready to be moved; `false` if an I/O on it is under way.
    pub fn before(&mut self, operation: Operation, place: BlockAddress, buffer: &mut [u8]) -> bool {
        if let Some(verify) = &mut self.verify
            && !verify.before(operation, place, buffer)
        {
            return false;
        }
        if operation == Operation::Write {
            if let Some(dedup) = &mut self.dedup {
                dedup.mark(buffer);
            }
            if let Some((written, _)) = &mut self.written {
                written.add(buffer);
            }
        }
        true
    }

    /// Looks at a block that was moved, of the file at `path`.
    pub fn after(
        &mut self,
        operation: Operation,
        place: BlockAddress,
        buffer: &[u8],
        path: &Path,
        meter: &mut Meter,
    ) -> Result<()> {
        let Self { checksum, verify, sum, .. } = self;
        if !*checksum && verify.is_none() {
            return Ok(());
        }
        timed(&mut meter.thread_time.digest_ns, || {
            if *checksum && operation == Operation::Read {
                *sum ^= std::hint::black_box(digest(buffer));
            }
            verify.as_mut().map_or(Ok(()), |verify| verify.after(operation, place, buffer, path))
        })
    }
}

impl Drop for BlockChecks<'_> {
    fn drop(&mut self) {
        if let Some((written, sum)) = self.written.take() {
            sum.lock().expect("no panic while held").merge(written);
        }
    }
}
