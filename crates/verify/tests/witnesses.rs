//! A witness with anything changed is refused, or what it says is still true of the history by the oracle's
//! count.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed, OpId, TxnId};
use anomalist_level::{Anomaly, AnomalyKind, Edge, Evidence, Node, Relation};
use anomalist_testkit::mini;
use anomalist_testkit::oracle::{self, WeakLevel};
use anomalist_testkit::random::{self, Shape};
use anomalist_verify::Verifier;

/// Is it true that the history has this anomaly? `None`: the oracle does not know.
fn is_true(history: &History, kind: AnomalyKind) -> Option<bool> {
    let taps = oracle::taps(history);
    // A witness may be filed under a weaker pattern than the strictest that fits.
    let any = |letters: &str| Some(letters.chars().any(|l| taps.get(l) > 0));
    let broken = |level| Some(!oracle::satisfies(history, level));
    match kind {
        AnomalyKind::ThinAirRead => any("a"),
        AnomalyKind::AbortedRead => any("b"),
        AnomalyKind::FutureRead => any("c"),
        AnomalyKind::NotMyOwnWrite => any("d"),
        AnomalyKind::NotMyLastWrite => any("e"),
        AnomalyKind::IntermediateRead => any("f"),
        AnomalyKind::CyclicCo => any("g"),
        AnomalyKind::NonRepeatableRead => any("j"),
        AnomalyKind::NonMonoReadCo => any("h"),
        AnomalyKind::NonMonoReadCm => broken(WeakLevel::ReadCommitted),
        AnomalyKind::FracturedReadCo | AnomalyKind::FracturedReadCm => broken(WeakLevel::ReadAtomic),
        AnomalyKind::CoConflictCm | AnomalyKind::ConflictCm => broken(WeakLevel::Causal),
        AnomalyKind::NotReadYourWrites => broken(WeakLevel::ReadYourWrites),
        AnomalyKind::NonMonotonicReads => broken(WeakLevel::MonotonicReads),
        AnomalyKind::NonMonotonicWrites => broken(WeakLevel::MonotonicWrites),
        AnomalyKind::WritesDontFollowReads => broken(WeakLevel::WritesFollowReads),
        AnomalyKind::IncompatibleOrder
        | AnomalyKind::DuplicateElements
        | AnomalyKind::G0
        | AnomalyKind::G1c
        | AnomalyKind::G0Process
        | AnomalyKind::G1cProcess => broken(WeakLevel::ReadCommitted),
        _ => None,
    }
}

fn some_op(history: &History, rng: &mut fastrand::Rng) -> OpId {
    OpId(rng.u32(..history.op_count() as u32 + 1))
}

fn mutate_edge(edge: &mut Edge, history: &History, rng: &mut fastrand::Rng) {
    let node = |rng: &mut fastrand::Rng| match rng.u32(..5) {
        0 => Node::Initial,
        _ => Node::Txn(TxnId(rng.u32(..history.txn_count() as u32 + 1))),
    };
    const RELATIONS: [Relation; 6] = [
        Relation::SessionOrder,
        Relation::WriteRead,
        Relation::Required,
        Relation::VersionOrder,
        Relation::AntiDependency,
        Relation::RealTime,
    ];
    match rng.u32(..4) {
        0 => edge.from = node(rng),
        1 => edge.to = node(rng),
        2 => edge.relation = RELATIONS[rng.usize(..RELATIONS.len())],
        _ => match &mut edge.evidence {
            Evidence::Session | Evidence::RealTime => {
                edge.evidence = Evidence::Read { write: None, read: some_op(history, rng) };
            }
            Evidence::Read { write, read } => match rng.bool() {
                true => *write = rng.bool().then(|| some_op(history, rng)),
                false => *read = some_op(history, rng),
            },
            Evidence::Version { first, second, read } => match rng.u32(..3) {
                0 => *first = some_op(history, rng),
                1 => *second = some_op(history, rng),
                _ => *read = some_op(history, rng),
            },
            Evidence::Forced { read, overwritten, visible_write, path } => match rng.u32(..5) {
                0 => *read = some_op(history, rng),
                1 => *overwritten = rng.bool().then(|| some_op(history, rng)),
                2 => *visible_write = some_op(history, rng),
                3 => drop(path.pop()),
                _ => {
                    if let Some(inner) = path.first_mut() {
                        mutate_edge(inner, history, rng);
                    }
                }
            },
            Evidence::Overwritten { read, .. } => *read = some_op(history, rng),
            Evidence::Ordered { first, .. } => *first = some_op(history, rng),
            Evidence::Given { operations, .. } => operations.clear(),
        },
    }
}

fn mutate(anomaly: &Anomaly, history: &History, rng: &mut fastrand::Rng) -> Anomaly {
    let mut mutant = anomaly.clone();
    let witness = &mut mutant.witness;
    match rng.u32(..8) {
        0 => mutant.kind = AnomalyKind::ALL[rng.usize(..AnomalyKind::ALL.len())],
        1 => drop(witness.operations.pop()),
        2 => witness.operations.push(some_op(history, rng)),
        3 => drop(witness.transactions.pop()),
        4 if !witness.edges.is_empty() => {
            let at = rng.usize(..witness.edges.len());
            witness.edges.remove(at);
        }
        5 => witness.operations = vec![some_op(history, rng)],
        _ if !witness.edges.is_empty() => {
            let at = rng.usize(..witness.edges.len());
            mutate_edge(&mut witness.edges[at], history, rng);
        }
        _ => witness.operations.clear(),
    }
    if rng.bool() && witness.operations.iter().all(|op| op.index() < history.op_count()) {
        // With a matching cast, so that the edges themselves are looked at.
        let mut ops = witness.operations.clone();
        ops.extend(witness.edges.iter().flat_map(|e| e.evidence.operations()));
        ops.retain(|op| op.index() < history.op_count());
        let mut txns: Vec<TxnId> = ops.iter().map(|&op| history.txn_of(op)).collect();
        for node in witness.edges.iter().flat_map(|e| [e.from, e.to]) {
            if let Node::Txn(t) = node {
                txns.push(t);
            }
        }
        (witness.operations, witness.transactions) = (ops, txns);
    }
    mutant
}

#[test]
fn a_changed_witness_is_refused_or_still_true() {
    let cases = std::env::var("ANOMALIST_ORACLE_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(1_500);
    let seed = std::env::var("ANOMALIST_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(6u64);
    let shapes = [Shape::default(), Shape::faulty(), Shape::lists(), Shape::anything(), Shape::uncertain()];
    let (mut refused, mut true_still) = (0, 0);
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = random::tiny(&mut rng, &shapes[case as usize % shapes.len()]);
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        if indexed.index().ambiguous_reads() > 0 {
            continue;
        }
        let judgement = check(&indexed, &Request::default(), &Budget::unlimited());
        let verifier = Verifier::new(&history);
        for anomaly in &judgement.anomalies {
            for _ in 0..10 {
                let mutant = mutate(anomaly, &history, &mut rng);
                if verifier.anomaly(&mutant).is_err() {
                    refused += 1;
                } else if mutant.witness != anomaly.witness || mutant.kind != anomaly.kind {
                    true_still += 1;
                    let truth = is_true(&history, mutant.kind);
                    let shown = mini::print(&history);
                    assert_ne!(truth, Some(false), "seed {seed}, case {case}\n{mutant:#?}\n{shown}");
                }
            }
        }
    }
    assert!(refused > 0 && true_still > 0);
}
