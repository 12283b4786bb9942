//! `anomalist-bench oltp`: the MonkeyDB paper's Figures 14 and 15, and its comparison with a real database
//! (section 9).
//!
//! Each suite is set up once; each run then begins with a copy of that state, in a database of its own, and
//! is made through a socket. A real MariaDB runs the same suites beside it, where one is installed.

use crate::suites::{Load, Ran, Suite, all, run, set_up};
use crate::table::{Side, Table};
use anomalist_cli::exit::Failure;
use anomalist_cli::{interrupt, terminal};
use anomalist_databases::{Database as _, Target};
use anomalist_lab::server::{Engine, Server as RealServer, Setup};
use anomalist_level::Level;
use anomalist_weakdb::{Options, Store};
use anomalist_weakdb_sql::Database;
use anomalist_weakdb_sql::wire::{Addresses, Server};
use serde_json::json;
use std::time::{Duration, Instant};

/// Transactions of each session. The paper's sessions made four to six in their ten seconds.
const TRANSACTIONS: usize = 25;
/// Runs on a real database.
const REAL: u64 = 20;

/// What is measured of each suite: level, sessions, and which reads the assertions make.
const CELLS: [(Level, usize, &str); 8] = [
    (Level::ReadCommitted, 2, PAPERS),
    (Level::ReadCommitted, 3, PAPERS),
    (Level::Causal, 2, PAPERS),
    (Level::Causal, 3, PAPERS),
    (Level::Serializable, 2, PAPERS),
    (Level::Serializable, 3, PAPERS),
    (Level::ReadCommitted, 3, "on"),
    (Level::Causal, 3, "on"),
];

/// The paper's rule for the reads of assertions.
const PAPERS: &str = "per-session";

/// What many runs of one suite showed.
struct Shares {
    /// Runs in which each assertion failed.
    broken: Vec<u64>,
    committed: u64,
    failed: u64,
    seconds: f64,
}

/// What the paper's text says of an assertion: whether it breaks at read committed, under causal with three
/// sessions (section 8), and on MySQL at read committed (section 9, TPC-C only). The percentages are in its
/// figures alone.
fn paper(code: &str) -> [&'static str; 3] {
    let number: u32 = code[1..].parse().unwrap_or(0);
    let yes = |breaks: bool| if breaks { "yes" } else { "no" };
    let mysql = if number <= 12 { yes(matches!(number, 10 | 12)) } else { "" };
    ["yes", yes(!matches!(number, 4 | 11)), mysql]
}

/// Measures and prints.
pub fn measure(runs: u64, as_json: bool, quiet: bool) -> Result<(), Failure> {
    let real = RealServer::start(Engine::Mariadb, &Setup::default());
    let mut columns = vec![("suite", Side::Left), ("", Side::Left)];
    let names = ["RC 2", "RC 3", "CC 2", "CC 3", "ser.", "RC", "CC", "RC 3*", "CC 3*", "MariaDB", "MySQL"];
    columns.extend(names.map(|name| (name, Side::Right)));
    let mut table = Table::new(columns);
    let (mut rows, mut notes, mut legend) = (Vec::new(), String::new(), String::new());
    // Shares of A13 to A17 that are not 0, by cell.
    let mut small: Vec<Vec<f64>> = vec![Vec::new(); 4];
    for suite in all() {
        let mut found = Vec::new();
        for (level, sessions, latest) in CELLS {
            if !quiet {
                terminal::tell(&format!("{} at {}, {sessions} sessions", suite.name(), level.name()));
            }
            let shares = mock(suite, level, sessions, latest, runs)?;
            let rate = shares.committed as f64 / shares.seconds;
            rows.push(json!({
                "suite": suite.name(), "level": level.name(), "sessions": sessions, "latest": latest, "runs": runs,
                "broken": shares.broken, "committed": shares.committed, "failed": shares.failed,
                "transactions_per_second": rate,
            }));
            if (level, sessions, latest) == (Level::Causal, 3, "on") {
                notes += &format!("{}: {rate:.0} transactions/s (causal, 3 sessions)\n", suite.name());
            }
            found.push(shares);
        }
        let beside = match &real {
            Ok(server) => Some(mariadb(suite, server.target(0), runs.min(REAL))?),
            Err(_) => None,
        };
        for (i, (code, about)) in suite.assertions().iter().enumerate() {
            let [rc, causal, mysql] = paper(code);
            let cell = |at: usize| percent(found[at].broken[i], runs);
            let mut row = vec![suite.name().to_owned(), (*code).to_owned()];
            row.extend((0..4).map(cell));
            row.push(percent(found[4].broken[i] + found[5].broken[i], 2 * runs));
            row.extend([rc.to_owned(), causal.to_owned(), cell(6), cell(7)]);
            row.push(beside.as_ref().map_or(String::new(), |s| percent(s.broken[i], runs.min(REAL))));
            row.push(mysql.to_owned());
            table.rows.push(row);
            if !legend.contains(about) {
                legend += &format!("{code:<4} {about}\n");
            }
            if !suite.name().starts_with("TPC-C") {
                for (at, shares) in small.iter_mut().enumerate() {
                    shares
                        .extend(Some(found[at].broken[i]).filter(|&b| b > 0).map(|b| b as f64 / runs as f64));
                }
            }
        }
    }
    if as_json {
        let document = json!({"anomalist": env!("CARGO_PKG_VERSION"), "schema": 1, "oltp": rows});
        return terminal::print(&format!("{:#}", document));
    }
    if let Err(missing) = &real {
        notes += &format!("MariaDB is not measured: {missing}\n");
    }
    terminal::print(&format!(
        "Share of {runs} runs in which an assertion fails, at read committed (RC), causal (CC)\n\
         and serializable, with 2 or 3 sessions of {TRANSACTIONS} transactions. The programs are ours,\n\
         written from the published definitions; the paper (MonkeyDB, section 8) ran\n\
         OLTPBench. Assertions read as in the paper: the latest allowed write of each\n\
         session. RC, CC: whether it breaks with 3 sessions, says the paper. RC*, CC*: 3\n\
         sessions, where assertions read what is not known to be overwritten. real: a\n\
         MariaDB at read committed, {} runs; MySQL: whether it breaks there, says the paper.\n\n{}\n{legend}\n\
         A13 to A17, geometric mean of those that break:\n{}\n{notes}",
        runs.min(REAL),
        table.text(),
        means(&small),
    ))
}

