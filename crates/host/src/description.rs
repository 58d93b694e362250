//! Everything that is known of the machine, as one value.

use std::path::Path;

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::cpu::{self, Cpu};
use crate::gpu::{self, Gpu};
use crate::kernel::{count_list, read};
use crate::memory::{Memory, memory};
use crate::target::{self, Target};
use crate::{cgroup, topology};

/// Everything known about the machine and, when asked for, one target directory.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// Name of the machine.
    pub hostname: String,
    /// Kernel release, `6.8.0-45-generic` for example.
    pub kernel_release: String,
    /// Kernel build.
    pub kernel_version: String,
    /// Distribution, from `/etc/os-release`.
    pub os: Option<String>,
    /// `x86_64`, `aarch64`…
    pub architecture: String,
    /// Vendor and product that the firmware states; names the cloud on most virtual machines.
    pub platform: Option<String>,
    /// The processors.
    pub cpu: Cpu,
    /// NUMA nodes with memory or processors.
    pub numa_nodes: Option<u32>,
    /// The memory.
    pub memory: Memory,
    /// What this process may use.
    pub limits: Limits,
    /// Graphics and compute accelerators.
    pub gpus: Vec<Gpu>,
    /// Why less is known of them than NVIDIA's management library tells.
    pub gpu_facts_missing: Option<String>,
    /// Version of the NVIDIA kernel driver.
    pub nvidia_driver: Option<String>,
    /// `kernel.io_uring_disabled`: 0 for all, 1 for unprivileged, 2 for nobody; absent before Linux 6.6.
    pub io_uring_disabled: Option<u32>,
    /// `LD_PRELOAD`, which may stand between us and the kernel.
    pub ld_preload: Option<String>,
    /// Version of this engine.
    pub engine: String,
    /// Libraries that move or change the bytes, with versions.
    pub libraries: Vec<String>,
    /// The directory measured.
    pub target: Option<Target>,
}

/// Limits of this process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Limits {
    /// Memory that its control group, or one above, allows; absent without a limit.
    pub cgroup_memory_bytes: Option<u64>,
    /// CPUs' worth of time that its control group, or one above, allows; absent without a limit.
    pub cgroup_cpus: Option<f64>,
    /// RLIMIT_MEMLOCK, which registered buffers count against before Linux 5.12; absent without a limit.
    pub memlock_bytes: Option<u64>,
    /// RLIMIT_NOFILE; absent without a limit.
    pub open_files: Option<u64>,
}

/// Describes the machine, and the filesystem and device under `target` (or its nearest parent that exists); `libraries` are those
/// that move or change the bytes, with versions.
pub fn describe(target: Option<&Path>, libraries: Vec<String>) -> Host {
    let uname = rustix::system::uname();
    let text = |field: &std::ffi::CStr| field.to_string_lossy().into_owned();
    let (gpus, driver) = accelerators(target);
    let (driver, gpu_facts_missing) = driver.map_or_else(|why| (None, Some(why)), |version| (version, None));
    Host {
        hostname: text(uname.nodename()),
        kernel_release: text(uname.release()),
        kernel_version: text(uname.version()),
        os: os(),
        architecture: text(uname.machine()),
        platform: platform(),
        cpu: cpu::describe(),
        numa_nodes: read("/sys/devices/system/node/online").and_then(|list| count_list(&list)),
        memory: memory(),
        limits: limits(),
        gpus,
        gpu_facts_missing,
        nvidia_driver: driver.or_else(|| read("/sys/module/nvidia/version")),
        io_uring_disabled: read("/proc/sys/kernel/io_uring_disabled").and_then(|text| text.parse().ok()),
        ld_preload: std::env::var("LD_PRELOAD").ok().filter(|value| !value.is_empty()),
        engine: env!("CARGO_PKG_VERSION").to_string(),
        libraries,
        target: target.map(target::describe),
    }
}

/// All accelerators with how far they are from the disk of `target`; the version of NVIDIA's driver, or why nobody tells.
fn accelerators(target: Option<&Path>) -> (Vec<Gpu>, Result<Option<String>, String>) {
    let mut gpus = gpu::all();
    let driver = gpu::ask_nvidia(&mut gpus);
    if let Some(disk) = target.filter(|_| !gpus.is_empty()).and_then(target::folder_of) {
        gpus.iter_mut().for_each(|gpu| gpu.to_disk = topology::between(&gpu.pci_address, &disk));
    }
    (gpus, driver)
}

fn os() -> Option<String> {
    let release = read("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_string())
}

fn platform() -> Option<String> {
    let field = |name: &str| read(format!("/sys/class/dmi/id/{name}"));
    let parts: Vec<String> = [field("sys_vendor"), field("product_name")].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn limits() -> Limits {
    Limits {
        cgroup_memory_bytes: cgroup::memory_bytes(),
        cgroup_cpus: cgroup::cpus(),
        memlock_bytes: getrlimit(Resource::Memlock).current,
        open_files: getrlimit(Resource::Nofile).current,
    }
}

#[cfg(test)]
mod tests {
    use crate::*;

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let host = describe(None, Vec::new());
        assert!(!host.hostname.is_empty() && host.kernel_release.contains('.'), "{host:?}");
        assert!(host.memory.total_bytes > host.memory.available_bytes, "{:?}", host.memory);
        assert!(host.target.is_none());
        assert!(serde_json::to_value(&host).unwrap()["cpu"]["available"].as_u64().unwrap() >= 1);
    }
}
