//! `anomalist test`: drives a database from concurrent sessions, records what they saw, checks it, and
//! keeps everything.
//!
//! A *run* is one engine at one isolation level with one workload; it has a folder of its own under
//! `runs/`, with the history, the result, the report and a log. One URL is one run; without a URL there are
//! two, of SQLite and of a simulated store, to show what the answers look like; `--matrix` is a run per
//! isolation level of the database.

mod faults;
mod flags;
mod folder;
mod judge;
mod live;
mod subject;

pub use flags::Flags;

use crate::cli::Global;
use crate::destination::{can_be_written, write_file, write_step_summary};
use crate::exit::{Exit, Failure};
use crate::{interrupt, pages, terminal};
use anomalist_client::{Control, Online, Plan, Summary, run as drive};
use anomalist_databases::broken::Bug;
use anomalist_format::PathName;
use anomalist_level::{AnomalyKind, Level, Verdict};
use anomalist_page::Run;
use anomalist_report::{Column, Subject, example_text, matrix_markdown, matrix_text};
use anomalist_workload::client::ClientSpec;
use folder::RunFolder;
use judge::Judged;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use subject::{PlannedRun, TestBed};

/// A run and its answer.
struct Done {
    /// Its heading in tables.
    head: String,
    /// What was driven, in full.
    described: String,
    /// When it began, in UTC.
    started: String,
    spec: ClientSpec,
    faults: Vec<&'static str>,
    summary: Summary,
    judged: Judged,
    folder: PathBuf,
    /// Whether the user ended it early.
    interrupted: bool,
    /// The level that the vendor documents, if the run is held to it.
    claim: Option<Level>,
    /// The level in force, as the server tells it.
    in_force: Option<String>,
}

impl Done {
    /// Whether it did not come to its end.
    fn ended_early(&self) -> bool {
        self.interrupted || self.summary.lost.is_some()
    }

    /// Whether hardly anything committed.
    fn says_little(&self) -> bool {
        let s = &self.summary;
        s.committed * 10 < s.committed + s.aborted + s.indeterminate
    }

    fn subject<'a>(&'a self, required: &'a [Level]) -> Subject<'a> {
        Subject { required, ..self.judged.found.subject(&self.judged.history) }
    }
}

/// Tests.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    let spec = flags.spec()?;
    let pages = [&flags.report, &flags.table].into_iter().flatten();
    can_be_written(pages.chain(flags.documents.files()))?;
    let bed = TestBed::open(flags, global)?;
    let planned_runs = bed.planned_runs(flags, &spec)?;
    let several = planned_runs.len() > 1;
    let mut done = Vec::new();
    for planned in planned_runs {
        if interrupt::is_requested() {
            break;
        }
        if !global.quiet && several {
            terminal::tell(&format!("running {} against {}", planned.spec.workload.name(), planned.head));
        }
        let run = one(planned, &bed, flags, global)?;
        let ended = run.ended_early();
        done.push(run);
        if ended {
            break;
        }
    }
    if done.is_empty() {
        return Err(Failure::Interrupted);
    }
    let annotate = std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| !value.is_empty());
    let subjects: Vec<Subject<'_>> = done.iter().map(|d| d.subject(&flags.level)).collect();
    if let Some(path) = &flags.report {
        write_file(path, page(&done, flags, global).as_bytes())?;
    }
    flags.documents.write(&subjects)?;
    if flags.json {
        let runs: Vec<Value> = done.iter().map(|d| document(d, flags)).collect();
        let whole = json!({"anomalist": env!("CARGO_PKG_VERSION"), "schema": 1, "runs": runs});
        terminal::print(&format!("{whole:#}\n"))?;
    } else {
        terminal::print(&text(&done, flags, &bed, global))?;
    }
    if let Some(path) = &flags.table {
        write_file(path, table(&done).as_bytes())?;
    }
    write_step_summary(&subjects)?;
    if annotate {
        terminal::tell(anomalist_report::github(&subjects).trim_end());
    }
    Ok(exit(&done, &flags.level))
}

