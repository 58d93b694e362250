//! What the driver nvidia-fs counted: the proof that bytes went straight between a device and a GPU.

use std::path::Path;

/// Its counters, where it is loaded.
pub const STATISTICS: &str = "/proc/driver/nvidia-fs/stats";

/// MiB that it has moved since it was loaded, both ways, in bytes; `None` where it is not loaded or does not count.
pub fn direct_bytes() -> Option<u64> {
    moved_bytes(Path::new(STATISTICS))
}

fn moved_bytes(statistics: &Path) -> Option<u64> {
    parse(&std::fs::read_to_string(statistics).ok()?)
}

/// `IO stats: Enabled` and lines as `Reads : n=8 ok=8 err=0 readMiB=512 io_state_err=0`.
fn parse(text: &str) -> Option<u64> {
    let counts = |line: &&str| line.trim_start().to_ascii_lowercase().starts_with("io stats:");
    if text.lines().find(counts).is_some_and(|line| !line.to_ascii_lowercase()[9..].trim_start().starts_with("enabled"))
    {
        return None;
    }
    let mut total = None;
    for word in text.split_whitespace() {
        let mib = word.strip_prefix("readMiB=").or_else(|| word.strip_prefix("writeMiB="));
        if let Some(mib) = mib.and_then(|number| number.parse::<u64>().ok()) {
            total = Some(total.unwrap_or(0) + (mib << 20));
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
GDS Version: 1.7.0.149
NVFS statistics(ver: 4.0)
NVFS Driver(version: 2.17.3)
Mellanox PeerDirect Supported: False
IO stats: Enabled, peer IO stats: Disabled
Logging level: info

Active Shadow-Buffer (MiB): 8
Active Process: 1
Batches\t\t\t: n=0 ok=0 err=0 Avg-Latency(usec)=0
Reads\t\t\t: n=64 ok=64 err=0 readMiB=64 io_state_err=0
Reads\t\t\t: Bandwidth(MiB/s)=5120 Avg-Latency(usec)=190
Sparse Reads\t\t: n=0 io=0 holes=0 pages=0
Writes\t\t\t: n=8 ok=8 err=0 writeMiB=8 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0
";

    #[test]
    fn both_ways_are_added() {
        assert_eq!(parse(TEXT), Some(72 << 20));
    }

    #[test]
    fn what_is_not_counted_is_not_zero() {
        assert_eq!(parse(&TEXT.replace("IO stats: Enabled", "IO stats: Disabled")), None);
        assert_eq!(parse("NVFS Driver(version: 2.2)\n"), None);
        assert_eq!(moved_bytes(Path::new("/no/such/file")), None);
    }
}
