//! Options of `object`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::runtime;
use savemark_base::buffer::ALIGN;
use savemark_base::error::{Error, Result};
use savemark_base::size::{Size, Span};

/// Options of `object`. Endpoint and credentials come from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`), never from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectOptions {
    /// Bytes of one part of an upload; an object that is smaller goes up in one request.
    pub part_size: Size,
    /// Parts in flight per object that is written. Reads have the queue's depth in flight.
    pub concurrency: u32,
    /// How often a request is repeated after an error 500 or 503, a reset connection or a cut body; waits grow, with jitter.
    pub retries: u32,
    /// How long one request may take.
    pub timeout: Span,
    /// Threads that move bytes between sockets and buffers, encrypt and sign, for all requests together; one per usable CPU,
    /// 2 to 16, when left out.
    pub client_threads: Option<u32>,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self {
            part_size: Size(16 << 20),
            concurrency: 4,
            retries: 10,
            timeout: Span(60_000_000_000),
            client_threads: None,
        }
    }
}

/// What S3 accepts as a part that is not the last.
const PARTS: std::ops::RangeInclusive<u64> = 5 << 20..=5 << 30;

impl ObjectOptions {
    /// How many threads there really are.
    pub fn client_threads(&self) -> u32 {
        self.client_threads.unwrap_or_else(runtime::default_threads)
    }

    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        if !PARTS.contains(&self.part_size.0) || !self.part_size.0.is_multiple_of(ALIGN as u64) {
            return Err(Error::usage(format!(
                "part_size: {} is not a multiple of 4KiB from 5MiB to 5GiB",
                self.part_size
            )));
        }
        if !(1..=256).contains(&self.concurrency) {
            return Err(Error::usage(format!("concurrency: {} is not between 1 and 256", self.concurrency)));
        }
        if self.client_threads.is_some_and(|threads| !(1..=256).contains(&threads)) {
            return Err(Error::usage("client_threads: not between 1 and 256"));
        }
        if self.timeout.0 < 1_000_000 {
            return Err(Error::usage("timeout: a request needs at least 1ms"));
        }
        Ok(())
    }
}
