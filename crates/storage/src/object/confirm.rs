//! Bytes on their way up: a checksum goes with them, and the server must say that it found the same.
//!
//! A server that says nothing about the checksum is sent the bytes again under a signature that covers them, which every
//! server must check; that costs a SHA-256 here and there, so it is not the first choice.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use http::Method;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use super::client;
use super::reason::DIFFERENT;
use super::retry::again;
use super::store::Store;

const CHECKSUM: &str = "x-amz-checksum-crc64nvme";

/// A client that is made when it is needed.
pub type Later = LazyLock<Arc<dyn Store>, Box<dyn FnOnce() -> Arc<dyn Store> + Send + Sync>>;

/// How a place writes.
pub struct Writer {
    /// Sends a checksum where the protocol has one.
    pub store: Arc<dyn Store>,
    /// Signs the bytes as well; `None` where `store` already does, or where nothing is signed.
    pub signed: Option<Later>,
    /// Set when a server did not say that it checked a checksum.
    pub unconfirmed: Arc<AtomicBool>,
}

impl Writer {
    /// Does a request that carries bytes, until they have arrived as they were sent.
    pub async fn send<T, F>(&self, retries: u32, request: impl Fn(Arc<dyn Store>) -> F) -> object_store::Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        loop {
            let signed = self.signed.as_ref().filter(|_| self.unconfirmed.load(Ordering::Acquire));
            let store = signed.map_or(&self.store, |later| &**later);
            let answer = again(retries, || request(Arc::clone(store))).await?;
            // Another request's answer may have told meanwhile: then this one is repeated in vain, once.
            if signed.is_some() || self.signed.is_none() || !self.unconfirmed.load(Ordering::Acquire) {
                return Ok(answer);
            }
        }
    }
}

/// Makes clients that compare the checksum that was sent with the one that the server found.
#[derive(Debug)]
pub struct Connector {
    pub client: client::Connector,
    pub unconfirmed: Arc<AtomicBool>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = self.client.connect(options)?;
        Ok(HttpClient::new(Comparing { inner, unconfirmed: Arc::clone(&self.unconfirmed) }))
    }
}

#[derive(Debug)]
struct Comparing {
    inner: HttpClient,
    unconfirmed: Arc<AtomicBool>,
}

impl Comparing {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let sent = request.headers().get(CHECKSUM).filter(|_| request.method() == Method::PUT).cloned();
        let answer = self.inner.execute(request).await?;
        match (sent, answer.headers().get(CHECKSUM)) {
            (Some(sent), Some(found)) if answer.status().is_success() && sent != found => {
                Err(HttpError::new(HttpErrorKind::Interrupted, std::io::Error::other(DIFFERENT)))
            }
            (Some(_), None) if answer.status().is_success() => {
                self.unconfirmed.store(true, Ordering::Release);
                Ok(answer)
            }
            _ => Ok(answer),
        }
    }
}

impl HttpService for Comparing {
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
