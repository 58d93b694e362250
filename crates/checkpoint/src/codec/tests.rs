//! What holds for every codec: round trips, refusals, and shards that the standard tools read.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;
use savemark_base::error::Kind;
use savemark_base::payload::{self, PayloadKind};

/// One member per chunk is what most chunks of a large state look like.
fn whole(len: usize) -> Piece<'static> {
    Piece { name: "weights/layer.0", mode: 0o640, member_bytes: len as u64, offset: 0, start: 0, len }
}

fn data(kind: &str, len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    match kind {
        "zeros" => vec![0; len],
        "bf16" | "fp32" => {
            let kind = if kind == "bf16" { PayloadKind::Bf16 } else { PayloadKind::Fp32 };
            let mut out = vec![0; len];
            payload::fill(kind, 1, 0, &mut out);
            out
        }
        "text" => b"the quick brown fox jumps over the lazy dog. ".iter().copied().cycle().take(len).collect(),
        _ => (0..len).map(|_| random()).collect(),
    }
}

fn encode(codec: &mut dyn Codec, user: &[u8], pieces: &[Piece]) -> Vec<u8> {
    let mut out = vec![0xAA; codec.bound(user.len(), pieces.len())];
    let stored = codec.encode(&Chunk { user, pieces }, &mut out).unwrap();
    assert!(stored.is_multiple_of(ALIGN), "{} stored {stored} bytes", codec.library());
    out.truncate(stored);
    out
}

fn each_codec() -> impl Iterator<Item = (CodecName, Box<dyn Codec>)> {
    CodecName::ALL.into_iter().map(|name| (name, new(name, None, false).unwrap()))
}

#[test]
fn round_trips() {
    for (name, mut codec) in each_codec() {
        for kind in ["zeros", "text", "bf16", "fp32", "random"] {
            for len in [0, 1, 4095, 4096, 4097, 65535, 1 << 20, (4 << 20) + 5] {
                let user = data(kind, len);
                let stored = encode(&mut *codec, &user, &[whole(len)]);
                let mut back = vec![0x55; len];
                codec.decode(&stored, &[whole(len)], &mut back).unwrap_or_else(|e| panic!("{name} {kind} {len}: {e}"));
                assert!(back == user, "{name} {kind} {len}");
            }
        }
    }
}

/// Every padding gap from 0 to 4095 occurs: each has its own way to go wrong.
#[test]
fn pads_every_gap() {
    for (name, mut codec) in each_codec() {
        for len in 8192..8192 + ALIGN {
            let user = data("random", len);
            let stored = encode(&mut *codec, &user, &[whole(len)]);
            let mut back = vec![0; len];
            codec.decode(&stored, &[whole(len)], &mut back).unwrap_or_else(|e| panic!("{name} {len}: {e}"));
        }
    }
}

#[test]
fn damage_is_refused() {
    for (kind, (name, mut codec)) in ["text", "bf16"].into_iter().flat_map(|k| each_codec().map(move |c| (k, c))) {
        let user = data(kind, 100_000);
        let pieces = [whole(user.len())];
        let stored = encode(&mut *codec, &user, &pieces);
        let mut back = vec![0; user.len()];
        let cuts = [0, 1, 511, stored.len() / 2, stored.len() - ALIGN, stored.len() - 1];
        for cut in cuts.into_iter().filter(|&cut| cut < stored.len()) {
            let error = codec.decode(&stored[..cut], &pieces, &mut back).expect_err(&format!("{name} cut to {cut}"));
            assert_eq!(error.kind, Kind::Corrupt, "{name} cut to {cut}");
        }
        let mut short = vec![0; user.len() - ALIGN];
        assert!(codec.decode(&stored, &[whole(short.len())], &mut short).is_err(), "{name} into less");
        let mut long = vec![0; user.len() + ALIGN];
        assert!(codec.decode(&stored, &[whole(long.len())], &mut long).is_err(), "{name} into more");
    }
}

