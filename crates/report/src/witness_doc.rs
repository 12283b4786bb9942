//! Witnesses in the JSON of a result: transactions with what they did, edges with their evidence, the
//! arrows of the picture, and the sentences with what each is about.
//!
//! Values and keys have their types: numbers, strings, `null`, arrays for lists. A transaction lists all its
//! operations if they are few, else those that matter (`operations_total` then says how many there are).
//! Operations are referred to by the alias of their transaction and their place in that list.

use crate::doc::Doc;
use crate::explain::{explain, fact, sentences};
use crate::marks::Said;
use crate::otherwise::otherwise;
use crate::svg::arrows::{Arrow, arrows, is_bystander};
use crate::witness_view::{WitnessView, letter};
use anomalist_history::{AtomKind, History, OpId, OpKind, Outcome, Timestamp, TxnId, Value, View};
use anomalist_level::{AnomalyKind, Edge, Evidence, Node};

/// Transactions up to this size are shown whole.
const WHOLE: usize = 32;

/// An example: its witness, and what that means.
pub(crate) fn shown(view: WitnessView<'_>) -> [(&'static str, Doc); 3] {
    let arrows = arrows(&view);
    let mut witness = vec![
        ("transactions", Doc::Array(view.txns.iter().map(|&t| transaction(&view, &arrows, t)).collect())),
        ("edges", Doc::Array(view.anomaly.witness.edges.iter().map(|e| edge(&view, e)).collect())),
        ("arrows", Doc::Array(arrows.iter().map(|a| arrow(&view, a)).collect())),
    ];
    witness.extend(expected(&view));
    let explanation = explain(view.history, view.anomaly).into();
    let view = view.marking();
    let steps = sentences(&view).into_iter().map(|sentence| {
        let said = Said::of(&sentence.text);
        let mut fields = vec![("text", Doc::text(&said.text))];
        if sentence.depth > 0 {
            fields.push(("depth", (sentence.depth as u64).into()));
        }
        let edges = sentence.edges.into_iter().map(|i| (i as u64).into());
        fields.push(("edges", Doc::Array(edges.collect())));
        if sentence.behind {
            fields.push(("behind", Doc::Bool(true)));
        }
        fields.push(("transactions", Doc::texts(said.txns.iter().map(|&t| alias(&view, t)))));
        let operations = said.ops.iter().filter_map(|&op| place(&view, op));
        fields.push(("operations", Doc::Array(operations.collect())));
        Doc::Object(fields)
    });
    let steps = Doc::Array(steps.collect());
    [("witness", Doc::Object(witness)), ("explanation", explanation), ("steps", steps)]
}

/// The short name of a transaction, without marks.
fn alias(view: &WitnessView<'_>, t: TxnId) -> String {
    Said::of(&view.name(t)).text
}

/// The operations of a transaction that are listed.
fn listed<'v>(view: &'v WitnessView<'_>, t: TxnId) -> impl Iterator<Item = OpId> + 'v {
    let all = view.history.op_range(t);
    let whole = all.len() <= WHOLE;
    all.map(|i| OpId(i as u32)).filter(move |&op| whole || view.matters(op))
}

/// Where an operation is listed; `None` if it is not.
fn place(view: &WitnessView<'_>, op: OpId) -> Option<Doc> {
    let t = view.history.txn_of(op);
    let at = listed(view, t).position(|other| other == op).filter(|_| view.txns.contains(&t))?;
    Some(Doc::Array(vec![alias(view, t).into(), (at as u64).into()]))
}

fn arrow(view: &WitnessView<'_>, arrow: &Arrow) -> Doc {
    let end = |node: Node| match node {
        Node::Initial => Doc::Null,
        Node::Txn(t) => alias(view, t).into(),
    };
    let mut fields = vec![
        ("from", end(arrow.from)),
        ("to", end(arrow.to)),
        ("type", arrow.relation.name().into()),
        ("label", Doc::text(&arrow.label)),
    ];
    let ends = [("from_operation", arrow.from_op), ("to_operation", arrow.to_op)];
    fields.extend(ends.into_iter().filter_map(|(name, op)| Some((name, place(view, op?)?))));
    fields.extend(arrow.edge.map(|i| ("edge", (i as u64).into())));
    if !arrow.main {
        fields.push(("behind", Doc::Bool(true)));
    }
    Doc::Object(fields)
}

/// What a read should have returned, where timestamps say it.
fn expected(view: &WitnessView<'_>) -> Option<(&'static str, Doc)> {
    let (&read, writes) = view.anomaly.witness.operations.split_first()?;
    let is_about = matches!(view.anomaly.kind, AnomalyKind::ExtStamp | AnomalyKind::ExtCommit);
    let write = writes.first().copied().filter(|_| is_about)?;
    Some(("expected", Doc::Object(vec![("read", place(view, read)?), ("write", place(view, write)?)])))
}

fn stamp(at: Timestamp) -> Doc {
    match at.logical {
        0 => Doc::Number(at.physical.into()),
        logical => Doc::Array([at.physical, logical].map(|n| Doc::Number(n.into())).into()),
    }
}

/// When it was: by the client's clock, and by the database's.
fn times(history: &History, t: TxnId) -> Vec<(&'static str, Doc)> {
    let mut fields = Vec::new();
    if let Some(interval) = history.intervals().map(|all| all[t.index()]) {
        fields.push(("invoked", interval.invoked.into()));
        fields.extend(interval.completed.map(|end| ("completed", end.into())));
    }
    if let Some(stamps) = history.stamps().map(|all| all[t.index()]) {
        let known = [("start", stamps.start), ("commit", stamps.commit)].into_iter();
        fields.extend(known.filter(|(_, at)| *at != Timestamp::UNKNOWN).map(|(name, at)| (name, stamp(at))));
    }
    fields
}

fn transaction(view: &WitnessView<'_>, arrows: &[Arrow], t: TxnId) -> Doc {
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
    fields.extend(times(history, t));
    if is_bystander(view, arrows, t) {
        fields.push(("bystander", Doc::Bool(true)));
    }
    let operations = listed(view, t)
        .map(|op| {
            let o = history.op(op);
            let mut fields = vec![
                ("type", letter(o.kind).into()),
                ("key", typed(history, history.key_label(o.key))),
                ("value", value(view, op)),
            ];
            if view.matters(op) {
                fields.push(("matters", Doc::Bool(true)));
                fields.push(("shown", view.op(op).into()));
            }
            Doc::Object(fields)
        })
        .collect();
    let total = history.op_range(t).len();
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
        ("fact", format!("{}.", fact(view, edge)).into()),
    ];
    if let Some(sentence) = otherwise(view, edge) {
        fields.push(("otherwise", sentence.into()));
    }
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
