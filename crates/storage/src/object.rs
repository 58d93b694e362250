//! Objects in a bucket: parallel multipart uploads and ranged reads of S3, Google Cloud Storage and Azure.
//!
//! An object is written once, from front to back, and is there, whole, when its upload is completed ([`File::sync`]).
//! A write is complete when an upload has taken it, as a buffered write is when the page cache has.
//!
//! There are no locks: two savers to one URL are told apart by the ids in their shards' names, and the last manifest wins.
//! So a save sweeps up nothing that may be another's; [`Object::uploads`] finds what killed savers left half uploaded.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use object_store::{ObjectStoreExt, PutPayload};

use super::{Capabilities, File, Lock, NotPut, Queue, Storage, Target};
use savemark_base::buffer::Arena;
use savemark_base::error::{Error, Result};
use savemark_base::leased::LeasedPool;
use savemark_base::record::{Cache, PathTaken};

mod address;
mod bucket_prefix;
mod client;
mod confirm;
mod connect;
mod endpoint;
mod environment;
mod file;
mod flights;
mod options;
mod pages;
mod parts;
mod queue;
mod reason;
mod retry;
mod runtime;
mod stop;
mod store;
mod upload;
mod uploads;
mod whole;

pub use bucket_prefix::Stored;
pub use environment::Environment;
pub use options::ObjectOptions;
pub use uploads::{Parts, Unfinished};

use bucket_prefix::BucketPrefix;
use file::ObjectFile;

/// The storage: the objects directly below a URL.
pub struct Object {
    place: Arc<BucketPrefix>,
    parts: Arc<LeasedPool>,
}

/// Opens the URL `target` with the endpoint and the credentials of this process's environment. Sends no request.
pub fn open(options: &ObjectOptions, target: &Target) -> Result<Object> {
    open_in(options, target, &Environment::of_process())
}

/// The URL of the server that `environment` names for buckets of `scheme` (`s3`, `gs`, `az`) instead of the provider's own.
///
/// # Errors
/// `Usage`, without the value, where that is no URL of a server, or holds credentials.
pub fn named_endpoint(scheme: &str, environment: &Environment) -> Result<Option<String>> {
    Ok(endpoint::Endpoint::named(scheme, environment)?.map(|endpoint| endpoint.as_str().to_string()))
}

/// As [`open`], in a given environment.
pub fn open_in(options: &ObjectOptions, target: &Target, environment: &Environment) -> Result<Object> {
    options.validate()?;
    let Target::Url(url) = target else {
        return Err(Error::usage(format!("{target} is a directory; object storage wants a URL"))
            .hint("for example s3://bucket/prefix; use --storage uring for a directory"));
    };
    let place = connect::connect(options, url, environment)?;
    Ok(Object { place: Arc::new(place), parts: LeasedPool::new(options.part_size.0 as usize) })
}

impl Object {
    fn file(&self, name: &str, state: file::State) -> Arc<dyn File> {
        let url = PathBuf::from(self.place.url_of(name));
        Arc::new(ObjectFile {
            place: Arc::clone(&self.place),
            key: self.place.key(name),
            url,
            state: Mutex::new(state),
        })
    }

    fn writing(&self, name: &str, is_new: bool) -> Arc<dyn File> {
        let upload = upload::Upload::new(&self.place, &self.parts, self.place.key(name), is_new);
        self.file(name, file::State::Writing(Box::new(upload)))
    }

    /// Names of the prefixes ("folders") directly below this one, sorted.
    pub fn folders(&self) -> Result<Vec<String>> {
        Ok(self.place.listed()?.0)
    }

    /// The length of the object `name`, if it exists.
    pub fn size(&self, name: &str) -> Result<Option<u64>> {
        self.place.head(name)
    }

    /// The objects directly below the URL, sorted by name.
    pub fn objects(&self) -> Result<Vec<Stored>> {
        Ok(self.place.listed()?.1)
    }

    /// Removes every object below the URL, at any depth, `last` at the end, and aborts unfinished uploads there.
    /// Returns how many there were. Only S3 lists its uploads; elsewhere those are left to the bucket's own rules.
    pub fn clear(&self, last: &str) -> Result<usize> {
        let uploads = if self.lists_uploads() { self.uploads()? } else { Vec::new() };
        uploads.iter().try_for_each(|upload| self.abort(upload))?;
        Ok(self.place.clear(last)? + uploads.len())
    }

    /// Whether unfinished uploads can be found: S3 alone lists them.
    pub fn lists_uploads(&self) -> bool {
        self.place.s3.is_some()
    }

