//! What a save finds in its place: checkpoints that it cannot read, orphans, links, pipes, and names that lie.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use savemark_base::buffer::Pool;
use savemark_base::payload::PayloadKind;
use savemark_base::{Error, Kind};
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::state::{Discard, GeneratedState};
use savemark_checkpoint::{MANIFEST, Manifest, RestoreOptions, SaveOptions, inspect, restore, save};
use savemark_measure::control::Control;
use savemark_storage::Storage;
use savemark_storage::posix::PosixOptions;
use savemark_storage::uring::UringOptions;
use savemark_testing::alone;

fn disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn posix(target: &Path) -> Arc<dyn Storage> {
    savemark_storage::open(&savemark_storage::Options::Posix(PosixOptions { direct: false }), target).unwrap()
}

fn uring(target: &Path) -> Arc<dyn Storage> {
    savemark_storage::open(&savemark_storage::Options::Uring(UringOptions::default()), target).unwrap()
}

fn state(number: u64) -> GeneratedState {
    GeneratedState::new(PayloadKind::Random, number, 300_000 + number)
}

fn save_to(storage: &dyn Storage, state: &GeneratedState) -> Result<Manifest, Error> {
    let options =
        SaveOptions { codec: CodecName::None, level: None, streams: 2, chunk_bytes: 64 << 10, queue_depth: 2 };
    save(state, storage, &options, &mut Pool::default(), &Control::default()).map(|(manifest, _)| manifest)
}

fn restores(storage: &dyn Storage, state: &GeneratedState) -> Result<(), Error> {
    let options = RestoreOptions { queue_depth: 2, in_place: false };
    restore(storage, state, &options, &mut Pool::default(), &Control::default()).map(drop)
}

fn verify(storage: &dyn Storage) -> Result<(), Error> {
    let options = RestoreOptions { queue_depth: 2, in_place: false };
    restore(storage, &Discard, &options, &mut Pool::default(), &Control::default()).map(drop)
}

/// A state for which there is no room.
fn huge(storage: &dyn Storage) -> GeneratedState {
    GeneratedState::new(PayloadKind::Zeros, 9, storage.free_bytes().unwrap().unwrap() + (1 << 30))
}

/// All files and what is in them.
fn contents(target: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    let mut found: Vec<_> = fs::read_dir(target).unwrap().map(read).collect();
    found.sort();
    found
}

/// `text` sealed as a manifest is: its closing brace gives way to the digest of all before it.
fn sealed(text: &str) -> Vec<u8> {
    let body = text.trim_end().strip_suffix('}').unwrap();
    let digest = savemark_base::digest::digest(body.as_bytes());
    format!("{body},\"checksum\":\"crc64-nvme:{digest:016x}\"}}\n").into_bytes()
}

/// The manifest, as text without its seal.
fn unsealed(target: &Path) -> String {
    let text = fs::read_to_string(target.join(MANIFEST)).unwrap();
    format!("{}}}", &text[..text.rfind(",\"checksum\"").unwrap()])
}

#[test]
fn a_checkpoint_of_a_newer_savemark_is_not_replaced() {
    let target = disk();
    let storage = posix(target.path());
    save_to(&*storage, &state(1)).unwrap();
    let text = unsealed(target.path());
    for newer in [
        text.replace("\"version\":1", "\"version\":2"),
        text.replace("\"codec\"", "\"sequence\":7,\"codec\""),
        text.replace("\"codec\":\"none\"", "\"codec\":\"brotli\""),
    ] {
        assert_ne!(newer, text);
        fs::write(target.path().join(MANIFEST), sealed(&newer)).unwrap();
        let before = contents(target.path());
        for state in [state(2), huge(&*storage)] {
            let error = save_to(&*storage, &state).unwrap_err();
            assert_eq!(error.kind, Kind::Refused, "{error}");
            assert!(error.to_string().contains("Nothing was written") && error.hint.is_some(), "{error:?}");
            assert!(contents(target.path()) == before, "a shard of a checkpoint that cannot be read was touched");
        }
        assert!(inspect::clean(&*storage, false).unwrap().is_empty());
        assert!(inspect::remove(&*storage).is_err());
        assert!(contents(target.path()) == before);
    }
    fs::write(target.path().join(MANIFEST), sealed(&text)).unwrap();
    restores(&*storage, &state(1)).unwrap();
}

