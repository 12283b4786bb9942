//! Elle's result as JSON: the keys that elle-cli prints.

use super::extended::Beyond;
use anomalist_history::{AtomKind, History, OpId, OpKind, Outcome, TxnId, Value, View};
use anomalist_jepsen::elle::{Answer, Case, Cycle, Step, Validity};
use anomalist_level::elle::{self, CYCLE_EXISTS, Edge};
use serde_json::{Map, Value as Json, json};

/// The document for one history. If extended, what Anomalist finds beyond is among the anomalies.
pub(super) fn document(history: &History, answer: &Answer, beyond: Option<&Beyond>, extended: bool) -> Json {
    let mut document = Map::new();
    document.insert(
        "valid?".to_owned(),
        match answer.validity {
            Validity::Valid => Json::Bool(true),
            Validity::Invalid => Json::Bool(false),
            Validity::Unknown => "unknown".into(),
        },
    );
    // Sorted by name, as Elle's are.
    let mut anomalies: Map<String, Json> = answer
        .reported
        .iter()
        .map(|(kind, cases)| {
            let described = match cases.as_slice() {
                [Case::EmptyGraph] => Json::Bool(true),
                cases => cases.iter().map(|c| case(history, kind.code(), c)).collect(),
            };
            (kind.code().to_owned(), described)
        })
        .collect();
    if let Some(beyond) = beyond.filter(|_| extended) {
        anomalies.extend(beyond.anomalies().map(|(code, case)| (code.to_owned(), json!([case]))));
    }
    if !anomalies.is_empty() {
        document.insert("anomaly-types".to_owned(), anomalies.keys().cloned().collect());
        document.insert("anomalies".to_owned(), Json::Object(anomalies));
        document.insert("not".to_owned(), names(&answer.not));
        document.insert("also-not".to_owned(), names(&answer.also_not));
    }
    if let Some(objection) = &answer.objection {
        document.insert("error".to_owned(), json!(objection));
    }
    if let Some(beyond) = beyond {
        document.insert("anomalist".to_owned(), beyond.document());
    }
    Json::Object(document)
}

