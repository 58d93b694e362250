//! What planes promise beyond what every codec does: ratios, any mixture of data, and refusal of crafted input.

use proptest::prelude::*;

use super::huffman::{self, Decoder};
use super::*;
use savemark_base::Kind;
use savemark_base::payload::{self, PayloadKind};
use savemark_testing::guarded::Guarded;
use savemark_testing::mutate::{Chance, fuzz};

fn make(kind: PayloadKind, offset: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    payload::fill(kind, 1, offset, &mut data);
    data
}

fn encode(codec: &mut Planes, user: &[u8]) -> Vec<u8> {
    let mut out = vec![0xAA; Planes::bound(user.len())];
    let stored = codec.encode(user, &mut out).unwrap();
    out.truncate(stored);
    out
}

/// Ratio over chunks of 1 MiB, each decoded again.
fn ratio(user: &[u8]) -> f64 {
    let mut codec = Planes::new().unwrap();
    let stored: usize = user
        .chunks(1 << 20)
        .map(|part| {
            let stored = encode(&mut codec, part);
            let mut back = vec![0x55; part.len()];
            codec.decode(&stored, &mut back).unwrap();
            assert!(back == part);
            stored.len()
        })
        .sum();
    user.len() as f64 / stored as f64
}

fn zstd_ratio(user: &[u8]) -> f64 {
    let parts = user.chunks(1 << 20).map(|part| zstd::bulk::compress(part, ZSTD_LEVEL).unwrap().len());
    let parts = parts.map(|len| len.next_multiple_of(ALIGN));
    user.len() as f64 / parts.sum::<usize>() as f64
}

fn from_weights<const N: usize>(len: usize, convert: impl Fn(f32) -> [u8; N]) -> Vec<u8> {
    let weights = make(PayloadKind::Fp32, 0, len / N * 4);
    weights.as_chunks().0.iter().flat_map(|four| convert(f32::from_le_bytes(*four))).collect()
}

/// Nearest half-precision number; weights are far from its largest, and its subnormals become zero.
fn fp16(value: f32) -> [u8; 2] {
    let bits = value.to_bits() + 0x1000;
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = (bits & 0x7FFF_FFFF) >> 13;
    (sign | magnitude.saturating_sub(112 << 10) as u16).to_le_bytes()
}

#[test]
fn weights_shrink_by_what_their_exponents_hold() {
    let len = 4 << 20;
    let upcast = |value: f32| (value.to_bits() & 0xFFFF_0000).to_le_bytes();
    for (name, user, least) in [
        ("bf16", make(PayloadKind::Bf16, 0, len), 1.45),
        ("bf16, odd phase", make(PayloadKind::Bf16, 1, len), 1.45),
        ("fp32", make(PayloadKind::Fp32, 0, len), 1.17),
        ("fp32, phase 1", make(PayloadKind::Fp32, 1, len), 1.17),
        ("fp32, phase 2", make(PayloadKind::Fp32, 2, len), 1.17),
        ("fp32, phase 3", make(PayloadKind::Fp32, 3, len), 1.17),
        ("fp16", from_weights(len, fp16), 1.15),
        ("bf16 in fp32", from_weights(len, upcast), 2.9),
        ("squares (Adam's second moment)", from_weights(len, |value| (value * value).to_le_bytes()), 1.15),
    ] {
        let got = ratio(&user);
        assert!(got >= least, "{name}: {got:.3}");
    }
}

#[test]
fn what_is_not_weights_is_not_worse_than_with_zstd() {
    let len = 4 << 20;
    let counter: Vec<u8> = (0..len as u32 / 4).flat_map(u32::to_le_bytes).collect();
    let steps: Vec<u8> = (0..len as u32 / 8).flat_map(|i| u64::from(i / 5 % 1000).to_le_bytes()).collect();
    for (name, user) in [
        ("text", make(PayloadKind::Text, 0, len)),
        ("zeros", make(PayloadKind::Zeros, 0, len)),
        ("random", make(PayloadKind::Random, 0, len)),
        ("counting integers", counter),
        ("runs of integers", steps),
    ] {
        let (got, least) = (ratio(&user), zstd_ratio(&user));
        // Where it tries both, zstd gets 512 KiB at a time.
        assert!(got >= 0.95 * least, "{name}: {got:.3} instead of {least:.3}");
    }
}

