//! What is asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workload::checkpoint::CacheState;
use savemark_base::buffer::{ALIGN, Pages};
use savemark_base::error::{Error, Result};
use savemark_base::io::Operation;
use savemark_base::size::{Size, Span};

/// When written bytes are made durable; always inside the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// Never.
    None,
    /// After each write.
    Each,
    /// Once, after each worker's last write.
    #[default]
    End,
    /// One flush for all workers: each stops after `sync_every` I/Os, the last to come flushes, and all go on. A worker that
    /// has nothing left to do leaves the group; the last to leave flushes once more if anything was written since.
    Group,
}

/// Options that `sequential`, `random` and `strided` share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BlockOptions {
    /// Direction; where `reads` is given, both.
    pub operation: Operation,
    /// Percent of reads in a mix of reads and writes, drawn for each I/O; all of `operation` when left out.
    pub reads: Option<u32>,
    /// Length of each file.
    pub size: Size,
    /// Files per worker; one file for all workers when left out. In a bucket each is an object, moved whole by one request, so
    /// that `transfer_size` is its size.
    pub files: Option<u32>,
    /// Bytes of one I/O.
    pub transfer_size: Size,
    /// I/Os in flight per worker; storages whose calls block have one.
    pub queue_depth: u32,
    /// Threads of each rank.
    pub workers: u32,
    /// Completions to wait for in one system call; when left out an eighth of the depth, from a depth of 128 on a quarter.
    pub batch: Option<u32>,
    /// Time to run, round and round; without it and without `operations` once through.
    pub duration: Option<Span>,
    /// I/Os per worker, if that comes first.
    pub operations: Option<u64>,
    /// When writes are made durable; always inside the time.
    pub sync: Sync,
    /// I/Os of each worker between two flushes of `sync: group`; one flush at the end when left out.
    pub sync_every: Option<u64>,
    /// Reserve the room of files before they are written: what is measured is then writing, not allocating.
    pub preallocate: bool,
    /// Write blocks that say where and when they were written, and compare each that is read. What was written is read back in
    /// a phase of its own, `verify`. Workers then write blocks of their own only.
    pub verify: bool,
    /// Percent of written blocks that repeat earlier ones. All others are unique, as all are when this is left out: 8 bytes of
    /// every 4096 differ from all that was written before.
    pub dedup: Option<u32>,
    /// I/Os per second of all workers of all ranks together, started when they are due whether earlier ones have ended or not (open loop).
    /// Latencies then count from that moment. As fast as possible when left out.
    pub rate: Option<u64>,
    /// Keep the files that are read, and take those that an earlier trial of this run laid out: same size, data and number. They
    /// go with the run's folder. A server may then answer from its cache.
    pub keep: bool,
    /// Page cache before a read: dropped and looked at, or warmed by reading everything once.
    pub cache: CacheState,
    /// Bytes of memory to move through, round and round, shared by the workers; what is in flight when left out.
    /// A device can be a good deal faster into little memory, which stays in the processor's cache.
    pub memory: Option<Size>,
    /// Write from the memory of the state that `checkpoint` saves with the same size, data and seed, each block from a place of its
    /// own: what a save can be at best. No effect where the storage moves memory of GPUs.
    pub from_state: bool,
    /// Ask the kernel for huge pages for that memory. Into pages of 4 KiB, which most programs have, large I/Os are cut into many
    /// pieces, and some devices take half as many bytes per second.
    pub huge_pages: bool,
    /// Look at every byte that was read, as whoever wants the data must.
    pub checksum: bool,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self {
            operation: Operation::Write,
            reads: None,
            size: Size(256 << 20),
            files: None,
            transfer_size: Size(1 << 20),
            queue_depth: 8,
            workers: 1,
            batch: None,
            duration: None,
            operations: None,
            sync: Sync::End,
            sync_every: None,
            preallocate: true,
            verify: false,
            dedup: None,
            rate: None,
            keep: false,
            cache: CacheState::Cold,
            memory: None,
            from_state: false,
            huge_pages: true,
            checksum: false,
        }
    }
}

/// In which order blocks are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From front to back, each worker in a part of its own.
    Sequential,
    /// Anywhere.
    Random,
    /// Every so many blocks, each worker in a part of its own.
    Strided(u64),
}

/// What is done to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// All are read.
    Read,
    /// All are written.
    Write,
    /// So many of a hundred are read.
    Mix(u32),
}

impl Direction {
    /// The name of the phase.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Mix(_) => "mix",
        }
    }
    /// Whether anything is read.
    pub fn reads(self) -> bool {
        self != Self::Write
    }
    /// Whether anything is written.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// Files that can be open at one time, by any means.
const MOST_FILES: u64 = 1 << 20;

impl BlockOptions {
    /// What is done to blocks.
    pub fn direction(&self) -> Direction {
        match (self.reads, self.operation) {
            (Some(percent), _) => Direction::Mix(percent),
            (None, Operation::Read) => Direction::Read,
            (None, Operation::Write) => Direction::Write,
        }
    }

    /// Bytes of one I/O.
    pub fn transfer(&self) -> usize {
        self.transfer_size.0 as usize
    }

