//! What killed savers left in a bucket: uploads that were not completed, and shards that no manifest names.
//!
//! A bucket has no lock that would say whether a saver still lives. What belongs to one save carries its id in its name, so a
//! save counts as under way while anything of it is young: a shard, an upload, or the last part of an upload.

use std::collections::BTreeMap;

use serde::Serialize;

use super::manifest::{MANIFEST, Manifest};
use super::save::is_shard;
use crate::error::Result;
use crate::measure::clock;
use crate::size::Span;
use crate::storage::Storage;
use crate::storage::object::{Object, Unfinished};

/// Something that a save left, or is at work on.
#[derive(Clone, Debug, Serialize)]
pub struct Leftover {
    /// The shard.
    pub name: String,
    /// Bytes of it that the bucket holds.
    pub bytes: u64,
    /// An upload that was not completed; else a whole object.
    pub upload: bool,
    /// For how long nothing has happened to the save that it belongs to.
    pub idle_ns: u64,
    /// Idle for long enough to go; what is not may belong to a save that is under way.
    pub abandoned: bool,
}

/// Something that a manifest does not name, and how to remove it.
struct Found {
    leftover: Leftover,
    upload: Option<Unfinished>,
    touched_unix_ns: u64,
}

/// Removes what was left directly below the URL and has been idle for `older_than` (or only tells it), and tells the rest.
///
/// # Errors
/// `Failed` on I/O errors.
pub fn clean(storage: &Object, older_than: Span, dry_run: bool) -> Result<Vec<Leftover>> {
    let mut found = find(storage)?;
    let mut last = BTreeMap::<String, u64>::new();
    for one in &found {
        let touched = last.entry(save_of(&one.leftover.name)).or_default();
        *touched = one.touched_unix_ns.max(*touched);
    }
    let now = clock::unix_now();
    for one in &mut found {
        one.leftover.idle_ns = now.saturating_sub(last[&save_of(&one.leftover.name)]);
        one.leftover.abandoned = one.leftover.idle_ns >= older_than.0;
        if one.leftover.abandoned && !dry_run {
            match &one.upload {
                Some(upload) => storage.abort(upload)?,
                None => storage.remove(&one.leftover.name)?,
            }
        }
    }
    Ok(found.into_iter().map(|one| one.leftover).collect())
}

/// All that is ours here and that the manifest does not name. A damaged one may name any shard, so then only uploads count.
fn find(storage: &Object) -> Result<Vec<Found>> {
    // Listed before the manifest is read: what a save completes in between is named by it.
    let (objects, uploads) = (storage.objects()?, storage.uploads_here()?);
    let manifest = storage.get(MANIFEST)?.map(|bytes| Manifest::from_bytes(&bytes));
    let named = |name: &str| match &manifest {
        None => false,
        Some(Ok(manifest)) => manifest.shards.iter().any(|shard| shard.name == name),
        Some(Err(_)) => true,
    };
    let leftover =
        |name: &str, bytes, upload| Leftover { name: name.into(), bytes, upload, idle_ns: 0, abandoned: false };
    let mut found = Vec::new();
    for object in objects.iter().filter(|object| is_shard(&object.name) && !named(&object.name)) {
        let leftover = leftover(&object.name, object.bytes, false);
        found.push(Found { leftover, upload: None, touched_unix_ns: object.modified_unix_ns });
    }
    for (name, upload) in uploads.into_iter().filter(|(name, _)| is_shard(name)) {
        let parts = storage.parts(&upload)?;
        let leftover = leftover(&name, parts.bytes, true);
        found.push(Found { leftover, upload: Some(upload), touched_unix_ns: parts.touched_unix_ns });
    }
    Ok(found)
}

/// The save that a shard belongs to: the part of its name that all of its shards share.
fn save_of(shard: &str) -> String {
    shard.splitn(4, '-').take(3).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shards_of_one_save_share_their_name_up_to_the_index() {
        let save = save_of("shard-18e9e1188022315b-00001529-0000.gz");
        assert_eq!(save, "shard-18e9e1188022315b-00001529");
        assert_eq!(save_of("shard-18e9e1188022315b-00001529-0001"), save);
    }
}
