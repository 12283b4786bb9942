//! Rounds at one isolation level after the other, and the table of what they showed.

use super::DriveFlags;
use super::page;
use super::show::Shown;
use super::subject::Opened;
use crate::cli::Global;
use crate::destination::{can_be_written, write_file};
use crate::exit::{Exit, Failure};
use crate::runs::Fresh;
use crate::{interrupt, supervised, terminal};
use anomalist_databases::{Isolation, Kind};
use anomalist_format::PathName;
use anomalist_level::Verdict;
use anomalist_sql::campaign::{Settings, Subject, Summary};
use anomalist_sql::generate::Knobs;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the script of one anomaly may take to shrink.
const SHRINKING: Duration = Duration::from_secs(40);

pub fn run(flags: &DriveFlags, global: &Global) -> Result<Exit, Failure> {
    can_be_written(&flags.report)?;
    let opened = Opened::open(&flags.place, global)?;
    let isolations = opened.isolations(&flags.place)?;
    if !flags.mix.is_possible(opened.flavour) {
        return Err(Failure::input(format_args!("{} supports no statement of --mix", opened.product)));
    }
    let subject = opened.subject();
    let settings = settings(flags);
    let mut summaries: Vec<Summary> = Vec::new();
    for isolation in &isolations {
        if interrupt::is_requested() {
            break;
        }
        if !global.quiet
            && let Ok(Some(level)) = opened.in_force(isolation)
        {
            terminal::tell(&format!("{isolation}: according to the server, {level} is in force"));
        }
        let mut progress = progress(!global.quiet && !flags.json);
        let mut summary = subject.campaign(isolation, &settings, &mut progress).map_err(Failure::input)?;
        let lost = summary.ended.as_ref().is_some_and(|e| e.kind() == Kind::Lost);
        if !flags.no_shrink && !lost {
            shrink(&subject, isolation, &mut summary);
        }
        summaries.push(summary);
        if lost {
            break;
        }
    }
    if let Some(error) = summaries.first().and_then(|s| s.ended.as_ref())
        && summaries.iter().all(|s| s.rounds == 0)
    {
        return Err(Failure::input(error));
    }
    let shown = Shown { opened: &opened, flags, summaries: &summaries };
    let page = page::html(&shown);
    write_files(&shown, &page)?;
    let folder = keep(&shown, &page)?;
    match flags.json {
        true => {
            let mut document = shown.document();
            document["folder"] = json!(folder.display().to_string());
            terminal::print(&format!("{document:#}"))?;
        }
        false => {
            let text = shown.text(terminal::style(global).width);
            terminal::print(&format!("{text}\nkept: {}\n", folder.shown()))?;
        }
    }
    Ok(exit(&summaries, flags))
}

fn settings(flags: &DriveFlags) -> Settings {
    Settings {
        seed: flags.seed,
        knobs: Knobs {
            tables: flags.tables.into(),
            columns: flags.columns.into(),
            rows: flags.rows.into(),
            statements: flags.statements.into(),
            values: flags.values,
            rollback: flags.rollback,
            autocommit: flags.autocommit,
            savepoint: flags.savepoints,
            mix: flags.mix,
        },
        sessions: flags.sessions.map(usize::from),
        transactions: flags.round,
        read_all: flags.read_all,
        duration: flags.duration,
        required: flags.level.clone(),
    }
}

/// Reports to a supervisor, and prints every ten seconds what was found so far, if that is wanted.
fn progress(wanted: bool) -> impl FnMut(&Summary) {
    let mut reported = Instant::now();
    move |summary| {
        supervised::report(sample(summary));
        if wanted && reported.elapsed() > Duration::from_secs(10) {
            reported = Instant::now();
            let found: Vec<&str> = summary.counts.keys().map(|name| name.kind()).collect();
            let found = if found.is_empty() { "nothing yet".to_owned() } else { found.join(", ") };
            terminal::tell(&format!("{}: {} rounds, {found}", summary.isolation, summary.rounds));
        }
    }
}

/// Shrinks one script for each name of an anomaly that the level forbids, until the user interrupts.
fn shrink(subject: &Subject<'_>, isolation: &Isolation, summary: &mut Summary) {
    let level = summary.promise.adya;
    let mut last = None;
    for class in &mut summary.classes {
        if interrupt::is_requested() {
            break;
        }
        let name = class.found.name;
        if last == Some(name) || class.found.links.is_empty() || !name.is_forbidden_by(level) {
            continue;
        }
        let began = Instant::now();
        subject.minimise(isolation, class, &|| began.elapsed() > SHRINKING);
        if class.shrunk.is_some() {
            last = Some(name);
        }
    }
}

/// The scripts and the page, where they are wanted.
fn write_files(shown: &Shown<'_>, page: &str) -> Result<(), Failure> {
    if let Some(folder) = &shown.flags.scripts {
        write_scripts(shown, folder)?;
    }
    match &shown.flags.report {
        Some(path) => write_file(path, page.as_bytes()),
        None => Ok(()),
    }
}

fn write_scripts(shown: &Shown<'_>, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| Failure::io(folder, e))?;
    for (name, text) in shown.scripts() {
        write_file(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Keeps the run in a folder of its own: the result, the report as text and as a page, and the scripts.
fn keep(shown: &Shown<'_>, page: &str) -> Result<PathBuf, Failure> {
    const WIDTH: usize = 100;
    // A server may call itself anything.
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let product: String = shown.opened.product.name.chars().take(40).map(plain).collect();
    let name = format!("sql-{product}");
    let Fresh { path, started } = Fresh::create(&shown.flags.runs, &name)?;
    let mut document = shown.document();
    document["command"] = json!("sql");
    document["started"] = json!(started);
    write_file(&path.join("report.txt"), shown.text(WIDTH).as_bytes())?;
    write_file(&path.join("report.html"), page.as_bytes())?;
    write_scripts(shown, &path.join("scripts"))?;
    write_file(&path.join("result.json"), format!("{document:#}\n").as_bytes())?;
    Ok(path)
}

/// How far it is, for a supervisor.
fn sample(summary: &Summary) -> Value {
    let found: serde_json::Map<String, Value> =
        summary.counts.iter().map(|(name, count)| (name.kind().to_owned(), json!(count))).collect();
    json!({"what": summary.isolation.to_string(), "rounds": summary.rounds, "statements": summary.statements,
           "failed": summary.failed_statements, "found": found})
}

/// What is required decides; if nothing is, what the vendor documents. Where most statements failed, or
/// nothing could be seen at any level, that is undecided.
fn exit(summaries: &[Summary], flags: &DriveFlags) -> Exit {
    let held_to_it = flags.level.is_empty() && !flags.no_claim;
    let breaks =
        |s: &Summary| s.counts.iter().any(|(&name, &count)| count > 0 && s.promise.documented.forbids(name));
    if held_to_it && summaries.iter().any(breaks) {
        return Exit::Violated;
    }
    let verdicts = || summaries.iter().flat_map(|s| s.required.iter().map(|(_, verdict)| verdict));
    if verdicts().any(|v| *v == Verdict::Violated) {
        Exit::Violated
    } else if interrupt::is_requested()
        || summaries.iter().any(|s| s.ended.is_some() || s.failed_statements * 2 > s.statements)
        || summaries.iter().all(|s| s.inconclusive().is_some())
        || verdicts().any(|v| matches!(v, Verdict::Unknown(_)))
    {
        Exit::Undecided
    } else {
        Exit::Holds
    }
}
