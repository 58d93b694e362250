//! Manifests that no save wrote, with the seal that belongs to them.

use std::sync::Arc;

use savemark_base::buffer::Pool;
use savemark_base::digest::digest;
use savemark_base::payload::PayloadKind;
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::GeneratedState;
use savemark_checkpoint::{MANIFEST, Manifest, SaveOptions};
use savemark_measure::control::Control;
use savemark_storage::Storage;
use savemark_storage::memory::Memory;
use serde_json::Value;

/// A checkpoint of 50,001 bytes in chunks of 8 KiB.
pub fn saved(codec: CodecName, streams: u32) -> (Arc<dyn Storage>, Manifest) {
    let storage = Arc::new(Memory::default());
    let options = SaveOptions { codec, level: None, streams, chunk_bytes: 8192, queue_depth: 2 };
    let state = GeneratedState::new(PayloadKind::Text, 1, 50_001);
    let saved = savemark_checkpoint::save(&state, &*storage, &options, &mut Pool::default(), &Control::default());
    (storage, saved.unwrap().0)
}

/// The manifest of a storage, as values.
pub fn tree(storage: &dyn Storage) -> Value {
    let mut tree: Value = serde_json::from_slice(&storage.get(MANIFEST).unwrap().unwrap()).unwrap();
    tree.as_object_mut().unwrap().remove("checksum");
    tree
}

/// A manifest of these values; format and version come first, as in every one.
pub fn sealed(mut tree: Value) -> Vec<u8> {
    let mut take = |key| tree.as_object_mut().and_then(|fields| fields.remove(key)).unwrap_or_default();
    let (format, version) = (take("format"), take("version"));
    let mut bytes = format!("{{\"format\":{format},\"version\":{version},{}", &tree.to_string()[1..]).into_bytes();
    bytes.pop();
    seal(bytes)
}

/// All of a manifest but its seal and its last brace.
pub fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let seal = format!(",\"checksum\":\"crc64-nvme:{:016x}\"}}\n", digest(&bytes));
    bytes.extend_from_slice(seal.as_bytes());
    bytes
}
