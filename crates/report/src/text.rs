//! The answer of `check` for people.
//!
//! The most important comes first: what the history is, a sentence about all verdicts, the ladder of levels,
//! what was found and which levels it breaks, and an example of each anomaly with its explanation. Few
//! verdicts are a list instead, where a level refers to an earlier row instead of repeating its anomalies.
//! The reasons for not knowing stand once, under the table.

use crate::explain::{Sentence, step_sentences};
use crate::ladder::{ladder_text, names, summary_sentence};
use crate::lanes::{self, Marks};
use crate::layout::{Style, Tone, padded, pluralise, thousands, times, width, wrap};
use crate::refuted::{self, Line, reported};
use crate::svg::arrows::{arrows, is_bystander};
use crate::unknown::{Hints, sentence};
use crate::witness_view::WitnessView;
use crate::{Subject, alike, everyday, titled};
use anomalist_history::{History, TxnId, inert};
use anomalist_level::{
    Anomaly, AnomalyKind, By, Certificate, Level, LevelVerdict, Mixed, Sought, Verdict, Witness,
};
use std::cmp::Reverse;
use std::fmt::Write;

/// Examples shown in full unless all are asked for.
const EXAMPLES: usize = 3;
/// With no more verdicts than this, a list says more than the ladder.
const FEW: usize = 6;
/// Transactions of an example that are shown before its middle is left out.
const MANY: usize = 16;

/// The verdicts and examples for one history.
pub fn text(subject: &Subject<'_>, style: &Style) -> String {
    let columns = style.columns();
    let mut out = heading(subject, style);
    out.push('\n');
    // What breaks a required level comes first.
    let mut anomalies: Vec<&Anomaly> = subject.judgement.anomalies.iter().collect();
    anomalies.sort_by_key(|a| !subject.fails(a));
    let many = subject.judgement.levels.len() > FEW;
    let matrix = many.then(|| ladder_text(subject, style)).flatten();
    match &matrix {
        Some(matrix) => {
            let but = subject.vacuity().map_or_else(String::new, |why| format!(" Yet {why}."));
            let sentence = wrap("", 0, columns, &format!("{}{but}", summary_sentence(subject)));
            let _ = write!(out, "{sentence}\n{matrix}");
            for part in [found(subject, &anomalies, columns), answers(subject, style)] {
                out.push_str(if part.is_empty() { "" } else { "\n" });
                out.push_str(&part);
            }
        }
        None => {
            let _ = write!(out, "{}\n{}", table(subject, style), conclusion(subject, style));
        }
    }
    let shown = match style.verbose {
        0 if subject.is_satisfied() => 0,
        0 => EXAMPLES.min(anomalies.len()),
        _ => anomalies.len(),
    };
    for (i, anomaly) in anomalies[..shown].iter().enumerate() {
        out.push('\n');
        if let Some(twin) = anomalies[..i].iter().find(|a| alike(a, anomaly)) {
            let same = format!(
                "{}, {}: as {}, above",
                titled(anomaly.kind),
                times(anomaly.count),
                titled(twin.kind)
            );
            out.push_str(&wrap("", 2, style.columns(), &format!("{same}.")));
            continue;
        }
        out.push_str(&example_text(subject, anomaly, style));
        for another in subject.judgement.further.iter().filter(|a| a.kind == anomaly.kind) {
            out.push('\n');
            out.push_str(&example_text(subject, another, style));
        }
    }
    if anomalies.len() > shown {
        out.push_str(&rest(subject, &anomalies[shown..], style, matrix.is_some()));
    }
    if let Some(mixed) = &subject.judgement.mixed {
        out.push('\n');
        out.push_str(&mixed_text(subject, mixed, style));
    }
    for note in &subject.judgement.notes {
        out.push('\n');
        out.push_str(&wrap("note: ", 6, style.columns(), &crate::escape::terminal(note)));
    }
    if let (Some(timing), true) = (subject.timing, style.verbose > 0) {
        let _ = write!(out, "\nloaded in {:.1} ms, checked in {:.1} ms\n", timing.load_ms, timing.check_ms);
    }
    out
}

/// What is found and has no example here. Under the ladder all kinds are listed already.
fn rest(subject: &Subject<'_>, anomalies: &[&Anomaly], style: &Style, listed: bool) -> String {
    let how = style.hints.examples;
    if listed {
        let kinds = pluralise(anomalies.len() as u64, "more kind");
        let satisfied =
            if subject.is_satisfied() { "All of this is allowed by what is required. " } else { "" };
        let how = how.map_or_else(String::new, |how| format!("{how} shows examples of {kinds}."));
        let line = format!("{satisfied}{how}");
        let line = if line.is_empty() { line } else { wrap("\n", 0, style.columns(), &line) };
        return line;
    }
    let allowed =
        if subject.is_satisfied() { "Found, and allowed by what is required" } else { "Also found" };
    let how = how.map_or_else(String::new, |how| format!(" ({how} shows an example of each)"));
    let mut out = format!("\n{allowed}{how}:\n");
    for anomaly in anomalies {
        let line = format!("{}, {}", titled(anomaly.kind), times(anomaly.count));
        out.push_str(&wrap("  ", 4, style.columns(), &line));
    }
    out
}