/// One run from beginning to end.
fn one(mut planned: PlannedRun<'_>, bed: &TestBed, flags: &Flags, global: &Global) -> Result<Done, Failure> {
    let engine = planned.engine()?;
    let described = engine.describe();
    let collector = flags.online.then(|| bed.collector()).transpose()?;
    let folder = RunFolder::create(&flags.runs, &planned.name(), planned.spec.workload)?;
    let control = Control::default();
    let online = match collector {
        Some(collector) => Some(Online { collector, history: Box::new(folder.stamped()?) }),
        None => None,
    };
    let plan = Plan {
        engine: &*engine,
        spec: &planned.spec,
        sessions: flags.sessions,
        limit: flags.limit(),
        faults: faults::source(bed, flags.fault_every, planned.spec.seed),
        online,
    };
    let outputs = folder.outputs()?;
    let live = live::Live::new(global, &planned.head, &folder, flags);
    let driven = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| live.watch(&control));
        let driven = drive(plan, &control, outputs);
        live.end();
        _ = watcher.join();
        driven
    });
    let summary = driven.map_err(|error| match folder.discard_if_empty() {
        _ if interrupt::is_requested() => Failure::Interrupted,
        true => Failure::input(format_args!("{described}: {error}")),
        false => Failure::input(format_args!("{described}: {error}\n  log: {}", folder.log().shown())),
    })?;
    drop(engine);
    // The first Ctrl-C ends the run, and what was recorded is judged; the next one ends that.
    let interrupted = interrupt::take();
    let mut judged = judge::file(&folder.history(), &flags.level, flags.timeout, global)?;
    judge::add_timestamps(&mut judged.found.judgement, &summary);
    let mut head = std::mem::take(&mut planned.head);
    if several_workloads(flags) {
        let _ = write!(head, " {}", planned.spec.workload.name());
    }
    let done = Done {
        head,
        described,
        started: folder.started().to_owned(),
        spec: planned.spec,
        faults: bed.faults.iter().map(|fault| fault.name()).collect(),
        summary,
        judged,
        folder: folder.path().to_owned(),
        interrupted,
        claim: planned.claim.filter(|_| flags.level.is_empty() && !flags.no_claim),
        in_force: planned.in_force,
    };
    let subject = done.subject(&flags.level);
    let report = format!("{}\n{}", heading(&done), anomalist_report::text(&subject, &Default::default()));
    folder.keep(&report, &page(std::slice::from_ref(&done), flags, global), &document(&done, flags))?;
    folder.also_write(flags.to, done.judged.history.transactions())?;
    Ok(done)
}

fn several_workloads(flags: &Flags) -> bool {
    flags.workload.len() > 1
}