/// An extent grows by no more than its heads, rounded up.
#[test]
fn noise_does_not_grow() {
    let mut codec = Planes::new().unwrap();
    for len in [1, 4000, 4072, 5000, 1 << 20, (9 << 20) + 3] {
        let stored = encode(&mut codec, &make(PayloadKind::Random, 0, len)).len();
        assert!(
            stored <= (HEAD + len.div_ceil(LARGEST) * SEGMENT_HEAD + len).next_multiple_of(ALIGN),
            "{len}: {stored}"
        );
    }
}

#[test]
fn one_chunk_may_hold_anything() {
    for cut in [BLOCK, BLOCK / 2, 50_001, 4096, 777] {
        let user: Vec<u8> = (0..3)
            .flat_map(|round| PayloadKind::ALL.map(|kind| make(kind, round, 2 * cut + round as usize)))
            .flatten()
            .collect();
        let got = ratio(&user);
        assert!(got > 1.2 || cut < BLOCK / 2, "{cut}: {got:.3}");
    }
}

#[test]
fn a_head_is_checked_field_by_field() {
    let mut codec = Planes::new().unwrap();
    let user = make(PayloadKind::Bf16, 0, 300_001);
    let stored = encode(&mut codec, &user);
    let plane_head = HEAD + SEGMENT_HEAD;
    // Magic, version, lengths; a segment's length, kind, zeros, stored length; a plane's method and length. (Another
    // `skip` may be as good a number: what it gives is for the chunk's digest to refuse.)
    let fields = [0, 3, 4, 8, 15, 16, 23, HEAD, HEAD + 3, HEAD + 4, HEAD + 6, HEAD + 7, HEAD + 8, HEAD + 11];
    for at in fields.into_iter().chain([plane_head, plane_head + 3, plane_head + 4, plane_head + 7]) {
        for flip in [1, 0x80] {
            let mut wrong = stored.clone();
            wrong[at] ^= flip;
            let error = codec.decode(&wrong, &mut vec![0; user.len()]).expect_err(&format!("byte {at}"));
            assert_eq!(error.kind, Kind::Corrupt);
        }
    }
    let last = stored.len() - 1;
    let mut wrong = stored;
    wrong[last] = 1;
    assert!(codec.decode(&wrong, &mut vec![0; user.len()]).is_err(), "padding");
}

fn plane_round_trip(plane: &[u8]) -> Option<usize> {
    let mut out = vec![0xAA; plane.len() + 1000];
    let len = huffman::encode(plane, &huffman::count(plane), &mut out)?;
    let mut back = vec![0x55; plane.len()];
    Decoder::new().decode(&out[..len], &mut back).unwrap();
    assert!(back == plane);
    Some(len)
}

/// Fibonacci counts make the longest codes there are: 11 bits are not enough without a cut.
#[test]
fn long_codes_are_cut() {
    let (mut plane, mut counts) = (Vec::new(), (1, 1));
    for value in 0..22u8 {
        plane.resize(plane.len() + counts.0, value);
        counts = (counts.1, counts.0 + counts.1);
    }
    let len = plane_round_trip(&plane).unwrap();
    assert!(len < plane.len() * 2 / 5, "{len} of {}", plane.len());
    // All values, one of them most of the time.
    plane.extend(0..=255);
    assert!(plane_round_trip(&plane).is_some());
}

#[test]
fn a_code_that_is_not_complete_is_refused() {
    let mut out = vec![0; 10_000];
    let plane: Vec<u8> = (0..8000).map(|i| (i % 7 * (i % 3)) as u8).collect();
    let len = huffman::encode(&plane, &huffman::count(&plane), &mut out).unwrap();
    for (at, byte) in [(0, 0), (0, 0xFF), (100, 0x01), (127, 0xB0), (3, 0x0C)] {
        let mut wrong = out[..len].to_vec();
        wrong[at] = byte;
        assert!(Decoder::new().decode(&wrong, &mut [0; 8000]).is_err(), "byte {at}");
    }
}

