//! The threads of the client: they move bytes between sockets and buffers, and encrypt and sign; codecs have threads of
//! their own.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::runtime::{Builder, Runtime};

use savemark_base::error::{Error, Result};

/// One for each CPU that this process may use (affinity and the cgroup's quota), but 2 to 16.
pub fn default_threads() -> u32 {
    let usable = std::thread::available_parallelism().map_or(2, |count| count.get() as u32);
    usable.clamp(2, 16)
}

/// The runtime with so many threads, which all places that want so many share. It stays: requests may outlive a place.
///
/// # Errors
/// `Failed` where the system starts no more threads.
pub fn with_threads(threads: u32) -> Result<&'static Runtime> {
    static RUNTIMES: Mutex<BTreeMap<u32, &'static Runtime>> = Mutex::new(BTreeMap::new());
    let mut runtimes = RUNTIMES.lock().expect("no panic while held");
    if let Some(runtime) = runtimes.get(&threads) {
        return Ok(runtime);
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads as usize).thread_name("savemark-object").enable_all();
    let made = builder.build().map_err(|e| Error {
        source: Some(e),
        ..Error::failed(format!("cannot start {threads} threads for the bucket"))
            .hint("raise the limit of processes (ulimit -u, or pids.max of the cgroup), or lower --client-threads")
    })?;
    let runtime: &'static Runtime = Box::leak(Box::new(made));
    runtimes.insert(threads, runtime);
    Ok(runtime)
}
