//! What a run showed as a page: an index, the tables of verdicts and, per anomaly, all that is known about
//! it. What the vendor's documentation or the level's definition forbids comes first.

use super::picture;
use super::show::{Shown, causes, early, script, surprising, verdict};
use anomalist_level::{Level, Verdict};
use anomalist_report::escape::xml as escape;
use anomalist_sql::campaign::{Class, Summary};
use anomalist_sql::record::{Executed, Failed};
use anomalist_sql::script::Script;
use serde_json::Value;
use std::fmt::Write as _;

/// So many statements of a set-up are shown at once.
const SETUP: usize = 8;
/// So many shapes of a kind that is allowed stand in the list; the others are folded.
const SHAPES: usize = 3;
const STYLE: &str = include_str!("assets/page.css");
const SCRIPT: &str = include_str!("assets/page.js");
const MARKER: &str = "<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs><marker id=\"head\" \
    markerWidth=\"10\" markerHeight=\"8\" refX=\"9\" refY=\"4\" orient=\"auto\"><path d=\"M0,0L10,4L0,8z\" \
    fill=\"context-stroke\"/></marker></defs></svg>";

/// A page with everything.
pub fn html(shown: &Shown<'_>) -> String {
    let mut out = format!("{MARKER}<main>");
    _ = write!(
        out,
        "<h1>{}</h1><p class=\"dim\">{}, seed {} ({}), anomalist {}. Deleted rows are known from {}.</p>",
        escape(&shown.opened.product.to_string()),
        escape(&shown.opened.address()),
        shown.flags.seed,
        escape(&generation(shown)),
        env!("CARGO_PKG_VERSION"),
        escape(shown.opened.flavour.deletions_are_told_by())
    );
    // What is violated comes first.
    let mut summaries: Vec<&Summary> = shown.summaries.iter().collect();
    let violated =
        |s: &Summary| s.required.iter().map(|(_, v)| v).chain([&s.verdict]).any(|v| *v == Verdict::Violated);
    summaries.sort_by_key(|s| !violated(s));
    index(&mut out, &summaries);
    for (number, s) in summaries.into_iter().enumerate() {
        level(&mut out, s, number);
    }
    anomalist_page::shell("anomalist sql", STYLE, &(out + "</main>"), SCRIPT)
}

/// The classes of a level: first what its vendor rules out, then what its definition or a required level
/// forbids, then the rest.
fn ranked(s: &Summary) -> Vec<&Class> {
    let mut all: Vec<&Class> = s.classes.iter().collect();
    let rank = |c: &&Class| {
        let name = c.found.name;
        (!s.promise.documented.forbids(name), !is_forbidden(s, c), name)
    };
    all.sort_by_key(rank);
    all
}

fn is_forbidden(s: &Summary, class: &Class) -> bool {
    let name = class.found.name;
    s.promise.documented.forbids(name)
        || name.is_forbidden_by(s.promise.adya)
        || s.required.iter().any(|(level, _)| name.is_forbidden_by(*level))
}

/// Links to every level and every kind of anomaly.
fn index(out: &mut String, summaries: &[&Summary]) {
    *out += "<nav aria-label=\"Contents\">";
    for (number, s) in summaries.iter().enumerate() {
        _ = write!(
            out,
            "<div><a href=\"#level-{number}\">{}</a>: {}{}",
            escape(s.isolation.name()),
            marked(&s.verdict),
            required(s)
        );
        *out += "<ul>";
        let all = ranked(s);
        let mut place = 0;
        for alike in all.chunk_by(|a, b| a.found.name == b.found.name) {
            let word = if is_forbidden(s, alike[0]) { "<b class=\"bad\">forbidden</b>" } else { "allowed" };
            let shapes =
                if alike.len() == 1 { "1 shape".to_owned() } else { format!("{} shapes", alike.len()) };
            _ = write!(
                out,
                "<li><a href=\"#found-{number}-{place}\">{}</a>, {shapes}, {word}</li>",
                alike[0].found.name.kind()
            );
            place += alike.len();
        }
        *out += "</ul></div>";
    }
    *out += "</nav>";
}

/// A verdict with its sign, so that colour is not needed.
fn marked(answer: &Verdict) -> String {
    let (class, sign) = match answer {
        Verdict::Holds => ("ok", "✓"),
        Verdict::Violated => ("bad", "✗"),
        Verdict::Unknown(_) => ("open", "?"),
    };
    format!("<b class=\"{class}\">{sign} {}</b>", verdict(answer))
}

