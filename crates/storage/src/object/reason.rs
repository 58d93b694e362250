//! Errors of buckets: one sentence and what to do. Neither URLs with signatures nor bodies of answers come through here.

use std::error::Error as StdError;
use std::path::Path;

use object_store::Error as StoreError;
use object_store::client::{HttpError, HttpErrorKind};

use super::address::Address;
use super::client::Unacceptable;
use savemark_base::error::Error;

/// Whether there is no such object (a missing bucket is something else).
pub fn is_missing(error: &StoreError) -> bool {
    matches!(error, StoreError::NotFound { .. }) && code_of(&text_of(error)).is_none_or(|code| code != "NoSuchBucket")
}

/// Whether the same request may succeed: the answer was cut, or the bytes changed on the way. What object_store repeats itself is not repeated again.
pub fn is_passing(error: &StoreError) -> bool {
    if unacceptable(error).is_some() {
        return false;
    }
    let cut = chain(error).any(|e| {
        let io = e.downcast_ref::<std::io::Error>();
        io.is_some_and(|e| e.kind() == std::io::ErrorKind::UnexpectedEof)
    });
    let broken = matches!(
        kind_of(error),
        Some(HttpErrorKind::Interrupted | HttpErrorKind::Decode | HttpErrorKind::Unknown | HttpErrorKind::Timeout)
    );
    let text = text_of(error);
    is_altered(&text) || (cut || broken) && !text.contains(" retries, max_retries")
}

/// What is said when the server stored something else.
pub const DIFFERENT: &str = "the server found another checksum than was sent";

/// Whether the bytes that arrived are not those that were sent.
fn is_altered(text: &str) -> bool {
    const CODES: [&str; 3] = ["BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"];
    text.contains(DIFFERENT) || code_of(text).is_some_and(|code| CODES.contains(&code.as_str()))
}

/// The error as a sentence.
pub fn explain(what: &str, url: &str, address: &Address, error: &StoreError) -> Error {
    let mut told = tell(what, url, address, error);
    told.hint = told.hint.map(|hint| in_words_of(url, &hint));
    told
}

