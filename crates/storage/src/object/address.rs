//! Where a bucket is, and what is asked of it.

use super::ObjectOptions;

/// What an error message needs to know of a bucket.
pub struct Address {
    /// As it was given; without credentials, by [`super::connect`].
    pub url: String,
    pub bucket: String,
    /// Host and port.
    pub endpoint: String,
    /// Of S3; elsewhere none.
    pub region: Option<String>,
    pub options: ObjectOptions,
}
