//! `anomalist-bench`: the benchmarks of this machine, as a table.
//!
//! A case (`crates/bench/src/cases.rs`) is a history, written to a temporary file
//! (`crates/bench/src/history.rs`). It is measured once per question (a level alone, or all weak levels
//! together), each time in a process of its own (`crates/bench/src/measure.rs`), so that the peak of memory
//! belongs to that question and nothing else. `crates/bench/src/table.rs` shows the figures,
//! `crates/bench/src/findings.rs` says what they mean for what Anomalist promises. Other tools run
//! beside Anomalist by `crates/bench/src/peers.rs`.
//!
//! [`apps`] are small applications that are known to break under weak isolation, [`suites`] larger ones
//! over SQL. All of it is a package of its own, so that the program `anomalist` is built without it.

pub mod apps;
mod cases;
mod drive;
mod findings;
mod history;
mod machine;
mod measure;
mod oltp;
mod online;
mod peers;
mod question;
pub mod suites;
mod table;
mod weakdb;

use anomalist_cli::cli::Global;
use anomalist_cli::commands::check;
use anomalist_cli::exit::{Exit, Failure};
use anomalist_cli::{interrupt, load, terminal, values};
use cases::{Case, Size};
use clap::{Args, Parser, Subcommand};
use history::Folder;
use measure::{Figures, Runner};
use peers::{Beside, Files};
use question::Question;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure this machine: times and memory, as a table
#[derive(Parser, Debug)]
#[command(name = "anomalist-bench", version, max_term_width = 80, args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples: anomalist-bench\n          \
    anomalist-bench peers adversarial/hot-key --json\n          \
    anomalist-bench --full --dir /big/disk")]
struct Cli {
    #[command(subcommand)]
    child: Option<Child>,
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    global: Global,
}

/// What it starts itself for.
#[derive(Subcommand, Debug)]
enum Child {
    /// The same as without this word (`cargo xtask bench peers`)
    #[command(hide = true)]
    Bench(Flags),
    /// Measure one question about one history
    #[command(hide = true)]
    Case(measure::CaseFlags),
    /// What `anomalist check` does
    #[command(hide = true)]
    Check(Box<check::Flags>),
}

/// The program.
pub fn main() -> ExitCode {
    let cli: Cli = match anomalist_cli::parse() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    anomalist_cli::guarded(|| match &cli.child {
        Some(Child::Bench(flags)) => run(flags, &cli.global),
        Some(Child::Case(flags)) => measure::run_case(flags, &cli.global),
        Some(Child::Check(flags)) => check::run(flags, &cli.global),
        None => run(&cli.flags, &cli.global),
    })
}

/// What to measure, and how.
#[derive(Args, Debug)]
struct Flags {
    /// Groups (peers, sessions, transactions, operations, reads, keys, skew, lists, elle, timestamps,
    /// online, adversarial, strong, weakdb, oltp, drive, large) or single cases such as skew/zipf [default:
    /// a quick choice of all]
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// Also the cases that take minutes and gigabytes: W3, 50 million operations
    #[arg(long)]
    full: bool,
    /// List the cases instead of measuring them
    #[arg(long)]
    list: bool,
    /// Also measure with all constraints collected at once, and with one thread
    #[arg(long)]
    ablation: bool,
    /// Repeats of each measurement [default: 20; 5 from 300,000 operations, 3 from a million; oltp: 100;
    /// drive: 5]
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// Give up on a measurement after this time
    #[arg(long, value_name = "DUR", default_value = "10m", value_parser = values::duration)]
    timeout: Duration,
    /// Folder for the generated histories [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Leave the generated histories there
    #[arg(long)]
    keep: bool,
    /// Print one JSON document with all figures
    #[arg(long)]
    json: bool,
}

/// Groups that are measured alone.
const ALONE: [&str; 4] = ["online", "weakdb", "oltp", "drive"];

/// Groups in which whole processes are timed, other tools among them.
const BESIDE: [&str; 4] = ["peers", "timestamps", "elle", "strong"];

