//! Certificates from end to end: written by `check`, read by `verify`, and changed on the way.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_check::{Budget, Request, check};
use anomalist_format::certificate;
use anomalist_history::{History, Indexed};
use anomalist_level::{Judgement, Level, Verdict};
use anomalist_testkit::oracle::{self, Oracle};
use anomalist_testkit::random::{self, Shape};
use anomalist_verify::Verifier;
use support::{Scratch, anomalist};

const GOOD: &str = "w(1,1,0,0)\nr(1,1,1,1)\nw(2,2,1,1)\n";
const BAD: &str = "w(1,1,0,0)\nw(1,2,0,1)\nw(2,1,0,1)\nr(2,1,1,2)\nr(1,1,1,2)\n";

#[test]
fn what_check_writes_verify_accepts() {
    let scratch = Scratch::new("certificate-accept");
    for (name, text) in [("good.txt", GOOD), ("bad.txt", BAD)] {
        let history = scratch.file(name, text);
        let proof = scratch.path("proof.json");
        anomalist(&["check", &history, "--certificate", &proof, "--verify", "--cross-check"]).expect(0);
        let reported = anomalist(&["verify", &history, &proof]).expect(0).text();
        assert!(reported.starts_with("Proven.\n"), "{reported}");
        let json = anomalist(&["verify", &history, &proof, "--json"]).expect(0).json();
        assert_eq!(json["proven"], true);
        assert!(json["verdicts"].as_array().unwrap().len() >= 8, "{json}");
    }
}

/// Certificates hold verdicts by values only. Before November 2026 an empty one was called proven.
#[test]
fn a_certificate_without_verdicts_proves_nothing() {
    let scratch = Scratch::new("certificate-empty");
    let text = "{\"anomalist\":1,\"initial\":0}\n\
                {\"session\":1,\"ops\":[[\"w\",\"x\",1]],\"start\":1,\"commit\":2}\n\
                {\"session\":2,\"ops\":[[\"r\",\"x\",0]],\"start\":3,\"commit\":4}\n";
    let (history, proof) = (scratch.file("timed.jsonl", text), scratch.path("proof.json"));
    let checked = anomalist(&["check", &history, "--certificate", &proof]).expect(0);
    assert!(checked.stderr().contains("leaves out 4 verdicts by timestamps"), "{}", checked.stderr());
    let said = anomalist(&["verify", &history, &proof]).expect(2).text();
    assert!(said.starts_with("Nothing is proven"), "{said}");
    assert_eq!(anomalist(&["verify", &history, &proof, "--json"]).expect(2).json()["proven"], false);
}

#[test]
fn what_proves_nothing_is_told_apart_from_what_cannot_be_read() {
    let scratch = Scratch::new("certificate-refuse");
    let (good, bad) = (scratch.file("good.txt", GOOD), scratch.file("bad.txt", BAD));
    let proof = scratch.path("proof.json");
    anomalist(&["check", &good, "--certificate", &proof]).expect(0);
    let other = anomalist(&["verify", &bad, &proof]).expect(1).text();
    assert!(other.contains("another history"), "{other}");
    // The order turned round.
    let text = scratch.read("proof.json").replace("\"commits\":[\"0\",\"1\"]", "\"commits\":[\"1\",\"0\"]");
    let turned = scratch.file("turned.json", &text);
    let reported = anomalist(&["verify", &good, &turned]).expect(1).text();
    assert!(reported.contains("reads from one that comes later"), "{reported}");
    // A verdict without a proof.
    let text = scratch
        .read("proof.json")
        .replace("\"causal\",\"verdict\":\"holds\"", "\"causal\",\"verdict\":\"violated\"");
    let lied = scratch.file("lied.json", &text);
    let reported = anomalist(&["verify", &good, &lied, "--json"]).expect(1).json();
    assert_eq!(reported["proven"], false);
    let cut = scratch.file("cut.json", &scratch.read("proof.json")[..100]);
    anomalist(&["verify", &good, &cut]).expect(3);
    anomalist(&["verify", &good, &scratch.path("none.json")]).expect(3);
    anomalist(&["verify", &scratch.path("none.txt"), &proof]).expect(3);
}

#[test]
fn of_several_certificates_the_one_about_the_history_counts() {
    let scratch = Scratch::new("certificate-several");
    let (good, bad) = (scratch.file("good.txt", GOOD), scratch.file("bad.txt", BAD));
    let proof = scratch.path("proof.json");
    anomalist(&["check", &good, &bad, "--certificate", &proof]).expect(0);
    anomalist(&["verify", &good, &proof]).expect(0);
    anomalist(&["verify", &bad, &proof]).expect(0);
}

fn judge(history: &History) -> Judgement {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let request = Request { certificates: true, ..Request::default() };
    check(&indexed, &request, &Budget::unlimited())
}

/// Does the oracle contradict a verdict?
fn is_false(history: &History, level: Level, verdict: &Verdict) -> bool {
    let holds = *verdict == Verdict::Holds;
    // What PL-1, PL-2 and PL-3U make of faulty reads is not this oracle's business.
    match oracle::of(level) {
        Some(Oracle::Weak(_) | Oracle::Strong(_)) => {
            oracle::decide(history, level).is_some_and(|truth| truth != holds)
        }
        Some(Oracle::Adya(_)) | None => false,
    }
}

