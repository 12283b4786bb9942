//! `anomalist check`: decides levels for one or many histories.
//!
//! Histories are judged one after another, and each is shown as soon as it is judged. Ctrl-C spends the
//! budget of the one in work: what is known of it is shown, what comes after it is left out, and the exit
//! status says that.

#[cfg(feature = "cluster")]
mod cluster;
mod inference;
mod outputs;
mod within;

use crate::cli::{Global, ReadFlags};
use crate::destination::write_step_summary;
use crate::documents::Documents;
use crate::exit::{Exit, Failure};
use crate::{basis, interrupt, load, terminal, values};
use anomalist::{Check, Found, History, Outcome};
use anomalist_format::PathName;
use anomalist_level::{AnomalyKind, Definitions, Level};
use anomalist_report::Subject;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Flags of `check`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples: anomalist check history.edn\n          \
    anomalist check --level read-committed,causal --json runs/*.txt.gz\n\n\
    Exit status: 0 every --level holds, 1 one is violated, 2 one is undecided,\n\
    3 bad usage or input, 4 an internal error: a proof that does not verify, or\n\
    algorithms that disagree.")]
pub struct Flags {
    /// Files, folders of Cobra's or Viper's logs, or - for standard input
    #[arg(value_name = "HISTORY", required = true)]
    histories: Vec<PathBuf>,
    /// Levels that must hold, by name or alias; they decide the exit status [default: decide all, require
    /// none]
    #[arg(long, value_name = "L", value_delimiter = ',')]
    level: Vec<Level>,
    /// The levels that transactions declare (metadata `level`), each its own, must hold too
    #[arg(long)]
    declared: bool,
    /// Look only for these anomalies (TAP-h, G1a …). Without --level: exit status 1 if one is found, 0 if
    /// there is none, 2 if unknown
    #[arg(long, value_name = "A", value_delimiter = ',')]
    anomalies: Vec<AnomalyKind>,
    /// Definitions of cut-isolation, read-committed, read-atomic, causal and TAP-a to TAP-n: `plume`
    /// follows Plume's paper to the letter (docs/plume-differences.md). No other level or anomaly has two
    /// definitions
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
    /// Time limit per history, reading included, such as 500ms, 30s or 2m [default: none for levels decided
    /// in polynomial time, else 30s]
    #[arg(long, value_name = "DUR", value_parser = values::duration)]
    timeout: Option<Duration>,
    /// Show an example from every component of the dependency graph that has a cycle, not only the smallest
    /// of its kind
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
    /// Write an HTML page to explore all histories and anomalies: one file, no network access
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    documents: Documents,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    cluster: cluster::ClusterFlags,
}

/// A history and what was found out about it.
struct Judged {
    history: Arc<History>,
    found: Found,
}

impl Judged {
    fn subject(&self) -> Subject<'_> {
        self.found.subject(&self.history)
    }
}

/// Checks.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let style = terminal::style(global);
    let histories = load::runs(&flags.histories);
    let histories =
        if flags.is_one() { vec![histories] } else { histories.into_iter().map(|h| vec![h]).collect() };
    let mut several = histories.len() > 1;
    let annotate = std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| !value.is_empty());
    let keep = flags.json
        || annotate
        || std::env::var_os("GITHUB_STEP_SUMMARY").is_some()
        || flags.report.is_some()
        || flags.documents.any();
    let mut outputs = outputs::Outputs::new(flags);
    outputs.can_be_written()?;
    let mut done: Vec<Judged> = Vec::new();
    let mut unreadable = 0;
    let mut left_out = false;
    for paths in &histories {
        let answer =
            if interrupt::is_requested() { Err(Failure::Interrupted) } else { judge(paths, flags, global) };
        let answers = match answer {
            Ok(answers) => answers,
            Err(failure @ (Failure::Input(_) | Failure::Malformed(..))) if several => {
                terminal::tell(&failure.message().unwrap_or_default());
                unreadable += 1;
                continue;
            }
            Err(Failure::Interrupted) if !done.is_empty() => {
                terminal::tell(&format!("interrupted: {} and what follows are left out", paths[0].shown()));
                left_out = true;
                break;
            }
            Err(failure) => return Err(failure),
        };
        several |= answers.len() > 1;
        for mut judged in answers {
            let subject = judged.subject();
            outputs.of_one(&subject)?;
            if !flags.json {
                let end = if several { "\n" } else { "" };
                terminal::print(&format!("{}{end}", anomalist_report::text(&subject, &style)))?;
            }
            if !keep {
                judged.history = Arc::new(judged.history.without_transactions()?);
            }
            done.push(judged);
        }
    }
    if done.is_empty() && flags.is_one() {
        return Ok(Exit::Holds);
    }
    let subjects: Vec<Subject<'_>> = done.iter().map(Judged::subject).collect();
    outputs.of_all(&subjects, global)?;
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
        0 => exit(&subjects, left_out),
        _ => Exit::BadInput,
    })
}

/// Judges what files hold that belong together.
fn judge(paths: &[PathBuf], flags: &Flags, global: &Global) -> Result<Vec<Judged>, Failure> {
    #[cfg(feature = "cluster")]
    if let Some(workers) = flags.cluster.workers {
        return cluster::judge(paths, workers, flags, global).map(|judged| judged.into_iter().collect());
    }
    let Some(path) = paths.first() else { return Ok(Vec::new()) };
    within::judge(path, flags, global)
}

/// A further wish.
type Wish<'h> = fn(Check<'h>) -> Check<'h>;

impl Flags {
    /// Whether all files together are one history.
    fn is_one(&self) -> bool {
        #[cfg(feature = "cluster")]
        if self.cluster.workers.is_some() {
            return true;
        }
        false
    }

    /// What is asked about a history.
    fn question<'h>(&self, history: &'h History, global: &Global) -> Result<Check<'h>, Failure> {
        let mut check = anomalist::check(history)
            .threads(load::threads(global))
            .ties(self.basis.tie)
            .definitions(self.definitions)
            .assume(self.inference.of(history.transactions())?);
        check = self.level.iter().fold(check, |check, &level| check.require(level));
        check = self.anomalies.iter().fold(check, |check, &kind| check.anomaly(kind));
        if let Some(basis) = self.basis.by {
            check = check.by(basis);
        }
        let wishes: [(bool, Wish<'h>); 5] = [
            (self.declared, Check::declared),
            (self.certificate.is_some(), Check::proofs),
            (self.every_component, Check::every_component),
            (self.verify || load::verifies_always(), Check::verified),
            (self.cross_check, Check::cross_checked),
        ];
        Ok(wishes.into_iter().filter(|(wanted, _)| *wanted).fold(check, |check, (_, wish)| wish(check)))
    }
}

/// The worst of all histories, or of what an interrupt left out.
fn exit(subjects: &[Subject<'_>], left_out: bool) -> Exit {
    let missing = if left_out { Outcome::Unknown } else { Outcome::Holds };
    subjects.iter().map(Subject::outcome).fold(missing, Outcome::max).into()
}
