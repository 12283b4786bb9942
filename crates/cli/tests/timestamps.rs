//! `check` on histories with timestamps: what is injected is found, what is clean is clean, and values may
//! disagree.

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use support::{Scratch, anomalist, anomalist_with};

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
        for (inject, code, reported) in [
            ("clock-skew", "TIMESTAMP", "and commits at"),
            ("SESSION", "SESSION", "before that."),
            ("INT", "INT", ", and then"),
            ("EXT", "EXT", "2. But"),
            ("NOCONFLICT", "NOCONFLICT", "Neither saw the other"),
        ] {
            generate(&["--inject", inject]);
            let text = anomalist(&["check", &path, "--level", "session-si"]).expect(1).text();
            assert!(text.contains(reported), "{text}");
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

/// Lines of transactions, judged offline, with the verifier, and as a stream: one exit status.
fn both(lines: &str, level: &str, status: i32) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let scratch = Scratch::new(&format!("stamps-both-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    let path = scratch.file("history.jsonl", lines.trim_start());
    let text = anomalist(&["check", &path, "--level", level, "--verify"]).expect(status).text();
    assert!(!text.contains("not verified"), "{text}");
    anomalist_with(&["watch", "-", "--level", level], lines.trim_start().as_bytes()).expect(status);
}

#[test]
fn which_of_several_writers_committed_is_a_choice() {
    // Only t1 explains y, so t1 committed, and t2 need not have.
    let two = r#"
{"session":1,"id":"t1","ops":[["w","x",1],["w","y",5]],"start":5,"commit":10,"outcome":"indeterminate"}
{"session":2,"id":"t2","ops":[["w","x",1],["w","y",6]],"start":15,"commit":20,"outcome":"indeterminate"}
{"session":3,"id":"t3","ops":[["r","x",1],["r","y",5]],"start":30,"commit":40}
"#;
    both(two, "session-si", 0);
    both(two, "session-ser", 0);
    // What none of them explains is a violation.
    let none = two.replace(r#"["r","y",5]"#, r#"["r","y",7]"#);
    both(&none, "session-si", 1);
    // Either of them explains x, and both write a value of y that was not read: no choice is right, which a
    // stream leaves open.
    let either = two.replace(r#"["r","y",5]"#, r#"["r","y",null]"#);
    let scratch = Scratch::new("stamps-either");
    let path = scratch.file("history.jsonl", either.trim_start());
    anomalist(&["check", &path, "--level", "session-si", "--verify"]).expect(1);
    let run = anomalist_with(&["watch", "-", "--json"], either.trim_start().as_bytes()).expect(2);
    assert!(String::from_utf8_lossy(&run.stdout).contains(r#""verdict":"unknown","reason":"#));
    // If no transaction read y, either will do: offline that is found out, a stream leaves it open.
    let fine = two.replace(r#",["r","y",5]"#, "");
    let path = scratch.file("fine.jsonl", fine.trim_start());
    anomalist(&["check", &path, "--level", "session-si,session-ser", "--verify"]).expect(0);
}

#[test]
fn a_committed_writer_explains_a_read_before_one_of_unknown_outcome_does() {
    for first in [r#"["w","x",1]"#, r#"["w","x",3],["w","x",1]"#] {
        let retried = format!(
            r#"
{{"session":1,"id":"a","ops":[{first}],"start":2,"commit":4}}
{{"session":2,"id":"b","ops":[["w","x",3],["w","x",1]],"start":3,"commit":6,"outcome":"indeterminate"}}
{{"session":3,"id":"c","ops":[["r","x",1]],"start":7,"commit":7}}
"#
        );
        both(&retried, "session-si", 0);
        // In any order of arrival.
        let lines: Vec<&str> = retried.trim().lines().collect();
        for order in [[1, 2, 0], [2, 1, 0], [2, 0, 1]] {
            both(&order.map(|i| lines[i].to_owned() + "\n").concat(), "session-si", 0);
        }
    }
}

#[test]
fn equal_commits_follow_the_session() {
    let own = r#"
{"session":1,"id":"r","ops":[["r","x",null]],"start":5,"commit":6}
{"session":1,"id":"w","ops":[["w","x",1]],"start":6,"commit":6}
"#;
    both(own, "session-ser", 0);
    both(own, "session-si", 0);
    // What comes before it in its session it must see.
    let after = r#"
{"session":1,"id":"w","ops":[["w","x",1]],"start":5,"commit":6}
{"session":1,"id":"r","ops":[["r","x",null]],"start":6,"commit":6}
"#;
    both(after, "session-ser", 1);
    // Of other sessions, it may see any or none.
    for (seen, status) in [("null", 0), ("1", 0), ("2", 0), ("3", 1)] {
        let others = format!(
            r#"
{{"session":1,"id":"v","ops":[["w","x",1]],"start":5,"commit":6}}
{{"session":2,"id":"w","ops":[["w","x",2]],"start":5,"commit":6}}
{{"session":3,"id":"r","ops":[["r","x",{seen}]],"start":6,"commit":6}}
"#
        );
        both(&others, "session-ser", status);
    }
}

#[test]
fn a_snapshot_does_not_contain_what_its_session_issued_later() {
    let own = |seen: &str| {
        format!(
            r#"
{{"session":1,"id":"r","ops":[["r","x",{seen}]],"start":5,"commit":5}}
{{"session":1,"id":"w","ops":[["w","x",1]],"start":5,"commit":5}}
"#
        )
    };
    both(&own("null"), "session-si", 0);
    both(&own("1"), "session-si", 1);
    // What comes before it in its session it sees, and what others commit at its start timestamp.
    let others = |seen: &str| {
        format!(
            r#"
{{"session":1,"id":"a","ops":[["w","x",1]],"start":4,"commit":5}}
{{"session":2,"id":"r","ops":[["r","x",{seen}],["w","y",1]],"start":5,"commit":5}}
{{"session":2,"id":"w","ops":[["w","x",2]],"start":5,"commit":5}}
"#
        )
    };
    for (seen, status) in [("null", 1), ("1", 0), ("2", 1)] {
        both(&others(seen), "session-si", status);
        // A version from before arrives last.
        let lines: Vec<String> = others(seen).trim().lines().map(|line| format!("{line}\n")).collect();
        both(&[1, 2, 0].map(|i| &*lines[i]).concat(), "session-si", status);
    }
    // By its timestamps the second ran before the first, which breaks the session alone if the first only
    // read.
    let turned = |ops: &str| {
        format!(
            r#"
{{"session":1,"id":"a","ops":[{ops}],"start":5,"commit":7}}
{{"session":1,"id":"b","ops":[["w","x",2]],"start":3,"commit":5}}
"#
        )
    };
    for (ops, si) in [
        (r#"["r","x",null]"#, 0),
        (r#"["r","x",2]"#, 1),
        // Neither sees the other.
        (r#"["r","x",null],["w","x",1]"#, 1),
    ] {
        both(&turned(ops), "si", si);
        both(&turned(ops), "session-si", 1);
    }
    // One that the session issued last is the last at its commit.
    for (seen, status) in [("10", 1), ("13", 0)] {
        let last = format!(
            r#"
{{"session":1,"id":"a","ops":[["w","z",10]],"start":0,"commit":2}}
{{"session":1,"id":"b","ops":[["w","z",13]],"start":2,"commit":2}}
{{"session":1,"id":"c","ops":[["r","z",{seen}]],"start":6,"commit":6}}
"#
        );
        both(&last, "session-si", status);
        both(&last, "session-ser", status);
    }
}

#[test]
fn many_appends_at_one_moment_are_put_in_order() {
    for others in [14, 15, 30] {
        let append = |session: u32, elements: &str| {
            format!(r#"{{"session":{session},"ops":[{elements}],"start":20,"commit":20}}"#) + "\n"
        };
        let mut lines = append(0, r#"["append","l",1]"#) + &append(1, r#"["append","l",1],["append","l",2]"#);
        let elements: Vec<u32> = (100..100 + others).collect();
        for (session, element) in (2..).zip(&elements) {
            lines += &append(session, &format!(r#"["append","l",{element}]"#));
        }
        let read = |first: &str| {
            let rest: String = elements.iter().map(|element| format!(",{element}")).collect();
            format!(r#"{{"session":99,"ops":[["r","l",[{first}{rest}]]],"start":30,"commit":30}}"#) + "\n"
        };
        both(&(lines.clone() + &read("1,2,1")), "session-si", 0);
        both(&(lines.clone() + &read("2,1,1")), "session-si", 1);
    }
}

#[test]
fn serializability_needs_no_start_timestamps() {
    let commits = r#"
{"session":1,"id":"a","ops":[["w","x",1]],"commit":2}
{"session":2,"id":"b","ops":[["r","x",1]],"commit":3}
"#;
    both(commits, "session-ser", 0);
    both(&commits.replace(r#"["r","x",1]"#, r#"["r","x",null]"#), "session-ser", 1);
    both(commits, "session-si", 2);
    let theirs = r#"
{"tid":1,"sid":1,"cts":{"p":2,"l":0},"ops":[{"t":"w","k":"x","v":1}]}
{"tid":2,"sid":2,"cts":{"p":3,"l":0},"ops":[{"t":"r","k":"x","v":1}]}
"#;
    both(theirs, "session-ser", 0);
    both(theirs, "session-si", 2);
}

#[test]
fn numbers_of_sessions_must_follow_one_another() {
    let numbered = |numbers: [u32; 2]| {
        let line = |i: usize| {
            let (start, commit) = (10 * i + 1, 10 * i + 5);
            format!(
                r#"{{"tid":{i},"sid":1,"sno":{},"sts":{{"p":{start}}},"cts":{{"p":{commit}}},"ops":[]}}"#,
                numbers[i]
            ) + "\n"
        };
        line(0) + &line(1)
    };
    for (numbers, status) in [([0, 1], 0), ([1, 2], 0), ([5, 6], 1), ([0, 2], 1), ([0, 0], 1)] {
        both(&numbered(numbers), "session-si", status);
        both(&numbered(numbers), "session-ser", status);
        both(&numbered(numbers), "si", 0);
    }
    let scratch = Scratch::new("stamps-numbers");
    let path = scratch.file("history.json", &numbered([5, 6]));
    let text = anomalist(&["check", &path, "--level", "session-si"]).expect(1).text();
    assert!(text.contains("none before it was recorded"), "{text}");
    // The numbers say the order, wherever the transactions are.
    let lines = numbered([0, 1]);
    let turned: Vec<&str> = lines.lines().rev().collect();
    let path = scratch.file("turned.json", &turned.join("\n"));
    anomalist(&["check", &path, "--level", "session-si"]).expect(0);
}

#[test]
fn a_write_of_the_initial_value_is_a_version_with_that_value() {
    for (initial, value) in [("null", "null"), ("0", "0")] {
        let header = format!(r#"{{"anomalist":1,"initial":{initial}}}"#);
        let history = |seen: &str, outcome: &str| {
            format!(
                r#"{header}
{{"session":1,"ops":[["w","x",7]],"start":1,"commit":2}}
{{"session":2,"ops":[["w","x",{value}]],"start":3,"commit":4,"outcome":"{outcome}"}}
{{"session":3,"ops":[["r","x",{seen}]],"start":5,"commit":6}}
"#
            )
        };
        for level in ["session-si", "session-ser"] {
            both(&history(value, "committed"), level, 0);
            both(&history("7", "committed"), level, 1);
            both(&history(value, "aborted"), level, 1);
            both(&history(value, "indeterminate"), level, 0);
            both(&history("7", "indeterminate"), level, 0);
        }
    }
}
