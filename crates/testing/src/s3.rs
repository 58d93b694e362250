//! An S3 server inside the tests, on loopback, that can fail on demand. It ends with its value.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Either};
pub use hyper::StatusCode;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{ETAG, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::runtime::Runtime;

/// What goes wrong, in requests of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Answered with 500 or 503, before or after the request was done.
    pub errors: u64,
    /// Answered 20 ms late.
    pub delays: u64,
    /// Whose answer breaks off in the middle.
    pub cuts: u64,
    /// GETs whose answer has a flipped bit.
    pub flips: u64,
    /// PUTs whose body has a flipped bit when it arrives.
    pub flips_up: u64,
    /// Says nothing about checksums, as servers that do not know them.
    pub silent: bool,
    /// Writes of keys with this end are done, and answered with 500.
    pub lost: Option<&'static str>,
    /// PUTs of keys with this end are answered with 200, and not done.
    pub forgotten: Option<&'static str>,
    /// PUTs are not answered.
    pub hangs: bool,
    /// Answers all requests with this error alone.
    pub always: Option<(StatusCode, &'static str)>,
}

/// The server; its bucket is called `bucket`.
pub struct Server {
    port: u16,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    faults: Mutex<Faults>,
    /// Unfinished multipart uploads by id: s3s-fs keeps them, but does not list them.
    uploads: Mutex<BTreeMap<String, String>>,
    random: AtomicU64,
    requests: AtomicU64,
    hits: AtomicU64,
}

const CHECKSUM: &str = "x-amz-checksum-crc64nvme";
pub const KEY: &str = "savemark-test-key";
pub const SECRET: &str = "savemark-test-secret";

impl Server {
    /// Serves the directory `root`.
    pub fn start(root: &Path) -> Self {
        std::fs::create_dir_all(root.join("bucket")).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = builder.build();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let shared = Arc::new(Shared {
            faults: Mutex::default(),
            uploads: Mutex::default(),
            random: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
            requests: AtomicU64::new(0),
            hits: AtomicU64::new(0),
        });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(accept(listener, service, Arc::clone(&shared)));
        Self { port, shared, runtime: Some(runtime) }
    }

    pub fn url(&self, prefix: &str) -> String {
        format!("s3://bucket/{prefix}")
    }

    /// What a client needs to know.
    pub fn environment(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let pairs = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_REGION", "us-east-1"),
        ];
        pairs.map(|(name, value)| (name.to_string(), value.to_string())).to_vec()
    }

    pub fn set(&self, faults: Faults) {
        *self.shared.faults.lock().unwrap() = faults;
    }

    /// Requests so far, and how many of them were tampered with.
    pub fn counts(&self) -> (u64, u64) {
        (self.shared.requests.load(Ordering::Relaxed), self.shared.hits.load(Ordering::Relaxed))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

async fn accept(listener: tokio::net::TcpListener, service: S3Service, shared: Arc<Shared>) {
    while let Ok((socket, _)) = listener.accept().await {
        let (service, shared) = (service.clone(), Arc::clone(&shared));
        let answer = service_fn(move |request| {
            let (service, shared) = (service.clone(), Arc::clone(&shared));
            // On a task of its own: a client that is killed does not stop what the server has begun.
            let answered = tokio::spawn(async move { shared.answer(service, request).await });
            async move { Ok::<_, Infallible>(answered.await.expect("the server does not panic")) }
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), answer);
        tokio::spawn(async move {
            let _ = connection.await;
        });
    }
}

type Answer = Response<Either<s3s::Body, Altered>>;

impl Shared {
    async fn answer(&self, service: S3Service, request: Request<Incoming>) -> Answer {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let faults = *self.faults.lock().unwrap();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let query = uri.query().unwrap_or_default().to_string();
        if let Some((status, code)) = faults.always {
            return refusal(status, code);
        }
        if faults.hangs && method == Method::PUT {
            std::future::pending::<()>().await;
        }
        if self.happens(faults.delays) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (error, cut) = (self.happens(faults.errors), self.happens(faults.cuts));
        let (status, code) = match self.next() % 2 {
            0 => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "SlowDown"),
        };
        if error && self.next().is_multiple_of(2) {
            return refusal(status, code);
        }
        if method == Method::GET && query.starts_with("uploads=") {
            return self.list_uploads(&query);
        }
        let key = uri.path().trim_start_matches("/bucket/").to_string();
        let (request, sent) = match self.received(request, &faults).await {
            Ok(received) => received,
            Err(refusal) => return refusal,
        };
        if method == Method::PUT && faults.forgotten.is_some_and(|end| uri.path().ends_with(end)) {
            let mut response = Response::new(Either::Left(s3s::Body::from(Bytes::new())));
            response.headers_mut().insert(ETAG, HeaderValue::from_static("\"0123456789abcdef0123456789abcdef\""));
            sent.map(|checksum| response.headers_mut().insert(CHECKSUM, checksum));
            return response;
        }
        let mut response = service.call(request).await.expect("s3s answers");
        match sent.filter(|_| response.status().is_success()) {
            Some(checksum) => drop(response.headers_mut().insert(CHECKSUM, checksum)),
            None => drop(response.headers_mut().remove(CHECKSUM)),
        }
        if method == Method::POST && query.starts_with("uploads") {
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some(id) = text.split("<UploadId>").nth(1).and_then(|rest| rest.split('<').next()) {
                self.uploads.lock().unwrap().insert(id.to_string(), key);
            }
            response = Response::from_parts(parts, s3s::Body::from(bytes));
        } else if [Method::POST, Method::DELETE].contains(&method) && response.status().is_success() {
            let id = query.split('&').find_map(|pair| pair.strip_prefix("uploadId="));
            id.map(|id| self.uploads.lock().unwrap().remove(id));
        }
        if error || method == Method::PUT && faults.lost.is_some_and(|end| uri.path().ends_with(end)) {
            return refusal(status, code);
        }
        let flip = method == Method::GET && self.happens(faults.flips);
        if !(cut || flip) || method == Method::HEAD {
            return response.map(Either::Left);
        }
        let (parts, body) = response.into_parts();
        let mut bytes = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
        if flip && !bytes.is_empty() {
            let place = self.next() as usize % bytes.len();
            bytes[place] ^= 1 << (self.next() % 8);
        }
        if cut {
            bytes.truncate(self.next() as usize % bytes.len().max(1));
        }
        Response::from_parts(parts, Either::Right(Altered { bytes: Some(bytes.into()), cut }))
    }

    /// The request with its body, as it arrives, and its checksum if it was checked here: s3s-fs does not check those of parts.
    async fn received(
        &self,
        request: Request<Incoming>,
        faults: &Faults,
    ) -> Result<(Request<s3s::Body>, Option<HeaderValue>), Answer> {
        if request.method() != Method::PUT {
            return Ok((request.map(s3s::Body::from), None));
        }
        let sent = request.headers().get(CHECKSUM).filter(|_| !faults.silent).cloned();
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return Err(refusal(StatusCode::BAD_REQUEST, "IncompleteBody")) };
        let mut bytes = body.to_bytes().to_vec();
        if !bytes.is_empty() && self.happens(faults.flips_up) {
            let place = self.next() as usize % bytes.len();
            bytes[place] ^= 1 << (self.next() % 8);
        }
        let found = base64(&crc64nvme(&bytes).to_be_bytes());
        if sent.as_ref().is_some_and(|sent| sent.as_bytes() != found.as_bytes()) {
            return Err(refusal(StatusCode::BAD_REQUEST, "BadDigest"));
        }
        Ok((Request::from_parts(head, s3s::Body::from(Bytes::from(bytes))), sent))
    }

    /// As MinIO does: a prefix is taken for a whole key.
    fn list_uploads(&self, query: &str) -> Answer {
        let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
        let prefix = prefix.replace("%2F", "/");
        let uploads = self.uploads.lock().unwrap();
        let uploads = uploads.iter().filter(|(_, key)| prefix.is_empty() || **key == prefix).map(|(id, key)| {
            format!(
                "<Upload><Key>{key}</Key><UploadId>{id}</UploadId><Initiated>2026-01-01T00:00:00Z</Initiated></Upload>"
            )
        });
        let text = format!("<ListMultipartUploadsResult>{}</ListMultipartUploadsResult>", uploads.collect::<String>());
        Response::new(Either::Right(Altered { bytes: Some(text.into()), cut: false }))
    }

    fn happens(&self, of_thousand: u64) -> bool {
        let hit = of_thousand > 0 && self.next() % 1000 < of_thousand;
        self.hits.fetch_add(u64::from(hit), Ordering::Relaxed);
        hit
    }

    /// splitmix64
    fn next(&self) -> u64 {
        let mut z = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// CRC-64/NVME, as S3 wants it.
fn crc64nvme(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let number = three.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let letter = |i: usize| char::from(LETTERS[(number >> (18 - 6 * i) & 63) as usize]);
        (0..4).map(|i| if i <= three.len() { letter(i) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

fn refusal(status: StatusCode, code: &str) -> Answer {
    let text = format!("<Error><Code>{code}</Code><Message>as asked for; key {KEY}</Message></Error>");
    let mut response = Response::new(Either::Right(Altered { bytes: Some(text.into()), cut: false }));
    *response.status_mut() = status;
    response
}

/// A body that was changed, or that breaks off.
pub struct Altered {
    bytes: Option<Bytes>,
    cut: bool,
}

impl Body for Altered {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(match self.bytes.take() {
            Some(bytes) => Some(Ok(Frame::data(bytes))),
            None if self.cut => Some(Err("cut, as asked for".into())),
            None => None,
        })
    }
    fn size_hint(&self) -> SizeHint {
        match &self.bytes {
            Some(bytes) if !self.cut => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