#[test]
fn levels_out_of_range_name_the_range() {
    for (name, level, says) in [
        (CodecName::Zstd, 23, "-7 to 22"),
        (CodecName::Zstd, 0, "without 0"),
        (CodecName::Gzip, 13, "0 to 12"),
        (CodecName::Zlib, -1, "0 to 12"),
        (CodecName::Lz4, 9, "1 to 1"),
        (CodecName::Tar, 1, "no level"),
        (CodecName::Planes, 1, "no level"),
        (CodecName::None, 1, "no level"),
    ] {
        let error = new(name, Some(level), false).err().unwrap_or_else(|| panic!("{name} took level {level}"));
        assert!(error.kind == Kind::Usage && error.message.contains(says), "{name}: {error}");
    }
    assert!(new(CodecName::Zstd, Some(-7), false).unwrap().library().ends_with("level -7"));
}

#[test]
fn a_small_buffer_is_an_error() {
    for (name, mut codec) in each_codec() {
        let user = data("random", 10_000);
        let chunk = Chunk { user: &user, pieces: &[whole(user.len())] };
        assert!(codec.encode(&chunk, &mut [0; 8192]).is_err(), "{name}");
        assert!(codec.encode(&chunk, &mut []).is_err(), "{name}");
    }
}

#[test]
fn named_libraries_are_the_ones_pinned() {
    let pins = include_str!("../../Cargo.toml");
    assert!(pins.contains(&format!("version = \"={}\"", lz4::LIBRARY.trim_start_matches("lz4_flex "))));
    let libdeflate = zlib::LIBRARY.trim_start_matches("libdeflate ");
    assert!(pins.contains(&format!("libdeflater = \"={libdeflate}.")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..10_000), len in 0usize..20_000) {
        let mut back = vec![0; len];
        for (name, mut codec) in each_codec() {
            let refused = codec.decode(&bytes, &[whole(len)], &mut back).is_err();
            prop_assert!(refused || bytes.is_empty(), "{} took garbage", name);
        }
    }

    /// A flipped byte gives the right bytes (it hit padding that is not looked at), wrong bytes or an error: no panic.
    #[test]
    fn flips_never_panic(at in 0.0f64..1.0, flip in 1u8.., len in 1usize..200_000) {
        for (kind, (_, mut codec)) in ["text", "bf16"].into_iter().flat_map(|k| each_codec().map(move |c| (k, c))) {
            let user = data(kind, len);
            let mut stored = encode(&mut *codec, &user, &[whole(len)]);
            let at = (at * stored.len() as f64) as usize;
            stored[at] ^= flip;
            let _ = codec.decode(&stored, &[whole(len)], &mut vec![0; len]);
        }
    }
}

/// A state of several members cut into chunks, as the checkpoint path cuts it.
struct State {
    members: Vec<(String, u64, Vec<u8>)>,
    bytes: Vec<u8>,
}

impl State {
    fn new() -> Self {
        let long = format!("{}/tensor", "nested/".repeat(40));
        let names = ["model/embed", "empty", "a", long.as_str(), "gewichte/schicht-ü", "optimizer/step"];
        let sizes = [150_000, 0, 1, 40_960, 12_289, 70_001];
        let mut state = Self { members: Vec::new(), bytes: Vec::new() };
        for (name, size) in names.into_iter().zip(sizes) {
            let start = state.bytes.len() as u64;
            let content = data(if size % 2 == 0 { "random" } else { "text" }, size);
            state.bytes.extend_from_slice(&content);
            state.bytes.resize(state.bytes.len().next_multiple_of(ALIGN), 0);
            state.members.push((name.to_string(), start, content));
        }
        state
    }

    /// The pieces of the chunk at `[from, to)`.
    fn pieces(&self, from: usize, to: usize) -> Vec<Piece<'_>> {
        let mut pieces = Vec::new();
        for (name, start, content) in &self.members {
            let start = *start as usize;
            let (first, last) = (start.max(from), (start + content.len()).min(to));
            let is_empty_here = content.is_empty() && (from..to).contains(&start);
            if first < last || is_empty_here {
                pieces.push(Piece {
                    name,
                    mode: 0o600,
                    member_bytes: content.len() as u64,
                    offset: (first - start) as u64,
                    start: first - from,
                    len: last - first,
                });
            }
        }
        pieces
    }

    /// Encodes and decodes every chunk; returns the shard.
    fn shard(&self, codec: &mut dyn Codec, chunk: usize) -> Vec<u8> {
        let mut shard = Vec::new();
        for from in (0..self.bytes.len()).step_by(chunk) {
            let to = (from + chunk).min(self.bytes.len());
            let pieces = self.pieces(from, to);
            let stored = encode(codec, &self.bytes[from..to], &pieces);
            let mut back = vec![0x55; to - from];
            codec.decode(&stored, &pieces, &mut back).unwrap();
            assert!(back == self.bytes[from..to], "{} chunk at {from}", codec.library());
            shard.extend_from_slice(&stored);
        }
        shard.extend_from_slice(codec.trailer());
        shard
    }
}

