//! What is in a place, without reading the data: the checkpoint, what interrupted saves left, and what is not ours.

use serde::Serialize;

use super::manifest::{MANIFEST, Manifest};
use super::restore::open_shard;
use super::save::{is_shard, orphans};
use crate::error::{Error, Kind, Result};
use crate::process::table::TABLE;
use crate::storage::Storage;

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
    match (has(TABLE), has(STATE_INDEX)) {
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
    let bytes = storage.get(MANIFEST)?;
    let is_ours = bytes.as_deref().is_none_or(|b| b.starts_with(b"{\"format\":\"savemark-checkpoint\""));
    let manifest = bytes.as_deref().filter(|_| is_ours).map(Manifest::from_bytes);
    // A damaged manifest may still stand for its shards: nothing beside it is called an orphan.
    let shards = match &manifest {
        Some(Err(_)) => Vec::new(),
        Some(Ok(manifest)) => orphans(storage, Some(manifest))?,
        None if !is_ours => Vec::new(),
        None => orphans(storage, None)?,
    };
    let mut left = Vec::new();
    let mut foreign = Vec::new();
    for name in storage.list()? {
        if shards.contains(&name) || is_leftover(&name) {
            let bytes = storage.open(&name).and_then(|file| file.size()).unwrap_or(0);
            left.push(Orphan { name, bytes });
        } else if !is_shard(&name) && (name != MANIFEST || !is_ours) {
            foreign.push(name);
        }
    }
    let checkpoint = manifest.map(|read| summary(storage, read)).transpose()?;
    Ok(Contents { checkpoint, orphans: left, foreign })
}

fn summary(storage: &dyn Storage, read: Result<Manifest>) -> Result<Summary> {
    let manifest = match read {
        Ok(manifest) => manifest,
        Err(error) => return Ok(Summary { damage: Some(error.to_string()), ..Default::default() }),
    };
    let found = manifest.shards.iter().try_for_each(|shard| open_shard(storage, shard).map(drop));
    match found {
        Err(error) if error.kind == Kind::Corrupt => {
            Ok(Summary { damage: Some(error.to_string()), ..Summary::of(&manifest) })
        }
        found => found.map(|()| Summary::of(&manifest)),
    }
}

/// A manifest that was not put in place, or the file that asks whether direct I/O works.
fn is_leftover(name: &str) -> bool {
    let probe = name.strip_prefix(".savemark-probe-");
    name.strip_suffix(".partial") == Some(MANIFEST)
        || probe.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
}

/// Removes what interrupted saves left (or only tells it), while no save is under way.
///
/// # Errors
/// `Refused` while a save is under way, and where nothing could tell: for buckets there is
/// [`abandoned::clean`](super::abandoned::clean). `Failed` on I/O errors.
pub fn clean(storage: &dyn Storage, dry_run: bool) -> Result<Vec<Orphan>> {
    if !storage.locks() {
        return Err(Error::refused("nothing tells here whether a save is under way"));
    }
    let _lock = storage.lock()?;
    let orphans = contents(storage)?.orphans;
    if !dry_run {
        orphans.iter().try_for_each(|orphan| storage.remove(&orphan.name))?;
        storage.sync()?;
    }
    Ok(orphans)
}

/// Removes the checkpoint of `storage`, and under its lock what interrupted saves left.
///
/// # Errors
/// `Refused` while a save is under way; `Corrupt` if its manifest is damaged, and then nothing is removed.
pub fn remove(storage: &dyn Storage) -> Result<()> {
    let lock = storage.lock()?;
    super::remove(storage)?;
    drop(lock);
    if storage.locks() { clean(storage, false).map(drop) } else { Ok(()) }
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
