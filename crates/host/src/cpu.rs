//! The processors (`/proc/cpuinfo`, sysfs, the scheduler's affinity mask).

use std::collections::BTreeSet;

use serde::Serialize;

use crate::kernel::{count_list, read};

/// Instructions that the codecs, checksums and copies choose their code by.
const FLAGS: [&str; 18] = [
    "sse4_2",
    "pclmulqdq",
    "vpclmulqdq",
    "avx",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "bmi2",
    "aes",
    "sha_ni",
    "erms",
    "fsrm",
    "asimd",
    "crc32",
    "pmull",
    "sha2",
    "sve",
];

/// The processors of the machine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cpu {
    /// Model name, where the kernel states one (not on most ARM machines).
    pub model: Option<String>,
    /// Physical cores.
    pub cores: Option<u32>,
    /// Logical CPUs online.
    pub logical: Option<u32>,
    /// Logical CPUs that this process may run on.
    pub available: u32,
    /// Instruction sets that matter here.
    pub flags: Vec<String>,
    /// Whether a hypervisor announces itself (x86 only).
    pub virtualised: Option<bool>,
}

/// Describes them.
pub fn describe() -> Cpu {
    let mut cpu = parse(&read("/proc/cpuinfo").unwrap_or_default());
    cpu.logical = read("/sys/devices/system/cpu/online").and_then(|list| count_list(&list));
    cpu.available = rustix::thread::sched_getaffinity(None)
        .map(|set| set.count())
        .ok()
        .or_else(|| std::thread::available_parallelism().ok().map(|n| n.get() as u32))
        .unwrap_or(1);
    cpu
}

fn parse(cpuinfo: &str) -> Cpu {
    let fields =
        || cpuinfo.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim(), value.trim()));
    let first = |names: &[&str]| fields().find(|(key, _)| names.contains(key)).map(|(_, value)| value);
    let flags: Option<BTreeSet<&str>> = first(&["flags", "Features"]).map(|list| list.split(' ').collect());
    let has = |flag: &str| flags.as_ref().is_some_and(|flags| flags.contains(flag));
    let is_x86 = first(&["flags"]).is_some();
    Cpu {
        model: first(&["model name", "cpu model"]).map(str::to_string),
        cores: cores(cpuinfo),
        flags: FLAGS.into_iter().filter(|flag| has(flag)).map(str::to_string).collect(),
        virtualised: is_x86.then(|| has("hypervisor")),
        ..Cpu::default()
    }
}

/// Different pairs of package and core; hyperthreads share a pair.
fn cores(cpuinfo: &str) -> Option<u32> {
    let mut seen = BTreeSet::new();
    for processor in cpuinfo.split("\n\n") {
        let field = |name: &str| {
            let mut lines = processor.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
        };
        if let Some(core) = field("core id") {
            seen.insert((field("physical id"), core));
        }
    }
    (!seen.is_empty()).then_some(seen.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "\
processor\t: 0\nmodel name\t: Fast CPU\nphysical id\t: 0\ncore id\t: 0\nflags\t: fpu avx2 hypervisor

processor\t: 1\nmodel name\t: Fast CPU\nphysical id\t: 0\ncore id\t: 0\nflags\t: fpu avx2 hypervisor

processor\t: 2\nmodel name\t: Fast CPU\nphysical id\t: 1\ncore id\t: 0\nflags\t: fpu avx2 hypervisor
";

    #[test]
    fn hyperthreads_are_not_cores() {
        let cpu = parse(X86);
        assert_eq!((cpu.model.as_deref(), cpu.cores, cpu.virtualised), (Some("Fast CPU"), Some(2), Some(true)));
        assert_eq!(cpu.flags, ["avx2"]);
    }

    #[test]
    fn arm_says_less() {
        let cpu = parse("processor\t: 0\nFeatures\t: fp asimd crc32\nCPU part\t: 0xd40\n");
        assert_eq!((cpu.model, cpu.cores, cpu.virtualised), (None, None, None));
        assert_eq!(cpu.flags, ["asimd", "crc32"]);
    }
}
