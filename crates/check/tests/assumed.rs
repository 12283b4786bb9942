//! What is assumed about registers, against the definitions: every order of versions that agrees with the
//! assumptions is tried, and every fate of transactions whose outcome is not known.
//!
//! A reported anomaly is in all of them, a level holds if it does in one of them, and versions are circular
//! if there is none. `ANOMALIST_ORACLE_CASES` and `ANOMALIST_SEED` as in `oracle.rs`.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Inference, Request, check};
use anomalist_history::{Builder, History, Indexed, OpKind, TxnId, Value};
use anomalist_level::{AnomalyKind, Evidence, Judgement, Level, Verdict, VersionReason};
use anomalist_testkit::oracle::adya::{Assumed, Interpretations, Needs, Phenomenon, interpretations_under};
use anomalist_testkit::oracle::{self, Oracle, satisfies_in, strongly_satisfies_in};
use anomalist_testkit::random::{self, Shape, StampedShape};
use anomalist_testkit::{mini, number};
use anomalist_verify::Verifier;

fn judge(history: &History, inference: Inference) -> Judgement {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let request =
        Request { levels: Level::ALL.to_vec(), certificates: true, inference, ..Request::default() };
    check(&indexed, &request, &Budget::unlimited())
}

fn inference(assumed: &Assumed) -> Inference {
    Inference {
        writes_follow_reads: assumed.writes_follow_reads,
        sequential_keys: assumed.sequential_keys,
        linearizable_keys: assumed.linearizable_keys,
        commit_stamps: assumed.commit_stamps,
        version_numbers: assumed.version_numbers,
        transaction_order: assumed.transaction_order.iter().copied().collect(),
    }
}

/// Whether some interpretation satisfies a level.
fn expected(history: &History, all: &Interpretations, level: Level) -> Option<bool> {
    use Phenomenon::{G0, G1c};
    let orders = || all.likely.iter().map(|i| i.version_order());
    if let Some(Oracle::Strong(strong)) = &oracle::of(level) {
        strongly_satisfies_in(history, *strong, &[])?;
        return Some(orders().any(|o| strongly_satisfies_in(history, *strong, &o) == Some(true)));
    }
    if let Some(Oracle::Weak(weak)) = oracle::of(level).filter(|_| level != Level::CutIsolation).as_ref() {
        return Some(orders().any(|o| satisfies_in(history, *weak, &o)));
    }
    Some(match level {
        Level::ReadUncommitted => all.possible(&[G0], Needs::Nothing),
        Level::AdyaReadCommitted => !all.dirty && all.possible(&[G0, G1c], Needs::Nothing),
        Level::StrongSessionReadCommitted => !all.dirty && all.possible(&[G0, G1c], Needs::Session),
        Level::StrongReadCommitted if history.intervals().is_some() => {
            !all.dirty && all.possible(&[G0, G1c], Needs::RealTime)
        }
        Level::UpdateSerializable => !all.dirty && !all.internal && all.updates_possible(),
        _ => return None,
    })
}

fn phenomenon(kind: AnomalyKind) -> Option<(Phenomenon, Needs)> {
    let code = kind.code();
    let (base, needs) = match code.rsplit_once('-') {
        Some((base, "process")) => (base, Needs::Session),
        Some((base, "realtime")) => (base, Needs::RealTime),
        _ => (code, Needs::Nothing),
    };
    Some(match base {
        "G0" => (Phenomenon::G0, needs),
        "G1c" => (Phenomenon::G1c, needs),
        "G-single-item" => (Phenomenon::GSingle, needs),
        "G-nonadjacent-item" => (Phenomenon::GNonadjacent, needs),
        "G2-item" => (Phenomenon::G2, needs),
        _ => return None,
    })
}

/// The solver orders a register's versions by what else would be circular: such an anomaly, or another, is
/// certain.
fn is_of_the_solver(anomaly: &anomalist_level::Anomaly, assumed: &Assumed) -> bool {
    let follow = assumed.writes_follow_reads || assumed.sequential_keys || assumed.linearizable_keys;
    anomaly.witness.edges.iter().any(|e| match e.evidence {
        Evidence::Version { .. } => true,
        Evidence::Overwritten { reason: VersionReason::ReadThenWritten { .. }, .. } => !follow,
        _ => false,
    })
}

