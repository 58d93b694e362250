//! What stands in a place before it is written to, and what of it may go.
//!
//! Every shard that is removed is an [`Unneeded`], and those are made here alone, by these rules: what cannot be read is never
//! garbage; nothing goes before what replaces it is proven; and no clock says what is old.

use super::manifest::{MANIFEST, Manifest, VERSION, is_sealed, version};
use savemark_base::digest::digest;
use savemark_base::error::{Error, Result};
use savemark_storage::Storage;

/// What a manifest says, and what can be done with its checkpoint.
#[derive(Debug)]
pub(super) enum Existing {
    /// There is none: no save has ended here.
    Absent,
    /// A checkpoint.
    Readable(Box<Manifest>),
    /// A manifest of ours that is not what was written: these bytes. A save replaces it, and keeps it and all shards beside.
    Damaged(Vec<u8>, Error),
    /// What was written, as its seal says, but by a savemark that writes other manifests: it can read it.
    Newer(Error),
    /// A file of others, or one whose very beginning is damaged.
    Foreign(Error),
}

impl Existing {
    /// Looks at the manifest of `storage`.
    pub fn read(storage: &dyn Storage) -> Result<Self> {
        Ok(storage.get(MANIFEST)?.map_or(Self::Absent, Self::of))
    }

    /// Of the manifest `bytes`.
    fn of(bytes: Vec<u8>) -> Self {
        let error = match Manifest::from_bytes(&bytes) {
            Ok(manifest) => return Self::Readable(Box::new(manifest)),
            Err(error) => error,
        };
        match version(&bytes) {
            Some(VERSION) if !is_sealed(&bytes) => Self::Damaged(bytes, error),
            Some(_) => Self::Newer(error),
            // What a filesystem leaves of a file that it has lost.
            None if bytes.iter().all(|byte| *byte == 0) => Self::Damaged(bytes, error),
            None => Self::Foreign(error),
        }
    }

    /// Refuses to replace what another savemark, or another program, can read.
    pub fn check_replaceable(&self) -> Result<()> {
        let (what, error, hint) = match self {
            Self::Newer(error) => (
                "this savemark cannot read the checkpoint that is there",
                error,
                "save into another place, or with the savemark that wrote it, or a newer one",
            ),
            Self::Foreign(error) => ("the file that is there is not ours", error, "save into another place"),
            _ => return Ok(()),
        };
        Err(Error::refused(format!("{what}, and is not replaced: {error}. Nothing was written")).hint(hint))
    }

    /// Which of `names`, all that are here, no manifest needs: shards of saves that did not end, manifests that were not put in
    /// place, files that asked what direct I/O wants. No shard while the manifest cannot be read, as it may need any.
    pub fn unneeded(&self, names: &[String]) -> Vec<Unneeded> {
        let needs = |name: &String| match self {
            Self::Readable(manifest) => manifest.shards.iter().any(|shard| shard.name == *name),
            // It is there after all: it was not read.
            Self::Absent => names.iter().any(|name| name == MANIFEST),
            Self::Damaged(..) | Self::Newer(_) | Self::Foreign(_) => true,
        };
        let is_unneeded = |name: &&String| match self {
            Self::Foreign(_) => false,
            _ => is_partial(name) || is_probe(name) || (is_shard(name) || is_set_aside(name)) && !needs(name),
        };
        names.iter().filter(is_unneeded).cloned().map(Unneeded).collect()
    }

    /// Of them those that a save may remove without being asked: no shard as long as a damaged manifest is kept, since nobody
    /// knows which are its own, and nothing that may be another's in this moment.
    pub fn orphans(&self, names: &[String]) -> Vec<Unneeded> {
        let keeps_damaged = names.iter().any(|name| is_set_aside(name));
        let mut found = self.unneeded(names);
        found.retain(|Unneeded(name)| is_partial(name) || is_shard(name) && !keeps_damaged);
        found
    }

    /// Keeps a manifest that is about to be replaced and cannot be read. The name follows from the bytes, so that the same
    /// one is kept once.
    pub fn set_aside(&self, storage: &dyn Storage) -> Result<()> {
        match self {
            Self::Damaged(bytes, _) if !bytes.is_empty() => {
                let name = format!("{SET_ASIDE}{:016x}", digest(bytes));
                storage.put(&name, bytes).map_err(|not_put| not_put.error)
            }
            _ => Ok(()),
        }
    }

    /// The shards that a proven checkpoint has replaced.
    pub fn replaced(self, _: &Proven) -> Vec<Unneeded> {
        self.shards()
    }

