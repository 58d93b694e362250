//! Write and fsync in one submission: the second starts in the kernel when the first has succeeded.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Mutex;

use io_uring::{IoUring, opcode, squeue, types};

use super::Commit;
use crate::workload::iterate::file::{HEADER_BYTES, Header};
use crate::workload::iterate::turn::Turn;
use savemark_base::error::{Error, Result};
use savemark_measure::worker::timed;
use savemark_storage::uring;

/// A write has its length in 32 bits, and the kernel moves no 2 GiB at once.
const MOST: usize = 1 << 30;

/// See the [module](self).
pub struct Linked {
    file: File,
    path: PathBuf,
    /// Bytes of one write.
    most: usize,
    /// One per thread.
    rings: Vec<Mutex<IoUring>>,
}

impl Linked {
    /// Over `file`, for `workers` threads.
    pub fn new(file: File, path: PathBuf, workers: usize) -> Result<Self> {
        uring::probe()?;
        let ring = |_| IoUring::new(4).map(Mutex::new).map_err(|e| Error::io("make a ring for", &path, e));
        Ok(Self { rings: (0..workers).map(ring).collect::<Result<_>>()?, file, path, most: MOST })
    }

    /// Writes `bytes` at `offset` and syncs. What is too long for one write goes in several chains, as does the rest of a write
    /// that comes back short, which breaks its chain.
    fn write_and_sync(&self, ring: &mut IoUring, mut bytes: &[u8], mut offset: u64) -> std::io::Result<()> {
        let file = types::Fd(self.file.as_raw_fd());
        loop {
            let write =
                opcode::Write::new(file, bytes.as_ptr(), bytes.len().min(self.most) as u32).offset(offset).build();
            let chain =
                [write.flags(squeue::Flags::IO_LINK).user_data(0), opcode::Fsync::new(file).build().user_data(1)];
            // SAFETY: the bytes and the file outlive the two completions that are waited for here.
            unsafe { ring.submission().push_multiple(&chain) }.map_err(std::io::Error::other)?;
            let mut results = [0; 2];
            for _ in 0..2 {
                let entry = loop {
                    if let Some(entry) = ring.completion().next() {
                        break entry;
                    }
                    match ring.submit_and_wait(1) {
                        Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
                        result => drop(result?),
                    }
                };
                results[entry.user_data() as usize] = entry.result();
            }
            match results {
                [written, 0] if written as usize == bytes.len() => return Ok(()),
                [written, _] if written > 0 && (written as usize) < bytes.len() => {
                    bytes = &bytes[written as usize..];
                    offset += written as u64;
                }
                [written, _] if written < 0 => return Err(std::io::Error::from_raw_os_error(-written)),
                [_, synced] => return Err(std::io::Error::from_raw_os_error(-synced)),
            }
        }
    }
}

impl Commit for Linked {
    fn save(&self, turn: &mut Turn) -> Result<()> {
        let mut ring = self.rings[turn.index].lock().expect("one thread each");
        let header = Header { generation: turn.generation, digest: 0 }.to_bytes();
        let mut go = |turn: &mut Turn, bytes: &[u8], offset| {
            turn.writes += 1;
            let mut took_ns = 0;
            let done = timed(&mut took_ns, || self.write_and_sync(&mut ring, bytes, offset));
            // One call does both, and nobody can tell them apart.
            turn.spent.sync_ns += took_ns;
            turn.syncs.push(took_ns);
            done.map_err(|e| Error::io("write and sync", &self.path, e))
        };
        if turn.is_leader() {
            go(turn, &header[..], 0)?;
        }
        for rows in turn.parts() {
            let start = (rows.start * turn.grid.side() * 8) as u64;
            let bytes = turn.grid.rows(turn.generation, rows);
            go(turn, bytes, HEADER_BYTES + start)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_for_one_write_is_written_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_path_buf();
        let linked = Linked { most: 5000, ..Linked::new(file.reopen().unwrap(), path.clone(), 1).unwrap() };
        for len in [1, 5000, 5001, 17_000] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            linked.write_and_sync(&mut linked.rings[0].lock().unwrap(), &bytes, 7).unwrap();
            assert!(std::fs::read(&path).unwrap()[7..7 + len] == bytes, "{len}");
        }
    }
}