/// The verdicts for required levels.
fn required(s: &Summary) -> String {
    let one =
        |(level, verdict): &(Level, Verdict)| format!("; required {}: {}", level.name(), marked(verdict));
    s.required.iter().map(one).collect()
}

fn times(class: &Class) -> String {
    if class.count == 1 { "once".to_owned() } else { format!("{} times", class.count) }
}

/// The flags that the statements depend on.
fn generation(shown: &Shown<'_>) -> String {
    let flags = shown.generation();
    let flag = |(name, value): (&String, &Value)| match value {
        Value::Null => None,
        Value::String(text) => Some(format!("--{name} {text}")),
        number => Some(format!("--{name} {number}")),
    };
    flags.as_object().into_iter().flatten().filter_map(flag).collect::<Vec<_>>().join(" ")
}

fn level(out: &mut String, s: &Summary, number: usize) {
    _ = write!(
        out,
        "<h2 id=\"level-{number}\">{}</h2><p>Judged as {} (Adya): {}{}. Documented: {}. {} {}, {} transactions committed, {} aborted.</p>",
        escape(s.isolation.name()),
        s.promise.adya.name(),
        marked(&s.verdict),
        required(s),
        escape(s.promise.documented.text()),
        s.rounds,
        if s.rounds == 1 { "round" } else { "rounds" },
        s.committed,
        s.aborted
    );
    if let Verdict::Unknown(why) = &s.verdict {
        _ = write!(out, "<p>Unknown: {}.</p>", escape(&anomalist_report::reason(why)));
    }
    for (kind, failures) in surprising(s) {
        _ = write!(out, "<p>{} {kind}, first: {}.</p>", failures.count, escape(&failures.first));
    }
    if let Some(error) = &s.ended {
        _ = write!(out, "<p>It {}: {}.</p>", early(error), escape(&error.to_string()));
    }
    if s.counts.is_empty() {
        *out += "<p>No anomalies.</p>";
        return;
    }
    *out += "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th>anomaly</th><th>code</th><th>count</th><th>shapes</th><th>Adya</th>\
             <th>vendor</th>";
    if !s.required.is_empty() {
        *out += "<th>required</th>";
    }
    *out += "</tr></thead><tbody>";
    for (name, count) in &s.counts {
        let shapes = s.classes.iter().filter(|c| c.found.name == *name).count();
        let word = |forbids: bool| match forbids {
            true => "<b class=\"bad\">forbids</b>",
            false => "allows",
        };
        let required = s.required.iter().any(|(level, _)| name.is_forbidden_by(*level));
        let required =
            if s.required.is_empty() { String::new() } else { format!("<td>{}</td>", word(required)) };
        _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{count}</td><td class=\"n\">{shapes}</td><td>{}</td><td>{}</td>{required}</tr>",
            name.kind(),
            name.code().code(),
            word(name.is_forbidden_by(s.promise.adya)),
            word(s.promise.documented.forbids(*name))
        );
    }
    *out += "</tbody></table></div>";
    let causes = causes(s);
    if !causes.is_empty() {
        *out += "<ul>";
        for (cause, count) in causes {
            let shapes = if count == 1 { "shape" } else { "shapes" };
            _ = write!(out, "<li>{count} {shapes}: {}</li>", escape(cause.text()));
        }
        *out += "</ul>";
    }
    let all = ranked(s);
    let mut place = 0;
    for alike in all.chunk_by(|a, b| a.found.name == b.found.name) {
        kind(out, s, alike, number, place);
        place += alike.len();
    }
}

/// The shapes of one kind of anomaly. Of those that are allowed most are folded.
fn kind(out: &mut String, s: &Summary, alike: &[&Class], number: usize, place: usize) {
    let shown = if is_forbidden(s, alike[0]) { alike.len() } else { alike.len().min(SHAPES) };
    for (i, class) in alike.iter().enumerate() {
        if i == shown {
            let (count, name) = (alike.len() - shown, alike[0].found.name.kind());
            let shapes = if count == 1 { "shape" } else { "shapes" };
            _ = write!(out, "<details class=\"more\"><summary>{count} more {shapes} of {name}</summary>");
        }
        details(out, s, class, &format!("{number}-{}", place + i), i == 0);
    }
    if shown < alike.len() {
        *out += "</details>";
    }
}