    /// The shards of a checkpoint whose manifest is removed by this.
    ///
    /// # Errors
    /// `Corrupt` if the manifest cannot be read; then it stays.
    pub fn withdraw(self, storage: &dyn Storage) -> Result<Vec<Unneeded>> {
        match self {
            Self::Damaged(_, error) | Self::Newer(error) | Self::Foreign(error) => return Err(error),
            Self::Absent => {}
            // Durably, before a shard goes: no power loss leaves a manifest without its shards.
            Self::Readable(_) => storage.remove(MANIFEST).and_then(|()| storage.sync())?,
        }
        Ok(self.shards())
    }

    /// The shards that are the manifest's own: a manifest may name anything.
    fn shards(&self) -> Vec<Unneeded> {
        let Self::Readable(manifest) = self else { return Vec::new() };
        let own = format!("shard-{}-", manifest.id);
        let names = manifest.shards.iter().map(|shard| &shard.name);
        names.filter(|name| is_shard(name) && name.starts_with(&own)).map(|name| Unneeded(name.clone())).collect()
    }
}

/// A file of ours that nothing needs.
#[derive(Debug)]
pub(super) struct Unneeded(String);

impl Unneeded {
    /// What a save has made, that ended before its manifest can have been put in place.
    pub fn of_failed(created: Vec<String>) -> Vec<Self> {
        created.into_iter().map(Self).collect()
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    pub fn bytes(&self, storage: &dyn Storage) -> u64 {
        storage.open(&self.0).and_then(|file| file.size()).unwrap_or(0)
    }

    pub fn remove(&self, storage: &dyn Storage) -> Result<()> {
        storage.remove(&self.0)
    }
}

/// That a manifest is in place: it was read back.
pub(super) struct Proven(());

impl Proven {
    /// Reads the manifest back that was put. Its shards were looked at before it was.
    ///
    /// # Errors
    /// `Failed` if it is not there: then nothing of the checkpoint before may go.
    pub fn by_reading(storage: &dyn Storage, manifest: &[u8]) -> Result<Self> {
        if !storage.capabilities().keeps || storage.get(MANIFEST)?.as_deref() == Some(manifest) {
            return Ok(Self(()));
        }
        Err(not_there(MANIFEST))
    }
}

/// A storage has said that it has stored `name`, and it has not.
pub(super) fn not_there(name: &str) -> Error {
    Error::failed(format!(
        "{name} is not what was written, though the storage said that it was stored. Nothing was removed"
    ))
    .hint("check the server, and any proxy or cache in between; `savemark verify` says what is there")
}

/// `shard-<16 hex digits>-<8 hex digits>-<4 digits>`, then perhaps an ending: nothing foreign looks like that.
pub(super) fn is_shard(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let parts: Vec<&str> = stem.split('-').collect();
    parts.len() == 4 && parts[0] == "shard" && is_hex(parts[1], 16) && is_hex(parts[2], 8) && is_hex(parts[3], 4)
}

/// A manifest that was not put in place: `manifest.json.<16 hex digits>.partial`, or of an earlier savemark without the digits.
fn is_partial(name: &str) -> bool {
    let middle = name.strip_prefix(MANIFEST).and_then(|rest| rest.strip_suffix(".partial"));
    middle.is_some_and(|middle| middle.is_empty() || middle.strip_prefix('.').is_some_and(|hex| is_hex(hex, 16)))
}

/// A file that asked what direct I/O wants, of a process that was killed just then.
fn is_probe(name: &str) -> bool {
    let number = name.strip_prefix(".savemark-probe-");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

const SET_ASIDE: &str = "manifest.json.damaged-";

fn is_set_aside(name: &str) -> bool {
    name.strip_prefix(SET_ASIDE).is_some_and(|hex| is_hex(hex, 16))
}

/// Whether savemark gives files such names, beside [`MANIFEST`].
pub(super) fn is_ours(name: &str) -> bool {
    is_shard(name) || is_partial(name) || is_probe(name) || is_set_aside(name)
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_own_pattern_are_ours() {
        assert!(
            is_shard("shard-18e9e1188022315b-00001529-0000.gz") && is_shard("shard-18e9e1188022315b-00001529-0000")
        );
        for foreign in ["shard-of-somebody", "shard-0123-4567-8.bin", "shard-18e9e1188022315b-00001529-000g", ""] {
            assert!(!is_shard(foreign), "{foreign}");
        }
        assert!(is_partial("manifest.json.partial") && is_partial("manifest.json.0123456789abcdef.partial"));
        assert!(!is_partial("manifest.json.mine.partial") && !is_partial("manifest.json"));
        assert!(is_set_aside("manifest.json.damaged-0123456789abcdef") && !is_set_aside("manifest.json.damaged-"));
    }

    #[test]
    fn a_manifest_that_is_listed_and_was_not_read_needs_every_shard() {
        let names = [MANIFEST.to_string(), "shard-18e9e1188022315b-00001529-0000".to_string()];
        assert!(Existing::Absent.unneeded(&names).is_empty());
        assert_eq!(Existing::Absent.unneeded(&names[1..]).len(), 1);
    }
}
