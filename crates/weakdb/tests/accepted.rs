//! Every history that a store produces is accepted at its level by the checker, and by the oracle where it
//! is small.

#![allow(clippy::unwrap_used)]

mod common;

use anomalist_check::{Budget, Request, check};
use anomalist_history::Indexed;
use anomalist_level::Verdict;
use anomalist_testkit::number;
use anomalist_weakdb::Options;
use common::{LEVELS, Run, oracle, random_program};

fn run(seed: u64, options: Options, sizes: [usize; 4], aborts: u8) -> Run {
    let mut rng = fastrand::Rng::with_seed(seed);
    let [sessions, txns, ops, keys] = sizes;
    let program = random_program(&mut rng, sessions, txns, ops, keys);
    let mut run = Run::new(&program, options);
    loop {
        let busy: Vec<usize> = (0..sessions).filter(|&s| !run.is_finished(s)).collect();
        if busy.is_empty() {
            return run;
        }
        let s = busy[rng.usize(..busy.len())];
        if run.has_open(s) && rng.u8(..) < aborts {
            run.abort(s);
        } else {
            run.step(s);
        }
    }
}

#[test]
fn by_the_oracle() {
    let (cases, first) = (number("ANOMALIST_CASES", 400), number("ANOMALIST_SEED", 1));
    for level in LEVELS {
        for seed in first..first + cases {
            let ordered = seed % 2 == 0;
            let options = Options { seed, ordered, record: true, ..Options::new(level) };
            let run = run(seed, options, [3, 2, 3, 2], 20);
            let history = run.store.history().unwrap();
            assert!(oracle(&history, level), "{} at seed {seed}: {}", level.name(), run.text(None));
        }
    }
}

#[test]
fn by_the_checker() {
    let (cases, first) = (number("ANOMALIST_CASES", 400) / 20, number("ANOMALIST_SEED", 1));
    for level in LEVELS {
        let mut refused = 0;
        for seed in first..first + cases {
            let stale = [None, Some(0.2), Some(0.9)][seed as usize % 3];
            let ordered = seed % 2 == 0;
            let options = Options { seed, ordered, record: true, stale, ..Options::new(level) };
            let run = run(seed, options, [4, 12, 4, 3], 10);
            refused += run.refused;
            let history = run.store.history().unwrap();
            let indexed = Indexed::new(&history, 1.try_into().unwrap());
            let request = Request { levels: vec![level], ..Request::default() };
            let judgement = check(&indexed, &request, &Budget::unlimited());
            assert_eq!(judgement.verdict(level), Some(&Verdict::Holds), "{} at seed {seed}", level.name());
        }
        let refuses = !["read-committed", "read-atomic", "causal", "prefix"].contains(&level.name());
        assert_eq!(refused > 0, refuses, "{}: {refused} refused", level.name());
    }
}