/// Extents changed anywhere, in half of them behind a head that is right. What follows a decoded byte in memory, and what follows
/// an extent, may not be touched: it is not there.
#[test]
fn fuzz_extent() {
    let mut codec = Planes::new().unwrap();
    let lens = [1, 100, 5000, 65_536, 100_003, 300_000, LARGEST + 4099];
    let users: Vec<Vec<u8>> =
        lens.into_iter().flat_map(|len| PayloadKind::ALL.map(|kind| make(kind, 0, len))).collect();
    let extents: Vec<Vec<u8>> = users.iter().map(|user| encode(&mut codec, user)).collect();
    let input = |chance: &mut Chance| {
        let of = chance.below(users.len());
        let mut bytes = chance.bytes(&extents[of..=of]);
        if chance.below(2) == 0 && bytes.len() >= HEAD {
            bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
            let end = bytes.iter().rposition(|&byte| byte != 0).map_or(HEAD, |last| (last + 1).max(HEAD));
            bytes[..16].copy_from_slice(&extents[of][..16]);
            bytes[16..HEAD].copy_from_slice(&(end as u64).to_le_bytes());
        }
        bytes.extend_from_slice(&(of as u64).to_le_bytes());
        bytes
    };
    let longest = lens[lens.len() - 1];
    let (mut stored, mut decoded) = (Guarded::new(2 * longest), Guarded::new(longest));
    let check = |input: &[u8]| {
        let (bytes, of) = input.split_last_chunk::<8>().unwrap();
        let of = u64::from_le_bytes(*of) as usize;
        let user = decoded.last(users[of].len());
        match codec.decode(stored.copy(bytes), user) {
            Ok(()) if bytes == extents[of] => assert!(*user == users[of][..]),
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind, Kind::Corrupt, "{error}"),
        }
    };
    fuzz("planes", input, check);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_plane_round_trips(plane in prop::collection::vec(0u8..20, 150..5000), spread in 1u8..13) {
        let plane: Vec<u8> = plane.iter().map(|&value| value.wrapping_mul(spread)).collect();
        if plane.iter().any(|&value| value != plane[0]) {
            plane_round_trip(&plane);
        }
    }

    /// Streams of garbage under a code that is right, and stream lengths of any kind.
    #[test]
    fn crafted_streams_never_panic(
        streams in prop::collection::vec(any::<u8>(), 0..3000), parts in prop::array::uniform3(0u32..1500), len in 0usize..9000,
        even in any::<bool>(),
    ) {
        // Two codes of one bit, or 2, 2, 3 … and two of 11.
        let lengths: Vec<u8> = if even { vec![1, 1] } else { vec![2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11] };
        let mut coded = vec![0; 128];
        for (value, bits) in lengths.into_iter().enumerate() {
            coded[value / 2] |= bits << (4 * (value % 2));
        }
        coded.extend(parts.iter().flat_map(|part| part.to_le_bytes()));
        coded.extend(streams);
        let _ = Decoder::new().decode(&coded, &mut vec![0; len]);
    }

    /// An extent whose head is right and whose segments are damaged anywhere.
    #[test]
    fn damaged_segments_never_panic(flips in prop::collection::vec((0.0f64..1.0, any::<u8>(), any::<bool>()), 1..8), fp32 in any::<bool>()) {
        let mut codec = Planes::new().unwrap();
        let user = make(if fp32 { PayloadKind::Fp32 } else { PayloadKind::Bf16 }, 1, 20_000);
        let mut stored = encode(&mut codec, &user);
        let heads = HEAD + SEGMENT_HEAD + 4 * PLANE_HEAD;
        for (at, byte, in_head) in flips {
            let span = if in_head { HEAD..heads } else { HEAD..stored.len() };
            let at = span.start + (at * span.len() as f64) as usize;
            stored[at] = byte;
        }
        let _ = codec.decode(&stored, &mut vec![0; user.len()]);
    }
}
