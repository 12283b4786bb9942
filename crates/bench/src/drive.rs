//! `anomalist-bench drive`: how many transactions `anomalist test` gets through beside PostgreSQL's own
//! `pgbench`.
//!
//! The same statements, prepared, from as many sessions, on the same throw-away server and an empty table
//! each time, turn by turn: a round is one run of each, the next begins with the other. Transactions have
//! four reads or writes of registers in random order, so `pgbench` gets a script for each of the sixteen
//! sequences. What is compared is the median over rounds of the committed transactions per second; each
//! transaction of Anomalist's own client is planned, recorded in full and written to disk meanwhile.

use crate::table::{Side, Table};
use anomalist_cli::exit::Failure;
use anomalist_cli::{interrupt, terminal};
use anomalist_databases::{Database as _, Target};
use anomalist_lab::server::{Engine, Server, Setup, program};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const OPERATIONS: u32 = 4;
const KEYS: u32 = 10_000;
const SECONDS: u32 = 5;
const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
const SESSIONS: [u32; 2] = [4, 10];

/// Committed transactions per second of one run.
type Rate = f64;

/// Measures and prints. `rounds` of each.
pub fn measure(rounds: u32, as_json: bool, quiet: bool) -> Result<(), Failure> {
    let pgbench = program(Engine::Postgres, "pgbench").map_err(Failure::input)?;
    let server = Server::start(Engine::Postgres, &Setup::default()).map_err(Failure::input)?;
    let (target, password) = (server.target(0), server.password(0));
    let bench = Bench { pgbench, target, password, folder: server.folder() };
    let mut table = Table::new(vec![
        ("isolation", Side::Left),
        ("sessions", Side::Right),
        ("pgbench/s", Side::Right),
        ("anomalist/s", Side::Right),
        ("anomalist : pgbench", Side::Right),
    ]);
    let mut rows = Vec::new();
    for level in LEVELS {
        for sessions in SESSIONS {
            if !quiet {
                terminal::tell(&format!("{level}, {sessions} sessions, {rounds} × 2 × {SECONDS} s"));
            }
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            for round in 0..rounds {
                if interrupt::is_requested() {
                    return Err(Failure::Interrupted);
                }
                for turn in 0..2 {
                    match (round + turn) % 2 {
                        0 => theirs.push(bench.pgbench(level, sessions)?),
                        _ => ours.push(bench.anomalist(level, sessions)?),
                    }
                }
            }
            let (their_rate, our_rate) = (median(&mut theirs), median(&mut ours));
            let share = our_rate / their_rate;
            table.rows.push(vec![
                level.to_owned(),
                sessions.to_string(),
                format!("{their_rate:.0}"),
                format!("{our_rate:.0}"),
                format!("{:.0}%", 100.0 * share),
            ]);
            rows.push(json!({"isolation": level, "sessions": sessions, "pgbench": theirs, "anomalist": ours, "share": share}));
        }
    }
    if as_json {
        let document = json!({"anomalist": env!("CARGO_PKG_VERSION"), "schema": 1, "drive": rows});
        return terminal::print(&format!("{document:#}"));
    }
    let about = format!(
        "{OPERATIONS} reads or writes of {KEYS} registers per transaction, medians of {rounds} rounds of {SECONDS} s each"
    );
    terminal::print(&format!("{about}\n\n{}", table.text()))
}

fn median(rates: &mut [Rate]) -> Rate {
    rates.sort_by(f64::total_cmp);
    let (half, odd) = (rates.len() / 2, rates.len() % 2 == 1);
    match rates {
        [] => 0.0,
        _ if odd => rates[half],
        _ => (rates[half - 1] + rates[half]) / 2.0,
    }
}

struct Bench<'a> {
    pgbench: PathBuf,
    target: &'a Target,
    password: &'a str,
    folder: &'a Path,
}

