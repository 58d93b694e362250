//! What a bucket's client can do.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::aws::AmazonS3;
use object_store::client::HttpClient;
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;

/// Objects, uploads in parts, and lists page by page.
pub trait Store: ObjectStore + MultipartStore + PaginatedListStore {}
impl<T: ObjectStore + MultipartStore + PaginatedListStore> Store for T {}

/// What only S3 has: enough to sign a request that object_store does not know.
pub struct S3 {
    pub store: Arc<AmazonS3>,
    pub bucket_url: String,
    pub region: String,
    pub client: HttpClient,
}
