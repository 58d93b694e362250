//! Files read into a GPU's memory and written from it: by GPUDirect Storage, or by the ways that it competes with.
//!
//! Each worker has a GPU, and on it a mirror of its buffers, registered once. What really moved the bytes is proven by the
//! counters of nvidia-fs, and the name of the path never says more than is known.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::directory::{Directory, Queueing};
use super::synchronous::{Calls, Synchronous};
use super::{Capabilities, File, Queue, io_error};
use savemark_base::buffer::{Arena, Buffer};
use savemark_base::error::{Error, Result};
use savemark_base::io::{Op, Operation};
use savemark_base::record::PathTaken;
use savemark_host::gpu;
use savemark_host::nvidia::cuda::{self, Gpu, Memory, Pinned};
use savemark_host::nvidia::cufile::{self, Handle, Mode, Registered};

/// The way between files and the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// cuFile, straight between device and GPU; refused where that is not possible.
    #[default]
    Gpudirect,
    /// cuFile in its compatibility mode; refused where it would not be in it.
    Compat,
    /// Direct I/O into pinned host memory, then a copy to the GPU: what GPUDirect competes with.
    Bounce,
    /// Direct I/O into host memory, and no GPU: what the storage can do.
    Cpu,
}

/// Options of `gds`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GdsOptions {
    /// Numbers of the GPUs, `0`, `0,1` or `0-7`; workers take them in turns.
    pub gpus: String,
    /// How bytes move.
    pub transfer: Transfer,
    /// Copy from host memory before each write and to it after each read, for work that looks at the bytes. Without it
    /// they stay in the GPU's memory.
    pub copy: bool,
}

impl Default for GdsOptions {
    fn default() -> Self {
        Self { gpus: "0".into(), transfer: Transfer::default(), copy: false }
    }
}

impl GdsOptions {
    /// Checks what the types cannot say; `workload` as JSON.
    pub(super) fn validate(&self, workload: &Value) -> Result<()> {
        self.numbers()?;
        let looks = workload["workload"] == "checkpoint"
            || ["checksum", "verify"].iter().any(|key| workload[key] == true)
            || !workload["dedup"].is_null();
        if looks && !self.copy && self.transfer != Transfer::Cpu {
            return Err(Error::usage(
                "this work makes or looks at every byte, and storage gds leaves them in the GPU's memory",
            )
            .hint(
                "--copy brings them (and its time is in the result); or leave --checksum, --verify and --dedup out",
            ));
        }
        Ok(())
    }

    fn numbers(&self) -> Result<Vec<u32>> {
        let wrong = || Error::usage(format!("gpus: `{}` is no list of GPUs", self.gpus)).hint("write 0, 0,1 or 0-7");
        savemark_host::gpu::numbers(&self.gpus).ok_or_else(wrong)
    }
}

/// Opens the directory `target`; refuses what this machine cannot do, before a byte is written.
pub fn open(options: &GdsOptions, target: &Path) -> Result<Directory> {
    let queueing =
        Gpus { transfer: options.transfer, copy: options.copy, gpus: gpus(options)?, next: AtomicUsize::new(0) };
    Directory::open(target, true, Box::new(queueing))
}

fn gpus(options: &GdsOptions) -> Result<Vec<Gpu>> {
    let numbers = options.numbers()?;
    if options.transfer == Transfer::Cpu {
        return Ok(Vec::new());
    }
    let driver = cuda::driver()?;
    let found = numbers.into_iter().map(|index| driver.gpu(index)).collect::<Result<Vec<_>>>()?;
    match options.transfer {
        Transfer::Gpudirect if cufile::driver()?.mode() == Mode::Compatibility => {
            return Err(Error::refused(format!(
                "GPUDirect Storage is not possible here: {}; cuFile would copy through the host",
                cufile::driver()?.describe()
            ))
            .hint("load the driver (modprobe nvidia-fs), or measure --transfer compat or bounce by their own names"));
        }
        Transfer::Compat if cufile::driver()?.mode() != Mode::Compatibility => {
            return Err(Error::refused("cuFile would not be in compatibility mode: it can move bytes directly here")
                .hint("set CUFILE_FORCE_COMPAT_MODE=true before savemark starts, or use --transfer gpudirect"));
        }
        _ => {}
    }
    Ok(found)
}

struct Gpus {
    transfer: Transfer,
    copy: bool,
    gpus: Vec<Gpu>,
    next: AtomicUsize,
}

impl Queueing for Gpus {
    fn describe(&self, path: &mut PathTaken) {
        path.storage = match self.transfer {
            Transfer::Gpudirect => "gds",
            Transfer::Compat => "cufile, compatibility mode",
            Transfer::Bounce => "bounce",
            Transfer::Cpu => "posix",
        }
        .into();
        path.notes.extend(self.gpus.iter().map(|gpu| format!("GPU {}: {}, {}", gpu.index, gpu.name, gpu.pci_address)));
        if let (Transfer::Gpudirect | Transfer::Compat, Ok(driver)) = (self.transfer, cufile::driver()) {
            path.notes.push(driver.describe());
        }
        path.notes.push(match (self.transfer, self.copy) {
            (Transfer::Cpu, _) => "into host memory, no GPU took part".into(),
            (_, true) => "each I/O is copied between host and GPU memory, inside its time".into(),
            (_, false) => "bytes stay in GPU memory".to_string(),
        });
    }