/// Bytes changed, cut out and doubled: whatever is still accepted is still true, and nothing panics.
#[test]
fn a_certificate_with_anything_changed_is_refused_or_still_true() {
    let small = |shape: Shape| Shape { txns: 2..=5, ops: 1..=3, ..shape };
    let shapes = [
        Shape::default(),
        Shape::faulty(),
        Shape::lists(),
        Shape::anything(),
        small(Shape::repeated()),
        Shape::timed(),
    ];
    let (mut unreadable, mut refused, mut accepted) = (0, 0, 0);
    for case in 0..240u64 {
        let mut rng = fastrand::Rng::with_seed(case);
        let history = random::tiny(&mut rng, &shapes[case as usize % shapes.len()]);
        if oracle::explanations(&history) > 100 {
            continue;
        }
        let judgement = judge(&history);
        let text = certificate::write(&history, "h", "anomalist", &judgement).to_string().into_bytes();
        let back = certificate::read(&history, &text).unwrap().judgement;
        // Levels that share a proof stand together in the file.
        let by_level = |judgement: &Judgement| {
            let mut proofs = judgement.certificates.clone();
            proofs.sort_by_key(|(level, _)| *level);
            proofs
        };
        assert_eq!(by_level(&back), by_level(&judgement));
        let verifier = Verifier::new(&history);
        verifier.judgement(&back).unwrap();
        for _ in 0..60 {
            let mut changed = text.clone();
            let at = rng.usize(..changed.len());
            let end = (at + rng.usize(1..12)).min(changed.len());
            match rng.u32(..4) {
                0 => changed[at] ^= 1 << rng.u32(..7),
                1 => changed[at] = b"0123456789\"[]{}:,"[rng.usize(..17)],
                2 => drop(changed.drain(at..end)),
                _ => {
                    let piece = changed[at..end].to_vec();
                    changed.splice(at..at, piece);
                }
            }
            match certificate::read(&history, &changed) {
                Err(_) => unreadable += 1,
                Ok(statement) => match verifier.judgement(&statement.judgement) {
                    Err(_) => refused += 1,
                    Ok(()) => {
                        accepted += 1;
                        for l in &statement.judgement.levels {
                            let shown = String::from_utf8_lossy(&changed);
                            assert!(!is_false(&history, l.level, &l.verdict), "seed {case}: {shown}");
                        }
                    }
                },
            }
        }
    }
    assert!(unreadable > 0 && refused > 0 && accepted > 0);
}

/// Write skew; in Anomalist's format, because no other keeps what transactions declare.
fn declared(first: &str, second: &str) -> String {
    let line = |session: u32, read: &str, write: &str, level: &str| {
        let ops = format!("[[\"r\", \"{read}\", null], [\"w\", \"{write}\", {session}]]");
        format!("{{\"session\": {session}, \"ops\": {ops}, \"meta\": {{\"level\": \"{level}\"}}}}\n")
    };
    line(1, "x", "y", first) + &line(2, "y", "x", second)
}

#[test]
fn declared_levels_are_proven_required_and_shrunk() {
    let scratch = Scratch::new("certificate-declared");
    let proof = scratch.path("proof.json");
    let bad = scratch.file("bad.jsonl", &declared("serializable", "serializable"));
    let good = scratch.file("good.jsonl", &declared("serializable", "snapshot-isolation"));
    let flags = ["--declared", "--certificate", &proof, "--verify", "--cross-check"];
    let reported = anomalist(&[&["check", &bad][..], &flags].concat()).expect(1).text();
    // However lines break.
    let reported = reported.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        reported.contains("2 serializable") && reported.contains("VIOLATED: no commit order suits them all"),
        "{reported}"
    );
    assert!(reported.contains("cycle"), "{reported}");
    let reported = anomalist(&["verify", &bad, &proof]).expect(0).text();
    assert!(reported.contains("the mix of declared levels"), "{reported}");
    // The same operations, other levels: another history, of which the proof proves nothing.
    anomalist(&["verify", &good, &proof]).expect(1);
    let json = anomalist(&[&["check", &good, "--json"][..], &flags].concat()).expect(0).json();
    assert_eq!(json["mixed"]["verdict"], "holds");
    let json = anomalist(&["verify", &good, &proof, "--json"]).expect(0).json();
    assert_eq!((&json["proven"], &json["mixed"]), (&true.into(), &"holds".into()));
    let small = scratch.path("small.jsonl");
    anomalist(&["shrink", &bad, "--declared", "--to", "anomalist", "-o", &small]).expect(0);
    anomalist(&["check", &small, "--declared"]).expect(1);
    anomalist(&["shrink", &good, "--declared", "-o", &small]).expect(1);
    // No transaction declares a level: nothing is known about that.
    let plain = scratch.file("plain.txt", GOOD);
    anomalist(&["check", &plain, "--declared"]).expect(2);
}
