//! What the kernel tells in small files that it makes when they are read: read in one call, and kept open where they are read often.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use savemark_base::clock;

/// Most of these files are shorter, so that one call reads all of them.
const ROOM: usize = 16 << 10;

/// All of a file of text.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = Vec::with_capacity(ROOM);
    file.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A small file of the kernel's, trimmed; `None` when it is absent or empty.
pub fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = text(path).ok()?.trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// The word in brackets: how sysfs shows the choice that is in force.
pub fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_string())
}

/// How many numbers a kernel list such as `0-3,8` names.
pub fn count_list(list: &str) -> Option<u32> {
    list.split(',').try_fold(0, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(sum + last.checked_sub(first)? + 1)
    })
}

/// A file that is kept open: what it says is made anew each time it is read from its beginning.
#[derive(Debug)]
pub struct OpenProcFile(File);

impl OpenProcFile {
    /// Opens it; `None` where there is no such file.
    pub fn open(path: impl AsRef<Path>) -> Option<Self> {
        File::open(path).ok().map(Self)
    }

    /// What it says now, shown to `look`; `None` where it cannot be read any more.
    pub fn look<T>(&self, look: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let mut short = [0; 4 << 10];
        let read = self.0.read_at(&mut short, 0).ok()?;
        if read < short.len() {
            return look(std::str::from_utf8(&short[..read]).ok()?);
        }
        let mut long = short.to_vec();
        loop {
            let at = long.len();
            long.resize(at + ROOM, 0);
            let read = self.0.read_at(&mut long[at..], at as u64).ok()?;
            long.truncate(at + read);
            if read == 0 {
                return look(std::str::from_utf8(&long).ok()?);
            }
        }
    }
}

/// For so long what changes rarely is not looked up again: of short trials each would spend most of its time on that.
const FRESH_NS: u64 = 1_000_000_000;

/// What was found, for whom, and when.
pub struct TtlCache<K, T>(Mutex<Option<(K, u64, T)>>);

impl<K: PartialEq, T> TtlCache<K, T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Shows `look` what `find` finds for `key`, or has found less than a second ago.
    pub fn with<R>(&self, key: K, find: impl FnOnce() -> T, look: impl FnOnce(&T) -> R) -> R {
        let mut found = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = clock::now();
        if found.as_ref().is_none_or(|(of, at, _)| *of != key || now.saturating_sub(*at) >= FRESH_NS) {
            *found = Some((key, now, find()));
        }
        look(&found.as_ref().expect("just found").2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_all_lengths_are_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for len in [0, 1, 4095, 4096, 4097, ROOM, 3 * ROOM + 1] {
            let written: String = ('a'..='z').cycle().take(len).collect();
            std::fs::write(&path, &written).unwrap();
            assert_eq!(text(&path).unwrap(), written);
            assert_eq!(OpenProcFile::open(&path).unwrap().look(|text| Some(text.to_string())), Some(written));
        }
        assert!(text("/no/such/file").is_err() && OpenProcFile::open("/no/such/file").is_none());
    }

    #[test]
    fn what_is_kept_open_tells_news() {
        let stat = OpenProcFile::open("/proc/uptime").unwrap();
        let read = || stat.look(|text| Some(text.to_string())).unwrap();
        let before = read();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_ne!(read(), before);
    }

    #[test]
    fn what_was_found_is_found_again_after_a_second_or_for_another() {
        let (fresh, count) = (TtlCache::new(), std::cell::Cell::new(0));
        let found = |key: u32| {
            let find = || {
                count.set(count.get() + 1);
                count.get()
            };
            fresh.with(key, find, |&found| found)
        };
        assert_eq!([found(1), found(1), found(2), found(1)], [1, 1, 2, 3]);
        fresh.0.lock().unwrap().as_mut().unwrap().1 -= FRESH_NS;
        assert_eq!(found(1), 4);
    }

    #[test]
    fn reads_the_kernels_notations() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("none"), None);
        for (list, count) in [("0", Some(1)), ("0-3,8", Some(5)), ("0-3,8-9", Some(6)), ("", None), ("3-1", None)] {
            assert_eq!(count_list(list), count, "{list}");
        }
        assert_eq!(read("/no/such/file"), None);
    }
}