/// What S3's variables, rights and commands are called elsewhere.
const AZURE: [(&str, &str); 9] = [
    (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or AWS_SKIP_SIGNATURE=true for a public bucket",
        "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or log in: az login",
    ),
    (
        "its name, AWS_REGION and AWS_ENDPOINT_URL, or make it: aws s3 mb",
        "its name and AZURE_STORAGE_ACCOUNT_NAME, or make it: az storage container create",
    ),
    ("AWS_ENDPOINT_URL, AWS_REGION", "AZURE_STORAGE_ENDPOINT, AZURE_STORAGE_ACCOUNT_NAME"),
    ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT"),
    ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP"),
    ("AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
    ("AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
    (
        "s3:ListBucket, GetObject, PutObject, DeleteObject and AbortMultipartUpload here",
        "the role Storage Blob Data Contributor here",
    ),
    ("aws sso login", "az login"),
];
const GOOGLE: [(&str, &str); 9] = [
    (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or AWS_SKIP_SIGNATURE=true for a public bucket",
        "name the key file in GOOGLE_SERVICE_ACCOUNT, or log in: gcloud auth application-default login",
    ),
    (
        "its name, AWS_REGION and AWS_ENDPOINT_URL, or make it: aws s3 mb",
        "its name, or make it: gcloud storage buckets create",
    ),
    ("AWS_ENDPOINT_URL, AWS_REGION", "GOOGLE_BASE_URL"),
    ("AWS_ENDPOINT_URL", "GOOGLE_BASE_URL"),
    ("AWS_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP"),
    ("AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN", "GOOGLE_SERVICE_ACCOUNT"),
    ("AWS_SECRET_ACCESS_KEY", "GOOGLE_SERVICE_ACCOUNT"),
    (
        "s3:ListBucket, GetObject, PutObject, DeleteObject and AbortMultipartUpload here",
        "the role Storage Object User here",
    ),
    ("aws sso login", "gcloud auth application-default login"),
];

fn in_words_of(url: &str, hint: &str) -> String {
    let words: &[_] = match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("s3") | None => &[],
        Some("gs") => &GOOGLE,
        Some(_) => &AZURE,
    };
    words.iter().fold(hint.to_string(), |hint, (theirs, own)| hint.replace(theirs, own))
}

fn tell(what: &str, url: &str, address: &Address, error: &StoreError) -> Error {
    let text = text_of(error);
    let code = code_of(&text).unwrap_or_default();
    let failed = |why: String| Error::failed(format!("cannot {what} {url}: {why}"));
    let server = &address.endpoint;
    if let Some(why) = unacceptable(error) {
        return refused_by_client(what, url, address, why);
    }
    if code == "NoSuchBucket" {
        return failed(format!("there is no bucket `{}` at {server}", address.bucket))
            .hint("check its name, AWS_REGION and AWS_ENDPOINT_URL, or make it: aws s3 mb");
    }
    if is_missing(error) {
        return Error::io(what, Path::new(url), std::io::Error::from_raw_os_error(libc::ENOENT)).hint("check the URL");
    }
    if let Some((why, hint)) = by_code(&code, address).or_else(|| by_text(&text, address)) {
        return failed(why).hint(hint);
    }
    if is_altered(&text) {
        return failed(format!("the bytes that reach {server} are not those that were sent")).hint(
            "nothing wrong was accepted: look for a broken network card, cable or proxy on the way, and at memory with memtest",
        );
    }
    let Some(status) = status_of(&text) else {
        return failed(chain(error).last().map_or_else(String::new, ToString::to_string));
    };
    let named = if code.is_empty() { String::new() } else { format!(" ({code})") };
    match status {
        403 | 401 => failed(format!("{server} denies access{named}")).hint(
            "the credentials need s3:ListBucket, GetObject, PutObject, DeleteObject and AbortMultipartUpload here",
        ),
        507 => failed(format!("{server} has no room{named}")).hint("free some space there, or use a smaller --size"),
        500.. => failed(format!("{server} still answers {status}{named} after {} retries", address.options.retries))
            .hint("the server is overloaded or broken: lower --concurrency, raise --retries, or look at its log"),
        _ => failed(format!("{server} answers {status}{named}")),
    }
}

/// An answer that was not taken.
fn refused_by_client(what: &str, url: &str, address: &Address, why: &Unacceptable) -> Error {
    let (server, is_s3) = (&address.endpoint, address.region.is_some());
    let failed = |why: String| Error::failed(format!("cannot {what} {url}: {why}"));
    match why {
        Unacceptable::Redirect { region: Some(region), .. } => {
            let (why, _) = by_code("PermanentRedirect", address).unwrap_or_default();
            failed(why).hint(format!("set AWS_REGION={region}"))
        }
        Unacceptable::Redirect { to: None, .. } if is_s3 => {
            let (why, hint) = by_code("PermanentRedirect", address).unwrap_or_default();
            failed(why).hint(hint)
        }
        Unacceptable::Redirect { .. } => {
            let hint = "if the bucket is there, name that server in AWS_ENDPOINT_URL";
            let region = if is_s3 { "; if it is in another region, set AWS_REGION" } else { "" };
            failed(format!("{server} {why}, which is not followed: the credentials would go along"))
                .hint(format!("{hint}{region}"))
        }
        Unacceptable::TooMany(_) => failed(format!("{server} {why}")).hint("name a prefix further down"),
        Unacceptable::TooLong(_) | Unacceptable::SamePage => failed(format!("{server} {why}"))
            .hint("it, or a proxy on the way, is broken or of another kind: check AWS_ENDPOINT_URL"),
    }
}

/// What S3, Google and Azure name themselves.
fn by_code(code: &str, address: &Address) -> Option<(String, String)> {
    let region = address.region.as_deref().unwrap_or_default();
    let (why, hint) = match code {
        "RequestTimeTooSkewed" | "RequestExpired" => (
            "the clock of this machine and the server's differ too much".to_string(),
            "set the clock: timedatectl set-ntp true, or chronyc makestep",
        ),
        "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" => {
            ("the credentials have expired".to_string(), "renew them, for example with aws sso login")
        }
        "InvalidAccessKeyId" | "InvalidToken" | "NotSignedUp" => {
            ("the server does not know these credentials".to_string(), "check AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN")
        }
        "SignatureDoesNotMatch" => (
            "the server refuses the signature".to_string(),
            "check AWS_SECRET_ACCESS_KEY, and that no proxy between here and there changes requests",
        ),
        "AuthorizationHeaderMalformed"
        | "PermanentRedirect"
        | "TemporaryRedirect"
        | "IllegalLocationConstraintException" => (
            format!("the bucket `{}` is not in the region {region}", address.bucket),
            "set AWS_REGION to the bucket's region",
        ),
        "EntityTooSmall" => ("a part is too small for this server".to_string(), "use a larger --part-size"),
        "InvalidArgument" | "EntityTooLarge" => (
            format!("the server refuses the request ({code})"),
            "an upload has at most 10,000 parts: use a larger --part-size",
        ),
        "XMinioStorageFull" | "QuotaExceeded" => {
            ("there is no room left".to_string(), "free some space there, or use a smaller --size")
        }
        _ => return None,
    };
    Some((why, hint.to_string()))
}

/// What went wrong before a server answered.
fn by_text(text: &str, address: &Address) -> Option<(String, String)> {
    let (server, lower) = (&address.endpoint, text.to_lowercase());
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let (why, hint) = if has(&["169.254.169.254", "metadata endpoint"]) {
        let error = no_credentials("");
        return Some(("no credentials were found".to_string(), error.hint.unwrap_or_default()));
    } else if has(&["scheme is not allowed", "allow_http", "builder error for url"]) {
        (
            format!("{server} is plain HTTP, which anybody on the way can read"),
            "use https://, or set AWS_ALLOW_HTTP=true if the network is yours".to_string(),
        )
    } else if has(&[
        "certificate",
        "tls handshake",
        "received corrupt message",
        "invalidcontenttype",
        "handshakefailure",
    ]) {
        (
            format!("no trusted TLS connection to {server}"),
            "check https:// or http:// in AWS_ENDPOINT_URL; name a private authority's file in AWS_CA_BUNDLE"
                .to_string(),
        )
    } else if has(&["dns error", "failed to lookup", "name or service not known"]) {
        (
            format!("the host {server} is not known"),
            "check AWS_ENDPOINT_URL, AWS_REGION and the name server".to_string(),
        )
    } else if has(&["connection refused"]) {
        (format!("nothing listens at {server}"), "start the server, or check AWS_ENDPOINT_URL".to_string())
    } else if has(&["operation timed out", "timed out", "deadline has elapsed"]) {
        let (seconds, times) = (address.options.timeout.0 as f64 / 1e9, address.options.retries + 1);
        let asked = if times > 1 { format!(", asked {times} times") } else { String::new() };
        (
            format!("{server} did not answer within {seconds} s{asked}"),
            "look whether it is up, or raise --timeout; on a slow line use a smaller --part-size and --concurrency"
                .to_string(),
        )
    } else if has(&["connection reset", "broken pipe", "connection closed", "incompletemessage", "unexpected end"]) {
        let retries = address.options.retries;
        (
            format!("{server} still breaks off connections after {retries} retries"),
            "look at the server's log and at proxies on the way; raise --retries".to_string(),
        )
    } else {
        return None;
    };
    Some((why, hint))
}

/// Neither variables, nor a profile, nor a service of the machine.
pub fn no_credentials(what: &str) -> Error {
    Error::failed(format!("{what}: no credentials were found"))
        .hint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or AWS_SKIP_SIGNATURE=true for a public bucket")
}

/// A setting of the environment that cannot be used.
pub fn of_settings(url: &str, error: &StoreError) -> Error {
    let text = chain(error).last().map_or_else(String::new, ToString::to_string);
    Error::usage(format!("cannot open {url}: {text}")).hint("check the variables AWS_*, GOOGLE_* or AZURE_*")
}

/// The answer to a request of our own.
pub fn check_status(status: u16, body: &str) -> std::result::Result<(), StoreError> {
    let text = format!("Server returned non-2xx status code: {status} : {body}");
    match status {
        ..300 => Ok(()),
        404 => Err(StoreError::NotFound { path: String::new(), source: text.into() }),
        _ => Err(StoreError::Generic { store: "object", source: text.into() }),
    }
}

fn chain(error: &StoreError) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next = Some(error as &(dyn StdError + 'static));
    std::iter::from_fn(move || {
        let found = next?;
        next = found.source();
        Some(found)
    })
}

fn unacceptable(error: &StoreError) -> Option<&Unacceptable> {
    chain(error).find_map(|e| e.downcast_ref())
}

fn kind_of(error: &StoreError) -> Option<HttpErrorKind> {
    chain(error).find_map(|e| e.downcast_ref::<HttpError>()).map(HttpError::kind)
}

/// All that was said about it, for looking up words; never shown.
fn text_of(error: &StoreError) -> String {
    chain(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The `<Code>` of an answer.
fn code_of(text: &str) -> Option<String> {
    let code = text.split_once("<Code>")?.1.split_once("</Code>")?.0;
    let plain = code.bytes().all(|b| b.is_ascii_alphanumeric());
    // Azure has names of its own for what S3 says too.
    plain.then(|| match code {
        "ContainerNotFound" => "NoSuchBucket".to_string(),
        "AuthenticationFailed" => "SignatureDoesNotMatch".to_string(),
        other => other.to_string(),
    })
}

fn status_of(text: &str) -> Option<u16> {
    let found = text.split_once("non-2xx status code: ")?.1;
    found.get(..3)?.parse().ok()
}
