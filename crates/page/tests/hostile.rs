//! Names from histories can neither break an output nor command what shows it.
//!
//! The same histories with harmless and with hostile names must give documents of the same structure: the
//! same tags of HTML, SVG and JUnit, the same events of a Markdown parser, the same statements of DOT, the
//! same shape of JSON, the same workflow commands; and no character that a reader cannot see.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{AtomKind, Builder, History, Indexed, OpKind, Outcome};
use anomalist_level::Level;
use anomalist_page::{Page, Run};
use anomalist_report::{Column, DOCUMENTS, HistoryFacts, Style, Subject};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::Value;

/// What others have broken programs with.
const HOSTILE: &[&str] = &[
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "\u{202e}evil\u{2066}",
    "a\u{2028}b\u{2029}c\u{85}d",
    "\n::error file=x::pwned",
    "::error::pwned ::set-output name=a::b",
    "##[error]pwned",
    "]]>",
    "</script><script>alert(1)</script>",
    "<!-- --> <img src=x onerror=alert(1)>",
    "| a | b |\n|---|",
    "``` \n# heading\n`code`",
    "[link](javascript:alert(1)) ![x](http://evil/x.png) http://evil www.evil.com",
    "\"; } subgraph x { y -> z; } \"",
    "\\\" \\N \\l",
    "&lt;b&gt; &#60; %0A%3A%3A",
    "{0} {{1}} [a](1)",
    "\u{0}\u{1}\u{8}\u{b}\u{c}\r\u{7f}\u{9f}\u{fffe}\u{feff}\u{200b}",
    "' onload='x' \" style=\"x\"",
    "* _ ~ $x$ <u> -- 1. + -",
];

/// An operation, its key and its value; or the end of a transaction: `.` or, if it aborts, `!`.
type Step = (char, usize, usize);

/// Histories with many anomalies. `name` gives the text of the n-th name.
fn histories(name: &dyn Fn(usize) -> String) -> Vec<History> {
    let scripts: [&[&[Step]]; 4] = [
        &[
            &[('w', 0, 1), ('.', 0, 0), ('w', 0, 2), ('w', 1, 1), ('.', 0, 0)],
            &[('r', 1, 1), ('r', 0, 1), ('.', 0, 0)],
        ],
        &[&[('r', 0, 0), ('w', 1, 1), ('.', 0, 0)], &[('r', 1, 0), ('w', 0, 1), ('.', 0, 0)]],
        &[&[('w', 0, 1), ('!', 0, 0)], &[('r', 0, 1), ('r', 1, 9), ('.', 0, 0)]],
        &[
            &[('r', 0, 0), ('w', 0, 1), ('.', 0, 0)],
            &[('r', 0, 0), ('w', 0, 2), ('.', 0, 0)],
            &[('r', 0, 1), ('.', 0, 0), ('r', 0, 2), ('.', 0, 0)],
        ],
    ];
    scripts.iter().map(|sessions| history(sessions, name)).collect()
}

fn history(sessions: &[&[Step]], name: &dyn Fn(usize) -> String) -> History {
    let mut b = Builder::new();
    let initial = b.atom(AtomKind::Text, &name(100));
    b.set_initial_default(Some(initial));
    let mut line = 0;
    for (s, ops) in sessions.iter().enumerate() {
        let label = b.atom(AtomKind::Text, &name(200 + s));
        let session = b.session(label);
        let mut open = None;
        for &(what, key, value) in *ops {
            let t = *open.get_or_insert_with(|| {
                line += 1;
                let t = b.transaction(session);
                b.set_line(t, line);
                let label = b.atom(AtomKind::Text, &name(300 + line as usize));
                b.set_label(t, label);
                t
            });
            match what {
                '.' => open = None,
                '!' => {
                    b.set_outcome(t, Outcome::Aborted);
                    open = None;
                }
                what => {
                    let kind = if what == 'r' { OpKind::Read } else { OpKind::Write };
                    let key = b.atom(AtomKind::Text, &name(400 + key));
                    let key = b.key(key);
                    let value = b.atom(AtomKind::Text, &name(100 + value));
                    b.op(t, kind, key, value);
                }
            }
        }
    }
    b.finish().unwrap()
}