#[test]
fn nothing_of_a_damaged_checkpoint_is_lost_before_or_after_it_is_replaced() {
    for damage in [
        |bytes: &mut Vec<u8>| bytes[200] ^= 1,
        |bytes: &mut Vec<u8>| bytes.truncate(300),
        |bytes: &mut Vec<u8>| bytes.fill(0),
        |bytes: &mut Vec<u8>| {
            let last = bytes.len() - 5;
            bytes[last] ^= 4;
        },
    ] {
        let target = disk();
        let storage = posix(target.path());
        save_to(&*storage, &state(1)).unwrap();
        let whole = fs::read(target.path().join(MANIFEST)).unwrap();
        let mut damaged = whole.clone();
        damage(&mut damaged);
        fs::write(target.path().join(MANIFEST), &damaged).unwrap();
        let before = contents(target.path());
        // What fails leaves it as it was.
        assert!(save_to(&*storage, &huge(&*storage)).unwrap_err().to_string().contains("no room"));
        assert!(contents(target.path()) == before);
        // What succeeds, twice, leaves its shards and what was left of its list: somebody may mend it.
        save_to(&*storage, &state(2)).unwrap();
        save_to(&*storage, &state(3)).unwrap();
        restores(&*storage, &state(3)).unwrap();
        let after = contents(target.path());
        for (name, bytes) in &before {
            let kept = after.iter().any(|(found, has)| has == bytes && (found == name || name == MANIFEST));
            assert!(kept, "{name} of the damaged checkpoint is gone");
        }
        // A user who asks for it is told what it is, and gets rid of it.
        let orphans = inspect::contents(&*storage).unwrap().orphans;
        assert_eq!(orphans.len(), 3, "{orphans:?}");
        assert_eq!(inspect::clean(&*storage, false).unwrap().len(), 3);
        assert_eq!(storage.list().unwrap().len(), 3, "{:?}", storage.list());
        restores(&*storage, &state(3)).unwrap();
    }
}

#[test]
fn a_manifest_whose_beginning_is_damaged_is_nobody_elses_to_replace() {
    let target = disk();
    let storage = posix(target.path());
    save_to(&*storage, &state(1)).unwrap();
    let mut damaged = fs::read(target.path().join(MANIFEST)).unwrap();
    damaged[3] ^= 1;
    fs::write(target.path().join(MANIFEST), &damaged).unwrap();
    let before = contents(target.path());
    assert_eq!(save_to(&*storage, &state(2)).unwrap_err().kind, Kind::Refused);
    assert!(inspect::clean(&*storage, false).unwrap().is_empty());
    assert!(inspect::remove(&*storage).is_err() && contents(target.path()) == before);
}

#[test]
fn orphans_stay_until_the_save_that_finds_them_is_complete_or_needs_their_room() {
    let target = disk();
    let storage = posix(target.path());
    let orphan = target.path().join("shard-0123456789abcdef-00000001-0000.zst");
    fs::write(&orphan, b"of a killed save").unwrap();
    save_to(&*storage, &huge(&*storage)).unwrap_err();
    assert!(orphan.exists(), "a save for which there is no room removes nothing");
    save_to(&*storage, &state(1)).unwrap();
    assert!(!orphan.exists());
    restores(&*storage, &state(1)).unwrap();
}

