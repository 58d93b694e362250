//! Storage `gds` against libraries that behave as CUDA's and cuFile's headers say, with host memory for a GPU's: this shows
//! that the calls are made in the right order with the right arguments, not that a GPU was there.

use std::path::PathBuf;

use savemark_base::Kind;
use savemark_engine::features;
use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_measure::control::Control;
use savemark_testing::gpu::stand_in as fake;

fn run(folder: &PathBuf, keys: &str) -> Result<savemark_engine::record::Record, savemark_base::Error> {
    let place = tempfile::tempdir_in(folder).unwrap();
    let text = format!(r#"{{"storage":"gds","target":"{}",{keys}}}"#, place.path().display());
    let result = Engine::new().run(&Trial::parse(&text)?, &Control::default());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "something was left");
    result
}

#[test]
fn a_checkpoint_goes_through_gpu_memory_and_comes_back() {
    let _turn = crate::turn();
    let Some(folder) = fake() else { return };
    for transfer in ["compat", "bounce"] {
        let keys = format!(
            r#""workload":"checkpoint","size":"6MiB","streams":3,"codec":"zstd","transfer":"{transfer}","copy":true,"gpus":"0,1""#
        );
        let record = run(folder, &keys).unwrap();
        assert!(!record.path.storage.starts_with("gds"), "{transfer} is not GPUDirect: {}", record.path.storage);
        assert_eq!(record.phases.last().unwrap().verified.as_deref(), Some("every chunk"));
        let notes = record.path.notes.join("\n");
        assert!(notes.contains("GPU 1: Fake 101, 0000:af:01.0"), "{notes}");
        assert_eq!(notes.contains("compatibility mode"), transfer == "compat", "{notes}");
    }
}

#[test]
fn bytes_stay_on_the_gpu_in_both_directions() {
    let _turn = crate::turn();
    let Some(folder) = fake() else { return };
    for transfer in ["compat", "bounce", "cpu"] {
        for (workload, operation) in [("sequential", "write"), ("sequential", "read"), ("random", "read")] {
            let keys = format!(
                r#""workload":"{workload}","operation":"{operation}","size":"4MiB","transfer_size":"64KiB","workers":4,"transfer":"{transfer}","gpus":"0-1""#
            );
            let record = run(folder, &keys).unwrap();
            let phase = record.phases.last().unwrap();
            assert!(phase.user_bytes >= 4 << 20, "{transfer} {workload}: {}", phase.user_bytes);
            assert_eq!(phase.gds_bytes, None, "no nvidia-fs counted here");
        }
    }
}

#[test]
fn gpudirect_is_refused_where_cufile_would_copy() {
    let _turn = crate::turn();
    let Some(folder) = fake() else { return };
    if std::path::Path::new("/proc/driver/nvidia-fs/stats").exists() {
        eprintln!("skipped: nvidia-fs is loaded here");
        return;
    }
    let error = run(folder, r#""workload":"sequential","operation":"read","size":"1MiB""#).unwrap_err();
    assert_eq!(error.kind, Kind::Refused);
    assert!(error.to_string().contains("GPUDirect Storage is not possible here"), "{error}");
    assert!(error.hint.unwrap().contains("modprobe nvidia-fs"));
    let found: Vec<_> = features::list().into_iter().filter(|f| f.name == "cuda" || f.name == "gds").collect();
    assert!(found[0].available && found[0].reason.contains("2 GPUs"), "{found:?}");
    assert!(found[1].reason.contains("compatibility mode"), "{found:?}");
}

#[test]
fn what_cannot_be_is_said_before_anything_is_written() {
    let _turn = crate::turn();
    let Some(folder) = fake() else { return };
    for (keys, kind, message) in [
        (r#""workload":"checkpoint","transfer":"bounce""#, Kind::Usage, "makes or looks at every byte"),
        (
            r#""workload":"sequential","operation":"read","checksum":true,"transfer":"compat""#,
            Kind::Usage,
            "makes or looks at every byte",
        ),
        (r#""workload":"random","verify":true,"transfer":"bounce""#, Kind::Usage, "makes or looks at every byte"),
        (r#""workload":"sequential","transfer":"bounce","gpus":"0,2""#, Kind::Usage, "there is no GPU 2"),
        (r#""workload":"sequential","transfer":"bounce","gpus":"two""#, Kind::Usage, "no list of GPUs"),
        (
            r#""workload":"sequential","transfer":"bounce","size":"2GiB","transfer_size":"1GiB","queue_depth":1"#,
            Kind::Failed,
            "CUDA cannot allocate 1073741824 bytes on GPU 0: out of memory",
        ),
    ] {
        let error = run(folder, keys).unwrap_err();
        assert_eq!(error.kind, kind, "{keys}: {error}");
        assert!(error.to_string().contains(message), "{keys}: {error}");
    }
}
