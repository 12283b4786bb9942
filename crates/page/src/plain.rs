//! The page as text, for readers without JavaScript and for paper: verdicts, levels, and each example with
//! its sentences.

use crate::{Page, Run};
use anomalist_report::escape::xml as escaped;
use serde_json::Value;
use std::fmt::Write;

/// The runs, one after another.
pub(crate) fn text(page: &Page<'_>) -> String {
    let mut out = String::from("<main class=\"plain\">\n");
    for run in &page.runs {
        section(&mut out, run, page.runs.len() > 1);
    }
    if let Some(command) = &page.command {
        let _ = writeln!(out, "<p>Made by <code>{}</code>.</p>", escaped(command));
    }
    out + "</main>\n"
}

fn section(out: &mut String, run: &Run<'_>, several: bool) {
    let facts = &run.result["history"];
    let number = |name: &str| facts[name].as_u64().unwrap_or(0);
    if several {
        let _ = writeln!(out, "<h2>{}</h2>", escaped(&run.name));
    }
    let tag = if several { "h3" } else { "h1" };
    let _ = writeln!(out, "<{tag}>{}</{tag}>", escaped(&run.verdicts.sentence));
    for line in run.about.lines() {
        let _ = writeln!(out, "<p>{}</p>", escaped(line.trim()));
    }
    let _ = writeln!(
        out,
        "<p>{} ({}): {} sessions, {} transactions ({} aborted, {} of unknown outcome), {} operations, {} keys.</p>",
        escaped(facts["path"].as_str().unwrap_or_default()),
        escaped(facts["format"].as_str().unwrap_or_default()),
        number("sessions"),
        number("transactions"),
        number("aborted"),
        number("indeterminate"),
        number("operations"),
        number("keys"),
    );
    matrix(out, run);
    for anomaly in run.result["anomalies"].as_array().into_iter().flatten() {
        example(out, anomaly);
    }
    for unseen in &run.unseen {
        let _ =
            writeln!(out, "<p>Could not have been seen: {} {}</p>", escaped(&unseen.message), unseen.advice);
    }
    for sought in run.result["sought"].as_array().into_iter().flatten() {
        let word = |name: &str| sought[name].as_str().unwrap_or_default();
        let _ = writeln!(out, "<p>Asked for {}: {}.</p>", escaped(word("code")), escaped(word("answer")));
    }
    if let Some(verdict) = run.result["mixed"]["verdict"].as_str() {
        let why = run.result["mixed"]["explanation"].as_str().unwrap_or_default();
        let _ = writeln!(
            out,
            "<p>Each transaction at the level it declares: {}. {}</p>",
            escaped(verdict),
            escaped(why)
        );
    }
    for note in run.result["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "<p>Note: {}</p>", escaped(note));
    }
}

fn matrix(out: &mut String, run: &Run<'_>) {
    out.push_str("<table><thead><tr><th scope=\"col\">level</th>");
    for column in &run.verdicts.columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(column));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &run.verdicts.rows {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(&row.name));
        for cell in &row.cells {
            let Some(cell) = cell else {
                out.push_str("<td></td>");
                continue;
            };
            let named: Vec<String> = cell.anomalies.iter().map(|(name, n)| format!("{name} ×{n}")).collect();
            let because = cell.reason.clone().unwrap_or_else(|| named.join(", "));
            let because = if because.is_empty() { because } else { format!(": {because}") };
            let required = if cell.required { " (required)" } else { "" };
            let _ = write!(out, "<td>{}{required}{}</td>", cell.verdict, escaped(&because));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
}

fn example(out: &mut String, anomaly: &Value) {
    let text = |name: &str| anomaly[name].as_str().unwrap_or_default();
    let title = if text("title").is_empty() { String::new() } else { format!(": {}", text("title")) };
    let count = anomaly["count"].as_u64().unwrap_or(0);
    let _ = writeln!(
        out,
        "<article><h3>{} ({}){}, {count} found</h3>",
        escaped(text("kind")),
        escaped(text("code")),
        escaped(&title)
    );
    if !text("same_as").is_empty() {
        let _ = writeln!(out, "<p>The same example as {}.</p></article>", escaped(text("same_as")));
        return;
    }
    out.push_str("<ul class=\"who\">\n");
    for t in anomaly["witness"]["transactions"].as_array().into_iter().flatten() {
        let operations = t["operations"].as_array().into_iter().flatten();
        let shown: Vec<&str> = operations.filter_map(|op| op["shown"].as_str()).collect();
        let (alias, deeds) = (t["alias"].as_str().unwrap_or_default(), shown.join(" "));
        let _ = writeln!(out, "<li>{} {}</li>", escaped(alias), escaped(&deeds));
    }
    let _ = writeln!(out, "</ul>\n<p class=\"why\">{}</p></article>", escaped(text("explanation")));
}