/// Every output about these histories, by name.
fn outputs(histories: &[History], path: &str, required: &[Level]) -> Vec<(String, String)> {
    let judged: Vec<_> = histories
        .iter()
        .map(|history| {
            let indexed = Indexed::new(history, 1.try_into().unwrap());
            let mut judgement = check(&indexed, &Request::default(), &Budget::unlimited());
            judgement.notes.push(format!("a note about {path}"));
            (HistoryFacts::of(history, path, "anomalist"), judgement)
        })
        .collect();
    let subjects: Vec<Subject<'_>> = histories
        .iter()
        .zip(&judged)
        .map(|(history, (facts, judgement))| Subject {
            history,
            facts,
            judgement,
            timing: None,
            required,
            declared: false,
            stopped: false,
        })
        .collect();
    let mut all: Vec<(String, String)> =
        DOCUMENTS.iter().map(|d| (d.name.to_owned(), (d.write)(&subjects))).collect();
    let runs = subjects.iter().map(Run::of).collect();
    let page = anomalist_page::html(&Page { title: path.to_owned(), command: None, next: None, runs });
    // The script is the same in each page, and the data is encoded.
    let readable = page.split_once("<script").map_or("", |(readable, _)| readable);
    let columns: Vec<Column<'_>> =
        subjects.iter().map(|s| Column { head: &s.facts.path, judgement: s.judgement }).collect();
    let wide = Style { width: 60, verbose: 1, lanes: true, ..Style::default() };
    all.extend([
        ("html".to_owned(), readable.to_owned()),
        ("github".to_owned(), anomalist_report::github(&subjects)),
        ("json".to_owned(), anomalist_report::json_text(&subjects)),
        ("step.markdown".to_owned(), anomalist_report::step_summary(&subjects)),
        ("one.markdown".to_owned(), anomalist_report::step_summary(&subjects[..1])),
        ("matrix.markdown".to_owned(), anomalist_report::matrix_markdown(&columns)),
        ("matrix.text".to_owned(), anomalist_report::matrix_text(&columns, &wide)),
        ("summary.text".to_owned(), anomalist_report::summary_table(&subjects, &wide)),
    ]);
    for (i, s) in subjects.iter().enumerate() {
        all.push((format!("{i}.text"), anomalist_report::text(s, &wide)));
        all.push((format!("{i}.list.text"), anomalist_report::text(s, &Style { lanes: false, ..wide })));
        all.push((format!("{i}.ladder.html"), anomalist_report::ladder_html(s)));
        for a in &s.judgement.anomalies {
            all.push((format!("{i}.{}.svg", a.kind), anomalist_report::svg(s.history, a)));
            all.push((format!("{i}.{}.dot", a.kind), anomalist_report::dot(s.history, a)));
        }
    }
    all
}

/// A character that a reader cannot see, or that moves others.
fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n'
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// What a document consists of besides the names in it.
fn structure(name: &str, text: &str) -> Vec<String> {
    match name.rsplit_once('.').map_or(name, |(_, ending)| ending) {
        "html" | "svg" | "junit" => tags(text),
        "markdown" => markdown(text),
        "dot" => statements(text),
        "json" | "sarif" | "gitlab" => {
            let mut shape = Vec::new();
            shapes(&serde_json::from_str(text).unwrap(), "", &mut shape);
            shape
        }
        "github" => text.lines().map(|line| line.split([' ', ',']).next().unwrap().to_owned()).collect(),
        // Lines are broken where names end, so only what no line may be is looked for.
        "text" => Vec::new(),
        other => panic!("a new kind of output, {other}: say what its structure is"),
    }
}

/// Tags with the names of their attributes. What is between quotes is no markup.
fn tags(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let mut quote = None;
        let end = rest.char_indices().find(|&(_, c)| match (quote, c) {
            (None, '"' | '\'') => {
                quote = Some(c);
                false
            }
            (Some(q), c) if q == c => {
                quote = None;
                false
            }
            (None, '>') => true,
            _ => false,
        });
        let (end, _) = end.unwrap_or_else(|| panic!("a tag without an end: {rest}"));
        let mut inside = false;
        let names: String = rest[..end]
            .chars()
            .filter(|&c| {
                let shown = !inside && c != '"';
                inside ^= c == '"';
                shown
            })
            .collect();
        found.push(names);
        rest = &rest[end + 1..];
    }
    found
}

