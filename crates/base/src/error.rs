//! One error type: what happened, where, what to do.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The result of everything the engine does.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the engine stopped, in the classes that the documented exit codes tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The trial ran and failed (an I/O error, no space): exit code 1.
    Failed,
    /// An option is wrong: exit code 2.
    Usage,
    /// Restored data is not what was saved: exit code 4.
    Corrupt,
    /// Nothing was done because it would not have been safe or honest: exit code 5.
    Refused,
    /// The user stopped it: exit code 130.
    Interrupted,
}

impl Kind {
    /// The word used in records and `--json` output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Corrupt => "corrupt",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What happened (with where), and what the user can do about it.
#[derive(Debug, thiserror::Error)]
pub struct Error {
    /// The class, which decides the exit code.
    pub kind: Kind,
    /// One sentence: what happened, and where.
    pub message: String,
    /// What to do, when there is something to do.
    pub hint: Option<String>,
    /// The bytes of the state that it is about, where it is about some.
    pub range: Option<Range<u64>>,
    /// The system call's own error, where there was one.
    #[source]
    pub source: Option<io::Error>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, range: None, source: None }
    }
    /// The trial failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }
    /// An option is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }
    /// Restored data is wrong.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt, message)
    }
    /// It would not have been safe or honest.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }
    /// The user stopped it.
    pub fn interrupted() -> Self {
        Self::new(Kind::Interrupted, "interrupted")
    }
    /// A system call failed while doing `what` to `path`.
    pub fn io(what: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let hint = hint_for(&source, path);
        let message = format!("cannot {what} {}", path.display());
        Self { hint, source: Some(source), ..Self::failed(message) }
    }
    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// The number of the system call's error, if there was one.
    pub fn errno(&self) -> Option<i32> {
        self.source.as_ref().and_then(io::Error::raw_os_error)
    }
}

/// The fix for the errors that users meet most.
fn hint_for(source: &io::Error, path: &Path) -> Option<String> {
    let hint = match source.raw_os_error()? {
        libc::ENOSPC | libc::EDQUOT => "free some space (or quota), or use a smaller --size".to_string(),
        libc::EROFS => "the filesystem is mounted read-only; choose another directory or remount it".to_string(),
        libc::EACCES | libc::EPERM => format!("you lack permission on {}; check its owner and mode", path.display()),
        libc::ENOENT => "check the path; create the directory first with mkdir -p".to_string(),
        libc::EMFILE | libc::ENFILE => "raise the open-files limit: ulimit -n 65536".to_string(),
        libc::EIO => "the device or server reported an I/O error; see dmesg".to_string(),
        _ => return None,
    };
    Some(hint)
}
