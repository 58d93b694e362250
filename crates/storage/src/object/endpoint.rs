//! The servers that the environment names: their URLs are checked here, once, before anything is sent there or said of them.

use std::net::IpAddr;

use reqwest::Url;

use super::environment::Environment;
use savemark_base::error::{Error, Result};

/// The URL of a server, without credentials.
#[derive(Clone, Debug)]
pub struct Endpoint(Url);

impl Endpoint {
    /// The one that the environment names for buckets of this scheme instead of the provider's own.
    ///
    /// # Errors
    /// `Usage`, with the variable and without its value, for what is no URL of a server, and for credentials in any URL.
    pub fn named(scheme: &str, environment: &Environment) -> Result<Option<Self>> {
        let (prefix, names): (_, &[&str]) = match scheme {
            "s3" => ("AWS_", &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]),
            "gs" => ("GOOGLE_", &["GOOGLE_BASE_URL"]),
            _ => ("AZURE_", &["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]),
        };
        // Also in those that only object_store reads: what stands there would be in the errors of others.
        for (name, value) in environment.settings(prefix) {
            Url::parse(value).map_or(Ok(()), |url| check_no_credentials(&name.to_uppercase(), &url))?;
        }
        let found = names.iter().find_map(|name| Some((*name, environment.get(name)?)));
        found.map(|(name, value)| Self::parse(name, value)).transpose()
    }

    /// The value of the variable `name`.
    pub fn parse(name: &str, value: &str) -> Result<Self> {
        let wrong = |why: &str| Error::usage(format!("{name} {why}")).hint("for example https://storage.example:9000");
        let url = Url::parse(value).map_err(|_| wrong("is no URL of a server"))?;
        check_no_credentials(name, &url)?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("is no http:// or https:// URL of a server"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("holds more than a server and a path"));
        }
        Ok(Self(url))
    }

    /// As a URL that does not end with a slash.
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// Host and port, as messages and records name it.
    pub fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_string(), |port| format!("{host}:{port}"))
    }

    /// Whether what is sent there stays on this machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// Whether nobody can change bytes on their way there.
    pub fn is_protected(&self) -> bool {
        self.is_loopback() || self.0.scheme() == "https"
    }
}

fn check_no_credentials(name: &str, url: &Url) -> Result<()> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(());
    }
    Err(Error::usage(format!("{name} holds a user name or a password, which command lines and logs would show"))
        .hint("name the server alone; credentials have variables of their own (AWS_*, GOOGLE_*, AZURE_*)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_a_property_of_the_host_not_of_a_prefix() {
        let of = |text| Endpoint::parse("NAME", text).unwrap();
        for here in
            ["http://127.0.0.1:9000", "http://127.3.2.1/path", "http://localhost", "http://[::1]:1", "http://LOCALHOST"]
        {
            assert!(of(here).is_loopback() && of(here).is_protected(), "{here}");
        }
        for there in [
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "http://127.evil.example",
            "http://[::2]",
        ] {
            assert!(!of(there).is_loopback() && !of(there).is_protected(), "{there}");
        }
        assert!(of("https://evil.example").is_protected());
        assert_eq!(of("https://Storage.example:9000/path/").host(), "storage.example:9000");
        assert_eq!(of("https://storage.example/path/").as_str(), "https://storage.example/path");
    }
}
