//! Multipart uploads that were neither completed nor aborted. object_store cannot list them, so this asks S3 itself.

use chrono::DateTime;
use http::Method;
use object_store::aws::AwsAuthorizer;
use object_store::client::{HttpRequest, HttpRequestBody};
use object_store::path::Path;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::bucket_prefix::BucketPrefix;
use super::pages::{self, Pages};
use super::reason;
use super::retry::again;
use super::store::S3;
use savemark_base::error::{Error, Result};

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
pub async fn list(place: &BucketPrefix) -> Result<Vec<Unfinished>> {
    let Some(s3) = &place.s3 else {
        return Err(Error::refused(format!("unfinished uploads below {} cannot be listed", place.address.url))
            .hint("let a lifecycle rule of the bucket remove them; Azure does so after a week"));
    };
    let prefix = if place.prefix.as_ref().is_empty() { String::new() } else { format!("{}/", place.prefix) };
    let found = below(place, s3, &prefix, &prefix).await?;
    // MinIO takes the prefix for a whole key: ask for all uploads of the bucket before believing that there are none.
    if found.is_empty() && !prefix.is_empty() { below(place, s3, "", &prefix).await } else { Ok(found) }
}

/// Asks for the uploads below `asked`; returns those below `prefix`.
async fn below(place: &BucketPrefix, s3: &S3, asked: &str, prefix: &str) -> Result<Vec<Unfinished>> {
    let explained = |result| place.explain_if(result, "list the uploads of", "");
    let (mut found, mut markers, mut pages) = (Vec::new(), String::new(), Pages::default());
    loop {
        let query = format!("uploads=&prefix={}{markers}", encoded(asked));
        let page = again(place.address.options.retries, || page::<UploadsPage>(s3, "", &query)).await;
        let page = place.explain_if(page, "list the uploads of", "")?;
        found.extend(page.uploads.into_iter().filter(|upload| upload.key.starts_with(prefix)));
        explained(pages::check_count(found.len()))?;
        if !page.is_truncated || page.next_key_marker.is_empty() {
            return Ok(found);
        }
        let (key, id) = (encoded(&page.next_key_marker), encoded(&page.next_upload_id_marker));
        markers = format!("&key-marker={key}&upload-id-marker={id}");
        explained(pages.turn(&markers))?;
    }
}

/// What has arrived of `upload`; nothing if it is gone.
pub async fn parts(place: &BucketPrefix, upload: &Unfinished) -> Result<Parts> {
    let Some(s3) = &place.s3 else { return Ok(Parts::default()) };
    let mut found = Parts { bytes: 0, touched_unix_ns: unix_ns(&upload.started) };
    let (key, mut marker) = (upload.key.split('/').map(encoded).collect::<Vec<_>>().join("/"), String::new());
    let mut pages = Pages::default();
    loop {
        let query = format!("uploadId={}{marker}", encoded(&upload.id));
        let page = again(place.address.options.retries, || page::<PartsPage>(s3, &key, &query)).await;
        let page = match page {
            Err(e) if reason::is_missing(&e) => return Ok(found),
            page => place.explain_if(page, "look at the upload of", "")?,
        };
        for part in page.parts {
            found.bytes = found.bytes.saturating_add(part.size);
            found.touched_unix_ns = found.touched_unix_ns.max(unix_ns(&part.last_modified));
        }
        if !page.is_truncated || page.next_part_number_marker.is_empty() {
            return Ok(found);
        }
        marker = format!("&part-number-marker={}", encoded(&page.next_part_number_marker));
        place.explain_if(pages.turn(&marker), "look at the upload of", "")?;
    }
}

/// Aborts `upload`; one that is gone is no error.
pub async fn abort(place: &BucketPrefix, upload: &Unfinished) -> Result<()> {
    let wrong = |e| Error::failed(format!("the server names an upload that cannot be: {e}"));
    let key = Path::parse(&upload.key).map_err(wrong)?;
    let done = again(place.address.options.retries, || place.store.abort_multipart(&key, &upload.id)).await;
    match done {
        Err(e) if reason::is_missing(&e) => Ok(()),
        done => place.explain_if(done, "abort the upload of", key.filename().unwrap_or_default()),
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
    parse(&body).map_err(|e| generic(format!("its list of uploads or parts is not S3's: {e}").into()))
}

fn parse<T: DeserializeOwned>(body: &str) -> std::result::Result<T, quick_xml::DeError> {
    quick_xml::de::from_str(body)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As AWS writes it: attributes, what is not asked for, elements of another kind in between, and escapes.
    const UPLOADS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListMultipartUploadsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Bucket>b</Bucket><KeyMarker/>
<Upload><Key>a&amp;b/&#x63;</Key><UploadId>id-1</UploadId><Initiator><ID>x</ID></Initiator>
<Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>
<Upload><Key>other</Key><UploadId>id-2</UploadId></Upload>
<IsTruncated>true</IsTruncated><NextKeyMarker>other</NextKeyMarker><NextUploadIdMarker>id-2</NextUploadIdMarker>
</ListMultipartUploadsResult>"#;
    const PARTS: &str = "<ListPartsResult><Part><PartNumber>1</PartNumber><Size>5242880</Size>\
<LastModified>2026-01-01T00:00:00Z</LastModified></Part><Part><Size>7</Size></Part>\
<IsTruncated>false</IsTruncated></ListPartsResult>";

    #[test]
    fn pages_of_s3_are_read_and_what_is_none_is_refused() {
        let page: UploadsPage = parse(UPLOADS).unwrap();
        let keys: Vec<_> = page.uploads.iter().map(|upload| (upload.key.as_str(), upload.id.as_str())).collect();
        assert_eq!(keys, [("a&b/c", "id-1"), ("other", "id-2")]);
        assert!(page.is_truncated && page.next_key_marker == "other" && page.next_upload_id_marker == "id-2");
        let page: PartsPage = parse(PARTS).unwrap();
        assert_eq!(page.parts.iter().map(|part| part.size).sum::<u64>(), 5242887);
        assert!(!page.is_truncated);
        for wrong in
            ["", "{}", "<a><b></a>", "<R><Upload><Key>x</Key></Upload></R>", "<R><IsTruncated>7</IsTruncated></R>"]
        {
            assert!(parse::<UploadsPage>(wrong).is_err(), "{wrong}");
        }
        assert!(parse::<PartsPage>("<R><Part><Size>-1</Size></Part></R>").is_err());
    }

    #[test]
    fn fuzz_pages() {
        let samples: Vec<Vec<u8>> = [UPLOADS, PARTS].map(|text| text.as_bytes().to_vec()).to_vec();
        savemark_testing::mutate::fuzz(
            "s3-pages",
            |chance| chance.bytes(&samples),
            |bytes| {
                let text = String::from_utf8_lossy(bytes);
                let uploads = parse::<UploadsPage>(&text).map_or_else(|_| Vec::new(), |page| page.uploads);
                uploads.iter().for_each(|upload| drop((unix_ns(&upload.started), encoded(&upload.key))));
                let _ = parse::<PartsPage>(&text);
                let _ = reason::check_status(400, &text).map_err(|error| reason::is_passing(&error));
            },
        );
    }
}