/// Compares, and says how many levels were violated, held, and were left open.
fn compare(history: &History, assumed: &Assumed, context: &str) -> Option<[usize; 3]> {
    let all = interpretations_under(history, assumed, 60)?;
    let judgement = judge(history, inference(assumed));
    let shown = || {
        let stamps = history.stamps();
        let print = mini::print(history);
        format!("{context}\n{assumed:?}\n{print}\n{:?}\n{stamps:?}", history.intervals())
    };
    let verified = Verifier::new(history).trusting(true).judgement(&judgement);
    assert!(verified.is_ok(), "{verified:?}\n{:?}\n{}", judgement.anomalies, shown());
    let circular = judgement.anomalies.iter().find(|a| a.kind == AnomalyKind::CyclicVersions);
    assert_eq!(circular.map_or(0, |a| a.count), all.contradicted as u64, "cyclic versions: {}", shown());
    for anomaly in &judgement.anomalies {
        if let Some((phenomenon, needs)) = phenomenon(anomaly.kind)
            && !is_of_the_solver(anomaly, assumed)
        {
            assert!(all.certain(phenomenon, needs), "{} is not certain: {}", anomaly.kind, shown());
        }
    }
    let mut counts = [0; 3];
    for &level in Level::ALL {
        let Some(expected) = expected(history, &all, level) else { continue };
        let expected = expected && (all.contradicted == 0 || !level.forbids(AnomalyKind::CyclicVersions));
        match judgement.verdict(level).unwrap() {
            Verdict::Holds => {
                assert!(expected, "{level} holds, the oracle disagrees: {}", shown());
                counts[1] += 1;
            }
            Verdict::Violated => {
                assert!(!expected, "{level} violated, the oracle disagrees: {}", shown());
                counts[0] += 1;
            }
            Verdict::Unknown(why) => {
                let open = !all.total && level == Level::UpdateSerializable;
                // PL-1 allows reads of what may have been aborted.
                let unknown = |t| history.outcome(t) == anomalist_history::Outcome::Indeterminate;
                let faulty =
                    (all.dirty || history.txns().any(unknown)) && !level.forbids(AnomalyKind::AbortedRead);
                assert!(open || faulty, "{level} unknown ({why:?}): {}", shown());
                counts[2] += 1;
            }
        }
    }
    Some(counts)
}

fn run(family: &str, make: impl Fn(&mut fastrand::Rng) -> (History, Assumed)) {
    let cases = number("ANOMALIST_ORACLE_CASES", 1_000);
    let seed = number("ANOMALIST_SEED", 20_261_116);
    let (mut compared, mut sum) = (0, [0; 3]);
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let (history, assumed) = make(&mut rng);
        if let Some(counts) =
            compare(&history, &assumed, &format!("{family}, ANOMALIST_SEED={seed}, case {case}"))
        {
            compared += 1;
            (0..3).for_each(|i| sum[i] += counts[i]);
        }
    }
    assert!(compared * 3 > cases, "only {compared} of {cases} could be compared");
    assert!(sum[0] > 0 && sum[1] > 0, "{family}: violated {}, hold {}", sum[0], sum[1]);
}

fn registers() -> Shape {
    Shape { txns: 2..=6, ops: 1..=3, keys: 1..=2, indeterminate: 0.1, ..Shape::default() }
}

/// Writes follow reads, sequential or linearizable keys; at least one.
fn rules(rng: &mut fastrand::Rng) -> Assumed {
    let bits = rng.u8(1..8);
    Assumed {
        writes_follow_reads: bits & 1 != 0,
        sequential_keys: bits & 2 != 0,
        linearizable_keys: bits & 4 != 0,
        ..Assumed::default()
    }
}

