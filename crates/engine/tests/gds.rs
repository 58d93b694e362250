//! Storage `gds` against libraries that behave as CUDA's and cuFile's headers say, with host memory for a GPU's: this shows
//! that the calls are made in the right order with the right arguments, not that a GPU was there.
//!
//! The libraries are loaded once per process, so the environment is set before the first test asks for them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use savemark_engine::control::Control;
use savemark_engine::run::Engine;
use savemark_engine::trial::Trial;
use savemark_engine::{Kind, features};

const FAKE: &str = r#"
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { int err; int cu; } Status;
typedef struct { int type; union { int fd; void *handle; } handle; const void *ops; } Description;
typedef struct { unsigned major, minor; size_t poll, direct; unsigned status, control, features, rest[5]; } Properties;
static _Thread_local void *current;
static int contexts[2];
int cuInit(unsigned flags) { return flags; }
int cuGetErrorString(int code, const char **text) { *text = code == 2 ? "out of memory" : "invalid value"; return 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int index) { *device = 100 + index; return 0; }
int cuDeviceGetName(char *name, int len, int device) { snprintf(name, len, "Fake %d", device); return 0; }
int cuDeviceGetPCIBusId(char *name, int len, int device) { snprintf(name, len, "0000:AF:%02d.0", device - 100); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &contexts[device - 100]; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return context ? 0 : 1; }
int cuMemAlloc_v2(uint64_t *address, size_t len) {
  if (!current) return 201;
  if (len >= (size_t)1 << 30) return 2;
  return posix_memalign((void **)address, 4096, len) ? 2 : 0;
}
int cuMemFree_v2(uint64_t address) { free((void *)address); return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t len) { memcpy((void *)to, from, len); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t len) { memcpy(to, (void *)from, len); return 0; }
int cuMemHostRegister_v2(void *start, size_t len, unsigned flags) { return start && len && !flags ? 0 : 1; }
int cuMemHostUnregister(void *start) { return start ? 0 : 1; }

static const void *registered;
Status cuFileDriverOpen(void) { return (Status){0, 0}; }
Status cuFileDriverGetProperties(Properties *p) { memset(p, 0, sizeof *p); p->major = 2; p->minor = 17; return (Status){0, 0}; }
Status cuFileHandleRegister(void **handle, Description *d) {
  if (d->type != 1 || d->ops || d->handle.fd < 3) return (Status){5022, 0};
  *handle = (void *)(intptr_t)(d->handle.fd + 1);
  return (Status){0, 0};
}
void cuFileHandleDeregister(void *handle) { if (!handle) abort(); }
Status cuFileBufRegister(const void *start, size_t len, int flags) { return (Status){len && !flags ? 0 : 5022, 0}; }
Status cuFileBufDeregister(const void *start) { return (Status){start ? 0 : 5024, 0}; }
ssize_t cuFileRead(void *h, void *base, size_t len, off_t at, off_t place) { return pread((int)(intptr_t)h - 1, (char *)base + place, len, at); }
ssize_t cuFileWrite(void *h, const void *base, size_t len, off_t at, off_t place) { return pwrite((int)(intptr_t)h - 1, (const char *)base + place, len, at); }
"#;

/// Makes the libraries and names them in the environment; `None` where there is no C compiler.
fn fake() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = std::env::current_exe().unwrap().parent().unwrap().join(format!("gds-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let (source, library) = (folder.join("fake.c"), folder.join("libfake.so"));
            std::fs::write(&source, FAKE).unwrap();
            let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).status();
            if !made.is_ok_and(|status| status.success()) {
                let required =
                    std::env::var("SAVEMARK_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word == "cc"));
                assert!(!required, "SAVEMARK_REQUIRE asks for cc, and it cannot make a library");
                eprintln!("skipped: no C compiler");
                return None;
            }
            for variable in ["SAVEMARK_LIBCUDA", "SAVEMARK_LIBCUFILE"] {
                // SAFETY: every test comes here first, and they wait for each other in `get_or_init`.
                unsafe { std::env::set_var(variable, &library) };
            }
            Some(folder)
        })
        .as_ref()
}

fn run(folder: &PathBuf, keys: &str) -> Result<savemark_engine::record::Record, savemark_engine::Error> {
    let place = tempfile::tempdir_in(folder).unwrap();
    let text = format!(r#"{{"storage":"gds","target":"{}",{keys}}}"#, place.path().display());
    let result = Engine::new().run(&Trial::parse(&text)?, &Control::default());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "something was left");
    result
}

#[test]
fn a_checkpoint_goes_through_gpu_memory_and_comes_back() {
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
