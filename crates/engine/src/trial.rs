//! One run as data, and the one definition of every option.
//!
//! A trial is a flat object of keys, as people write it: `workload`, `storage`, their options and what all trials share.
//! Flags, YAML keys, the JSON Schema and the reference page come from the structs gathered here.

use std::sync::LazyLock;

use schemars::{Schema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::common::Common;
use crate::workload;
use savemark_base::error::{Error, Result};
use savemark_base::payload::PayloadKind;
use savemark_base::schema::with_defaults;

/// One point of a study, run once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// What all trials share.
    #[serde(flatten)]
    pub common: Common,
    /// Where bytes go.
    #[serde(flatten)]
    pub storage: savemark_storage::Options,
    /// What is done.
    #[serde(flatten)]
    pub workload: workload::Options,
}

impl Trial {
    /// Reads a trial from a flat JSON object; fills in the defaults.
    ///
    /// # Errors
    /// `Usage`, naming the key, and the nearest right one for a misspelt key.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| Error::usage(format!("a trial is a JSON object: {e}")))?;
        let Value::Object(mut keys) = value else {
            return Err(Error::usage("a trial is a JSON object of keys"));
        };
        let groups = &*GROUPS;
        let workload = groups.pick("workload", &groups.workloads, &mut keys)?;
        let storage = groups.pick("storage", &groups.storages, &mut keys)?;
        let common = take(&mut keys, &properties(&groups.common));
        if let Some(key) = keys.keys().next() {
            return Err(groups.unknown(key, &workload, &storage));
        }
        let trial = Self { common: read(common)?, storage: read(storage)?, workload: read(workload)? };
        trial.workload.validate()?;
        trial.storage.validate(&serde_json::to_value(&trial.workload).unwrap_or_default())?;
        Ok(trial)
    }
}

/// The JSON Schemas of all groups of options, for flags, YAML and docs.
pub fn schema() -> Value {
    let groups = &*GROUPS;
    let named = |list: &[(String, Schema)]| list.iter().map(|(n, s)| (n.clone(), json!(s))).collect::<Map<_, _>>();
    json!({
        "common": groups.common,
        "workloads": named(&groups.workloads),
        "storages": named(&groups.storages),
        "codecs": savemark_checkpoint::codec::CodecName::ALL,
        "payloads": PayloadKind::ALL,
    })
}

/// The schema of each group, split by name, so that a key's owner can be told.
struct Groups {
    common: Schema,
    workloads: Vec<(String, Schema)>,
    storages: Vec<(String, Schema)>,
}

/// Making them takes longer than a short trial.
static GROUPS: LazyLock<Groups> = LazyLock::new(Groups::new);

impl Groups {
    fn new() -> Self {
        Self {
            common: with_defaults(schema_for!(Common), json!(Common::default())),
            workloads: workload::Options::schemas(),
            storages: savemark_storage::Options::schemas(),
        }
    }

    /// Removes the keys of the group `tag` from `keys`, tag included.
    fn pick(&self, tag: &str, list: &[(String, Schema)], keys: &mut Map<String, Value>) -> Result<Map<String, Value>> {
        let names: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
        let Some(name) = keys.get(tag).and_then(Value::as_str).map(str::to_string) else {
            return Err(
                Error::usage(format!("the key `{tag}` is missing")).hint(format!("one of: {}", names.join(", ")))
            );
        };
        let Some((_, schema)) = list.iter().find(|(known, _)| *known == name) else {
            return Err(misspelt(&format!("{tag}: `{name}` is not known"), &name, &names));
        };
        let mut picked = take(keys, &properties(schema));
        for (key, default) in defaults(schema) {
            picked.entry(key).or_insert_with(|| default.clone()); // a struct inside a struct has other defaults of its own
        }
        picked.insert(tag.to_string(), Value::String(name));
        keys.remove(tag);
        Ok(picked)
    }

