//! `anomalist-bench weakdb`: the MonkeyDB paper's Table 1 and Figure 13 beside ours, and what reads cost as
//! the history grows.

use crate::apps::measure::{Coverage, break_assertion, coverage, growth};
use crate::apps::{self, App};
use crate::table::{Side, Table};
use anomalist_cli::exit::Failure;
use anomalist_cli::{interrupt, terminal};
use anomalist_explore::{LEVELS, Stop};
use anomalist_level::Level;
use serde_json::{Value, json};
use std::time::Instant;

/// Runs of each assertion.
const RUNS: u64 = 1000;
/// Runs after which states are counted; programs that they are averaged over.
const AT: [u64; 4] = [10, 100, 300, 1000];
/// The smallest and the largest programs of the paper.
const SIZES: [Size; 2] = [
    Size { clients: 2, operations: 3, programs: 12, limit: 60_000 },
    Size { clients: 3, operations: 4, programs: 4, limit: 20_000 },
];
/// Lengths of the history at which the cost of a read is measured.
const LENGTHS: [u64; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];

/// Random programs.
struct Size {
    clients: usize,
    operations: usize,
    /// How many are averaged over.
    programs: u64,
    /// Histories that may be tried for the number of all states.
    limit: u64,
}

/// Measures and prints.
pub fn measure(as_json: bool, quiet: bool) -> Result<(), Failure> {
    let say = |what: &str| {
        if !quiet {
            terminal::tell(what);
        }
    };
    say("[1/3] runs until an assertion fails");
    let assertions = assertions()?;
    let states = states(&|app, level| say(&format!("[2/3] states seen: {app}, {}", level.name())))?;
    say("[3/3] cost of reads");
    let costs = costs()?;
    if as_json {
        let document = json!({
            "anomalist": env!("CARGO_PKG_VERSION"),
            "schema": 1,
            "assertions": assertions.1,
            "coverage": states.1,
            "reads": costs.1,
        });
        return terminal::print(&format!("{document:#}"));
    }
    let text = format!(
        "Runs until an assertion fails, causal, 3 clients, 3 operations each ({RUNS} runs), beside the paper's Table 1.\n\
         The programs are ours, written from the paper's descriptions.\n\n{}\n\
         Distinct states seen by clients, averaged over random programs (the paper's Figure 13): clients on threads\n\
         without delay, and taking turns at random, which is what the paper's delay is for; all: every order and value.\n\n{}\n\
         Cost of a read as the history grows: 10 sessions, 100 keys, 4 reads and 2 writes per transaction. At 1,000 transactions\n\
         a session has written each key twice; from a few times on, read atomic and causal always do the same work. At read committed\n\
         any old version may be drawn, from memory that is beyond the processor's cache by then.\n\n{}",
        assertions.0.text(),
        states.0.text(),
        costs.0.text(),
    );
    terminal::print(&text)
}

/// A table for people, and for machines.
type Result2 = Result<(Table, Vec<Value>), Failure>;

fn stopped(stop: Stop) -> Failure {
    Failure::input(stop)
}

fn check_interrupt() -> Result<(), Failure> {
    if interrupt::is_requested() { Err(Failure::Interrupted) } else { Ok(()) }
}

fn assertions() -> Result2 {
    let mut table = Table::new(vec![
        ("application", Side::Left),
        ("assertion", Side::Left),
        ("paper", Side::Right),
        ("ours", Side::Right),
        ("ms to fail", Side::Right),
        ("serializable", Side::Right),
    ]);
    let mut rows = Vec::new();
    for app in apps::all() {
        for (i, &(assertion, paper)) in app.assertions().iter().enumerate() {
            check_interrupt()?;
            let start = Instant::now();
            let causal = break_assertion(app, i, Level::Causal, RUNS, 1).map_err(stopped)?;
            let ms = start.elapsed().as_secs_f64() * 1000.0 / causal.failures.max(1) as f64;
            let serial = break_assertion(app, i, Level::Serializable, RUNS, 1).map_err(stopped)?;
            let every = causal.runs_per_failure();
            table.rows.push(vec![
                app.name().to_owned(),
                assertion.to_owned(),
                format!("{paper:.1}"),
                every.map_or("never".into(), |e| format!("{e:.1}")),
                format!("{ms:.2}"),
                if serial.failures == 0 { "never".into() } else { format!("{} failed", serial.failures) },
            ]);
            rows.push(json!({
                "application": app.name(), "assertion": assertion, "runs": RUNS, "paper_runs_per_failure": paper,
                "runs_per_failure": every, "ms_per_failure": ms, "serializable_failures": serial.failures,
            }));
        }
    }
    Ok((table, rows))
}

