//! The Adya engine against the definitions, on many small random histories.
//!
//! Every anomaly it reports exists in every interpretation of the history, and every verdict is the
//! oracle's; unknown is an answer only where the order of versions is open. `ANOMALIST_ORACLE_CASES` and
//! `ANOMALIST_SEED` as in `oracle.rs`.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed};
use anomalist_level::{
    AnomalyKind, Certificate, Evidence, Execution, Judgement, Level, Node, Verdict, VersionReason,
};
use anomalist_testkit::mini;
use anomalist_testkit::number;
use anomalist_testkit::oracle::adya::{Interpretations, Needs, Operational, Phenomenon, interpretations};
use anomalist_testkit::oracle::{strong_levels, strongly_satisfies};
use anomalist_testkit::random::{self, Pattern, Reference, Shape};
use anomalist_verify::Verifier;

fn judge(history: &History) -> Judgement {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let request = Request { levels: Level::ALL.to_vec(), certificates: true, ..Request::default() };
    check(&indexed, &request, &Budget::unlimited())
}

fn phenomenon(kind: AnomalyKind) -> Option<(Phenomenon, Needs)> {
    let code = kind.code();
    let (base, needs) = match code {
        _ if code.ends_with("-process") => (code.trim_end_matches("-process"), Needs::Session),
        _ if code.ends_with("-realtime") => (code.trim_end_matches("-realtime"), Needs::RealTime),
        _ => (code, Needs::Nothing),
    };
    let phenomenon = match base {
        "G0" => Phenomenon::G0,
        "G1c" => Phenomenon::G1c,
        "G-single-item" => Phenomenon::GSingle,
        "G-nonadjacent-item" => Phenomenon::GNonadjacent,
        "G2-item" => Phenomenon::G2,
        _ => return None,
    };
    Some((phenomenon, needs))
}

/// What the oracle says about the levels that are sets of forbidden cycles.
fn expected(all: &Interpretations, level: Level) -> Option<bool> {
    use Phenomenon::{G0, G1c, GSingle};
    Some(match level {
        Level::ReadUncommitted => all.possible(&[G0], Needs::Nothing),
        Level::AdyaReadCommitted => !all.dirty && all.possible(&[G0, G1c], Needs::Nothing),
        Level::StrongSessionReadCommitted => !all.dirty && all.possible(&[G0, G1c], Needs::Session),
        Level::StrongReadCommitted => !all.dirty && all.possible(&[G0, G1c], Needs::RealTime),
        Level::UpdateSerializable => !all.dirty && !all.internal && all.updates_possible(),
        Level::ConsistentView | Level::ForwardConsistentView => {
            !all.dirty && all.possible(&[G0, G1c, GSingle], Needs::Nothing)
        }
        Level::MonotonicView => !all.dirty && all.operationally_possible(Operational::Monotonic),
        Level::MonotonicSnapshotRead => !all.dirty && all.operationally_possible(Operational::Snapshots),
        Level::CursorStability => !all.dirty && all.operationally_possible(Operational::Cursor),
        Level::ElleReadAtomic | Level::EllePrefix | Level::ElleCausalCerone => {
            !all.dirty && !all.internal && all.possible(&[G0, G1c], Needs::Nothing)
        }
        _ => return None,
    })
}

