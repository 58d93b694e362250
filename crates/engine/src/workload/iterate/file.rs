//! The solver's checkpoint on disk: a header of one page, then the rows.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Policy;
use super::grid::Grid;
use savemark_base::buffer::ALIGN;
use savemark_base::digest::digest;
use savemark_base::error::{Error, Result};
use savemark_host::cache;

/// The rows begin here: on a page, for direct writes.
pub const HEADER_BYTES: u64 = ALIGN as u64;

const MAGIC: [u8; 8] = *b"smiterat";

/// What a checkpoint says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// Iterations that led to the state.
    pub generation: u64,
    /// Of the rows, by [`digest_rows`]; 0 where the policy has none.
    pub digest: u64,
}

/// A page, aligned as direct I/O wants it.
#[repr(C, align(4096))]
pub struct Page([u8; ALIGN]);

impl std::ops::Deref for Page {
    type Target = [u8; ALIGN];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Header {
    /// As it is stored; with a checksum of its own, so that a half-written one is none.
    pub fn to_bytes(self) -> Box<Page> {
        let mut page = Box::new(Page([0; ALIGN]));
        page.0[..8].copy_from_slice(&MAGIC);
        page.0[8..16].copy_from_slice(&self.generation.to_le_bytes());
        page.0[16..24].copy_from_slice(&self.digest.to_le_bytes());
        let own = digest(&page.0[..24]);
        page.0[24..32].copy_from_slice(&own.to_le_bytes());
        page
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let whole = bytes[..8] == MAGIC && number(24) == digest(&bytes[..24]);
        whole.then(|| Self { generation: number(8), digest: number(16) })
    }
}

/// A digest of rows that threads can compute each for its own, and add: `first` is the index of the first.
pub fn digest_rows(bytes: &[u8], row_bytes: usize, first: usize) -> u64 {
    bytes.chunks(row_bytes).zip(first..).fold(0, |sum, (row, index)| {
        sum.wrapping_add(digest(row).wrapping_mul(2 * index as u64 + 1)) // odd factors lose no bit
    })
}

/// Names of the files that `policy` keeps below `root`.
pub fn paths(root: &Path, policy: Policy) -> Vec<PathBuf> {
    match policy {
        Policy::TwoGenerations => vec![root.join("checkpoint.0"), root.join("checkpoint.1")],
        _ => vec![root.join("checkpoint")],
    }
}

/// Reads the newest whole checkpoint into `grid`; returns its generation.
///
/// # Errors
/// `Corrupt` where there is none. A policy without checksums has no way to see that rows are of different iterations.
pub fn load(root: &Path, policy: Policy, grid: &Grid) -> Result<u64> {
    let mut newest: Option<(Header, PathBuf)> = None;
    for path in paths(root, policy) {
        let Some(header) = header(&path)? else { continue };
        if newest.as_ref().is_none_or(|(known, _)| known.generation < header.generation)
            && (policy != Policy::TwoGenerations || rows(&path, header, grid)?)
        {
            newest = Some((header, path));
        }
    }
    let (header, path) =
        newest.ok_or_else(|| Error::corrupt(format!("there is no whole checkpoint in {}", root.display())))?;
    match rows(&path, header, grid)? {
        true => Ok(header.generation),
        false => Err(Error::corrupt(format!("{} ends before its last row", path.display()))),
    }
}

/// Reads the rows; whether they are what the header says.
fn rows(path: &Path, header: Header, grid: &Grid) -> Result<bool> {
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    // SAFETY: a grid that is loaded is nobody else's.
    let state = unsafe { grid.load_mut(header.generation) };
    match file.read_exact_at(state, HEADER_BYTES) {
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(Error::io("read", path, e)),
        Ok(()) => Ok(header.digest == 0 || header.digest == digest_rows(state, grid.side() * 8, 0)),
    }
}

fn header(path: &Path) -> Result<Option<Header>> {
    let mut bytes = vec![0; HEADER_BYTES as usize];
    match File::open(path).and_then(|file| file.read_exact_at(&mut bytes, 0)) {
        Ok(()) => Ok(Header::from_bytes(&bytes)),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::UnexpectedEof) => Ok(None),
        Err(e) => Err(Error::io("read", path, e)),
    }
}

