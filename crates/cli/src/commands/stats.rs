//! `anomalist stats`: the size and shape of histories.

use crate::cli::{Global, ReadFlags};
use crate::exit::{Exit, Failure};
use crate::load::{self, Read};
use crate::terminal;
use anomalist_check::stats::{Spread, Stats, stats};
use anomalist_history::{Indexed, inert};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Flags of `stats`.
#[derive(Args, Debug)]
#[command(after_help = "Example: anomalist stats --json history.txt.zst")]
pub struct Flags {
    /// Files, folders of logs, or - for standard input
    #[arg(value_name = "HISTORY", required = true)]
    histories: Vec<PathBuf>,
    /// Print one JSON document (an array for several histories)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadFlags,
}

/// Counts.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let several = flags.histories.len() > 1;
    let mut documents = Vec::new();
    for (i, path) in flags.histories.iter().enumerate() {
        let loaded = load::read(path, &flags.read, global)?;
        let counted = stats(&Indexed::new(&loaded.history, load::threads(global)));
        if flags.json {
            documents.push(document(&loaded, &counted));
        } else {
            let gap = if i > 0 { "\n" } else { "" };
            terminal::print(&format!("{gap}{}", text(&loaded, &counted)))?;
        }
    }
    if flags.json {
        let document = if several { Value::Array(documents) } else { documents.pop().unwrap_or_default() };
        terminal::print(&format!("{document:#}"))?;
    }
    Ok(Exit::Holds)
}

fn spread(s: Spread) -> Value {
    json!({"min": s.min, "mean": rounded(s.mean), "max": s.max})
}

/// Four digits are plenty, and the same on every machine.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

fn document(loaded: &Read, s: &Stats) -> Value {
    let hottest = s.contention.hottest_key.map(|k| loaded.history.show_key(k).to_string());
    json!({
        "anomalist": env!("CARGO_PKG_VERSION"),
        "schema": 1,
        "path": loaded.path,
        "format": loaded.format.name(),
        "kind": s.kind,
        "sessions": s.sessions,
        "transactions": s.transactions,
        "aborted": s.aborted,
        "indeterminate": s.indeterminate,
        "operations": s.operations,
        "keys": s.keys,
        "reads": s.reads,
        "writes": s.writes,
        "appends": s.appends,
        "read_ratio": rounded(s.read_ratio),
        "ops_per_txn": spread(s.ops_per_txn),
        "txns_per_session": spread(s.txns_per_session),
        "values_repeated": s.values_repeated,
        "reads_of_initial": s.reads_of_initial,
        "reads_of_own_writes": s.reads_of_own_writes,
        "reads_ambiguous": s.reads_ambiguous,
        "reads_without_result": s.reads_without_result,
        "contention": {
            "hottest_key": hottest,
            "hottest_share": rounded(s.contention.hottest_share),
            "keys_written_by_several_sessions": s.contention.keys_written_by_several_sessions,
            "keys_read_across_sessions": s.contention.keys_read_across_sessions,
        },
        "timestamps": s.timestamps,
        "realtime": s.realtime,
    })
}

fn text(loaded: &Read, s: &Stats) -> String {
    let range = |s: Spread| format!("{} to {}, {:.1} on average", s.min, s.max, s.mean);
    let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
    let hottest = match s.contention.hottest_key {
        Some(key) => format!(
            "{} ({:.2} % of the operations)",
            anomalist_report::printable(&loaded.history.show_key(key).to_string()),
            s.contention.hottest_share * 100.0
        ),
        None => "none".to_owned(),
    };
    let rows = [
        ("kind", s.kind.to_owned()),
        ("format", loaded.format.name().to_owned()),
        ("sessions", s.sessions.to_string()),
        ("transactions", s.transactions.to_string()),
        ("  aborted", s.aborted.to_string()),
        ("  indeterminate", s.indeterminate.to_string()),
        ("  per session", range(s.txns_per_session)),
        ("operations", s.operations.to_string()),
        ("  per transaction", range(s.ops_per_txn)),
        ("  reads", format!("{} ({:.1} %)", s.reads, s.read_ratio * 100.0)),
        ("  writes", s.writes.to_string()),
        ("  appends", s.appends.to_string()),
        ("reads", s.reads.to_string()),
        ("  of initial values", s.reads_of_initial.to_string()),
        ("  of own writes", s.reads_of_own_writes.to_string()),
        ("  with several possible sources", s.reads_ambiguous.to_string()),
        ("  without a result", s.reads_without_result.to_string()),
        ("values written more than once", s.values_repeated.to_string()),
        ("keys", s.keys.to_string()),
        ("  written by several sessions", s.contention.keys_written_by_several_sessions.to_string()),
        ("  read across sessions", s.contention.keys_read_across_sessions.to_string()),
        ("  hottest", hottest),
        ("timestamps", yes(s.timestamps)),
        ("real-time intervals", yes(s.realtime)),
    ];
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = format!("{}\n", inert(&loaded.path));
    for (name, value) in rows {
        _ = writeln!(out, "  {name:width$}  {value}");
    }
    out
}
