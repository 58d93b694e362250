//! Accelerators, from the PCI bus and NVIDIA's driver; no vendor library is loaded.

use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use super::read;

/// One graphics or compute accelerator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// PCI address, `0000:3b:00.0` for example.
    pub pci_address: String,
    /// PCI vendor number, `0x10de` for example.
    pub vendor: Option<String>,
    /// PCI device number.
    pub device: Option<String>,
    /// Kernel driver in charge.
    pub driver: Option<String>,
    /// Model, where NVIDIA's driver states it.
    pub model: Option<String>,
    /// NUMA node that it is attached to.
    pub numa_node: Option<u32>,
}

/// All of them, by address.
pub fn all() -> Vec<Gpu> {
    let mut gpus = of_bus(Path::new("/sys/bus/pci/devices"));
    for (address, model) in of_nvidia(Path::new("/proc/driver/nvidia/gpus")) {
        match gpus.iter_mut().find(|gpu| gpu.pci_address == address) {
            Some(gpu) => gpu.model = model,
            // A container may hide the bus and show the driver.
            None => gpus.push(Gpu {
                pci_address: address,
                vendor: Some("0x10de".into()),
                device: None,
                driver: Some("nvidia".into()),
                model,
                numa_node: None,
            }),
        }
    }
    gpus.sort_by(|a, b| a.pci_address.cmp(&b.pci_address));
    gpus
}

/// Keeps the calling thread on the processors next to the GPU at `address`, as far as it may run there.
pub fn run_near(address: &str) {
    let near = read(Path::new("/sys/bus/pci/devices").join(address).join("local_cpulist")).unwrap_or_default();
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut wanted = CpuSet::new();
    for cpu in cpus(&near).filter(|cpu| *cpu < CpuSet::MAX_CPU && allowed.is_set(*cpu)) {
        wanted.set(cpu);
    }
    if wanted.count() > 0 {
        // Refused, the thread runs where it may: slower, and no less true.
        let _ = sched_setaffinity(None, &wanted);
    }
}

/// `0-3,8` as numbers.
fn cpus(list: &str) -> impl Iterator<Item = usize> {
    list.split(',').flat_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            (Ok(first), Ok(last)) => first..last + 1,
            _ => 0..0,
        }
    })
}

/// PCI devices of the classes display (0x03) and processing accelerator (0x12).
fn of_bus(devices: &Path) -> Vec<Gpu> {
    let entries = fs::read_dir(devices).into_iter().flatten().flatten();
    let gpu = |entry: fs::DirEntry| {
        let field = |name: &str| read(entry.path().join(name));
        let class = field("class")?;
        let is_accelerator = class.starts_with("0x03") || class.starts_with("0x12");
        is_accelerator.then(|| Gpu {
            pci_address: entry.file_name().to_string_lossy().into_owned(),
            vendor: field("vendor"),
            device: field("device"),
            driver: fs::read_link(entry.path().join("driver"))
                .ok()
                .and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned())),
            model: None,
            // -1 where the firmware says nothing.
            numa_node: field("numa_node").and_then(|node| node.parse().ok()),
        })
    };
    entries.filter_map(gpu).collect()
}

/// Addresses and models that NVIDIA's driver states.
fn of_nvidia(gpus: &Path) -> Vec<(String, Option<String>)> {
    let entries = fs::read_dir(gpus).into_iter().flatten().flatten();
    let gpu = |entry: fs::DirEntry| {
        let information = read(entry.path().join("information")).unwrap_or_default();
        let model = information.lines().find_map(|line| line.strip_prefix("Model:"));
        (entry.file_name().to_string_lossy().into_owned(), model.map(|model| model.trim().to_string()))
    };
    entries.map(gpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_accelerators_from_the_rest_of_the_bus() {
        let bus = tempfile::tempdir().unwrap();
        for (address, class) in
            [("0000:01:00.0", "0x030200"), ("0000:02:00.0", "0x120000"), ("0000:03:00.0", "0x010802")]
        {
            fs::create_dir(bus.path().join(address)).unwrap();
            fs::write(bus.path().join(address).join("class"), class).unwrap();
            fs::write(bus.path().join(address).join("numa_node"), "-1\n").unwrap();
        }
        let mut gpus = of_bus(bus.path());
        gpus.sort_by(|a, b| a.pci_address.cmp(&b.pci_address));
        let addresses: Vec<&str> = gpus.iter().map(|gpu| gpu.pci_address.as_str()).collect();
        assert_eq!(addresses, ["0000:01:00.0", "0000:02:00.0"]);
        assert_eq!(gpus[0].numa_node, None);
    }

    #[test]
    fn a_list_of_processors_is_read() {
        assert_eq!(cpus("0-2,8,10-11").collect::<Vec<_>>(), [0, 1, 2, 8, 10, 11]);
        assert_eq!(cpus("").count(), 0);
        run_near("0000:no:such.0"); // stays where it is
    }

    #[test]
    fn reads_what_nvidias_driver_says() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("0000:01:00.0")).unwrap();
        fs::write(proc.path().join("0000:01:00.0/information"), "Model: \t\t NVIDIA H200\nIRQ:   12\n").unwrap();
        assert_eq!(of_nvidia(proc.path()), [("0000:01:00.0".to_string(), Some("NVIDIA H200".to_string()))]);
        assert_eq!(of_nvidia(Path::new("/no/such/folder")), []);
    }
}
