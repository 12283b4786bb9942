//! `check --definitions`: the same history by Anomalist's definitions and by the letter of Plume's paper.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use serde_json::Value;
use support::{Scratch, anomalist};

/// The newer of two versions of one key is read first.
const BACK: &str = "w(7,1,1,1)\nw(7,2,1,2)\nr(7,2,2,3)\nr(7,1,2,3)\n";
/// The same over two keys, and so a step back by either definition.
const BACK_BY_ANOTHER: &str = "w(7,1,1,1)\nw(7,2,1,2)\nw(8,2,1,2)\nr(8,2,2,3)\nr(7,1,2,3)\n";
/// A transaction reads one value, writes another, and reads a third.
const OWN: &str = "w(7,1,1,1)\nw(7,2,2,2)\nr(7,1,3,3)\nw(7,3,3,3)\nr(7,2,3,3)\n";
/// After its own write, a transaction reads what its writer replaced.
const OWN_INTERMEDIATE: &str = "w(7,1,1,1)\nw(7,2,1,1)\nw(7,3,2,2)\nr(7,1,2,2)\n";
/// A stale read of the initial state, and a reader of who should have been seen.
const STALE: &str = "w(7,1,1,1)\nw(8,1,1,1)\nr(8,1,2,2)\nr(7,0,2,2)\nr(7,1,3,3)\n";
/// A session does not see its own write.
const HOLE: &str = "w(7,1,1,1)\nw(7,2,1,2)\nr(7,1,1,3)\n";

/// Verdicts on read committed, cut isolation, read atomic and causal, and the counts of patterns; proofs
/// verify, and other algorithms agree.
fn answer(name: &str, text: &str, definitions: &str) -> (String, Vec<(String, u64)>) {
    let scratch = Scratch::new(&format!("plume-{name}-{definitions}"));
    let history = scratch.file("h.txt", text);
    let proof = scratch.path("proof.json");
    let args = ["check", &history, "--level", "rc,ci,ra,causal", "--json", "--verify", "--cross-check"];
    let flags = ["--definitions", definitions, "--certificate", &proof];
    let run = anomalist(&[&args[..], &flags[..]].concat());
    let json = run.json();
    assert_eq!(json["definitions"], definitions);
    let verified = anomalist(&["verify", &history, &proof, "--json"]).expect(0).json();
    assert_eq!(verified["definitions"], definitions);
    let word = |level: &Value| if level["verdict"] == "holds" { '+' } else { '-' };
    let verdicts = json["levels"].as_array().unwrap().iter().map(word).collect();
    let count = |a: &Value| (a["code"].as_str().unwrap().to_owned(), a["count"].as_u64().unwrap());
    let counts = json["anomalies"].as_array().unwrap().iter().map(count).collect();
    (verdicts, counts)
}

fn check(name: &str, text: &str, ours: (&str, &[(&str, u64)]), plume: (&str, &[(&str, u64)])) {
    for (definitions, (verdicts, counts)) in [("anomalist", ours), ("plume", plume)] {
        let counts: Vec<(String, u64)> = counts.iter().map(|&(code, n)| (code.to_owned(), n)).collect();
        assert_eq!(answer(name, text, definitions), (verdicts.to_owned(), counts), "{definitions}: {text}");
    }
}

#[test]
fn read_committed_needs_another_key() {
    check(
        "back",
        BACK,
        ("----", &[("TAP-h", 1), ("TAP-j", 1)]),
        ("+---", &[("TAP-j", 1), ("TAP-m", 1), ("TAP-n", 1)]),
    );
    check("two-keys", BACK_BY_ANOTHER, ("-+--", &[("TAP-h", 1)]), ("-+--", &[("TAP-h", 1)]));
}

