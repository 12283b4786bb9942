//! `--definitions plume` against Plume's text, on many small random histories: verdicts, counts of all
//! fourteen patterns, proofs, and the other algorithms.
//!
//! `ANOMALIST_PLUME_CASES` sets the number of histories, `ANOMALIST_SEED` the seed. A disagreement is
//! printed with the history, made as small as possible.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check, cross_check};
use anomalist_history::Indexed;
use anomalist_level::{AnomalyKind, Definitions, Judgement, Level, Verdict};
use anomalist_literature::generate::{self, Clock};
use anomalist_literature::model::{Atom, Kind, Op, Outcome, Seen, Txn};
use anomalist_literature::plume::{self, Plume};
use anomalist_literature::{History, into, shrink};
use anomalist_testkit::number;
use anomalist_verify::Verifier;
use fastrand::Rng;
use std::num::NonZeroUsize;

const LEVELS: [Level; 4] = Definitions::LEVELS;

/// A history as Plume has them: registers, unique values, committed and aborted transactions. A serial
/// store answers, and then some reads are changed; or all of them are.
fn random(rng: &mut Rng) -> History {
    let keys = rng.usize(1..4);
    let (sessions, count) = (rng.usize(1..5), rng.usize(1..6));
    let most = rng.usize(2..6);
    let reads = rng.u8(3..8);
    let aborted = [0, 0, 0, 20][rng.usize(..4)];
    let mut next = 0;
    let mut txns: Vec<Txn> = (0..count)
        .map(|_| {
            let ops = (0..rng.usize(1..=most)).map(|_| {
                let key = rng.usize(..keys);
                if rng.u8(..10) < reads {
                    return Op::Read(key, Seen::Atom(Some(0)));
                }
                next += 1;
                Op::Write(key, Some(next))
            });
            let ops = ops.collect();
            let outcome = if rng.u8(..100) < aborted { Outcome::Aborted } else { Outcome::Committed };
            Txn { session: rng.usize(..sessions), ops, outcome, interval: (0, None), stamps: (0, 0) }
        })
        .collect();
    txns.sort_by_key(|t| t.session);
    let kinds = vec![Kind::Register; keys];
    let mut history = History { txns, kinds, initial: Some(0), has_intervals: false, has_stamps: false };
    answer_serially(rng, &mut history);
    let changed = if rng.u8(..3) == 0 { 100 } else { rng.u8(..40) };
    for t in 0..history.txns.len() {
        for at in 0..history.txns[t].ops.len() {
            if rng.u8(..100) < changed {
                change(rng, &mut history, t, at);
            }
        }
    }
    history
}

/// Sessions take turns; everybody reads the latest state.
fn answer_serially(rng: &mut Rng, history: &mut History) {
    let mut state: Vec<Atom> = vec![history.initial; history.kinds.len()];
    let mut left: Vec<usize> = (0..history.txns.len()).collect();
    while !left.is_empty() {
        let t = left[rng.usize(..left.len())];
        let t = *left.iter().find(|&&s| history.txns[s].session == history.txns[t].session).unwrap();
        left.retain(|&s| s != t);
        let mut own = state.clone();
        for op in &mut history.txns[t].ops {
            match op {
                Op::Read(key, seen) => *seen = Seen::Atom(own[*key]),
                Op::Write(key, value) => own[*key] = *value,
                Op::Append(..) => {}
            }
        }
        if history.txns[t].outcome == Outcome::Committed {
            state = own;
        }
    }
}

/// Lets a read return any value of its key, now and then one that no transaction wrote.
fn change(rng: &mut Rng, history: &mut History, t: usize, at: usize) {
    let Op::Read(key, _) = history.txns[t].ops[at] else { return };
    let written = history.txns.iter().flat_map(|t| &t.ops).filter_map(|op| match *op {
        Op::Write(k, value) if k == key => Some(value),
        _ => None,
    });
    let mut values: Vec<Atom> = written.chain([history.initial]).collect();
    if rng.u8(..30) == 0 {
        values.push(Some(99));
    }
    history.txns[t].ops[at] = Op::Read(key, Seen::Atom(values[rng.usize(..values.len())]));
}

fn request(definitions: Definitions) -> Request {
    Request { certificates: true, definitions, ..Request::default() }
}

fn judged(history: &History, request: &Request) -> Judgement {
    let real = into::history(history);
    let indexed = Indexed::new(&real, NonZeroUsize::MIN);
    check(&indexed, request, &Budget::unlimited())
}

