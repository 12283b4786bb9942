//! What a run showed as a page: the tables of verdicts and, per anomaly, all that is known about it.

use super::picture;
use super::show::{Shown, causes, early, script, surprising, verdict};
use anomalist_level::Verdict;
use anomalist_sql::campaign::{Class, Summary};
use anomalist_sql::record::Failed;
use serde_json::Value;
use std::fmt::Write as _;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>anomalist sql</title><style>\
    :root{color-scheme:light dark;--line:#8886;--soft:#8881;--bad:#b3261e;--ok:#17713c;--node:#dfe6ff}\
    @media (prefers-color-scheme:dark){:root{--bad:#ff8f86;--ok:#7bd49a;--node:#33406b}}\
    body{font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em}\
    table{border-collapse:collapse;margin:.6em 0}\
    td,th{border:1px solid var(--line);padding:.25em .6em;text-align:left;vertical-align:top}\
    td.n{text-align:right}pre,code{font:13px/1.45 ui-monospace,monospace}\
    pre{background:var(--soft);padding:.8em;overflow:auto}.wide{overflow-x:auto}.wrap{overflow-wrap:anywhere}\
    .bad{color:var(--bad)}.ok{color:var(--ok)}.node{fill:var(--node);stroke:currentColor}\
    details{border:1px solid var(--line);border-radius:6px;margin:.6em 0;padding:.3em .8em}summary{cursor:pointer}\
    svg text{fill:currentColor;font:14px system-ui,sans-serif}\
    .label{paint-order:stroke;stroke:Canvas;stroke-width:5px}</style></head><body>\
    <svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs><marker id=\"head\" markerWidth=\"10\" \
    markerHeight=\"8\" refX=\"9\" refY=\"4\" orient=\"auto\"><path d=\"M0,0L10,4L0,8z\" fill=\"context-stroke\"/></marker></defs></svg>";

/// A page with everything.
pub fn html(shown: &Shown<'_>) -> String {
    let mut out = HEAD.to_owned();
    _ = write!(
        out,
        "<h1>{}</h1><p class=\"wrap\">{}, seed {} ({}), anomalist {}. Deleted rows are known from {}.</p>",
        escape(&shown.opened.product.to_string()),
        escape(&shown.opened.address()),
        shown.flags.seed,
        escape(&generation(shown)),
        env!("CARGO_PKG_VERSION"),
        escape(shown.opened.flavour.deletions_are_told_by())
    );
    for s in shown.summaries {
        level(&mut out, s);
    }
    out + "</body></html>\n"
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

fn level(out: &mut String, s: &Summary) {
    let class = if s.verdict == Verdict::Violated { "bad" } else { "ok" };
    _ = write!(
        out,
        "<h2>{}</h2><p>Judged as {} (Adya): <b class=\"{class}\">{}</b>. Documented: {}. {} rounds, {} transactions committed, {} aborted.</p>",
        escape(s.isolation.name()),
        s.promise.adya.name(),
        verdict(&s.verdict),
        escape(s.promise.documented.text()),
        s.rounds,
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
    *out += "<div class=\"wide\"><table><thead><tr><th>anomaly</th><th>code</th><th>count</th><th>shapes</th><th>Adya</th>\
             <th>vendor</th></tr></thead><tbody>";
    for (name, count) in &s.counts {
        let shapes = s.classes.iter().filter(|c| c.found.name == *name).count();
        let word = |forbids: bool| match forbids {
            true => "<b class=\"bad\">forbids</b>",
            false => "allows",
        };
        _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{count}</td><td class=\"n\">{shapes}</td><td>{}</td><td>{}</td></tr>",
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
    for class in &s.classes {
        details(out, s, class);
    }
}

fn details(out: &mut String, s: &Summary, class: &Class) {
    let note = match &class.shrunk {
        Some((_, seen)) => format!("The script, shrunk; shown in {seen} of 10 replays:"),
        None => "The script, taken unchanged from the run, not replayed:".to_owned(),
    };
    let open = if class.shrunk.is_some() { " open" } else { "" };
    _ = write!(
        out,
        "<details{open}><summary>{}: {} ({}, round {})</summary><div class=\"wide\">{}</div>",
        class.found.name.kind(),
        escape(&class.found.shape),
        if class.count == 1 { "once".to_owned() } else { format!("{} times", class.count) },
        class.round,
        picture::of(class)
    );
    let code = class.found.name.code();
    _ = write!(out, "<p>{} at {}.", code.code(), escape(s.isolation.name()));
    if let Some(cause) = class.cause {
        _ = write!(out, " Root cause: {}.", escape(cause.text()));
    }
    _ = write!(
        out,
        "</p><p>{note}</p><pre>{}</pre><p>What was seen:</p><div class=\"wide\"><table><thead><tr><th>transaction</th>\
         <th>session</th><th>statement</th><th>rows</th><th>affected</th><th>versions</th></tr></thead><tbody>",
        escape(&script(class))
    );
    for t in &class.transactions {
        for s in &t.steps {
            let rows: Vec<String> = s
                .visible
                .iter()
                .map(|r| r.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
                .collect();
            let (mut versions, deleted) = s.versions();
            versions.extend(deleted.into_iter().map(|v| format!("deleted {v}")));
            let mut failed = reason(s.failed.as_ref());
            if s.undone && s.failed.is_none() {
                failed += "<br><i>undone</i>";
            }
            _ = write!(
                out,
                "<tr><td>T{}</td><td>{}</td><td><code>{}</code>{failed}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                t.id,
                t.session,
                escape(&s.text),
                escape(&rows.join(" · ")),
                s.affected,
                escape(&versions.join(" · "))
            );
        }
        _ = write!(
            out,
            "<tr><td>T{}</td><td>{}</td><td><i>{:?}</i>{}</td><td></td><td></td><td></td></tr>",
            t.id,
            t.session,
            t.outcome,
            reason(t.failed.as_ref())
        );
    }
    _ = write!(
        out,
        "</tbody></table></div><p>The tables of the round, at its start:</p><pre>{}</pre></details>",
        escape(&class.tables.join(";\n"))
    );
}

fn reason(failed: Option<&Failed>) -> String {
    failed.map_or(String::new(), |f| format!("<br><span class=\"bad\">{}</span>", escape(&f.message)))
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