impl Bench<'_> {
    /// The runner as users know it, in a process of its own.
    fn anomalist(&self, level: &str, sessions: u32) -> Result<Rate, Failure> {
        let own = std::env::current_exe().map_err(Failure::input)?;
        let runs = self.folder.join("runs");
        let mut command = Command::new(own);
        command.env("PGPASSWORD", self.password);
        command.args(["test", &self.target.to_string(), "--isolation", level, "--json", "--quiet"]);
        command.args(["--workload", "register", "--distribution", "uniform", "--read-ratio", "0.5"]);
        let (operations, keys) = (OPERATIONS.to_string(), KEYS.to_string());
        command.args(["--ops-per-txn", &operations, "--min-ops-per-txn", &operations, "--keys", &keys]);
        command.args(["--sessions", &sessions.to_string(), "--duration", &format!("{SECONDS}s")]);
        // One level is enough: the check comes after the run.
        command.args(["--level", "read-committed", "--runs"]).arg(&runs);
        let output = command.output().map_err(Failure::input)?;
        // A file in a folder that is removed anyway.
        _ = std::fs::remove_dir_all(&runs);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let run = &answer["runs"][0];
        let rate = run["committed"].as_f64().zip(run["elapsed_ms"].as_f64());
        let rate = rate.map(|(committed, elapsed)| 1e3 * committed / elapsed);
        rate.ok_or_else(|| Failure::input(String::from_utf8_lossy(&output.stderr)))
    }

    /// `pgbench` on the table that `anomalist test` makes.
    fn pgbench(&self, level: &str, sessions: u32) -> Result<Rate, Failure> {
        let made = "DROP TABLE IF EXISTS anomalist_rows; \
                    CREATE TABLE anomalist_rows (id BIGINT NOT NULL PRIMARY KEY, sk BIGINT NOT NULL, val BIGINT NOT NULL)";
        self.target.connect().and_then(|mut session| session.run(made)).map_err(Failure::input)?;
        let mut command = Command::new(&self.pgbench);
        command.env("PGPASSWORD", self.password);
        let (count, time) = (sessions.to_string(), SECONDS.to_string());
        command.args(["-n", "-M", "prepared", "-c", &count, "-j", &count, "-T", &time]);
        for sequence in 0..1_u32 << OPERATIONS {
            let file = self.folder.join(format!("script-{sequence}.sql"));
            std::fs::write(&file, script(level, sequence)).map_err(|e| Failure::io(&file, e))?;
            command.arg("-f").arg(file);
        }
        let (host, port) = self.target.address().unwrap_or(("localhost", 5432));
        command.args(["-h", host, "-p", &port.to_string(), "-U", "postgres", "postgres"]);
        let output = command.output().map_err(Failure::input)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        rate.ok_or_else(|| Failure::input(format_args!("{text}{}", String::from_utf8_lossy(&output.stderr))))
    }
}

/// A transaction whose writes are the bits of `sequence`.
fn script(level: &str, sequence: u32) -> String {
    let mut script = String::new();
    for at in 0..OPERATIONS {
        let _ = writeln!(script, "\\set k{at} random(0, {})\n\\set v{at} random(1, 1000000000)", KEYS - 1);
    }
    let _ = writeln!(script, "BEGIN ISOLATION LEVEL {level};");
    for at in 0..OPERATIONS {
        let _ = match sequence >> at & 1 {
            0 => writeln!(script, "SELECT val FROM anomalist_rows WHERE id = :k{at};"),
            _ => writeln!(
                script,
                "INSERT INTO anomalist_rows (id, sk, val) VALUES (:k{at}, :k{at}, :v{at}) \
                 ON CONFLICT (id) DO UPDATE SET val = excluded.val;"
            ),
        };
    }
    script.push_str("COMMIT;\n");
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_differ_and_medians_are_in_the_middle() {
        let all: std::collections::BTreeSet<String> = (0..16).map(|s| script("SERIALIZABLE", s)).collect();
        assert_eq!(all.len(), 16);
        assert!(all.iter().all(|s| s.starts_with("\\set") && s.ends_with("COMMIT;\n")));
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
    }
}
