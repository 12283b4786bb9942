//! `isolde bench oltp`: the MonkeyDB paper's Figures 14 and 15, and its comparison with a real database (section 9).
//!
//! Each suite is set up once; each run then begins with a copy of that state, in a database of its own, and is made through a socket. A real MariaDB
//! runs the same suites beside it, where one is installed.

use super::table::{Side, Table};
use crate::exit::Failure;
use crate::{interrupt, terminal};
use isolde_driver::server::{Engine, Server as RealServer, Setup};
use isolde_driver::{Database as _, Target};
use isolde_explore::oltp::{Load, Ran, Suite, all, run, set_up};
use isolde_level::Level;
use isolde_weakdb::sql::Database;
use isolde_weakdb::wire::{Addresses, Server};
use isolde_weakdb::{Options, Store};
use serde_json::json;
use std::time::{Duration, Instant};

/// Transactions of each session. The paper's sessions made four to six in their ten seconds.
const TRANSACTIONS: usize = 25;
const LEVELS: [Level; 3] = [Level::ReadCommitted, Level::Causal, Level::Serializable];
const SESSIONS: [usize; 2] = [2, 3];

/// What many runs of one suite showed.
struct Shares {
    /// Runs in which each assertion failed.
    broken: Vec<u64>,
    committed: u64,
    failed: u64,
    seconds: f64,
}

/// Measures and prints.
pub fn measure(runs: u64, as_json: bool, quiet: bool) -> Result<(), Failure> {
    let real = RealServer::start(Engine::Mariadb, &Setup::default());
    let mut columns = vec![("suite", Side::Left), ("", Side::Left), ("assertion", Side::Left)];
    columns
        .extend(["RC 2", "RC 3", "causal 2", "causal 3", "ser. 2", "ser. 3"].map(|name| (name, Side::Right)));
    columns.push(("MariaDB", Side::Right));
    let mut table = Table::new(columns);
    let (mut rows, mut notes) = (Vec::new(), String::new());
    for suite in all() {
        let mut found = Vec::new();
        for level in LEVELS {
            for sessions in SESSIONS {
                if !quiet {
                    terminal::tell(&format!("{} at {}, {sessions} sessions", suite.name(), level.name()));
                }
                let shares = mock(suite, level, sessions, runs)?;
                let rate = shares.committed as f64 / shares.seconds;
                rows.push(json!({
                    "suite": suite.name(), "level": level.name(), "sessions": sessions, "runs": runs,
                    "broken": shares.broken, "committed": shares.committed, "failed": shares.failed,
                    "transactions_per_second": rate,
                }));
                if (level, sessions) == (Level::Causal, 3) {
                    notes += &format!("{}: {rate:.0} transactions/s (causal, 3 sessions)\n", suite.name());
                }
                found.push(shares);
            }
        }
        let beside = match &real {
            Ok(server) => Some(mariadb(suite, server.target(0), runs.min(20))?),
            Err(_) => None,
        };
        for (i, (code, about)) in suite.assertions().iter().enumerate() {
            let mut row = vec![suite.name().to_owned(), (*code).to_owned(), (*about).to_owned()];
            row.extend(found.iter().map(|s| percent(s.broken[i], runs)));
            row.push(beside.as_ref().map_or(String::new(), |s| percent(s.broken[i], runs.min(20))));
            table.rows.push(row);
        }
    }
    if as_json {
        let document = json!({"isolde": env!("CARGO_PKG_VERSION"), "schema": 1, "oltp": rows});
        return terminal::print(&format!("{:#}", document));
    }
    if let Err(missing) = &real {
        notes += &format!("MariaDB is not measured: {missing}\n");
    }
    terminal::print(&format!(
        "Share of {runs} runs in which an assertion fails; {TRANSACTIONS} transactions per session\n\n{}\n{notes}",
        table.text()
    ))
}

fn percent(count: u64, of: u64) -> String {
    format!("{:.0}%", 100.0 * count as f64 / of as f64)
}

fn unable(error: impl std::fmt::Display) -> Failure {
    Failure::input(error)
}

fn load(sessions: usize, seed: u64) -> Load {
    Load {
        sessions,
        transactions: TRANSACTIONS,
        seed,
        isolation: "read-committed".into(),
        before_assertions: Some("SET isolde.latest = on".into()),
    }
}

fn serve(database: Database) -> Result<(Server, Target), Failure> {
    let server = Server::start(database, &Addresses::free()).map_err(unable)?;
    let address = server.mysql().ok_or_else(|| unable("no address for MySQL's protocol"))?;
    let target = format!("mysql://root@{address}/weakdb").parse().map_err(unable)?;
    Ok((server, target))
}

fn mock(suite: &dyn Suite, level: Level, sessions: usize, runs: u64) -> Result<Shares, Failure> {
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
        let ran = run(suite, &target, &load(sessions, seed)).map_err(unable)?;
        shares.add(&ran, start.elapsed());
        server.stop();
    }
    Ok(shares)
}

/// The same on a real database at read committed, with the tables made anew each time.
fn mariadb(suite: &dyn Suite, target: &Target, runs: u64) -> Result<Shares, Failure> {
    let mut shares = Shares::new(suite);
    for seed in 1..=runs {
        let name = format!("oltp_{}_{seed}", suite.name().replace('-', "").to_lowercase());
        target.connect().and_then(|mut c| c.run(&format!("CREATE DATABASE {name}"))).map_err(unable)?;
        let target = target.with_database(&name);
        set_up(suite, &target).map_err(unable)?;
        let start = Instant::now();
        let load = Load { before_assertions: None, ..load(3, seed) };
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
