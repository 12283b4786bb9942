//! What the figures mean for what Anomalist promises about speed. Text, not assertions: a busy machine
//! proves nothing. Ratios are of the best times, on which neighbours weigh least.

use crate::Row;
use crate::measure::Figures;
use crate::question::Question;
use crate::table::times;
use serde_json::{Value, json};
use std::fmt::Write;

/// A promise and what was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    what: String,
    ratio: f64,
    limit: f64,
}

impl Finding {
    fn kept(&self) -> bool {
        self.ratio < self.limit
    }

    /// As data.
    pub fn json(&self) -> Value {
        json!({"what": self.what, "ratio": self.ratio, "limit": self.limit, "kept": self.kept()})
    }
}

/// Everything that the measured cases say something about.
pub fn of(rows: &[Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named = |name: &str| rows.iter().find(|row| row.case.id() == name);
    for row in rows.iter().filter(|row| row.case.group == "adversarial") {
        for question in Question::ALL {
            let Some(limit) = limit(&row.case.name, question) else { continue };
            // Like with like: a file sorted by session takes another path.
            let base =
                if row.case.by_session { "adversarial/uniform-by-session" } else { "adversarial/uniform" };
            let (Some(base), Some(here)) = (named(base), row.answer(question)) else { continue };
            let Some(there) = base.answer(question) else { continue };
            let per_op = |row: &Row, figures: &Figures| figures.total.min / row.facts.operations as f64;
            findings.push(Finding {
                what: format!(
                    "time per operation, {} to {}, {}",
                    row.case.name,
                    base.case.name,
                    question.name()
                ),
                ratio: per_op(row, here) / per_op(base, there),
                limit,
            });
        }
    }
    if let (Some(clean), Some(broken)) = (
        named("timestamps/broken").and_then(|row| row.answer(Question::SiStamps)),
        named("timestamps/broken").and_then(|row| row.answer(Question::SerStamps)),
    ) {
        let ratio = broken.total.min / clean.total.min;
        findings.push(Finding {
            what: format!("{} violations by timestamps to none", broken.anomalies),
            ratio,
            limit: 1.5,
        });
    }
    // Elle's Figure 4: concurrency hardly matters, and length is paid for once.
    for question in Question::ELLE {
        let time = |name: &str| {
            Some((named(name)?.facts.transactions as f64, named(name)?.answer(question)?.total.min))
        };
        let pairs = [
            ("elle/clients-5", "elle/clients-100", 1.5),
            ("elle/transactions-50000", "elle/transactions-400000", 1.5),
            ("elle/transactions-1000000", "elle/transactions-5000000", 1.5),
        ];
        for (few, many, limit) in pairs {
            let (Some((few_txns, few_ms)), Some((many_txns, many_ms))) = (time(few), time(many)) else {
                continue;
            };
            let what = format!("time per transaction, {many} to {few}, {}", question.name());
            findings.push(Finding { what, ratio: (many_ms / many_txns) / (few_ms / few_txns), limit });
        }
    }
    // Against loading as users see it: `load` ends with the indexed history. Nothing of the kind is
    // promised where the question is NP-hard.
    let share = |figures: &Figures| figures.check.min / (figures.load.min + figures.index.min);
    for (kind, sorted, holds) in [
        ("histories that hold", false, true),
        ("histories that hold, sorted by session", true, true),
        ("histories with violations", false, false),
    ] {
        let questions = |row: &Row| row.case.questions();
        let easy = rows.iter().filter(|row| row.case.group != "strong");
        let shares = easy.flat_map(|row| questions(row).iter().map(move |&question| (row, question)));
        let shares = shares.filter_map(|(row, question)| {
            let figures = row.answer(question)?;
            let wanted = row.case.by_session == sorted && (figures.verdict == "holds") == holds;
            wanted.then(|| (format!("{}, {}", row.case.id(), question.name()), share(figures)))
        });
        if let Some((at, ratio)) = shares.max_by(|a, b| a.1.total_cmp(&b.1)) {
            let what = format!("checking to loading, {kind}, at worst ({at})");
            findings.push(Finding { what, ratio, limit: 1.0 });
        }
    }
    findings
}

/// How many times the time per operation of the uniform case (25 sessions) a case may take; `None`: nothing
/// is promised.
fn limit(case: &str, question: Question) -> Option<f64> {
    let causal = matches!(question, Question::Causal | Question::AllWeak);
    let sessions = |n: f64| if causal { n / 25.0 } else { 3.0 };
    match case {
        "hot-key" | "hot-key-causal" | "zipf" | "zipf-causal" | "operations-400" | "one-writer" => Some(3.0),
        "zipf-causal-by-session" => Some(3.0),
        "sessions-1000" | "sessions-1000-by-session" => Some(sessions(1_000.0)),
        "sessions-2000" => Some(sessions(2_000.0)),
        "sessions-20000" => Some(sessions(20_000.0)),
        _ => None,
    }
}

/// The findings, the broken promises marked.
pub fn text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nWhat the best times say about the promises:\n");
    for f in findings {
        let (mark, than) = if f.kept() { ("  ", "<") } else { ("! ", "not <") };
        _ = writeln!(out, "{mark}{:>7}  {than} {}  {}", times(f.ratio), times(f.limit), f.what);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_promises_are_marked() {
        let finding = |ratio| Finding { what: "time, x to y".into(), ratio, limit: 3.0 };
        assert_eq!(
            text(&[finding(1.5), finding(31.0)]),
            "\nWhat the best times say about the promises:\n    1.50×  < 3.00×  time, x to y\n!     31×  not < 3.00×  time, x to y\n"
        );
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn many_sessions_may_cost_causal_linearly_and_the_others_three_times() {
        assert_eq!(limit("sessions-1000", Question::Causal), Some(40.0));
        assert_eq!(limit("sessions-1000", Question::ReadAtomic), Some(3.0));
        assert_eq!(limit("read-committed", Question::Causal), None);
    }
}
