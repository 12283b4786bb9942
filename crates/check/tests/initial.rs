//! The initial state as a possible source of reads, and list elements that were appended more than once.
//!
//! Each history is serial by construction, so every level holds, and the proof of it must verify. Before
//! November 2026 the reads were given to the writer of the value, or taken for duplicates.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::Indexed;
use anomalist_level::{Judgement, Level, Verdict};
use anomalist_testkit::mini;
use anomalist_verify::Verifier;

fn judge(text: &str) -> Judgement {
    judge_at(Vec::new(), text)
}

/// At these levels; at all, if there are none.
fn judge_at(levels: Vec<Level>, text: &str) -> Judgement {
    let history = mini::history(text);
    let indexed = Indexed::new(&history, 1.try_into().unwrap());
    let request = Request { levels, certificates: true, ..Request::default() };
    let judgement = check(&indexed, &request, &Budget::unlimited());
    Verifier::new(&history).judgement(&judgement).unwrap_or_else(|flaw| panic!("{text}: {flaw:?}"));
    judgement
}

fn verdict(judgement: &Judgement, level: Level) -> &Verdict {
    &judgement.levels.iter().find(|l| l.level == level).unwrap().verdict
}

#[test]
fn a_read_of_the_initial_value_may_be_of_the_initial_state() {
    for text in [
        // Deleted again.
        "r(x,0) w(x,1); r(x,1) w(x,0); r(x,0)",
        // The one session writes the initial value after it was read.
        "r(x,0) w(y,5) || r(y,5) w(x,0)",
        // Only an aborted transaction wrote it, or one of unknown outcome.
        "w(x,0) !abort || r(x,0)",
        "w(x,0) !info || r(x,0); w(x,1); r(x,1)",
        // Its own later write is not what it read.
        "r(x,0) w(x,0)",
        // A value that its transaction replaced is not seen by others.
        "w(x,0) w(x,1) || r(x,0)",
    ] {
        let judgement = judge(text);
        for level in
            [Level::ReadCommitted, Level::Causal, Level::Serializable, Level::StrongSessionSerializable]
        {
            assert_eq!(*verdict(&judgement, level), Verdict::Holds, "{text}: {level:?}");
        }
        assert!(judgement.anomalies.is_empty(), "{text}: {:?}", judgement.anomalies);
    }
}

#[test]
fn the_initial_value_is_no_excuse() {
    // Neither the initial state nor the write explains both reads in one order.
    let judgement = judge("w(x,1); w(x,0) w(y,1) || r(y,1) r(x,1); r(x,0); r(x,1)");
    assert_eq!(*verdict(&judgement, Level::StrongSessionSerializable), Verdict::Violated);
    // The session has written another value since.
    let judgement = judge("w(x,1); r(x,0)");
    assert_eq!(*verdict(&judgement, Level::ReadYourWrites), Verdict::Violated);
}

#[test]
fn an_element_may_be_shown_as_often_as_it_was_appended() {
    for text in ["a(l,1) || a(l,1) || r(l,[1 1])", "a(l,1) a(l,1) || r(l,[1 1])", "a(l,1); a(l,1) r(l,[1 1])"]
    {
        let judgement = judge(text);
        for level in [Level::CutIsolation, Level::ReadCommitted, Level::Serializable] {
            assert_eq!(*verdict(&judgement, level), Verdict::Holds, "{text}: {level:?}");
        }
    }
    let judgement = judge("a(l,1) || r(l,[1 1])");
    assert_eq!(*verdict(&judgement, Level::ReadCommitted), Verdict::Violated);
    let judgement = judge("a(l,1) || a(l,1) !abort || r(l,[1 1])");
    assert_eq!(*verdict(&judgement, Level::Serializable), Verdict::Violated);
}

/// Sources that repeat are not enough: [1] cannot be the second append of the transaction that appended 2
/// first.
#[test]
fn cut_isolation_of_lists_needs_versions() {
    let judgement = judge("a(x,2) a(x,1) || r(x,[1]) r(x,[1 2 1]) || a(x,1)");
    assert_ne!(*verdict(&judgement, Level::CutIsolation), Verdict::Holds);
}

#[test]
fn an_element_is_aborted_only_if_all_that_appended_it_aborted() {
    // The first two 1s may be of the transaction of unknown outcome, the last one of the aborted one: no
    // dirty update.
    let judgement = judge("a(x,2) r(x,[1 1 0 2 1]) || a(x,1) a(x,1) !info || a(x,1) !abort");
    let dirty = |a: &anomalist_level::Anomaly| a.kind == anomalist_level::AnomalyKind::DirtyUpdate;
    assert!(!judgement.anomalies.iter().any(dirty));
}

/// Which of its two appends the transaction of unknown outcome shows is open, and so is PL-2.
#[test]
fn a_faulty_read_of_repeated_elements_proves_nothing() {
    for text in [
        "a(x,1) a(x,11) r(x,[2 2 1]) || a(x,2) a(x,2) !info",
        "a(x,1) a(x,11) r(x,[2 1]) || a(x,2) a(x,2) !info",
    ] {
        let judgement = judge(text);
        let verdict = verdict(&judgement, Level::AdyaReadCommitted);
        assert!(matches!(verdict, Verdict::Unknown(_)), "{text}: {verdict:?}");
    }
}

/// Hundreds of writers of each value, and reads of several values: the clauses that say that a transaction
/// repeats its reads are linear in the candidates. Before, they were one per pair, 23 GB for 8,000
/// transactions.
#[test]
fn many_writers_of_a_value_are_decided_at_cut_isolation() {
    let mut text = String::new();
    for i in 0..600 {
        let (x, y) = (i % 2, (i / 2) % 2);
        text.push_str(&format!("w(x,{x}) w(y,{y}) || "));
    }
    let cut = |reads: &str| judge_at(vec![Level::CutIsolation], &format!("{text}{reads}"));
    let fine = cut("r(x,1) r(y,0) r(x,1)");
    assert_eq!(*verdict(&fine, Level::CutIsolation), Verdict::Holds);
    let bad = cut("r(x,1) r(x,0)");
    assert_eq!(*verdict(&bad, Level::CutIsolation), Verdict::Violated);
}
