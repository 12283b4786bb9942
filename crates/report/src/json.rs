//! `anomalist check --json`, schema 2: `docs/json.md`.
//!
//! The fields and their order are a contract with scripts; new fields may be added, old ones stay. Values
//! and keys have their types: numbers, strings, `null`, arrays for lists. A transaction of a witness lists
//! all its operations if they are few, else those that matter (`operations_total` then says how many there
//! are).

use crate::Subject;
use crate::doc::Doc;
use crate::explain::explain;
use crate::unknown::reason;
use crate::witness_view::{WitnessView, letter};
use anomalist_history::{AtomKind, History, OpId, OpKind, Outcome, TxnId, Value, View};
use anomalist_level::{
    Anomaly, AnomalyKind, Edge, Evidence, Level, LevelVerdict, Mixed, Node, Sought, Verdict, Why,
};

/// Transactions up to this size are shown whole.
const WHOLE: usize = 32;

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
    Doc::Object(vec![
        ("path", Doc::text(&facts.path)),
        ("format", Doc::text(&facts.format)),
        ("kind", facts.kind.into()),
        ("sessions", facts.sessions.into()),
        ("transactions", facts.transactions.into()),
        ("aborted", facts.aborted.into()),
        ("indeterminate", facts.indeterminate.into()),
        ("operations", facts.operations.into()),
        ("keys", facts.keys.into()),
    ])
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

/// A kind of anomaly. `same_as` is an earlier kind with the same example.
fn anomaly(subject: &Subject<'_>, anomaly: &Anomaly) -> Doc {
    let (history, further) = (subject.history, &subject.judgement.further);
    let view = WitnessView::new(history, anomaly);
    let mut fields = vec![("kind", anomaly.kind.name().into()), ("code", anomaly.kind.code().into())];
    if let Some(pattern) = anomaly.pattern(history) {
        fields.push(("pattern", pattern.name().into()));
    }
    fields.push(("count", anomaly.count.into()));
    fields.push(("rules_out", names(&anomaly.kind.rules_out())));
    if let Some(twin) = subject.twin(anomaly) {
        fields.push(("same_as", twin.kind.name().into()));
    }
    fields.extend(shown(&view));
    let mut further = further.iter().filter(|a| a.kind == anomaly.kind).peekable();
    if further.peek().is_some() {
        let more = further.map(|a| Doc::Object(shown(&WitnessView::new(history, a)).into()));
        fields.push(("further", Doc::Array(more.collect())));
    }
    Doc::Object(fields)
}

/// An example: its witness, and what that means.
fn shown(view: &WitnessView<'_>) -> [(&'static str, Doc); 2] {
    let witness = vec![
        ("transactions", Doc::Array(view.txns.iter().map(|&t| transaction(view, t)).collect())),
        ("edges", Doc::Array(view.anomaly.witness.edges.iter().map(|e| edge(view, e)).collect())),
    ];
    [("witness", Doc::Object(witness)), ("explanation", explain(view.history, view.anomaly).into())]
}

fn transaction(view: &WitnessView<'_>, t: TxnId) -> Doc {
    let history = view.history;
    let session = history.session_label(history.session_of(t));
    let mut fields = vec![
        ("name", history.raw_name(t).into()),
        ("alias", view.name(t).into()),
        ("session", typed(history, session)),
    ];
    if let Some(line) = history.line(t) {
        fields.push(("line", u64::from(line).into()));
    }
    match history.outcome(t) {
        Outcome::Committed => {}
        Outcome::Aborted => fields.push(("outcome", "aborted".into())),
        Outcome::Indeterminate => fields.push(("outcome", "indeterminate".into())),
    }
    let total = history.op_range(t).len();
    let shown = history.ops(t).filter(|(op, _)| total <= WHOLE || view.matters(*op));
    let operations = shown
        .map(|(op, o)| {
            let mut fields = vec![
                ("type", letter(o.kind).into()),
                ("key", typed(history, history.key_label(o.key))),
                ("value", value(view, op)),
            ];
            if view.matters(op) {
                fields.push(("matters", Doc::Bool(true)));
            }
            Doc::Object(fields)
        })
        .collect();
    if total > WHOLE {
        fields.push(("operations_total", (total as u64).into()));
    }
    fields.push(("operations", Doc::Array(operations)));
    Doc::Object(fields)
}