/// The events of a parser with GitHub's extensions, without texts. Links and raw HTML are there by name.
fn markdown(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let github = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_MATH
        | Options::ENABLE_GFM;
    let mut code = false;
    for event in Parser::new_ext(text, github) {
        match event {
            // GitHub makes links of bare addresses, which CommonMark does not. An escape splits a text.
            Event::Text(text) if !code => {
                let is_link = |word: &str| ["http://", "www."].iter().any(|start| word.contains(start));
                found.extend(is_link(&text).then(|| format!("a bare link: {text}")));
            }
            Event::Text(_) | Event::SoftBreak => {}
            Event::Start(Tag::CodeBlock(_)) => code = true,
            Event::End(TagEnd::CodeBlock) => {
                code = false;
                found.push("code".to_owned());
            }
            Event::Start(tag) => found.push(format!("{tag:?}")),
            other => found.push(format!("{other:?}").chars().take(60).collect()),
        }
    }
    found
}

/// DOT without the contents of strings.
fn statements(text: &str) -> Vec<String> {
    let (mut out, mut inside, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        match (inside, escaped, c) {
            (true, false, '\\') => {
                escaped = true;
                continue;
            }
            (_, false, '"') => inside = !inside,
            (true, ..) => {}
            (false, _, c) => out.push(c),
        }
        escaped = false;
    }
    assert!(!inside, "a string without an end: {text}");
    out.lines().map(str::to_owned).collect()
}

fn shapes(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(k, v)| shapes(v, &format!("{at}.{k}"), found)),
        Value::Array(items) => items.iter().for_each(|v| shapes(v, &format!("{at}[]"), found)),
        _ => found.push(at.to_owned()),
    }
}

#[test]
fn names_change_no_structure() {
    let harmless = |n: usize| format!("name{n}");
    for required in [&[][..], &[Level::Serializable, Level::StrictSerializable]] {
        let plain = outputs(&histories(&harmless), "harmless", required);
        for (i, hostile) in HOSTILE.iter().enumerate() {
            let names = |n: usize| format!("{}{n}", HOSTILE[(i + n / 100) % HOSTILE.len()]);
            let all = outputs(&histories(&names), hostile, required);
            assert_eq!(all.len(), plain.len(), "{hostile:?}");
            for ((name, text), (_, model)) in all.iter().zip(&plain) {
                assert_eq!(structure(name, text), structure(name, model), "{name} with {hostile:?}\n{text}");
                let data = ["json", "gitlab"].contains(&name.as_str());
                let hidden = text.chars().find(|&c| is_hidden(c) && !data);
                assert_eq!(hidden, None, "{name} with {hostile:?}\n{text}");
                for line in text.lines().filter(|_| name.ends_with("text")) {
                    let obeyed = line.trim_start().starts_with("::") || line.contains("##[");
                    assert!(!obeyed, "{name}: a line that GitHub would obey: {line}");
                }
            }
        }
    }
}

/// The comparison finds what it is there to find.
#[test]
fn a_structure_that_changes_is_seen() {
    assert_ne!(structure("html", "<p>a</p>"), structure("html", "<p><b>a</b></p>"));
    assert_ne!(structure("svg", "<p x=\"a\"/>"), structure("svg", "<p x=\"a\" y=\"\"/>"));
    assert_ne!(structure("markdown", "| a |\n|---|\n| b |"), structure("markdown", "| a |\n|---|\n| `b` |"));
    assert_ne!(structure("markdown", "a"), structure("markdown", "a http://b"));
    assert_ne!(structure("dot", "x [label=\"a\"]"), structure("dot", "x [label=\"a\"; y=\"\"]"));
    assert_ne!(structure("github", "::error a"), structure("github", "::error a\n::error b"));
    assert_ne!(structure("json", "{\"a\":1}"), structure("json", "{\"a\":{\"b\":1}}"));
}
