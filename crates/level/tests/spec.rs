//! The generated parts of `docs/spec/levels.md` and `docs/spec/anomalies.md` are those of the tables.
//!
//! `ANOMALIST_UPDATE=1 cargo test -p anomalist-level --test spec` writes them again.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_level::{AnomalyKind, Family, Level};
use std::fmt::Write;
use std::path::Path;

const BEGIN: &str = "<!-- begin generated -->\n";
const END: &str = "<!-- end generated -->\n";

/// Compares the generated part of a page with what it should be, or writes it.
fn page_is_true(page: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec").join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let wanted = format!("{before}{BEGIN}\n{}\n\n{END}{after}", generated.trim_end());
    if std::env::var_os("ANOMALIST_UPDATE").is_some() {
        std::fs::write(&path, wanted).unwrap();
    } else {
        assert!(
            text == wanted,
            "docs/spec/{page} is out of date; ANOMALIST_UPDATE=1 cargo test -p anomalist-level --test spec"
        );
    }
}

/// What is not about transactions, so that there is nothing to draw: Elle's notices about its own search.
const WITHOUT_PICTURE: &[AnomalyKind] =
    &[AnomalyKind::EmptyTransactionGraph, AnomalyKind::CycleSearchTimeout];

/// Names that nothing reports, with the kind by timestamps that is the same: an update that began before the
/// one it depends on had ended is interference, a version missed although its writer had ended before is a
/// cycle of one rw edge and the order of starts.
const SAME_BY_STAMPS: &[(AnomalyKind, AnomalyKind)] = &[
    (AnomalyKind::GSi, AnomalyKind::NoConflictStamp),
    (AnomalyKind::Gsia, AnomalyKind::NoConflictStamp),
    (AnomalyKind::GSib, AnomalyKind::ExtStamp),
];

/// Whether there is a drawing of this name: crates/report/tests/book.rs makes them.
fn drawn(name: &str) -> Option<String> {
    let file = format!("pictures/{}.svg", name.replace(':', "-"));
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec").join(&file).exists().then_some(file)
}

/// The drawing of a kind: its own, or that of a kind that is one of its instances, or that of the level of
/// which it says that no order satisfies it.
fn picture_of_kind(kind: AnomalyKind) -> Option<String> {
    let instances = || AnomalyKind::ALL.iter().filter(move |other| other.implies(kind));
    let own = drawn(kind.name()).or_else(|| instances().find_map(|other| drawn(other.name())));
    let of_level = |level: &&Level| kind.is_no_order() && level.info().forbids.contains(&kind);
    let shows = |level: &Level| {
        let cycles = || level.info().forbids.iter().filter(|k| !k.is_no_order());
        drawn(&format!("level-{level}")).or_else(|| cycles().find_map(|k| picture_of_kind(*k)))
    };
    let level = || Level::ALL.iter().filter(of_level).find_map(shows);
    own.or_else(level)
}

/// The drawing of a level: its own, or that of an anomaly that it forbids.
fn picture_of_level(level: Level) -> Option<String> {
    let forbidden = || level.info().forbids.iter().find_map(|kind| picture_of_kind(*kind));
    drawn(&format!("level-{level}"))
        .or_else(forbidden)
        .or_else(|| level.info().implies.iter().find_map(|weaker| picture_of_level(*weaker)))
}

/// Words in lines of at most 106 characters.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 106 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

fn listed(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// How the level is defined, by the section of `docs/spec/levels.md`.
fn family(level: Level) -> &'static str {
    match level.family() {
        Some(Family::Flow | Family::Writes) => "dependencies (5)",
        Some(Family::Cut) => "cut (2)",
        Some(Family::Visible(_)) => "axiom (2)",
        Some(Family::Prefix | Family::Parallel | Family::Snapshot) => "snapshot (3)",
        Some(Family::Updates | Family::Serial) => "serial (4)",
        None if level.info().name_only => "*name*",
        None => "*Elle*",
    }
}

