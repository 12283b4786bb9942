//! `anomalist check`: decides levels for one or many histories.
//!
//! Histories are judged one after another, and each is shown as soon as it is judged. Ctrl-C spends the budget of the one
//! in work: what is known of it is shown, what comes after it is left out, and the exit status says that.

mod inference;
mod outputs;
mod within;

use crate::cli::{Global, ReadFlags};
use crate::destination::write_step_summary;
use crate::exit::{Exit, Failure};
use crate::judging::Question;
use crate::{basis, interrupt, load, terminal, values};
use anomalist_history::{Builder, History};
use anomalist_level::{AnomalyKind, Definitions, Judgement, Level, Sought, Verdict};
use anomalist_report::{HistoryFacts, Subject, Timing};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Flags of `check`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples: anomalist check history.edn\n          \
    anomalist check --level read-committed,causal --json runs/*.txt.gz\n\n\
    Exit status: 0 every --level holds, 1 one is violated, 2 one is undecided,\n\
    3 bad usage or input, 4 a bug of ours: a proof that does not verify, or\n\
    algorithms that disagree.")]
pub struct Flags {
    /// Files, folders of Cobra's or Viper's logs, or - for standard input
    #[arg(value_name = "HISTORY", required = true)]
    histories: Vec<PathBuf>,
    /// Levels that must hold, by name or alias; they decide the exit status [default: decide all, require none]
    #[arg(long, value_name = "L", value_delimiter = ',')]
    level: Vec<Level>,
    /// The levels that transactions declare (metadata `level`), each its own, must hold too
    #[arg(long)]
    declared: bool,
    /// Look for just these anomalies (TAP-h, G1a …). Without --level: exit status 1 if one is found, 0 if there is none, 2 if unknown
    #[arg(long, value_name = "A", value_delimiter = ',')]
    anomalies: Vec<AnomalyKind>,
    /// Whose cut-isolation, read-committed, read-atomic, causal and TAP-a to TAP-n: `plume` follows Plume's paper to the letter
    /// (docs/plume-differences.md). No other level or anomaly has two definitions
    #[arg(long, value_name = "D", value_parser = values::definitions(), default_value_t = Definitions::Anomalist)]
    definitions: Definitions,
    /// Print one JSON document and nothing else (an array for several histories)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadFlags,
    #[command(flatten)]
    basis: basis::BasisFlags,
    #[command(flatten)]
    inference: inference::InferenceFlags,
    /// Time limit per history, reading included, such as 500ms, 30s or 2m [default: none for levels decided in polynomial time, else 30s]
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    timeout: Option<Duration>,
    /// Show an example from every component of the dependency graph that has a cycle, not only the smallest of its kind
    #[arg(long)]
    every_component: bool,
    /// Write the proof of every verdict, as JSON, for `anomalist verify`
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Verify every verdict's proof at once, independently of what found it
    #[arg(long)]
    verify: bool,
    /// Decide everything a second time with other algorithms; a disagreement is exit status 4
    #[arg(long)]
    cross_check: bool,
    /// Write a Graphviz picture of each kind of anomaly into this folder
    #[arg(long, value_name = "DIR")]
    dot: Option<PathBuf>,
    /// Write an SVG picture of each kind of anomaly into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write a page about all histories, with pictures: one file, nothing from the network
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write a JUnit report: a suite per history, a case per level
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a SARIF 2.1 report
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
}

/// A history and what was found out about it.
struct Judged {
    /// Gone when nothing needs it any more.
    history: Option<Arc<History>>,
    facts: HistoryFacts,
    judgement: Judgement,
    timing: Timing,
    /// The user ended it before everything was decided.
    stopped: bool,
}

impl Judged {
    fn subject<'a>(&'a self, gone: &'a History, flags: &'a Flags) -> Subject<'a> {
        Subject {
            history: self.history.as_deref().unwrap_or(gone),
            facts: &self.facts,
            judgement: &self.judgement,
            timing: Some(self.timing),
            required: &flags.level,
            declared: flags.declared,
        }
    }
}

/// Checks.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let style = terminal::style(global);
    let histories = load::runs(&flags.histories);
    let mut several = histories.len() > 1;
    let annotate = std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| !value.is_empty());
    let keep = flags.json
        || annotate
        || std::env::var_os("GITHUB_STEP_SUMMARY").is_some()
        || [&flags.report, &flags.junit, &flags.sarif].into_iter().any(Option::is_some);
    let gone = Builder::new().finish().map_err(Failure::input)?;
    let mut outputs = outputs::Outputs::new(flags);
    outputs.can_be_written()?;
    let mut done: Vec<Judged> = Vec::new();
    let mut unreadable = 0;
    let mut left_out = false;
    for path in &histories {
        let answer = if interrupt::is_requested() {
            Err(Failure::Interrupted)
        } else {
            within::judge(path, flags, global)
        };
        let answers = match answer {
            Ok(answers) => answers,
            Err(failure @ Failure::Input(_)) if several => {
                terminal::tell(failure.message().unwrap_or_default());
                unreadable += 1;
                continue;
            }
            Err(Failure::Interrupted) if !done.is_empty() => {
                terminal::tell(&format!("interrupted: {} and what follows are left out", path.display()));
                left_out = true;
                break;
            }
            Err(failure) => return Err(failure),
        };
        several |= answers.len() > 1;
        for mut judged in answers {
            let subject = judged.subject(&gone, flags);
            outputs.of_one(&subject)?;
            if !flags.json {
                let end = if several { "\n" } else { "" };
                terminal::print(&format!("{}{end}", anomalist_report::text(&subject, &style)))?;
            }
            if !keep {
                judged.history = None;
            }
            done.push(judged);
        }
    }
    let subjects: Vec<Subject<'_>> = done.iter().map(|j| j.subject(&gone, flags)).collect();
    outputs.of_all(&subjects)?;
    if flags.json {
        let text = anomalist_report::json_text(&subjects);
        // One readable history of several is still an array.
        let lone = several && subjects.len() == 1;
        terminal::print(&if lone { format!("[\n{}\n]", text.trim_end()) } else { text })?;
    } else if several {
        let mut table = anomalist_report::summary_table(&subjects, &style);
        if unreadable > 0 {
            table += &format!("{unreadable} of {} could not be read\n", histories.len());
        }
        terminal::print(&table)?;
    }
    write_step_summary(&subjects)?;
    if annotate {
        let notes = anomalist_report::github(&subjects);
        if !flags.json {
            terminal::print(&notes)?;
        } else if !notes.is_empty() {
            terminal::tell(notes.trim_end());
        }
    }
    Ok(match unreadable {
        0 => exit(&done, flags, left_out),
        _ => Exit::BadInput,
    })
}

impl Flags {
    /// What is asked about a history.
    fn question(&self, history: &History, global: &Global) -> Result<Question, Failure> {
        let usual = Question::about(&self.level, load::threads(global));
        Ok(Question {
            anomalies: self.anomalies.clone(),
            by: self.basis.by,
            tie: self.basis.tie,
            inference: self.inference.of(history)?,
            definitions: self.definitions,
            certificates: self.certificate.is_some(),
            every_component: self.every_component,
            verify: self.verify || usual.verify,
            cross_check: self.cross_check,
            ..usual
        })
    }
}

/// A violated level decides; then an undecided one, or an interrupt that left something out. If no level is
/// required, but anomalies are asked for: one that was found decides, then one of which nothing is known.
fn exit(done: &[Judged], flags: &Flags, left_out: bool) -> Exit {
    let any = |wanted: fn(&Verdict) -> bool| {
        let mixed = |j: &Judged| j.judgement.mixed.as_ref().is_some_and(|mixed| wanted(&mixed.verdict));
        let level = |j: &Judged| flags.level.iter().any(|&l| j.judgement.verdict(l).is_some_and(wanted));
        done.iter().any(|j| level(j) || flags.declared && mixed(j))
    };
    let sought = |wanted: fn(&Sought) -> bool| {
        let found = |j: &Judged| flags.anomalies.iter().any(|kind| wanted(&answer(&j.judgement, *kind)));
        flags.level.is_empty() && done.iter().any(found)
    };
    let undeclared = flags.declared && done.iter().any(|j| j.judgement.mixed.is_none());
    if any(|v| *v == Verdict::Violated) || sought(|s| *s == Sought::Found) {
        Exit::Violated
    } else if any(|v| matches!(v, Verdict::Unknown { .. }))
        || sought(|s| matches!(s, Sought::Unknown { .. }))
        || undeclared
        || left_out
        || done.iter().any(|j| j.stopped)
    {
        Exit::Undecided
    } else {
        Exit::Holds
    }
}

/// The answer for an anomaly that was asked for.
fn answer(judgement: &Judgement, kind: AnomalyKind) -> Sought {
    let known = judgement.sought.iter().find(|(sought, _)| *sought == kind);
    known.map_or(Sought::Unknown { reason: "it was not looked for".to_owned() }, |(_, answer)| answer.clone())
}