#[test]
fn reads_after_own_writes_count() {
    check("own", OWN, ("-+--", &[("TAP-d", 1)]), ("----", &[("TAP-d", 1), ("TAP-j", 1), ("TAP-n", 2)]));
    check("own-f", OWN_INTERMEDIATE, ("-+--", &[("TAP-d", 1)]), ("-+--", &[("TAP-d", 1), ("TAP-f", 1)]));
}

#[test]
fn cycles_lead_through_the_initial_transaction() {
    check("stale", STALE, ("-+--", &[("TAP-h", 1)]), ("-+--", &[("TAP-h", 1), ("TAP-l", 1), ("TAP-n", 1)]));
}

#[test]
fn read_atomic_is_broken_without_a_pattern() {
    check(
        "hole-of-ra",
        HOLE,
        ("++--", &[("TAP-k", 1)]),
        ("++--", &[("TAP-m", 1), ("read-atomic-cycle-exists", 1)]),
    );
    let scratch = Scratch::new("plume-hole");
    let history = scratch.file("h.txt", HOLE);
    let patterns = "TAP-a,TAP-b,TAP-c,TAP-d,TAP-e,TAP-f,TAP-g,TAP-h,TAP-i,TAP-j,TAP-k,TAP-l";
    let asked = ["check", &history, "--anomalies", patterns];
    anomalist(&asked).expect(1);
    anomalist(&[&asked[..], &["--definitions", "plume"]].concat()).expect(0);
    // Their absence proves nothing then.
    anomalist(&[&asked[..], &["--definitions", "plume", "--level", "ra"]].concat()).expect(2);
}

/// What holds by one definition is not proven by another.
#[test]
fn certificates_rest_on_the_definitions_that_they_name() {
    let scratch = Scratch::new("plume-certificate");
    let history = scratch.file("h.txt", BACK);
    let proof = scratch.path("proof.json");
    let flags = ["--level", "rc", "--definitions", "plume", "--certificate", &proof];
    anomalist(&[&["check", &history][..], &flags[..]].concat()).expect(0);
    let reported = anomalist(&["verify", &history, &proof]).expect(0).text();
    assert!(reported.starts_with("Proven by Plume's definitions.\n"), "{reported}");
    let text = scratch.read("proof.json");
    for (name, status) in [("\"anomalist\"", 1), ("null", 1), ("\"elle\"", 3), ("\"plume\"", 0)] {
        let changed = text.replace("\"definitions\":\"plume\"", &format!("\"definitions\":{name}"));
        let changed = changed.replace("\"definitions\": \"plume\"", &format!("\"definitions\": {name}"));
        anomalist(&["verify", &history, &scratch.file("changed.json", &changed)]).expect(status);
    }
}

#[test]
fn levels_that_plume_does_not_define_stay_as_they_are() {
    let scratch = Scratch::new("plume-others");
    let others = "pl-1,pl-2,ryw,mr,mw,wfr,prefix,psi,si,session-si,rr,pl-3u,ser,session-ser";
    for text in [BACK, BACK_BY_ANOTHER, OWN, OWN_INTERMEDIATE, STALE, HOLE] {
        let history = scratch.file("h.txt", text);
        let verdicts = |definitions: &str| {
            let args = ["check", &history, "--level", others, "--json", "--definitions", definitions];
            let json = anomalist(&args).json();
            let of = |l: &Value| (l["level"].clone(), l["verdict"].clone());
            json["levels"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(verdicts("anomalist"), verdicts("plume"), "{text}");
    }
}

#[test]
fn explanations_name_the_difference() {
    for name in ["rc", "ci", "ra", "TAP-f", "TAP-h", "TAP-i", "TAP-j", "TAP-k", "TAP-l", "TAP-m", "TAP-n"] {
        let reported = anomalist(&["explain", name]).expect(0).text();
        assert!(reported.contains("in Plume"), "{name}: {reported}");
    }
    let reported = anomalist(&["explain", "si"]).expect(0).text();
    assert!(!reported.contains("in Plume"), "{reported}");
}