/// What a tool prints for a file; `None` when it is not installed. A warning on stderr counts as failure.
fn tool(command: &[&str], input: &Path) -> Option<Vec<u8>> {
    let child = Command::new(command[0]).args(&command[1..]).arg(input).stdin(Stdio::null()).output();
    let Ok(output) = child else {
        savemark_testing::missing(command[0], "it is not installed");
        return None;
    };
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.is_empty(), "{command:?}: {complaints}");
    Some(output.stdout)
}

fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn standard_tools_read_compressed_shards() {
    let state = State::new();
    for (name, command) in [(CodecName::Zstd, "zstd"), (CodecName::Lz4, "lz4"), (CodecName::Gzip, "gzip")] {
        let shard = state.shard(&mut *new(name, None, false).unwrap(), 32768);
        let Some(output) = tool(&[command, "-dcq"], file_of(&shard).path()) else { continue };
        assert!(output == state.bytes, "{command} printed {} of {} bytes", output.len(), state.bytes.len());
    }
}

/// `tar` extracts every member whole from a sequential shard, and the parts of every member from a parallel one.
#[test]
fn tar_extracts_what_was_saved() {
    let state = State::new();
    for (sequential, chunk) in [(true, 4096), (true, 32768), (true, 1 << 20), (false, 32768), (false, 1 << 20)] {
        let shard = file_of(&state.shard(&mut *new(CodecName::Tar, None, sequential).unwrap(), chunk));
        let Some(list) = tool(&["tar", "--quoting-style=literal", "-tf"], shard.path()) else { return };
        let list = String::from_utf8(list).unwrap();
        for (name, _, content) in &state.members {
            let mut parts: Vec<&str> =
                list.lines().filter(|l| l.strip_suffix(name.as_str()) == Some("") || is_part(l, name)).collect();
            parts.sort_unstable();
            assert!(!parts.is_empty(), "{name} is not in\n{list}");
            assert!(!sequential || parts == [name], "{parts:?}");
            let extracted: Vec<u8> = parts.iter().flat_map(|part| extract(shard.path(), part)).collect();
            assert!(extracted == *content, "{name} (sequential {sequential}, chunk {chunk})");
        }
    }
}

fn is_part(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with(".part-"))
}

fn extract(shard: &Path, member: &str) -> Vec<u8> {
    tool(&["tar", &format!("--to-command=test \"$TAR_FILENAME\" != '{member}' || cat"), "-xf"], shard).unwrap()
}

#[test]
fn tar_refuses_bytes_that_it_could_not_store() {
    let user = vec![1; 8192];
    let mut codec = new(CodecName::Tar, None, false).unwrap();
    let mut out = vec![0; 1 << 16];
    assert!(codec.encode(&Chunk { user: &user, pieces: &[] }, &mut out).is_err(), "no pieces");
    assert!(codec.encode(&Chunk { user: &user, pieces: &[whole(4096)] }, &mut out).is_err(), "a tail outside");
    let unnamed = Piece { name: "", ..whole(8192) };
    assert_eq!(codec.encode(&Chunk { user: &user, pieces: &[unnamed] }, &mut out).unwrap_err().kind, Kind::Usage);
}

/// 9 GiB in one member cannot be made here: its first extent must still be listed with the right size.
#[test]
fn tar_says_sizes_from_8_gib() {
    let user = data("random", 8192);
    let big = Piece { name: "big", mode: 0o644, member_bytes: 9 << 30, offset: 0, start: 0, len: user.len() };
    let stored = encode(&mut *new(CodecName::Tar, None, true).unwrap(), &user, &[big]);
    let Ok(output) = Command::new("tar").arg("-tvf").arg(file_of(&stored).path()).output() else { return };
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(list.contains(&(9u64 << 30).to_string()), "{list}");
}
