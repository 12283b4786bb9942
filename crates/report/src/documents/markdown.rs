//! Results as Markdown: a summary for the page of a workflow run, and a document with examples for a merge
//! request, an issue or a wiki.

use crate::ci::breaks;
use crate::escape::{markdown as escaped, markdown_block};
use crate::layout::{pluralise, times};
use crate::{
    Column, Style, Subject, example_text, ladder_markdown, matrix_markdown, summary_sentence, titled,
};
use anomalist_level::Verdict;
use std::fmt::Write;

/// All of it: for each history the verdicts, what was found, and an example of each kind.
pub fn markdown(subjects: &[Subject<'_>]) -> String {
    let mut out = String::from("# Isolation of recorded histories\n");
    for s in subjects {
        let facts = s.facts;
        let _ = write!(
            out,
            "\n## {}\n\n{}, {}, {}, {}, {}\n\n{}",
            escaped(&facts.path),
            escaped(&facts.format),
            pluralise(facts.sessions, "session"),
            pluralise(facts.transactions, "transaction"),
            pluralise(facts.operations, "operation"),
            pluralise(facts.keys, "key"),
            verdicts(s)
        );
        for anomaly in &s.judgement.anomalies {
            let title = format!("{}, {}", titled(anomaly.kind), times(anomaly.count));
            let _ = write!(out, "\n### {}\n\n", escaped(&title));
            match s.twin(anomaly) {
                Some(twin) => {
                    let _ = writeln!(out, "As {}, above.", escaped(&titled(twin.kind)));
                }
                None => out.push_str(&markdown_block(&example_text(s, anomaly, &Style::default()))),
            }
        }
    }
    out
}

/// A summary for the page of a workflow run (`GITHUB_STEP_SUMMARY`): the ladder of one history, or levels
/// against histories.
pub fn step_summary(subjects: &[Subject<'_>]) -> String {
    let mut out = String::from("### anomalist\n\n");
    if let [one] = subjects {
        let _ = writeln!(out, "**{}**\n\n{}", escaped(&one.facts.path), verdicts(one));
        return out;
    }
    for s in subjects {
        let _ = writeln!(out, "- {}: {}", escaped(&s.facts.path), escaped(&summary_sentence(s)));
        for line in remarks(s) {
            let _ = writeln!(out, "  - {line}");
        }
    }
    let columns: Vec<Column<'_>> =
        subjects.iter().map(|s| Column { head: &s.facts.path, judgement: s.judgement }).collect();
    out.push('\n');
    out + &matrix_markdown(&columns) + "\n"
}

/// The sentence, the ladder, and remarks.
fn verdicts(subject: &Subject<'_>) -> String {
    let mut out = format!("{}\n\n{}\n", escaped(&summary_sentence(subject)), ladder_markdown(subject));
    for line in remarks(subject) {
        let _ = writeln!(out, "- {line}");
    }
    out
}

/// What was found and which levels it breaks, what is unknown and why, and what else a reader should know.
fn remarks(subject: &Subject<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for (what, reason) in subject.unexplained() {
        lines.push(format!("{what}: {reason}"));
    }
    for anomaly in &subject.judgement.anomalies {
        let line = subject.line(anomaly).map_or(String::new(), |line| format!(", line {line}"));
        let (kind, count) = (titled(anomaly.kind), times(anomaly.count));
        lines.push(format!("{kind}, {count}{line}{}", breaks(subject, anomaly)));
    }
    let mut open: Vec<(String, Vec<String>)> = Vec::new();
    for l in subject.judgement.levels.iter().filter(|l| !subject.required.contains(&l.level)) {
        if let Verdict::Unknown(why) = &l.verdict {
            let (reason, name) = (crate::reason(why), subject.row_name(l));
            match open.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, names)) => names.push(name),
                None => open.push((reason, vec![name])),
            }
        }
    }
    lines.extend(open.into_iter().map(|(reason, names)| format!("unknown: {}: {reason}", names.join(", "))));
    lines.extend(subject.vacuity().map(|why| format!("but {why}")));
    lines.extend(subject.judgement.notes.iter().map(|note| format!("note: {note}")));
    lines.iter().map(|line| escaped(line)).collect()
}
