//! Multipart uploads that were neither completed nor aborted. object_store cannot list them, so this asks S3 itself.

use chrono::DateTime;
use http::Method;
use object_store::aws::AwsAuthorizer;
use object_store::client::{HttpRequest, HttpRequestBody};
use object_store::path::Path;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::connect::S3;
use super::pages::{self, Pages};
use super::place::{Place, again};
use super::reason;
use crate::error::{Error, Result};

/// An upload that was started.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Unfinished {
    /// The object that it would have become, as a key of the bucket.
    #[serde(rename = "Key")]
    pub key: String,
    /// The server's name for it.
    #[serde(rename = "UploadId")]
    pub id: String,
    /// When it was started, as the server says (RFC 3339).
    #[serde(rename = "Initiated", default)]
    pub started: String,
}

/// What a server has received of an unfinished upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Bytes of all of its parts.
    pub bytes: u64,
    /// When the last part arrived, or the upload was started, as the server says.
    pub touched_unix_ns: u64,
}

/// A page of the list of uploads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct UploadsPage {
    #[serde(rename = "Upload")]
    uploads: Vec<Unfinished>,
    is_truncated: bool,
    next_key_marker: String,
    next_upload_id_marker: String,
}

/// A page of the list of an upload's parts.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct PartsPage {
    #[serde(rename = "Part")]
    parts: Vec<Part>,
    is_truncated: bool,
    next_part_number_marker: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Part {
    size: u64,
    last_modified: String,
}

/// The unfinished uploads below `place`.
pub async fn list(place: &Place) -> Result<Vec<Unfinished>> {
    let Some(s3) = &place.s3 else {
        return Err(Error::refused(format!("unfinished uploads below {} cannot be listed", place.url))
            .hint("let a lifecycle rule of the bucket remove them; Azure does so after a week"));
    };
    let prefix = if place.prefix.as_ref().is_empty() { String::new() } else { format!("{}/", place.prefix) };
    let found = below(place, s3, &prefix, &prefix).await?;
    // MinIO takes the prefix for a whole key: ask for all uploads of the bucket before believing that there are none.
    if found.is_empty() && !prefix.is_empty() { below(place, s3, "", &prefix).await } else { Ok(found) }
}

/// Asks for the uploads below `asked`; returns those below `prefix`.
async fn below(place: &Place, s3: &S3, asked: &str, prefix: &str) -> Result<Vec<Unfinished>> {
    let told = |result| reason::result(result, "list the uploads of", place, "");
    let (mut found, mut markers, mut pages) = (Vec::new(), String::new(), Pages::default());
    loop {
        let query = format!("uploads=&prefix={}{markers}", encoded(asked));
        let page = again(place.options.retries, || page::<UploadsPage>(s3, "", &query)).await;
        let page = reason::result(page, "list the uploads of", place, "")?;
        found.extend(page.uploads.into_iter().filter(|upload| upload.key.starts_with(prefix)));
        told(pages::check_count(found.len()))?;
        if !page.is_truncated || page.next_key_marker.is_empty() {
            return Ok(found);
        }
        let (key, id) = (encoded(&page.next_key_marker), encoded(&page.next_upload_id_marker));
        markers = format!("&key-marker={key}&upload-id-marker={id}");
        told(pages.turn(&markers))?;
    }
}

/// What has arrived of `upload`; nothing if it is gone.
pub async fn parts(place: &Place, upload: &Unfinished) -> Result<Parts> {
    let Some(s3) = &place.s3 else { return Ok(Parts::default()) };
    let mut found = Parts { bytes: 0, touched_unix_ns: unix_ns(&upload.started) };
    let (key, mut marker) = (upload.key.split('/').map(encoded).collect::<Vec<_>>().join("/"), String::new());
    let mut pages = Pages::default();
    loop {
        let query = format!("uploadId={}{marker}", encoded(&upload.id));
        let page = again(place.options.retries, || page::<PartsPage>(s3, &key, &query)).await;
        let page = match page {
            Err(e) if reason::is_missing(&e) => return Ok(found),
            page => reason::result(page, "look at the upload of", place, "")?,
        };
        for part in page.parts {
            found.bytes = found.bytes.saturating_add(part.size);
            found.touched_unix_ns = found.touched_unix_ns.max(unix_ns(&part.last_modified));
        }
        if !page.is_truncated || page.next_part_number_marker.is_empty() {
            return Ok(found);
        }
        marker = format!("&part-number-marker={}", encoded(&page.next_part_number_marker));
        reason::result(pages.turn(&marker), "look at the upload of", place, "")?;
    }
}

/// Aborts `upload`; one that is gone is no error.
pub async fn abort(place: &Place, upload: &Unfinished) -> Result<()> {
    let wrong = |e| Error::failed(format!("the server names an upload that cannot be: {e}"));
    let key = Path::parse(&upload.key).map_err(wrong)?;
    let done = again(place.options.retries, || place.store.abort_multipart(&key, &upload.id)).await;
    match done {
        Err(e) if reason::is_missing(&e) => Ok(()),
        done => reason::result(done, "abort the upload of", place, key.filename().unwrap_or_default()),
    }
}

/// The answer to a GET of `key` (already encoded) with `query`, signed as object_store signs.
async fn page<T: DeserializeOwned>(s3: &S3, key: &str, query: &str) -> object_store::Result<T> {
    let generic =
        |source: Box<dyn std::error::Error + Send + Sync>| object_store::Error::Generic { store: "object", source };
    let slash = if key.is_empty() { "" } else { "/" };
    let mut request: HttpRequest = http::Request::builder()
        .method(Method::GET)
        .uri(format!("{}{slash}{key}?{query}", s3.bucket_url))
        .body(HttpRequestBody::empty())
        .map_err(|e| generic(e.into()))?;
    let credential = s3.store.credentials().get_credential().await?;
    AwsAuthorizer::new(&credential, "s3", &s3.region).try_authorize(&mut request, None)?;
    let response = s3.client.execute(request).await.map_err(|e| generic(e.into()))?;
    let status = response.status().as_u16();
    let body = response.into_body().bytes().await.map_err(|e| generic(e.into()))?;
    let body = String::from_utf8_lossy(&body);
    reason::check_status(status, &body)?;
    quick_xml::de::from_str(&body).map_err(|e| generic(format!("its list of uploads or parts is not S3's: {e}").into()))
}

/// A time as S3 writes it, in nanoseconds since 1970; 0 for one that cannot be read.
fn unix_ns(text: &str) -> u64 {
    let time = DateTime::parse_from_rfc3339(text).ok().and_then(|time| time.timestamp_nanos_opt());
    time.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0)
}

fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
