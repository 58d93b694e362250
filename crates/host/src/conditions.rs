//! What stands around one trial: looked at again for each that starts a second after the last look, since a run may be resumed
//! under other limits.

use super::{cgroup, interposed, target};
use crate::block_device::BlockDevice;
use crate::kernel::TtlCache;
use crate::memory::memory;
use crate::mount;
use savemark_base::clock;
use savemark_base::record::{Conditions, Mount};

/// Looks round; `mount` is what the target lies on, looked up for each trial: a study may mount what it measures between two.
pub fn conditions(mount: Option<&mount::Mount>, device: Option<&BlockDevice>) -> Conditions {
    Conditions {
        mount: mount.map(|found| Mount {
            class: target::classify(&found.filesystem, &found.source),
            filesystem: found.filesystem.clone(),
            source: found.source.clone(),
            options: found.options.clone(),
        }),
        ..FOUND.with(device.cloned(), || find(device), Conditions::clone)
    }
}

static FOUND: TtlCache<Option<BlockDevice>, Conditions> = TtlCache::new();

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
    use std::path::Path;

    use super::*;

    #[test]
    fn this_machine_is_described() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let device = BlockDevice::of(here).ok();
        let found = conditions(mount::of(here).as_ref(), device.as_ref());
        assert!((1..1_000_000).contains(&found.clock_tick_ns), "{}", found.clock_tick_ns);
        assert!(found.mount.is_some_and(|mount| !mount.options.is_empty()));
        assert!(found.memory_bytes > Some(1 << 20));
        assert!(conditions(None, None).mount.is_none());
    }
}
