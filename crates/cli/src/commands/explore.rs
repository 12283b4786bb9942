//! `anomalist explore`: run a test command against the mock weak database many times, find and explain
//! failures.

mod command;
mod over;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "explore/elsewhere.rs"]
mod process;
mod render;

use crate::cli::Global;
use crate::commands::weakdb::{delay, probability};
use crate::destination::Destination;
use crate::exit::{Exit, Failure};
use crate::terminal::quoted;
use crate::{supervised, terminal, values};
use anomalist_explore::{Outcome, Plan, Run, enumerate, explain, explore};
use anomalist_format::Format;
use anomalist_level::Level;
use anomalist_weakdb::{Granularity, Options, Schedule};
use clap::{Args, ValueEnum};
use command::{Command, Unable};
use over::Ground;
use render::Facts;
use serde_json::json;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Flags of `explore`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: anomalist explore --level causal --runs 100 -- pytest tests/test_cart.py\n\n\
    Each run gets a database of its own: DATABASE_URL and PGHOST, PGPORT, PGUSER, PGDATABASE (PostgreSQL),\n\
    MYSQL_HOST, MYSQL_PORT, MYSQL_TCP_PORT and ANOMALIST_MYSQL_URL (MySQL), ANOMALIST_HTTP_URL (JSON); variables that\n\
    could lead a client to another database (PGSERVICE, MYSQL_UNIX_PORT, …) are removed. A run fails if the\n\
    command's exit status is not 0; processes that it leaves running are ended.\n\n\
    Exit status: 0 no run failed, 1 one did, 2 interrupted, 3 bad usage, or the command cannot be started."
)]
pub struct Flags {
    /// The isolation level to show
    #[arg(long, value_name = "L", default_value = "causal")]
    level: Level,
    #[command(flatten)]
    over: crate::commands::weakdb::over::OverFlags,
    /// How many runs
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The seed of the first run; each further run has the next one
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A shell command that runs once, at the serializable level; what it leaves is the initial state of
    /// every run
    #[arg(long, value_name = "CMD")]
    setup: Option<String>,
    /// Make all runs and count the failures, instead of stopping at the first
    #[arg(long)]
    keep_going: bool,
    /// Report how many different results clients were shown, and when new ones stopped appearing
    #[arg(long)]
    coverage: bool,
    /// Try every value of every read instead of some, at most --runs times
    #[arg(long)]
    systematic: bool,
    /// Do not search for the stale reads behind a failure, nor for the level at which it no longer happens
    #[arg(long)]
    no_explain: bool,
    /// Return an older value than the newest allowed one with this probability [default: all allowed values
    /// alike]
    #[arg(long, value_name = "P", value_parser = probability)]
    stale: Option<f64>,
    /// Refuse commits with this probability, to test retry loops
    #[arg(long, value_name = "P", value_parser = probability, default_value = "0")]
    abort: f64,
    /// Wait before each transaction, for instance 0-4ms
    #[arg(long, value_name = "A-B", value_parser = delay)]
    delay: Option<(Duration, Duration)>,
    /// Whether transactions may overlap
    #[arg(long, value_enum, default_value_t = ScheduleName::Interleaved)]
    schedule: ScheduleName,
    /// What isolation is about in a table
    #[arg(long, value_enum, default_value_t = GranularityName::Cell)]
    granularity: GranularityName,
    /// A run that takes longer has failed
    #[arg(long, value_name = "DUR", value_parser = values::duration, default_value = "60s")]
    timeout: Duration,
    /// Write the history of the failing run to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// The test command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScheduleName {
    /// Statements of different connections as they come
    Interleaved,
    /// One transaction after another
    Serial,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GranularityName {
    /// Each column of a row by itself
    Cell,
    /// Whole rows
    Row,
}

impl Flags {
    fn options(&self) -> Options {
        Options {
            seed: self.seed,
            stale: self.stale,
            abort: self.abort,
            delay: self.delay,
            schedule: match self.schedule {
                ScheduleName::Interleaved => Schedule::Interleaved,
                ScheduleName::Serial => Schedule::Serial,
            },
            granularity: match self.granularity {
                GranularityName::Cell => Granularity::Cell,
                GranularityName::Row => Granularity::Row,
            },
            ..Options::new(self.level)
        }
    }