/// What was measured for one case.
struct Row {
    case: Case,
    facts: history::Facts,
    answers: Vec<Answer>,
}

/// What was measured for one question.
struct Answer {
    question: Question,
    /// Why there are no figures, if there are none.
    outcome: Result<Figures, String>,
    /// From the start of `anomalist check` to its end, and what other tools took in turn with it; in some
    /// groups only.
    wall: Option<(f64, Vec<Beside>)>,
    no_guess: Option<Figures>,
    one_thread: Option<Figures>,
}

/// Measures.
fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    if flags.cases.iter().any(|name| is_alone(name)) {
        return run_alone(flags, global);
    }
    let chosen = choose(flags)?;
    if flags.list {
        terminal::print(&table::list(&chosen))?;
        return Ok(Exit::Holds);
    }
    let folder = Folder::create(flags.dir.as_deref(), flags.keep)?;
    let runner = Runner { threads: global.threads, timeout: flags.timeout };
    let before = machine::describe();
    let mut rows = Vec::new();
    for (i, case) in chosen.iter().enumerate() {
        if interrupt::is_requested() {
            break;
        }
        if !global.quiet {
            terminal::tell(&format!("[{}/{}] {}", i + 1, chosen.len(), case.id()));
        }
        match measure_case(case, &folder, &runner, flags) {
            Ok(row) => rows.push(row),
            Err(Failure::Interrupted) => break,
            Err(failure) => return Err(failure),
        }
    }
    if flags.keep {
        terminal::tell(&format!("histories are in {}", folder.path().display()));
    }
    if flags.json {
        let document = json!({
            "anomalist": env!("CARGO_PKG_VERSION"),
            "schema": 1,
            "machine": before,
            "threads": load::threads(global).get(),
            "cases": rows.iter().map(row_json).collect::<Vec<Value>>(),
            "findings": findings::of(&rows).iter().map(findings::Finding::json).collect::<Vec<Value>>(),
        });
        terminal::print(&format!("{document:#}"))?;
    } else if !rows.is_empty() {
        terminal::print(&table::text(&rows, &before, global.verbose > 0))?;
        terminal::print(&findings::text(&findings::of(&rows)))?;
    }
    Ok(if interrupt::is_requested() { Exit::Undecided } else { Exit::Holds })
}

/// Whether a name is that of a group which has figures of its own.
fn is_alone(name: &str) -> bool {
    ALONE.contains(&name)
}

fn run_alone(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    if !flags.cases.iter().all(|name| is_alone(name)) || (flags.json && flags.cases.len() > 1) {
        let names = ALONE.join(", ");
        return Err(Failure::input(format_args!(
            "{names} are measured apart from the others, with --json one at a time"
        )));
    }
    let repeats = |usual: u32| flags.repeats.unwrap_or(usual).max(1);
    for (at, case) in flags.cases.iter().enumerate() {
        if at > 0 {
            terminal::print("")?;
        }
        match case.as_str() {
            "online" => online::measure(flags.json, global.quiet)?,
            "weakdb" => weakdb::measure(flags.json, global.quiet)?,
            "oltp" => oltp::measure(u64::from(repeats(100)), flags.json, global.quiet)?,
            _ => drive::measure(repeats(5), flags.json, global.quiet)?,
        }
    }
    Ok(Exit::Holds)
}

/// The cases that the user named, or the quick ones.
fn choose(flags: &Flags) -> Result<Vec<Case>, Failure> {
    let all = cases::all();
    for name in &flags.cases {
        if !all.iter().any(|case| case.is_named(name)) {
            let groups = cases::GROUPS.join(", ");
            return Err(Failure::input(format_args!(
                "no benchmark is called {name:?}; the groups are {groups}, and --list shows their cases"
            )));
        }
    }
    // A case that is called by its full name is meant, however long it takes.
    let wanted = |case: &Case| match case.size {
        _ if flags.cases.contains(&case.id()) => true,
        Size::Huge => flags.full,
        Size::Usual => flags.full || flags.list || !flags.cases.is_empty(),
        Size::Quick => true,
    };
    let named = |case: &Case| flags.cases.is_empty() || flags.cases.iter().any(|name| case.is_named(name));
    Ok(all.into_iter().filter(|case| named(case) && wanted(case)).collect())
}

