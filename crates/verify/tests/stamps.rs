//! Claims about timestamps: a violation is accepted if and only if the oracle finds it; whatever the
//! checker finds is accepted; and what holds by timestamps has a certificate that verifies.
//!
//! `ANOMALIST_ORACLE_CASES` sets the number of histories per family, `ANOMALIST_SEED` the seed.

#![allow(clippy::unwrap_used)]

use anomalist_history::{History, OpId, OpKind, TxnId};
use anomalist_level::Budget;
use anomalist_level::{Anomaly, AnomalyKind, Level, Verdict, Witness};
use anomalist_testkit::number;
use anomalist_testkit::oracle::{StampRule, stamp_faults};
use anomalist_testkit::random::{StampedShape, stamped};
use anomalist_timestamp::Tie;
use anomalist_timestamp::offline::{ByStamps, certificate, judge};
use anomalist_verify::Verifier;
use fastrand::Rng;

/// Code, transaction, key or rank of the read, and the other transaction.
type Fault = (&'static str, TxnId, Option<u32>, Option<TxnId>);

/// Every claim that could be made, with what the oracle calls it.
fn claims(history: &History, serial: bool) -> Vec<(Anomaly, Fault)> {
    let mut claims = Vec::new();
    let mut claim = |kind, transactions: &[TxnId], operations: &[OpId], fault| {
        let witness = Witness {
            transactions: transactions.to_vec(),
            operations: operations.to_vec(),
            ..Witness::default()
        };
        claims.push((Anomaly::new(kind, 1, witness), fault));
    };
    let (session, ext) = match serial {
        true => (AnomalyKind::SessionCommit, AnomalyKind::ExtCommit),
        false => (AnomalyKind::SessionStamp, AnomalyKind::ExtStamp),
    };
    for t in history.txns() {
        claim(session, &[t], &[], ("SESSION", t, None, None));
        if !serial {
            claim(AnomalyKind::TimestampOrder, &[t], &[], ("TIMESTAMP", t, None, None));
        }
        for (op, o) in history.ops(t) {
            let rank = (op.index() - history.op_range(t).start) as u32;
            if o.kind == OpKind::Read {
                claim(ext, &[t], &[op], ("EXT", t, Some(o.key.0), None));
                claim(AnomalyKind::IntStamp, &[t], &[op], ("INT", t, Some(rank), None));
                if !serial {
                    claim(AnomalyKind::TieStamp, &[t], &[op], ("TIE", t, Some(o.key.0), None));
                }
                continue;
            }
            for other in history.txns().filter(|&other| !serial && other != t) {
                claim(
                    AnomalyKind::NoConflictStamp,
                    &[t, other],
                    &[op],
                    ("NOCONFLICT", other, Some(o.key.0), Some(t)),
                );
            }
        }
    }
    claims
}

fn run(family: &str, shape: &StampedShape) {
    let cases = number("ANOMALIST_ORACLE_CASES", 600);
    let seed = number("ANOMALIST_SEED", 20_261_116);
    let (mut accepted, mut refused, mut proven) = (0, 0, 0);
    for case in 0..cases {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = stamped(&mut rng, shape);
        let verifier = Verifier::new(&history);
        for (tie, exclusive) in [(Tie::Inclusive, false), (Tie::Exclusive, true)] {
            let reported = format!("{family}, ANOMALIST_SEED={seed}, case {case}, {tie:?}");
            let levels = vec![
                Level::SnapshotIsolation,
                Level::StrongSessionSnapshotIsolation,
                Level::Serializable,
                Level::StrongSessionSerializable,
            ];
            let request = ByStamps { levels, anomalies: None, tie, threads: 1.try_into().unwrap() };
            let (judgement, _) = judge(&history, &request, &Budget::unlimited()).unwrap();
            verifier
                .stamps(&judgement, exclusive)
                .unwrap_or_else(|f| panic!("{reported}: {}", f.message(&history)));
            for l in judgement.levels.iter().filter(|l| l.verdict == Verdict::Holds) {
                if let Some(proof) = certificate(&history, l.level, tie) {
                    let checked = verifier.certificate(l.level, &proof);
                    checked.unwrap_or_else(|f| panic!("{reported}, {}: {}", l.level, f.message(&history)));
                    proven += 1;
                }
            }
            for serial in [false, true] {
                let choices = stamp_faults(&history, StampRule { serial, exclusive });
                let [(faults, _)] = &choices[..] else {
                    let may_hold = |sessions: bool| {
                        let breaks = |code: &str| code != "TIE" && (sessions || code != "SESSION");
                        choices.iter().any(|(faults, _)| !faults.iter().any(|f| breaks(f.code)))
                    };
                    // INT is claimed of either mode.
                    let decisive =
                        claims(&history, serial).into_iter().filter(|(_, f)| !matches!(f.0, "TIE" | "INT"));
                    for (anomaly, (code, ..)) in decisive {
                        let got = verifier.stamps_anomaly(&anomaly, exclusive).is_ok();
                        assert!(
                            !got || !may_hold(code == "SESSION"),
                            "{reported}, serial {serial}: {anomaly:?} in some choice only"
                        );
                        if got { accepted += 1 } else { refused += 1 }
                    }
                    continue;
                };
                let other_mode = &stamp_faults(&history, StampRule { serial: !serial, exclusive })[0].0;
                for (anomaly, (code, txn, detail, other)) in claims(&history, serial) {
                    let is = |t: TxnId, o: Option<TxnId>| {
                        // A TIE is claimed of either mode.
                        let either = other_mode.iter().filter(|_| code == "TIE");
                        faults.iter().chain(either).any(|f| {
                            let same =
                                if code == "INT" { f.read == detail } else { f.key.map(|k| k.0) == detail };
                            f.code == code && f.txn == t && f.other == o && same
                        })
                    };
                    // Of a conflict either may be named first; of a key only one read is external.
                    let expected = is(txn, other) || other.is_some_and(|o| is(o, Some(txn)));
                    let got = verifier.stamps_anomaly(&anomaly, exclusive).is_ok();
                    let external = !matches!(code, "EXT" | "TIE") || got || {
                        let op = anomaly.witness.operations[0];
                        history.ops(txn).any(|(o, x)| o != op && x.key == history.op(op).key)
                    };
                    let agrees = got == expected || !got && expected && external;
                    assert!(agrees, "{reported}, serial {serial}: {anomaly:?} {got} {expected}");
                    if got { accepted += 1 } else { refused += 1 }
                }
            }
        }
    }
    assert!(accepted > cases && refused > cases, "{accepted} {refused} of {cases}");
    assert!(shape.clock < 1000 || proven > cases / 4, "{proven} proven of {cases}");
}

#[test]
fn registers() {
    run("registers", &StampedShape { lost: 0.2, skewed: 0.05, ..StampedShape::default() });
}

#[test]
fn ties_in_sessions() {
    let shape = StampedShape { clock: 3, points: 0.6, lists: 0.3, ..StampedShape::default() };
    run("ties in sessions", &shape);
    run("ties in sessions, sets", &StampedShape { sets: 0.4, clock: 5, skewed: 0.1, ..shape });
}

#[test]
fn distinct_timestamps() {
    run("distinct", &StampedShape { clock: 100_000, wrong: 0.02, txns: 5, ..StampedShape::default() });
}

#[test]
fn lists_with_ties() {
    let shape =
        StampedShape { lists: 0.7, mixed: 0.1, clock: 8, repeated: 0.1, lost: 0.1, ..Default::default() };
    run("lists with ties", &shape);
}

#[test]
fn sets() {
    run("sets", &StampedShape { sets: 0.6, clock: 15, ..StampedShape::default() });
}

#[test]
fn several_writers_of_unknown_outcome() {
    let shape =
        StampedShape { lost: 0.4, repeated: 0.6, txns: 6, clock: 12, lists: 0.3, ..StampedShape::default() };
    run("unknown outcomes", &shape);
}
