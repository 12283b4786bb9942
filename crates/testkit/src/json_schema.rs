//! A validator of just the words that the published JSON Schemas use. An unknown word fails the test, so a
//! schema cannot outgrow it.

#![allow(clippy::unwrap_used, reason = "a schema that is malformed fails the test")]

use serde_json::Value;

/// Whether a value conforms to a schema.
pub fn valid(schema: &Value, value: &Value) -> bool {
    conforms(schema, schema, value)
}

fn conforms(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(words) = schema.as_object() else { return schema.as_bool().unwrap() };
    words.iter().all(|(word, rule)| match word.as_str() {
        "$schema" | "$id" | "$defs" | "title" | "description" | "default" => true,
        "$ref" => conforms(root, root.pointer(&rule.as_str().unwrap()[1..]).unwrap(), value),
        "anyOf" => rule.as_array().unwrap().iter().any(|s| conforms(root, s, value)),
        "dependentSchemas" => value.as_object().is_none_or(|o| {
            rule.as_object()
                .unwrap()
                .iter()
                .all(|(name, s)| !o.contains_key(name) || conforms(root, s, value))
        }),
        "oneOf" => rule.as_array().unwrap().iter().filter(|s| conforms(root, s, value)).count() == 1,
        "type" => match rule {
            Value::Array(names) => names.iter().any(|name| is(value, name)),
            name => is(value, name),
        },
        "const" => value == rule,
        "enum" => rule.as_array().unwrap().contains(value),
        "minimum" => value.as_f64().is_none_or(|v| v >= rule.as_f64().unwrap()),
        "minItems" => value.as_array().is_none_or(|v| v.len() as u64 >= rule.as_u64().unwrap()),
        "prefixItems" => {
            let pairs = value.as_array().into_iter().flatten().zip(rule.as_array().unwrap());
            pairs.into_iter().all(|(v, s)| conforms(root, s, v))
        }
        "items" => {
            let prefix = words.get("prefixItems").map_or(0, |p| p.as_array().unwrap().len());
            value.as_array().into_iter().flatten().skip(prefix).all(|v| conforms(root, rule, v))
        }
        "required" => value.as_object().is_none_or(|o| has(o, rule)),
        "dependentRequired" => value.as_object().is_none_or(|o| {
            rule.as_object().unwrap().iter().all(|(name, needs)| !o.contains_key(name) || has(o, needs))
        }),
        "properties" => value.as_object().is_none_or(|o| {
            rule.as_object().unwrap().iter().all(|(name, s)| o.get(name).is_none_or(|v| conforms(root, s, v)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|o| {
            let known = words.get("properties").and_then(Value::as_object);
            o.iter().all(|(name, v)| known.is_some_and(|k| k.contains_key(name)) || conforms(root, rule, v))
        }),
        other => panic!("the schema uses {other}, which this test does not know"),
    })
}

fn has(object: &serde_json::Map<String, Value>, names: &Value) -> bool {
    names.as_array().unwrap().iter().all(|name| object.contains_key(name.as_str().unwrap()))
}

fn is(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    }
}
