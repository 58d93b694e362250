//! How far two devices are from each other, as the folders of sysfs tell it.

use std::fs;
use std::path::{Path, PathBuf};

/// How far a GPU is from a disk; `None` where the disk is on no PCI device (a virtual one, one of the network).
///
/// Of a disk that is made of others the farthest one counts.
pub fn between(gpu: &str, disk: &Path) -> Option<&'static str> {
    let gpu = fs::canonicalize(Path::new("/sys/bus/pci/devices").join(gpu)).ok()?;
    let members = fs::read_dir(disk.join("slaves")).into_iter().flatten().flatten();
    let mut disks: Vec<PathBuf> = members.filter_map(|member| fs::canonicalize(member.path()).ok()).collect();
    if disks.is_empty() {
        disks.push(disk.to_path_buf());
    }
    let distances = disks.iter().map(|disk| distance(&gpu, disk)).collect::<Option<Vec<_>>>()?;
    distances.into_iter().max().map(|distance| WORDS[distance])
}

const WORDS: [&str; 4] = ["same PCIe switch", "same root complex", "same NUMA node", "another NUMA node"];

/// An index of [`WORDS`].
fn distance(one: &Path, other: &Path) -> Option<usize> {
    let (a, b) = (buses(one), buses(other));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    // The first is the root complex, the second a port of it.
    let shared = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    match shared {
        2.. => Some(0),
        1 => Some(1),
        _ => Some(if node(one)? == node(other)? { 2 } else { 3 }),
    }
}

/// The parts of a path from the root complex on that are PCI devices.
fn buses(path: &Path) -> Vec<String> {
    let names = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let is_address = |name: &String| name.len() >= 12 && name.as_bytes()[name.len() - 2] == b'.';
    names
        .skip_while(|name| !name.starts_with("pci"))
        .take_while(|name| name.starts_with("pci") || is_address(name))
        .collect()
}

/// The NUMA node of the device, or of what it is attached to.
fn node(path: &Path) -> Option<i64> {
    let tell = |folder: &Path| crate::kernel::read(folder.join("numa_node")).and_then(|text| text.parse::<i64>().ok());
    path.ancestors().find_map(tell).filter(|node| *node >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_thing_in_common_decides() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str, node: &str| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            let bus: PathBuf = folder.ancestors().find(|p| p.parent().unwrap().ends_with("devices")).unwrap().into();
            fs::write(bus.join("numa_node"), node).unwrap();
            folder
        };
        let gpu = make("devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", "0");
        for (disk, node, wanted) in [
            ("devices/pci0000:3a/0000:3a:00.0/0000:3c:00.0/nvme/nvme0/nvme0n1", "0", Some(0)),
            ("devices/pci0000:3a/0000:3a:02.0/0000:3d:00.0/nvme/nvme1/nvme1n1", "0", Some(1)),
            ("devices/pci0000:5a/0000:5a:02.0/0000:5d:00.0/nvme/nvme2/nvme2n1", "0", Some(2)),
            ("devices/pci0000:aa/0000:aa:02.0/0000:ad:00.0/nvme/nvme3/nvme3n1", "1", Some(3)),
            ("devices/virtual/block/md0", "-1", None),
        ] {
            assert_eq!(distance(&gpu, &make(disk, node)), wanted, "{disk}");
        }
        assert_eq!(between("0000:no:such.0", root.path()), None);
    }
}