/// What was run, and how it went.
fn heading(done: &Done) -> String {
    let s = &done.summary;
    let finished = s.committed + s.aborted + s.indeterminate;
    let rate = finished as f64 / s.elapsed.as_secs_f64().max(1e-9);
    let mut out = format!(
        "{}:\n  {} of {finished} transactions committed in {:.1} s ({rate:.0}/s), {} aborted, {} of unknown outcome",
        done.described,
        s.committed,
        s.elapsed.as_secs_f64(),
        s.aborted,
        s.indeterminate,
    );
    if s.faults > 0 {
        let _ = write!(out, "; {} faults", s.faults);
    }
    if let Some(level) = &done.in_force {
        let _ = write!(out, "\n  in force, according to the server: {level}");
    }
    if let Some(claim) = done.claim {
        let verdict = done.judged.found.judgement.verdict(claim).map_or("not decided", Verdict::name);
        let _ = write!(out, "\n  documented by the vendor: {claim} ({verdict})",);
    }
    if done.interrupted {
        out.push_str("; interrupted");
    }
    if done.says_little() {
        out.push_str(
            "\n  warning: fewer than a tenth of the transactions committed, so levels that hold say little",
        );
    }
    if let Some(error) = &s.lost {
        let _ = write!(out, "\n  ended early: {error}");
    }
    for (kind, (count, message)) in &s.causes {
        let line = message.lines().next().unwrap_or_default();
        let _ = write!(out, "\n  {kind} ×{count}, first: {line}");
    }
    if let Some(online) = &s.online {
        let _ =
            write!(out, "\n  online: {} transactions checked by the server's timestamps, ", online.checked);
        match (online.violations.is_empty(), online.is_conclusive()) {
            (_, false) => out.push_str("without a verdict"),
            (true, true) => out.push_str("no violation of snapshot isolation"),
            (false, true) => out.push_str("snapshot isolation is violated: "),
        }
        let counts: Vec<String> = online.violations.iter().map(|(code, n)| format!("{code} ×{n}")).collect();
        out.push_str(&counts.join(", "));
        for (n, what) in [
            (online.learnt, "committed although the client never learnt it"),
            (online.missing, "never appeared in the server's log"),
            (online.unclaimed, "commits in its log may belong to transactions of unknown outcome"),
        ] {
            if n > 0 {
                let _ = write!(out, "; {n} {what}");
            }
        }
        for example in &online.examples {
            let _ = write!(out, "\n    {example}");
        }
    }
    out.push('\n');
    out
}

/// The run as JSON: what `--json` prints and `result.json` keeps.
fn document(done: &Done, flags: &Flags) -> Value {
    let s = &done.summary;
    let causes: serde_json::Map<String, Value> =
        s.causes.iter().map(|(kind, (count, _))| ((*kind).to_owned(), json!(count))).collect();
    let online = s.online.as_ref().map(|o| {
        json!({"checked": o.checked, "violations": o.violations, "examples": o.examples,
               "learnt": o.learnt, "missing": o.missing, "unclaimed": o.unclaimed})
    });
    json!({
        "target": done.described,
        "name": done.head,
        "workload": done.spec.workload.name(),
        "in_force": done.in_force,
        "claim": done.claim.map(|claim| json!({
            "level": claim.name(),
            "verdict": done.judged.found.judgement.verdict(claim).map_or("not decided", Verdict::name),
        })),
        "started": done.started,
        "settings": settings(done, flags),
        "sessions": flags.sessions,
        "seed": flags.seed,
        "committed": s.committed,
        "aborted": s.aborted,
        "indeterminate": s.indeterminate,
        "causes": causes,
        "faults": s.faults,
        "says_little": done.says_little(),
        "interrupted": done.interrupted,
        "lost": s.lost.as_ref().map(|e| &e.message),
        "online": online,
        "elapsed_ms": s.elapsed.as_millis() as u64,
        "folder": done.folder.display().to_string(),
        "result": anomalist_report::json(&[done.subject(&flags.level)]),
    })
}

/// What was asked for, by the names of the flags.
fn settings(done: &Done, flags: &Flags) -> Value {
    let spec = &done.spec;
    json!({
        "txns": if flags.duration.is_none() { json!(flags.txns()) } else { Value::Null },
        "duration_ms": flags.duration.map(|time| time.as_millis() as u64),
        "keys": spec.keys,
        "min_ops_per_txn": spec.min_ops_per_txn,
        "ops_per_txn": spec.ops_per_txn,
        "read_ratio": spec.read_ratio,
        "distribution": spec.distribution.name(),
        "writes_per_key": spec.writes_per_key,
        "encoding": flags.encoding().to_string(),
        "fault": done.faults,
        "fault_every_ms": flags.fault_every.as_millis() as u64,
        "bug": flags.bug.map(Bug::name),
        "online": flags.online,
    })
}

/// Runs as a page.
fn page(done: &[Done], flags: &Flags, global: &Global) -> String {
    let runs = done.iter().map(|d| {
        let mut run = Run::of(&d.subject(&flags.level));
        run.name.clone_from(&d.head);
        run.about = format!("{}Seed {}.", heading(d), flags.seed);
        run.unseen = pages::unseen(d.judged.history.transactions(), global);
        run
    });
    pages::page("anomalist test", runs.collect())
}