/// Makes the names in `directory` durable: what a file holds is of no use under a name that is lost.
pub fn sync_directory(directory: &Path) -> Result<()> {
    File::open(directory).and_then(|opened| opened.sync_all()).map_err(|e| Error::io("sync", directory, e))
}

/// Makes the files below `root` durable.
pub fn sync_files(root: &Path) -> Result<()> {
    let wrong = |e| Error::io("sync what is in", root, e);
    for entry in std::fs::read_dir(root).map_err(wrong)? {
        File::open(entry.map_err(wrong)?.path()).and_then(|file| file.sync_all()).map_err(wrong)?;
    }
    Ok(())
}

/// Drops the files below `root` from the page cache.
pub fn evict(root: &Path) -> Result<()> {
    let wrong = |e| Error::io("drop the cache of", root, e);
    for entry in std::fs::read_dir(root).map_err(wrong)? {
        let file = File::open(entry.map_err(wrong)?.path()).map_err(wrong)?;
        cache::evict(std::os::fd::AsFd::as_fd(&file)).map_err(|e| Error::io("drop the cache of", root, e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use savemark_testing::disk;

    fn write(path: &Path, generation: u64, grid: &Grid) -> Header {
        let state = grid.rows(generation, 0..grid.side());
        let header = Header { generation, digest: digest_rows(state, grid.side() * 8, 0) };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(state);
        std::fs::write(path, bytes).unwrap();
        header
    }

    #[test]
    fn a_damaged_generation_gives_way_to_the_one_before() {
        let root = disk();
        let (grid, policy) = (Grid::new(9).unwrap(), Policy::TwoGenerations);
        assert_eq!(load(root.path(), policy, &grid).unwrap_err().kind, savemark_base::Kind::Corrupt);
        let files = paths(root.path(), policy);
        write(&files[0], 6, &grid);
        write(&files[1], 7, &grid);
        let whole = std::fs::read(&files[1]).unwrap();
        assert_eq!(load(root.path(), policy, &Grid::new(9).unwrap()).unwrap(), 7);
        // In the magic, the generation, the digest, the header's own, the first row and the last byte; and cut short.
        for place in [0, 8, 16, 24, HEADER_BYTES as usize, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            std::fs::write(&files[1], &damaged).unwrap();
            assert_eq!(load(root.path(), policy, &Grid::new(9).unwrap()).unwrap(), 6, "{place}");
        }
        std::fs::write(&files[1], &whole[..whole.len() - 1]).unwrap();
        assert_eq!(load(root.path(), policy, &Grid::new(9).unwrap()).unwrap(), 6);
    }

    #[test]
    fn a_file_that_ends_early_is_no_checkpoint_under_any_policy() {
        let root = disk();
        let grid = Grid::new(9).unwrap();
        let path = &paths(root.path(), Policy::None)[0];
        write(path, 3, &grid);
        assert_eq!(load(root.path(), Policy::None, &Grid::new(9).unwrap()).unwrap(), 3);
        let whole = std::fs::read(path).unwrap();
        for kept in [0, 100, HEADER_BYTES as usize, whole.len() - 1] {
            std::fs::write(path, &whole[..kept]).unwrap();
            let error = load(root.path(), Policy::None, &Grid::new(9).unwrap()).unwrap_err();
            assert_eq!(error.kind, savemark_base::Kind::Corrupt, "{kept}: {error}");
        }
    }

    #[test]
    fn digests_of_bands_add_up_and_notice_rows_that_changed_places() {
        let bytes: Vec<u8> = (0..64u8).collect();
        let whole = digest_rows(&bytes, 8, 0);
        assert_eq!(whole, digest_rows(&bytes[..24], 8, 0).wrapping_add(digest_rows(&bytes[24..], 8, 3)));
        let swapped: Vec<u8> = [&bytes[8..16], &bytes[..8], &bytes[16..]].concat();
        assert_ne!(whole, digest_rows(&swapped, 8, 0));
    }
}
