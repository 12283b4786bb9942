//! The report as a page to explore: one HTML file with everything in it, no network, no server.
//!
//! A page is made of [`Run`]s: what `anomalist check --json` says about a history, and the history itself
//! where there is one. Everything that the page says comes from that document (sentences, names, counts),
//! so that text, JSON, pictures and page agree. The history is embedded in compressed columns
//! (`columns.rs`), and the script draws only the visible part of it, so that a page of a million
//! transactions opens. Without JavaScript, and on paper, the page is readable text (`plain.rs`).
//!
//! Script and style are files of their own in `assets`, joined here. The content-security policy allows
//! exactly these two, by their hashes, and nothing else: no request, no inline handler. Same input, same
//! bytes.
//!
//! ```
//! use anomalist_page::{Page, Run, html};
//! use serde_json::json;
//! // A result without its history.
//! let result = json!({
//!     "anomalist": "0.1.0", "schema": 2, "outcome": "holds", "levels": [], "anomalies": [],
//!     "history": {"path": "<h>.txt", "format": "plume", "sessions": 1, "transactions": 2, "aborted": 0,
//!                 "indeterminate": 0, "operations": 3, "keys": 1}
//! });
//! let run = Run::of_result(result, None)?;
//! let title = "a <title>".to_owned();
//! let page = html(&Page { title, command: None, next: None, runs: vec![run] });
//! assert!(page.starts_with("<!doctype html>") && page.contains("<title>a &lt;title&gt;</title>"));
//! # Ok::<(), anomalist_page::NoResult>(())
//! ```

mod axis;
mod columns;
mod data;
mod marks;
mod pick;
mod plain;
mod varint;
mod verdicts;

#[cfg(test)]
mod tests;

pub use verdicts::NoResult;

use anomalist_history::{History, TxnId};
use anomalist_report::Subject;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use verdicts::Verdicts;

const STYLE: &str = include_str!("assets/style.css");

/// The script, in this order: a part uses what is before it when it is loaded, and anything when it runs.
const SCRIPTS: [&str; 14] = [
    "\"use strict\";\n(() => {\n",
    include_str!("assets/data.js"),
    include_str!("assets/dom.js"),
    include_str!("assets/state.js"),
    include_str!("assets/panels.js"),
    include_str!("assets/arrows.js"),
    include_str!("assets/example.js"),
    include_str!("assets/timeline.js"),
    include_str!("assets/overlay.js"),
    include_str!("assets/minimap.js"),
    include_str!("assets/detail.js"),
    include_str!("assets/find.js"),
    include_str!("assets/export.js"),
    include_str!("assets/main.js"),
];

/// A page.
#[derive(Debug)]
pub struct Page<'a> {
    /// Its title.
    pub title: String,
    /// The command line that made it.
    pub command: Option<String>,
    /// A command to continue with; `{level}` and `{path}` in it stand for a violated level and the history.
    pub next: Option<&'static str>,
    /// What it is about, at least one.
    pub runs: Vec<Run<'a>>,
}

/// A history and what was found out about it.
#[derive(Debug)]
pub struct Run<'a> {
    /// What to call it, where there are several.
    pub name: String,
    /// Where it comes from, in lines of plain text; may be empty.
    pub about: String,
    /// What the history could not have shown.
    pub unseen: Vec<Unseen>,
    history: Option<&'a History>,
    result: Value,
    verdicts: Verdicts,
    pictures: Vec<Picture>,
    /// Per anomaly, the transactions that its instances are seen in.
    instances: Vec<Vec<TxnId>>,
}

/// Something that a history could not have shown, whatever the database did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Its name, for scripts.
    pub code: &'static str,
    /// What is missing, as a sentence.
    pub message: String,
    /// What to do about it.
    pub advice: &'static str,
}

/// The example of an anomaly as documents for other programs.
#[derive(Debug)]
struct Picture {
    svg: String,
    dot: String,
}

impl<'a> Run<'a> {
    /// A history that was just judged.
    pub fn of(subject: &Subject<'a>) -> Run<'a> {
        let picture = |anomaly| Picture {
            svg: anomalist_report::svg(subject.history, anomaly),
            dot: anomalist_report::dot(subject.history, anomaly),
        };
        Run {
            name: subject.facts.path.clone(),
            about: String::new(),
            unseen: Vec::new(),
            history: Some(subject.history),
            result: anomalist_report::json(std::slice::from_ref(subject)),
            verdicts: Verdicts::of(subject),
            pictures: subject.judgement.anomalies.iter().map(picture).collect(),
            instances: subject.judgement.anomalies.iter().map(|a| a.places.clone()).collect(),
        }
    }

    /// A result that was kept, with its history if that is at hand. Pictures for other programs are then
    /// left out: they are drawn from the judgement, which a result does not contain.
    pub fn of_result(result: Value, history: Option<&'a History>) -> Result<Run<'a>, NoResult> {
        let verdicts = Verdicts::of_result(&result)?;
        let name = result["history"]["path"].as_str().unwrap_or_default().to_owned();
        let (about, unseen, pictures) = (String::new(), Vec::new(), Vec::new());
        let instances = history.map_or_else(Vec::new, |history| marks::named(history, &result));
        Ok(Run { name, about, unseen, history, result, verdicts, pictures, instances })
    }
}

/// What stands on top of the page about a kept result: `sentence`, `outcome`, and the matrix of levels as
/// `columns` and `rows`.
///
/// ```
/// use serde_json::json;
/// let history = json!({"path": "h", "format": "plume", "sessions": 1, "transactions": 1, "aborted": 0,
///                      "indeterminate": 0, "operations": 1, "keys": 1});
/// let level = json!({"level": "causal", "verdict": "holds", "by": "values", "anomalies": []});
/// let top = anomalist_page::top(&json!({"history": history, "levels": [level], "anomalies": []}))?;
/// assert_eq!(top["rows"][0]["name"], "causal");
/// # Ok::<(), anomalist_page::NoResult>(())
/// ```
pub fn top(result: &Value) -> Result<Value, NoResult> {
    let verdicts = Verdicts::of_result(result)?;
    let mut top = verdicts.rows();
    top["sentence"] = verdicts.sentence.into();
    top["outcome"] = verdicts.outcome.into();
    Ok(top)
}

/// The page as HTML.
pub fn html(page: &Page<'_>) -> String {
    let body = format!(
        "<div id=\"app\"></div>\n{}<script type=\"application/octet-stream\" id=\"data\">{}</script>\n",
        plain::text(page),
        data::encoded(page)
    );
    shell(&page.title, STYLE, &body, &format!("{}}})();\n", SCRIPTS.concat()))
}

/// A document with one style and one script, whose content-security policy allows nothing else: no request,
/// no other script, no handler in an attribute. `body` is HTML, in which everything recorded is escaped.
pub fn shell(title: &str, style: &str, body: &str, script: &str) -> String {
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data: blob:; base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}<script>{script}</script>\n</body>\n</html>\n",
        anomalist_report::escape::xml(title)
    )
}

/// The source by which a content-security policy allows exactly this text.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}
