//! Lists come in pages, and each page names the next one: a server that errs must not keep us in a circle.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::client::Unacceptable;

/// Names below one prefix that are kept in memory: 1,000 pages of S3.
pub const NAMES_MAX: usize = 1_000_000;
/// Pages of one list, whatever is in them.
const PAGES_MAX: usize = 100_000;

/// The pages of one list that were asked for.
#[derive(Default)]
pub struct Pages {
    asked: HashSet<u64>,
    hasher: RandomState,
}

impl Pages {
    /// Takes the mark of the next page.
    ///
    /// # Errors
    /// For one that was asked for before, and for too many.
    pub fn turn(&mut self, mark: &str) -> object_store::Result<()> {
        if self.asked.len() >= PAGES_MAX {
            return Err(refused(Unacceptable::TooMany(PAGES_MAX)));
        }
        match self.asked.insert(self.hasher.hash_one(mark)) {
            true => Ok(()),
            false => Err(refused(Unacceptable::SamePage)),
        }
    }
}

/// Checks how many names a list has so far.
pub fn check_count(names: usize) -> object_store::Result<()> {
    if names > NAMES_MAX { Err(refused(Unacceptable::TooMany(NAMES_MAX))) } else { Ok(()) }
}

fn refused(why: Unacceptable) -> object_store::Error {
    object_store::Error::Generic { store: "object", source: why.into() }
}
