//! The HTTP client of buckets. It follows no redirect, for headers with credentials would go along, and reads no answer
//! without end.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, LOCATION, RANGE};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientOptions, Error};
use reqwest::{Certificate, Url};

/// Answers that are no objects: the longest are pages of lists, a thousand keys of 1 KiB each.
const ANSWER_MAX: u64 = 16 << 20;
/// Objects that are asked for as a whole are small: manifests and markers.
const WHOLE_MAX: u64 = (128 << 20) + 1;

/// Why an answer is not taken. No secret of the server's choice is in it, nor anything that a terminal would obey.
#[derive(Debug, thiserror::Error)]
pub enum Unacceptable {
    #[error("redirects ({status}) to {}", to.as_deref().unwrap_or("an unnamed place"))]
    Redirect { status: u16, to: Option<String>, region: Option<String> },
    #[error("sends more than {0} bytes where so many cannot be")]
    TooLong(u64),
    #[error("names the same page of a list again")]
    SamePage,
    #[error("lists more than {0} objects or uploads below one prefix")]
    TooMany(usize),
}

/// Makes clients.
#[derive(Clone, Debug)]
pub struct Connector {
    /// Of one request.
    pub timeout: Duration,
    /// Trusted beside the system's own.
    pub certificates: Vec<Certificate>,
}

impl HttpConnector for Connector {
    /// Of `options` only whether plain HTTP is allowed: the services of a machine that hand out credentials speak it.
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let client = reqwest::Client::builder()
            .user_agent(concat!("savemark/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .https_only(!allow_http)
            .http1_only()
            .timeout(self.timeout)
            .connect_timeout(Duration::from_secs(5))
            .pool_max_idle_per_host(1024)
            .tls_certs_merge(self.certificates.clone())
            .build()
            .map_err(|e| Error::Generic { store: "object", source: e.into() })?;
        Ok(HttpClient::new(Careful(HttpClient::new(client))))
    }
}

#[derive(Debug)]
struct Careful(HttpClient);

impl Careful {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (method, query) = (request.method().clone(), request.uri().query().unwrap_or_default().to_string());
        let is_range = request.headers().contains_key(RANGE);
        let answer = self.0.execute(request).await?;
        let status = answer.status();
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            return Err(refuse(redirect(status, answer.headers())));
        }
        let most = match method {
            Method::HEAD => return Ok(answer),
            Method::GET if status.is_success() && !is_list(&query) => {
                if is_range {
                    return Ok(answer); // whoever asked for it knows how long it may be
                }
                WHOLE_MAX
            }
            _ => ANSWER_MAX,
        };
        let length = answer.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > most) {
            return Err(refuse(Unacceptable::TooLong(most)));
        }
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, most as usize).map_err(move |error| match error.downcast::<HttpError>() {
            Ok(error) => *error,
            Err(_) => refuse(Unacceptable::TooLong(most)),
        });
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

/// Whether a GET asks for a list: of objects (S3 and Google; Azure), of uploads, of an upload's parts.
fn is_list(query: &str) -> bool {
    let keys = query.split('&').filter_map(|pair| pair.split('=').next());
    keys.into_iter().any(|key| matches!(key, "list-type" | "comp" | "uploads" | "uploadId"))
}

fn redirect(status: StatusCode, headers: &HeaderMap) -> Unacceptable {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_string);
    let is_plain =
        |region: &String| region.len() <= 32 && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let to = text(LOCATION.as_str()).map(|location| match Url::parse(&location) {
        Ok(url) if url.has_host() => url.origin().ascii_serialization(),
        _ => "another path".to_string(),
    });
    Unacceptable::Redirect { status: status.as_u16(), to, region: text("x-amz-bucket-region").filter(is_plain) }
}

/// Asking again would be in vain.
fn refuse(why: Unacceptable) -> HttpError {
    HttpError::new(HttpErrorKind::Decode, why)
}

impl HttpService for Careful {
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.answer(request))
    }
}