    /// Whole transfers in a file.
    pub fn blocks(&self) -> u64 {
        self.size.0 / self.transfer_size.0.max(1)
    }

    /// I/Os in flight per worker.
    pub fn depth(&self) -> usize {
        self.queue_depth as usize
    }

    /// Completions to wait for: as given, or enough to share a system call and too little to drain the queue. A deep queue can
    /// wait for more: 32 is what the kernel hands to a device at once.
    pub fn batch(&self) -> usize {
        let share = if self.queue_depth < 128 { 8 } else { 4 };
        self.batch.unwrap_or(self.queue_depth / share).clamp(1, self.queue_depth.max(1)) as usize
    }

    /// Buffers of each worker: at least one for each I/O in flight.
    pub fn buffers(&self) -> usize {
        let memory = self.memory.map_or(0, |size| size.0 / u64::from(self.workers.max(1)));
        (memory as usize / self.transfer().max(1)).max(self.depth())
    }

    /// The pages of that memory.
    pub fn pages(&self) -> Pages {
        if self.huge_pages { Pages::Huge } else { Pages::Small }
    }

    /// Checks what the types cannot say.
    pub fn check(&self, order: Order) -> Result<()> {
        self.check_geometry(order)?;
        self.check_sync()?;
        let percent = |name: &str, value: Option<u32>| match value {
            Some(value) if value > 100 => Err(Error::usage(format!("{name}: {value} is more than 100 percent"))),
            _ => Ok(()),
        };
        percent("reads", self.reads)?;
        percent("dedup", self.dedup)?;
        if self.dedup.is_some() && !self.direction().writes() {
            return Err(Error::usage("dedup: nothing is written").hint("use --operation write, or --reads"));
        }
        if self.dedup.is_some() && self.verify {
            return Err(Error::usage("dedup: with `verify` every block is unique").hint("leave one of the two out"));
        }
        if self.keep && self.direction() != Direction::Read {
            return Err(Error::usage("keep: only files that are read alone are the same for the next trial")
                .hint("use --operation read, or leave keep out"));
        }
        self.check_from_state()?;
        if self.rate == Some(0) || self.operations == Some(0) {
            return Err(Error::usage("rate and operations: at least 1"));
        }
        Ok(())
    }

    fn check_from_state(&self) -> Result<()> {
        let refused = [
            ("operation: read", self.direction() != Direction::Write),
            ("duration", self.duration.is_some()),
            ("operations", self.operations.is_some()),
            ("memory", self.memory.is_some()),
            ("verify", self.verify),
            ("dedup", self.dedup.is_some()),
        ];
        match refused.into_iter().find(|(_, asked)| self.from_state && *asked) {
            Some((other, _)) => {
                Err(Error::usage(format!("from_state: it writes each byte of a state once, without {other}"))
                    .hint("leave one of the two out"))
            }
            None => Ok(()),
        }
    }

    fn check_geometry(&self, order: Order) -> Result<()> {
        let (transfer, workers) = (self.transfer_size.0, u64::from(self.workers));
        if transfer == 0 || !transfer.is_multiple_of(ALIGN as u64) || transfer > 1 << 30 {
            return Err(Error::usage(format!("transfer_size: {transfer} is not a multiple of 4KiB up to 1GiB")));
        }
        if self.blocks() == 0 {
            return Err(Error::usage(format!("size: {} is less than one transfer", self.size)));
        }
        if !(1..=4096).contains(&self.queue_depth) || !(1..=1024).contains(&workers) {
            return Err(Error::usage("queue_depth must be 1 to 4096 and workers 1 to 1024"));
        }
        if let Some(files) = self.files.map(u64::from)
            && (files == 0 || files * workers > MOST_FILES)
        {
            return Err(Error::usage(format!(
                "files: {files} for each of {workers} workers; 1 to {MOST_FILES} in all"
            )));
        }
        if self.files.is_none() && workers > self.blocks() && (order != Order::Random || self.verify) {
            return Err(Error::usage(format!("{workers} workers share {} transfers", self.blocks()))
                .hint("fewer --workers or a larger --size"));
        }
        if let Order::Strided(step) = order
            && !(1..=self.blocks()).contains(&step)
        {
            return Err(Error::usage("stride: it is at least transfer_size and at most the size of a file"));
        }
        Ok(())
    }

    fn check_sync(&self) -> Result<()> {
        let direction = self.direction();
        if self.sync == Sync::Each && (self.queue_depth > 1 || direction != Direction::Write) {
            return Err(Error::usage("sync: `each` means writing one block at a time").hint("use --queue-depth 1"));
        }
        if self.sync == Sync::Group && !direction.writes() {
            return Err(Error::usage("sync: nothing is written").hint("use --sync none"));
        }
        match self.sync_every {
            Some(_) if self.sync != Sync::Group => {
                Err(Error::usage("sync_every: only `sync: group` has it").hint("add --sync group"))
            }
            Some(0) => Err(Error::usage("sync_every: at least 1")),
            _ => Ok(()),
        }
    }
}