    /// Multipart uploads below the URL that were neither completed nor aborted: those under way, and those of killed savers.
    pub fn uploads(&self) -> Result<Vec<Unfinished>> {
        self.place.stop.wait(uploads::list(&self.place))?
    }

    /// Unfinished uploads directly below the URL, by the name of the object; none where they cannot be listed.
    pub fn uploads_here(&self) -> Result<Vec<(String, Unfinished)>> {
        let uploads = if self.lists_uploads() { self.uploads()? } else { Vec::new() };
        let here = |upload: Unfinished| Some((self.place.name_of(&upload.key)?, upload));
        Ok(uploads.into_iter().filter_map(here).collect())
    }

    /// Names of the folders directly below the URL in which uploads are unfinished, sorted; none where they cannot be listed.
    /// A folder without objects is in no other list.
    pub fn folders_with_uploads(&self) -> Result<Vec<String>> {
        let uploads = if self.lists_uploads() { self.uploads()? } else { Vec::new() };
        let names: BTreeSet<_> = uploads.iter().filter_map(|upload| self.place.folder_of(&upload.key)).collect();
        Ok(names.into_iter().collect())
    }

    /// What has arrived of an unfinished upload.
    pub fn parts(&self, upload: &Unfinished) -> Result<Parts> {
        self.place.stop.wait(uploads::parts(&self.place, upload))?
    }

    /// Aborts an unfinished upload: its parts, which are paid for, go.
    pub fn abort(&self, upload: &Unfinished) -> Result<()> {
        self.place.stop.wait(uploads::abort(&self.place, upload))?
    }
}

impl Storage for Object {
    fn path_taken(&self) -> PathTaken {
        let notes = vec![
            format!("endpoint {}", self.place.address.endpoint),
            "a write is complete when an upload has taken it; only a sync says that the object is stored".to_string(),
        ];
        let client_threads = Some(self.place.address.options.client_threads());
        PathTaken { storage: "object".into(), alignment_bytes: 1, client_threads, notes, ..Default::default() }
    }
    /// Durable by the contract of S3 and its kin, after an upload is answered with 200.
    fn capabilities(&self) -> Capabilities {
        Capabilities { rewrites: false, locks: false, ..Default::default() }
    }
    fn free_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        match self.place.head(name)? {
            Some(_) => Err(Error::failed(format!("cannot create {}: it exists", self.place.url_of(name)))),
            None => Ok(self.writing(name, true)),
        }
    }
    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        match self.place.head(name)? {
            Some(bytes) => Ok(self.file(name, file::State::Stored(bytes))),
            None => Err(self.place.missing("open", name)),
        }
    }
    /// The object is replaced, whole, when the file is synced.
    fn open_for_writing(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(self.writing(name, false))
    }
    fn queue(&self, files: &[Arc<dyn File>], _: u32, _: &Arc<Arena>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(queue::ObjectQueue::new(&self.place, files)))
    }
    /// One GET or PUT for each object, which is there, whole, when that is answered.
    fn queue_of_whole(&self, names: &[String], _: u32) -> Result<Box<dyn Queue>> {
        Ok(Box::new(whole::WholeQueue::new(&self.place, names)))
    }
    /// One request: readers see the old object or the new one. Where its answer was lost, the object says what happened.
    fn put(&self, name: &str, bytes: &[u8]) -> std::result::Result<(), NotPut> {
        match self.place.put("write", name, &PutPayload::from(bytes.to_vec())) {
            Err(e) if !self.get(name).is_ok_and(|found| found.as_deref() == Some(bytes)) => Err(NotPut::perhaps(e)),
            _ => Ok(()),
        }
    }
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.place.get(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        Ok(self.place.listed()?.1.into_iter().map(|object| object.name).collect())
    }
    fn remove(&self, name: &str) -> Result<()> {
        let key = self.place.key(name);
        match self.place.call("remove", name, || self.place.store.delete(&key)) {
            Err(e) if e.errno() == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn stop(&self) {
        self.place.stop.set();
    }
    fn resume(&self) {
        self.place.stop.lift();
    }
    fn lock(&self) -> Result<Box<dyn Lock>> {
        Ok(Box::new(NoLock))
    }
    fn evict(&self, _: &[String]) -> Result<()> {
        Ok(())
    }
    fn residency(&self, _: &[String]) -> Result<Cache> {
        let method = "no page cache on this machine; what the server has in its memory is out of sight".into();
        Ok(Cache { state: "none".into(), method, ..Default::default() })
    }
}

struct NoLock;
impl Lock for NoLock {}
