//! What stands around one trial: looked at again for each that starts a second after the last look, since a run may be resumed
//! under other limits.

use std::path::Path;

use super::{cgroup, interposed, memory, target};
use crate::measure::clock;
use crate::measure::device::BlockDevice;
use crate::measure::kernel::Fresh;
use crate::measure::mount;
use crate::record::{Conditions, Mount};

/// Looks round; `directory` is the target, where it is one.
pub(crate) fn conditions(directory: Option<&Path>, device: Option<&BlockDevice>) -> Conditions {
    // What is mounted is looked up each time: a study may mount what it measures between two trials.
    Conditions {
        mount: directory.and_then(mount::of).map(|found| Mount {
            class: target::classify(&found.filesystem, &found.source),
            filesystem: found.filesystem,
            source: found.source,
            options: found.options,
        }),
        ..FOUND.with(device.cloned(), || find(device), Conditions::clone)
    }
}

static FOUND: Fresh<Option<BlockDevice>, Conditions> = Fresh::new();

/// What is the same for a second: of the machine, of this process and of the disk.
fn find(device: Option<&BlockDevice>) -> Conditions {
    let allowed = [memory().total_bytes, cgroup::memory_bytes()];
    Conditions {
        clock_tick_ns: clock::tick_ns(),
        memory_bytes: allowed.into_iter().flatten().min(),
        interposed: interposed::find(),
        traced: interposed::traced(),
        limits: cgroup::limits(device.map(target::whole_disk)),
        mount: None,
        write_cache: device.and_then(target::write_cache),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let device = BlockDevice::of(here).ok();
        let found = conditions(Some(here), device.as_ref());
        assert!((1..1_000_000).contains(&found.clock_tick_ns), "{}", found.clock_tick_ns);
        assert!(found.mount.is_some_and(|mount| !mount.options.is_empty()));
        assert!(found.memory_bytes > Some(1 << 20));
        assert!(conditions(None, None).mount.is_none());
    }
}
