//! SARIF 2.1.0, for code scanning: a rule per kind of anomaly, a result per kind and history.

use super::fingerprint;
use crate::Subject;
use crate::ci::breaks;
use crate::doc::Doc;
use crate::escape::{sarif as escaped, terminal};
use crate::explain::explain;
use crate::layout::times;
use anomalist_history::TxnId;
use anomalist_level::{Anomaly, AnomalyKind};
use std::collections::BTreeSet;

const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// A SARIF log with one run.
pub fn sarif(subjects: &[Subject<'_>]) -> String {
    let kinds: BTreeSet<AnomalyKind> =
        subjects.iter().flat_map(|s| &s.judgement.anomalies).map(|a| a.kind).collect();
    let kinds: Vec<AnomalyKind> = kinds.into_iter().collect();
    let results = subjects.iter().flat_map(|s| s.judgement.anomalies.iter().map(move |a| (s, a)));
    let results = results.map(|(s, a)| result(s, a, &kinds));
    let open =
        subjects.iter().flat_map(|s| s.unexplained().into_iter().map(move |(what, why)| (s, what, why)));
    let open = open.map(|(s, what, why)| unexplained(s, &what, &why));
    let results: Vec<Doc> = results.chain(open).collect();
    let driver = Doc::Object(vec![
        ("name", "anomalist".into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("semanticVersion", env!("CARGO_PKG_VERSION").into()),
        ("informationUri", REPOSITORY.into()),
        ("rules", Doc::Array(kinds.iter().map(|&k| rule(k)).chain([open_rule()]).collect())),
    ]);
    let run =
        Doc::Object(vec![("tool", Doc::Object(vec![("driver", driver)])), ("results", Doc::Array(results))]);
    Doc::Object(vec![
        ("$schema", "https://json.schemastore.org/sarif-2.1.0.json".into()),
        ("version", "2.1.0".into()),
        ("runs", Doc::Array(vec![run])),
    ])
    .pretty()
}

fn message(text: impl ToString) -> Doc {
    Doc::Object(vec![("text", Doc::text(escaped(&text.to_string())))])
}

/// The name of a rule, which must differ from its id in more than case: `LostUpdateAnomaly`.
fn rule_name(kind: AnomalyKind) -> String {
    let words = kind.name().split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words = words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
    words.chain(["Anomaly".to_owned()]).collect()
}

fn rule(kind: AnomalyKind) -> Doc {
    let info = kind.info();
    let broken: Vec<&str> = kind.rules_out().into_iter().map(|l| l.name()).collect();
    let help = format!("{} Rules out: {}. Source: {}.", info.definition, broken.join(", "), info.source);
    Doc::Object(vec![
        ("id", info.name.into()),
        ("name", rule_name(kind).into()),
        ("shortDescription", message(kind.title())),
        ("fullDescription", message(info.definition)),
        ("help", message(help)),
        ("helpUri", format!("{REPOSITORY}/blob/main/docs/spec/anomalies.md#{}", info.name).into()),
        ("defaultConfiguration", Doc::Object(vec![("level", "error".into())])),
    ])
}

fn result(subject: &Subject<'_>, anomaly: &Anomaly, kinds: &[AnomalyKind]) -> Doc {
    let at = kinds.binary_search(&anomaly.kind).unwrap_or(0) as u64;
    let reported = format!(
        "{}, {}{}.\n{}",
        anomaly.kind.title(),
        times(anomaly.count),
        breaks(subject, anomaly),
        explain(subject.history, anomaly)
    );
    let mut txns: Vec<TxnId> = anomaly.witness.transactions.clone();
    txns.sort_by_key(|&t| subject.history.line(t));
    let related = txns
        .iter()
        .filter_map(|&t| {
            let mut fields = location(subject, Some(subject.history.line(t)?));
            fields.push((
                "message",
                message(format!("transaction {}", terminal(&subject.history.txn_name(t)))),
            ));
            Some(Doc::Object(fields))
        })
        .collect();
    Doc::Object(vec![
        ("ruleId", anomaly.kind.name().into()),
        ("ruleIndex", at.into()),
        ("level", if subject.fails(anomaly) { "error" } else { "note" }.into()),
        ("message", message(reported)),
        ("locations", Doc::Array(vec![Doc::Object(location(subject, subject.line(anomaly)))])),
        ("relatedLocations", Doc::Array(related)),
        ("occurrenceCount", anomaly.count.max(1).into()),
        ("partialFingerprints", fingerprints(subject, anomaly.kind.name())),
    ])
}

/// The rule of required levels that are not decided, or violated without an example.
fn open_rule() -> Doc {
    let what = "A required level is not decided, or is violated without an example.";
    Doc::Object(vec![
        ("id", OPEN.into()),
        ("name", "RequiredLevelNotProven".into()),
        ("shortDescription", message(what)),
        ("fullDescription", message(what)),
        ("help", message("What was required is not known to hold. The message has the reason.")),
        ("helpUri", format!("{REPOSITORY}/blob/main/docs/ci.md").into()),
    ])
}

const OPEN: &str = "required-level-not-proven";

fn unexplained(subject: &Subject<'_>, what: &str, why: &str) -> Doc {
    Doc::Object(vec![
        ("ruleId", OPEN.into()),
        ("level", "error".into()),
        ("message", message(format!("{what}: {why}"))),
        ("locations", Doc::Array(vec![Doc::Object(location(subject, None))])),
        ("partialFingerprints", fingerprints(subject, what)),
    ])
}

fn fingerprints(subject: &Subject<'_>, what: &str) -> Doc {
    Doc::Object(vec![("anomalist/v1", fingerprint(subject, what).into())])
}

fn location(subject: &Subject<'_>, line: Option<u32>) -> Vec<(&'static str, Doc)> {
    // Without a line, code scanning shows nothing.
    let region = Doc::Object(vec![("startLine", u64::from(line.unwrap_or(1)).into())]);
    let artifact = Doc::Object(vec![("uri", uri(&subject.facts.path).into())]);
    let physical = vec![("artifactLocation", artifact), ("region", region)];
    vec![("physicalLocation", Doc::Object(physical))]
}

/// A path as a URI: relative to the folder of the command, or absolute.
fn uri(path: &str) -> String {
    let scheme = if path.starts_with('/') { "file://" } else { "" };
    path.bytes().fold(scheme.to_owned(), |mut out, b| {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(b))
            }
            _ => out.push_str(&format!("%{b:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_become_uri_references() {
        assert_eq!(uri("a b/ü%.edn"), "a%20b/%C3%BC%25.edn");
        assert_eq!(uri("/tmp/h.edn"), "file:///tmp/h.edn");
    }
}