fn count(judgement: &Judgement, kind: AnomalyKind) -> u64 {
    judgement.anomalies.iter().find(|a| a.kind == kind).map_or(0, |a| a.count)
}

/// What the engine says otherwise than the paper.
fn complaints(history: &History) -> Vec<String> {
    let Some(paper) = plume::judge(history) else { return Vec::new() };
    let mut found = Vec::new();
    let request = request(Definitions::Plume);
    let judgement = judged(history, &request);
    let defined = [paper.cut_isolation, paper.read_committed, paper.read_atomic, paper.causal];
    for (level, holds) in LEVELS.into_iter().zip(defined) {
        let expected = if holds { Verdict::Holds } else { Verdict::Violated };
        if judgement.verdict(level) != Some(&expected) {
            found.push(format!("{level} {}", expected.name()));
        }
    }
    for (kind, letter) in AnomalyKind::TAPS.iter().zip('a'..='n') {
        if count(&judgement, *kind) != paper.count(letter) {
            found.push(format!("TAP-{letter}"));
        }
    }
    let real = into::history(history);
    if let Err(flaw) = Verifier::new(&real).judgement(&judgement) {
        found.push(format!("proof: {}", flaw.message(&real)));
    }
    let indexed = Indexed::new(&real, NonZeroUsize::MIN);
    let other = cross_check(&indexed, &request, &judgement, &Budget::unlimited());
    found.extend(other.iter().map(|d| format!("cross-check: {d}")));
    let tried = Verifier::new(&real).by(Definitions::Plume);
    for (level, holds) in LEVELS.into_iter().zip(defined) {
        if tried.try_everything(level).is_some_and(|found| found != holds) {
            found.push(format!("verifier: {level}"));
        }
    }
    found
}

/// Transactions of one session, as the mini-language of `crates/testkit` has them: operations are key and
/// value.
fn session(txns: &[&[Op]]) -> History {
    let txn = |ops: &&[Op]| Txn {
        session: 0,
        ops: ops.to_vec(),
        outcome: Outcome::Committed,
        interval: (0, None),
        stamps: (0, 0),
    };
    let kinds = vec![Kind::Register];
    let txns = txns.iter().map(txn).collect();
    History { txns, kinds, initial: Some(0), has_intervals: false, has_stamps: false }
}

/// The lattice: by Table 1, Theorem 4 fails on one key. The smallest such history has one write and one
/// read, and is the only one of that size.
#[test]
fn the_patterns_of_read_atomic_have_a_hole() {
    let (write, read) = (|v| Op::Write(0, Some(v)), |v| Op::Read(0, Seen::Atom(Some(v))));
    let three = session(&[&[write(1)], &[write(2)], &[read(1)]]);
    let two = session(&[&[write(1)], &[read(0)]]);
    for hole in [&three, &two] {
        let paper = plume::judge(hole).unwrap();
        assert!(!paper.any('a'..='l') && paper.count('m') == 1, "{paper:?}");
        assert!(paper.read_committed && paper.cut_isolation && !paper.read_atomic && !paper.causal);
        assert_eq!(complaints(hole), Vec::<String>::new());
        let ours = judged(hole, &request(Definitions::Anomalist));
        assert_eq!(count(&ours, AnomalyKind::FracturedReadCo), 1);
        assert_eq!(ours.verdict(Level::ReadAtomic), Some(&Verdict::Violated));
        let plume = judged(hole, &Request { levels: vec![Level::ReadAtomic], ..request(Definitions::Plume) });
        let kinds: Vec<AnomalyKind> = plume.anomalies.iter().map(|a| a.kind).collect();
        assert_eq!(kinds, [AnomalyKind::ReadAtomicCycleExists]);
    }
    let ops = [write(1), read(0), read(1), read(2)];
    let mut found = Vec::new();
    for a in &ops {
        assert!(
            plume::judge(&session(&[std::slice::from_ref(a)]))
                .is_none_or(|p| p.read_atomic != p.any('a'..='l'))
        );
        for b in &ops {
            let pair = [a.clone(), b.clone()];
            let histories = [session(&[&pair[..1], &pair[1..]]), session(&[&pair])];
            let is_hole = |h: &&History| plume::judge(h).is_some_and(|p| !p.read_atomic && !p.any('a'..='l'));
            found.extend(histories.iter().filter(is_hole).map(ToString::to_string));
        }
    }
    assert_eq!(found, [two.to_string()]);
}

