//! What cuFile counts itself: how many transfers went which way. Since cuFile 1.15 (CUDA 13).

use std::ffi::{c_char, c_int};

use super::Status;
use crate::nvidia::library::{Library, functions};
use savemark_base::record::CuFileCounts;

functions! {
    /// As in cufile.h.
    struct Functions {
        set_level = c"cuFileSetStatsLevel": unsafe extern "C" fn(c_int) -> Status,
        start = c"cuFileStatsStart": unsafe extern "C" fn() -> Status,
        level3 = c"cuFileGetStatsL3": unsafe extern "C" fn(*mut Level3) -> Status,
    }
}

/// `CUfilePerGpuStats_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PerGpu {
    uuid: [c_char; 16],
    read_bytes: u64,
    read_rates: [u64; 3],
    reads: u64,
    peer_to_peer_reads: u64,
    nvidia_fs_reads: u64,
    posix_reads: u64,
    read_kinds: [u64; 5],
    written_bytes: u64,
    write_rates: [u64; 3],
    writes: u64,
    peer_to_peer_writes: u64,
    nvidia_fs_writes: u64,
    posix_writes: u64,
    write_kinds: [u64; 3],
    memory: [u64; 5],
}

/// `CUfileStatsLevel3_t`; of the first two levels only their length matters here. There is room for what newer versions may add.
#[repr(C)]
struct Level3 {
    basic: [u64; 78],
    sizes: [u64; 64],
    gpus: u32,
    per_gpu: [PerGpu; 16],
    rest: [u64; 256],
}

/// Counts that are on.
pub struct Statistics(Functions);

impl Statistics {
    /// Switches them on; `None` where this cuFile has none.
    pub fn of(library: &Library) -> Option<Self> {
        let calls = Functions::of(library).ok()?;
        // SAFETY: plain numbers; the library's driver is open.
        let on = unsafe { (calls.set_level)(3).code == 0 && (calls.start)().code == 0 };
        on.then_some(Self(calls))
    }

    /// Everything since they were switched on, of all GPUs.
    pub fn read(&self) -> Option<CuFileCounts> {
        let mut found = Box::new(Level3 {
            basic: [0; 78],
            sizes: [0; 64],
            gpus: 0,
            per_gpu: [PerGpu::default(); 16],
            rest: [0; 256],
        });
        // SAFETY: more room than the answer needs.
        let told = unsafe { (self.0.level3)(&raw mut *found) }.code == 0;
        told.then(|| found.per_gpu[..(found.gpus as usize).min(16)].iter().fold(CuFileCounts::default(), add))
    }
}

fn add(sum: CuFileCounts, gpu: &PerGpu) -> CuFileCounts {
    CuFileCounts {
        read_bytes: sum.read_bytes + gpu.read_bytes,
        written_bytes: sum.written_bytes + gpu.written_bytes,
        nvidia_fs: sum.nvidia_fs + gpu.nvidia_fs_reads + gpu.nvidia_fs_writes,
        peer_to_peer: sum.peer_to_peer + gpu.peer_to_peer_reads + gpu.peer_to_peer_writes,
        posix: sum.posix + gpu.posix_reads + gpu.posix_writes,
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_layouts_are_those_of_the_header() {
        // As a C compiler tells them of cufile.h 1.15 to 1.20.
        assert_eq!((size_of::<PerGpu>(), offset_of!(Level3, gpus), offset_of!(Level3, per_gpu)), (248, 1136, 1144));
        let reads = (offset_of!(PerGpu, peer_to_peer_reads), offset_of!(PerGpu, nvidia_fs_reads));
        assert_eq!((reads, offset_of!(PerGpu, posix_reads)), ((56, 64), 72));
        let bytes = (offset_of!(PerGpu, read_bytes), offset_of!(PerGpu, written_bytes));
        assert_eq!((bytes, offset_of!(PerGpu, peer_to_peer_writes)), ((16, 120), 160));
    }
}
