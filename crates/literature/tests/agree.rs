//! The transcriptions against each other: different papers define some levels twice.

use anomalist_level::{By, Level};
use anomalist_literature::axioms::{self, Axiom};
use anomalist_literature::facts::Parts;
use anomalist_literature::generate::{self, Clock};
use anomalist_literature::order::{FREE, session_order};
use anomalist_literature::{Answer, Sessions, answer, serial, snapshot};
use fastrand::Rng;

#[test]
fn definitions_of_one_level_agree() {
    for seed in 0..4000 {
        let h = generate::history(&mut Rng::with_seed(seed), Clock::None);
        let parts = Parts::of(&h);
        let so = session_order(&h, Sessions::Issued);
        let by = |axiom, so| axioms::satisfies(&parts, so, axiom, &|_| true);
        // Biswas & Enea's axioms, Cerone's, Crooks' tests, and execution.
        assert_eq!(by(Axiom::Snapshot, &so), snapshot::cerone(&parts, &so), "SI, seed {seed}: {h}");
        assert_eq!(by(Axiom::Snapshot, &FREE), snapshot::crooks(&parts), "free SI, seed {seed}: {h}");
        assert_eq!(by(Axiom::Serializable, &so), serial::serializable(&parts, &so), "SER, seed {seed}: {h}");
        let pl = answer(&h, Level::RepeatableRead, By::Values, Sessions::Issued);
        let serial = Answer::from(serial::serializable(&parts, &FREE));
        assert!(pl == Answer::Undefined || pl == serial, "PL-2.99, seed {seed}: {h}");
    }
}

#[test]
fn levels_imply_each_other_as_the_table_says() {
    for seed in 0..8000 {
        let clock = [Clock::None, Clock::Intervals][seed as usize % 2];
        let h = generate::history(&mut Rng::with_seed(seed), clock);
        let answers: Vec<(Level, Answer)> =
            Level::CANONICAL.iter().map(|&l| (l, answer(&h, l, By::Values, Sessions::Issued))).collect();
        for (strong, _) in answers.iter().filter(|(_, a)| *a == Answer::Holds) {
            for (weak, _) in answers.iter().filter(|(_, a)| *a == Answer::Violated) {
                assert!(!strong.implies(*weak), "{strong} holds, {weak} does not, seed {seed}: {h}");
            }
        }
    }
}

/// Elle, 5.1: a read of the transaction's own later append is in no Adya history, whatever became of its
/// transaction. Without it, the version orders of x and y would be a cycle.
#[test]
fn portable_levels_say_nothing_of_indeterminate_transactions_that_read_the_future() {
    use anomalist_literature::model::{History, Kind, Op, Outcome, Seen, Txn};
    let (x, y) = (0, 1);
    let txn = |ops: Vec<Op>, outcome| Txn { session: 0, ops, outcome, interval: (0, None), stamps: (0, 0) };
    let append = |key, element| Op::Append(key, Some(element));
    let read = |key, list: &[i32]| Op::Read(key, Seen::List(list.iter().copied().map(Some).collect()));
    let mut history = History {
        txns: vec![
            txn(vec![read(y, &[1, 12, 1]), append(y, 1)], Outcome::Indeterminate),
            txn(vec![append(y, 12), append(x, 0)], Outcome::Committed),
            txn(vec![append(y, 1), append(x, 15)], Outcome::Committed),
            txn(vec![read(y, &[1]), read(x, &[0])], Outcome::Committed),
        ],
        kinds: vec![Kind::List, Kind::List],
        initial: Some(0),
        has_intervals: false,
        has_stamps: false,
    };
    let pl_1 = |h: &History| answer(h, Level::ReadUncommitted, By::Values, Sessions::Issued);
    assert_eq!(pl_1(&history), Answer::Undefined);
    history.txns.remove(0);
    assert_eq!(pl_1(&history), Answer::Violated);
}
