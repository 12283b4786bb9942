//! What exploring found, for people and for machines.

use crate::terminal::wrap;
use anomalist_explore::{Explanation, Outcome, StaleRead};
use anomalist_level::Level;
use anomalist_weakdb::{TxnName, Value};
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;

/// What is to be reported.
pub struct Facts<'a> {
    pub level: Level,
    /// `Some(true)`: everything was tried, `Some(false)`: some of it.
    pub systematic: Option<bool>,
    pub coverage: bool,
    /// The command that repeats the run with this seed.
    pub again: &'a dyn Fn(u64) -> String,
    pub outcome: &'a Outcome,
    /// Columns of the terminal.
    pub width: usize,
}

fn s(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

pub fn text(facts: &Facts<'_>) -> String {
    let mut out = String::new();
    // Writing to a text does not fail.
    _ = summary(facts, &mut out);
    if let Some(why) = &facts.outcome.explanation {
        _ = explanation(facts, why, &mut out);
    }
    if facts.coverage || facts.systematic.is_some() {
        _ = coverage(facts.outcome, &mut out);
    }
    out.truncate(out.trim_end().len());
    out
}

fn summary(facts: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    let Outcome { runs, failures, .. } = facts.outcome;
    let level = facts.level.name();
    match (facts.systematic, failures.first()) {
        (Some(true), None) => writeln!(out, "No run failed at {level}: all {runs} were tried."),
        (_, None) => writeln!(out, "No run of {runs} failed at {level}."),
        (systematic, Some(first)) => {
            if failures.len() > 1 {
                writeln!(out, "{} of {runs} runs failed at {level}.", failures.len())?;
            }
            writeln!(out, "Run {} failed at {level} (seed {}):", first.run, first.seed)?;
            first.message.lines().try_for_each(|line| writeln!(out, "  | {line}"))?;
            if systematic.is_none() {
                writeln!(out, "Again: {}", (facts.again)(first.seed))?;
            }
            Ok(())
        }
    }
}

fn explanation(facts: &Facts<'_>, why: &Explanation, out: &mut String) -> std::fmt::Result {
    writeln!(out)?;
    match (why.reproduced, why.stale.len()) {
        (false, n) => {
            let listed = if n == 0 { "" } else { " Its stale reads:" };
            let text = format!(
                "The same reads did not make it fail again, so it also depends on something else, such as \
                 timing.{listed}"
            );
            out.push_str(&wrap(&text, "", "", facts.width));
        }
        (true, 0) => out.push_str(&wrap(
            "It also fails when every read returns the newest value: no stale read is needed, the transactions only have to overlap.",
            "",
            "",
            facts.width,
        )),
        (true, n) => writeln!(
            out,
            "{n} of its {} stale read{} suffice{}:",
            why.of,
            s(why.of as u64),
            if n == 1 { "s" } else { "" }
        )?,
    }
    for (i, stale) in why.stale.iter().enumerate() {
        stale_read(why, i + 1, stale, facts.width, out);
    }
    if !why.anomalies.is_empty() && !why.stale.is_empty() {
        let names: Vec<String> = why.anomalies.iter().map(|a| a.title()).collect();
        writeln!(out, "What they form: {}.", names.join(", "))?;
    }
    match why.disappears {
        Some((level, runs)) => writeln!(out, "At {} none of {runs} runs failed.", level.name()),
        None if facts.level == Level::Serializable => Ok(()),
        None => writeln!(out, "It also fails at every stronger level, serializable included."),
    }
}

fn stale_read(why: &Explanation, number: usize, stale: &StaleRead, width: usize, out: &mut String) {
    let choice = &stale.choice;
    let by = |txn: Option<TxnName>| {
        txn.map_or("the initial value".into(), |t| format!("by {}", name(&why.sessions, t)))
    };
    let read = format!(
        "{} read {} = {} ({}); the newest it could have read was {} ({})",
        name(&why.sessions, choice.read.by),
        choice.key,
        shown(choice.value.as_ref()),
        by(choice.source),
        shown(choice.newest_value.as_ref()),
        by(choice.newest),
    );
    out.push_str(&wrap(&read, &format!("  {number}. "), "     ", width));
    for (label, statement) in
        [("before", &stale.before), ("here", &choice.statement), ("after", &stale.after)]
    {
        if let Some(statement) = statement {
            out.push_str(&wrap(statement, &format!("       {label:<6} "), "              ", width));
        }
    }
}

fn name(sessions: &[Arc<str>], txn: TxnName) -> String {
    let session = sessions.get(txn.session as usize).map_or("?", |s| s);
    format!("{session}'s transaction {}", txn.transaction + 1)
}

fn shown(value: Option<&Value>) -> String {
    value.map_or("nothing".into(), Value::to_string)
}

fn coverage(outcome: &Outcome, out: &mut String) -> std::fmt::Result {
    let states = outcome.new_states.len() as u64;
    let last = outcome.new_states.last().copied().unwrap_or(0);
    writeln!(
        out,
        "Clients were shown {states} distinct state{}; the last new one in run {last} of {}.",
        s(states),
        outcome.runs
    )
}

pub fn json(facts: &Facts<'_>) -> String {
    let outcome = facts.outcome;
    let failures: Vec<_> = outcome
        .failures
        .iter()
        .map(|f| json!({"run": f.run, "seed": f.seed, "message": f.message}))
        .collect();
    let document = json!({
        "anomalist": env!("CARGO_PKG_VERSION"),
        "schema": 1,
        "level": facts.level.name(),
        "runs": outcome.runs,
        "complete": facts.systematic,
        "failures": failures,
        "explanation": outcome.explanation.as_ref().map(explanation_json),
        "coverage": {
            "states": outcome.new_states.len(),
            "new_in_runs": outcome.new_states,
        },
    });
    format!("{document:#}")
}

fn explanation_json(why: &Explanation) -> serde_json::Value {
    let txn = |t: Option<TxnName>| {
        t.map(|t| {
            let session = why.sessions.get(t.session as usize).map(|s| s.to_string());
            json!({"session": session, "transaction": t.transaction + 1})
        })
    };
    let stale: Vec<_> = why
        .stale
        .iter()
        .map(|s| {
            json!({
                "reader": txn(Some(s.choice.read.by)),
                "read": s.choice.read.read + 1,
                "key": &*s.choice.key,
                "value": s.choice.value.as_ref().map(Value::to_string),
                "source": txn(s.choice.source),
                "newest_value": s.choice.newest_value.as_ref().map(Value::to_string),
                "newest": txn(s.choice.newest),
                "statement": s.choice.statement.as_deref(),
                "before": s.before.as_deref(),
                "after": s.after.as_deref(),
            })
        })
        .collect();
    json!({
        "reproduced": why.reproduced,
        "message": why.message,
        "stale_reads_of_the_run": why.of,
        "stale_reads": stale,
        "anomalies": why.anomalies.iter().map(|a| a.name()).collect::<Vec<_>>(),
        "gone_at": why.disappears.map(|(level, runs)| json!({"level": level.name(), "runs": runs})),
    })
}
