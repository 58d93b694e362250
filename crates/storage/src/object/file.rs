//! An object that is being written, or that is there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::bucket_prefix::BucketPrefix;
use super::upload::Upload;
use crate::{File, io_error};
use savemark_base::buffer::Buffer;
use savemark_base::error::{Error, Result};
use savemark_base::io::Operation;

const HELD: &str = "no panic while held";

/// Where an object is in its life.
pub enum State {
    Writing(Box<Upload>),
    /// Stored, with its length.
    Stored(u64),
}

/// An object as a file.
pub struct ObjectFile {
    pub place: Arc<BucketPrefix>,
    pub key: object_store::path::Path,
    /// A URL in the clothes of a path, for messages.
    pub url: PathBuf,
    pub state: Mutex<State>,
}

impl ObjectFile {
    /// Appends the first `len` bytes of `buffer`: from where they are if that memory is lent, else by copying them.
    pub fn append(&self, buffer: &Buffer, len: usize, offset: u64) -> Result<()> {
        match &mut *self.state.lock().expect(HELD) {
            State::Writing(upload) => match buffer.share() {
                Some(shared) => upload.lend(shared, len, offset),
                None => upload.copy(&buffer[..len], offset),
            },
            State::Stored(_) => Err(self.is_stored()),
        }
    }

    /// Why an object of `len` bytes at `offset` could not be read.
    pub fn read_error(&self, offset: u64, len: usize, error: &object_store::Error) -> Error {
        let name = self.key.filename().unwrap_or_default();
        let explained = self.place.explain("read", name, error);
        if explained.source.is_some() {
            return explained;
        }
        Error { message: format!("{} ({len} bytes at offset {offset})", explained.message), ..explained }
    }

    fn is_stored(&self) -> Error {
        Error::usage(format!("{} is stored; an object is written once", self.url.display()))
            .hint("use --sync end, and a directory for what is written again")
    }
}

impl File for ObjectFile {
    fn path(&self) -> &Path {
        &self.url
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let len = buffer.len();
        let read = self.place.stop.wait(self.place.read(&self.key, offset, buffer)).map_err(io::Error::other)?;
        read.map_err(|e| io::Error::other(self.read_error(offset, len, &e)))
    }
    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let written = match &mut *self.state.lock().expect(HELD) {
            State::Writing(upload) => upload.copy(buffer, offset),
            State::Stored(_) => Err(self.is_stored()),
        };
        written.map_err(io::Error::other)
    }
    fn size(&self) -> Result<u64> {
        Ok(match &*self.state.lock().expect(HELD) {
            State::Writing(upload) => upload.bytes(),
            State::Stored(bytes) => *bytes,
        })
    }
    /// A bucket has no room to reserve.
    fn allocate(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn truncate(&self, bytes: u64) -> Result<()> {
        match self.size()? {
            found if found == bytes => Ok(()),
            found => {
                let why = format!("it has {found} bytes, and objects cannot be cut");
                Err(Error::usage(format!("cannot cut {} to {bytes} bytes: {why}", self.url.display())))
            }
        }
    }
    /// Completes the upload.
    fn sync(&self) -> Result<()> {
        let mut state = self.state.lock().expect(HELD);
        if let State::Writing(upload) = &mut *state {
            upload.finish()?;
            *state = State::Stored(upload.bytes());
        }
        Ok(())
    }
}

/// The error of an I/O on something that is no object.
pub fn foreign(file: &dyn File, operation: Operation, offset: u64, len: usize) -> Error {
    io_error(operation, file.path(), offset, len, io::Error::other("not a file of this storage"))
}
