//! How many workers a restore has, and how much memory each: what the checkpoint asks for, as far as there is room.

use crate::Manifest;
use crate::codec::CodecName;
use crate::limits::restore_bytes;
use savemark_base::buffer::align_up;

/// What a worker costs beside its buffers: stack, histograms, queue.
const WORKER_BYTES: usize = 256 << 10;
/// What a worker needs to keep its storage busy while it looks at a chunk: the default.
const FEW: usize = 3;

/// Workers and their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Threads. One may read several shards.
    pub workers: usize,
    /// Extents that each has a buffer for.
    pub buffers: usize,
    /// Reads that each has in flight, at most. While it looks at a chunk, the next is on its way in its place.
    pub in_flight: usize,
    /// Bytes of the longest extent.
    pub bound: usize,
    /// Bytes to decode a chunk in.
    pub staging: usize,
}

impl Plan {
    /// For the chunks of `manifest`, `queue_depth` of them in flight per stream.
    pub fn of(manifest: &Manifest, queue_depth: u32) -> Self {
        Self::within(manifest, queue_depth, restore_bytes())
    }

    fn within(manifest: &Manifest, queue_depth: u32, most: usize) -> Self {
        let longest = |bytes: fn(&super::Chunk) -> u64| manifest.chunks.iter().map(bytes).max().unwrap_or(0) as usize;
        let bound = longest(|chunk| chunk.stored_bytes);
        let staging = match manifest.codec {
            CodecName::None => 0,
            _ => align_up(longest(|chunk| chunk.user_bytes)),
        };
        if manifest.streams == 0 {
            return Self { workers: 1, buffers: 1, in_flight: 1, bound, staging };
        }
        let wanted = manifest.shards.len().min(manifest.chunks.len()).max(1);
        let depth = queue_depth.max(1) as usize + 1;
        // Rather fewer reads in flight than fewer workers, and at last one of each.
        let fit = |bytes: usize| bytes.saturating_sub(staging + WORKER_BYTES) / bound.max(1);
        let buffers = fit(most / wanted).clamp(FEW.min(depth), depth);
        let workers = (most / (staging + WORKER_BYTES + buffers * bound)).clamp(1, wanted);
        let buffers = fit(most / workers).clamp(2, depth);
        Self { workers, buffers, in_flight: buffers - 1, bound, staging }
    }

    /// Bytes of a worker's buffers.
    pub fn arena_bytes(&self) -> usize {
        self.buffers * self.bound + self.staging
    }

    /// What the record has to say of it: nothing, where there was room for all that was asked for.
    pub fn note(&self, manifest: &Manifest, queue_depth: u32) -> Option<String> {
        let full = Self::within(manifest, queue_depth, usize::MAX);
        (*self != full).then(|| {
            format!(
                "{} of {} streams, {} of {} reads in flight: the buffers of more would take more than {} MiB",
                self.workers,
                full.workers,
                self.in_flight,
                full.in_flight,
                restore_bytes() >> 20
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Chunk, Digest, Shard};

    const MIB: usize = 1 << 20;

    /// So many shards with one chunk each.
    fn manifest(codec: CodecName, shards: usize, chunk: usize) -> Manifest {
        let mut manifest = Manifest::new("", codec, String::new(), shards as u32, chunk as u64);
        let (user_bytes, digest) = (chunk as u64, Digest(0));
        manifest.shards =
            vec![Shard { name: String::new(), bytes: 0, trailer_bytes: 0, trailer_digest: digest }; shards];
        let chunk = |shard: usize| Chunk {
            offset: 0,
            user_bytes,
            shard: shard as u32,
            shard_offset: 0,
            stored_bytes: user_bytes,
            stored_digest: digest,
            user_digest: digest,
        };
        manifest.chunks = (0..shards).map(chunk).collect();
        manifest
    }

    fn plan(codec: CodecName, shards: usize, chunk: usize, depth: u32) -> (usize, usize, usize) {
        let plan = Plan::within(&manifest(codec, shards, chunk), depth, 256 * MIB);
        (plan.workers, plan.in_flight, plan.workers * plan.arena_bytes() / MIB)
    }

    #[test]
    fn what_fits_is_as_it_was_saved_and_the_rest_fits() {
        assert_eq!(plan(CodecName::None, 4, MIB, 2), (4, 2, 12));
        assert_eq!(plan(CodecName::Zstd, 4, MIB, 2), (4, 2, 16));
        assert_eq!(plan(CodecName::None, 64, MIB, 32), (64, 2, 192), "fewer in flight");
        assert_eq!(plan(CodecName::None, 1024, MIB, 2), (78, 2, 234), "fewer workers");
        assert_eq!(plan(CodecName::None, 16, 64 * MIB, 2), (1, 2, 192));
        assert_eq!(plan(CodecName::Zstd, 16, 64 * MIB, 8), (1, 1, 192));
        assert_eq!(plan(CodecName::Zstd, 1024, 4096, 1), (978, 1, 11));
    }

    #[test]
    fn an_archive_is_read_by_one_worker() {
        let mut manifest = manifest(CodecName::Tar, 1, MIB);
        manifest.streams = 0;
        let plan = Plan::of(&manifest, 8);
        assert_eq!((plan.workers, plan.buffers, plan.in_flight), (1, 1, 1));
        assert_eq!(plan.note(&manifest, 8), None);
    }
}