#[test]
fn a_manifest_that_names_shards_of_others_removes_only_its_own() {
    for remove in [false, true] {
        let target = disk();
        let storage = posix(target.path());
        let made = save_to(&*storage, &state(1)).unwrap();
        let others = ["notes.txt", "shard-0123456789abcdef-00000001-0000", ".profile"];
        for name in others {
            fs::write(target.path().join(name), b"").unwrap();
        }
        // The third shard of two: an empty file that is not of this save.
        let mut text = unsealed(target.path());
        for name in others {
            let shard =
                format!("{{\"name\":\"{name}\",\"bytes\":0,\"trailer_bytes\":0,\"trailer_digest\":\"{:016x}\"}}", 0);
            text = text.replace("\"shards\":[", &format!("\"shards\":[{shard},"));
        }
        for index in (0..made.shards.len()).rev() {
            let (old, new) = (format!(",{index},"), format!(",{},", index + others.len()));
            text = text.replace(&old, &new);
        }
        fs::write(target.path().join(MANIFEST), sealed(&text)).unwrap();
        let _ = if remove { inspect::remove(&*storage) } else { save_to(&*storage, &state(2)).map(drop) };
        for name in ["notes.txt", ".profile"] {
            assert!(target.path().join(name).exists(), "{name} was removed");
        }
    }
}

#[test]
fn a_save_writes_through_no_link_and_no_name_of_others() {
    let (target, elsewhere) = (disk(), disk());
    let victim = elsewhere.path().join("victim");
    fs::write(&victim, b"precious").unwrap();
    for (name, hard) in [("manifest.json.partial", false), ("manifest.json.partial", true)] {
        let planted = target.path().join(name);
        let _ = fs::remove_file(&planted);
        if hard {
            fs::hard_link(&victim, &planted).unwrap();
        } else {
            symlink(&victim, &planted).unwrap();
        }
        save_to(&*posix(target.path()), &state(1)).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }
    let planted = target.path().join("manifest.json.partial");
    let _ = fs::remove_file(&planted);
    symlink(elsewhere.path().join("made"), &planted).unwrap();
    save_to(&*posix(target.path()), &state(1)).unwrap();
    assert!(!elsewhere.path().join("made").exists());
}

#[test]
fn links_and_pipes_in_the_place_of_files_are_refused_at_once() {
    let target = disk();
    save_to(&*posix(target.path()), &state(1)).unwrap();
    let names = posix(target.path()).list().unwrap();
    for name in names {
        let path = target.path().join(&name);
        let aside = target.path().join("aside");
        fs::rename(&path, &aside).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let opened = [posix(target.path()), uring(target.path())].map(|storage| {
            let error = verify(&*storage).unwrap_err();
            assert!(error.to_string().contains(&name), "{error}");
            assert!(storage.evict(std::slice::from_ref(&name)).is_err());
            storage.get(&name).map(drop)
        });
        assert!(opened.iter().all(Result::is_err), "a pipe is no file");
        fs::remove_file(&path).unwrap();
        symlink(&aside, &path).unwrap();
        assert!(verify(&*posix(target.path())).is_err(), "{name}: a link may lead anywhere");
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    restores(&*posix(target.path()), &state(1)).unwrap();
}

#[test]
fn a_manifest_of_any_length_is_not_read() {
    let target = disk();
    fs::File::create(target.path().join(MANIFEST)).unwrap().set_len(1 << 40).unwrap();
    let error = verify(&*posix(target.path())).unwrap_err();
    assert!(error.to_string().contains(MANIFEST), "{error}");
}

#[test]
fn what_is_saved_is_its_owners_alone_unless_the_directory_is_shared_with_its_group() {
    let name = "what_is_saved_is_its_owners_alone_unless_the_directory_is_shared_with_its_group";
    if !alone(module_path!(), name) {
        return;
    }
    for (directory, file) in [(0o755, 0o600), (0o777, 0o600), (0o2750, 0o640), (0o2770, 0o660), (0o2777, 0o660)] {
        let target = disk();
        fs::set_permissions(target.path(), fs::Permissions::from_mode(directory)).unwrap();
        // SAFETY: a plain system call; this process makes no other files for which it matters.
        let umask = unsafe { libc::umask(0) };
        save_to(&*posix(target.path()), &state(1)).unwrap();
        unsafe { libc::umask(umask) };
        for entry in fs::read_dir(target.path()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode, file, "{:?} in a directory of {directory:o} has {mode:o}", entry.file_name());
        }
    }
}
