//! Every engine, the verifier and the old oracle against the literature, on many small random histories.
//!
//! `ANOMALIST_LITERATURE_CASES` sets the number of histories, `ANOMALIST_SEED` the seed. A disagreement
//! is printed with the history, made as small as possible, the seed and the number of the case.
//! `ANOMALIST_LITERATURE_CLASSES=n` goes on until there are examples of n classes. `scripts/literature`
//! runs it on millions.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod judges;

use anomalist_level::By;
use anomalist_literature::generate::{self, Clock};
use anomalist_literature::{Answer, History, into, shrink};
use anomalist_testkit::number;
use judges::{Complaint, ask, levels};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// By level: holds, violated, not defined, undecided by the engine.
type Counts = BTreeMap<(By, &'static str), [u64; 4]>;

#[derive(Default)]
struct Tally {
    counts: Counts,
    /// Classes of disagreements, how often each was seen, and the first of each.
    classes: Vec<(Complaint, u64, String)>,
}

fn case(seed: u64, case: u64) -> History {
    let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
    let clock = match case % 8 {
        0..3 => Clock::None,
        3..5 => Clock::Intervals,
        _ => Clock::Stamps,
    };
    generate::history(&mut rng, clock)
}

fn run(cases: std::ops::Range<u64>, seed: u64, limit: usize, all: &Mutex<Tally>, next: &AtomicU64) {
    const BATCH: u64 = 256;
    let mut tally = Tally::default();
    loop {
        let start = next.fetch_add(BATCH, Ordering::Relaxed);
        let enough = all.lock().unwrap().classes.len() >= limit;
        if start >= cases.end || enough {
            break;
        }
        for number in start..(start + BATCH).min(cases.end) {
            one(number, seed, &mut tally, all);
        }
    }
    let mut all = all.lock().unwrap();
    for (key, counts) in tally.counts {
        let sums = all.counts.entry(key).or_default();
        (0..4).for_each(|i| sums[i] += counts[i]);
    }
}

fn one(number: u64, seed: u64, tally: &mut Tally, all: &Mutex<Tally>) {
    let history = case(seed, number);
    let verdicts = ask(&history, number);
    let by = if history.has_stamps { By::Timestamps } else { By::Values };
    for (&level, answer) in levels(by).iter().zip(&verdicts.expected) {
        let counts = tally.counts.entry((by, level.name())).or_default();
        counts[match answer {
            Answer::Holds => 0,
            Answer::Violated => 1,
            Answer::Undefined => 2,
        }] += 1;
        counts[3] += u64::from(verdicts.unknown.contains(&level));
    }
    for complaint in verdicts.complaints {
        let mut all = all.lock().unwrap();
        if let Some(class) = all.classes.iter_mut().find(|c| c.0 == complaint) {
            class.1 += 1;
            continue;
        }
        let same = |h: &History| ask(h, number).complaints.contains(&complaint);
        let small = shrink::shrink(&history, &same);
        let report = format!(
            "{complaint:?}\n  ANOMALIST_SEED={seed}, case {number}: {history}\n  shrunk: {small}\n{}",
            into::lines(&small)
        );
        all.classes.push((complaint, 1, report));
    }
}

fn summary(tally: &Tally) -> String {
    let mut out = String::from("level: holds/violated/not defined/undecided by the engine\n");
    for ((by, level), [holds, violated, undefined, unknown]) in &tally.counts {
        let _ = writeln!(out, "  {} {level}: {holds}/{violated}/{undefined}/{unknown}", by.name());
    }
    out
}

#[test]
fn all_agree_with_the_literature() {
    let cases = number("ANOMALIST_LITERATURE_CASES", 24_000);
    let seed = number("ANOMALIST_SEED", 20_261_118);
    let first = number("ANOMALIST_LITERATURE_FIRST", 0);
    let limit = number("ANOMALIST_LITERATURE_CLASSES", 1) as usize;
    let (all, next) = (Mutex::new(Tally::default()), AtomicU64::new(first));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(2));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| run(first..first + cases, seed, limit, &all, &next));
        }
    });
    let tally = all.into_inner().unwrap();
    println!("seed {seed}, {cases} histories\n{}", summary(&tally));
    for (_, count, report) in &tally.classes {
        println!("{count} times {report}");
    }
    assert!(tally.classes.is_empty(), "{} kinds of disagreement", tally.classes.len());
}