    /// The command that makes the run with this seed again.
    fn again(&self, seed: u64) -> String {
        let mut words =
            vec!["anomalist".to_owned(), "explore".into(), "--level".into(), self.level.name().into()];
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        flag("--seed", seed.to_string());
        flag("--runs", "1".into());
        if let Some((name, value)) = self.over.words() {
            flag(name, value);
        }
        if let Some(stale) = self.stale {
            flag("--stale", stale.to_string());
        }
        if self.abort > 0.0 {
            flag("--abort", self.abort.to_string());
        }
        if let Some((from, to)) = self.delay {
            flag("--delay", format!("{}-{}ms", from.as_secs_f64() * 1e3, to.as_secs_f64() * 1e3));
        }
        if matches!(self.schedule, ScheduleName::Serial) {
            flag("--schedule", "serial".into());
        }
        if matches!(self.granularity, GranularityName::Row) {
            flag("--granularity", "row".into());
        }
        if let Some(setup) = &self.setup {
            flag("--setup", setup.clone());
        }
        words.push("--".into());
        words.extend(self.command.iter().map(|w| w.to_string_lossy().into_owned()));
        words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ")
    }
}

/// Explores.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let ground = match flags.over.is_given() {
        true => Some(Ground::new(flags.over.open(global)?)),
        false => None,
    };
    let mut subject = Command::new(flags.command.clone(), flags.timeout, ground);
    let tell = !global.quiet && !flags.json;
    let plan =
        Plan { runs: flags.runs, keep_going: flags.keep_going, explain: false, ..Plan::new(flags.options()) };
    if let Some(setup) = &flags.setup {
        subject.set_up(setup).map_err(given_up)?;
    }
    let (mut outcome, complete) = if flags.systematic {
        let (outcome, complete) = systematic(&mut subject, &plan).map_err(given_up)?;
        (outcome, Some(complete))
    } else {
        let mut failures = 0_u64;
        let progress = |n: u64, failed| {
            failures += u64::from(failed);
            supervised::report(json!({"done": n, "of": flags.runs, "failed": failures}));
            if tell && (failed || n.is_multiple_of(10)) {
                terminal::tell(&format!("run {n} of {}{}", flags.runs, if failed { " failed" } else { "" }));
            }
        };
        (explore(&mut subject, &plan, progress).map_err(given_up)?, None)
    };
    if !subject.has_connected() {
        terminal::tell(
            "warning: the command never connected to the database, so its runs say nothing about isolation",
        );
    }
    if let (Some(path), Some(run)) = (&flags.record, &outcome.failed) {
        record(run, path)?;
    }
    if !flags.no_explain {
        why(&mut subject, &plan, &mut outcome, tell)?;
    }
    let facts = Facts {
        level: flags.level,
        systematic: complete,
        coverage: flags.coverage,
        again: &|seed| flags.again(seed),
        outcome: &outcome,
        width: terminal::style(global).width,
    };
    terminal::print(&if flags.json { render::json(&facts) } else { render::text(&facts) })?;
    Ok(if outcome.failures.is_empty() { Exit::Holds } else { Exit::Violated })
}

/// Every value of every read, up to the first failure.
fn systematic(subject: &mut Command, plan: &Plan) -> Result<(Outcome, bool), Unable> {
    let mut outcome = Outcome::default();
    let mut states = BTreeSet::new();
    let complete = enumerate(subject, &plan.options, plan.runs, |run| {
        outcome.runs += 1;
        if states.insert(run.observed()) {
            outcome.new_states.push(outcome.runs);
        }
        if let Some(message) = run.failure.clone() {
            let seed = plan.options.seed;
            outcome.failures.push(anomalist_explore::Failure { run: outcome.runs, seed, message });
            outcome.failed.get_or_insert(run);
        }
    })?;
    Ok((outcome, complete))
}

/// Looks for the reads behind the first failure. The failure is worth telling even if there is no time to
/// find out why.
fn why(subject: &mut Command, plan: &Plan, outcome: &mut Outcome, tell: bool) -> Result<(), Failure> {
    let (Some(run), Some(first)) = (outcome.failed.take(), outcome.failures.first()) else {
        return Ok(());
    };
    supervised::report(json!({"what": format!("looking for the reads that made run {} fail", first.run)}));
    if tell {
        terminal::tell(&format!(
            "looking for the reads that made run {} fail, and for the level at which it does not",
            first.run
        ));
    }
    match explain(subject, plan, first.seed, run) {
        Ok(explanation) => outcome.explanation = Some(explanation),
        Err(Unable::Interrupted) => terminal::tell("interrupted: why it failed is not known"),
        Err(other) => return Err(given_up(other)),
    }
    Ok(())
}

fn given_up(why: Unable) -> Failure {
    match why {
        Unable::Interrupted => Failure::Interrupted,
        other => Failure::input(other),
    }
}

/// The history of this very run: another one, even with the same choices, may have been scheduled otherwise.
fn record(run: &Run, path: &Path) -> Result<(), Failure> {
    let history = run.history.as_ref().map_err(Failure::input)?;
    let mut destination = Destination::create(path, Format::Anomalist, false)?;
    destination.append(history)?;
    destination.finish()
}
