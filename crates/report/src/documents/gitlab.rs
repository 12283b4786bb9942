//! GitLab's code quality report: an array of findings, each with a place, a severity and a fingerprint.
//! Merge requests show them beside the changed lines.

use super::fingerprint;
use crate::Subject;
use crate::ci::breaks;
use crate::doc::Doc;
use crate::escape::terminal;
use crate::layout::times;

/// The report. A finding that breaks what is required is `critical`, another one `info`.
pub fn gitlab(subjects: &[Subject<'_>]) -> String {
    let mut findings = Vec::new();
    for s in subjects {
        for anomaly in &s.judgement.anomalies {
            let kind = anomaly.kind;
            let text = format!("{}, {}{}", kind.title(), times(anomaly.count), breaks(s, anomaly));
            let severity = if s.fails(anomaly) { "critical" } else { "info" };
            let same = fingerprint(s, kind.name());
            findings.push(finding(s, [kind.name(), severity, &same], &text, s.line(anomaly)));
        }
        for (what, why) in s.unexplained() {
            let same = fingerprint(s, &what);
            let check = ["required-level-not-proven", "major", &same];
            findings.push(finding(s, check, &format!("{what}: {why}"), None));
        }
    }
    Doc::Array(findings).pretty()
}

fn finding(subject: &Subject<'_>, check: [&str; 3], text: &str, line: Option<u32>) -> Doc {
    let [name, severity, fingerprint] = check;
    let path = subject.facts.path.trim_start_matches("./");
    // GitLab shows a finding only at a line.
    let lines = Doc::Object(vec![("begin", u64::from(line.unwrap_or(1)).into())]);
    Doc::Object(vec![
        ("description", Doc::text(terminal(text))),
        ("check_name", Doc::text(name)),
        ("fingerprint", Doc::text(fingerprint)),
        ("severity", Doc::text(severity)),
        ("location", Doc::Object(vec![("path", Doc::text(path)), ("lines", lines)])),
    ])
}