fn compare(history: &History, context: &str) {
    let Some(all) = interpretations(history, 2000) else { return };
    let judgement = judge(history);
    let shown = || format!("{context}\n{}\n{:?}", mini::print(history), history.intervals());
    let verified = Verifier::new(history).judgement(&judgement);
    assert!(verified.is_ok(), "{:?}\n{:?}\n{}", verified, judgement.anomalies, shown());
    for anomaly in &judgement.anomalies {
        if let Some((phenomenon, needs)) = phenomenon(anomaly.kind)
            && !is_of_the_solver(history, anomaly)
        {
            assert!(all.certain(phenomenon, needs), "{} is not certain: {}", anomaly.kind, shown());
            assert_cycle(anomaly, &shown());
        }
        if anomaly.kind == AnomalyKind::GUpdate {
            assert!(all.update_cycle_certain(), "G-update: {}", shown());
        }
        let operational = match anomaly.kind {
            AnomalyKind::GMonotonic => Operational::Monotonic,
            AnomalyKind::GMsr => Operational::Snapshots,
            AnomalyKind::GCursor => Operational::Cursor,
            _ => continue,
        };
        assert!(all.operationally_certain(operational), "{} is not certain: {}", anomaly.kind, shown());
        assert_cycle(anomaly, &shown());
    }
    let registers = history.has_registers();
    let timed = history.intervals().is_some();
    let agree = |level: Level, expected: bool| match judgement.verdict(level).unwrap() {
        Verdict::Holds => assert!(expected, "{level} holds, the oracle disagrees: {}", shown()),
        Verdict::Violated => assert!(!expected, "{level} violated, the oracle disagrees: {}", shown()),
        Verdict::Unknown(why) => {
            let open = registers
                && level.is_canonical()
                && !all.total
                && !matches!(level, Level::ReadUncommitted | Level::AdyaReadCommitted);
            let free = !all.total
                && matches!(
                    level,
                    Level::SnapshotIsolation
                        | Level::StrongSessionSnapshotIsolation
                        | Level::StrongSnapshotIsolation
                        | Level::ParallelSnapshotIsolation
                        | Level::UpdateSerializable
                );
            let operational =
                [Level::MonotonicView, Level::MonotonicSnapshotRead, Level::CursorStability].contains(&level);
            let free = free || operational && !all.total;
            // Reads that nothing explains are not for the searches that decide Elle's further models.
            let faulty = (all.dirty || all.internal) && !level.is_canonical();
            let untimed = level.info().real_time && !timed;
            let contradictory = level == Level::ReadUncommitted && all.dirty;
            assert!(
                open || free || faulty || untimed || contradictory,
                "{level} unknown ({why:?}): {}",
                shown()
            );
        }
    };
    for level in Level::ALL.iter().copied() {
        let strong = strong_levels().find(|(l, _)| *l == level).map(|(_, s)| strongly_satisfies(history, s));
        if let Some(expected) = strong.unwrap_or_else(|| expected(&all, level)) {
            agree(level, expected);
        }
        // What these levels forgive; all orders of more transactions would take as long as everything else.
        let loose = matches!(level, Level::ReadUncommitted | Level::AdyaReadCommitted);
        let few = loose && history.txn_count() <= 4;
        let tried = few.then(|| Verifier::new(history).try_everything(level)).flatten();
        match judgement.verdict(level).unwrap() {
            Verdict::Holds => assert_ne!(tried, Some(false), "{level} holds, no order does: {}", shown()),
            Verdict::Violated => assert_ne!(tried, Some(true), "{level} violated, some order: {}", shown()),
            Verdict::Unknown(_) => {}
        }
        let claimed = judgement.levels.iter().find(|l| l.level == level).unwrap();
        if claimed.verdict == Verdict::Violated && level.is_canonical() {
            assert!(!claimed.anomalies.is_empty(), "{level}: {}", shown());
        }
    }
}

/// The solver orders a register's versions by what else would be circular: such an anomaly, or another, is
/// certain.
fn is_of_the_solver(history: &History, anomaly: &anomalist_level::Anomaly) -> bool {
    let register = |read| history.list(history.op(read).value).is_none();
    anomaly.witness.edges.iter().any(|e| match e.evidence {
        Evidence::Version { read, .. } => register(read),
        Evidence::Overwritten { reason: VersionReason::ReadThenWritten { .. }, .. } => true,
        _ => false,
    })
}

/// The edges of a cycle join, close, and have their operations in the right transactions.
fn assert_cycle(anomaly: &anomalist_level::Anomaly, shown: &str) {
    let edges = &anomaly.witness.edges;
    assert!(!edges.is_empty(), "{}: {shown}", anomaly.kind);
    for (i, edge) in edges.iter().enumerate() {
        assert_eq!(edge.to, edges[(i + 1) % edges.len()].from, "{}: {shown}", anomaly.kind);
        assert!(matches!(edge.from, Node::Txn(_)), "{}: {shown}", anomaly.kind);
        assert!(!matches!(edge.evidence, Evidence::Forced { .. }), "{}: {shown}", anomaly.kind);
    }
}

fn run(family: &str, make: impl Fn(&mut fastrand::Rng) -> History) {
    let cases = number("ANOMALIST_ORACLE_CASES", 1_500);
    let seed = number("ANOMALIST_SEED", 20_261_116);
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = make(&mut rng);
        compare(&history, &format!("{family}, ANOMALIST_SEED={seed}, case {case}"));
    }
}

