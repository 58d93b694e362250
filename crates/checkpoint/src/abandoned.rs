//! What killed savers left in a bucket: uploads that were not completed, and shards that no manifest names.
//!
//! A bucket has no lock that would say whether a saver still lives. What belongs to one save carries its id in its name, so a
//! save counts as under way while anything of it is young: a shard, an upload, or the last part of an upload.

use std::collections::BTreeMap;

use serde::Serialize;

use super::existing::{Existing, Unneeded, is_shard};
use savemark_base::clock;
use savemark_base::error::Result;
use savemark_base::size::Span;
use savemark_storage::object::{Object, Unfinished};

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

/// How to remove what a save left.
enum Remains {
    Object(Unneeded),
    Upload(Unfinished),
}

/// Something that a manifest does not name, and how to remove it.
struct Found {
    leftover: Leftover,
    remains: Remains,
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
            match &one.remains {
                Remains::Upload(upload) => storage.abort(upload)?,
                Remains::Object(object) => object.remove(storage)?,
            }
        }
    }
    Ok(found.into_iter().map(|one| one.leftover).collect())
}

/// All that is ours here and that the manifest does not name. A damaged one may name any shard, so then only uploads count.
fn find(storage: &Object) -> Result<Vec<Found>> {
    // Listed before the manifest is read: what a save completes in between is named by it.
    let (objects, uploads) = (storage.objects()?, storage.uploads_here()?);
    let names: Vec<_> = objects.iter().map(|object| object.name.clone()).collect();
    let leftover =
        |name: &str, bytes, upload| Leftover { name: name.into(), bytes, upload, idle_ns: 0, abandoned: false };
    let mut found = Vec::new();
    for unneeded in Existing::read(storage)?.unneeded(&names) {
        let object = objects.iter().find(|object| object.name == unneeded.name()).expect("named by it");
        let (leftover, touched_unix_ns) = (leftover(&object.name, object.bytes, false), object.modified_unix_ns);
        found.push(Found { leftover, remains: Remains::Object(unneeded), touched_unix_ns });
    }
    for (name, upload) in uploads.into_iter().filter(|(name, _)| is_shard(name)) {
        let parts = storage.parts(&upload)?;
        let (leftover, touched_unix_ns) = (leftover(&name, parts.bytes, true), parts.touched_unix_ns);
        found.push(Found { leftover, remains: Remains::Upload(upload), touched_unix_ns });
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
