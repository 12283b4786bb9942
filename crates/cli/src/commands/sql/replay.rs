//! `anomalist sql replay`: a script of interleaved sessions, line by line, and what it shows.

use super::ReplayFlags;
use super::subject::Opened;
use super::{show, templates};
use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::load;
use crate::{interrupt, terminal};
use anomalist_databases::Isolation;
use anomalist_format::PathName;
use anomalist_sql::Flavour;
use anomalist_sql::judge::{Judged, Name};
use anomalist_sql::replay::{Event, Replayed};
use anomalist_sql::script::Script;
use anomalist_sql::template::translate;
use anomalist_sql::vendor::Promise;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

pub fn run(flags: &ReplayFlags, global: &Global) -> Result<Exit, Failure> {
    if flags.script.is_dir() {
        return templates::run(flags, global);
    }
    let text = load::small_text(&flags.script)?;
    let opened = Opened::open(&flags.place, global)?;
    let wrong = |e: &dyn std::fmt::Display| Failure::input(format_args!("{}: {e}", flags.script.shown()));
    let script = Script::parse_any(opened.flavour, &text).map_err(|e| wrong(&e))?;
    understood(&script, &flags.script)?;
    let mut script = translate(&script, opened.flavour).map_err(|e| wrong(&e))?;
    let isolation = isolation(&opened, flags, &mut script)?;
    let subject = opened.subject();
    let (mut shown, mut last) = (0, None);
    for _ in 0..flags.runs.max(1) {
        let (replayed, promise, judged) =
            subject.replay(&isolation, &script).map_err(|e| match interrupt::is_requested() {
                true => Failure::Interrupted,
                false => wrong(&e),
            })?;
        let wanted = |name: &Name| script.expects.as_ref().is_none_or(|e| name.is_called(e));
        shown += u32::from(judged.counts.keys().any(wanted));
        last = Some((replayed, promise, judged));
    }
    let Some((replayed, promise, judged)) = last else { return Ok(Exit::Holds) };
    let reported = ReplayReport { flags, script: &script, promise, shown, replayed, judged };
    match flags.json {
        true => terminal::print(&format!("{:#}", reported.document()))?,
        false => terminal::print(&reported.text())?,
    }
    // A script that is about an anomaly, and never showed it, has not done what it is for.
    Ok(if script.expects.is_some() && shown == 0 { Exit::Undecided } else { Exit::Holds })
}

/// Refuses what would run and say nothing: a script without sessions, in SQL or about an anomaly that
/// that is not known.
pub fn understood(script: &Script, path: &Path) -> Result<(), Failure> {
    let wrong = |what: &str| Err(Failure::input(format_args!("{}: {what}", path.shown())));
    if script.steps.is_empty() {
        return wrong("no statement has a session, such as `-- T1`");
    }
    if let Some(Err(unknown)) = script.dialect.as_ref().map(|d| d.parse::<Flavour>()) {
        return wrong(&unknown.to_string());
    }
    match &script.expects {
        Some(expects) if !Name::is_known(expects) => {
            let names: Vec<&str> = Name::NAMED.iter().map(|n| n.kind()).collect();
            let names = names.join(", ");
            wrong(&format!("no anomaly is called {expects:?}\n  help: there are {names}, and Adya's codes"))
        }
        _ => Ok(()),
    }
}

/// The level of the command line, whatever the script's sessions set at their start; else the script's,
/// else the server's.
fn isolation(opened: &Opened, flags: &ReplayFlags, script: &mut Script) -> Result<Isolation, Failure> {
    let named = match (flags.place.isolation.as_str(), &script.isolation) {
        ("all", Some(name)) => name.clone(),
        ("all", None) => return opened.default_isolation(),
        (name, _) => {
            script.prelude.clear();
            name.to_owned()
        }
    };
    let found = opened.product.isolation(&named);
    found.ok_or_else(|| Failure::input(format_args!("{} has no isolation level {named:?}", opened.product)))
}

struct ReplayReport<'a> {
    flags: &'a ReplayFlags,
    script: &'a Script,
    promise: Promise,
    shown: u32,
    replayed: Replayed,
    judged: Judged,
}

impl ReplayReport<'_> {
    fn text(&self) -> String {
        let levels: Vec<&str> = self.replayed.levels.iter().map(Isolation::name).collect();
        let mut out = match &levels[..] {
            [one] => format!("at {one}\n"),
            several => format!("at {}; judged by the weakest\n", several.join(" and ")),
        };
        for event in &self.replayed.events {
            let line = &self.script.steps[event.line];
            let indent = "    ".repeat(line.session - 1);
            _ = writeln!(out, "{indent}T{}  {}{}", line.session, line.text, answer(event));
        }
        let run = &self.replayed.run;
        _ = writeln!(out, "\ndependencies:");
        for link in &self.judged.links {
            let id = |place: usize| run.transactions[place].id;
            _ = writeln!(out, "  T{} {}({}) T{}", id(link.from), link.relation, link.row, id(link.to));
        }
        for t in &run.transactions {
            match self.replayed.last == Some(t.id) {
                true => _ = writeln!(out, "T{} reads every table at the end: {:?}", t.id, t.outcome),
                false => _ = writeln!(out, "T{} (session T{}): {:?}", t.id, t.session + 1, t.outcome),
            }
        }
        for (why, count) in &self.judged.unseen {
            let of = if *count == 1 { "of 1 statement" } else { &format!("of {count} statements") };
            _ = writeln!(out, "dependencies through conditions {of} may be missing: {}", why.text());
        }
        if self.judged.counts.is_empty() {
            _ = writeln!(out, "no anomaly");
        }
        for name in self.judged.counts.keys() {
            let forbids = if name.is_forbidden_by(self.promise.adya) { "forbids" } else { "allows" };
            let level = self.promise.adya.name();
            _ = writeln!(out, "{} ({}): {level} {forbids} it", name.kind(), name.code().code());
        }
        if self.flags.runs > 1 {
            _ = writeln!(out, "shown in {} of {} runs", self.shown, self.flags.runs);
        }
        out
    }

    fn document(&self) -> Value {
        let run = &self.replayed.run;
        let id = |place: usize| format!("T{}", run.transactions[place].id);
        json!({
            "anomalist": env!("CARGO_PKG_VERSION"),
            "schema": 1,
            "isolation": self.replayed.level().name(),
            "level": self.promise.adya.name(),
            "verdict": show::verdict(&self.judged.verdict),
            "runs": self.flags.runs,
            "shown": self.shown,
            "conditions": {"undecided": show::undecided(&self.judged.unseen)},
            "transactions": run.transactions.iter().map(show::transaction).collect::<Vec<_>>(),
            "edges": self.judged.links.iter().map(|l| json!({
                "from": id(l.from), "to": id(l.to), "type": l.relation.name(), "key": l.row,
            })).collect::<Vec<_>>(),
            "anomalies": self.judged.counts.keys().map(|n| json!({
                "kind": n.kind(), "code": n.code().code(), "forbidden": n.is_forbidden_by(self.promise.adya),
            })).collect::<Vec<_>>(),
        })
    }
}

fn answer(event: &Event) -> String {
    let mut out = String::new();
    if event.waited {
        out += "  [waits]";
    }
    if event.skipped {
        out += "  [not sent: its transaction has ended]";
    }
    if let Some(failed) = &event.failed {
        _ = write!(out, "  [{}]", failed.message);
    }
    let rows: Vec<String> = event
        .rows
        .iter()
        .map(|row| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        .collect();
    if !rows.is_empty() {
        _ = write!(out, "  → {}", rows.join(" | "));
    }
    out
}