/// Each kind that was found, how often, and the weakest of the judged levels that it breaks.
fn found(subject: &Subject<'_>, anomalies: &[&Anomaly], columns: usize) -> String {
    let named = |a: &Anomaly| match a.count {
        1 => titled(a.kind),
        n => format!("{} ×{}", titled(a.kind), thousands(n)),
    };
    let first = anomalies.iter().map(|a| width(&named(a))).max().unwrap_or(0).min(columns / 2);
    let mut out = String::new();
    for anomaly in anomalies {
        let broken = subject.judgement.levels.iter().filter(|l| l.anomalies.contains(&anomaly.kind));
        let broken: Vec<Level> = broken.map(|l| l.level).collect();
        let broken = names(&Level::weakest(&broken)).join(", ");
        let what = if broken.is_empty() { String::new() } else { format!("breaks {broken}") };
        let start = format!("  {}   ", padded(&named(anomaly), first));
        out.push_str(&wrap(&start, first + 5, columns, &what));
    }
    out
}

/// The answer for the levels that transactions declare.
fn declared(mixed: &Mixed, hints: Hints) -> String {
    let levels: Vec<String> = mixed.levels.iter().map(|(l, n)| format!("{} {l}", thousands(*n))).collect();
    let answer = match &mixed.verdict {
        Verdict::Holds => "one commit order suits them all".to_owned(),
        Verdict::Violated => "VIOLATED: no commit order suits them all".to_owned(),
        Verdict::Unknown(why) => format!("unknown: {}", sentence(why, hints)),
    };
    format!("Each transaction at the level it declares ({}): {answer}.", levels.join(", "))
}

fn heading(subject: &Subject<'_>, style: &Style) -> String {
    let facts = subject.facts;
    let mut outcomes = Vec::new();
    for (n, what) in [(facts.aborted, "aborted"), (facts.indeterminate, "indeterminate")] {
        if n > 0 {
            outcomes.push(format!("{} {what}", thousands(n)));
        }
    }
    let outcomes = if outcomes.is_empty() { String::new() } else { format!(" ({})", outcomes.join(", ")) };
    let line = format!(
        "{}, {}, {}{outcomes}, {}, {}",
        facts.format,
        pluralise(facts.sessions, "session"),
        pluralise(facts.transactions, "transaction"),
        pluralise(facts.operations, "operation"),
        pluralise(facts.keys, "key")
    );
    // Painted after wrapping, so that colours don't count as columns.
    let path = crate::escape::terminal(&facts.path);
    let set = wrap("", 2, style.columns(), &format!("{path}: {line}"));
    match set.strip_prefix(&*path) {
        Some(rest) => format!("{}{rest}", style.paint(Tone::Strong, &path)),
        None => set,
    }
}

fn table(subject: &Subject<'_>, style: &Style) -> String {
    let judgement = subject.judgement;
    let both = judgement.levels.iter().any(|l| l.by != judgement.levels[0].by);
    let name = |l: &LevelVerdict| match (both, l.by) {
        (false, _) => l.level.name().to_owned(),
        (true, By::Values) => format!("{} by values", l.level),
        (true, By::Timestamps) => format!("{} by timestamps", l.level),
    };
    let first = judgement.levels.iter().map(|l| width(&name(l))).max().unwrap_or(0);
    let mut reasons: Vec<String> = Vec::new();
    let mut out = String::new();
    for (row, l) in judgement.levels.iter().enumerate() {
        let (word, tone, rest) = match &l.verdict {
            Verdict::Holds => ("holds", Tone::Good, String::new()),
            Verdict::Violated => ("VIOLATED", Tone::Bad, because(subject, row)),
            Verdict::Unknown(why) => {
                let reason = sentence(why, style.hints);
                let at = reasons.iter().position(|r| *r == reason).unwrap_or_else(|| {
                    reasons.push(reason);
                    reasons.len() - 1
                });
                ("unknown", Tone::Open, format!("[{}]", at + 1))
            }
        };
        let start = format!("  {}   ", padded(&name(l), first));
        if rest.is_empty() {
            let _ = writeln!(out, "{start}{}", style.paint(tone, word));
            continue;
        }
        let plain = format!("{start}{word:8}   ");
        let column = width(&plain).min(style.columns() * 2 / 3);
        let set = wrap(&plain, column, style.columns(), &rest);
        out.push_str(&set.replacen(
            &format!("{start}{word}"),
            &format!("{start}{}", style.paint(tone, word)),
            1,
        ));
    }
    for (i, reason) in reasons.iter().enumerate() {
        if i == 0 {
            out.push('\n');
        }
        out.push_str(&wrap(&format!("  [{}] ", i + 1), 6, style.columns(), reason));
    }
    out
}

