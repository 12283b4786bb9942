//! `anomalist check`: decides levels for one or many histories.
//!
//! Histories are judged one after another, and each is shown as soon as it is judged. Ctrl-C spends the budget of the one
//! in work: what is known of it is shown, what comes after it is left out, and the exit status says that.

mod basis;
mod inference;
mod outputs;

use crate::cli::{Global, ReadFlags};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::{bug, interrupt, load, terminal, values};
use anomalist_check::{Budget, Inference, Request, datatypes};
use anomalist_format::Format;
use anomalist_history::{Builder, History, Index};
use anomalist_level::{AnomalyKind, By, Judgement, Level, Verdict};
use anomalist_report::{HistoryFacts, Subject, Timing};
use anomalist_verify::Verifier;
use clap::Args;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long searches for the order behind strong levels may take, all together, unless `--timeout` says otherwise.
const SEARCH_LIMIT: Duration = Duration::from_secs(30);

/// Flags of `check`.
#[derive(Args, Debug)]
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
    /// Look for just these anomalies (TAP-h, G1a …); levels can then be refuted, not proven
    #[arg(long, value_name = "A", value_delimiter = ',')]
    anomalies: Vec<AnomalyKind>,
    /// Print one JSON document and nothing else (an array for several histories)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadFlags,
    #[command(flatten)]
    basis: basis::BasisFlags,
    #[command(flatten)]
    inference: inference::InferenceFlags,
    /// Time limit per history, such as 500ms, 30s or 2m [default: none for levels decided in polynomial time, else 30s]
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
    history: Option<History>,
    facts: HistoryFacts,
    judgement: Judgement,
    timing: Timing,
}

impl Judged {
    fn subject<'a>(&'a self, gone: &'a History, required: &'a [Level]) -> Subject<'a> {
        Subject {
            history: self.history.as_ref().unwrap_or(gone),
            facts: &self.facts,
            judgement: &self.judgement,
            timing: Some(self.timing),
            required,
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
        || [&flags.report, &flags.junit, &flags.sarif].into_iter().any(Option::is_some);
    let gone = Builder::new().finish().map_err(Failure::input)?;
    let mut outputs = outputs::Outputs::new(flags);
    outputs.can_be_written()?;
    // Who closes the pipe has seen enough; the files asked for are written all the same.
    let mut read = true;
    let mut show = |outputs: &outputs::Outputs<'_>, text: &str| match terminal::print(text) {
        Err(Failure::ClosedPipe) if outputs.are_wanted() => {
            read = false;
            Ok(())
        }
        result => result,
    };
    let mut done: Vec<Judged> = Vec::new();
    let mut unreadable = 0;
    for path in &histories {
        let answer =
            if interrupt::is_requested() { Err(Failure::Interrupted) } else { judge(path, flags, global) };
        let answers = match answer {
            Ok(answers) => answers,
            Err(failure @ Failure::Input(_)) if several => {
                terminal::tell(failure.message().unwrap_or_default());
                unreadable += 1;
                continue;
            }
            Err(Failure::Interrupted) if !done.is_empty() => {
                terminal::tell(&format!("interrupted: {} and what follows are left out", path.display()));
                break;
            }
            Err(failure) => return Err(failure),
        };
        several |= answers.len() > 1;
        for mut judged in answers {
            let subject = judged.subject(&gone, &flags.level);
            outputs.of_one(&subject)?;
            if !flags.json {
                let end = if several { "\n" } else { "" };
                show(&outputs, &format!("{}{end}", anomalist_report::text(&subject, &style)))?;
            }
            if !keep {
                judged.history = None;
            }
            done.push(judged);
        }
    }
    let subjects: Vec<Subject<'_>> = done.iter().map(|j| j.subject(&gone, &flags.level)).collect();
    outputs.of_all(&subjects)?;
    if flags.json {
        let text = anomalist_report::json_text(&subjects);
        // One readable history of several is still an array.
        let lone = several && subjects.len() == 1;
        show(&outputs, &if lone { format!("[\n{}\n]", text.trim_end()) } else { text })?;
    } else if several {
        let mut table = anomalist_report::summary_table(&subjects, &style);
        if unreadable > 0 {
            table += &format!("{unreadable} of {} could not be read\n", histories.len());
        }
        show(&outputs, &table)?;
    }
    if annotate {
        let notes = anomalist_report::github(&subjects);
        if !flags.json {
            show(&outputs, &notes)?;
        } else if !notes.is_empty() {
            terminal::tell(notes.trim_end());
        }
    }
    Ok(match unreadable {
        _ if !read => Failure::ClosedPipe.exit(),
        0 => exit(&done, flags),
        _ => Exit::BadInput,
    })
}