    fn unknown(&self, key: &str, workload: &Map<String, Value>, storage: &Map<String, Value>) -> Error {
        let owners: Vec<&str> = [&self.workloads, &self.storages]
            .into_iter()
            .flatten()
            .filter(|(_, schema)| properties(schema).iter().any(|known| known == key))
            .map(|(name, _)| name.as_str())
            .collect();
        let chosen = [&workload["workload"], &storage["storage"]].map(|v| v.as_str().unwrap_or_default());
        if !owners.is_empty() {
            return Error::usage(format!("`{key}` is not an option of {} on {}", chosen[0], chosen[1]))
                .hint(format!("it is one of: {}", owners.join(", ")));
        }
        let mut known = vec!["workload".to_string(), "storage".to_string()];
        known.extend(properties(&self.common));
        for (name, schema) in self.workloads.iter().chain(&self.storages) {
            if chosen.contains(&name.as_str()) {
                known.extend(properties(schema));
            }
        }
        misspelt(&format!("unknown option `{key}`"), key, &known.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn take(keys: &mut Map<String, Value>, names: &[String]) -> Map<String, Value> {
    names.iter().filter_map(|name| keys.remove_entry(name)).collect()
}

fn read<T: DeserializeOwned>(keys: Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(keys.clone())).map_err(|e| match culprit::<T>(&keys) {
        Some(key) => Error::usage(format!("{key}: {e}")),
        None => Error::usage(e.to_string()),
    })
}

/// The key without which the rest reads well: a tagged enum forgets where in it an error was.
fn culprit<T: DeserializeOwned>(keys: &Map<String, Value>) -> Option<&String> {
    keys.keys().find(|key| {
        let rest: Map<_, _> = keys.iter().filter(|(k, _)| k != key).map(|(k, v)| (k.clone(), v.clone())).collect();
        serde_json::from_value::<T>(Value::Object(rest)).is_ok()
    })
}

fn misspelt(message: &str, word: &str, known: &[&str]) -> Error {
    let nearest = known.iter().map(|k| (strsim::damerau_levenshtein(word, k), k)).min();
    let error = Error::usage(message);
    match nearest {
        Some((distance, near)) if distance <= 2.max(word.len() / 3) => error.hint(format!("did you mean `{near}`?")),
        _ => error.hint(format!("one of: {}", known.join(", "))),
    }
}

/// The names of a struct's options.
fn properties(schema: &Schema) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|p| p.keys().cloned().collect()).unwrap_or_default()
}

/// The default of each option.
fn defaults(schema: &Schema) -> impl Iterator<Item = (&String, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.filter_map(|(name, property)| Some((name, property.get("default")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (String, String) {
        let error = Trial::parse(text).unwrap_err();
        assert_eq!(error.kind, savemark_base::Kind::Usage);
        (error.to_string(), error.hint.unwrap_or_default())
    }

    #[test]
    fn reads_a_flat_object_and_fills_in_defaults() {
        let trial =
            Trial::parse(r#"{"workload":"checkpoint","storage":"uring","target":"/x","codec":"zstd","size":"4MiB"}"#)
                .unwrap();
        let flat = serde_json::to_value(&trial).unwrap();
        for (key, value) in
            [("codec", json!("zstd")), ("size", json!(4 << 20)), ("direct", json!(true)), ("payload", json!("bf16"))]
        {
            assert_eq!(flat[key], value, "{key}");
        }
        assert_eq!(Trial::parse(&flat.to_string()).unwrap(), trial, "what is written can be read again");
    }

    #[test]
    fn a_wrong_key_is_named_with_the_nearest_right_one() {
        let (message, hint) = refused(r#"{"workload":"checkpoint","storage":"null","strems":4}"#);
        assert!(message.contains("strems") && hint.contains("`streams`"), "{message} {hint}");
        let (message, hint) = refused(r#"{"workload":"checkpoint","storage":"posix","fixed_buffers":true}"#);
        assert!(message.contains("fixed_buffers") && hint.contains("uring"), "{message} {hint}");
        let (_, hint) = refused(r#"{"workload":"chekpoint","storage":"null"}"#);
        assert!(hint.contains("checkpoint"), "{hint}");
        let (message, _) = refused(r#"{"workload":"checkpoint","storage":"null","size":"4mb"}"#);
        assert!(message.contains("size") && message.contains("KiB"), "{message}");
    }

    #[test]
    fn every_option_has_a_description_and_a_default() {
        let schema = schema();
        let mut count = 0;
        for group in ["workloads", "storages"] {
            for (owner, options) in schema[group].as_object().unwrap() {
                for (name, option) in options["properties"].as_object().into_iter().flatten() {
                    assert!(option["description"].is_string(), "{owner}.{name} has no description");
                    assert!(option.get("default").is_some(), "{owner}.{name} has no default");
                    count += 1;
                }
            }
        }
        assert!(count > 20, "{count}");
    }
}
