//! `--cross-check` finds no disagreement on random histories of all kinds, and finds one that is there.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Disagreement, Request, check, cross_check, cross_check_stamps};
use anomalist_history::{History, Indexed};
use anomalist_level::{Judgement, Level, Verdict};
use anomalist_testkit::random::{self, Pattern, Reference, Shape, StampedShape};
use anomalist_testkit::{mini, number};
use anomalist_timestamp::Tie;
use anomalist_timestamp::offline::{self, ByStamps};

fn judge(history: &History) -> (Indexed<'_>, Request, Judgement) {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let request = Request::default();
    let judgement = check(&indexed, &request, &Budget::unlimited());
    (indexed, request, judgement)
}

fn run(family: &str, make: impl Fn(&mut fastrand::Rng) -> History) {
    let seed = number("ANOMALIST_SEED", 20_261_116);
    for case in 0..number("ANOMALIST_ORACLE_CASES", 600) {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = make(&mut rng);
        let (indexed, request, judgement) = judge(&history);
        let found = cross_check(&indexed, &request, &judgement, &Budget::unlimited());
        let shown = mini::print(&history);
        assert!(found.is_empty(), "{found:?}\n{shown}\n{family}, ANOMALIST_SEED={seed}, case {case}");
    }
}

#[test]
fn registers() {
    run("plain", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::default() }));
    run("repeated", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::repeated() }));
    run("uncertain", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::uncertain() }));
}

#[test]
fn lists() {
    run("lists", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::lists() }));
    run("anything", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::anything() }));
}

#[test]
fn executions() {
    run("mutated", |rng| {
        let reference = *rng.choice(&Reference::ALL[..]).unwrap();
        let shape = if rng.bool() { Shape::default() } else { Shape::lists() };
        random::mutated(rng, reference, &Shape { timed: 0.5, ..shape })
    });
    run("structured", |rng| {
        let pattern = *rng.choice(&Pattern::ALL[..]).unwrap();
        random::structured(rng, pattern, &Shape::default())
    });
}

#[test]
fn timestamps() {
    let seed = number("ANOMALIST_SEED", 20_261_116);
    let mut held = 0;
    for case in 0..number("ANOMALIST_ORACLE_CASES", 2_000) {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(case));
        let history = random::stamped(&mut rng, &StampedShape::default());
        let levels = vec![
            Level::SnapshotIsolation,
            Level::StrongSessionSnapshotIsolation,
            Level::Serializable,
            Level::StrongSessionSerializable,
        ];
        let (tie, threads) = (Tie::Inclusive, 1.try_into().unwrap());
        let request = ByStamps { levels, anomalies: None, tie, threads };
        let Some((judgement, _)) = offline::judge(&history, &request, &Budget::unlimited()) else { continue };
        held += judgement.levels.iter().filter(|l| l.verdict == Verdict::Holds).count();
        let found = cross_check_stamps(&history, &judgement, &Budget::unlimited());
        assert!(found.is_empty(), "{found:?}\n{}\nANOMALIST_SEED={seed}, case {case}", mini::print(&history));
    }
    assert!(held > 100, "only {held} levels held");
}

#[test]
fn a_wrong_verdict_is_found() {
    let history = mini::history("r(x,0) w(y,1) || r(y,0) w(x,1)");
    let (indexed, request, mut judgement) = judge(&history);
    for answer in judgement.levels.iter_mut().filter(|l| l.level == Level::Serializable) {
        answer.verdict = Verdict::Holds;
    }
    let found = cross_check(&indexed, &request, &judgement, &Budget::unlimited());
    let ways = found.iter().filter(|d| matches!(d, Disagreement::Verdict { level: Level::Serializable, .. }));
    assert_eq!(ways.count(), 2, "{found:?}");
}
