//! `anomalist check --json`, schema 2: `docs/json.md`.
//!
//! The fields and their order are a contract with scripts; new fields may be added, old ones stay. The
//! witnesses in it are made by `witness_doc.rs`.

use crate::Subject;
use crate::doc::Doc;
use crate::everyday;
use crate::unknown::reason;
use crate::witness_doc::shown;
use crate::witness_view::WitnessView;
use anomalist_history::{History, TxnId};
use anomalist_level::{Anomaly, AnomalyKind, Level, LevelVerdict, Mixed, Sought, Verdict, Why};

/// The document for one history, an array of documents for several. For printing use [`json_text`]: a
/// [`serde_json::Value`] sorts its keys.
pub fn json(subjects: &[Subject<'_>]) -> serde_json::Value {
    documents(subjects).to_value()
}

/// [`json`] as text, keys in the order of the contract.
pub fn json_text(subjects: &[Subject<'_>]) -> String {
    documents(subjects).pretty()
}

fn documents(subjects: &[Subject<'_>]) -> Doc {
    match subjects {
        [one] => document(one),
        many => Doc::Array(many.iter().map(document).collect()),
    }
}

/// The document for one history.
pub fn document(subject: &Subject<'_>) -> Doc {
    let judgement = subject.judgement;
    let mut fields = vec![
        ("anomalist", env!("CARGO_PKG_VERSION").into()),
        ("schema", 2.into()),
        ("outcome", subject.outcome().name().into()),
        ("exit", u64::from(subject.outcome().exit_status()).into()),
        ("history", facts(subject)),
        // Of the weak levels and of TAP-a to TAP-n.
        ("definitions", judgement.definitions.name().into()),
        ("levels", Doc::Array(judgement.levels.iter().map(level).collect())),
        ("strongest", names(&judgement.strongest())),
        // What it is the strongest of.
        ("strongest_of", subject.scope().into()),
        ("anomalies", Doc::Array(judgement.anomalies.iter().map(|a| anomaly(subject, a)).collect())),
    ];
    if let Some(why) = subject.vacuity() {
        fields.push(("vacuous", why.into()));
    }
    if !judgement.sought.is_empty() {
        fields.push(("sought", Doc::Array(judgement.sought.iter().map(sought).collect())));
    }
    if let Some(mixed) = &judgement.mixed {
        fields.push(("mixed", self::mixed(subject.history, mixed)));
    }
    if !judgement.notes.is_empty() {
        fields.push(("notes", Doc::texts(&judgement.notes)));
    }
    if !subject.required.is_empty() {
        fields.push(("required", names(subject.required)));
    }
    if let Some(timing) = subject.timing {
        let times = vec![("load", Doc::millis(timing.load_ms)), ("check", Doc::millis(timing.check_ms))];
        fields.push(("timing_ms", Doc::Object(times)));
    }
    Doc::Object(fields)
}

fn sought((kind, answer): &(AnomalyKind, Sought)) -> Doc {
    let mut fields =
        vec![("kind", kind.name().into()), ("code", kind.code().into()), ("answer", answer.name().into())];
    if let Sought::Unknown(why) = answer {
        fields.extend(unknown(why));
    }
    Doc::Object(fields)
}

/// Why something is not known: a sentence for people, a code for programs.
fn unknown(why: &Why) -> [(&'static str, Doc); 2] {
    [("reason", Doc::text(reason(why))), ("reason_code", why.code().into())]
}

fn mixed(history: &History, mixed: &Mixed) -> Doc {
    let count = |&(level, count): &(Level, u64)| {
        Doc::Object(vec![("level", level.name().into()), ("transactions", count.into())])
    };
    let mut fields = vec![
        ("verdict", mixed.verdict.name().into()),
        ("levels", Doc::Array(mixed.levels.iter().map(count).collect())),
    ];
    if let Verdict::Unknown(why) = &mixed.verdict {
        fields.extend(unknown(why));
    }
    let names: Vec<String> = mixed.transactions.iter().map(|&t| history.raw_name(t)).collect();
    fields.push(("transactions", Doc::texts(&names)));
    if let Some(why) = crate::text::mixed_explanation(history, mixed) {
        fields.push(("explanation", Doc::text(why)));
    }
    Doc::Object(fields)
}

fn names(levels: &[Level]) -> Doc {
    Doc::texts(levels)
}

fn facts(subject: &Subject<'_>) -> Doc {
    let facts = subject.facts;
    let mut fields = vec![
        ("path", Doc::text(&facts.path)),
        ("format", Doc::text(&facts.format)),
        ("kind", facts.kind.into()),
        ("sessions", facts.sessions.into()),
        ("transactions", facts.transactions.into()),
        ("aborted", facts.aborted.into()),
        ("indeterminate", facts.indeterminate.into()),
        ("operations", facts.operations.into()),
        ("keys", facts.keys.into()),
    ];
    // What `invoked` and `completed` of transactions count, if the history says so.
    fields.extend(subject.history.clock().map(|clock| ("clock", clock.name().into())));
    Doc::Object(fields)
}

fn level(verdict: &LevelVerdict) -> Doc {
    let mut fields = vec![
        ("level", verdict.level.name().into()),
        ("verdict", verdict.verdict.name().into()),
        ("by", verdict.by.name().into()),
    ];
    if let Verdict::Unknown(why) = &verdict.verdict {
        fields.extend(unknown(why));
    }
    fields.push(("anomalies", Doc::texts(&verdict.anomalies)));
    Doc::Object(fields)
}

/// The most transactions that a result names as places of instances.
const INSTANCES: usize = 100;

/// Names of transactions that instances are seen in; of more than fit, some evenly spread over the history.
fn instances(history: &History, places: &[TxnId]) -> Vec<Doc> {
    let count = places.len().min(INSTANCES);
    (0..count).map(|i| history.raw_name(places[i * places.len() / count]).into()).collect()
}

/// A kind of anomaly. `same_as` is an earlier kind with the same example.
fn anomaly(subject: &Subject<'_>, anomaly: &Anomaly) -> Doc {
    let (history, further) = (subject.history, &subject.judgement.further);
    let view = WitnessView::new(history, anomaly);
    let mut fields = vec![("kind", anomaly.kind.name().into()), ("code", anomaly.kind.code().into())];
    match everyday(history, anomaly) {
        "" => {}
        title => fields.push(("title", title.into())),
    }
    if let Some(pattern) = anomaly.pattern(history) {
        fields.push(("pattern", pattern.name().into()));
    }
    fields.push(("count", anomaly.count.into()));
    if anomaly.places.len() > 1 {
        fields.push(("instances", Doc::Array(instances(history, &anomaly.places))));
    }
    fields.push(("rules_out", names(&anomaly.kind.rules_out())));
    if let Some(twin) = subject.twin(anomaly) {
        fields.push(("same_as", twin.kind.name().into()));
    }
    fields.extend(shown(view));
    let mut further = further.iter().filter(|a| a.kind == anomaly.kind).peekable();
    if further.peek().is_some() {
        let more = further.map(|a| Doc::Object(shown(WitnessView::new(history, a)).into()));
        fields.push(("further", Doc::Array(more.collect())));
    }
    Doc::Object(fields)
}
