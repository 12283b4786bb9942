//! `anomalist check` on recordings that are no transactions of reads, writes and appends; and the model of
//! Elle's that elle-cli does not offer.

mod support;

use support::{Run, anomalist_with};

const SET: &str = r#"{:type :invoke, :process 0, :f :add, :value 1}
{:type :ok, :process 0, :f :add, :value 1}
{:type :invoke, :process 1, :f :add, :value 2}
{:type :ok, :process 1, :f :add, :value 2}
{:type :invoke, :process 2, :f :read, :value nil}
{:type :ok, :process 2, :f :read, :value #{1}}
{:type :invoke, :process 3, :f :read, :value nil}
{:type :ok, :process 3, :f :read, :value #{2}}
"#;

const COUNTER: &str = r#"[{"type":"invoke","process":0,"f":"add","value":1},{"type":"ok","process":0,"f":"add","value":1},
{"type":"invoke","process":2,"f":"read","value":null},{"type":"ok","process":2,"f":"read","value":0}]"#;

const BANK: &str = r#"{"type":"ok","process":0,"f":"read","value":{"0":10,"1":10}}
{"type":"ok","process":1,"f":"transfer","value":{"from":0,"to":1,"amount":3}}
{"type":"ok","process":0,"f":"read","value":{"0":7,"1":10}}
"#;

const PREDICATES: &str = r#"{:type :ok, :process 9, :f :init, :value {0 2, 1 4}}
{:type :ok, :process 0, :f :txn, :value [[:w 0 5] [:w 1 7]]}
{:type :ok, :process 1, :f :txn, :value [[:r 0 5] [:rp [:mod 2 1] {0 5}]]}
"#;

fn check(recording: &str, levels: &str, status: i32) -> String {
    said(anomalist_with(&["check", "-", "--level", levels], recording.as_bytes()).expect(status))
}

/// What was printed, line ends aside.
fn said(run: Run) -> String {
    run.text().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn other_datatypes_are_recognised_and_judged() {
    check(SET, "parallel-snapshot-isolation", 0);
    assert!(check(SET, "snapshot-isolation", 1).contains("g-nonadjacent-item"));
    assert!(check(COUNTER, "strict-serializable", 1).contains("g-single-item-realtime"));
    assert!(check(COUNTER, "serializable", 2).contains("do not show which additions"));
    assert!(check(BANK, "snapshot-isolation", 1).contains("instead of 20"));
    check(BANK, "read-atomic", 2);
    assert!(check(PREDICATES, "serializable", 1).contains("left out 1, which came to match with 7"));
    check(PREDICATES, "repeatable-read", 2);
}

#[test]
fn elle_has_predicates_too() {
    let elle = |flags: &[&str], status| {
        let args: Vec<&str> =
            ["elle", "-m", "closed-predicate"].iter().chain(flags).chain(&["-"]).copied().collect();
        said(anomalist_with(&args, PREDICATES.as_bytes()).expect(status))
    };
    assert!(elle(&[], 1).ends_with("false"));
    assert!(elle(&["-c", "read-committed"], 0).ends_with("true"));
}

#[test]
fn what_cannot_be_judged_is_said() {
    let unread = "{:type :ok, :process 0, :f :add, :value 1}";
    check(unread, "serializable", 3);
    let odd = "{:type :ok, :process 0, :f :add, :value 1}\n{:type :ok, :process 0, :f :add, :value :x}\n\
               {:type :ok, :process 0, :f :read, :value 1}";
    check(odd, "serializable", 3);
}
