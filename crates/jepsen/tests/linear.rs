//! The linearizability checker against its definition, on many small random histories.
//!
//! `ANOMALIST_ORACLE_CASES` sets the number of histories, `ANOMALIST_SEED` the seed; a failure prints the
//! history.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::Budget;
use anomalist_jepsen::linear::{Action, Call, Linearity, linearizable};
use anomalist_testkit::number;

/// What a register does with a sequence of actions; `None` if one of them is impossible.
fn run(initial: u32, actions: impl Iterator<Item = Action>) -> Option<u32> {
    let mut value = initial;
    for action in actions {
        match action {
            Action::Read(v) if v != value => return None,
            Action::Cas(old, _) if old != value => return None,
            Action::Write(v) | Action::Cas(_, v) => value = v,
            Action::Read(_) => {}
        }
    }
    Some(value)
}

/// An order is a linearisation if it has every call that returned, none twice, respects real time, and is
/// legal.
fn is_linearisation(calls: &[Call], initial: u32, order: &[usize]) -> bool {
    let once = order.iter().all(|c| order.iter().filter(|d| *d == c).count() == 1);
    let complete = (0..calls.len()).all(|c| calls[c].ended.is_none() || order.contains(&c));
    let timely = order.iter().enumerate().all(|(i, &first)| {
        order[i + 1..].iter().all(|&later| calls[later].ended.is_none_or(|end| end >= calls[first].began))
    });
    once && complete && timely && run(initial, order.iter().map(|&c| calls[c].action)).is_some()
}

/// Tries all orders of all subsets.
fn oracle(calls: &[Call], initial: u32) -> bool {
    fn extend(calls: &[Call], initial: u32, order: &mut Vec<usize>) -> bool {
        if is_linearisation(calls, initial, order) {
            return true;
        }
        for next in 0..calls.len() {
            if order.contains(&next) {
                continue;
            }
            order.push(next);
            // A beginning that is illegal cannot become legal.
            let possible = run(initial, order.iter().map(|&c| calls[c].action)).is_some();
            if possible && extend(calls, initial, order) {
                return true;
            }
            order.pop();
        }
        false
    }
    extend(calls, initial, &mut Vec::new())
}

/// The calls as they stood just before this moment: what had not begun is gone, what had not returned is
/// open.
fn before(calls: &[Call], moment: usize) -> Vec<Call> {
    let begun = calls.iter().filter(|c| c.began < moment);
    begun.map(|c| Call { ended: c.ended.filter(|&end| end < moment), ..*c }).collect()
}

/// Calls of a few processes on a real register, some of which lie about what they read.
fn random(rng: &mut fastrand::Rng, most: usize, mutex: bool) -> Vec<Call> {
    let (processes, values) = (rng.usize(1..5), rng.u32(1..5));
    let lie = rng.u32(..100);
    let mut open: Vec<Option<(Action, usize)>> = vec![None; processes];
    let (mut calls, mut state, mut at) = (Vec::new(), 0u32, 0);
    while calls.len() + open.iter().flatten().count() < most {
        at += 1;
        let p = rng.usize(..processes);
        match open[p].take() {
            Some((mut action, began)) => {
                if let Action::Read(v) = &mut action
                    && rng.u32(..100) >= lie / 2
                {
                    *v = state;
                }
                let ended = (rng.u8(..5) > 0).then_some(at);
                // Half of those without an answer take effect, now.
                if (ended.is_some() || rng.bool())
                    && let Some(next) = action.apply(state)
                {
                    state = next;
                }
                calls.push(Call { action, began, ended });
            }
            None => {
                let (a, b) = (rng.u32(..=values), rng.u32(..=values));
                let action = match rng.u8(..4) {
                    _ if mutex => [Action::Cas(0, 1), Action::Cas(1, 0)][rng.usize(..2)],
                    0 => Action::Write(a),
                    1 => Action::Cas(if rng.bool() { state } else { a }, b),
                    _ => Action::Read(a),
                };
                open[p] = Some((action, at));
            }
        }
    }
    calls.extend(open.iter().flatten().map(|&(action, began)| Call { action, began, ended: None }));
    calls
}

