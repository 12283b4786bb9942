//! `check` on histories with timestamps: what is injected is found, what is clean is clean, and values may disagree.

mod support;

use support::{Scratch, anomalist};

const SIZE: [&str; 8] = ["--sessions", "6", "--txns-per-session", "40", "--ops-per-txn", "4", "--keys", "20"];

/// Transactions t1, t2 and t3 commit one after another, and t3 reads what t1 wrote: the paper's Figure 11.
const FIGURE_11: &str = r#"{"session":1,"id":"t1","ops":[["w","x",1]],"start":10,"commit":20}
{"session":2,"id":"t2","ops":[["w","x",2]],"start":30,"commit":40}
{"session":3,"id":"t3","ops":[["r","x",1]],"start":50,"commit":60}
"#;

/// The codes that a check finds, with their counts.
fn codes(args: &[&str]) -> Vec<(String, u64)> {
    let run = anomalist(&[&["check", "--json"], args].concat());
    let document = run.json();
    let anomalies = document["anomalies"].as_array().expect("anomalies");
    let code = |a: &serde_json::Value| {
        (a["code"].as_str().unwrap_or("").to_owned(), a["count"].as_u64().unwrap_or(0))
    };
    anomalies.iter().map(code).collect()
}

#[test]
fn injected_faults_are_found_and_nothing_else() {
    let scratch = Scratch::new("stamps-inject");
    for kind in ["timestamped", "timestamped-list"] {
        let path = scratch.path(&format!("{kind}.json"));
        let generate = |more: &[&str]| {
            let flags = ["generate", "--kind", kind, "--level", "serializable", "--seed", "4", "-o", &path];
            anomalist(&[&flags[..], &SIZE, more].concat()).expect(0);
        };
        generate(&[]);
        anomalist(&["check", &path, "--level", "session-si,session-ser,si,ser"]).expect(0);
        for (inject, code, told) in [
            ("clock-skew", "TIMESTAMP", "and commits at"),
            ("SESSION", "SESSION", "before that."),
            ("INT", "INT", ", and then"),
            ("EXT", "EXT", "2. But"),
            ("NOCONFLICT", "NOCONFLICT", "Neither saw the other"),
        ] {
            generate(&["--inject", inject]);
            let text = anomalist(&["check", &path, "--level", "session-si"]).expect(1).text();
            assert!(text.contains(told), "{text}");
            let found = codes(&[&path, "--level", "session-si"]);
            assert_eq!(found, [(code.to_owned(), 1)], "{kind} {inject}");
        }
    }
}

#[test]
fn snapshot_isolation_is_not_serializable() {
    let scratch = Scratch::new("stamps-si");
    let path = scratch.path("si.json");
    let flags = ["generate", "--kind", "timestamped", "--level", "si", "--seed", "2", "-o", &path];
    anomalist(&[&flags[..], &SIZE].concat()).expect(0);
    anomalist(&["check", &path, "--level", "session-si"]).expect(0);
    anomalist(&["check", &path, "--level", "session-ser"]).expect(1);
    let both = codes(&[&path, "--level", "session-si,session-ser"]);
    assert_eq!(both, codes(&[&path, "--level", "session-ser"]));
    assert!(both[0].0 == "EXT" && both[0].1 > 1, "{both:?}");
    for threads in ["1", "2"] {
        assert_eq!(codes(&[&path, "--level", "session-ser", "--threads", threads]), both);
    }
}

#[test]
fn values_and_timestamps_may_disagree() {
    let scratch = Scratch::new("stamps-both");
    let path = scratch.file("figure11.jsonl", FIGURE_11);
    anomalist(&["check", &path, "--by", "timestamps", "--level", "session-si"]).expect(1);
    anomalist(&["check", &path, "--level", "session-si"]).expect(1);
    let run = anomalist(&["check", "--json", &path, "--by", "both", "--level", "session-si"]).expect(1);
    let document = run.json();
    let levels = document["levels"].as_array().expect("levels");
    let by: Vec<_> = levels.iter().map(|l| (l["by"].as_str(), l["verdict"].as_str())).collect();
    assert_eq!(by.len(), 2);
    assert_eq!(by[1], (Some("timestamps"), Some("violated")));
    assert_eq!(by[0].0, Some("values"));
    assert_ne!(by[0].1, Some("violated"));
    let text = anomalist(&["check", &path, "--by", "timestamps"]).expect(0).text();
    assert!(text.contains("But t3 read x = 1, which t1 wrote (commit 20)."), "{text}");
    // Levels that timestamps say nothing about are judged by values.
    let run = anomalist(&["check", "--json", &path, "--level", "causal,session-si"]).expect(1);
    let levels = &run.json()["levels"];
    assert_eq!((&levels[0]["by"], &levels[0]["verdict"]), (&"values".into(), &"holds".into()));
    assert_eq!((&levels[1]["by"], &levels[1]["verdict"]), (&"timestamps".into(), &"violated".into()));
}

