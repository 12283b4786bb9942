//! The check by timestamps against the definitions, on many small random histories.
//!
//! `ANOMALIST_ORACLE_CASES` sets the number of histories per family, `ANOMALIST_SEED` the seed; a failure prints the history and
//! both answers.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::Budget;
use anomalist_check::stamps::{Findings, certificate, find};
use anomalist_history::{History, OpKind};
use anomalist_level::Level;
use anomalist_testkit::number;
use anomalist_testkit::oracle::{StampFault, StampRule, stamp_faults};
use anomalist_testkit::random::{StampedShape, stamped};
use anomalist_timestamp::{Axiom, Mode, Rule, Tie};
use anomalist_verify::Verifier;
use std::collections::BTreeSet;
use std::fmt::Write;

fn shown(history: &History) -> String {
    let mut out = String::new();
    for t in history.txns() {
        let at = history.stamps().unwrap()[t.index()];
        let _ = write!(
            out,
            "{t:?} session {} {:?} {}.{}-{}.{}",
            history.show(history.session_label(history.session_of(t))),
            history.outcome(t),
            at.start.physical,
            at.start.logical,
            at.commit.physical,
            at.commit.logical
        );
        if let Some(set) = history.snapshot(t) {
            let _ = write!(out, " set {set}");
        }
        if let Some(id) = history.snapshot_id(t) {
            let _ = write!(out, " id {id}");
        }
        for (_, op) in history.ops(t) {
            let kind = match op.kind {
                OpKind::Read => 'r',
                OpKind::Write => 'w',
                OpKind::Append => 'a',
            };
            let _ = write!(out, " {kind}({},{})", history.show_key(op.key), history.show(op.value));
        }
        out.push('\n');
    }
    let _ = writeln!(out, "initial {:?}", history.initial().default);
    out
}

fn identities(found: &Findings) -> BTreeSet<StampFault> {
    let faults = found.listed.iter().map(|v| {
        let id = v.identity();
        StampFault { code: id.axiom.code(), txn: id.txn, key: id.key, other: id.other, read: id.read }
    });
    faults.collect()
}

/// Whether there is a proof that the level holds; if so, it has to convince the verifier.
fn is_proven(history: &History, rule: Rule, told: &str) -> bool {
    let level = match rule.mode {
        Mode::Si => Level::StrongSessionSnapshotIsolation,
        Mode::Ser => Level::StrongSessionSerializable,
    };
    let Some(proof) = certificate(history, level, rule.tie) else { return false };
    let verified = Verifier::new(history).certificate(level, &proof);
    assert!(verified.is_ok(), "{verified:?}\n{proof:?}\n{told}");
    true
}

/// Compares the two, and returns how many levels hold with a proof.
fn compare(history: &History, context: &str) -> usize {
    let mut proofs = 0;
    for (serial, mode) in [(false, Mode::Si), (true, Mode::Ser)] {
        for (exclusive, tie) in [(false, Tie::Inclusive), (true, Tie::Exclusive)] {
            let (expected, unjudged) = stamp_faults(history, StampRule { serial, exclusive });
            let rule = Rule { mode, tie };
            let find = |limit| find(history, rule, limit, 2.try_into().unwrap(), &Budget::unlimited());
            let found = find(usize::MAX).unwrap().unwrap();
            let told = || format!("{context}, {rule:?}\n{}", shown(history));
            assert_eq!(identities(&found), expected, "{}", told());
            assert_eq!(found.listed.len(), expected.len(), "one entry each: {}", told());
            assert_eq!(found.unjudged, unjudged, "{}", told());
            for axiom in Axiom::ALL {
                let count = expected.iter().filter(|f| f.code == axiom.code()).count();
                assert_eq!(found.count(axiom), count as u64, "{axiom:?} {}", told());
            }
            proofs += usize::from(found.listed.is_empty() && is_proven(history, rule, &told()));
            // Counts do not depend on how many are listed, and those listed are the first.
            let few = find(1).unwrap().unwrap();
            assert_eq!(few.counts, found.counts, "{}", told());
            for axiom in Axiom::ALL {
                let first = |f: &Findings| f.listed.iter().find(|v| v.axiom == axiom).copied();
                assert_eq!(
                    first(&few).map(|v| v.identity()),
                    first(&found).map(|v| v.identity()),
                    "{}",
                    told()
                );
            }
        }
    }
    proofs
}

fn run(family: &str, shape: StampedShape) -> usize {
    let mut proofs = 0;
    let cases = number("ANOMALIST_ORACLE_CASES", 3_000);
    let seed = number("ANOMALIST_SEED", 20_261_116);
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        proofs +=
            compare(&stamped(&mut rng, &shape), &format!("{family}, ANOMALIST_SEED={seed}, case {case}"));
    }
    proofs
}

#[test]
fn registers() {
    assert!(run("registers", StampedShape { wrong: 0.05, ..StampedShape::default() }) > 0);
    run("registers", StampedShape::default());
}

#[test]
fn ties() {
    run("ties", StampedShape { clock: 6, ..StampedShape::default() });
}

#[test]
fn lists() {
    let shape = StampedShape { lists: 1.0, clock: 30, ..StampedShape::default() };
    assert!(run("right lists", StampedShape { wrong: 0.05, ..shape }) > 0);
    run("lists", shape);
}

#[test]
fn lists_with_ties() {
    run(
        "lists with ties",
        StampedShape { lists: 1.0, clock: 5, txns: 6, repeated: 0.2, ..StampedShape::default() },
    );
}

#[test]
fn clocks_that_go_back() {
    run("skewed", StampedShape { skewed: 0.4, lists: 0.3, clock: 12, ..StampedShape::default() });
}

#[test]
fn sets() {
    run("sets", StampedShape { sets: 0.8, lists: 0.3, ..StampedShape::default() });
}

#[test]
fn anything() {
    let shape = StampedShape {
        clock: 9,
        txns: 7,
        lists: 0.5,
        mixed: 0.1,
        wrong: 0.3,
        skewed: 0.1,
        points: 0.3,
        lost: 0.3,
        sets: 0.2,
        repeated: 0.3,
    };
    run("anything", shape);
}