/// What breaks a level: the earlier row that says the most of it, and the rest by name.
fn because(subject: &Subject<'_>, row: usize) -> String {
    let judgement = subject.judgement;
    let verdict = &judgement.levels[row];
    let part = |w: &&LevelVerdict| {
        w.by == verdict.by
            && !w.anomalies.is_empty()
            && w.anomalies.iter().all(|k| verdict.anomalies.contains(k))
    };
    // The first of the largest; `max_by_key` would take the last.
    let reported = judgement.levels[..row].iter().filter(part).min_by_key(|w| Reverse(w.anomalies.len()));
    let mut parts = Vec::new();
    for kind in verdict.anomalies.iter().filter(|k| !reported.is_some_and(|w| w.anomalies.contains(k))) {
        let count = judgement.anomalies.iter().find(|a| a.kind == *kind).map_or(0, |a| a.count);
        let count = if count > 1 { format!(" ×{}", thousands(count)) } else { String::new() };
        parts.push(format!("{}{count}", titled(*kind)));
    }
    match (reported, parts.join(", ")) {
        (None, named) => named,
        (Some(w), named) if named.is_empty() => format!("as {}", w.level),
        (Some(w), named) => format!("as {}, and {named}", w.level),
    }
}

/// What follows from the table: the strongest levels that hold, and the answers to what was asked.
pub(crate) fn conclusion(subject: &Subject<'_>, style: &Style) -> String {
    let strongest: Vec<&str> = subject.judgement.strongest().into_iter().map(Level::name).collect();
    let mut out = match strongest.as_slice() {
        [] if subject.required.is_empty() => "no level is known to hold\n".to_owned(),
        // Only some levels were asked for: the others may well hold.
        [] => String::new(),
        some if subject.scope() != "all levels" => {
            let line = format!("strongest of the {}: {}", subject.scope(), some.join(", "));
            wrap("", 2, style.columns(), &line)
        }
        [one] => format!("strongest level that holds: {one}\n"),
        many => wrap("", 2, style.columns(), &format!("strongest levels that hold: {}", many.join(", "))),
    };
    if let Some(why) = subject.vacuity() {
        out.push_str(&wrap("", 2, style.columns(), &format!("but {why}")));
    }
    out.push_str(&answers(subject, style));
    let mut verdicts = Vec::new();
    for &level in subject.required {
        let word = subject.judgement.verdict(level).map_or("not decided", Verdict::name);
        verdicts.push(format!("{level} {word}"));
    }
    if !verdicts.is_empty() {
        out.push_str(&wrap("", 2, style.columns(), &format!("required: {}", verdicts.join(", "))));
    }
    out
}

/// The answers for anomalies that were asked for.
fn answers(subject: &Subject<'_>, style: &Style) -> String {
    let mut out = String::new();
    for (kind, sought) in &subject.judgement.sought {
        let reason = match sought {
            Sought::Unknown(why) => format!(": {}", sentence(why, style.hints)),
            _ => String::new(),
        };
        let line = format!("asked for: {} {}{reason}", titled(*kind), sought.name());
        out.push_str(&wrap("", 2, style.columns(), &line));
    }
    out
}

/// Whether one commit order suits the levels that transactions declare; if none does, why, and who is in it.
pub(crate) fn mixed_text(subject: &Subject<'_>, mixed: &Mixed, style: &Style) -> String {
    let columns = style.columns();
    let mut out = wrap("", 2, columns, &declared(mixed, style.hints));
    with_mixed(subject.history, mixed, |view, level, reported| {
        out.push_str(&players(view, &view.txns, columns, &|t| format!(", {}", level(t))));
        lines(&mut out, columns, reported);
    });
    out
}

/// The same on one line, for machines that show it to people.
pub(crate) fn mixed_explanation(history: &History, mixed: &Mixed) -> Option<String> {
    let mut text = None;
    with_mixed(history, mixed, |_, _, reported| {
        let reported: Vec<String> = reported.into_iter().map(|line| line.text).collect();
        text = Some(reported.join(" "));
    });
    text
}

