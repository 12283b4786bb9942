//! A refutation of one history is none of another in which the level holds, however little the two differ.
//!
//! Histories with repeated values and elements are refuted; then one digit of the history is changed. If
//! the oracle says that the level holds in the changed history, the verifier must not accept the old
//! refutation for it. This looks for rules of the verifier that accept too much.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed};
use anomalist_level::{Certificate, Level};
use anomalist_testkit::oracle;
use anomalist_testkit::random::{self, Shape};
use anomalist_testkit::{mini, number};
use anomalist_verify::Verifier;

fn holds(history: &History, level: Level) -> Option<bool> {
    // Real time is not transferred.
    (!level.info().real_time).then(|| oracle::decide(history, level)).flatten()
}

fn changed(rng: &mut fastrand::Rng, history: &History) -> History {
    let mut text = mini::print(history).into_bytes();
    let digits: Vec<usize> = (0..text.len()).filter(|&i| text[i].is_ascii_digit()).collect();
    if let Some(&at) = rng.choice(&digits) {
        text[at] = b'0' + rng.u8(..7);
    }
    mini::history(&String::from_utf8(text).unwrap())
}

fn run(shape: &Shape) -> u32 {
    let seed = number("ANOMALIST_SEED", 20_261_116);
    let mut tried = 0;
    for case in 0..number("ANOMALIST_ORACLE_CASES", 1_500) {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = random::tiny(&mut rng, shape);
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        let request = Request { search_only: rng.bool(), certificates: true, ..Request::default() };
        let judgement = check(&indexed, &request, &Budget::unlimited());
        for _ in 0..4 {
            let other = changed(&mut rng, &history);
            if oracle::explanations(&other) > 100 || other.op_count() != history.op_count() {
                continue;
            }
            for (level, certificate) in &judgement.certificates {
                if matches!(certificate, Certificate::Violated(_)) && holds(&other, *level) == Some(true) {
                    tried += 1;
                    let accepted = Verifier::new(&other).certificate(*level, certificate).is_ok();
                    let shown = || format!("{}\n{}", mini::print(&history), mini::print(&other));
                    assert!(
                        !accepted,
                        "{level}: {certificate:#?}\n{}\nANOMALIST_SEED={seed}, case {case}",
                        shown()
                    );
                }
            }
        }
    }
    tried
}

#[test]
fn refutations_of_registers_do_not_transfer() {
    let tried = run(&Shape { repeated: 0.3, ..Shape::default() }) + run(&Shape::repeated());
    assert!(tried > 300, "only {tried} were tried");
}

#[test]
fn refutations_of_lists_do_not_transfer() {
    let tried = run(&Shape { repeated: 0.1, ..Shape::lists() });
    assert!(tried > 100, "only {tried} were tried");
}