/// Says which application and level are next.
fn states(say: &dyn Fn(&str, Level)) -> Result2 {
    let mut table = Table::new(vec![
        ("application", Side::Left),
        ("program", Side::Left),
        ("level", Side::Left),
        ("clients", Side::Left),
        ("10 runs", Side::Right),
        ("100", Side::Right),
        ("300", Side::Right),
        ("1000", Side::Right),
        ("all", Side::Right),
    ]);
    let mut rows = Vec::new();
    for (app, size) in apps::all().into_iter().flat_map(|app| SIZES.iter().map(move |size| (app, size))) {
        for level in [Level::Serializable, Level::Causal] {
            say(&format!("{}, {} × {}", app.name(), size.clients, size.operations), level);
            let found = programs(app, level, size)?;
            let all = mean(found.iter().map(|c| c.all as f64));
            let complete = found.iter().all(|c| c.tried.complete);
            for (clients, of) in [("threads", 0), ("turns", 1)] {
                let counts = |c: &Coverage| if of == 0 { c.free.clone() } else { c.shuffled.clone() };
                let means: Vec<f64> =
                    (0..AT.len()).map(|i| mean(found.iter().map(|c| counts(c)[i].1 as f64))).collect();
                let program = format!("{} × {}", size.clients, size.operations);
                let mut row =
                    vec![app.name().to_owned(), program.clone(), level.name().to_owned(), clients.to_owned()];
                row.extend(means.iter().map(|m| format!("{m:.1}")));
                row.push(format!("{}{all:.1}", if complete { "" } else { "≥ " }));
                table.rows.push(row);
                rows.push(json!({
                    "application": app.name(), "program": program, "level": level.name(), "clients": clients,
                    "runs": AT, "states": means, "all": all, "all_is_exact": complete,
                }));
            }
        }
    }
    Ok((table, rows))
}

fn programs(app: &dyn App, level: Level, size: &Size) -> Result<Vec<Coverage>, Failure> {
    let mut found = Vec::new();
    for seed in 1..=size.programs {
        check_interrupt()?;
        let harness = app.harness(size.clients, size.operations, &mut fastrand::Rng::with_seed(seed));
        found.push(coverage(app, &harness, level, &AT, size.limit, seed * 1_000_000).map_err(stopped)?);
    }
    Ok(found)
}

fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = numbers.len().max(1) as f64;
    numbers.sum::<f64>() / n
}

fn costs() -> Result2 {
    let mut table = Table::new(vec![
        ("level", Side::Left),
        ("transactions", Side::Right),
        ("ns per read", Side::Right),
        ("transactions/s", Side::Right),
    ]);
    let mut rows = Vec::new();
    for &level in LEVELS {
        check_interrupt()?;
        for cost in growth(level, &LENGTHS, 1).map_err(stopped)? {
            table.rows.push(vec![
                level.name().to_owned(),
                cost.transactions.to_string(),
                format!("{:.0}", cost.read_ns),
                format!("{:.0}", cost.per_second),
            ]);
            rows.push(json!({
                "level": level.name(), "transactions": cost.transactions, "read_ns": cost.read_ns,
                "transactions_per_second": cost.per_second,
            }));
        }
    }
    Ok((table, rows))
}