fn measure_case(case: &Case, folder: &Folder, runner: &Runner, flags: &Flags) -> Result<Row, Failure> {
    let file = folder.write(case)?;
    let repeats = flags.repeats.unwrap_or(match file.facts.operations {
        // A search takes seconds, so its noise is small beside it.
        _ if case.group == "strong" => {
            if file.facts.operations < 300_000 {
                3
            } else {
                1
            }
        }
        ..300_000 => 20,
        300_000..1_000_000 => 5,
        _ => 3,
    });
    let files = Files::new(case, &file, folder)?;
    let mut answers = Vec::new();
    for &question in case.questions() {
        let plain = runner.case(&file, question, repeats, measure::Variant::Plain)?;
        let mut answer = Answer { question, outcome: plain, wall: None, no_guess: None, one_thread: None };
        if answer.outcome.is_ok() {
            if BESIDE.contains(&case.group) {
                answer.wall = peers::measure(&files, question, repeats, runner)?;
            }
            if flags.ablation && case.group != "timestamps" {
                answer.no_guess = runner.case(&file, question, repeats, measure::Variant::NoGuess)?.ok();
                answer.one_thread = runner.case(&file, question, repeats, measure::Variant::OneThread)?.ok();
            }
        }
        answers.push(answer);
    }
    Ok(Row { case: case.clone(), facts: file.facts.clone(), answers })
}

impl Row {
    fn answer(&self, question: Question) -> Option<&Figures> {
        self.answers.iter().find(|a| a.question == question)?.outcome.as_ref().ok()
    }
}

impl Answer {
    /// How much longer checking takes without the guessed order.
    fn no_guess_ratio(&self) -> Option<f64> {
        ratio(self.no_guess.as_ref()?.check.median, self.outcome.as_ref().ok()?.check.median)
    }

    /// How much longer everything takes with one thread.
    fn one_thread_ratio(&self) -> Option<f64> {
        ratio(self.one_thread.as_ref()?.total.median, self.outcome.as_ref().ok()?.total.median)
    }
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

fn row_json(row: &Row) -> Value {
    let answers: Vec<Value> = row.answers.iter().map(|answer| answer_json(row, answer)).collect();
    json!({
        "group": row.case.group,
        "case": row.case.name,
        "about": row.case.about,
        "sorted_by_session": row.case.by_session,
        "format": row.facts.format.name(),
        "bytes": row.facts.bytes,
        "sessions": row.facts.sessions,
        "transactions": row.facts.transactions,
        "operations": row.facts.operations,
        "answers": answers,
    })
}

fn answer_json(row: &Row, answer: &Answer) -> Value {
    let mut out = match &answer.outcome {
        Ok(figures) => figures.json(),
        Err(why) => json!({"failed": why}),
    };
    out["question"] = json!(answer.question.name());
    if let Ok(figures) = &answer.outcome {
        out["ns_per_op"] = json!(figures.ns_per_op(row.facts.operations));
    }
    if let Some((wall_ms, beside)) = &answer.wall {
        out["wall_ms"] = json!(wall_ms);
        out["peers"] = beside.iter().map(|peer| peer.json(*wall_ms)).collect();
    }
    if let (Some(no_guess), Some(one_thread)) = (&answer.no_guess, &answer.one_thread) {
        out["ablation"] = json!({
            "no_guess": no_guess.json(),
            "one_thread": one_thread.json(),
            "no_guess_check_ratio": answer.no_guess_ratio(),
            "one_thread_total_ratio": answer.one_thread_ratio(),
        });
    }
    out
}