/// Calls `f` with the view of the refutation, the level that each transaction declares, and what is
/// reported; not if there is none.
fn with_mixed(
    history: &History,
    mixed: &Mixed,
    f: impl FnOnce(&WitnessView<'_>, &dyn Fn(TxnId) -> String, Vec<Line>),
) {
    let Some(Certificate::Violated(refutation)) = &mixed.proof else { return };
    let witness = Witness::refuted(history, refutation.clone(), []);
    let anomaly = Anomaly::new(AnomalyKind::Pl1CycleExists, 1, witness);
    let view = WitnessView::new(history, &anomaly);
    let declared = |t: TxnId| history.metadata().get(&t)?.get("level")?.parse::<Level>().ok();
    let level = |t: TxnId| declared(t).unwrap_or(Level::ReadUncommitted);
    let reported = reported(&view, &level, refutation);
    f(&view, &|t| level(t).name().to_owned(), reported);
}

fn lines(out: &mut String, columns: usize, lines: Vec<Line>) {
    for line in lines {
        let indent = " ".repeat(2 + 2 * line.depth);
        out.push_str(&wrap(&indent, indent.len() + 2, columns, &line.text));
    }
}

/// Transactions, one per line, with what they did. `more` is said about each.
fn players(view: &WitnessView<'_>, txns: &[TxnId], columns: usize, more: &dyn Fn(TxnId) -> String) -> String {
    let mut out = String::new();
    let names: Vec<(String, Vec<String>)> = txns
        .iter()
        .map(|&t| {
            let at = format!("{}{}", view.whereabouts(t), more(t));
            let at = if at.is_empty() { at } else { format!(" ({})", at.trim_start_matches(", ")) };
            (format!("  {}{at}", view.name(t)), view.shown_ops(t))
        })
        .collect();
    let first = names.iter().map(|(name, _)| width(name)).max().unwrap_or(0).min(columns / 2);
    for (i, (name, ops)) in names.iter().enumerate() {
        if names.len() > MANY && (MANY / 2..names.len() - MANY / 2).contains(&i) {
            if i == MANY / 2 {
                let _ = writeln!(out, "  … {} more transactions", names.len() - MANY);
            }
            continue;
        }
        out.push_str(&wrap(&format!("{}  ", padded(name, first)), first + 2, columns, &ops.join(" ")));
    }
    out
}

/// One anomaly: how often it was found, its smallest example, and why that is one.
pub fn example_text(subject: &Subject<'_>, anomaly: &Anomaly, style: &Style) -> String {
    let columns = style.columns();
    let view = WitnessView::new(subject.history, anomaly);
    let everyday = everyday(subject.history, anomaly);
    let (kind, times) = (titled(anomaly.kind), times(anomaly.count));
    let gap = if width(&kind) + width(everyday) + width(&times) + 5 > columns { "\n  " } else { " " };
    let everyday = if everyday.is_empty() { String::new() } else { format!(":{gap}{everyday}") };
    let title = format!("{kind}{everyday}, {times}");
    let what = if anomaly.count > 1 { "Smallest example" } else { "Here" };
    let last = title.rsplit('\n').next().unwrap_or_default();
    let gap = if width(last) + width(what) + 3 > columns { "\n  " } else { " " };
    let mut out = format!("{}.{gap}{what}:\n", style.paint(Tone::Strong, &title));
    let proof = refuted::steps(&view);
    let steps = if proof.is_some() { Vec::new() } else { step_sentences(&view) };
    let mut marks = Marks::new();
    for (i, Sentence { ops, .. }) in steps.iter().enumerate() {
        for &op in ops {
            let marks = marks.entry(op).or_default();
            marks.extend((!marks.contains(&(i + 1))).then_some(i + 1));
        }
    }
    let list = |txns: &[TxnId]| players(&view, txns, columns, &|_| String::new());
    let drawn = lanes::draw(&view, &view.txns, &marks, style).or_else(|| {
        // The contradiction alone, where there is no room for all; what only shows an order stands below.
        let arrows = arrows(&view);
        let (rest, core): (Vec<TxnId>, Vec<TxnId>) =
            view.txns.iter().partition(|&&t| is_bystander(&view, &arrows, t));
        let drawing = lanes::draw(&view, &core, &marks, style)?;
        Some(format!("{drawing}  Evidence:\n{}", list(&rest)))
    });
    out.push_str(&drawn.unwrap_or_else(|| list(&view.txns)));
    out.push_str(&statements(&view, columns));
    if let Some(proof) = proof {
        lines(&mut out, columns, proof);
        return out;
    }
    for (i, Sentence { text: step, .. }) in steps.iter().enumerate() {
        let number = format!("  {:>w$}. ", i + 1, w = steps.len().to_string().len());
        out.push_str(&wrap(&number, width(&number), columns, step));
    }
    out
}

/// What the transactions of a view ran, of those whose recording says it.
fn statements(view: &WitnessView<'_>, columns: usize) -> String {
    let mut out = String::new();
    for &t in view.txns.iter().take(MANY) {
        let known = view.history.metadata().get(&t).and_then(|all| all.get("statements"));
        if let Some(statements) = known {
            let who = format!("  {} ran ", view.name(t));
            out.push_str(&wrap(&who, 4, columns, &inert(statements)));
        }
    }
    out
}
