//! What the engine can do on this machine, and why not where it cannot.

use serde::Serialize;

use savemark_base::digest;
use savemark_base::error::Result;
use savemark_checkpoint::codec;
use savemark_host::nvidia::{checkpoint, cuda, cufile};
use savemark_process::criu::Criu;
use savemark_storage::uring;

/// One ability.
#[derive(Clone, Debug, Serialize)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Whether it works here.
    pub available: bool,
    /// Why not, or how it was found out.
    pub reason: String,
}

/// Libraries that move or change the bytes, with versions.
pub fn libraries() -> Vec<String> {
    let mut libraries = codec::libraries();
    libraries.push(digest::LIBRARY.to_string());
    libraries
}

/// Tries each ability once; writes nothing.
pub fn list() -> Vec<Feature> {
    vec![io_uring(), cachestat(), criu(), gpu(), cufile(), gpu_processes()]
}

fn io_uring() -> Feature {
    tried("io_uring", uring::probe().map(|()| "a ring was set up".into()))
}

/// Saving processes: an installed CRIU, and a kernel that has what it needs.
fn criu() -> Feature {
    let checked =
        Criu::find().and_then(|criu| criu.check().map(|()| format!("CRIU {}: its check passes", criu.version)));
    tried("criu", checked)
}

fn tried(name: &'static str, result: Result<String>) -> Feature {
    match result {
        Ok(reason) => Feature { name, available: true, reason },
        Err(error) => {
            let hint = error.hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            Feature { name, available: false, reason: format!("{error}{hint}") }
        }
    }
}

/// NVIDIA's driver, and how many GPUs it sees.
fn gpu() -> Feature {
    let version = |driver: &cuda::Cuda| driver.version().map(|v| format!(", CUDA {v}")).unwrap_or_default();
    let found = cuda::driver().map(|driver| format!("{}{}, {} GPUs", driver.library, version(driver), driver.gpus()));
    told("cuda", found)
}

/// GPUDirect Storage, and the mode that it would be in.
fn cufile() -> Feature {
    told("gds", cufile::driver().map(cufile::CuFile::describe))
}

/// The driver's calls to save processes that use it.
fn gpu_processes() -> Feature {
    let found = checkpoint::driver().map(|driver| format!("{} has the calls to save them", driver.library));
    told("gpu_processes", found)
}

fn told(name: &'static str, found: Result<String>) -> Feature {
    match found {
        Ok(reason) => Feature { name, available: true, reason },
        Err(error) => Feature { name, available: false, reason: error.to_string() },
    }
}

/// Residency is counted by the kernel since Linux 6.5; before, page by page with mincore.
fn cachestat() -> Feature {
    let cache = std::fs::File::open("/proc/self/exe").map(|file| savemark_host::cache::residency([&file]));
    let method = cache.map(|cache| cache.method).unwrap_or_else(|e| e.to_string());
    Feature { name: "cachestat", available: method == "cachestat", reason: method }
}
