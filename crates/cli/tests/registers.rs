//! `anomalist check` of registers whose versions have an order that the caller vouches for; names of
//! patterns; examples per component.

mod support;

use serde_json::Value;
use support::{Run, Scratch, anomalist};

fn verdict(document: &Value, level: &str) -> String {
    let levels = document["levels"].as_array().cloned().unwrap_or_default();
    let found = levels.iter().find(|l| l["level"] == level).map(|l| l["verdict"].clone());
    found.and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn check(scratch: &Scratch, args: &[&str], history: &str) -> Run {
    let file = scratch.file("h.jsonl", history);
    anomalist(&[&["check", "--json", "--verify"], args, &[&file]].concat())
}

/// Two writers of x and of y; one reader sees the first of x and the second of y, one the reverse. Some
/// order of the writers explains both.
const CROSSED: &str = r#"{"session":1,"ops":[["w","x",1,1],["w","y",1,2]]}
{"session":2,"ops":[["w","x",2,2],["w","y",2,1]]}
{"session":3,"ops":[["r","x",1,1]]}
{"session":4,"ops":[["r","y",2,1]]}
"#;

#[test]
fn version_numbers_are_an_order_if_one_says_so() {
    let scratch = Scratch::new("versions");
    let plain = check(&scratch, &[], CROSSED).expect(0).json();
    assert_eq!(verdict(&plain, "serializable"), "holds");
    assert!(plain.get("notes").is_none(), "{plain}");
    let ordered = check(&scratch, &["--version-numbers"], CROSSED).expect(0).json();
    assert_eq!(verdict(&ordered, "read-uncommitted"), "violated", "{ordered}");
    assert_eq!(ordered["anomalies"][0]["kind"], "g0", "{ordered}");
    let explanation = ordered["anomalies"][0]["explanation"].as_str().unwrap_or_default();
    assert!(explanation.contains("version numbers of the database"), "{explanation}");
    assert!(ordered["notes"][0].as_str().is_some_and(|note| note.contains("version numbers")), "{ordered}");
    // The format keeps them.
    let (from, to) = (scratch.file("a.jsonl", CROSSED), scratch.path("b.jsonl"));
    anomalist(&["convert", &from, &to, "--to", "elle-jsonl"]).expect(3);
    anomalist(&["convert", &from, &to, "--to", "anomalist"]).expect(0);
    assert_eq!(
        scratch.read("b.jsonl").lines().skip(1).collect::<Vec<_>>(),
        CROSSED.lines().collect::<Vec<_>>()
    );
    check(&scratch, &["--version-numbers"], "{\"session\":1,\"ops\":[]}\n").expect(3);
}

#[test]
fn a_version_that_goes_back_is_circular() {
    let scratch = Scratch::new("circular");
    let history = r#"{"session":1,"ops":[["w","x",1,5]]}
{"session":1,"ops":[["w","x",2,4]]}
"#;
    let found = check(&scratch, &["--version-numbers", "--sequential-keys"], history).expect(0).json();
    assert_eq!(found["anomalies"][0]["kind"], "cyclic-versions", "{found}");
    check(&scratch, &["--version-numbers"], history).expect(0);
}

#[test]
fn timestamps_order_values_if_one_says_so() {
    let scratch = Scratch::new("stamped");
    // The first had committed when the reader started, which does not see it.
    let history = r#"{"session":1,"ops":[["w","x",1]],"start":1,"commit":2}
{"session":2,"ops":[["r","x",null]],"start":3,"commit":3}
"#;
    let by_values = check(&scratch, &["--by", "values"], history).expect(0).json();
    assert_eq!(verdict(&by_values, "strict-serializable"), "unknown");
    let ordered = check(&scratch, &["--timestamp-order"], history).expect(0).json();
    assert_eq!(verdict(&ordered, "serializable"), "holds", "{ordered}");
    assert_eq!(verdict(&ordered, "strong-snapshot-isolation"), "violated", "{ordered}");
    check(&scratch, &["--timestamp-order"], CROSSED).expect(3);
}

#[test]
fn a_given_order_binds_what_holds() {
    let scratch = Scratch::new("given");
    let order = scratch.file("order.txt", "2:1\n1:1\n");
    // Only if the first writer is the first is this serial.
    let history = r#"{"session":1,"ops":[["w","x",1],["w","y",1]]}
{"session":2,"ops":[["r","y",1],["w","x",2]]}
{"session":3,"ops":[["r","x",2],["r","y",1]]}
"#;
    assert_eq!(verdict(&check(&scratch, &[], history).expect(0).json(), "serializable"), "holds");
    let ordered = check(&scratch, &["--transaction-order", &order], history).expect(0).json();
    assert_eq!(verdict(&ordered, "serializable"), "violated", "{ordered}");
}

#[test]
fn patterns_have_names() {
    let scratch = Scratch::new("patterns");
    let cases = [
        (
            "write-skew",
            "g2-item",
            r#"[["r","x",[]],["append","y",1]]"#,
            r#"[["r","y",[]],["append","x",1]]"#,
            "",
        ),
        (
            "read-skew",
            "g-single-item",
            r#"[["append","x",1],["append","y",1]]"#,
            r#"[["r","x",[]],["r","y",[1]]]"#,
            "",
        ),
        (
            "long-fork",
            "g-nonadjacent-item",
            r#"[["append","x",1]]"#,
            r#"[["append","y",1]]"#,
            r#"{"session":3,"ops":[["r","x",[1]],["r","y",[]]]}
{"session":4,"ops":[["r","x",[]],["r","y",[1]]]}
"#,
        ),
    ];
    for (pattern, kind, one, other, rest) in cases {
        let history = format!("{{\"session\":1,\"ops\":{one}}}\n{{\"session\":2,\"ops\":{other}}}\n{rest}");
        let found = check(&scratch, &[], &history).expect(0).json();
        let all = found["anomalies"].as_array().cloned().unwrap_or_default();
        let named = all.iter().find(|a| a["kind"] == kind);
        assert_eq!(named.map(|a| a["pattern"].clone()), Some(pattern.into()), "{found}");
        let asked = check(&scratch, &["--anomalies", pattern], &history).expect(1).json();
        assert_eq!(asked["anomalies"].as_array().map(Vec::len), Some(1), "{asked}");
        assert_eq!(asked["anomalies"][0]["pattern"], pattern);
        anomalist(&["explain", pattern]).expect(0);
    }
}

#[test]
fn every_component_has_an_example_if_asked() {
    let scratch = Scratch::new("components");
    let skew = |a: u32, x: &str, y: &str| {
        let b = a + 1;
        format!(
            "{{\"session\":{a},\"ops\":[[\"r\",\"{x}\",[]],[\"append\",\"{y}\",1]]}}\n{{\"session\":{b},\"ops\":[[\"r\",\"{y}\",[]],[\"append\",\"{x}\",1]]}}\n"
        )
    };
    let history = [skew(1, "a", "b"), skew(3, "c", "d"), skew(5, "e", "f")].concat();
    let of = |document: &Value| -> (Value, usize) {
        let all = document["anomalies"].as_array().cloned().unwrap_or_default();
        let skew = all.into_iter().find(|a| a["kind"] == "g2-item").unwrap_or_default();
        (skew["count"].clone(), skew["further"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(of(&check(&scratch, &[], &history).expect(0).json()), (3.into(), 0));
    assert_eq!(of(&check(&scratch, &["--every-component"], &history).expect(0).json()), (3.into(), 2));
}

#[test]
fn who_was_observed_took_effect() {
    let scratch = Scratch::new("observed");
    let history = r#"{"session":1,"ops":[["w","x",1],["w","y",1]],"outcome":"indeterminate"}
{"session":2,"ops":[["r","x",1],["r","y",null]]}
"#;
    let file = scratch.file("h.jsonl", history);
    let text = anomalist(&["check", &file]).expect(0).text();
    assert!(
        text.split_whitespace().collect::<Vec<_>>().join(" ").contains("observed, hence committed"),
        "{text}"
    );
}
