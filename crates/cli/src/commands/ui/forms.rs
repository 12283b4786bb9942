//! The forms: which flags of which commands a browser may set.
//!
//! Only what is listed here can be set. Help, defaults and checks are those of the flags themselves.

use crate::cli::Cli;
use anomalist_lab::server::Engine;
use anomalist_level::Level;
use anomalist_workload::client::Workload;
use anomalist_workload::{Distribution, Injection, Kind as Recorded, SimLevel};
use clap::CommandFactory;
use serde_json::{Value, json};

/// How a field is filled in.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Text,
    /// A text with suggestions.
    Suggest(fn() -> Vec<String>),
    /// One of these.
    Choice(fn() -> Vec<String>),
    Number,
    Flag,
    /// A port of this machine, and what it is for.
    Port(&'static str),
    /// The name of a new file in the first folder.
    NewFile,
    /// A history of the list.
    History,
    /// One of the commands that were allowed.
    Command,
}

/// A field: a flag, by its long name, or a positional argument by its identifier.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    /// Hidden until asked for.
    pub advanced: bool,
}

pub struct Form {
    pub command: &'static str,
    pub about: &'static str,
    pub fields: &'static [Field],
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, advanced: false }
}

const fn more(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, advanced: true }
}

use Kind::{Choice, Flag, Number, Port, Suggest, Text};

const TEST: &[Field] = &[
    field("url", Suggest(targets)),
    field("throwaway", Choice(engines)),
    field("isolation", Suggest(isolations)),
    field("matrix", Flag),
    field("level", Suggest(levels)),
    field("workload", Suggest(workloads)),
    field("sessions", Number),
    field("txns", Number),
    field("duration", Text),
    field("fault", Suggest(faults)),
    field("online", Flag),
    field("seed", Number),
    more("fault-every", Text),
    more("keys", Number),
    more("min-ops-per-txn", Number),
    more("ops-per-txn", Number),
    more("read-ratio", Text),
    more("distribution", Choice(distributions)),
    more("writes-per-key", Number),
    more("bug", Suggest(bugs)),
    more("no-claim", Flag),
    more("timeout", Text),
];

const SQL: &[Field] = &[
    field("url", Suggest(relational)),
    field("throwaway", Choice(engines)),
    field("isolation", Suggest(isolations)),
    field("level", Suggest(levels)),
    field("duration", Text),
    field("sessions", Number),
    field("seed", Number),
    field("no-shrink", Flag),
    more("no-claim", Flag),
    more("round", Number),
    more("read-all", Number),
    more("tables", Number),
    more("columns", Number),
    more("rows", Number),
    more("statements", Number),
    more("values", Number),
    more("rollback", Number),
    more("autocommit", Number),
    more("savepoints", Number),
    more("mix", Text),
];

const EXPLORE: &[Field] = &[
    field("command", Kind::Command),
    field("level", Choice(explored)),
    field("runs", Number),
    field("seed", Number),
    field("keep-going", Flag),
    field("systematic", Flag),
    more("coverage", Flag),
    more("no-explain", Flag),
    more("stale", Text),
    more("abort", Text),
    more("delay", Text),
    more("schedule", Choice(|| strings(["interleaved", "serial"]))),
    more("granularity", Choice(|| strings(["cell", "row"]))),
    more("timeout", Text),
];

const GENERATE: &[Field] = &[
    field("output", Kind::NewFile),
    field("level", Choice(|| strings(SimLevel::ALL.map(SimLevel::name)))),
    field("kind", Choice(|| strings(Recorded::ALL.map(Recorded::name)))),
    field("sessions", Number),
    field("txns-per-session", Number),
    field("ops-per-txn", Number),
    field("keys", Number),
    field("inject", Suggest(|| strings(Injection::ALL.map(|injection| injection.to_string())))),
    field("seed", Number),
    more("read-ratio", Text),
    more("distribution", Choice(distributions)),
    more("abort-ratio", Text),
    more("indeterminate-ratio", Text),
    more("record-conflicts", Flag),
    more("real-time", Flag),
    more("clock-skew", Number),
];

const WATCH: &[Field] = &[
    field("history", Kind::History),
    field("follow", Flag),
    field("listen", Port("Accept lines from clients that connect to this port of this machine")),
    field("http", Port("Accept batches of lines by HTTP POST on this port of this machine")),
    field("level", Choice(timestamped)),
    field("settle", Text),
    field("metrics", Port("Serve metrics for Prometheus on this port of this machine")),
    more("memory", Text),
    more("tie", Choice(|| strings(["inclusive", "exclusive"]))),
    more("exit-when-idle", Text),
];

pub const FORMS: &[Form] = &[
    Form {
        command: "test",
        about: "Run transactions against a database from concurrent sessions, record what they saw, decide \
            every level.",
        fields: TEST,
    },
    Form {
        command: "sql",
        about: "Run random schemas and SQL against a relational database and look for anomalies of rows, \
            ranges and joins.",
        fields: SQL,
    },
    Form {
        command: "explore",
        about: "Run your tests against a mock database that returns every stale value its level allows, until \
            one fails.",
        fields: EXPLORE,
    },
    Form {
        command: "generate",
        about: "Make a history with a simulated database of a chosen level, with anomalies if you like.",
        fields: GENERATE,
    },
    Form {
        command: "watch",
        about: "Check a stream of timestamped transactions while it arrives.",
        fields: WATCH,
    },
];