fn small(shape: Shape) -> Shape {
    Shape { txns: 2..=6, ops: 1..=3, ..shape }
}

#[test]
fn lists() {
    run("lists", |rng| random::tiny(rng, &small(Shape::lists())));
}

#[test]
fn timed_lists() {
    run("timed lists", |rng| random::tiny(rng, &small(Shape { lists: 1.0, ..Shape::timed() })));
}

#[test]
fn damaged_lists() {
    let shape = Shape { lists: 1.0, indeterminate: 0.2, unknown: 0.05, ..Shape::faulty() };
    run("damaged lists", |rng| random::tiny(rng, &small(shape.clone())));
}

#[test]
fn registers() {
    run("registers", |rng| random::tiny(rng, &small(Shape { keys: 1..=2, ..Shape::default() })));
}

#[test]
fn timed_registers() {
    run("timed registers", |rng| random::tiny(rng, &small(Shape { keys: 1..=2, ..Shape::timed() })));
}

#[test]
fn damaged_registers() {
    let shape = Shape { indeterminate: 0.2, unknown: 0.05, keys: 1..=2, ..Shape::faulty() };
    run("damaged registers", |rng| random::tiny(rng, &small(shape.clone())));
}

#[test]
fn anything() {
    run("anything", |rng| random::tiny(rng, &small(Shape::anything())));
}

#[test]
fn mutated_executions() {
    run("mutated", |rng| {
        let reference = *rng.choice(&Reference::ALL[..]).unwrap();
        random::mutated(rng, reference, &small(Shape::lists()))
    });
}

#[test]
fn structured() {
    run("structured", |rng| {
        let pattern = *rng.choice(&Pattern::ALL[..]).unwrap();
        random::structured(rng, pattern, &small(Shape::default()))
    });
}

/// PL-2 forgives ignoring an own write, not what was read instead; PL-1 still has lists show an order.
#[test]
fn what_a_faulty_own_read_shows_counts() {
    for (text, level) in [
        ("r(x,1) w(x,1)", Level::AdyaReadCommitted),
        ("w(x,2) w(x,3) || w(x,1) r(x,2)", Level::AdyaReadCommitted),
        ("w(x,2) r(y,3) || w(x,1) r(x,2) w(y,3)", Level::AdyaReadCommitted),
        ("a(x,1) || a(x,4) r(x,[4 1])", Level::AdyaReadCommitted),
        ("a(x,1) || a(x,4) r(x,[4 1]) a(x,6)", Level::ReadUncommitted),
        // One transaction's append between those of another, garbage or not.
        ("a(z,1) a(z,3); a(z,7) r(z,[1000 1 8 3 7]) a(z,8)", Level::ReadUncommitted),
    ] {
        let history = mini::history(text);
        compare(&history, text);
        assert_eq!(judge(&history).verdict(level), Some(&Verdict::Violated), "{text}");
        assert_eq!(Verifier::new(&history).try_everything(level), Some(false), "{text}");
        let order = Certificate::Holds(Execution::commits(history.txns().collect()));
        assert!(Verifier::new(&history).certificate(level, &order).is_err(), "{text}");
    }
    let forgiven = mini::history("w(x,2) || w(x,1) r(x,2)");
    assert_eq!(Verifier::new(&forgiven).try_everything(Level::AdyaReadCommitted), Some(true));
}

/// It is not known when the write took effect: perhaps after the session's next transaction.
#[test]
fn nothing_follows_a_transaction_of_unknown_outcome() {
    let history = mini::history("w(x,1) !info; r(x,0) || r(x,1)");
    compare(&history, "unknown outcome");
    assert_eq!(judge(&history).verdict(Level::StrongSessionSerializable), Some(&Verdict::Holds));
}

/// Other tools call this valid: one operation per transaction, and each session sees the other's write
/// after its own.
#[test]
fn each_session_sees_the_others_write_after_its_own() {
    let history = mini::history("r(x,0); w(x,100); r(x,200) || w(x,200); r(x,100)");
    let judgement = judge(&history);
    for level in [Level::StrongSessionSerializable, Level::StrictSerializable] {
        assert_eq!(judgement.verdict(level), Some(&Verdict::Violated), "{level}");
    }
    // Sessions aside it is one transaction after another.
    assert_ne!(judgement.verdict(Level::Serializable), Some(&Verdict::Violated));
}
