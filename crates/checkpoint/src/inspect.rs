//! What is in a place, without reading the data: the checkpoint, what interrupted saves left, and what is not ours.

use serde::Serialize;

use super::existing::{Existing, Unneeded, is_ours};
use super::manifest::{MANIFEST, Manifest};
use super::restore::{open, open_whole};
use savemark_base::error::{Error, Kind, Result};
use savemark_storage::Storage;

/// The member's name.
pub const PROCESS_MANIFEST: &str = "savemark-process.json";

/// The member that describes a state in memory: its tree, dtypes and shapes.
pub const STATE_INDEX: &str = "savemark-state.json";

/// The contents of a storage. Subfolders are not looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Contents {
    /// The checkpoint, if there is one.
    pub checkpoint: Option<Summary>,
    /// What interrupted saves left.
    pub orphans: Vec<Orphan>,
    /// Names of files that savemark did not write.
    pub foreign: Vec<String>,
}

/// A checkpoint as its manifest tells it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Why it cannot be restored; `None` if manifest and shards are there and as long as they should be.
    pub damage: Option<String>,
    /// Whether a newer savemark can restore it: then it is not damaged, only not for this one.
    pub newer: bool,
    /// Identity of the save; empty if the manifest cannot be read, like all that follows.
    pub id: String,
    /// When it was saved, nanoseconds since 1970.
    pub saved_unix_ns: Option<u64>,
    /// Its codec, library and level.
    pub codec: String,
    /// Library, version and level of the codec.
    pub library: String,
    /// Streams it was saved with.
    pub streams: u32,
    /// Files in it, or the index and the data of a state.
    pub members: usize,
    /// `files`, `state` (of a program's memory, by `savemark.save`) or `process`.
    pub kind: String,
    /// Bytes before the codec.
    pub user_bytes: u64,
    /// Bytes as stored.
    pub stored_bytes: u64,
}

/// A file that an interrupted save left.
#[derive(Clone, Debug, Serialize)]
pub struct Orphan {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

impl Summary {
    /// Of a manifest that can be read.
    pub fn of(manifest: &Manifest) -> Self {
        Self {
            damage: None,
            newer: false,
            id: manifest.id.clone(),
            saved_unix_ns: manifest.saved_unix_ns(),
            codec: manifest.codec.name().into(),
            library: manifest.library.clone(),
            streams: manifest.streams,
            members: manifest.members.len(),
            kind: kind(manifest).into(),
            user_bytes: manifest.user_bytes(),
            stored_bytes: manifest.stored_bytes(),
        }
    }
}

/// What was saved, by the names of its members.
fn kind(manifest: &Manifest) -> &'static str {
    let has = |name: &str| manifest.members.iter().any(|member| member.name == name);
    match (has(PROCESS_MANIFEST), has(STATE_INDEX)) {
        (true, _) => "process",
        (_, true) => "state",
        _ => "files",
    }
}

/// Looks at `storage`; reads the manifest and asks for the length of each shard.
///
/// # Errors
/// `Failed` on I/O errors. A damaged checkpoint is not an error here.
pub fn contents(storage: &dyn Storage) -> Result<Contents> {
    look(storage).map(|(contents, _)| contents)
}

/// What is here, and which of it may go.
fn look(storage: &dyn Storage) -> Result<(Contents, Vec<Unneeded>)> {
    // Listed first: what a save completes in between is named by its manifest.
    let names = storage.list()?;
    let existing = Existing::read(storage)?;
    let unneeded = existing.unneeded(&names);
    let orphan = |one: &Unneeded| Orphan { name: one.name().into(), bytes: one.bytes(storage) };
    let orphans: Vec<_> = unneeded.iter().map(orphan).collect();
    let is_foreign = |name: &String| match name == MANIFEST {
        true => matches!(existing, Existing::Foreign(_)),
        false => !is_ours(name),
    };
    let foreign = names.into_iter().filter(is_foreign).collect();
    let checkpoint = match existing {
        Existing::Absent | Existing::Foreign(_) => None,
        Existing::Damaged(_, error) | Existing::Newer(error) => {
            let newer = error.kind == Kind::Refused;
            Some(Summary { damage: Some(error.to_string()), newer, ..Default::default() })
        }
        Existing::Readable(manifest) => {
            drop(manifest); // it is read again with its shards, and may be long
            Some(summary(storage)?)
        }
    };
    Ok((Contents { checkpoint, orphans, foreign }, unneeded))
}

fn summary(storage: &dyn Storage) -> Result<Summary> {
    match open_whole(storage) {
        Ok((manifest, _)) => Ok(Summary::of(&manifest)),
        Err(error) if error.kind == Kind::Corrupt => {
            let known = open(storage).map(|manifest| Summary::of(&manifest)).unwrap_or_default();
            Ok(Summary { damage: Some(error.to_string()), ..known })
        }
        Err(error) => Err(error),
    }
}

/// Removes what interrupted saves left (or only tells it), while no save is under way.
///
/// # Errors
/// `Refused` while a save is under way, and where nothing could tell: for buckets there is
/// [`abandoned::clean`](super::abandoned::clean). `Failed` on I/O errors.
pub fn clean(storage: &dyn Storage, dry_run: bool) -> Result<Vec<Orphan>> {
    if !storage.capabilities().locks {
        return Err(Error::refused("nothing tells here whether a save is under way"));
    }
    let _lock = storage.lock()?;
    if dry_run { contents(storage).map(|contents| contents.orphans) } else { sweep(storage) }
}

/// Removes what no manifest needs; the caller holds the lock.
fn sweep(storage: &dyn Storage) -> Result<Vec<Orphan>> {
    let (contents, unneeded) = look(storage)?;
    unneeded.iter().try_for_each(|one| one.remove(storage))?;
    storage.sync()?;
    Ok(contents.orphans)
}

/// Removes the checkpoint of `storage`, and under its lock what interrupted saves left.
///
/// # Errors
/// `Refused` while a save is under way; `Corrupt` if its manifest is damaged, and then nothing is removed.
pub fn remove(storage: &dyn Storage) -> Result<()> {
    let _lock = storage.lock()?;
    super::remove(storage)?;
    if storage.capabilities().locks { sweep(storage).map(drop) } else { Ok(()) }
}

/// Refuses a place that holds files of others.
///
/// # Errors
/// `Refused`, naming the first one.
pub fn check_ours(storage: &dyn Storage, place: &str) -> Result<()> {
    match contents(storage)?.foreign.first() {
        None => Ok(()),
        Some(name) => Err(Error::refused(format!("{place} is not a checkpoint: it holds {name}. Nothing was written"))
            .hint(format!("name a new or an empty directory, {}/checkpoint for example", place.trim_end_matches('/')))),
    }
}
