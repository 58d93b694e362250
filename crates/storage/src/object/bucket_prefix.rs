//! A prefix of a bucket, and the requests that everything else is made of.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, ListResult, ObjectMeta, ObjectStoreExt, PutPayload};

use super::address::Address;
use super::confirm::Writer;
use super::pages::{self, Pages};
use super::reason;
use super::retry::{again, pause};
use super::stop::Stop;
use super::store::{S3, Store};
use crate::{SMALL_BYTES, too_long};
use savemark_base::error::{Error, Result};

/// The objects below a URL.
pub struct BucketPrefix {
    pub store: Arc<dyn Store>,
    /// What puts bytes there.
    pub writer: Writer,
    pub s3: Option<S3>,
    pub prefix: Path,
    pub address: Address,
    /// Waits on the runtime of this place.
    pub stop: Arc<Stop>,
}

/// An object as a listing tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name below the URL.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written, as the server says; of an upload in parts, perhaps when that was started.
    pub modified_unix_ns: u64,
}

impl BucketPrefix {
    /// The object `name`.
    pub fn key(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// The name of a key of the bucket, if it is directly below this prefix.
    pub fn name_of(&self, key: &str) -> Option<String> {
        let (first, rest) = self.split(key)?;
        rest.is_none().then_some(first)
    }

    /// The folder directly below this prefix that a key of the bucket is in.
    pub fn folder_of(&self, key: &str) -> Option<String> {
        let (first, rest) = self.split(key)?;
        rest.map(|_| first)
    }

    /// The first two parts of a key below this prefix.
    fn split(&self, key: &str) -> Option<(String, Option<String>)> {
        let key = Path::parse(key).ok()?;
        let mut rest = key.prefix_match(&self.prefix)?.map(|part| part.as_ref().to_string());
        Some((rest.next()?, rest.next()))
    }

    /// Its URL, for messages; without a name, that of the prefix.
    pub fn url_of(&self, name: &str) -> String {
        if name.is_empty() { self.address.url.clone() } else { format!("{}/{name}", self.address.url) }
    }

    /// Does a request and waits; repeats what object_store does not.
    pub fn call<T, F>(&self, what: &str, name: &str, request: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        self.stop.wait(again(self.address.options.retries, request))?.map_err(|e| self.explain(what, name, &e))
    }

    /// Replaces the object `name`, in one request.
    pub fn put(&self, what: &str, name: &str, payload: &PutPayload) -> Result<()> {
        let key = self.key(name);
        let put = |store: Arc<dyn Store>| {
            let (key, payload) = (key.clone(), payload.clone());
            async move { store.put(&key, payload).await }
        };
        let done = self.stop.wait(self.writer.send(self.address.options.retries, put))?;
        done.map(drop).map_err(|e| self.explain(what, name, &e))
    }

    /// The error as a sentence with a hint.
    pub fn explain(&self, what: &str, name: &str, error: &object_store::Error) -> Error {
        reason::explain(what, &self.url_of(name), &self.address, error)
    }

    /// There is no object `name`.
    pub fn missing(&self, what: &str, name: &str) -> Error {
        Error::io(what, &PathBuf::from(self.url_of(name)), std::io::Error::from_raw_os_error(libc::ENOENT))
            .hint("check the URL")
    }

    /// Length of the object `name`, if it exists.
    pub fn head(&self, name: &str) -> Result<Option<u64>> {
        let key = self.key(name);
        let found = self.stop.wait(again(self.address.options.retries, || self.store.head(&key)))?;
        present(found.map(|meta| meta.size)).map_err(|e| self.explain("look at", name, &e))
    }

    /// The whole of the small object `name`, if it exists.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let key = self.key(name);
        let read = || async {
            let found = self.store.get(&key).await?;
            let size = found.meta.size;
            if size > SMALL_BYTES {
                return Ok(Err(size));
            }
            let bytes = found.bytes().await?;
            if bytes.len() as u64 == size { Ok(Ok(bytes.into())) } else { Err(cut(bytes.len() as u64, size)) }
        };
        let found = present(self.stop.wait(again(self.address.options.retries, read))?);
        let found = found.map_err(|e| self.explain("read", name, &e))?;
        found.transpose().map_err(|size| too_long(self.url_of(name).as_ref(), size))
    }

