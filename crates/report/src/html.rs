//! The answer as a page: one file, no scripts, nothing from the network.
//!
//! The same three parts as the text: what the history is, a verdict per level, an example of each anomaly;
//! here with its picture.

use crate::ci::xml;
use crate::layout::{pluralise, thousands, times};
use crate::text::{conclusion, mixed_text};
use crate::{Style, Subject, everyday, example_text, reason, svg, titled};
use anomalist_level::{Anomaly, Verdict};
use std::fmt::Write;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
     table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #bbb;padding:.25em .6em;text-align:left;vertical-align:top}\
     pre{background:#f5f5f2;padding:.8em;overflow:auto}.violated{color:#a11;font-weight:bold}.holds{color:#174}.unknown{color:#850}\
     .wide{overflow-x:auto}svg{background:#fff;border:1px solid #ddd}summary{cursor:pointer;margin:.5em 0}";

/// A page about these histories. `about` says where each comes from, in a paragraph of plain text.
///
/// ```
/// let page = anomalist_report::html("a <title>", &[]);
/// assert!(page.starts_with("<!doctype html>") && page.contains("a &lt;title&gt;"));
/// ```
pub fn html(title: &str, subjects: &[(&str, Subject<'_>)]) -> String {
    let title = xml(title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title><style>{STYLE}</style>\n<h1>{title}</h1>\n"
    );
    for (about, subject) in subjects {
        section(&mut out, about, subject);
    }
    out
}

fn section(out: &mut String, about: &str, subject: &Subject<'_>) {
    let (facts, judgement) = (subject.facts, subject.judgement);
    let (name, details) = about.split_once('\n').unwrap_or((about, ""));
    let _ = writeln!(out, "<h2>{}</h2>", xml(name.trim_end_matches(':')));
    if !details.trim().is_empty() {
        let _ = writeln!(out, "<p>{}</p>", xml(details.trim_end()).replace('\n', "<br>"));
    }
    let _ = writeln!(
        out,
        "<p>{}, {} ({} aborted, {} of unknown outcome), {}, {}; {} ({})</p>",
        pluralise(facts.sessions, "session"),
        pluralise(facts.transactions, "transaction"),
        thousands(facts.aborted),
        thousands(facts.indeterminate),
        pluralise(facts.operations, "operation"),
        pluralise(facts.keys, "key"),
        xml(&facts.path),
        xml(&facts.format),
    );
    out.push_str("<table><tr><th>level<th>verdict<th>because\n");
    for row in &judgement.levels {
        let because = match &row.verdict {
            Verdict::Unknown(why) => xml(&reason(why)),
            _ => row.anomalies.iter().map(|kind| xml(&titled(*kind))).collect::<Vec<_>>().join(", "),
        };
        let (name, word) = (subject.row_name(row), row.verdict.name());
        let required = if subject.required.contains(&row.level) { " (required)" } else { "" };
        let _ = writeln!(out, "<tr><td>{name}{required}<td class={word}>{word}<td>{because}");
    }
    out.push_str("</table>\n");
    let conclusion = conclusion(subject, &Style { width: usize::MAX, ..Style::default() });
    if !conclusion.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", xml(conclusion.trim_end()).replace('\n', "<br>"));
    }
    for anomaly in &judgement.anomalies {
        example(out, subject, anomaly);
        for another in judgement.further.iter().filter(|a| a.kind == anomaly.kind) {
            example(out, subject, another);
        }
    }
    if let Some(mixed) = &judgement.mixed {
        let text = mixed_text(subject, mixed, &Style::default());
        let _ = writeln!(out, "<pre>{}</pre>", xml(&text));
    }
    for note in &judgement.notes {
        let _ = writeln!(out, "<p>Note: {}</p>", xml(note));
    }
}

fn example(out: &mut String, subject: &Subject<'_>, anomaly: &Anomaly) {
    let open = if subject.fails(anomaly) { " open" } else { "" };
    let title = match everyday(subject.history, anomaly) {
        "" => titled(anomaly.kind),
        name => format!("{}: {name}", titled(anomaly.kind)),
    };
    if let Some(twin) = subject.twin(anomaly) {
        let (count, as_twin) = (times(anomaly.count), xml(&titled(twin.kind)));
        let _ = writeln!(out, "<p>{}, {count}: as {as_twin}, above.</p>", xml(&title));
        return;
    }
    let _ = writeln!(
        out,
        "<details{open}><summary>{}, {}</summary>\n<div class=\"wide\">{}</div>\n<pre>{}</pre></details>",
        xml(&title),
        times(anomaly.count),
        svg(subject.history, anomaly),
        xml(&example_text(subject, anomaly, &Style::default()))
    );
}
