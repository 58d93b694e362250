//! The JSON Schema of a struct of options.

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;
use serde_json::{Value, json};

/// The schema of a struct, with the default of each option from its `Default`.
pub fn with_defaults(mut schema: Schema, defaults: Value) -> Schema {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            if let (Some(property), Some(default)) = (property.as_object_mut(), defaults.get(name)) {
                property.insert("default".to_string(), default.clone());
            }
        }
    }
    schema
}

/// The schema of one named set of options.
pub fn named<T: JsonSchema + Default + Serialize>(name: &str) -> (String, Schema) {
    (name.to_string(), with_defaults(schema_for!(T), json!(T::default())))
}
