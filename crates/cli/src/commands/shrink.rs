//! `anomalist shrink`: the smallest part of a history that still violates a level, in any format.

use crate::cli::{Global, ReadFlags};
use crate::destination::Destination;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::{interrupt, load, memory, terminal, values};
use anomalist_check::Budget;
use anomalist_check::shrink::{Goal, NothingToShrink, Promise, Shrunk, shrink};
use anomalist_format::{Format, PathName};
use anomalist_history::History;
use anomalist_level::{AnomalyKind, Level, Verdict};
use anomalist_report::{printable, reason};
use clap::Args;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Flags of `shrink`.
#[derive(Args, Debug)]
#[command(after_help = "Example: anomalist shrink history.edn --level serializable -o small.edn\n\n\
    Exit status: 0 it was shrunk, 1 the level is not violated (or the anomaly not there),\n\
    2 not decided in time, 3 bad usage or input.")]
pub struct Flags {
    /// The history: a file, a folder of Cobra's or Viper's logs, or - for standard input
    #[arg(value_name = "HISTORY")]
    history: PathBuf,
    /// The level that must stay violated [default: the weakest that --anomaly rules out]
    #[arg(long, value_name = "L", required_unless_present_any = ["anomaly", "declared"])]
    level: Option<Level>,
    /// The levels that transactions declare must stay violated, each its own
    #[arg(long, conflicts_with_all = ["level", "anomaly"])]
    declared: bool,
    /// The kind of anomaly that must stay (TAP-k, lost-update …) [default: any]
    #[arg(long, value_name = "A")]
    anomaly: Option<AnomalyKind>,
    /// Where to write the remaining part: a file (compressed if its name ends in .gz or .zst), a folder, or
    /// - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Format to write [default: by the extension of FILE, else the history's own]
    #[arg(long, value_name = "F", value_parser = values::format())]
    to: Option<Format>,
    /// Time limit, such as 500ms, 30s or 2m; the best so far is written then
    #[arg(long, value_name = "DUR", value_parser = values::duration, default_value = "60s")]
    timeout: Duration,
    #[command(flatten)]
    read: ReadFlags,
}

/// Shrinks.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let by_anomaly = || flags.anomaly.and_then(|kind| kind.rules_out().first().copied());
    let violates = match flags.level.or_else(by_anomaly) {
        _ if flags.declared => Promise::Declared,
        Some(level) => Promise::Level(level),
        None => return Err(Failure::input("this anomaly rules out no level; add --level")),
    };
    let goal = Goal { violates, anomaly: flags.anomaly };
    let load::Read { history, format, .. } = load::read(&flags.history, &flags.read, global)?;
    let since = Instant::now();
    let bar = Progress::spinner(global, &format!("shrinking {}", flags.history.shown()));
    let spent = || {
        bar.pulse();
        interrupt::is_requested() || memory::is_exceeded() || since.elapsed() >= flags.timeout
    };
    let allows = |bytes| memory::ask(bytes).is_ok();
    let shrunk = match shrink(&history, goal, &Budget::new(&spent).with_memory(&allows)) {
        Ok(shrunk) => shrunk,
        Err(nothing) => {
            drop(bar);
            let open = match &nothing {
                NothingToShrink::NotViolated(Some(Verdict::Unknown(why))) => Some(reason(why)),
                _ => None,
            };
            let why = open.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            terminal::tell(&format!("{}: {violates}: {nothing}{why}", flags.history.shown()));
            return Ok(if open.is_some() { Exit::Undecided } else { Exit::Violated });
        }
    };
    drop(bar);
    let by_name = values::format_of_name(&flags.output, shrunk.history.stamps().is_some());
    let to = flags.to.or(by_name).unwrap_or(format);
    let mut destination = Destination::create(&flags.output, to, flags.read.lossy)?;
    destination.append(&shrunk.history)?;
    destination.finish()?;
    if !global.quiet {
        terminal::tell(&reported(&history, &shrunk, goal));
    }
    Ok(Exit::Holds)
}

/// What was done, for people.
fn reported(before: &History, shrunk: &Shrunk, goal: Goal) -> String {
    let after = &shrunk.history;
    let names: Vec<String> = shrunk.origin.txns.iter().map(|&t| printable(&before.txn_name(t))).collect();
    let mut text = format!(
        "{} of {} transactions and {} of {} operations still violate {}: {}\n",
        after.txn_count(),
        before.txn_count(),
        after.op_count(),
        before.op_count(),
        goal.violates,
        names.join(", ")
    );
    let kinds: Vec<&str> = shrunk.judgement.anomalies.iter().map(|a| a.kind.code()).collect();
    if !kinds.is_empty() {
        text += &format!("The remaining part shows {}.\n", kinds.join(", "));
    }
    text += if shrunk.minimal {
        "No single transaction or operation can be removed as well."
    } else {
        "The time limit was reached before everything was tried; a longer --timeout may find a smaller part."
    };
    text
}
