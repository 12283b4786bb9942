//! What continuous integration reads: JUnit XML and GitHub's annotations.
//!
//! In JUnit a history is a suite and a level a case. A case fails iff its level was required and is
//! violated, and is an error iff it was required and is unknown, because what is not known must not be
//! green; a violation that was not asked about is a pass with a word on `system-out`.

pub(crate) use crate::escape::xml;
use crate::escape::{workflow_data as data, workflow_property as property};
use crate::explain::explain;
use crate::layout::times;
use crate::{Subject, reason, titled};
use anomalist_level::{Anomaly, LevelVerdict, Verdict};
use std::fmt::Write;

/// JUnit XML.
pub fn junit(subjects: &[Subject<'_>]) -> String {
    let mut out =
        String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"anomalist\">\n");
    for s in subjects {
        let path = xml(&s.facts.path);
        let cases: Vec<(&LevelVerdict, bool)> =
            s.judgement.levels.iter().map(|l| (l, s.required.contains(&l.level))).collect();
        let count =
            |wanted: fn(&Verdict) -> bool| cases.iter().filter(|(l, r)| *r && wanted(&l.verdict)).count();
        let failures = count(|v| *v == Verdict::Violated);
        let levels = count(|v| matches!(v, Verdict::Unknown(_)));
        let others = other_cases(s);
        let errors = levels + others.len();
        let time = s.timing.map_or(0.0, |t| (t.load_ms + t.check_ms) / 1000.0);
        let _ = writeln!(
            out,
            "  <testsuite name=\"{path}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" time=\"{time:.3}\">",
            cases.len() + others.len()
        );
        for (l, required) in cases {
            let name = s.row_name(l);
            let _ = write!(out, "    <testcase classname=\"{path}\" name=\"{}\"", xml(&name));
            match (&l.verdict, required) {
                (Verdict::Holds, _) => out.push_str("/>\n"),
                (Verdict::Violated, true) => {
                    let message = xml(&format!("{} is violated: {}", l.level, kinds(l)));
                    let reported = xml(&explanations(s, l));
                    let _ = write!(
                        out,
                        ">\n      <failure type=\"violated\" message=\"{message}\">{reported}</failure>\n    </testcase>\n"
                    );
                }
                (Verdict::Violated, false) => {
                    let reported = xml(&format!("violated: {}", kinds(l)));
                    let _ = write!(out, ">\n      <system-out>{reported}</system-out>\n    </testcase>\n");
                }
                (Verdict::Unknown(why), true) => {
                    let message = xml(&format!("unknown: {}", reason(why)));
                    let _ = write!(
                        out,
                        ">\n      <error type=\"unknown\" message=\"{message}\"/>\n    </testcase>\n"
                    );
                }
                (Verdict::Unknown(why), false) => {
                    let reported = xml(&format!("unknown: {}", reason(why)));
                    let _ = write!(out, ">\n      <system-out>{reported}</system-out>\n    </testcase>\n");
                }
            }
        }
        for (what, reason) in others {
            let _ = write!(
                out,
                "    <testcase classname=\"{path}\" name=\"{}\">\n      <error type=\"unknown\" message=\"{}\"/>\n    </testcase>\n",
                xml(&what),
                xml(&reason)
            );
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// What was required and is not fulfilled, besides levels: what transactions declare, and anomalies asked
/// for of which nothing is known.
fn other_cases(subject: &Subject<'_>) -> Vec<(String, String)> {
    let of_level = |what: &str| subject.required.iter().any(|l| what.starts_with(&format!("{l} is ")));
    subject.unexplained().into_iter().filter(|(what, _)| !of_level(what)).collect()
}

fn kinds(verdict: &LevelVerdict) -> String {
    if verdict.anomalies.is_empty() {
        return "no example at hand".to_owned();
    }
    verdict.anomalies.iter().map(|&k| titled(k)).collect::<Vec<_>>().join(", ")
}

fn explanations(subject: &Subject<'_>, verdict: &LevelVerdict) -> String {
    let mut out = String::new();
    for anomaly in subject.judgement.anomalies.iter().filter(|a| verdict.anomalies.contains(&a.kind)) {
        let reported = explain(subject.history, anomaly);
        let _ = write!(out, "{}, {}:\n{reported}\n\n", titled(anomaly.kind), times(anomaly.count));
    }
    out.trim_end().to_owned()
}

/// GitHub's workflow commands: an error per kind of anomaly that breaks a required level (any level, if
/// none is required), a notice for every other one, and an error for each required level of which nothing
/// is known.
pub fn github(subjects: &[Subject<'_>]) -> String {
    let mut out = String::new();
    for s in subjects {
        for anomaly in &s.judgement.anomalies {
            let command = if s.fails(anomaly) { "error" } else { "notice" };
            let line = s.line(anomaly).map_or(String::new(), |line| format!(",line={line}"));
            let message = format!(
                "{}, {}{}\n{}",
                anomaly.kind.title(),
                times(anomaly.count),
                breaks(s, anomaly),
                explain(s.history, anomaly)
            );
            let _ = writeln!(
                out,
                "::{command} file={}{line},title={}::{}",
                property(&s.facts.path),
                property(&format!("anomalist: {}", titled(anomaly.kind))),
                data(&message)
            );
        }
        for (what, reason) in s.unexplained() {
            let (path, title) = (property(&s.facts.path), property(&format!("anomalist: {what}")));
            let _ =
                writeln!(out, "::error file={path},title={title}::{}", data(&format!("{what}: {reason}")));
        }
    }
    out
}

/// Which levels an anomaly breaks: the required ones, by name.
pub(crate) fn breaks(subject: &Subject<'_>, anomaly: &Anomaly) -> String {
    let broken: Vec<&str> = subject.broken_by(anomaly).into_iter().map(|l| l.name()).collect();
    match (broken.is_empty(), subject.required.is_empty()) {
        (true, true) => String::new(),
        (true, false) => "; allowed by what is required".to_owned(),
        (false, true) => format!("; rules out {}", broken.join(", ")),
        (false, false) => format!("; breaks {}, which is required", broken.join(", ")),
    }
}
