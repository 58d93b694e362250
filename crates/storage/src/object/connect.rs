//! From a URL and the environment to a client of the bucket.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::HttpConnector;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use reqwest::Certificate;

use super::address::Address;
use super::bucket_prefix::BucketPrefix;
use super::client::Connector;
use super::confirm::{self, Later, Writer};
use super::endpoint::Endpoint;
use super::environment::Environment;
use super::stop::Stop;
use super::store::{S3, Store};
use super::{ObjectOptions, reason, runtime};
use savemark_base::error::{Error, Result};

pub fn connect(options: &ObjectOptions, url: &str, environment: &Environment) -> Result<BucketPrefix> {
    // The one thing object_store leaves open is rustls' cryptography. Somebody else's choice is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (scheme, bucket, prefix) = split(url)?;
    let named = Endpoint::named(scheme, environment)?;
    let client = client_options(scheme, named.as_ref(), environment);
    let connector =
        Connector { timeout: Duration::from_nanos(options.timeout.0), certificates: certificates(environment)? };
    let (mut s3, mut signed) = (None, None);
    let unconfirmed = Arc::<AtomicBool>::default();
    let (store, endpoint): (Arc<dyn Store>, String) = match scheme {
        "s3" => {
            let region = region(environment);
            let endpoint = match named {
                Some(endpoint) => endpoint,
                None => Endpoint::parse("AWS_REGION", &format!("https://s3.{region}.amazonaws.com"))?,
            };
            let connector = confirm::Connector { client: connector, unconfirmed: Arc::clone(&unconfirmed) };
            let server = (region, &endpoint);
            let (found, signing) = amazon(bucket, options, server, client, connector, environment)?;
            let (store, endpoint) = (Arc::clone(&found.store), endpoint.host());
            (s3, signed) = (Some(found), signing);
            (store, endpoint)
        }
        "gs" => {
            let settings = environment.settings("GOOGLE_").filter_map(|(key, value)| Some((key.parse().ok()?, value)));
            let builder = settings.fold(GoogleCloudStorageBuilder::new(), |b, (key, value)| b.with_config(key, value));
            let builder = builder.with_bucket_name(bucket).with_client_options(client).with_http_connector(connector);
            let store = builder.with_retry(retries(options)).build().map_err(|e| reason::of_settings(url, &e))?;
            (Arc::new(store), named.map_or_else(|| "storage.googleapis.com".into(), |named| named.host()))
        }
        _ => {
            let settings = environment.settings("AZURE_").filter_map(|(key, value)| Some((key.parse().ok()?, value)));
            let builder = settings.fold(MicrosoftAzureBuilder::new(), |b, (key, value)| b.with_config(key, value));
            let account = environment.get("AZURE_STORAGE_ACCOUNT_NAME").unwrap_or("account").to_string();
            let builder =
                builder.with_container_name(bucket).with_client_options(client).with_http_connector(connector);
            let store = builder.with_retry(retries(options)).build().map_err(|e| reason::of_settings(url, &e))?;
            (Arc::new(store), named.map_or_else(|| format!("{account}.blob.core.windows.net"), |named| named.host()))
        }
    };
    Ok(BucketPrefix {
        writer: Writer { store: Arc::clone(&store), signed, unconfirmed },
        store,
        prefix,
        address: Address {
            url: url.trim_end_matches('/').to_string(),
            bucket: bucket.to_string(),
            endpoint,
            region: s3.as_ref().map(|s3| s3.region.clone()),
            options: options.clone(),
        },
        s3,
        stop: Arc::new(Stop::new(runtime::with_threads(options.client_threads())?)),
    })
}

/// Scheme, bucket and prefix. Nothing else belongs into a URL, and credentials least: URLs are kept in records.
fn split(url: &str) -> Result<(&str, &str, Path)> {
    let wrong = |why: &str| Error::usage(format!("this URL {why}")).hint("for example s3://bucket/prefix");
    let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("has no scheme"))?;
    if rest.contains(['@', '?', '#']) {
        return Err(wrong("holds more than a bucket and a prefix; credentials belong into the environment"));
    }
    if !matches!(scheme, "s3" | "gs" | "az") {
        return Err(wrong(&format!("has the scheme {scheme}://; known are s3://, gs:// and az://")));
    }
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err(wrong("names no bucket"));
    }
    let prefix = Path::parse(prefix).map_err(|e| wrong(&format!("has a prefix that no object can have: {e}")))?;
    Ok((scheme, bucket, prefix))
}