    fn capabilities(&self, of_directory: Capabilities) -> Capabilities {
        Capabilities { moves_host_memory: self.copy || self.transfer == Transfer::Cpu, ..of_directory }
    }

    /// Workers get the GPUs in turns; their threads run near them.
    fn queue(&self, files: &[Arc<dyn File>], _: u32, arena: &Arc<Arena>) -> Result<Box<dyn Queue>> {
        if self.gpus.is_empty() {
            return Ok(Box::new(Synchronous::new(files)));
        }
        let gpu = &self.gpus[self.next.fetch_add(1, Ordering::Relaxed) % self.gpus.len()];
        gpu::run_near(&gpu.pci_address);
        gpu.enter()?;
        let memory = gpu.memory(arena.len())?;
        // SAFETY: the buffers were filled before, and nobody writes them while the queue is made.
        memory.fill(0, unsafe { std::slice::from_raw_parts(arena.as_ptr(), arena.len()) })?;
        let way = match self.transfer {
            Transfer::Bounce => {
                // SAFETY: the queue holds the arena longer than the pin.
                let pinned = unsafe { gpu.pin(arena.as_ptr(), arena.len())? };
                Way::Bounce { memory, _pinned: pinned }
            }
            _ => Way::CuFile { handles: handles(files)?, memory: cufile::driver()?.register(memory)? },
        };
        let (files, arena) = (files.to_vec(), Arc::clone(arena));
        Ok(Box::new(Synchronous::of(GpuCalls { way, copy: self.copy, files, arena })))
    }
}

fn handles(files: &[Arc<dyn File>]) -> Result<Vec<Handle>> {
    let driver = cufile::driver()?;
    let descriptor = |file: &Arc<dyn File>| driver.handle(file.fd().expect("a file in a directory has a descriptor"));
    files.iter().map(descriptor).collect()
}

/// What moves the bytes. The fields are dropped in this order: what cuFile and CUDA know of goes before what it lies in.
enum Way {
    CuFile { handles: Vec<Handle>, memory: Registered },
    Bounce { memory: Memory, _pinned: Pinned },
}

/// One I/O at a time, as the calls block.
struct GpuCalls {
    way: Way,
    copy: bool,
    files: Vec<Arc<dyn File>>,
    arena: Arc<Arena>,
}

impl GpuCalls {
    /// Where the mirror of `buffer` starts. Memory of others has none: it uses the front, which only its own I/O needs.
    fn place(&self, buffer: &Buffer, len: usize) -> Result<usize> {
        match buffer.is_in(&self.arena) {
            true => Ok(buffer.ptr() as usize - self.arena.as_ptr() as usize),
            false if self.copy && len <= self.arena.len() => Ok(0),
            false => {
                Err(Error::usage("storage gds cannot reach this memory").hint("use --copy, and smaller transfers"))
            }
        }
    }

    fn memory(&self) -> &Memory {
        match &self.way {
            Way::CuFile { memory, .. } => &memory.memory,
            Way::Bounce { memory, .. } => memory,
        }
    }
}

impl Calls for GpuCalls {
    fn run(&self, op: &mut Op) -> Result<()> {
        let (len, offset, place) = (op.len, op.offset, self.place(&op.buffer, op.len)?);
        let file = &self.files[op.file];
        let failed = |e| io_error(op.operation, file.path(), offset, len, e);
        match op.operation {
            Operation::Read => {
                match &self.way {
                    Way::CuFile { handles, memory } => {
                        memory.read(&handles[op.file], len, offset, place).map_err(failed)?
                    }
                    Way::Bounce { memory, .. } => {
                        file.read_at(&mut op.buffer[..len], offset).map_err(failed)?;
                        memory.fill(place, &op.buffer[..len])?;
                    }
                }
                if self.copy { self.memory().read(place, &mut op.buffer[..len]) } else { Ok(()) }
            }
            Operation::Write => {
                if self.copy {
                    self.memory().fill(place, &op.buffer[..len])?;
                }
                match &self.way {
                    Way::CuFile { handles, memory } => {
                        memory.write(&handles[op.file], len, offset, place).map_err(failed)
                    }
                    // A view is only read, and holds the same bytes as its copy on the GPU.
                    Way::Bounce { .. } if op.buffer.share().is_some() => {
                        file.write_at(&op.buffer[..len], offset).map_err(failed)
                    }
                    Way::Bounce { memory, .. } => {
                        memory.read(place, &mut op.buffer[..len])?;
                        file.write_at(&op.buffer[..len], offset).map_err(failed)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_a_list() {
        let numbers = |text: &str| GdsOptions { gpus: text.into(), ..Default::default() }.numbers();
        assert_eq!(numbers("0").unwrap(), [0]);
        assert_eq!(numbers("0,1, 6-7").unwrap(), [0, 1, 6, 7]);
        for wrong in ["", "a", "1-0", "0,0", "0-1,1", "0-", "-1", "9999"] {
            let error = numbers(wrong).unwrap_err();
            assert!(error.to_string().contains("no list of GPUs"), "{wrong}: {error}");
        }
    }
}
