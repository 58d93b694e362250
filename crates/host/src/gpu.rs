//! Accelerators, from the PCI bus, NVIDIA's driver and its management library, where there is one.

use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use crate::kernel::read;
use crate::nvidia::nvml;

/// One graphics or compute accelerator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// The link to the rest of the machine.
    pub pcie: Option<Pcie>,
    /// Whether it is divided into instances (MIG).
    pub mig: Option<bool>,
    /// Clock of its multiprocessors when it was asked, idle perhaps, in MHz.
    pub sm_mhz: Option<u32>,
    /// Their highest clock.
    pub sm_max_mhz: Option<u32>,
    /// Clock of its memory when it was asked.
    pub memory_mhz: Option<u32>,
    /// The highest.
    pub memory_max_mhz: Option<u32>,
    /// How far it is from the target's disk: `same PCIe switch`, `same root complex`, `same NUMA node` or `another NUMA node`.
    pub to_disk: Option<&'static str>,
}

/// A PCIe link. While nothing moves, it runs slower than it can.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pcie {
    /// Generation now.
    pub generation: Option<u32>,
    /// The one that both ends can run at.
    pub generation_max: Option<u32>,
    /// Lanes in use.
    pub width: Option<u32>,
    /// Lanes that both ends have.
    pub width_max: Option<u32>,
    /// What the lanes carry in one direction at most, before the headers of packets take their share.
    pub bytes_per_s: Option<u64>,
}

impl Pcie {
    fn of_bus(device: &Path) -> Option<Self> {
        let field = |name: &str| read(device.join(name));
        let generation = |name: &str| field(name).and_then(|speed| generation_of(&speed));
        let lanes = |name: &str| field(name).and_then(|width| width.parse().ok()).filter(|width| *width > 0);
        let link = Self {
            generation: generation("current_link_speed"),
            generation_max: generation("max_link_speed"),
            width: lanes("current_link_width"),
            width_max: lanes("max_link_width"),
            bytes_per_s: None,
        };
        (link != Self::default()).then(|| link.with_rate())
    }

    fn with_rate(self) -> Self {
        let rate = self
            .generation_max
            .zip(self.width_max)
            .and_then(|(generation, width)| Some(lane_bytes_per_s(generation)? * u64::from(width)));
        Self { bytes_per_s: rate, ..self }
    }
}

/// `32.0 GT/s PCIe` is generation 5.
fn generation_of(speed: &str) -> Option<u32> {
    let rate: f64 = speed.split_whitespace().next()?.parse().ok()?;
    [2.5, 5.0, 8.0, 16.0, 32.0, 64.0].iter().position(|known| *known == rate).map(|index| index as u32 + 1)
}

/// PCI Express Base Specification: transfers per second, of which 8b/10b leaves 8 of 10 bits, and 128b/130b 128 of 130.
/// Generation 6 sends 236 bytes of packets in each flit of 256.
fn lane_bytes_per_s(generation: u32) -> Option<u64> {
    Some(match generation {
        1 => 250_000_000,
        2 => 500_000_000,
        3 => 984_615_384,
        4 => 1_969_230_769,
        5 => 3_938_461_538,
        6 => 7_375_000_000,
        _ => return None,
    })
}

/// Fills in what the management library tells, which knows both ends of a link; the version of the driver, or why it is silent.
pub fn ask_nvidia(gpus: &mut Vec<Gpu>) -> Result<Option<String>, String> {
    let facts = nvml::facts()?;
    for told in facts.gpus {
        let known = gpus.iter().position(|gpu| gpu.pci_address == told.pci_address);
        let place = known.unwrap_or_else(|| {
            gpus.push(Gpu { pci_address: told.pci_address.clone(), vendor: Some("0x10de".into()), ..Gpu::default() });
            gpus.len() - 1
        });
        tell(&mut gpus[place], told);
    }
    gpus.sort_by(|a, b| a.pci_address.cmp(&b.pci_address));
    Ok(facts.driver)
}

fn tell(gpu: &mut Gpu, told: nvml::GpuFacts) {
    let link = gpu.pcie.take().unwrap_or_default();
    let link = Pcie {
        generation: told.generation.or(link.generation),
        generation_max: told.generation_max.or(link.generation_max),
        width: told.width.or(link.width),
        width_max: told.width_max.or(link.width_max),
        bytes_per_s: None,
    };
    gpu.pcie = (link != Pcie::default()).then(|| link.with_rate());
    gpu.model = told.model.or(gpu.model.take());
    gpu.mig = told.mig;
    (gpu.sm_mhz, gpu.sm_max_mhz) = (told.sm_mhz, told.sm_max_mhz);
    (gpu.memory_mhz, gpu.memory_max_mhz) = (told.memory_mhz, told.memory_max_mhz);
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
                driver: Some("nvidia".into()),
                model,
                ..Gpu::default()
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
            // -1 where the firmware says nothing.
            numa_node: field("numa_node").and_then(|node| node.parse().ok()),
            pcie: Pcie::of_bus(&entry.path()),
            ..Gpu::default()
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

/// Numbers of GPUs from a list such as `0`, `0,1`, `0+1` (where a comma means something else) or `0-7`; `None` if it is none.
pub fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in list.split([',', '+']) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = first.trim().parse().ok().zip(last.trim().parse().ok())?;
        if first > last || last >= 1024 {
            return None;
        }
        numbers.extend(first..=last);
    }
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (distinct.len() == numbers.len()).then_some(numbers)
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
            for (name, value) in [
                ("current_link_speed", "2.5 GT/s PCIe\n"),
                ("max_link_speed", "32.0 GT/s PCIe\n"),
                ("current_link_width", "8\n"),
                ("max_link_width", "16\n"),
            ] {
                fs::write(bus.path().join(address).join(name), value).unwrap();
            }
        }
        let mut gpus = of_bus(bus.path());
        gpus.sort_by(|a, b| a.pci_address.cmp(&b.pci_address));
        let addresses: Vec<&str> = gpus.iter().map(|gpu| gpu.pci_address.as_str()).collect();
        assert_eq!(addresses, ["0000:01:00.0", "0000:02:00.0"]);
        assert_eq!(gpus[0].numa_node, None);
        let link = gpus[0].pcie.clone().unwrap();
        assert_eq!(
            (link.generation, link.generation_max, link.width, link.width_max),
            (Some(1), Some(5), Some(8), Some(16))
        );
        assert_eq!(link.bytes_per_s, Some(63_015_384_608));
    }

    #[test]
    fn both_ends_of_a_link_count() {
        let mut gpu = Gpu { pcie: Some(Pcie { width_max: Some(16), ..Pcie::default() }), ..Gpu::default() };
        let told =
            nvml::GpuFacts { generation_max: Some(4), width_max: Some(8), mig: Some(true), ..Default::default() };
        tell(&mut gpu, told);
        let link = gpu.pcie.unwrap();
        assert_eq!((link.width_max, link.bytes_per_s, gpu.mig), (Some(8), Some(15_753_846_152), Some(true)));
        assert_eq!(generation_of("Unknown"), None);
        assert_eq!(lane_bytes_per_s(7), None);
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
