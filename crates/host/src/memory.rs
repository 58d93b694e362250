//! The memory of the machine.

use serde::Serialize;

use crate::cgroup;
use crate::kernel::{chosen, read};

/// Memory of the machine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    /// All of it.
    pub total_bytes: Option<u64>,
    /// What could be used without swapping.
    pub available_bytes: Option<u64>,
    /// Swap space.
    pub swap_bytes: Option<u64>,
    /// Size of a page.
    pub page_bytes: u64,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_hugepages: Option<String>,
}

/// Memory that this process may still take, as far as the kernel says.
pub fn available_bytes() -> Option<u64> {
    memory().available_bytes.into_iter().chain(cgroup::memory_bytes()).min()
}

/// As the kernel tells it.
pub fn memory() -> Memory {
    let info = read("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
    };
    Memory {
        total_bytes: field("MemTotal"),
        available_bytes: field("MemAvailable"),
        swap_bytes: field("SwapTotal"),
        page_bytes: rustix::param::page_size() as u64,
        transparent_hugepages: read("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|text| chosen(&text)),
    }
}
