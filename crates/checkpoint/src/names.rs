//! Names of members, directories and shards: one definition for those who save, verify and restore.

use super::limits::{DEPTH, NAME_BYTES, PART_BYTES};

/// A name that can be restored below a directory and stays there; the error says what is wrong with it.
pub(super) fn check(name: &str) -> Result<(), &'static str> {
    let parts = || name.split('/');
    if name.is_empty() || name.contains('\0') || parts().any(|part| matches!(part, "" | "." | "..")) {
        Err("is no path below a directory")
    } else if name.len() > NAME_BYTES || parts().any(|part| part.len() > PART_BYTES) {
        Err("is longer than filesystems take")
    } else if parts().count() > DEPTH {
        Err("lies too deep")
    } else {
        Ok(())
    }
}

/// The order in which a tree is walked: what lies in a directory comes directly behind it.
fn walked<'a>(name: &'a str) -> impl Iterator<Item = u8> + 'a {
    name.bytes().map(|byte| if byte == b'/' { 0 } else { byte })
}

/// Whether `outer` is `inner`, or a directory above it.
fn holds(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Holds that files and directories can all be made, each once: no file is there twice, and none where a directory must be.
/// Directories come in the order of a walk, parents before children. The error is the name that is in the way.
pub(super) fn check_distinct<'a>(files: Vec<&'a str>, directories: &[&'a str]) -> Result<(), &'a str> {
    let mut files = files;
    // A tree's files are nearly sorted already: this sort finds that out.
    files.sort_by(|a, b| walked(a).cmp(walked(b)));
    if let Some(pair) = files.windows(2).find(|pair| holds(pair[0], pair[1])) {
        return Err(pair[1]);
    }
    if let Some(pair) = directories.windows(2).find(|pair| walked(pair[0]).ge(walked(pair[1]))) {
        return Err(pair[1]);
    }
    let in_the_way = |directory: &&&str| {
        // Nothing but what it holds comes between a file and what it is in the way of.
        let before = files.partition_point(|file| walked(file).le(walked(directory)));
        before > 0 && holds(files[before - 1], directory)
    };
    directories.iter().find(in_the_way).map_or(Ok(()), |directory| Err(directory))
}

/// The name of the shard `index` of the save `id`; `extension` is that of its codec, or empty.
pub(super) fn shard(id: &str, index: usize, extension: &str) -> String {
    let dot = if extension.is_empty() { "" } else { "." };
    format!("shard-{id}-{index:04x}{dot}{extension}")
}

/// `<16 hex digits>-<8 hex digits>`: when a save began, in nanoseconds since 1970, and the process that it was.
pub(super) fn is_id(id: &str) -> bool {
    let hex = |part: &str, len| part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    id.split_once('-').is_some_and(|(time, process)| hex(time, 16) && hex(process, 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_restored_are_refused() {
        for name in ["", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/..", "a/../b", "a\0b"] {
            assert!(check(name).is_err(), "{name:?}");
        }
        assert!(check(&"x".repeat(PART_BYTES + 1)).is_err() && check(&"x".repeat(PART_BYTES)).is_ok());
        let deep = |parts: usize| vec!["d"; parts].join("/");
        assert!(check(&deep(DEPTH)).is_ok() && check(&deep(DEPTH + 1)).is_err());
        let long = vec!["x".repeat(PART_BYTES); 17].join("/");
        assert!(check(&long).is_err() && check("a b/é\u{1b}[0m/…").is_ok());
    }

    #[test]
    fn what_cannot_be_made_beside_each_other_is_named() {
        let of = |files: &[&'static str], directories: &[&'static str]| check_distinct(files.to_vec(), directories);
        assert_eq!(of(&["b", "a", "a-b", "c/d"], &["c", "c/e", "d"]), Ok(()));
        assert_eq!(of(&["a", "b", "a"], &[]), Err("a"), "twice");
        assert_eq!(of(&["a", "a-b", "a/b"], &[]), Err("a/b"), "below a file");
        assert_eq!(of(&["a/b/c", "a"], &[]), Err("a/b/c"));
        assert_eq!(of(&["a", "b"], &["b"]), Err("b"), "a file and a directory");
        assert_eq!(of(&["a", "a-b"], &["a/b"]), Err("a/b"), "a directory below a file");
        assert_eq!(of(&["x"], &["a", "a"]), Err("a"), "a directory twice");
        assert_eq!(of(&["x"], &["a/b", "a"]), Err("a"), "a child before its parent");
        assert_eq!(of(&["a-b/c", "a/b"], &["a", "a-b"]), Ok(()), "as a walk finds them");
    }
}