/// How long to look for a smaller proof that no order exists.
const TIGHTENING: Duration = Duration::from_secs(3);

/// Judges what a file holds: one history, or one per key of independent systems.
fn judge(path: &std::path::Path, flags: &Flags, global: &Global) -> Result<Vec<Judged>, Failure> {
    let since = Instant::now();
    let path_shown = path.display().to_string();
    let judge = |name: &str, lowered, format: Format| {
        judge_datatype(name, lowered, (format.name(), since.elapsed()), flags, global)
    };
    Ok(match load::judgeable(path, &flags.read, global)? {
        load::Judgeable::Plain(read) => vec![judge_plain(&path_shown, *read, since, flags, global)?],
        load::Judgeable::Other(lowered, format) => vec![judge(&path_shown, *lowered, format)],
        load::Judgeable::Independent(keys, format) => keys
            .into_iter()
            .map(|(key, lowered)| judge(&format!("{path_shown} key {key}"), lowered, format))
            .collect(),
    })
}

fn judge_plain(
    path: &str,
    load::Read { history, format }: load::Read,
    since: Instant,
    flags: &Flags,
    global: &Global,
) -> Result<Judged, Failure> {
    let path = path.to_owned();
    let history = flags.inference.timed(history)?;
    let split = flags
        .basis
        .split(&history, &flags.level, &flags.anomalies, flags.inference.timestamp_order())
        .map_err(|error| Failure::input(format_args!("{path}: {error}")))?;
    let index = split.values.is_some().then(|| Index::build(&history, load::threads(global)));
    let load = since.elapsed();
    let since = Instant::now();
    let bar = Progress::spinner(global, &format!("checking {path}"));
    let spent = || {
        bar.pulse();
        interrupt::is_requested() || flags.timeout.is_some_and(|limit| since.elapsed() >= limit)
    };
    // Searches that can take exponential time share a limit, counted from the first of them.
    let searching = OnceLock::new();
    let searched = || {
        let began = searching.get_or_init(Instant::now);
        spent() || flags.timeout.is_none() && began.elapsed() >= SEARCH_LIMIT
    };
    let budget = Budget::new(&spent).with_search(&searched);
    let facts = HistoryFacts::of(&history, &path, format.name());
    let anomalies = (!flags.anomalies.is_empty()).then(|| flags.anomalies.clone());
    // For test runs: verify everything, whoever asked.
    let verify = flags.verify || std::env::var_os("ANOMALIST_VERIFY").is_some_and(|value| !value.is_empty());
    let mut doubted = Duration::ZERO;
    let by_values = match (index, split.values.clone()) {
        (Some(index), Some(levels)) => {
            let certificates = flags.certificate.is_some() || verify;
            let request = Request {
                levels,
                anomalies: anomalies.clone(),
                certificates,
                inference: flags.inference.of(&history)?,
                every_component: flags.every_component,
                ..Request::default()
            };
            let mut judgement = anomalist_check::check(&history, &index, &request, &budget);
            let since = Instant::now();
            let long = || spent() || since.elapsed() >= TIGHTENING;
            anomalist_check::shrink::tighten(&history, &mut judgement, &Budget::new(&long));
            let since = Instant::now();
            let doubt = Doubt { verify, cross_check: flags.cross_check };
            doubt
                .judgement((&history, &index), &request, &judgement, &budget)
                .map_err(|what| bug::report(&history, &facts, &judgement, &what))?;
            doubted = since.elapsed();
            Some(judgement)
        }
        _ => None,
    };
    let certificates = flags.certificate.is_some() || verify;
    let exclusive = split.is_exclusive();
    let (judgement, violations) =
        split.judge(&history, by_values, anomalies, certificates, load::threads(global), &budget);
    if verify && judgement.levels.iter().any(|l| l.by == By::Timestamps) {
        let since = Instant::now();
        basis::verify(&history, &judgement, exclusive).map_err(|flaw| {
            let what = format!("an answer's proof does not verify: {}", flaw.message(&history));
            bug::report(&history, &facts, &judgement, &what)
        })?;
        doubted += since.elapsed();
    }
    if flags.cross_check {
        let since = Instant::now();
        let found = anomalist_check::cross_check_stamps(&history, &judgement, &budget);
        if !found.is_empty() {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            return Err(bug::report(&history, &facts, &judgement, &found.join("; ")));
        }
        doubted += since.elapsed();
    }
    drop(bar);
    let check = since.elapsed() - doubted;
    if let Some(file) = &flags.basis.violations {
        basis::write_violations(file, &history, &violations)?;
    }
    let timing = Timing { load_ms: millis(load), check_ms: millis(check) };
    Ok(Judged { history: Some(history), facts, judgement, timing })
}

