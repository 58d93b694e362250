//! Where endpoints and credentials come from: the process's variables and the shared files of the AWS tools.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Variables by name, as a process has them.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Of this process, with the profile of `~/.aws/config` and `~/.aws/credentials` below its own variables.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect()).with_profile()
    }

    /// Of these variables alone.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(variables.into_iter().collect())
    }

    /// The value of `name`, unless it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Variables that start with `prefix`, in lower case as object_store names its settings.
    pub(super) fn settings(&self, prefix: &str) -> impl Iterator<Item = (String, &str)> {
        self.0
            .iter()
            .filter(move |(n, v)| n.starts_with(prefix) && !v.is_empty())
            .map(|(n, v)| (n.to_lowercase(), &**v))
    }

    /// Adds what the profile says and no variable does. A key of the variables is never mixed with one of a file.
    fn with_profile(mut self) -> Self {
        let profile = self.get("AWS_PROFILE").or(self.get("AWS_DEFAULT_PROFILE")).unwrap_or("default").to_string();
        let config = self.read("AWS_CONFIG_FILE", ".aws/config");
        let credentials = self.read("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
        let mut found = section(&config, &format!("profile {profile}"));
        found.extend(section(&config, &profile));
        found.extend(section(&credentials, &profile));
        let has_key = self.get("AWS_ACCESS_KEY_ID").is_some() || self.get("AWS_WEB_IDENTITY_TOKEN_FILE").is_some();
        for (key, value) in found {
            let (variable, secret) = match key.as_str() {
                "aws_access_key_id" | "aws_secret_access_key" | "aws_session_token" => (key.to_uppercase(), true),
                "region" => ("AWS_REGION".to_string(), false),
                "endpoint_url" => ("AWS_ENDPOINT_URL".to_string(), false),
                "ca_bundle" => ("AWS_CA_BUNDLE".to_string(), false),
                _ => continue,
            };
            let known = if secret { has_key } else { self.get(&variable).is_some() };
            if !known {
                self.0.insert(variable, value);
            }
        }
        self
    }

    fn read(&self, variable: &str, default: &str) -> String {
        let home = || self.get("HOME").map(|home| PathBuf::from(home).join(default));
        let path = self.get(variable).map(PathBuf::from).or_else(home);
        path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    }
}

/// The keys below `[name]`.
fn section(text: &str, name: &str) -> BTreeMap<String, String> {
    let mut inside = false;
    let mut found = BTreeMap::new();
    for line in text.lines() {
        // An indented line belongs to the nested settings of the key above it.
        if let Some(head) = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            inside = head.trim() == name;
        } else if let Some((key, value)) =
            line.split_once('=').filter(|_| inside && !line.starts_with([' ', '\t', '#']))
        {
            found.insert(key.trim().to_string(), value.trim().to_string());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_files(variables: &[(&str, &str)]) -> Environment {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let config = "[default]\nregion = eu-west-1\n[profile lab]\nregion=us-west-2\nendpoint_url = http://lab\ns3 =\n  x = y\n";
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        let keys = "[default]\naws_access_key_id = A\naws_secret_access_key = B\n[lab]\naws_access_key_id=L\n";
        std::fs::write(home.path().join(".aws/credentials"), keys).unwrap();
        let mut all: Vec<_> = variables.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        all.push(("HOME".to_string(), home.path().to_str().unwrap().to_string()));
        Environment::from_variables(all).with_profile()
    }

    #[test]
    fn a_profile_stands_below_the_variables() {
        let found = with_files(&[]);
        assert_eq!((found.get("AWS_REGION"), found.get("AWS_ACCESS_KEY_ID")), (Some("eu-west-1"), Some("A")));
        let found = with_files(&[("AWS_PROFILE", "lab"), ("AWS_REGION", "here")]);
        assert_eq!((found.get("AWS_REGION"), found.get("AWS_ENDPOINT_URL")), (Some("here"), Some("http://lab")));
        assert_eq!((found.get("AWS_ACCESS_KEY_ID"), found.get("AWS_SECRET_ACCESS_KEY")), (Some("L"), None));
        let found = with_files(&[("AWS_ACCESS_KEY_ID", "mine"), ("AWS_SECRET_ACCESS_KEY", "too")]);
        assert_eq!(found.get("AWS_SECRET_ACCESS_KEY"), Some("too"), "keys of two origins are never mixed");
    }
}
