//! What an ext4 without a journal does to whoever makes files where others were removed.

use std::fs;
use std::path::Path;

use savemark_host::block_device::BlockDevice;

/// What is said of files that were made on one.
pub const GUARDED: &str = "this ext4 has no journal: an inode that was removed in the last minutes is not used again, and the \
                           kernel looks at all of them for each file it makes; where many were just removed, that is what the \
                           time is";

/// Whether the filesystem at `directory` is such an ext4.
pub fn is_guarded(directory: &Path) -> bool {
    BlockDevice::of(directory).is_ok_and(|device| has_no_journal(Path::new("/sys/fs/ext4"), &device.name))
}

/// As sysfs says: the process of the journal's thread, or `<none>`. Other filesystems are not listed there.
fn has_no_journal(ext4: &Path, device: &str) -> bool {
    fs::read_to_string(ext4.join(device).join("journal_task")).is_ok_and(|text| text.trim() == "<none>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_ext4_that_says_so_has_no_journal() {
        let sysfs = tempfile::tempdir().unwrap();
        for (device, task) in [("vda", "<none>\n"), ("vdb", "211\n")] {
            fs::create_dir(sysfs.path().join(device)).unwrap();
            fs::write(sysfs.path().join(device).join("journal_task"), task).unwrap();
        }
        let found = ["vda", "vdb", "vdc"].map(|device| has_no_journal(sysfs.path(), device));
        assert_eq!(found, [true, false, false]);
    }
}
