//! The place to measure.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use savemark_base::error::{Error, Result};

/// A directory, or the URL of a bucket with a prefix. Written as people write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Target {
    /// A directory of this machine.
    Directory(PathBuf),
    /// `s3://bucket/prefix` and the like; it never holds credentials.
    Url(String),
}

impl Target {
    /// What is called `name` below it.
    pub fn below(&self, name: &str) -> Self {
        match self {
            Self::Directory(path) => Self::Directory(path.join(name)),
            Self::Url(url) => Self::Url(format!("{}/{name}", url.trim_end_matches('/'))),
        }
    }

    /// The directory, for the storages that need one.
    pub(super) fn directory(&self, storage: &str) -> Result<&Path> {
        match self {
            Self::Directory(path) => Ok(path),
            Self::Url(url) => Err(Error::usage(format!("{url} is not a directory, and {storage} writes to one"))
                .hint("use --storage object for a bucket")),
        }
    }
}

impl Default for Target {
    fn default() -> Self {
        Self::Directory(PathBuf::new())
    }
}

impl From<String> for Target {
    fn from(text: String) -> Self {
        if text.contains("://") { Self::Url(text) } else { Self::Directory(text.into()) }
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

/// A path is a directory, unless it is a URL that came as a path (an environment variable, an argument).
impl From<&Path> for Target {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => text.to_string().into(),
            None => Self::Directory(path.to_path_buf()),
        }
    }
}

impl From<&PathBuf> for Target {
    fn from(path: &PathBuf) -> Self {
        path.as_path().into()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(url),
        }
    }
}

impl JsonSchema for Target {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Target".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}
