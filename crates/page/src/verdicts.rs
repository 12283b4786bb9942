//! The sentence and the matrix of levels on top of a run, from a judgement or from a kept result.
//!
//! A kept result becomes a judgement again as far as these two need it: verdicts and counts, no witnesses.

use anomalist_history::{Builder, History};
use anomalist_level::{
    Anomaly, AnomalyKind, Bound, By, Judgement, Level, LevelVerdict, Verdict, Why, Witness,
};
use anomalist_report::{HistoryFacts, Rung, Subject, column_title, ladder, summary_sentence};
use serde_json::{Value, json};
use std::fmt;

/// What stands on top of a run.
#[derive(Debug)]
pub(crate) struct Verdicts {
    pub sentence: String,
    /// `holds`, `violated` or `unknown`.
    pub outcome: &'static str,
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// A row of the matrix.
#[derive(Debug)]
pub(crate) struct Row {
    pub name: String,
    pub cells: Vec<Option<Cell>>,
}

/// The verdict on some levels.
#[derive(Debug)]
pub(crate) struct Cell {
    pub levels: Vec<&'static str>,
    pub verdict: &'static str,
    pub required: bool,
    /// What violates them, and how often.
    pub anomalies: Vec<(String, u64)>,
    /// Why it is unknown.
    pub reason: Option<String>,
}

/// A document that is no result of `anomalist check --json`.
#[derive(Debug, PartialEq, Eq)]
pub struct NoResult {
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for NoResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for NoResult {}

impl Verdicts {
    /// Of a history that was just judged.
    pub fn of(subject: &Subject<'_>) -> Verdicts {
        Verdicts::with(subject, &|l| match &l.verdict {
            Verdict::Unknown(why) => Some(anomalist_report::reason(why)),
            Verdict::Holds | Verdict::Violated => None,
        })
    }

    /// Of a kept result.
    pub fn of_result(result: &Value) -> Result<Verdicts, NoResult> {
        let (judgement, required) = judgement(result)?;
        let history = empty()?;
        let facts = facts(&result["history"])?;
        let subject = Subject {
            history: &history,
            facts: &facts,
            judgement: &judgement,
            timing: None,
            required: &required,
            declared: false,
            stopped: false,
        };
        let levels = result["levels"].as_array().map_or(&[][..], Vec::as_slice);
        let reason = |l: &LevelVerdict| {
            let row = levels.iter().find(|row| row["level"] == l.level.name() && row["by"] == l.by.name())?;
            row["reason"].as_str().map(str::to_owned)
        };
        Ok(Verdicts::with(&subject, &reason))
    }

    fn with(subject: &Subject<'_>, reason: &dyn Fn(&LevelVerdict) -> Option<String>) -> Verdicts {
        let named = |(kind, n): &(AnomalyKind, u64)| (kind.code().to_owned(), *n);
        let cell = |cell: &anomalist_report::Cell<'_>| Cell {
            levels: cell.levels.iter().map(|l| l.level.name()).collect(),
            verdict: cell.verdict().name(),
            required: cell.required,
            anomalies: cell.anomalies.iter().map(named).collect(),
            reason: cell.levels.first().and_then(|l| reason(l)),
        };
        let row = |rung: &Rung<'_>| Row {
            name: rung.name.clone(),
            cells: rung.cells.iter().map(|c| c.as_ref().map(cell)).collect(),
        };
        Verdicts {
            sentence: summary_sentence(subject),
            outcome: outcome(subject),
            columns: Bound::ALL.map(|bound| column_title(bound).to_owned()).into(),
            rows: ladder(subject).rungs.iter().map(row).collect(),
        }
    }

    /// The matrix for the page's script.
    pub fn rows(&self) -> Value {
        let cell = |cell: &Option<Cell>| match cell {
            None => Value::Null,
            Some(c) => json!({"levels": c.levels, "verdict": c.verdict, "required": c.required,
                              "anomalies": c.anomalies, "reason": c.reason}),
        };
        let row =
            |row: &Row| json!({"name": row.name, "cells": row.cells.iter().map(cell).collect::<Vec<_>>()});
        json!({"columns": self.columns, "rows": self.rows.iter().map(row).collect::<Vec<_>>()})
    }
}

/// The colour of the sentence: red if a level is violated that had to hold, or any if none had to.
fn outcome(subject: &Subject<'_>) -> &'static str {
    let asked = |l: &&LevelVerdict| subject.required.is_empty() || subject.required.contains(&l.level);
    let any = |wanted: fn(&Verdict) -> bool| {
        subject.judgement.levels.iter().filter(asked).any(|l| wanted(&l.verdict))
    };
    match () {
        () if any(|v| *v == Verdict::Violated) => "violated",
        () if any(|v| *v == Verdict::Holds) => "holds",
        () => "unknown",
    }
}

fn empty() -> Result<History, NoResult> {
    Builder::new().finish().map_err(|error| NoResult { what: error.to_string() })
}

fn facts(history: &Value) -> Result<HistoryFacts, NoResult> {
    let number = |name: &str| history[name].as_u64().ok_or_else(|| missing(&format!("history.{name}")));
    let text = |name: &str| {
        Ok(history[name].as_str().ok_or_else(|| missing(&format!("history.{name}")))?.to_owned())
    };
    Ok(HistoryFacts {
        path: text("path")?,
        format: text("format")?,
        kind: "",
        sessions: number("sessions")?,
        transactions: number("transactions")?,
        aborted: number("aborted")?,
        indeterminate: number("indeterminate")?,
        operations: number("operations")?,
        keys: number("keys")?,
        vacuous: None,
    })
}

fn missing(field: &str) -> NoResult {
    NoResult { what: format!("not the result of a check: it has no field `{field}`") }
}

/// Verdicts and counts of a result, and what was required.
fn judgement(result: &Value) -> Result<(Judgement, Vec<Level>), NoResult> {
    let list = |name: &str| result[name].as_array().ok_or_else(|| missing(name));
    let unknown = |what: &str, value: &Value| NoResult { what: format!("{value} is no {what}") };
    let level = |value: &Value| {
        value.as_str().and_then(|name| name.parse::<Level>().ok()).ok_or_else(|| unknown("level", value))
    };
    let kind = |value: &Value| {
        let parsed = value.as_str().and_then(|name| name.parse::<AnomalyKind>().ok());
        parsed.ok_or_else(|| unknown("anomaly", value))
    };
    let mut judgement = Judgement::default();
    for row in list("levels")? {
        let verdict = match row["verdict"].as_str() {
            Some("holds") => Verdict::Holds,
            Some("violated") => Verdict::Violated,
            Some("unknown") => Verdict::Unknown(Why::Stopped),
            _ => return Err(unknown("verdict", &row["verdict"])),
        };
        let by = if row["by"] == "timestamps" { By::Timestamps } else { By::Values };
        let anomalies =
            row["anomalies"].as_array().into_iter().flatten().map(kind).collect::<Result<_, _>>()?;
        judgement.levels.push(LevelVerdict { level: level(&row["level"])?, by, verdict, anomalies });
    }
    for anomaly in list("anomalies")? {
        let count = anomaly["count"].as_u64().ok_or_else(|| missing("anomalies.count"))?;
        judgement.anomalies.push(Anomaly::new(kind(&anomaly["kind"])?, count, Witness::default()));
    }
    let required =
        result["required"].as_array().into_iter().flatten().map(level).collect::<Result<_, _>>()?;
    Ok((judgement, required))
}