fn strings<T: ToString>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}

fn targets() -> Vec<String> {
    let simulated = SimLevel::ALL.map(|level| format!("simulated:{}", level.name()));
    let others = ["postgres://USER@localhost/DATABASE", "mysql://USER@localhost/DATABASE", "sqlite:test.db"];
    simulated.into_iter().chain(strings(others)).collect()
}

fn relational() -> Vec<String> {
    strings(["postgres://USER@localhost/DATABASE", "mysql://USER@localhost/DATABASE", "sqlite:test.db"])
}

fn engines() -> Vec<String> {
    strings(Engine::ALL.map(Engine::name))
}

fn isolations() -> Vec<String> {
    strings(["read committed", "repeatable read", "serializable"])
}

fn levels() -> Vec<String> {
    strings(Level::CANONICAL.iter().map(|level| level.name()))
}

fn explored() -> Vec<String> {
    strings(Level::EXPLORED.iter().map(|level| level.name()))
}

/// Those that timestamps decide.
fn timestamped() -> Vec<String> {
    let all = ["snapshot-isolation", "serializable", "strong-session-serializable"];
    strings(["strong-session-snapshot-isolation"].into_iter().chain(all))
}

fn workloads() -> Vec<String> {
    strings(Workload::ALL.map(Workload::name))
}

fn distributions() -> Vec<String> {
    strings(Distribution::ALL.map(Distribution::name))
}

fn faults() -> Vec<String> {
    strings([
        "all",
        "delay",
        "throttle",
        "terminate",
        "lose-commits",
        "cut",
        "half-close",
        "partition",
        "pause",
        "restart",
        "kill",
    ])
}

fn bugs() -> Vec<String> {
    strings(["dirty-read", "lost-update", "non-atomic-commit", "stale-failover", "lost-commit-is-abort"])
}

/// The forms of the commands that this build has, for the browser.
pub fn document(commands: &[String]) -> Value {
    let program = Cli::command();
    let all = FORMS.iter().filter_map(|form| {
        let command = program.find_subcommand(form.command)?;
        let fields: Vec<Value> = form.fields.iter().map(|f| described(f, command, commands)).collect();
        Some(json!({"command": form.command, "about": form.about, "fields": fields}))
    });
    Value::Array(all.collect())
}

/// The argument of a command that a field stands for.
fn argument<'c>(command: &'c clap::Command, name: &str) -> Option<&'c clap::Arg> {
    command
        .get_arguments()
        .find(|a| a.get_long() == Some(name) || a.get_long().is_none() && a.get_id() == name)
}

fn described(field: &Field, command: &clap::Command, commands: &[String]) -> Value {
    let found = argument(command, field.name);
    let help = match field.kind {
        Kind::NewFile => {
            "Name of the file, which is written to the first folder; .gz and .zst compress it".into()
        }
        Kind::History => "A history with timestamps; none to listen only".into(),
        Kind::Command => "A command that was allowed when the application was started".into(),
        Kind::Port(help) => help.into(),
        _ => found.and_then(clap::Arg::get_help).map(ToString::to_string).unwrap_or_default(),
    };
    // The default is at the end of the help, or known to the parser.
    let (help, stated) = match help.rsplit_once(" [default: ") {
        Some((help, default)) => (help.to_owned(), default.trim_end_matches(']').to_owned()),
        None => (help, String::new()),
    };
    let parsed = found.and_then(|a| a.get_default_values().first()).map(|d| d.to_string_lossy().into_owned());
    let parsed = parsed.filter(|_| !matches!(field.kind, Flag | Kind::NewFile)).unwrap_or(stated);
    let (kind, choices) = match field.kind {
        Text => ("text", Vec::new()),
        Suggest(all) => ("suggest", all()),
        Choice(all) => ("choice", all()),
        Number => ("number", Vec::new()),
        Flag => ("flag", Vec::new()),
        Port(_) => ("port", Vec::new()),
        Kind::NewFile => ("file", Vec::new()),
        Kind::History => ("history", Vec::new()),
        Kind::Command => ("command", commands.to_vec()),
    };
    json!({"name": field.name, "kind": kind, "choices": choices, "help": help, "default": parsed,
           "advanced": field.advanced})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_a_flag() {
        let program = Cli::command();
        for form in FORMS {
            // `explore` is not in every build.
            let Some(command) = program.find_subcommand(form.command) else { continue };
            for field in form.fields {
                let of_its_own = matches!(field.kind, Kind::History | Kind::Command);
                assert!(
                    of_its_own || argument(command, field.name).is_some(),
                    "{} {}",
                    form.command,
                    field.name
                );
            }
        }
    }
}