/// Judges sets, counters, banks and predicates. Reasons that are no reads and writes cannot be verified again.
fn judge_datatype(
    path: &str,
    lowered: datatypes::Lowered,
    (format, load): (&str, Duration),
    flags: &Flags,
    global: &Global,
) -> Judged {
    let since = Instant::now();
    let bar = Progress::spinner(global, &format!("checking {path}"));
    let spent = || {
        bar.pulse();
        interrupt::is_requested() || flags.timeout.is_some_and(|limit| since.elapsed() >= limit)
    };
    let request = Request {
        levels: flags.level.clone(),
        anomalies: (!flags.anomalies.is_empty()).then(|| flags.anomalies.clone()),
        certificates: flags.certificate.is_some(),
        ..Request::default()
    };
    let judgement = datatypes::check(&lowered, &request, &Budget::new(&spent));
    drop(bar);
    let facts = HistoryFacts::of(&lowered.history, path, format);
    let facts = HistoryFacts { kind: lowered.datatype.name(), ..facts };
    let timing = Timing { load_ms: millis(load), check_ms: millis(since.elapsed()) };
    Judged { history: Some(lowered.history), facts, judgement, timing }
}

/// Which of our own answers not to take on trust.
struct Doubt {
    verify: bool,
    cross_check: bool,
}

impl Doubt {
    /// Looks for a mistake in a judgement by values, and says what it is.
    fn judgement(
        &self,
        (history, index): (&History, &Index),
        request: &Request,
        judgement: &Judgement,
        budget: &Budget<'_>,
    ) -> Result<(), String> {
        // What the user assumes about the database is in no history. What only some anomalies were looked for in is not
        // decided, and needs no proof.
        let assumes = request.inference != Inference::default();
        if self.verify
            && let Err(flaw) = Verifier::new(history).trusting(assumes).judgement(judgement)
        {
            return Err(format!("an answer's proof does not verify: {}", flaw.message(history)));
        }
        if self.cross_check {
            second_opinion((history, index), request, judgement, budget)?;
        }
        Ok(())
    }
}

/// Asks other algorithms; where the history is tiny, also one that tries everything.
fn second_opinion(
    (history, index): (&History, &Index),
    request: &Request,
    judgement: &Judgement,
    budget: &Budget<'_>,
) -> Result<(), String> {
    let found = anomalist_check::cross_check(history, index, request, judgement, budget);
    if !found.is_empty() {
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        return Err(found.join("; "));
    }
    let verifier = Verifier::new(history);
    let assumes = request.inference != Inference::default();
    for answer in judgement.levels.iter().filter(|l| l.by == By::Values && request.anomalies.is_none()) {
        let tried = verifier.try_everything(answer.level);
        let disagree = match answer.verdict {
            Verdict::Holds => tried == Some(false),
            // What is assumed rules orders out.
            Verdict::Violated => tried == Some(true) && !assumes,
            Verdict::Unknown { .. } => false,
        };
        if disagree {
            return Err(format!("{} is not {}: every order was tried", answer.level, answer.verdict.name()));
        }
    }
    let declared = judgement.mixed.as_ref().map(|mixed| (&mixed.verdict, verifier.try_everything_declared()));
    if let Some((verdict @ Verdict::Holds, Some(false)) | (verdict @ Verdict::Violated, Some(true))) =
        declared
    {
        return Err(format!("the mix of declared levels is not {}: every order was tried", verdict.name()));
    }
    Ok(())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A violated level decides; then an undecided one, or an interrupt that left histories out.
fn exit(done: &[Judged], flags: &Flags) -> Exit {
    let any = |wanted: fn(&Verdict) -> bool| {
        let mixed = |j: &Judged| j.judgement.mixed.as_ref().is_some_and(|mixed| wanted(&mixed.verdict));
        let level = |j: &Judged| flags.level.iter().any(|&l| j.judgement.verdict(l).is_some_and(wanted));
        done.iter().any(|j| level(j) || flags.declared && mixed(j))
    };
    let undeclared = flags.declared && done.iter().any(|j| j.judgement.mixed.is_none());
    if any(|v| *v == Verdict::Violated) {
        Exit::Violated
    } else if any(|v| matches!(v, Verdict::Unknown { .. })) || undeclared || interrupt::is_requested() {
        Exit::Undecided
    } else {
        Exit::Holds
    }
}
