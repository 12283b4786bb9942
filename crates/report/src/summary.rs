//! Many histories at a glance: the strongest level of each, and Plume's table of anomalies (its Table 4):
//! how many instances of each kind, in how many histories.

use crate::layout::{Style, Tone, padded, tail, thousands, width, wrap};
use crate::{Subject, titled};
use anomalist_level::{AnomalyKind, Level, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The least room for levels.
const NARROWEST: usize = 24;

/// A line per history, or more where its levels need them, then one line per kind of anomaly.
pub fn summary_table(subjects: &[Subject<'_>], style: &Style) -> String {
    let columns = style.columns();
    let paths: Vec<String> =
        subjects.iter().map(|s| anomalist_history::inert(&s.facts.path).into_owned()).collect();
    let first =
        paths.iter().map(|p| width(p)).max().unwrap_or(0).max(7).min(columns.saturating_sub(42).max(7));
    let some = subjects.iter().map(Subject::scope).find(|scope| *scope != "all levels");
    let title =
        some.map_or("strongest level that holds".to_owned(), |scope| format!("strongest of the {scope}"));
    let mut out = format!("{}  {:>12}  {title}\n", padded("history", first), "transactions");
    for (s, path) in subjects.iter().zip(&paths) {
        let (answer, tone) = answer(s);
        let start =
            format!("{}  {:>12}  ", padded(&tail(path, first), first), thousands(s.facts.transactions));
        // Levels that do not fit continue below; a column too narrow for any name has the whole line.
        let indent = width(&start);
        let room = columns.max(indent + NARROWEST);
        for (i, line) in wrap("", 0, room - indent, &answer).lines().enumerate() {
            let start = if i == 0 { start.clone() } else { " ".repeat(indent) };
            let _ = writeln!(out, "{start}{}", style.paint(tone, line));
        }
    }
    let mut kinds: BTreeMap<AnomalyKind, (u64, u64)> = BTreeMap::new();
    for anomaly in subjects.iter().flat_map(|s| &s.judgement.anomalies) {
        let entry = kinds.entry(anomaly.kind).or_default();
        entry.0 += anomaly.count;
        entry.1 += 1;
    }
    if kinds.is_empty() {
        let _ = write!(out, "\nno anomaly in {}\n", counted_histories(subjects.len() as u64));
        return out;
    }
    let first = kinds.keys().map(|&k| width(&titled(k))).max().unwrap_or(0);
    let _ = write!(out, "\n{}  {:>12}  {:>9}\n", padded("anomaly", first), "instances", "histories");
    for (kind, (instances, histories)) in &kinds {
        let name = padded(&titled(*kind), first);
        let _ = writeln!(out, "{name}  {:>12}  {:>9}", thousands(*instances), thousands(*histories));
    }
    let bad = subjects.iter().filter(|s| !s.judgement.anomalies.is_empty()).count() as u64;
    let _ =
        write!(out, "\nanomalies in {} of {}\n", thousands(bad), counted_histories(subjects.len() as u64));
    out
}

fn counted_histories(n: u64) -> String {
    if n == 1 { "1 history".to_owned() } else { format!("{} histories", thousands(n)) }
}

/// The verdict on the required levels, if any, and the strongest level.
fn answer(subject: &Subject<'_>) -> (String, Tone) {
    let strongest: Vec<&str> = subject.judgement.strongest().into_iter().map(Level::name).collect();
    let strongest = if strongest.is_empty() { "none known".to_owned() } else { strongest.join(", ") };
    let required = |wanted: fn(&Verdict) -> bool| -> Vec<&str> {
        let verdict = |l: Level| subject.judgement.verdict(l);
        subject.required.iter().filter(|&&l| verdict(l).is_some_and(wanted)).map(|l| l.name()).collect()
    };
    let violated = required(|v| *v == Verdict::Violated);
    let unknown = required(|v| matches!(v, Verdict::Unknown(_)));
    if !violated.is_empty() {
        (format!("VIOLATED: {}; {strongest}", violated.join(", ")), Tone::Bad)
    } else if !unknown.is_empty() {
        (format!("unknown: {}; {strongest}", unknown.join(", ")), Tone::Open)
    } else {
        let vacuous = if subject.vacuity().is_some() { " (no write was read)" } else { "" };
        let clean = subject.judgement.anomalies.is_empty() && vacuous.is_empty();
        (format!("{strongest}{vacuous}"), if clean { Tone::Good } else { Tone::Open })
    }
}
