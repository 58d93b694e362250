//! Requests again, where an error may pass.

use std::time::Duration;

use super::reason;
use savemark_base::clock;

/// Repeats a request whose error may pass and that object_store has not repeated itself: an answer that was cut.
pub async fn again<T, F: Future<Output = object_store::Result<T>>>(
    retries: u32,
    request: impl Fn() -> F,
) -> object_store::Result<T> {
    let mut tries = 0;
    loop {
        match request().await {
            Err(e) if tries < retries && reason::is_passing(&e) => {
                tries += 1;
                pause(tries).await;
            }
            result => return result,
        }
    }
}

/// Twice as long each time, up to 10 s, with jitter.
pub async fn pause(tries: u32) {
    let longest_ms = (50u64 << tries.min(8)).min(10_000);
    let jitter = clock::unix_now() / 1000 % longest_ms;
    tokio::time::sleep(Duration::from_millis(longest_ms / 2 + jitter / 2)).await;
}