    /// Prefixes and objects directly below this one, sorted.
    pub fn listed(&self) -> Result<(Vec<String>, Vec<Stored>)> {
        let last = |path: &Path| path.filename().map(str::to_string);
        let stored = |object: &ObjectMeta| {
            let modified = object.last_modified.timestamp_nanos_opt().unwrap_or(0);
            Some(Stored {
                name: last(&object.location)?,
                bytes: object.size,
                modified_unix_ns: u64::try_from(modified).unwrap_or(0),
            })
        };
        let (mut folders, mut objects) = (BTreeSet::new(), Vec::new());
        self.pages(Some("/"), |page| {
            folders.extend(page.common_prefixes.iter().filter_map(last));
            objects.extend(page.objects.iter().filter_map(stored));
            self.explained(pages::check_count(folders.len() + objects.len()))
        })?;
        objects.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((folders.into_iter().collect(), objects))
    }

    /// Hands the pages of the list below the prefix to `take`, as they come.
    fn pages(&self, delimiter: Option<&'static str>, mut take: impl FnMut(ListResult) -> Result<()>) -> Result<()> {
        let prefix = (!self.prefix.as_ref().is_empty()).then(|| format!("{}/", self.prefix));
        let (mut pages, mut mark) = (Pages::default(), None);
        loop {
            let page = self.call("list", "", || {
                let (delimiter, page_token) = (delimiter.map(Into::into), mark.clone());
                let asked = PaginatedListOptions { delimiter, page_token, ..Default::default() };
                self.store.list_paginated(prefix.as_deref(), asked)
            })?;
            take(page.result)?;
            let Some(next) = page.page_token else { return Ok(()) };
            self.explained(pages.turn(&next))?;
            mark = Some(next);
        }
    }

    fn explained<T>(&self, result: object_store::Result<T>) -> Result<T> {
        self.explain_if(result, "list", "")
    }

    /// The result, its error as a sentence with a hint.
    pub fn explain_if<T>(&self, result: object_store::Result<T>, what: &str, name: &str) -> Result<T> {
        result.map_err(|e| self.explain(what, name, &e))
    }

    /// Removes every object below the prefix, `last` at the end.
    pub fn clear(&self, last: &str) -> Result<usize> {
        let last = self.key(last);
        let (mut removed, mut has_last) = (0, false);
        let mut remove = |key: &Path| {
            let gone = self.stop.wait(again(self.address.options.retries, || self.store.delete(key)))?;
            present(gone).map_err(|e| self.explain("remove", key.filename().unwrap_or_default(), &e))?;
            removed += 1;
            Ok(())
        };
        self.pages(None, |page| {
            has_last |= page.objects.iter().any(|object| object.location == last);
            page.objects.iter().filter(|object| object.location != last).try_for_each(|object| remove(&object.location))
        })?;
        if has_last {
            remove(&last)?;
        }
        Ok(removed)
    }

    /// Fills `buffer` from the object at `offset`. A body that ends early is asked for again from there, never accepted.
    pub async fn read(&self, key: &Path, offset: u64, buffer: &mut [u8]) -> object_store::Result<()> {
        let (end, mut filled, mut tries) = (offset + buffer.len() as u64, 0, 0);
        while filled < buffer.len() {
            let result = self.read_some(key, offset, buffer, &mut filled).await;
            let error = match result {
                Ok(size) if size < end => return Err(cut(size, end)),
                Ok(_) if filled < buffer.len() => cut(offset + filled as u64, end),
                Ok(_) => break,
                Err(e) => e,
            };
            if tries == self.address.options.retries || !reason::is_passing(&error) {
                return Err(error);
            }
            tries += 1;
            pause(tries).await;
        }
        Ok(())
    }

    async fn read_some(
        &self,
        key: &Path,
        offset: u64,
        buffer: &mut [u8],
        filled: &mut usize,
    ) -> object_store::Result<u64> {
        let range = offset + *filled as u64..offset + buffer.len() as u64;
        let found = self.store.get_opts(key, GetOptions::new().with_range(Some(range))).await?;
        let size = found.meta.size;
        let mut body = found.into_stream();
        while let Some(bytes) = body.next().await {
            let bytes = bytes?;
            let Some(room) = buffer.get_mut(*filled..*filled + bytes.len()) else {
                return Err(odd("the server sent more bytes than it was asked for".into()));
            };
            room.copy_from_slice(&bytes);
            *filled += bytes.len();
        }
        Ok(size)
    }
}

/// `None` where there is no such object.
fn present<T>(result: object_store::Result<T>) -> object_store::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(e) if reason::is_missing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

fn cut(found: u64, wanted: u64) -> object_store::Error {
    let text = format!("it ends at byte {found}, before {wanted}");
    odd(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, text).into())
}

fn odd(source: Box<dyn std::error::Error + Send + Sync>) -> object_store::Error {
    object_store::Error::Generic { store: "object", source }
}
