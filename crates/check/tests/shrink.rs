//! Shrinking keeps the violation, by the oracle, and leaves nothing that could go.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::shrink::{Goal, NothingToShrink, shrink, tighten};
use anomalist_check::{Budget, Request, check};
use anomalist_history::{Filter, History, Indexed, KeyId, OpId, TxnId, Value};
use anomalist_level::{Anomaly, AnomalyKind, Level, Verdict};
use anomalist_testkit::mini;
use anomalist_testkit::oracle;
use anomalist_testkit::random::{self, Shape};
use anomalist_verify::Verifier;

/// Everything but one operation and, if it writes, what depends on it.
struct Without<'a>(&'a History, OpId);

impl Filter for Without<'_> {
    fn txn(&self, t: TxnId) -> bool {
        self.0.op_range(t).any(|i| self.op(OpId(i as u32)))
    }

    fn op(&self, op: OpId) -> bool {
        let (gone, o) = (self.0.op(self.1), self.0.op(op));
        let writes = gone.kind != anomalist_history::OpKind::Read;
        let reads_it =
            writes && o.kind == anomalist_history::OpKind::Read && (o.key, o.value) == (gone.key, gone.value);
        op != self.1 && !reads_it
    }

    fn element(&self, key: KeyId, element: Value) -> bool {
        let gone = self.0.op(self.1);
        gone.kind == anomalist_history::OpKind::Read || (key, element) != (gone.key, gone.value)
    }
}

#[test]
fn what_is_left_violates_the_level_and_nothing_can_go() {
    let cases = std::env::var("ANOMALIST_ORACLE_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(400u64);
    let seed = std::env::var("ANOMALIST_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(8u64);
    let shapes = [Shape::default(), Shape::faulty(), Shape::lists(), Shape::uncertain()];
    let mut shrunk_any = 0;
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = random::tiny(&mut rng, &shapes[case as usize % shapes.len()]);
        for (level, weak) in oracle::weak_levels() {
            let shown = || format!("{level}, seed {seed}, case {case}: {}", mini::print(&history));
            let shrunk = match shrink(&history, Goal::level(level), &Budget::unlimited()) {
                Ok(shrunk) => shrunk,
                Err(NothingToShrink::NotViolated(_)) => {
                    assert!(oracle::satisfies(&history, weak), "{}", shown());
                    continue;
                }
                Err(other) => panic!("{other}: {}", shown()),
            };
            shrunk_any += 1;
            let left = &shrunk.history;
            assert!(shrunk.minimal, "{}", shown());
            assert!(!oracle::satisfies(&history, weak), "{}", shown());
            assert!(!oracle::satisfies(left, weak), "{}\n{}", shown(), mini::print(left));
            for op in (0..left.op_count() as u32).map(OpId) {
                let (fewer, _) = left.filtered(&Without(left, op)).unwrap();
                if fewer.txn_count() > 0 {
                    assert!(oracle::satisfies(&fewer, weak), "{}\n{}", shown(), mini::print(left));
                }
            }
            for (new, old) in left.txns().zip(&shrunk.origin.txns) {
                assert_eq!(left.outcome(new), history.outcome(*old));
                assert_eq!(
                    left.show(left.session_label(left.session_of(new))).to_string(),
                    history.show(history.session_label(history.session_of(*old))).to_string()
                );
            }
        }
    }
    assert!(shrunk_any > 100);
}

#[test]
fn the_kind_of_anomaly_is_kept_on_request() {
    let history = mini::history("w(x,1); w(x,2) w(y,1) || r(y,1) r(x,1) r(q,9) || w(z,1) !abort || r(z,1)");
    let level = Level::ReadCommitted;
    for (kind, transactions) in
        [(AnomalyKind::ThinAirRead, 1), (AnomalyKind::AbortedRead, 2), (AnomalyKind::NonMonoReadCo, 3)]
    {
        let shrunk =
            shrink(&history, Goal { anomaly: Some(kind), ..Goal::level(level) }, &Budget::unlimited())
                .unwrap();
        assert_eq!(shrunk.history.txn_count(), transactions, "{kind}: {}", mini::print(&shrunk.history));
        assert!(shrunk.judgement.anomalies.iter().any(|a| a.kind == kind));
    }
    // Shapes of cycles, too.
    let skew = mini::history("r(x,0) w(y,1) || r(y,0) w(x,1) || r(z,0) w(z,1) || r(z,0) w(z,2)");
    for (kind, transactions) in [(AnomalyKind::WriteSkew, 2), (AnomalyKind::LostUpdate, 2)] {
        let goal = Goal { anomaly: Some(kind), ..Goal::level(Level::Serializable) };
        let shrunk = shrink(&skew, goal, &Budget::unlimited()).unwrap();
        assert_eq!(shrunk.history.txn_count(), transactions, "{kind}: {}", mini::print(&shrunk.history));
        let is = |a: &Anomaly| a.kind == kind || a.pattern(&shrunk.history) == Some(kind);
        assert!(shrunk.judgement.anomalies.iter().any(is), "{kind}: {}", mini::print(&shrunk.history));
    }
    let none = Goal { anomaly: Some(AnomalyKind::FutureRead), ..Goal::level(level) };
    assert_eq!(shrink(&history, none, &Budget::unlimited()).unwrap_err(), NothingToShrink::NoSuchAnomaly);
}

/// The refutation of the part refutes the whole.
#[test]
fn tightened_proofs_verify() {
    let mut tightened = 0;
    for seed in 0..1_200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let shape = Shape { txns: 6..=14, sessions: 3..=6, keys: 2..=4, reads: 0.4, ..Shape::default() };
        let shapes = [shape.clone(), Shape { repeated: 0.1, indeterminate: 0.1, ..shape }];
        let history = random::tiny(&mut rng, &shapes[seed as usize % 2]);
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        let levels = vec![Level::Serializable, Level::SnapshotIsolation, Level::Prefix];
        let request = Request { levels, certificates: true, ..Request::default() };
        let judgement = check(&indexed, &request, &Budget::unlimited());
        let mut smaller = judgement.clone();
        tighten(&history, &mut smaller, &Budget::unlimited());
        tightened += u32::from(smaller != judgement);
        if let Err(flaw) = Verifier::new(&history).judgement(&smaller) {
            panic!("seed {seed}: {}\n{smaller:#?}\n{}", flaw.message(&history), mini::print(&history));
        }
    }
    assert!(tightened > 2, "{tightened}");
}

#[test]
fn a_spent_budget_leaves_the_best_so_far() {
    let history = mini::history("w(z,1); w(x,1) w(y,1) || r(x,0) r(y,1); w(z,2)");
    let polls = std::sync::atomic::AtomicU32::new(0);
    for limit in 0..60 {
        polls.store(0, std::sync::atomic::Ordering::Relaxed);
        let spent = || polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= limit;
        let goal = Goal::level(Level::ReadAtomic);
        if let Ok(shrunk) = shrink(&history, goal, &Budget::new(&spent)) {
            let indexed = Indexed::new(&shrunk.history, 1.try_into().unwrap());
            let again = check(&indexed, &Request::default(), &Budget::unlimited());
            assert_eq!(again.verdict(Level::ReadAtomic), Some(&Verdict::Violated));
        }
    }
}