fn names(models: &[&'static elle::Model]) -> Json {
    let mut names: Vec<&str> = models.iter().map(|m| m.printed).collect();
    names.sort_unstable();
    json!(names)
}

fn case(history: &History, kind: &str, case: &Case) -> Json {
    let of = |op: OpId| transaction(history, history.txn_of(op));
    let all = |txns: &[TxnId]| txns.iter().map(|&t| transaction(history, t)).collect::<Json>();
    let values = |list: &[Value]| list.iter().map(|&v| value(history, v)).collect::<Json>();
    let key = |op: OpId| value(history, history.key_label(history.op(op).key));
    match case {
        Case::Internal { read, expected, suffix } => {
            let mut shown: Vec<Json> = expected.iter().map(|&v| value(history, v)).collect();
            if *suffix {
                shown.insert(0, "...".into());
            }
            let is_list = history.list(history.op(*read).value).is_some();
            let expected = if is_list { json!(shown) } else { shown.pop().unwrap_or(Json::Null) };
            json!({"op": of(*read), "mop": mop(history, *read), "expected": expected})
        }
        Case::FutureRead { read, append } => {
            let element = value(history, history.op(*append).value);
            json!({"op": of(*read), "mop": mop(history, *read), "element": element})
        }
        Case::DirtyRead { read, write } => {
            let element = value(history, history.op(*write).value);
            json!({"op": of(*read), "mop": mop(history, *read), "writer": of(*write), "element": element})
        }
        Case::Duplicates { read, elements } => {
            let counts: Map<String, Json> =
                elements.iter().map(|&(v, n)| (history.show(v).raw().to_string(), json!(n))).collect();
            json!({"op": of(*read), "mop": mop(history, *read), "duplicates": counts})
        }
        Case::IncompatibleOrder { shorter, longer } => {
            let read = |op: OpId| value(history, history.op(op).value);
            json!({"key": key(*shorter), "values": [read(*shorter), read(*longer)]})
        }
        Case::DirtyUpdate { key, elements, txns } => {
            let key = value(history, history.key_label(*key));
            json!({"key": key, "values": values(elements), "txns": all(txns)})
        }
        Case::LostUpdate { read, txns } => {
            let seen = value(history, history.op(*read).value);
            json!({"key": key(*read), "value": seen, "txns": all(txns)})
        }
        Case::CyclicVersions { key, values: scc, sources } => {
            let key = value(history, history.key_label(*key));
            json!({"key": key, "scc": values(scc), "sources": sources})
        }
        Case::PredicateReadMiss { txn } => json!({"op": transaction(history, *txn)}),
        Case::Cycle(found) => cycle(history, found),
        Case::CycleExists { model, txns } => {
            let exists = CYCLE_EXISTS.iter().find(|e| e.model == *model);
            let names = |edges: &[Edge]| edges.iter().map(|e| e.name()).collect::<Vec<_>>();
            let (edges, then) = exists.map_or((Vec::new(), Vec::new()), |e| (names(e.edges), names(e.then)));
            let not = elle::models().iter().find(|m| m.level == *model).map_or("", |m| m.printed);
            json!({
                "type": kind,
                "not": not,
                "subgraph": {"edges": edges, "then": then},
                "scc-size": txns.len(),
                "scc": txns.iter().map(|&t| index(history, t)).collect::<Json>(),
            })
        }
        Case::Timeout { searching, size } => {
            json!({"type": kind, "anomaly-spec-type": searching.code(), "scc-size": size})
        }
        Case::EmptyGraph => Json::Bool(true),
    }
}

fn cycle(history: &History, cycle: &Cycle) -> Json {
    let mut ops: Vec<Json> = cycle.steps.iter().map(|s| transaction(history, s.from)).collect();
    ops.extend(cycle.steps.first().map(|s| transaction(history, s.from)));
    let steps: Json = cycle.steps.iter().map(|s| step(history, s)).collect();
    json!({"type": cycle.kind.code(), "cycle": ops, "steps": steps})
}

fn step(history: &History, step: &Step) -> Json {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), step.relation.name().into());
    let mut put = |name: &str, value: Json| _ = fields.insert(name.to_owned(), value);
    if let (Some(first), Some(second)) = (step.first, step.second) {
        let place = |op: OpId| json!(op.index() - history.op_range(history.txn_of(op)).start);
        put("key", value(history, history.key_label(history.op(second).key)));
        let (before, after) = (history.op(first).value, history.op(second).value);
        match step.relation {
            Edge::Wr => put("value", value(history, before)),
            Edge::Ww => {
                put("value", value(history, before));
                put("value'", value(history, after));
            }
            _ => {
                let seen =
                    history.list(before).map_or(before, |list| list.last().copied().unwrap_or(Value::NIL));
                put("value", if seen == Value::NIL { "init".into() } else { value(history, seen) });
                put("value'", value(history, after));
            }
        }
        put("a-mop-index", place(first));
        put("b-mop-index", place(second));
    } else if step.relation == Edge::Process {
        put("process", value(history, history.session_label(history.session_of(step.from))));
    } else if let Some(intervals) = history.intervals() {
        put("a'", json!(intervals[step.from.index()].completed));
        put("b", json!(intervals[step.to.index()].invoked));
    }
    Json::Object(fields)
}

/// The number of a transaction's completion.
fn index(history: &History, t: TxnId) -> Json {
    history.txn_label(t).map_or_else(|| json!(history.position(t)), |label| value(history, label))
}

fn transaction(history: &History, t: TxnId) -> Json {
    let outcome = match history.outcome(t) {
        Outcome::Committed => "ok",
        Outcome::Aborted => "fail",
        Outcome::Indeterminate => "info",
    };
    json!({
        "index": index(history, t),
        "type": outcome,
        "process": value(history, history.session_label(history.session_of(t))),
        "f": "txn",
        "value": history.ops(t).map(|(op, _)| mop(history, op)).collect::<Json>(),
    })
}

fn mop(history: &History, op: OpId) -> Json {
    let o = history.op(op);
    let name = match o.kind {
        OpKind::Read => "r",
        OpKind::Write => "w",
        OpKind::Append => "append",
    };
    json!([name, value(history, history.key_label(o.key)), value(history, o.value)])
}

fn value(history: &History, v: Value) -> Json {
    match v.view() {
        View::Nil | View::Unknown => Json::Null,
        View::Int(i) => json!(i),
        View::List(_) => history.list(v).unwrap_or_default().iter().map(|&e| value(history, e)).collect(),
        View::Atom(id) => match history.atom(id) {
            (AtomKind::Token | AtomKind::Compound, text) => {
                serde_json::from_str(text).unwrap_or_else(|_| text.into())
            }
            (_, text) => text.into(),
        },
    }
}
