//! Bytes that no save ever wrote, against everything that reads a checkpoint: `mutate` says for how long.

use std::sync::Arc;

use savemark_base::digest::digest;
use savemark_base::payload::{self, PayloadKind};
use savemark_base::{Error, Kind};
use savemark_checkpoint::codec::{self, Chunk, Codec, CodecName, Piece};
use savemark_checkpoint::inspect::contents;
use savemark_checkpoint::manifest::Chunk as Extent;
use savemark_checkpoint::read::member;
use savemark_checkpoint::state::Discard;
use savemark_checkpoint::tree_sink::TreeSink;
use savemark_checkpoint::{MANIFEST, Manifest, RestoreOptions, Sink, restore};
use savemark_storage::Storage;
use serde_json::{Value, json};

use crate::sealed::{saved, seal, sealed, tree};
use savemark_testing::guarded::Guarded;
use savemark_testing::mutate::{Chance, fuzz};

/// Lengths at which formats change: empty members, one page, many blocks, more than one lz4 block.
const LENGTHS: [usize; 8] = [1, 100, 4096, 5000, 65_536, 100_003, 300_000, (4 << 20) + 4099];

/// A chunk as it is saved: what it holds, and the members in it.
struct Sample {
    user: Vec<u8>,
    stored: Vec<u8>,
    is_split: bool,
}

impl Sample {
    /// Two members where `is_split`; the second starts on the next page.
    fn pieces(user: usize, is_split: bool) -> Vec<Piece<'static>> {
        let first = if is_split { (user / 2).max(1) } else { user };
        let piece = |name, start: usize, end: usize| Piece {
            name,
            mode: 0o640,
            member_bytes: (end - start) as u64,
            offset: 0,
            start,
            len: end - start,
        };
        let second = first.next_multiple_of(4096);
        let mut pieces = vec![piece("weights/layer.0", 0, first)];
        if is_split && second < user {
            pieces.push(piece("gewichte/ü", second, user));
        }
        pieces
    }

    fn new(codec: &mut dyn Codec, kind: PayloadKind, len: usize, is_split: bool) -> Self {
        let mut user = vec![0; len];
        payload::fill(kind, 1, 0, &mut user);
        let pieces = Self::pieces(len, is_split);
        let mut end = 0;
        for piece in &pieces {
            user[end..piece.start].fill(0);
            end = piece.end();
        }
        user[end..].fill(0);
        let mut stored = vec![0; codec.bound(len, pieces.len())];
        let bytes = codec.encode(&Chunk { user: &user, pieces: &pieces }, &mut stored).unwrap();
        stored.truncate(bytes);
        Self { user, stored, is_split }
    }
}

/// What follows a decoded byte in memory, and what follows an extent, may not be touched: it is not there.
fn decoder(name: CodecName) {
    let mut codec = codec::new(name, None, false).unwrap();
    let mut samples = Vec::new();
    for (turn, len) in LENGTHS.into_iter().enumerate() {
        for kind in PayloadKind::ALL {
            samples.push(Sample::new(&mut *codec, kind, len, turn % 2 == 1));
        }
    }
    let stored: Vec<Vec<u8>> = samples.iter().map(|sample| sample.stored.clone()).collect();
    let make = |chance: &mut Chance| {
        let of = chance.below(samples.len());
        let mut bytes = match chance.below(16) {
            0 => stored[of].clone(),
            _ => chance.bytes(&stored[of..=of]),
        };
        bytes.extend_from_slice(&(of as u64).to_le_bytes());
        bytes
    };
    let longest = LENGTHS[LENGTHS.len() - 1];
    let (mut extents, mut users) = (Guarded::new(2 * longest), Guarded::new(longest));
    let check = |input: &[u8]| {
        let (bytes, of) = input.split_last_chunk::<8>().unwrap();
        let sample = &samples[u64::from_le_bytes(*of) as usize];
        let (extent, user) = (extents.copy(bytes), users.last(sample.user.len()));
        let pieces = Sample::pieces(user.len(), sample.is_split);
        match codec.decode(extent, &pieces, user) {
            Ok(()) if bytes == sample.stored => assert!(*user == sample.user[..]),
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind, Kind::Corrupt, "{error}"),
        }
    };
    fuzz(&format!("decoder-{name}"), make, check);
}

#[test]
fn fuzz_decoder_none() {
    decoder(CodecName::None);
}

#[test]
fn fuzz_decoder_tar() {
    decoder(CodecName::Tar);
}

#[test]
fn fuzz_decoder_lz4() {
    decoder(CodecName::Lz4);
}

#[test]
fn fuzz_decoder_zstd() {
    decoder(CodecName::Zstd);
}

#[test]
fn fuzz_decoder_gzip() {
    decoder(CodecName::Gzip);
}

#[test]
fn fuzz_decoder_zlib() {
    decoder(CodecName::Zlib);
}

fn changed(chance: &mut Chance, manifest: &Manifest) -> Vec<u8> {
    let mut tree = serde_json::to_value(manifest).unwrap();
    for _ in 0..=chance.below(3) {
        chance.json(&mut tree);
    }
    sealed(tree)
}

