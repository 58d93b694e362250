//! From a URL and the environment to a client of the bucket.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, Certificate, ClientOptions, RetryConfig};

use super::confirm::{Connector, Later, Writer};
use super::environment::Environment;
use super::place::{Place, Store};
use super::{ObjectOptions, reason};
use crate::error::{Error, Result};

/// What only S3 has: enough to sign a request that object_store does not know.
pub struct S3 {
    pub store: Arc<AmazonS3>,
    pub bucket_url: String,
    pub region: String,
    pub client: ClientOptions,
}

pub fn connect(options: &ObjectOptions, url: &str, environment: &Environment) -> Result<Place> {
    // The one thing object_store leaves open is rustls' cryptography. Somebody else's choice is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (scheme, bucket, prefix) = split(url)?;
    let named = own_endpoint(scheme, environment);
    let client = client_options(options, scheme, named.unwrap_or_default(), environment)?;
    let (mut s3, mut signed) = (None, None);
    let unconfirmed = Arc::<AtomicBool>::default();
    let (store, endpoint): (Arc<dyn Store>, String) = match scheme {
        "s3" => {
            let connector = Connector { unconfirmed: Arc::clone(&unconfirmed) };
            let (found, signing) = amazon(bucket, options, client, connector, environment)?;
            let (store, endpoint) = (Arc::clone(&found.store), host_of(&found.bucket_url));
            (s3, signed) = (Some(found), signing);
            (store, endpoint)
        }
        "gs" => {
            let settings = environment.settings("GOOGLE_").filter_map(|(key, value)| Some((key.parse().ok()?, value)));
            let builder = settings.fold(GoogleCloudStorageBuilder::new(), |b, (key, value)| b.with_config(key, value));
            let builder = builder.with_bucket_name(bucket).with_client_options(client).with_retry(retries(options));
            let store = builder.build().map_err(|e| reason::of_settings(url, &e))?;
            (Arc::new(store), named.map_or_else(|| "storage.googleapis.com".into(), host_of))
        }
        _ => {
            let settings = environment.settings("AZURE_").filter_map(|(key, value)| Some((key.parse().ok()?, value)));
            let builder = settings.fold(MicrosoftAzureBuilder::new(), |b, (key, value)| b.with_config(key, value));
            let account = environment.get("AZURE_STORAGE_ACCOUNT_NAME").unwrap_or("account").to_string();
            let builder = builder.with_container_name(bucket).with_client_options(client).with_retry(retries(options));
            let store = builder.build().map_err(|e| reason::of_settings(url, &e))?;
            (Arc::new(store), named.map_or_else(|| format!("{account}.blob.core.windows.net"), host_of))
        }
    };
    Ok(Place {
        writer: Writer { store: Arc::clone(&store), signed, unconfirmed },
        store,
        s3,
        url: url.trim_end_matches('/').to_string(),
        bucket: bucket.to_string(),
        prefix,
        endpoint,
        options: options.clone(),
        stop: Arc::default(),
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
    client: ClientOptions,
    connector: Connector,
    environment: &Environment,
) -> Result<(S3, Option<Later>)> {
    let settings = environment.settings("AWS_").filter_map(|(key, value)| Some((key.parse().ok()?, value)));
    let builder = AmazonS3Builder::new().with_checksum_algorithm(Checksum::CRC64NVME);
    let builder = settings.fold(builder, |b, (key, value)| b.with_config(key, value));
    let builder = builder
        .with_bucket_name(bucket)
        .with_client_options(client.clone())
        .with_http_connector(connector)
        .with_retry(retries(options))
        .with_disable_bulk_delete(true);
    let setting = |key| builder.get_config_value(&key);
    let region = setting(AmazonS3ConfigKey::Region).or(setting(AmazonS3ConfigKey::DefaultRegion));
    let region = region.unwrap_or_else(|| "us-east-1".to_string());
    let endpoint = setting(AmazonS3ConfigKey::S3Endpoint).or(setting(AmazonS3ConfigKey::Endpoint));
    let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    check_credentials(environment, bucket)?;
    // A checksum shows accidents. Against malice the bytes are signed, unless TLS or this machine's loopback carries them.
    let unsigned = match environment.get("AWS_UNSIGNED_PAYLOAD") {
        Some(_) => false, // as it says
        None => is_protected(&endpoint) && !is_anonymous(environment),
    };
    let signing = builder.with_region(&region);
    let builder = if unsigned { signing.clone().with_unsigned_payload(true) } else { signing.clone() };
    let store = builder.build().map_err(|e| reason::of_settings(&format!("s3://{bucket}"), &e))?;
    let signed = unsigned.then(|| Later::new(Box::new(|| Arc::new(signing.build().expect("its twin was built")))));
    let bucket_url = format!("{}/{bucket}", endpoint.trim_end_matches('/'));
    Ok((S3 { store: Arc::new(store), bucket_url, region, client }, signed))
}

/// Whether nobody can change bytes on their way to `endpoint`.
fn is_protected(endpoint: &str) -> bool {
    let host = host_of(endpoint);
    let host = host.rsplit_once(':').map_or(host.as_str(), |(host, _)| host);
    let is_here = matches!(host, "localhost" | "[::1]") || host.starts_with("127.");
    is_here || endpoint.starts_with("https://")
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

/// The server that the environment names instead of the provider's own.
fn own_endpoint<'a>(scheme: &str, environment: &'a Environment) -> Option<&'a str> {
    let names: &[&str] = match scheme {
        "s3" => &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
        "gs" => &["GOOGLE_BASE_URL"],
        _ => &["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"],
    };
    names.iter().find_map(|name| environment.get(name))
}

fn client_options(
    options: &ObjectOptions,
    scheme: &str,
    endpoint: &str,
    environment: &Environment,
) -> Result<ClientOptions> {
    // On loopback nobody listens in; elsewhere plain HTTP is the user's own decision.
    let loopback = ["http://127.", "http://localhost", "http://[::1]"].iter().any(|start| endpoint.starts_with(start));
    let name = match scheme {
        "s3" => "AWS_ALLOW_HTTP",
        "gs" => "GOOGLE_ALLOW_HTTP",
        _ => "AZURE_ALLOW_HTTP",
    };
    let allowed = environment.get(name).is_some_and(|value| matches!(value, "true" | "1" | "yes"));
    let mut client = ClientOptions::new()
        .with_allow_http(loopback || allowed)
        .with_http1_only()
        .with_timeout(Duration::from_nanos(options.timeout.0))
        .with_connect_timeout(Duration::from_secs(5))
        .with_pool_max_idle_per_host(1024);
    if let Some(path) = environment.get("AWS_CA_BUNDLE") {
        let pem = std::fs::read(path).map_err(|e| Error::io("read AWS_CA_BUNDLE", std::path::Path::new(path), e))?;
        let found = Certificate::from_pem_bundle(&pem);
        for certificate in
            found.map_err(|e| Error::usage(format!("AWS_CA_BUNDLE: {path} holds no certificates: {e}")))?
        {
            client = client.with_root_certificate(certificate);
        }
    }
    Ok(client)
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

/// Host and port of a URL.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().rsplit('@').next().unwrap_or_default().to_string()
}
