//! Mixed levels against the definition, on small random histories in which every transaction declares a
//! level. Every verdict is verified and cross-checked.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::shrink::{Goal, Promise, shrink, tighten};
use anomalist_check::{Budget, Request, check, cross_check};
use anomalist_history::{Builder, History, Indexed, Value, View};
use anomalist_level::{Certificate, Judgement, Level, Verdict, Why};
use anomalist_testkit::oracle;
use anomalist_testkit::random::{self, Reference, Shape};
use anomalist_testkit::{mini, mutate, number};
use anomalist_verify::Verifier;

/// The last two need real time.
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
    Level::RepeatableRead,
    Level::Serializable,
    Level::StrongSessionSerializable,
    Level::StrongSnapshotIsolation,
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

fn request() -> Request {
    Request { levels: vec![Level::ReadUncommitted], certificates: true, ..Request::default() }
}

fn judge(history: &History) -> Judgement {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    check(&indexed, &request(), &Budget::unlimited())
}

/// A history of the shape in which every transaction declares one of a few levels, so that they meet.
fn random(rng: &mut fastrand::Rng, shape: &Shape, among: &[Level]) -> (History, Vec<Level>) {
    let history = random::tiny(rng, shape);
    let few: Vec<Level> = (0..rng.usize(1..4)).map(|_| *rng.choice(among).unwrap()).collect();
    let levels: Vec<Level> = history.txns().map(|_| *rng.choice(&few[..]).unwrap()).collect();
    let declared = declare(&history, &levels);
    // Ids may have changed: sessions are numbered as they come.
    let levels = declared.txns().map(|t| declared.metadata()[&t]["level"].parse().unwrap()).collect();
    (declared, levels)
}

fn shapes() -> [Shape; 8] {
    let small = |shape: Shape| Shape { txns: 2..=5, ops: 1..=3, ..shape };
    [
        small(Shape::default()),
        small(Shape::lists()),
        small(Shape::uncertain()),
        small(Shape::timed()),
        small(Shape { timed: 0.3, ..Shape::faulty() }),
        small(Shape { timed: 0.3, ..Shape::repeated() }),
        small(Shape { timed: 0.3, ..Shape::anything() }),
        small(Shape { timed: 0.3, repeated: 0.1, ..Shape::anything() }),
    ]
}

#[test]
fn agrees_with_the_definition() {
    let cases = number("ANOMALIST_ORACLE_CASES", 1_500) * shapes().len() as u64;
    let seed = number("ANOMALIST_SEED", 9);
    let (mut seen, mut open) = ([0; 2], 0);
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let shape = &shapes()[case as usize % shapes().len()];
        let (history, levels) = random(&mut rng, shape, &MIXABLE);
        let timed = history.intervals().is_some();
        if oracle::explanations(&history) > 100 || !timed && levels.iter().any(|l| l.info().real_time) {
            continue;
        }
        let shown = || format!("{levels:?}, seed {seed}, case {case}: {}", mini::print(&history));
        let judgement = judge(&history);
        let mixed = judgement.mixed.as_ref().unwrap();
        let expected = oracle::mixed(&history, &levels);
        match &mixed.verdict {
            Verdict::Holds => assert!(expected, "holds: {}", shown()),
            Verdict::Violated => assert!(!expected, "violated: {}", shown()),
            Verdict::Unknown(why) => {
                // Real time with transactions of unknown outcome that an open read may have seen, or a
                // faulty read that a level forgives.
                let known = match why {
                    Why::ForgivenRead => true,
                    Why::DeclaredUnknownOutcome => timed,
                    _ => false,
                };
                assert!(known, "{why:?}: {}", shown());
                open += 1;
                continue;
            }
        }
        seen[usize::from(expected)] += 1;
        let proof = mixed.proof.as_ref().unwrap();
        if let Err(flaw) = Verifier::new(&history).mixed(proof) {
            panic!("{}: {}\n{proof:#?}", flaw.message(&history), shown());
        }
        if let Some(tried) = Verifier::new(&history).try_everything_declared() {
            assert_eq!(tried, expected, "every order tried: {}", shown());
        }
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        let found = cross_check(&indexed, &request(), &judgement, &Budget::unlimited());
        assert_eq!(found, [], "{}", shown());
    }
    assert!(seen[0] > 50 && seen[1] > 50 && open * 20 < cases, "{seen:?}, {open} open");
}