fn compare(calls: &[Call], context: &str) -> bool {
    let expected = oracle(calls, 0);
    match linearizable(calls, 0, &Budget::unlimited()) {
        Linearity::Yes(order) => {
            assert!(expected, "{context}: linearizable, the oracle disagrees: {calls:#?}");
            assert!(is_linearisation(calls, 0, &order), "{context}: {order:?} is no proof: {calls:#?}");
        }
        Linearity::No(refutation) => {
            assert!(!expected, "{context}: not linearizable, the oracle disagrees: {calls:#?}");
            // The call named is the first whose return cannot be explained.
            let end = calls[refutation.call].ended.unwrap();
            assert!(oracle(&before(calls, end), 0), "{context}: {refutation:?} comes too late: {calls:#?}");
            assert!(
                !oracle(&before(calls, end + 1), 0),
                "{context}: {refutation:?} comes too early: {calls:#?}"
            );
            assert!(!refutation.configurations.is_empty());
            for c in &refutation.configurations {
                assert_eq!(
                    run(0, c.order.iter().map(|&i| calls[i].action)),
                    Some(c.value),
                    "{context}: {calls:#?}"
                );
            }
        }
        Linearity::Unknown(reason) => panic!("{context}: {reason}"),
    }
    expected
}

#[test]
fn small_histories_equal_the_definition() {
    let (cases, seed) = (number("ANOMALIST_ORACLE_CASES", 20_000), number("ANOMALIST_SEED", 1));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut answers = [0u64; 2];
    for case in 0..cases {
        let mutex = case % 4 == 0;
        let size = rng.usize(2..8);
        let calls = random(&mut rng, size, mutex);
        answers[usize::from(compare(&calls, &format!("seed {seed}, case {case}")))] += 1;
    }
    assert!(answers.iter().all(|&n| n > cases / 20), "the histories are all alike: {answers:?}");
}

#[test]
fn wide_and_long_histories_are_decided() {
    let unlimited = Budget::unlimited();
    // 200 writes at once, and then a read of one of them: more than a machine word of open calls.
    let mut calls: Vec<Call> = (0..200)
        .map(|i| Call { action: Action::Write(i + 1), began: i as usize, ended: Some(1000 + i as usize) })
        .collect();
    calls.push(Call { action: Action::Read(77), began: 2000, ended: Some(2001) });
    assert!(matches!(linearizable(&calls, 0, &unlimited), Linearity::Yes(order) if order.len() == 201));
    calls.push(Call { action: Action::Read(999), began: 2002, ended: Some(2003) });
    assert!(matches!(linearizable(&calls, 0, &unlimited), Linearity::No(r) if r.call == 201));
    // A long run with lost writes that no read returns: none of them costs anything.
    let mut calls = Vec::new();
    for i in 0..20_000usize {
        let at = 10 * i;
        calls.push(Call { action: Action::Write(i as u32 + 1), began: at, ended: Some(at + 5) });
        calls.push(Call { action: Action::Read(i as u32 + 1), began: at + 1, ended: Some(at + 6) });
        calls.push(Call { action: Action::Write(1_000_000 + i as u32), began: at + 2, ended: None });
    }
    assert!(matches!(linearizable(&calls, 0, &unlimited), Linearity::Yes(order) if order.len() == 40_000));
    calls.push(Call { action: Action::Read(7), began: 900_000, ended: Some(900_001) });
    assert!(matches!(linearizable(&calls, 0, &unlimited), Linearity::No(r) if r.call == 60_000));
}

#[test]
fn a_hard_search_ends_with_its_budget() {
    // Steps from each of seven values to each other, all at once, and three more that no trail can end with.
    let pairs = (0..7).flat_map(|a| (0..7).filter(move |b| a != *b).map(move |b| (a, b)));
    let calls: Vec<Call> = pairs
        .chain([(0, 1), (2, 3), (4, 5)])
        .enumerate()
        .map(|(i, (a, b))| Call { action: Action::Cas(a, b), began: i, ended: Some(100 + i) })
        .collect();
    let polls = std::sync::atomic::AtomicU32::new(0);
    let patience = || polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 20;
    assert!(matches!(linearizable(&calls, 0, &Budget::new(&patience)), Linearity::Unknown(_)));
}

#[test]
fn many_twins_cost_nothing() {
    // Thirty clients want a lock at once; all get it in turn, or one more than was released.
    let acquire = |i: usize| Call { action: Action::Cas(0, 1), began: i, ended: Some(1000 + i) };
    let release = |i: usize| Call { action: Action::Cas(1, 0), began: 100 + i, ended: Some(2000 + i) };
    let mut calls: Vec<Call> = (0..30).map(acquire).chain((0..29).map(release)).collect();
    assert!(matches!(linearizable(&calls, 0, &Budget::unlimited()), Linearity::Yes(_)));
    calls.push(acquire(31));
    assert!(matches!(linearizable(&calls, 0, &Budget::unlimited()), Linearity::No(_)));
}