fn details(out: &mut String, s: &Summary, class: &Class, place: &str, first: bool) {
    let forbidden = is_forbidden(s, class);
    let mark = if forbidden { " class=\"forbidden\"" } else { "" };
    let open = if forbidden && first { " open" } else { "" };
    let picture = picture::of(class);
    _ = write!(
        out,
        "<details id=\"found-{place}\"{open}{mark}><summary>{}: {} ({}, round {}){}</summary>",
        class.found.name.kind(),
        escape(&class.found.shape),
        times(class),
        class.round,
        if forbidden { ", forbidden" } else { "" }
    );
    let code = class.found.name.code();
    _ = write!(out, "<p>{} at {}.", code.code(), escape(s.isolation.name()));
    if let Some(cause) = class.cause {
        _ = write!(out, " Root cause: {}.", escape(cause.text()));
    }
    *out += "</p>";
    if !picture.is_empty() {
        _ = write!(out, "<h3>Dependencies</h3><div class=\"wide\" tabindex=\"0\">{picture}</div>");
    }
    let (note, shortest) = match &class.shrunk {
        Some((script, seen)) => (format!("The script, shrunk; shown in {seen} of 10 replays"), script),
        None => ("The script, taken unchanged from the run, not replayed".to_owned(), &class.script),
    };
    _ = write!(out, "<h3>{note} <button type=\"button\" data-copies=\"script-{place}\">Copy</button></h3>");
    columns(out, shortest);
    _ = write!(
        out,
        "<details><summary>As a file</summary><pre id=\"script-{place}\">{}</pre></details>",
        escape(&script(class))
    );
    *out += "<details><summary>What was seen</summary><ul class=\"seen\">";
    class.transactions.iter().for_each(|t| seen(out, t));
    _ = write!(
        out,
        "</ul></details><details><summary>The tables of the round, at its start</summary><pre>{}</pre></details></details>",
        escape(&class.tables.join(";\n"))
    );
}

/// A script as a table: a column per session, a row per statement.
fn columns(out: &mut String, script: &Script) {
    let sessions = script.sessions();
    let setup = || escape(&script.setup.join(";\n"));
    match script.setup.len() {
        0 => {}
        1..=SETUP => _ = write!(out, "<pre>{};</pre>", setup()),
        n => {
            _ = write!(
                out,
                "<details><summary>Set-up: {n} statements</summary><pre>{};</pre></details>",
                setup()
            )
        }
    }
    *out += "<table class=\"script\"><thead><tr>";
    for session in 1..=sessions {
        _ = write!(out, "<th scope=\"col\">session {session}</th>");
    }
    *out += "</tr></thead><tbody>";
    for step in &script.steps {
        *out += "<tr>";
        for session in 1..=sessions {
            match session == step.session {
                true => _ = write!(out, "<td><pre>{};</pre></td>", escape(&step.text)),
                false => *out += "<td></td>",
            }
        }
        *out += "</tr>";
    }
    *out += "</tbody></table>";
}

/// A transaction: its statements in full width, and what each returned.
fn seen(out: &mut String, t: &Executed) {
    _ = write!(
        out,
        "<li><p><b>T{}</b>, session {}: {:?}{}</p>",
        t.id,
        t.session,
        t.outcome,
        reason(t.failed.as_ref())
    );
    for s in &t.steps {
        let rows: Vec<String> = s
            .visible
            .iter()
            .map(|r| r.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            .collect();
        let (mut versions, deleted) = s.versions();
        versions.extend(deleted.into_iter().map(|v| format!("deleted {v}")));
        let mut facts = Vec::new();
        if !rows.is_empty() {
            facts.push(format!("rows: {}", rows.join(" · ")));
        }
        if s.affected > 0 {
            facts.push(format!("affected: {}", s.affected));
        }
        if !versions.is_empty() {
            facts.push(format!("versions: {}", versions.join(" · ")));
        }
        if s.undone && s.failed.is_none() {
            facts.push("undone".to_owned());
        }
        _ = write!(
            out,
            "<pre>{}</pre><p class=\"dim\">{}{}</p>",
            escape(&s.text),
            escape(&facts.join("; ")),
            reason(s.failed.as_ref())
        );
    }
    *out += "</li>";
}

fn reason(failed: Option<&Failed>) -> String {
    failed.map_or(String::new(), |f| format!(" <span class=\"bad\">{}</span>", escape(&f.message)))
}