/// The client, and the one that signs what it sends where that one does not.
fn amazon(
    bucket: &str,
    options: &ObjectOptions,
    (region, endpoint): (String, &Endpoint),
    client: ClientOptions,
    connector: confirm::Connector,
    environment: &Environment,
) -> Result<(S3, Option<Later>)> {
    let settings = environment.settings("AWS_").filter_map(|(key, value)| Some((key.parse().ok()?, value)));
    let builder = AmazonS3Builder::new().with_checksum_algorithm(Checksum::CRC64NVME);
    let builder = settings.fold(builder, |b, (key, value)| b.with_config(key, value));
    let builder = builder
        .with_bucket_name(bucket)
        .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint.as_str())
        .with_client_options(client.clone())
        .with_retry(retries(options))
        .with_disable_bulk_delete(true);
    let client = connector.client.connect(&client).map_err(|e| reason::of_settings(&format!("s3://{bucket}"), &e))?;
    let builder = builder.with_http_connector(connector);
    check_credentials(environment, bucket)?;
    // A checksum shows accidents. Against malice the bytes are signed, unless TLS or this machine's loopback carries them.
    let unsigned = match environment.get("AWS_UNSIGNED_PAYLOAD") {
        Some(_) => false, // as it says
        None => endpoint.is_protected() && !is_anonymous(environment),
    };
    let signing = builder.with_region(&region);
    let builder = if unsigned { signing.clone().with_unsigned_payload(true) } else { signing.clone() };
    let store = builder.build().map_err(|e| reason::of_settings(&format!("s3://{bucket}"), &e))?;
    let signed = unsigned.then(|| Later::new(Box::new(|| Arc::new(signing.build().expect("its twin was built")))));
    let bucket_url = format!("{}/{bucket}", endpoint.as_str());
    Ok((S3 { store: Arc::new(store), bucket_url, region, client }, signed))
}

fn region(environment: &Environment) -> String {
    let named = environment.get("AWS_REGION").or(environment.get("AWS_DEFAULT_REGION"));
    named.unwrap_or("us-east-1").to_string()
}

fn is_anonymous(environment: &Environment) -> bool {
    environment.get("AWS_SKIP_SIGNATURE").is_some_and(|value| value != "false")
}

/// Says at once that there are no credentials: the machine's own are asked for only where such a service answers.
fn check_credentials(environment: &Environment, bucket: &str) -> Result<()> {
    const SOURCES: [&str; 5] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_METADATA_ENDPOINT",
    ];
    if is_anonymous(environment) || SOURCES.iter().any(|name| environment.get(name).is_some()) {
        return Ok(());
    }
    let metadata = ("169.254.169.254", 80).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let forbidden = environment.get("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value == "true");
    let answers = |address| TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
    if !forbidden && metadata.is_some_and(answers) {
        return Ok(());
    }
    Err(reason::no_credentials(&format!("cannot open s3://{bucket}")))
}

/// On loopback nobody listens in; elsewhere plain HTTP is the user's own decision.
fn client_options(scheme: &str, endpoint: Option<&Endpoint>, environment: &Environment) -> ClientOptions {
    let name = match scheme {
        "s3" => "AWS_ALLOW_HTTP",
        "gs" => "GOOGLE_ALLOW_HTTP",
        _ => "AZURE_ALLOW_HTTP",
    };
    let allowed = environment.get(name).is_some_and(|value| matches!(value, "true" | "1" | "yes"));
    ClientOptions::new().with_allow_http(allowed || endpoint.is_some_and(Endpoint::is_loopback))
}

/// Authorities that the user trusts beside those of the system.
fn certificates(environment: &Environment) -> Result<Vec<Certificate>> {
    let Some(path) = environment.get("AWS_CA_BUNDLE") else { return Ok(Vec::new()) };
    let pem = std::fs::read(path).map_err(|e| Error::io("read AWS_CA_BUNDLE", std::path::Path::new(path), e))?;
    Certificate::from_pem_bundle(&pem)
        .map_err(|e| Error::usage(format!("AWS_CA_BUNDLE: {path} holds no certificates: {e}")))
}

fn retries(options: &ObjectOptions) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(10),
            base: 2.0,
        },
        max_retries: options.retries as usize,
        retry_timeout: Duration::from_secs(180),
    }
}
