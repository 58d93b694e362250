use std::path::Path;
use std::sync::Arc;
use savemark_engine::buffer::Pool;
use savemark_engine::checkpoint::{RestoreOptions, SaveOptions};
use savemark_engine::codec::CodecName;
use savemark_engine::control::Control;
use savemark_engine::process::{self, After, DumpOptions};
use savemark_engine::storage::{self, Storage, uring::UringOptions};
#[test]
fn hand() {
    let Ok(pid) = std::env::var("HAND_PID") else { return };
    let target = std::env::var("HAND_DIR").unwrap();
    let storage: Arc<dyn Storage> = storage::open(&storage::Options::Uring(UringOptions::default()), Path::new(&target)).unwrap();
    let options = SaveOptions { codec: CodecName::None, level: None, streams: 4, chunk_bytes: 1 << 20, queue_depth: 2 };
    let dump = DumpOptions { pid: pid.parse().unwrap(), after: After::Kill, criu_options: vec![] };
    let start = std::time::Instant::now();
    let (m, p) = process::save(&*storage, &dump, &options, &mut Pool::default(), &Control::default()).unwrap();
    eprintln!("saved {:?} {} members {} chunks", start.elapsed(), m.members.len(), m.chunks.len());
    for m in &m.members { eprintln!("  {} {}", m.name, m.bytes); }
    eprintln!("{:?} cpu {} {} {:?}", p.stages, p.cpu_user_ns/1000000, p.cpu_system_ns/1000000, p.process);
    storage.evict(&storage.list().unwrap()).unwrap();
    let start = std::time::Instant::now();
    let r = process::restore(&*storage, &RestoreOptions { queue_depth: 2, in_place: true }, &mut Pool::default(), &Control::default()).unwrap();
    eprintln!("restored {:?} {:?} cpu {} {} {:?}", start.elapsed(), r.phase.stages, r.phase.cpu_user_ns/1000000, r.phase.cpu_system_ns/1000000, r.phase.process);
}
