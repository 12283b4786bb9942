//! How fast assertions break, and how many states are seen: the MonkeyDB paper's Table 1 and Figure 13, measured.

use crate::apps::{App, Harness};
use crate::systematic::{Tried, systematic};
use crate::turns::{Stop, Turns};
use isolde_level::Level;
use isolde_weakdb::{Options, Store};
use std::collections::BTreeSet;

/// One assertion of one application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Broken {
    /// Runs made.
    pub runs: u64,
    /// Runs in which the assertion failed.
    pub failures: u64,
}

impl Broken {
    /// Runs until it fails, on average; `None` if it never did.
    pub fn runs_per_failure(self) -> Option<f64> {
        (self.failures > 0).then(|| self.runs as f64 / self.failures as f64)
    }
}

fn run(
    app: &dyn App,
    level: Level,
    seed: u64,
    turns: &Turns,
    harness: &Harness,
) -> Result<crate::apps::Outcome, Stop> {
    let options = Options { seed, ..Options::new(level) };
    let store = Store::with_initial(options, app.initial(harness.len()))?;
    app.run(&store, turns, harness)
}

/// Runs an application's program with this many seeds and counts how often the assertion fails.
pub fn break_assertion(
    app: &dyn App,
    assertion: usize,
    level: Level,
    runs: u64,
    seed: u64,
) -> Result<Broken, Stop> {
    let mut failures = 0;
    for seed in seed..seed + runs {
        let harness = app.program(assertion, &mut fastrand::Rng::with_seed(seed));
        let outcome = run(app, level, seed, &Turns::Shuffled(seed), &harness)?;
        failures += u64::from(outcome.broken.contains(&assertion));
    }
    Ok(Broken { runs, failures })
}

/// How many distinct things clients of one program were shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// After so many runs, with clients on threads of the operating system.
    pub free: Vec<(u64, u64)>,
    /// After so many runs, with clients taking turns at random.
    pub shuffled: Vec<(u64, u64)>,
    /// Over all orders and choices.
    pub all: u64,
    /// How that was found out; it is a lower bound if not complete.
    pub tried: Tried,
}

/// Measures one program at one level; counts are taken after the runs of `at`, ascending.
pub fn coverage(
    app: &dyn App,
    harness: &Harness,
    level: Level,
    at: &[u64],
    limit: u64,
    seed: u64,
) -> Result<Coverage, Stop> {
    let count = |shuffled: bool| -> Result<Vec<(u64, u64)>, Stop> {
        let mut states = BTreeSet::new();
        let mut counts = Vec::new();
        for i in 1..=at.last().copied().unwrap_or(0) {
            let turns = if shuffled { Turns::Shuffled(seed + i) } else { Turns::Free };
            states.insert(run(app, level, seed + i, &turns, harness)?.observed);
            if at.contains(&i) {
                counts.push((i, states.len() as u64));
            }
        }
        Ok(counts)
    };
    let (free, shuffled) = (count(false)?, count(true)?);
    let mut states = BTreeSet::new();
    let options = Options::new(level);
    let tried = systematic(&options, &app.initial(harness.len()), limit, |store, turns| {
        if let Ok(outcome) = app.run(store, turns, harness) {
            states.insert(outcome.observed);
        }
        true
    })?;
    Ok(Coverage { free, shuffled, all: states.len() as u64, tried })
}
