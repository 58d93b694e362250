//! The content of a device: a sparse map of blocks, for most of a fresh filesystem is zeros.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use savemark_base::{Error, Result};

/// The unit that a disk writes whole or not at all, and that the map holds.
pub const BLOCK: usize = 4096;

/// Blocks that are not all zeros, by their number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
    bytes: u64,
}

impl Image {
    /// Nothing but zeros.
    pub fn empty(bytes: u64) -> Self {
        Self { blocks: BTreeMap::new(), bytes }
    }

    /// The content of the file at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |e| Error::io("read the image", path, e);
        let file = File::open(path).map_err(wrong)?;
        let mut image = Self { blocks: BTreeMap::new(), bytes: file.metadata().map_err(wrong)?.len() };
        let mut buffer = vec![0; 256 * BLOCK];
        let mut offset = 0;
        // Holes are skipped: an image is mostly one.
        while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(offset)) {
            offset = data / BLOCK as u64 * BLOCK as u64;
            let read = file.read_at(&mut buffer, offset).map_err(wrong)?;
            image.write(offset, &buffer[..read]);
            offset += read as u64;
        }
        Ok(image)
    }

    /// Size of the device.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes `data` at `offset`; what lies past the end is not there.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        each_block(offset, data.len(), |number, inside, range| {
            let part = &data[range];
            if let Some(block) = self.blocks.get_mut(&number) {
                block[inside..inside + part.len()].copy_from_slice(part);
            } else if part.iter().any(|byte| *byte != 0) {
                let mut block = Box::new([0; BLOCK]);
                block[inside..inside + part.len()].copy_from_slice(part);
                self.blocks.insert(number, block);
            }
        });
    }

    /// Fills `data` from `offset` on.
    pub fn fill(&self, offset: u64, data: &mut [u8]) {
        each_block(offset, data.len(), |number, inside, range| match self.blocks.get(&number) {
            Some(block) => data[range.clone()].copy_from_slice(&block[inside..inside + range.len()]),
            None => data[range].fill(0),
        });
    }

    /// Writes a sparse file.
    pub fn save(&self, path: &Path) -> Result<()> {
        let wrong = |e| Error::io("write the image", path, e);
        let file = File::create(path).map_err(wrong)?;
        file.set_len(self.bytes).map_err(wrong)?;
        self.blocks
            .iter()
            .try_for_each(|(number, block)| file.write_all_at(&block[..], number * BLOCK as u64))
            .map_err(wrong)
    }
}

/// Cuts `len` bytes at `offset` where blocks end: number of the block, place in it, range of the bytes.
pub fn each_block(offset: u64, len: usize, mut act: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let inside = (at % BLOCK as u64) as usize;
        let part = (BLOCK - inside).min(len - done);
        act(at / BLOCK as u64, inside, done..done + part);
        done += part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_at_any_place_is_read_back_and_the_rest_is_zero() {
        let place = tempfile::tempdir().unwrap();
        let (path, size) = (place.path().join("image"), 40 * BLOCK);
        let file = File::create(&path).unwrap();
        file.set_len(size as u64).unwrap();
        let mut image = Image::read(&path).unwrap();
        let mut model = vec![0u8; size];
        for (round, (offset, len)) in
            [(1, 1), (4095, 2), (0, 3 * BLOCK), (5000, 9000), (4096, 4096)].into_iter().enumerate()
        {
            let data: Vec<u8> = (0..len).map(|i| (i * 7 + round * 13) as u8).collect();
            image.write(offset as u64, &data);
            model[offset..offset + len].copy_from_slice(&data);
        }
        image.write(8192, &[0; BLOCK]);
        model[8192..8192 + BLOCK].fill(0);
        let mut read = vec![1; size - 3];
        image.fill(3, &mut read);
        assert!(read == model[3..]);
        let copy = place.path().join("copy");
        image.save(&copy).unwrap();
        assert!(std::fs::read(&copy).unwrap() == model);
        let mut again = vec![1; size];
        Image::read(&copy).unwrap().fill(0, &mut again);
        assert!(again == model);
    }
}
