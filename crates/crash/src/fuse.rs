//! A filesystem of two files, served over /dev/fuse: `disk`, which a loop device sits on, and `mark`.
//!
//! The loop driver turns a write into a write of its file and a flush into an fsync, so what arrives here is what would reach
//! a disk, in its order. A dozen operations are needed, which are written out here after the kernel's
//! `include/uapi/linux/fuse.h`; all others are answered with ENOSYS.

use std::fs::File;
use std::io::{Read, Write};

/// What the two files do.
pub trait Disk {
    /// Size of `disk`.
    fn bytes(&self) -> u64;
    /// Fills `data` from `offset` on.
    fn read(&mut self, offset: u64, data: &mut [u8]);
    /// A write of `disk`.
    fn write(&mut self, offset: u64, data: &[u8]) -> std::io::Result<()>;
    /// A flush of `disk`.
    fn flush(&mut self) -> std::io::Result<()>;
    /// A write of `mark`.
    fn mark(&mut self, data: &[u8]) -> std::io::Result<()>;
}

/// Names of the files.
pub const DISK: &str = "disk";
/// See [`DISK`].
pub const MARK: &str = "mark";

const ROOT_NODE: u64 = 1;
const DISK_NODE: u64 = 2;
const MARK_NODE: u64 = 3;

// Operations.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const BATCH_FORGET: u32 = 42;

const IN_HEADER: usize = 40;
const MAX_WRITE: u32 = 1 << 20;
const MAX_PAGES: u32 = 1 << 22; // FUSE_MAX_PAGES
const BIG_WRITES: u32 = 1 << 5; // FUSE_BIG_WRITES
const DIRECT_IO: u32 = 1; // FOPEN_DIRECT_IO: no page cache between the loop device and us
const MINOR: u32 = 31;

type Reply = Result<Vec<u8>, i32>;

/// Answers requests until the filesystem is unmounted.
pub fn serve(mut device: &File, disk: &mut impl Disk) -> std::io::Result<()> {
    let mut buffer = vec![0; MAX_WRITE as usize + (64 << 10)];
    loop {
        let len = match device.read(&mut buffer) {
            Ok(len) => len,
            Err(e) => match e.raw_os_error() {
                Some(libc::ENODEV) => return Ok(()),
                // A request that was taken back before it was read.
                Some(libc::ENOENT | libc::EINTR | libc::EAGAIN) => continue,
                _ => return Err(e),
            },
        };
        let request = &buffer[..len];
        let operation = u32_at(request, 4);
        if matches!(operation, FORGET | BATCH_FORGET | INTERRUPT) {
            continue;
        }
        let reply = answer(operation, u64_at(request, 16), &request[IN_HEADER..], disk);
        let (error, body) = reply.map_or_else(|errno| (-errno, Vec::new()), |body| (0, body));
        let mut out = Vec::with_capacity(16 + body.len());
        out.extend_from_slice(&(16 + body.len() as u32).to_le_bytes());
        out.extend_from_slice(&error.to_le_bytes());
        out.extend_from_slice(&request[8..16]);
        out.extend_from_slice(&body);
        match device.write_all(&out) {
            // The one who asked was killed meanwhile.
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
            result => result?,
        }
        if operation == DESTROY {
            return Ok(());
        }
    }
}

fn answer(operation: u32, node: u64, body: &[u8], disk: &mut impl Disk) -> Reply {
    match operation {
        INIT => Ok(init(body)),
        LOOKUP => lookup(body, disk),
        GETATTR | SETATTR => Ok(numbers(&[1, 0], &attributes(node, disk))),
        OPEN => Ok([&0u64.to_le_bytes()[..], &DIRECT_IO.to_le_bytes(), &[0; 4]].concat()),
        READ => Ok(read(node, body, disk)),
        WRITE => write(node, body, disk),
        // Refused with ENOSYS, it would be taken as done for ever.
        FSYNC if node == DISK_NODE => disk.flush().map(|()| Vec::new()).map_err(errno),
        FSYNC | FLUSH | RELEASE | DESTROY => Ok(Vec::new()),
        STATFS => Ok(vec![0; 80]),
        _ => Err(libc::ENOSYS),
    }
}

/// `struct fuse_init_out`.
fn init(body: &[u8]) -> Vec<u8> {
    let readahead = u32_at(body, 8);
    let mut out = Vec::new();
    for number in [7, MINOR, readahead, MAX_PAGES | BIG_WRITES] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&[64, 0, 48, 0]); // max_background, congestion_threshold
    out.extend_from_slice(&MAX_WRITE.to_le_bytes());
    out.extend_from_slice(&1u32.to_le_bytes()); // time_gran
    out.extend_from_slice(&((MAX_WRITE / 4096) as u16).to_le_bytes()); // max_pages
    out.resize(64, 0);
    out
}

/// `struct fuse_entry_out`.
fn lookup(body: &[u8], disk: &impl Disk) -> Reply {
    let name = body.split(|byte| *byte == 0).next().unwrap_or_default();
    let node = match std::str::from_utf8(name) {
        Ok(DISK) => DISK_NODE,
        Ok(MARK) => MARK_NODE,
        _ => return Err(libc::ENOENT),
    };
    Ok(numbers(&[node, 0, 1, 1, 0], &attributes(node, disk)))
}

/// `struct fuse_attr`.
fn attributes(node: u64, disk: &impl Disk) -> Vec<u8> {
    let bytes = if node == DISK_NODE { disk.bytes() } else { 0 };
    let mode = if node == ROOT_NODE { libc::S_IFDIR | 0o700 } else { libc::S_IFREG | 0o600 };
    let mut out = numbers(&[node, bytes, bytes / 512, 0, 0, 0], &[0; 12]);
    for number in [mode, 1, 0, 0, 0, 4096, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out
}

fn read(node: u64, body: &[u8], disk: &mut impl Disk) -> Vec<u8> {
    let (offset, size) = (u64_at(body, 8), u64::from(u32_at(body, 16)));
    let end = if node == DISK_NODE { disk.bytes() } else { 0 };
    let mut data = vec![0; size.min(end.saturating_sub(offset)) as usize];
    disk.read(offset, &mut data);
    data
}

fn write(node: u64, body: &[u8], disk: &mut impl Disk) -> Reply {
    let (offset, size) = (u64_at(body, 8), u32_at(body, 16));
    let data = &body[40..][..size as usize];
    let done = if node == DISK_NODE { disk.write(offset, data) } else { disk.mark(data) };
    done.map_err(errno)?;
    Ok(numbers(&[u64::from(size)], &[]))
}

fn numbers(numbers: &[u64], rest: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    out.extend_from_slice(rest);
    out
}

fn errno(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