fn cases(mut each: impl FnMut(u64, &History)) {
    let seed = number("ANOMALIST_SEED", 20_261_118);
    for case in 0..number("ANOMALIST_PLUME_CASES", 12_000) {
        each(case, &random(&mut Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case))));
    }
}

#[test]
fn the_definitions_are_the_papers() {
    let (mut verdicts, mut patterns) = ([[0u32; 2]; 4], [0u64; 14]);
    cases(|case, history| {
        let found = complaints(history);
        if let Some(first) = found.first() {
            let small = shrink::shrink(history, &|h| complaints(h).contains(first));
            panic!(
                "case {case}: {found:?}\n{history}\nshrunk: {small}\n{:?}\n{:?}",
                plume::judge(&small).unwrap(),
                judged(&small, &request(Definitions::Plume))
            );
        }
        let paper = plume::judge(history).unwrap();
        let defined = [paper.cut_isolation, paper.read_committed, paper.read_atomic, paper.causal];
        for (counts, holds) in verdicts.iter_mut().zip(defined) {
            counts[usize::from(holds)] += 1;
        }
        for (sum, count) in patterns.iter_mut().zip(paper.counts) {
            *sum += count;
        }
    });
    println!("violated/holds {verdicts:?}, instances {patterns:?}");
    assert!(verdicts.iter().flatten().all(|&n| n > 100), "{verdicts:?}");
    assert!(patterns.iter().all(|&n| n > 20), "{patterns:?}");
}

/// What the paper is not about: lists, repeated values, unknown outcomes. Proofs verify, the other
/// algorithms and trying every order do not contradict, and the definitions differ only as they may.
#[test]
fn other_histories_are_judged_soundly() {
    let mut differ = 0;
    for case in 0..number("ANOMALIST_PLUME_CASES", 4_000) {
        let history = generate::history(&mut Rng::with_seed(case), Clock::None);
        let real = into::history(&history);
        let indexed = Indexed::new(&real, NonZeroUsize::MIN);
        let request = request(Definitions::Plume);
        let judgement = judged(&history, &request);
        let flaw = Verifier::new(&real).judgement(&judgement).err().map(|flaw| flaw.message(&real));
        assert_eq!(flaw, None, "case {case}: {history}");
        let other = cross_check(&indexed, &request, &judgement, &Budget::unlimited());
        assert_eq!(other, [], "case {case}: {history}");
        let tried = Verifier::new(&real).by(Definitions::Plume);
        let ours = judged(&history, &self::request(Definitions::Anomalist));
        for level in Level::CANONICAL.iter().copied() {
            let (plume, ours) = (judgement.verdict(level).unwrap(), ours.verdict(level).unwrap());
            let tried = LEVELS.contains(&level).then(|| tried.try_everything(level)).flatten();
            let contradicted = match plume {
                Verdict::Holds => tried == Some(false),
                Verdict::Violated => tried == Some(true),
                Verdict::Unknown(_) => false,
            };
            assert!(!contradicted, "case {case}, {level}: {history}");
            // Read committed asks less, cut isolation more.
            let may = match level {
                Level::ReadCommitted => *ours == Verdict::Violated && *plume == Verdict::Holds,
                Level::CutIsolation => *ours == Verdict::Holds && *plume != Verdict::Holds,
                _ => false,
            };
            assert!(plume == ours || may, "case {case}, {level}: {plume:?}, {ours:?}: {history}");
            differ += u32::from(plume != ours);
        }
    }
    assert!(differ > 10, "{differ}");
}

/// Theorems 2, 3 and 5 hold of the transcription; Theorem 4 does not: TAP-k and TAP-l ask for two keys.
#[test]
fn theorems() {
    let mut holes = 0;
    cases(|_, history| {
        let Plume { cut_isolation, read_committed, read_atomic, causal, .. } = plume::judge(history).unwrap();
        let paper = plume::judge(history).unwrap();
        assert_eq!(cut_isolation, !paper.any('j'..='j'), "Theorem 2: {history}");
        assert_eq!(read_committed, !paper.any('a'..='i'), "Theorem 3: {history}");
        assert_eq!(causal, !paper.any('a'..='n'), "Theorem 5: {history}");
        if read_atomic == paper.any('a'..='l') {
            holes += 1;
            assert!(!read_atomic && paper.any('m'..='n'), "not the hole: {history}");
        }
        // Theorem 1.
        assert!(!causal || read_atomic, "{history}");
        assert!(!read_atomic || cut_isolation && read_committed, "{history}");
    });
    assert!(holes > 100, "{holes}");
}
