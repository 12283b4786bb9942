//! The published JSON Schema of Anomalist's format against what the writer writes and the reader reads.
//!
use crate::Format;
use crate::ReadOptions;
use crate::testing::{read_bytes, written};
use anomalist_testkit::json_schema::valid;
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../../docs/anomalist-history.schema.json");
const GUIDE: &str = include_str!("../../../../docs/format.md");

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
        assert!(valid(&schema, &serde_json::from_str(line).unwrap()), "{line}");
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
        (r#"{"anomalist":1,"clock":"ms"}"#, true),
        (r#"{"anomalist":1,"clock":"hours"}"#, false),
        (r#"{"anomalist":1,"initial":[1]}"#, false),
        (r#"{"anomalist":1,"initial_keys":[["x"]]}"#, false),
        (r#"[1]"#, false),
    ] {
        let text = format!("{header}\n{line}\n");
        let read = read_bytes("h", text.as_bytes(), Format::Anomalist, &ReadOptions::default());
        assert_eq!(read.is_ok(), good, "{line}");
        assert_eq!(valid(&schema, &serde_json::from_str(line).unwrap()), good, "{line}");
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
            assert!(valid(&schema, &serde_json::from_str(line).unwrap()), "{line}");
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
        "clock",
    ] {
        assert!(GUIDE.contains(&format!("`{field}`")), "{field}");
    }
}