fn columns(done: &[Done]) -> Vec<Column<'_>> {
    done.iter().map(|d| Column { head: &d.head, judgement: &d.judged.found.judgement }).collect()
}

/// Levels against runs, and what was run.
fn table(done: &[Done]) -> String {
    let mut out = matrix_markdown(&columns(done));
    out.push('\n');
    for d in done {
        let lines: Vec<String> = heading(d).lines().take(2).map(|line| line.trim().to_owned()).collect();
        let _ = writeln!(out, "- {}", lines.join(" "));
    }
    out
}

fn text(done: &[Done], flags: &Flags, bed: &TestBed, global: &Global) -> String {
    let style = terminal::style(global);
    let mut out = String::new();
    for line in done.iter().flat_map(|d| heading(d).lines().map(str::to_owned).collect::<Vec<_>>()) {
        let indent = &line[..line.len() - line.trim_start().len()];
        out.push_str(&terminal::wrap(&line, indent, &format!("{indent}  "), style.width));
    }
    out.push('\n');
    match done {
        [one] => out.push_str(&anomalist_report::text(&one.subject(&flags.level), &style)),
        several => {
            out.push_str(&matrix_text(&columns(several), &style));
            for d in several.iter().filter(|_| !flags.level.is_empty()) {
                let verdict =
                    |l: &Level| d.judged.found.judgement.verdict(*l).map_or("not decided", Verdict::name);
                let words: Vec<String> = flags.level.iter().map(|l| format!("{l} {}", verdict(l))).collect();
                let _ = writeln!(out, "required of {}: {}", d.head, words.join(", "));
            }
            if let Some((d, anomaly)) = telling(several) {
                let _ = write!(out, "\nOf {}:\n", d.head);
                out.push_str(&example_text(&d.subject(&flags.level), anomaly, &style));
            }
        }
    }
    out.push('\n');
    for d in done {
        let _ = writeln!(out, "kept: {}", d.judged.history.facts().path);
    }
    let found =
        done.iter().flat_map(|d| &d.judged.found.judgement.anomalies).map(|anomaly| anomaly.kind).next();
    let _ = writeln!(out, "next: {}", bed.next_step(flags, found));
    out
}

/// The anomaly to explain where there is room for one: a write skew if there is one, of the last run that
/// has any.
fn telling(done: &[Done]) -> Option<(&Done, &anomalist_level::Anomaly)> {
    let of_kind = |wanted: Option<AnomalyKind>| {
        done.iter().rev().find_map(|d| {
            let found = d.judged.found.judgement.anomalies.iter();
            let found = found.filter(|a| wanted.is_none_or(|kind| kind == a.kind));
            found.min_by_key(|a| a.witness.transactions.len()).map(|a| (d, a))
        })
    };
    of_kind(Some(AnomalyKind::G2Item)).or_else(|| of_kind(None))
}

/// A violated level decides, a required one or the one that the vendor documents; then an undecided one, or
/// a run that did not come to its end.
fn exit(done: &[Done], required: &[Level]) -> Exit {
    let any = |wanted: fn(&Verdict) -> bool| {
        done.iter().any(|d| required.iter().any(|&l| d.judged.found.judgement.verdict(l).is_some_and(wanted)))
    };
    let broken =
        |d: &Done| d.claim.is_some_and(|l| d.judged.found.judgement.verdict(l) == Some(&Verdict::Violated));
    if any(|v| *v == Verdict::Violated) || done.iter().any(broken) {
        Exit::Violated
    } else if any(|v| matches!(v, Verdict::Unknown(_)))
        || interrupt::is_requested()
        || done.iter().any(Done::ended_early)
    {
        Exit::Undecided
    } else {
        Exit::Holds
    }
}
