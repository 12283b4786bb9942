//! How fast assertions break, and how many states are seen: the MonkeyDB paper's Table 1 and Figure 13,
//! measured.

use super::{App, Harness};
use anomalist_explore::{Stop, Turns};
use anomalist_explore::{Tried, systematic};
use anomalist_level::Level;
use anomalist_weakdb::{Error, Options, Store};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

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
) -> Result<super::Outcome, Stop> {
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
    /// Over all orders and choices, and all of these runs.
    pub all: u64,
    /// How orders and choices were tried. If that is not complete, `all` is a lower bound.
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
    let mut all = BTreeSet::new();
    let mut count = |shuffled: bool| -> Result<Vec<(u64, u64)>, Stop> {
        let mut states = BTreeSet::new();
        let mut counts = Vec::new();
        for i in 1..=at.last().copied().unwrap_or(0) {
            let turns = if shuffled { Turns::Shuffled(seed + i) } else { Turns::Free };
            states.insert(run(app, level, seed + i, &turns, harness)?.observed);
            if at.contains(&i) {
                counts.push((i, states.len() as u64));
            }
        }
        all.append(&mut states);
        Ok(counts)
    };
    let (free, shuffled) = (count(false)?, count(true)?);
    let options = Options::new(level);
    let tried = systematic(&options, &app.initial(harness.len()), limit, |store, turns| {
        if let Ok(outcome) = app.run(store, turns, harness) {
            all.insert(outcome.observed);
        }
        true
    })?;
    Ok(Coverage { free, shuffled, all: all.len() as u64, tried })
}

/// What a read costs when the history has a certain length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Transactions so far.
    pub transactions: u64,
    /// Nanoseconds per read.
    pub read_ns: f64,
    /// Transactions per second.
    pub per_second: f64,
}

/// Lets the history grow, and measures the cost of reads on the way: before each of these numbers of
/// transactions, in the fastest of twenty stretches of a hundred, since other programs also want the
/// processor.
///
/// Ten sessions take turns; a transaction reads four of a hundred keys and writes two of them.
pub fn growth(level: Level, at: &[u64], seed: u64) -> Result<Vec<Cost>, Stop> {
    const STRETCH: u64 = 100;
    let store = Store::new(Options { seed, ..Options::new(level) })?;
    let mut sessions: Vec<_> = (0..10).map(|i| store.session(&i.to_string())).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut reading, mut start) = (Duration::ZERO, Instant::now());
    let mut stretches: Vec<(f64, f64)> = Vec::new();
    let mut costs = Vec::new();
    for n in 1..=at.last().copied().unwrap_or(0) {
        let session = &mut sessions[random.usize(..10)];
        let keys: [String; 4] = std::array::from_fn(|_| format!("k{}", random.u8(..100)));
        let result = session.transaction(|t| {
            let start = Instant::now();
            for key in &keys {
                t.read(key)?;
            }
            reading += start.elapsed();
            t.write(&keys[0], n as i64)?;
            t.write(&keys[1], n as i64)
        });
        match result {
            Ok(()) | Err(Error::Serialization(_)) => {}
            Err(other) => return Err(other.into()),
        }
        if n % STRETCH == 0 {
            let per_read = reading.as_nanos() as f64 / (4 * STRETCH) as f64;
            stretches.push((per_read, STRETCH as f64 / start.elapsed().as_secs_f64()));
            (reading, start) = (Duration::ZERO, Instant::now());
        }
        if at.contains(&n) {
            let last = &stretches[stretches.len().saturating_sub(20)..];
            costs.push(Cost {
                transactions: n,
                read_ns: last.iter().map(|s| s.0).fold(f64::INFINITY, f64::min),
                per_second: last.iter().map(|s| s.1).fold(0.0, f64::max),
            });
        }
    }
    Ok(costs)
}
