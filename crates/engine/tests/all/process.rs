//! Trials that save running programs.

use savemark_base::buffer::Pool;
use savemark_base::payload::PayloadKind;
use savemark_checkpoint::codec::CodecName;
use savemark_checkpoint::{RestoreOptions, SaveOptions};
use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_measure::control::Control;
use savemark_process::criu::Criu;
use savemark_process::program::{Kind, Program};
use savemark_process::{After, DumpOptions, tree};
use savemark_storage::uring::UringOptions;
use savemark_testing::missing;

#[test]
fn a_trial_removes_no_checkpoint_that_it_has_not_made() {
    if let Err(why) = Criu::find().and_then(|criu| criu.check()) {
        return missing("criu", &why.to_string());
    }
    let _orphans = tree::adopt();
    let (mut pool, control) = (Pool::default(), Control::default());
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let storage =
        savemark_storage::open(&savemark_storage::Options::Uring(UringOptions::default()), place.path()).unwrap();
    let mut program = Program::start(Kind::Memory, PayloadKind::Random, 7, 1 << 20, &control).unwrap();
    let options = SaveOptions { codec: CodecName::None, level: None, streams: 1, chunk_bytes: 1 << 20, queue_depth: 2 };
    let dump = DumpOptions::new(program.pid, After::Kill);
    savemark_process::save(&*storage, &dump, &options, &mut pool, &control).unwrap();
    let keys = format!(r#""workload":"process","storage":"uring","target":"{}","size":"1MiB""#, place.path().display());
    for mode in ["stream", "tmpfs", "images"] {
        let trial = format!(r#"{{{keys},"mode":"{mode}","codec":"none","streams":0}}"#);
        let trial = Trial::parse(&trial).unwrap();
        let error = Engine::new().run(&trial, &Control::default()).unwrap_err();
        assert!(error.to_string().contains("checkpoint"), "{mode}: {error}");
    }
    savemark_process::restore(&*storage, &RestoreOptions { queue_depth: 2, in_place: true }, &mut pool, &control)
        .unwrap();
    program.check(&control, "sum").unwrap();
}
