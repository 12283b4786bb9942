//! `anomalist lint`: recording mistakes, and what a history could not have shown.

use crate::cli::{Global, ReadFlags};
use crate::exit::{Exit, Failure};
use crate::load::{self, Read};
use crate::terminal;
use anomalist_check::lint::{Finding, Severity, lint};
use anomalist_history::{Indexed, inert};
use anomalist_report::printable;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Flags of `lint`.
#[derive(Args, Debug)]
#[command(after_help = "Example: anomalist lint --strict history.edn")]
pub struct Flags {
    /// A file, a folder of logs, or - for standard input
    #[arg(value_name = "HISTORY")]
    history: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Exit with 1 if there are warnings
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    read: ReadFlags,
}

/// Lints.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let loaded = load::read(&flags.history, &flags.read, global)?;
    let findings = lint(&Indexed::new(&loaded.history, load::threads(global)));
    let warnings = findings.iter().filter(|f| f.severity == Severity::Warning).count();
    let out = if flags.json {
        format!("{:#}", document(&loaded, &findings))
    } else {
        text(&loaded, &findings, warnings, terminal::style(global).width)
    };
    terminal::print(&out)?;
    Ok(if flags.strict && warnings > 0 { Exit::Violated } else { Exit::Holds })
}

fn document(loaded: &Read, findings: &[Finding]) -> Value {
    let finding = |f: &Finding| {
        json!({
            "severity": f.severity.name(),
            "code": f.code,
            "count": f.count,
            "message": f.message,
            "transaction": f.example.map(|t| loaded.history.raw_name(t)),
            "line": f.example.and_then(|t| loaded.history.line(t)),
            "advice": f.advice,
        })
    };
    json!({
        "anomalist": env!("CARGO_PKG_VERSION"),
        "schema": 1,
        "history": {"path": loaded.path, "format": loaded.format.name()},
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn text(loaded: &Read, findings: &[Finding], warnings: usize, width: usize) -> String {
    let mut out = String::new();
    for f in findings {
        let head = format!("{} [{}]: {}", f.severity.name(), f.code, printable(&f.message));
        out += &terminal::wrap(&head, "", "  ", width);
        out += &terminal::wrap(f.advice, "  -> ", "     ", width);
    }
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let notes = findings.len() - warnings;
    out += &format!(
        "{}: {warnings} warning{}, {notes} note{}\n",
        inert(&loaded.path),
        plural(warnings),
        plural(notes)
    );
    out
}