/// Lists up to this length are shown in full, of longer ones their end.
const LONGEST: usize = 100;
const END: usize = 20;

fn value(view: &WitnessView<'_>, op: OpId) -> Doc {
    typed(view.history, view.history.op(op).value)
}

/// A value with its type.
fn typed(history: &History, value: Value) -> Doc {
    match value.view() {
        View::Nil => Doc::Null,
        View::Unknown => "?".into(),
        View::Int(i) => Doc::Number(i.into()),
        View::Atom(id) => match history.atom(id) {
            (AtomKind::Keyword, text) => format!(":{text}").into(),
            (AtomKind::Token, "true") => Doc::Bool(true),
            (AtomKind::Token, "false") => Doc::Bool(false),
            (AtomKind::Token, text) => match text.parse::<serde_json::Number>() {
                // Others would lose digits.
                Ok(number) if number.to_string() == text => Doc::Number(number),
                _ => text.into(),
            },
            (_, text) => text.into(),
        },
        View::List(_) => {
            let elements = history.list(value).unwrap_or_default();
            let docs = |elements: &[Value]| Doc::Array(elements.iter().map(|&e| typed(history, e)).collect());
            match elements.len() {
                0..=LONGEST => docs(elements),
                long => Doc::Object(vec![
                    ("length", (long as u64).into()),
                    ("end", docs(&elements[long - END..])),
                ]),
            }
        }
    }
}

fn node(history: &History, node: Node) -> Doc {
    match node {
        Node::Initial => "initial".into(),
        Node::Txn(t) => history.raw_name(t).into(),
    }
}

fn edge(view: &WitnessView<'_>, edge: &Edge) -> Doc {
    let history = view.history;
    let mut fields = vec![
        ("from", node(history, edge.from)),
        ("to", node(history, edge.to)),
        ("type", edge.relation.name().into()),
    ];
    let mut about = |op: OpId| {
        fields.push(("key", typed(history, history.key_label(history.op(op).key))));
        fields.push(("value", value(view, op)));
    };
    match &edge.evidence {
        Evidence::Session | Evidence::RealTime => {}
        Evidence::Read { write, read } => about(element(history, *write).unwrap_or(*read)),
        Evidence::Version { first, second, read } => {
            about(*second);
            fields.push(("after", value(view, *first)));
            fields.push(("shown_by", node(history, Node::Txn(history.txn_of(*read)))));
            fields.push(("read", value(view, *read)));
        }
        Evidence::Ordered { first, second, reason } => {
            about(*second);
            fields.push(("after", value(view, *first)));
            fields.push(("reason", crate::versions::reason(view, *reason).into()));
        }
        Evidence::Overwritten { read, write, reason, .. } => {
            about(*write);
            fields.push(("read", value(view, *read)));
            fields.push(("reason", crate::versions::reason(view, *reason).into()));
        }
        Evidence::Given { reason, operations } => {
            if let Some(&op) = operations.last() {
                about(op);
            }
            fields.push(("reason", reason.to_string().into()));
        }
        Evidence::Forced { read, visible_write, path, .. } => {
            about(*visible_write);
            fields.push(("because", node(history, Node::Txn(history.txn_of(*read)))));
            fields.push(("read", value(view, *read)));
            // A path is made of plain edges, so this goes one level deep.
            fields.push(("path", Doc::Array(path.iter().map(|e| self::edge(view, e)).collect())));
        }
    }
    Doc::Object(fields)
}

/// An append's element says more about an edge than the whole list that was read.
fn element(history: &History, write: Option<OpId>) -> Option<OpId> {
    write.filter(|&w| history.op(w).kind == OpKind::Append)
}
