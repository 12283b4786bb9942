//! Mixed levels against the definition, on small random histories in which every transaction declares a level.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use isolde_check::{Budget, Request, check};
use isolde_history::{Builder, History, Index, Value, View};
use isolde_level::{Judgement, Level, Verdict};
use isolde_testkit::mini;
use isolde_testkit::oracle::{self, StrongLevel, WeakLevel};
use isolde_testkit::random::{self, Shape};

const MIXABLE: [Level; 18] = [
    Level::ReadUncommitted,
    Level::AdyaReadCommitted,
    Level::CutIsolation,
    Level::ReadCommitted,
    Level::ReadYourWrites,
    Level::MonotonicReads,
    Level::MonotonicWrites,
    Level::WritesFollowReads,
    Level::ReadAtomic,
    Level::Causal,
    Level::Prefix,
    Level::SnapshotIsolation,
    Level::StrongSessionSnapshotIsolation,
    Level::StrongSnapshotIsolation,
    Level::RepeatableRead,
    Level::Serializable,
    Level::StrongSessionSerializable,
    Level::StrictSerializable,
];

/// The same history with levels declared, by transaction.
fn declare(history: &History, levels: &[Level]) -> History {
    let mut b = Builder::new();
    b.set_initial_default(history.initial().default);
    let mut txns: Vec<_> = history.txns().collect();
    txns.sort_by_key(|&t| history.position(t));
    let moved = |b: &mut Builder, value: Value| match value.view() {
        View::List(_) => b.list(history.list(value).unwrap()),
        View::Atom(id) => {
            let (kind, text) = history.atom(id);
            b.atom(kind, text)
        }
        _ => value,
    };
    for t in txns {
        let label = moved(&mut b, history.session_label(history.session_of(t)));
        let session = b.session(label);
        let draft = b.transaction(session);
        b.set_outcome(draft, history.outcome(t));
        b.set_metadata(draft, "level", levels[t.index()].name());
        if let Some(intervals) = history.intervals() {
            b.set_interval(draft, intervals[t.index()]);
        }
        for (_, op) in history.ops(t) {
            let label = moved(&mut b, history.key_label(op.key));
            let key = b.key(label);
            let value = moved(&mut b, op.value);
            b.op(draft, op.kind, key, value);
        }
    }
    b.finish().unwrap()
}

fn judge(history: &History) -> Judgement {
    let index = Index::build(history, 1.try_into().unwrap());
    let request = Request { levels: vec![Level::ReadUncommitted], ..Request::default() };
    check(history, &index, &request, &Budget::unlimited())
}

fn sound(history: &History) -> bool {
    let index = Index::build(history, 1.try_into().unwrap());
    index.faults().is_empty() && index.ambiguous_reads() == 0
}

#[test]
fn agrees_with_the_definition() {
    let cases = std::env::var("ISOLDE_ORACLE_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(6_000u64);
    let seed = std::env::var("ISOLDE_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(9u64);
    let small = |shape: Shape| Shape { txns: 2..=5, ops: 1..=3, ..shape };
    let shapes = [
        small(Shape::default()),
        small(Shape { internal: false, ..Shape::lists() }),
        small(Shape::uncertain()),
        small(Shape::timed()),
    ];
    let mut seen = [0; 2];
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = random::tiny(&mut rng, &shapes[case as usize % shapes.len()]);
        if !sound(&history) {
            continue;
        }
        // A few levels at a time, so that they meet.
        let few: Vec<Level> = (0..rng.usize(1..4)).map(|_| *rng.choice(&MIXABLE[..]).unwrap()).collect();
        let levels: Vec<Level> = history.txns().map(|_| *rng.choice(&few[..]).unwrap()).collect();
        let declared = declare(&history, &levels);
        // Ids may have changed: sessions are numbered as they come.
        let levels: Vec<Level> =
            declared.txns().map(|t| declared.metadata()[&t]["level"].parse().unwrap()).collect();
        let mixed = judge(&declared).mixed.unwrap();
        let expected = oracle::mixed(&declared, &levels);
        let shown = || format!("{levels:?}, seed {seed}, case {case}: {}", mini::print(&declared));
        match mixed.verdict {
            Verdict::Holds => assert!(expected, "holds: {}", shown()),
            Verdict::Violated => assert!(!expected, "violated: {}", shown()),
            Verdict::Unknown { reason } => panic!("{reason}: {}", shown()),
        }
        seen[usize::from(expected)] += 1;
    }
    assert!(seen[0] > 50 && seen[1] > 50, "{seen:?}");
}

/// Where everybody declares the same level, the mixed verdict is that level's.
#[test]
fn one_level_for_all_is_that_level() {
    let weak = [
        (Level::ReadCommitted, WeakLevel::ReadCommitted),
        (Level::ReadAtomic, WeakLevel::ReadAtomic),
        (Level::Causal, WeakLevel::Causal),
    ];
    let strong = [
        (Level::Prefix, StrongLevel::Prefix),
        (Level::SnapshotIsolation, StrongLevel::SnapshotIsolation),
        (Level::StrongSessionSnapshotIsolation, StrongLevel::StrongSessionSnapshotIsolation),
        (Level::Serializable, StrongLevel::Serializable),
        (Level::StrongSessionSerializable, StrongLevel::StrongSessionSerializable),
    ];
    for seed in 0..600 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let history = random::tiny(&mut rng, &Shape { txns: 2..=5, ..Shape::default() });
        let expected = weak
            .iter()
            .map(|&(level, weak)| (level, oracle::satisfies(&history, weak)))
            .chain(strong.iter().map(|&(l, s)| (l, oracle::strongly_satisfies(&history, s).unwrap())));
        for (level, expected) in expected {
            let declared = declare(&history, &vec![level; history.txn_count()]);
            let verdict = judge(&declared).mixed.unwrap().verdict;
            assert_eq!(
                verdict == Verdict::Holds,
                expected,
                "{level}, seed {seed}: {}",
                mini::print(&history)
            );
        }
    }
}

#[test]
fn adyas_mixing() {
    // Write skew between two PL-3 transactions; one at PL-2 does not object.
    let skew = mini::history("r(x,0) w(y,1) || r(y,0) w(x,1)");
    for (levels, verdict) in [
        ([Level::Serializable, Level::Serializable], Verdict::Violated),
        ([Level::Serializable, Level::AdyaReadCommitted], Verdict::Holds),
        ([Level::ReadUncommitted, Level::ReadUncommitted], Verdict::Holds),
    ] {
        assert_eq!(judge(&declare(&skew, &levels)).mixed.unwrap().verdict, verdict, "{levels:?}");
    }
    assert_eq!(judge(&skew).mixed, None, "nothing declared, nothing said");
}
