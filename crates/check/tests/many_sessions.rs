//! Sessions that have nothing to do with the others change no verdict and no count.
//!
//! With more than 128 of them clocks are sparse, so this compares sparse clocks with arrays, which the other
//! tests compare with the definitions.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed};
use anomalist_level::{AnomalyKind, By, Level, Verdict};
use anomalist_testkit::random::{self, Reference, Shape};
use anomalist_testkit::{mini, number};
use anomalist_verify::Verifier;

type Found = (Vec<(Level, By, Verdict)>, Vec<(AnomalyKind, u64)>);

fn judge(history: &History, search_only: bool) -> Found {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let request = Request { search_only, certificates: true, ..Request::default() };
    let judgement = check(&indexed, &request, &Budget::unlimited());
    Verifier::new(history).judgement(&judgement).unwrap_or_else(|flaw| {
        panic!("{}\n{}", flaw.message(history), mini::print(history));
    });
    let mut anomalies: Vec<_> = judgement.anomalies.iter().map(|a| (a.kind, a.count)).collect();
    anomalies.sort_unstable();
    (judgement.levels.into_iter().map(|l| (l.level, l.by, l.verdict)).collect(), anomalies)
}

/// The same history between sessions of one write or of a few transactions that read their own.
fn among_others(history: &History, rng: &mut fastrand::Rng) -> History {
    let text = mini::print(history);
    let (start, sessions) = match text.split_once(": ") {
        Some((start, rest)) if start.starts_with("init=") => (format!("{start}: "), rest),
        _ => (String::new(), text.as_str()),
    };
    let other = |i: usize| match i % 3 {
        0 => format!("w(other{i},1); r(other{i},1)"),
        _ => format!("w(other{i},1)"),
    };
    let split = rng.usize(..150);
    let before: Vec<String> = (0..split).map(other).collect();
    let after: Vec<String> = (split..150).map(other).collect();
    let parts = [before.join(" || "), sessions.to_owned(), after.join(" || ")];
    let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    mini::history(&format!("{start}{}", parts.join(" || ")))
}

#[test]
fn sessions_apart_change_nothing() {
    let seed = number("ANOMALIST_SEED", 20_261_118);
    let mut violated = 0;
    for case in 0..number("ANOMALIST_ORACLE_CASES", 400) {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = match rng.u32(..3) {
            0 => random::tiny(&mut rng, &Shape { timed: 0.0, ..Shape::anything() }),
            1 => random::mutated(
                &mut rng,
                Reference::ALL[case as usize % Reference::ALL.len()],
                &Shape::default(),
            ),
            _ => random::tiny(&mut rng, &Shape { faulty: 0.3, ..Shape::default() }),
        };
        // The notation has no real time.
        let history = mini::history(&mini::print(&history));
        let search_only = rng.u32(..4) == 0;
        let (alone, among) =
            (judge(&history, search_only), judge(&among_others(&history, &mut rng), search_only));
        let shown = || format!("{}\nANOMALIST_SEED={seed}, case {case}", mini::print(&history));
        let verdicts = |found: &Found| -> Vec<(Level, By, String)> {
            found.0.iter().map(|(l, by, v)| (*l, *by, v.name().to_owned())).collect()
        };
        assert_eq!(verdicts(&alone), verdicts(&among), "{}", shown());
        assert_eq!(alone.1, among.1, "{}", shown());
        violated += u32::from(!alone.1.is_empty());
    }
    assert!(violated > 50, "{violated}");
}
