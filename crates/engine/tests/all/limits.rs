//! Manifests with a valid seal that claim what no save writes: refused before anything is allocated, opened or made for it.

use savemark_base::{Error, Kind};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::Discard;
use savemark_checkpoint::{MANIFEST, Manifest, RestoreOptions, inspect, limits, restore};
use serde_json::{Value, json};

use crate::sealed::{saved, sealed, tree};

type Change = fn(&mut Value);

fn refusal(codec: CodecName, streams: u32, change: impl Fn(&mut Value)) -> Error {
    let (storage, _) = saved(codec, streams);
    let mut values = tree(&*storage);
    change(&mut values);
    storage.put(MANIFEST, &sealed(values)).unwrap();
    let listed = inspect::contents(&*storage).unwrap().checkpoint.unwrap();
    let options = RestoreOptions { queue_depth: 2, in_place: false };
    let error = restore(&*storage, &Discard, &options, &mut Default::default(), &Default::default())
        .expect_err("it was accepted");
    assert_eq!(listed.damage, Some(error.to_string()), "list says what verify says");
    assert_eq!(listed.newer, error.kind == Kind::Refused);
    assert!(error.message.contains(MANIFEST) && error.hint.is_some(), "{error}");
    error
}

#[test]
fn a_manifest_as_it_was_saved_is_read() {
    for (codec, streams) in [(CodecName::None, 0), (CodecName::Tar, 2), (CodecName::Planes, 1)] {
        let (storage, manifest) = saved(codec, streams);
        assert_eq!(Manifest::from_bytes(&sealed(tree(&*storage))).unwrap(), manifest);
    }
}

#[test]
fn numbers_beyond_the_bounds_are_refused() {
    let cases: [(&str, Change); 12] = [
        ("chunks of 200 GiB", |m| m["chunk_bytes"] = json!(200u64 << 30)),
        ("chunks of a bit more than the bound", |m| m["chunk_bytes"] = json!(limits::CHUNK_BYTES + 4096)),
        ("chunks of nothing", |m| m["chunk_bytes"] = json!(0)),
        ("a chunk of 2^45", |m| m["chunks"][0][1] = json!(1u64 << 45)),
        ("an extent of 2^45", |m| m["chunks"][0][4] = json!(1u64 << 45)),
        ("an extent longer than its codec writes it", |m| m["chunks"][6][4] = json!(1 << 20)),
        ("an offset at the end of numbers", |m| m["chunks"][1][0] = json!(u64::MAX)),
        ("a shard at the end of numbers", |m| m["shards"][0]["bytes"] = json!(u64::MAX)),
        ("a trailer that no codec has", |m| m["shards"][0]["trailer_bytes"] = json!(4096)),
        ("a member at the end of numbers", |m| m["members"][0]["bytes"] = json!(u64::MAX)),
        ("4,000 shards", |m| {
            let shard = json!({"name": "x", "bytes": 0, "trailer_bytes": 0, "trailer_digest": "0000000000000000"});
            m["shards"].as_array_mut().unwrap().resize(4000, shard);
        }),
        ("nothing", |m| {
            (m["streams"], m["state_bytes"]) = (json!(0), json!(0));
            (m["shards"], m["chunks"], m["members"]) = (json!([]), json!([]), json!([]));
        }),
    ];
    for (what, change) in cases {
        for codec in [CodecName::Zstd, CodecName::None] {
            assert_eq!(refusal(codec, 2, change).kind, Kind::Corrupt, "{what}");
        }
    }
}

#[test]
fn chunks_start_on_pages_and_sums_do_not_wrap() {
    refusal(CodecName::Zstd, 1, |m| {
        (m["chunks"][0][1], m["chunks"][1][0], m["chunks"][1][1]) = (json!(1), json!(1), json!(16383));
    });
    let error = refusal(CodecName::None, 1, |m| {
        let half = json!(1u64 << 63);
        (m["chunk_bytes"], m["state_bytes"]) = (half.clone(), json!(0));
        m["chunks"] = json!([[0, half, 0, 0, 4096, "0000000000000000", "0000000000000000"]]);
    });
    assert_eq!(error.kind, Kind::Corrupt);
}

#[test]
fn shards_are_files_of_the_same_save() {
    for name in ["precious.bin", "../shard", "shard-0123456789abcdef-00000001-0000", "manifest.json"] {
        let error = refusal(CodecName::None, 1, |m| m["shards"][0]["name"] = json!(name));
        assert!(error.kind == Kind::Corrupt && error.message.contains(name), "{error}");
    }
    assert_eq!(refusal(CodecName::None, 1, |m| m["id"] = json!("today")).kind, Kind::Corrupt);
}

#[test]
fn names_that_cannot_be_restored_are_refused_by_all() {
    let page = |name: &str, bytes: u64| json!({"name": name, "bytes": bytes, "mode": 0o644, "offset": 0});
    let long = "x".repeat(256);
    let deep = vec!["d"; limits::DEPTH + 1].join("/");
    for (first, second) in
        [("a", "a"), ("a/b", "a"), ("../a", "b"), ("a//b", "c"), (&*long, "b"), (&*deep, "b"), ("\0", "b")]
    {
        let error = refusal(CodecName::Zstd, 1, |m| m["members"] = json!([page(second, 0), page(first, 50_001)]));
        assert_eq!(error.kind, Kind::Corrupt, "{first} {second}");
    }
    let directory = |name: &str| json!({"name": name, "mode": 0o755});
    for names in [&["state.bin"][..], &["state.bin/a"], &["a", "a"], &["a/b", "a"], &["/"]] {
        let directories: Vec<Value> = names.iter().map(|name| directory(name)).collect();
        refusal(CodecName::None, 1, |m| m["directories"] = json!(directories));
    }
    let error = refusal(CodecName::None, 1, |m| m["members"][0]["name"] = json!("/\u{1b}[2J"));
    assert!(!error.to_string().contains('\u{1b}'), "a terminal shows it: {error}");
}

#[test]
fn a_newer_version_is_called_newer_and_not_damaged() {
    let error = refusal(CodecName::None, 1, |m| (m["version"], m["new"]) = (json!(2), json!({"field": 1})));
    assert!(error.kind == Kind::Refused && error.message.contains("newer savemark"), "{error}");
    assert!(!error.message.contains("damaged") && error.hint.unwrap().contains("upgrade"));
    let error = refusal(CodecName::None, 1, |m| m["new"] = json!(1));
    assert!(error.message.contains("newer savemark, or is damaged"), "{error}");
}