#[test]
fn the_table_of_levels_is_generated() {
    let mut page = String::from(
        "| level | aliases | family (section) | sessions | real time | implies directly |\n\
         |---|---|---|---|---|---|\n",
    );
    let yes = |set: bool| if set { "yes" } else { "" };
    for level in Level::ALL.iter().copied() {
        let info = level.info();
        assert!(!level.is_canonical() || !family(level).starts_with('*'), "{level} has no family");
        writeln!(
            page,
            "| `{level}` | {} | {} | {} | {} | {} |",
            listed(info.aliases),
            family(level),
            yes(info.session_order),
            yes(info.real_time),
            listed(info.implies.iter().map(|l| l.name())),
        )
        .unwrap();
    }
    for level in Level::ALL.iter().copied().filter(|level| !level.info().name_only) {
        let info = level.info();
        let mut text = format!("**`{level}`**: {} *Source:* {}.", info.definition, info.source);
        if let Some(name) = info.elle_name {
            write!(text, " *In Elle:* `{name}`.").unwrap();
        }
        if let Some(difference) = info.in_plume {
            write!(text, " *In Plume:* {difference}.").unwrap();
        }
        for (what, example) in [("Satisfied", info.example_accepts), ("Violated", info.example_rejects)] {
            if let Some(example) = example {
                write!(text, " *{what} by* `{example}`.").unwrap();
            }
        }
        write!(page, "\n<a id=\"{level}\"></a>\n{}\n", wrapped(&text)).unwrap();
        let picture = picture_of_level(level).unwrap_or_else(|| panic!("{level} has no drawing"));
        write!(page, "\n![what {level} forbids]({picture})\n").unwrap();
    }
    page_is_true("levels.md", &page);
}

#[test]
fn the_table_of_anomalies_is_generated() {
    let mut page = String::from("| kind | code | everyday name | rules out |\n|---|---|---|---|\n");
    for kind in AnomalyKind::ALL.iter().copied() {
        let out = listed(kind.rules_out().iter().map(|l| l.name()));
        writeln!(page, "| `{kind}` | {} | {} | {out} |", kind.code(), kind.info().everyday).unwrap();
    }
    let mut missing = Vec::new();
    for kind in AnomalyKind::ALL.iter().copied() {
        let info = kind.info();
        let mut text = format!("**`{kind}`**: {}", info.definition);
        let mut add = |what: &str, content: &str| {
            if !content.is_empty() {
                write!(text, " *{what}:* {content}.").unwrap();
            }
        };
        add("One instance", info.instance);
        add("Source", info.source);
        add("Implies directly", &listed(info.implies.iter().map(|k| k.name())));
        add("In Plume", info.in_plume.unwrap_or_default());
        if let Some(example) = info.example {
            add("Example", &format!("`{example}`"));
        }
        let twin = SAME_BY_STAMPS.iter().find(|(name, _)| *name == kind).map(|(_, twin)| *twin);
        if let Some(twin) = twin {
            write!(text, " *Drawn by timestamps:* `{twin}`.").unwrap();
        }
        if WITHOUT_PICTURE.contains(&kind) {
            text.push_str(" *No drawing:* it says something about the search, not about transactions.");
        }
        write!(page, "\n<a id=\"{kind}\"></a>\n{}\n", wrapped(&text)).unwrap();
        match picture_of_kind(kind).or_else(|| picture_of_kind(twin?)) {
            Some(picture) => {
                assert!(!WITHOUT_PICTURE.contains(&kind), "{kind} has a drawing");
                write!(page, "\n![{kind}]({picture})\n").unwrap();
            }
            None if WITHOUT_PICTURE.contains(&kind) => {}
            None => missing.push(kind),
        }
    }
    assert_eq!(missing, [], "no drawing");
    page_is_true("anomalies.md", &page);
}