#[test]
fn what_is_found_can_be_written_line_by_line() {
    let scratch = Scratch::new("stamps-lines");
    let path = scratch.file("figure11.jsonl", FIGURE_11);
    let out = scratch.path("violations.jsonl");
    anomalist(&["check", &path, "--level", "session-si", "--violations", &out]).expect(1);
    let written = scratch.read("violations.jsonl");
    let lines: Vec<serde_json::Value> =
        written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 1);
    for (field, value) in [
        ("event", "violation"),
        ("code", "EXT"),
        ("mode", "si"),
        ("transaction", "t3"),
        ("key", "x"),
        ("observed", "1"),
        ("expected_from", "t2"),
        ("class", "stale"),
        ("source", "t1"),
    ] {
        assert_eq!(lines[0][field], value, "{field}");
    }
}

#[test]
fn anomalies_of_values_are_looked_for_by_values() {
    let scratch = Scratch::new("by-values");
    let path = scratch.path("h.json");
    let shape = ["--sessions", "6", "--txns-per-session", "20", "--ops-per-txn", "4", "--keys", "20"];
    let inject = ["generate", "--kind", "timestamped", "--inject", "TAP-a,TAP-h", "--seed", "5", "-o", &path];
    anomalist(&[&inject[..], &shape].concat()).expect(0);
    let answer = anomalist(&["check", &path, "--anomalies", "TAP-a,TAP-h,TAP-g", "--json"]).expect(1).json();
    let kinds: Vec<&str> =
        answer["anomalies"].as_array().unwrap().iter().map(|a| a["code"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["TAP-a", "TAP-h"]);
    assert!(answer["notes"].to_string().contains("not found: TAP-g"), "{answer:#}");
    let pictures = scratch.path("pictures");
    let found = anomalist(&["check", &path, "--svg", &pictures, "--json"]).expect(0).json();
    let drawn = std::fs::read_dir(&pictures).unwrap().count();
    assert_eq!(drawn, found["anomalies"].as_array().unwrap().len(), "a picture of each");
}

#[test]
fn equal_timestamps_follow_the_tie_rule() {
    let scratch = Scratch::new("stamps-tie");
    let text = "{\"session\":1,\"ops\":[[\"w\",\"x\",1]],\"start\":1,\"commit\":5}\n\
                {\"session\":2,\"ops\":[[\"r\",\"x\",1]],\"start\":5,\"commit\":5}\n";
    let path = scratch.file("tie.jsonl", text);
    anomalist(&["check", &path, "--level", "session-si"]).expect(0);
    anomalist(&["check", &path, "--level", "session-si", "--tie", "exclusive"]).expect(1);
    anomalist(&["check", &path, "--tie", "sometimes"]).expect(3);
}

#[test]
fn a_snapshot_may_be_a_set_of_ids() {
    // B commits before A in the log, and becomes visible after it: a timestamp would call the reader wrong.
    let text = |read: &str| {
        format!(
            "{{\"session\":1,\"id\":\"A\",\"ops\":[[\"w\",\"x\",1]],\"commit\":200,\"snapshot\":\"10:10:\",\"xid\":10}}\n\
             {{\"session\":2,\"id\":\"B\",\"ops\":[[\"w\",\"y\",1]],\"commit\":100,\"snapshot\":\"10:11:10\",\"xid\":11}}\n\
             {{\"session\":3,\"id\":\"C\",\"ops\":[[\"r\",\"x\",1],[\"r\",\"y\",{read}]],\"start\":150,\"commit\":150,\
             \"snapshot\":\"11:12:11\"}}\n"
        )
    };
    let scratch = Scratch::new("stamps-sets");
    let fine = scratch.file("fine.jsonl", &text("null"));
    anomalist(&["check", &fine, "--level", "session-si"]).expect(0);
    let wrong = scratch.file("wrong.jsonl", &text("1"));
    let run = anomalist(&["check", &wrong, "--level", "session-si"]).expect(1);
    assert!(run.text().contains("C's snapshot is 11:12:11"), "{}", run.text());
    // A format without sets refuses them.
    anomalist(&["convert", &fine, &scratch.path("fine.json"), "--to", "timekiller"]).expect(3);
    anomalist(&["convert", &fine, &scratch.path("again.jsonl"), "--to", "anomalist"]).expect(0);
    anomalist(&["check", &scratch.path("again.jsonl"), "--level", "session-si"]).expect(0);
}
