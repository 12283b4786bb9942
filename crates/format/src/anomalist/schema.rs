//! The published JSON Schema of Anomalist's format against what the writer writes and the reader reads.
//!
//! A validator of just the words the schema uses; an unknown word fails the test, so the schema cannot outgrow it.

use crate::Format;
use crate::ReadOptions;
use crate::testing::{read_bytes, written};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../../docs/anomalist-history.schema.json");
const GUIDE: &str = include_str!("../../../../docs/format.md");

fn valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(words) = schema.as_object() else { return schema.as_bool().unwrap() };
    words.iter().all(|(word, rule)| match word.as_str() {
        "$schema" | "$id" | "$defs" | "title" | "description" | "default" => true,
        "$ref" => valid(root, root.pointer(&rule.as_str().unwrap()[1..]).unwrap(), value),
        "anyOf" => rule.as_array().unwrap().iter().any(|s| valid(root, s, value)),
        "dependentSchemas" => value.as_object().is_none_or(|o| {
            rule.as_object().unwrap().iter().all(|(name, s)| !o.contains_key(name) || valid(root, s, value))
        }),
        "oneOf" => rule.as_array().unwrap().iter().filter(|s| valid(root, s, value)).count() == 1,
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
            pairs.into_iter().all(|(v, s)| valid(root, s, v))
        }
        "items" => {
            let prefix = words.get("prefixItems").map_or(0, |p| p.as_array().unwrap().len());
            value.as_array().into_iter().flatten().skip(prefix).all(|v| valid(root, rule, v))
        }
        "required" => value.as_object().is_none_or(|o| has(o, rule)),
        "dependentRequired" => value.as_object().is_none_or(|o| {
            rule.as_object().unwrap().iter().all(|(name, needs)| !o.contains_key(name) || has(o, needs))
        }),
        "properties" => value.as_object().is_none_or(|o| {
            rule.as_object().unwrap().iter().all(|(name, s)| o.get(name).is_none_or(|v| valid(root, s, v)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|o| {
            let known = words.get("properties").and_then(Value::as_object);
            o.iter().all(|(name, v)| known.is_some_and(|k| k.contains_key(name)) || valid(root, rule, v))
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

#[test]
fn what_is_written_conforms() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let history = read_bytes(
        "h",
        crate::anomalist::write::SAMPLE.as_bytes(),
        Format::Anomalist,
        &ReadOptions::default(),
    )
    .unwrap()
    .history;
    let out = written(|sink| crate::anomalist::write::writer(sink, false), &[&history]).unwrap();
    for line in out.lines() {
        assert!(valid(&schema, &schema, &serde_json::from_str(line).unwrap()), "{line}");
    }
}

#[test]
fn schema_and_reader_agree() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let header = "{\"session\":1,\"ops\":[]}";
    for (line, good) in [
        (r#"{"session":1,"ops":[]}"#, true),
        (
            r#"{"session":"a","id":{"keyword":"k"},"ops":[["r","x"],["r","x",{"unknown":true}],["r","x",[null,1]]]}"#,
            true,
        ),
        (r#"{"session":1,"ops":[["w","x",null],["append",1.5,{"edn":"[1]"}]],"outcome":"committed"}"#, true),
        (
            r#"{"session":1,"ops":[],"start":1,"commit":[2,3],"invoked":1,"completed":null,"meta":{"a":"b"}}"#,
            true,
        ),
        (r#"{"anomalist":1,"initial":{"none":true},"initial_keys":[["x",null],["l",[1]]]}"#, true),
        (r#"{"session":null,"ops":[]}"#, false),
        (r#"{"session":1}"#, false),
        (r#"{"ops":[]}"#, false),
        (r#"{"session":1,"ops":[],"outcom":"aborted"}"#, false),
        (r#"{"session":1,"ops":[],"outcome":"maybe"}"#, false),
        (r#"{"session":1,"ops":[["w","x"]]}"#, false),
        (r#"{"session":1,"ops":[["w","x",[1]]]}"#, false),
        (r#"{"session":1,"ops":[["w","x",{"unknown":true}]]}"#, false),
        (r#"{"session":1,"ops":[["r",null,1]]}"#, false),
        (r#"{"session":1,"ops":[["r","x",1,2],["w","x",3,-1],["r","x",{"unknown":true},4]]}"#, true),
        (r#"{"session":1,"ops":[["r","x",1,2,3]]}"#, false),
        (r#"{"session":1,"ops":[["r","x",1,null]]}"#, false),
        (r#"{"session":1,"ops":[["cas","x",1]]}"#, false),
        (r#"{"session":1,"ops":[["r","x",{"keyword":1}]]}"#, false),
        (r#"{"session":1,"ops":[["r","x",{"keyword":"a","token":"b"}]]}"#, false),
        (r#"{"session":1,"ops":[],"start":1}"#, false),
        (r#"{"session":1,"ops":[],"start":[1],"commit":1}"#, false),
        (r#"{"session":1,"ops":[],"completed":1}"#, false),
        (r#"{"session":1,"ops":[],"invoked":-1}"#, false),
        (r#"{"session":1,"ops":[],"meta":{"a":1}}"#, false),
        (r#"{"session":1,"ops":[],"commit":5,"snapshot":"7:9:8","xid":9}"#, true),
        (r#"{"session":1,"ops":[],"start":4,"commit":5,"snapshot":"7:7:"}"#, true),
        (r#"{"session":1,"ops":[],"xid":null}"#, true),
        (r#"{"session":1,"ops":[],"snapshot":{}}"#, false),
        (r#"{"session":1,"ops":[],"snapshot":"7:9:8"}"#, false),
        (r#"{"session":1,"ops":[],"commit":5}"#, true),
        (r#"{"session":1,"ops":[],"xid":-1}"#, false),
        (r#"{"anomalist":2}"#, false),
        (r#"{"anomalist":1,"initial":[1]}"#, false),
        (r#"{"anomalist":1,"initial_keys":[["x"]]}"#, false),
        (r#"[1]"#, false),
    ] {
        let text = format!("{header}\n{line}\n");
        let read = read_bytes("h", text.as_bytes(), Format::Anomalist, &ReadOptions::default());
        assert_eq!(read.is_ok(), good, "{line}");
        assert_eq!(valid(&schema, &schema, &serde_json::from_str(line).unwrap()), good, "{line}");
    }
}

#[test]
fn the_guide_shows_what_is_read() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let blocks: Vec<&str> = GUIDE.split("```json\n").skip(1).filter_map(|b| b.split("```").next()).collect();
    assert_eq!(blocks.len(), 3);
    for block in &blocks {
        // The one long transaction is broken into lines, which begin with a space.
        for line in block.replace("\n ", " ").lines() {
            assert!(valid(&schema, &schema, &serde_json::from_str(line).unwrap()), "{line}");
            let text = format!("{line}\n{{\"session\":1,\"ops\":[]}}\n");
            read_bytes("h", text.as_bytes(), Format::Anomalist, &ReadOptions::default()).unwrap();
        }
    }
    for field in [
        "session",
        "ops",
        "id",
        "outcome",
        "start",
        "commit",
        "snapshot",
        "xid",
        "invoked",
        "completed",
        "meta",
        "initial_keys",
    ] {
        assert!(GUIDE.contains(&format!("`{field}`")), "{field}");
    }
}