#[test]
fn fuzz_manifest() {
    let samples: Vec<Manifest> = [(CodecName::None, 0), (CodecName::Tar, 2), (CodecName::Zstd, 3)]
        .into_iter()
        .map(|(codec, streams)| saved(codec, streams).1)
        .collect();
    let texts: Vec<Vec<u8>> = samples
        .iter()
        .map(|manifest| {
            let text = manifest.to_bytes().unwrap();
            text[..text.len() - ",\"checksum\":\"crc64-nvme:0123456789abcdef\"}\n".len()].to_vec()
        })
        .collect();
    assert_eq!(Manifest::from_bytes(&sealed(serde_json::to_value(&samples[0]).unwrap())).unwrap(), samples[0]);
    let make = |chance: &mut Chance| match chance.below(4) {
        0 => seal(chance.bytes(&texts)),
        _ => {
            let manifest = chance.one(&samples);
            changed(chance, manifest)
        }
    };
    fuzz("manifest", make, |bytes| match Manifest::from_bytes(bytes) {
        Ok(read) => assert_eq!(Manifest::from_bytes(&read.to_bytes().unwrap()).unwrap(), read),
        Err(error) => assert!(matches!(error.kind, Kind::Corrupt | Kind::Refused), "{error}"),
    });
}

/// A checkpoint as it was saved, to which harm is done again and again.
struct Victim {
    storage: Arc<dyn Storage>,
    manifest: Manifest,
    values: Value,
}

impl Victim {
    fn new(codec: CodecName, streams: u32) -> Self {
        let (storage, manifest) = saved(codec, streams);
        let values = tree(&*storage);
        Self { storage, manifest, values }
    }

    fn write(&self, chunk: &Extent, extent: &[u8]) {
        let name = &self.manifest.shards[chunk.shard as usize].name;
        self.storage.open_for_writing(name).unwrap().write_at(extent, chunk.shard_offset).unwrap();
    }

    fn extent(&self, chunk: &Extent) -> Vec<u8> {
        let mut extent = vec![0; chunk.stored_bytes as usize];
        let name = &self.manifest.shards[chunk.shard as usize].name;
        self.storage.open(name).unwrap().read_at(&mut extent, chunk.shard_offset).unwrap();
        extent
    }

    /// Changes the manifest, an extent, or both, with the checksums that belong to that; then lists, verifies and restores.
    fn suffer(&self, chance: &mut Chance) {
        let mut values = self.values.clone();
        let at = chance.below(self.manifest.chunks.len());
        let chunk = &self.manifest.chunks[at];
        let whole = self.extent(chunk);
        if chance.below(2) == 0 {
            let mut extent = chance.bytes(std::slice::from_ref(&whole));
            extent.resize(whole.len(), 0);
            self.write(chunk, &extent);
            values["chunks"][at][5] = json!(format!("{:016x}", digest(&extent)));
        }
        for _ in 0..chance.below(4) {
            chance.json(&mut values);
        }
        self.storage.put(MANIFEST, &sealed(values)).unwrap();
        self.read();
        self.write(chunk, &whole);
    }

    fn read(&self) {
        let storage = &*self.storage;
        let listed = contents(storage).unwrap().checkpoint;
        let verified = restored(storage, &Discard);
        if let Err(error) = &verified {
            assert!(matches!(error.kind, Kind::Corrupt | Kind::Refused), "{error}");
        }
        if let Ok(manifest) = Manifest::from_bytes(&storage.get(MANIFEST).unwrap().unwrap()) {
            assert!(manifest.user_bytes() <= manifest.state_bytes && manifest.saved_unix_ns().is_some());
            for one in &manifest.members {
                let read = member(storage, &manifest, &one.name, 1 << 20);
                assert!(read.is_ok() || verified.is_err(), "{read:?}");
            }
        }
        if verified.is_err() || listed.is_none() {
            return;
        }
        assert_eq!(listed.unwrap().damage, None);
        // What is right can be restored, and lies where it should.
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let sink = TreeSink::new(&place.path().join("out")).unwrap();
        restored(storage, &sink).unwrap();
        sink.finish().unwrap();
        let found: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(found, ["out"]);
    }
}

fn restored(storage: &dyn Storage, sink: &dyn Sink) -> Result<(), Error> {
    let options = RestoreOptions { queue_depth: 2, in_place: false };
    restore(storage, sink, &options, &mut Default::default(), &Default::default()).map(drop)
}

#[test]
fn fuzz_checkpoint() {
    let victims: Vec<Victim> =
        CodecName::ALL.into_iter().flat_map(|codec| [0, 3].map(|streams| Victim::new(codec, streams))).collect();
    let make = |chance: &mut Chance| chance.any().to_le_bytes().to_vec();
    fuzz("checkpoint", make, |seed| {
        let mut chance = Chance::new(u64::from_le_bytes(seed.try_into().unwrap()));
        let victim = &victims[chance.below(victims.len())];
        victim.suffer(&mut chance);
    });
}