/// Geometric means of the shares of A13 to A17 that are not 0, by cell, beside the paper's.
fn means(small: &[Vec<f64>]) -> String {
    let mean = |shares: &[f64]| {
        let log: f64 = shares.iter().map(|s| s.ln()).sum();
        format!("{:.1}% ({} of 5 break)", 100.0 * (log / shares.len().max(1) as f64).exp(), shares.len())
    };
    let cells = [("RC 2", 56.1), ("RC 3", 65.4), ("CC 2", 26.7), ("CC 3", 37.2)];
    let line = |(shares, (name, paper)): (&Vec<f64>, (&str, f64))| {
        format!("  {name}: {}, the paper's {paper}%\n", mean(shares))
    };
    small.iter().zip(cells).map(line).collect()
}

fn percent(count: u64, of: u64) -> String {
    format!("{:.0}%", 100.0 * count as f64 / of as f64)
}

fn unable(error: impl std::fmt::Display) -> Failure {
    Failure::input(error)
}

fn load(sessions: usize, seed: u64, latest: &str) -> Load {
    Load {
        sessions,
        transactions: TRANSACTIONS,
        seed,
        isolation: "read-committed".into(),
        before_assertions: Some(format!("SET anomalist.latest = '{latest}'")),
    }
}

fn serve(database: Database) -> Result<(Server, Target), Failure> {
    let server = Server::start(database, &Addresses::free()).map_err(unable)?;
    let address = server.mysql().ok_or_else(|| unable("no address for MySQL's protocol"))?;
    let target = format!("mysql://root@{address}/weakdb").parse().map_err(unable)?;
    Ok((server, target))
}

fn mock(
    suite: &dyn Suite,
    level: Level,
    sessions: usize,
    latest: &str,
    runs: u64,
) -> Result<Shares, Failure> {
    let store = Store::new(Options::new(Level::Serializable)).map_err(unable)?;
    let (first, target) = serve(Database::new(store))?;
    set_up(suite, &target).map_err(unable)?;
    let mut shares = Shares::new(suite);
    for seed in 1..=runs {
        if interrupt::is_requested() {
            return Err(Failure::Interrupted);
        }
        let database = first.database().restart(Options { seed, ..Options::new(level) }).map_err(unable)?;
        let (server, target) = serve(database)?;
        let start = Instant::now();
        let ran = run(suite, &target, &load(sessions, seed, latest)).map_err(unable)?;
        shares.add(&ran, start.elapsed());
        server.stop();
    }
    Ok(shares)
}

/// The same on a real database at read committed, with the tables made anew each time.
fn mariadb(suite: &dyn Suite, target: &Target, runs: u64) -> Result<Shares, Failure> {
    let mut shares = Shares::new(suite);
    for seed in 1..=runs {
        let name = format!(
            "oltp_{}_{seed}",
            suite.name().replace(|c: char| !c.is_ascii_alphanumeric(), "").to_lowercase()
        );
        target.connect().and_then(|mut c| c.run(&format!("CREATE DATABASE {name}"))).map_err(unable)?;
        let target = target.with_database(&name);
        set_up(suite, &target).map_err(unable)?;
        let start = Instant::now();
        let load = Load { before_assertions: None, ..load(3, seed, "off") };
        shares.add(&run(suite, &target, &load).map_err(unable)?, start.elapsed());
        target.connect().and_then(|mut c| c.run(&format!("DROP DATABASE {name}"))).map_err(unable)?;
    }
    Ok(shares)
}

impl Shares {
    fn new(suite: &dyn Suite) -> Shares {
        Shares { broken: vec![0; suite.assertions().len()], committed: 0, failed: 0, seconds: 0.0 }
    }

    fn add(&mut self, ran: &Ran, took: Duration) {
        ran.broken.iter().for_each(|&i| self.broken[i] += 1);
        self.committed += ran.committed;
        self.failed += ran.failed;
        self.seconds += took.as_secs_f64();
    }
}