/// Numbers for some of the transactions, with ties.
fn order(rng: &mut fastrand::Rng, history: &History) -> Vec<(TxnId, i64)> {
    let known = if rng.bool() { 1.0 } else { 0.6 };
    let some: Vec<TxnId> = history.txns().filter(|_| rng.f64() < known).collect();
    some.into_iter().map(|t| (t, rng.i64(0..8))).collect()
}

#[test]
fn writes_follow_reads() {
    run("writes follow reads", |rng| {
        let history = random::tiny(rng, &registers());
        (history, Assumed { writes_follow_reads: true, ..Assumed::default() })
    });
}

#[test]
fn sequential_keys() {
    run("sequential keys", |rng| {
        let history = random::tiny(rng, &Shape { sessions: 1..=3, ..registers() });
        (history, Assumed { sequential_keys: true, ..Assumed::default() })
    });
}

#[test]
fn linearizable_keys() {
    run("linearizable keys", |rng| {
        let history = random::tiny(rng, &Shape { timed: 0.95, ..registers() });
        (history, Assumed { linearizable_keys: true, ..Assumed::default() })
    });
}

#[test]
fn given_transaction_orders() {
    run("transaction order", |rng| {
        let history = random::tiny(rng, &registers());
        let transaction_order = order(rng, &history);
        (history, Assumed { transaction_order, ..Assumed::default() })
    });
}

#[test]
fn commit_timestamps() {
    run("commit timestamps", |rng| {
        let shape = StampedShape { lists: 0.0, txns: 5, ..StampedShape::default() };
        (random::stamped(rng, &shape), Assumed { commit_stamps: true, ..Assumed::default() })
    });
}

#[test]
fn version_numbers() {
    run("version numbers", |rng| {
        let history = random::tiny(rng, &registers());
        (numbered(rng, &history), Assumed { version_numbers: true, ..Assumed::default() })
    });
}

#[test]
fn everything_that_can_go_wrong() {
    run("faulty", |rng| {
        let shape = Shape { unknown: 0.05, timed: 0.5, indeterminate: 0.1, ..Shape::faulty() };
        let history = random::tiny(rng, &Shape { txns: 2..=6, ops: 1..=3, keys: 1..=2, ..shape });
        let mut assumed = rules(rng);
        if rng.u8(..4) == 0 {
            assumed.transaction_order = order(rng, &history);
        }
        (history, assumed)
    });
}

#[test]
fn several_assumptions_of_several_keys() {
    // The oracle holds assumptions against registers only; lists are tested by the command line's `jepsen`
    // tests.
    run("mixed", |rng| {
        let shape = Shape { keys: 2..=2, internal: true, timed: 0.5, ..registers() };
        let history = random::tiny(rng, &shape);
        (history, rules(rng))
    });
}

/// The history with version numbers: mostly those of one order of each key's versions, sometimes any.
fn numbered(rng: &mut fastrand::Rng, history: &History) -> History {
    let rank: Vec<i64> = history.txns().map(|_| rng.i64(0..6)).collect();
    let wrong = if rng.bool() { 0.0 } else { 0.1 };
    let known = if rng.bool() { 1.0 } else { 0.7 };
    let mut b = Builder::new();
    b.set_initial_default(history.initial().default);
    for t in history.txns() {
        let session = b.session(Value::int(i64::from(history.session_of(t).0) + 1).unwrap());
        let draft = b.transaction(session);
        b.set_outcome(draft, history.outcome(t));
        for (place, (_, o)) in (0..).zip(history.ops(t)) {
            let key = b.key(Value::int(i64::from(o.key.0)).unwrap());
            b.op(draft, o.kind, key, o.value);
            let of = |w: TxnId| {
                let wrote = |p: anomalist_history::Op| {
                    p.kind == OpKind::Write && (p.key, p.value) == (o.key, o.value)
                };
                history.ops(w).any(|(_, p)| wrote(p))
            };
            let number = match o.kind {
                OpKind::Read => history.txns().find(|&w| of(w)).map_or(-1, |w| rank[w.index()]),
                _ => rank[t.index()],
            };
            if rng.f64() < known {
                b.set_version(draft, place, if rng.f64() < wrong { rng.i64(-1..6) } else { number });
            }
        }
    }
    b.finish().unwrap()
}