/// A history whose declared levels contradict each other is shrunk to one of which no operation can go.
#[test]
fn what_is_left_is_violated() {
    let goal = Goal { violates: Promise::Declared, anomaly: None };
    let mut shrunk_any = 0;
    for case in 0..400 {
        let mut rng = fastrand::Rng::with_seed(case);
        let shape = &shapes()[case as usize % 3];
        let (history, levels) = random(&mut rng, shape, &MIXABLE[..16]);
        match shrink(&history, goal, &Budget::unlimited()) {
            Ok(shrunk) => {
                let left = &shrunk.history;
                let levels: Vec<Level> =
                    left.txns().map(|t| left.metadata()[&t]["level"].parse().unwrap()).collect();
                assert!(!oracle::mixed(left, &levels), "case {case}: {}", mini::print(left));
                assert!(shrunk.minimal && left.op_count() <= history.op_count());
                shrunk_any += 1;
            }
            Err(_) => assert!(oracle::mixed(&history, &levels), "case {case}: {}", mini::print(&history)),
        }
    }
    assert!(shrunk_any > 50, "{shrunk_any}");
}

/// The refutation of a part of the history refutes the whole, lists included.
#[test]
fn tightened_proofs_verify() {
    let mut tightened = [0; 2];
    for case in 0..3_000 {
        let mut rng = fastrand::Rng::with_seed(case);
        let lists = if rng.bool() { 1.0 } else { 0.0 };
        let shape =
            Shape { txns: 8..=14, sessions: 4..=6, keys: 2..=3, reads: 0.4, lists, ..Shape::default() };
        let reference = *rng.choice(&Reference::ALL[..]).unwrap();
        let history = random::mutated(&mut rng, reference, &shape);
        let level = rng.choice([Level::SnapshotIsolation, Level::Serializable]).unwrap();
        let history = declare(&history, &vec![level; history.txn_count()]);
        let judgement = judge(&history);
        let mut smaller = judgement.clone();
        tighten(&history, &mut smaller, &Budget::unlimited());
        tightened[usize::from(history.has_lists())] += u32::from(smaller != judgement);
        if let Err(flaw) = Verifier::new(&history).judgement(&smaller) {
            panic!("case {case}: {}\n{smaller:#?}\n{}", flaw.message(&history), mini::print(&history));
        }
    }
    assert!(tightened[1] > 0, "{tightened:?}");
}

/// A proof with anything changed is refused, or what it says is still true; so are proofs of other mixtures.
#[test]
fn changed_proofs_prove_nothing_false() {
    let seed = number("ANOMALIST_SEED", 10);
    let (mut accepted, mut refused) = (0, 0);
    for case in 0..2_000 {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let shape = &shapes()[case as usize % shapes().len()];
        let (history, levels) = random(&mut rng, shape, &MIXABLE[..16]);
        if oracle::explanations(&history) > 100 {
            continue;
        }
        let proof = judge(&history).mixed.unwrap().proof;
        let Some(proof) = proof else { continue };
        let truth = oracle::mixed(&history, &levels);
        for _ in 0..8 {
            let mutant = mutate::certificate(&proof, &history, &mut rng);
            let ok = Verifier::new(&history).mixed(&mutant).is_ok();
            let says = matches!(mutant, Certificate::Holds(_));
            assert!(!ok || says == truth, "seed {seed}, case {case}: {mutant:#?}\n{}", mini::print(&history));
            *(if ok { &mut accepted } else { &mut refused }) += 1;
        }
        // The same proof, everybody at another level.
        let (first, rest) = (rng.choice(&MIXABLE[..16]).unwrap(), rng.choice(&MIXABLE[..16]).unwrap());
        let other: Vec<Level> = levels.iter().map(|_| if rng.bool() { *first } else { *rest }).collect();
        let moved = declare(&history, &other);
        let other: Vec<Level> =
            moved.txns().map(|t| moved.metadata()[&t]["level"].parse().unwrap()).collect();
        let says = matches!(proof, Certificate::Holds(_));
        let ok = Verifier::new(&moved).mixed(&proof).is_ok();
        assert!(
            !ok || says == oracle::mixed(&moved, &other),
            "{other:?}, case {case}: {}",
            mini::print(&moved)
        );
    }
    assert!(accepted > 100 && refused > 1_000, "{accepted} accepted, {refused} refused");
}

/// Where everybody declares the same level, the mixed verdict is that level's.
#[test]
fn one_level_for_all_is_that_level() {
    let levels = [
        Level::ReadCommitted,
        Level::ReadAtomic,
        Level::Causal,
        Level::Prefix,
        Level::SnapshotIsolation,
        Level::StrongSessionSnapshotIsolation,
        Level::Serializable,
        Level::StrongSessionSerializable,
    ];
    for seed in 0..600 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let history = random::tiny(&mut rng, &Shape { txns: 2..=5, ..Shape::default() });
        for level in levels {
            let expected = oracle::decide(&history, level).unwrap();
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
