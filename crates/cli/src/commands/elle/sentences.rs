//! What was found, in sentences.

use anomalist_history::{History, OpId, OpKind, Outcome, TxnId, Value};
use anomalist_jepsen::elle::{Case, Cycle, Step};
use anomalist_level::elle::Edge;
use std::fmt::Write;

/// One occurrence of an anomaly.
pub(super) fn case(history: &History, case: &Case) -> String {
    let name = |op: OpId| history.txn_name(history.txn_of(op));
    let key = |op: OpId| history.show_key(history.op(op).key);
    let value = |op: OpId| history.show(history.op(op).value);
    match case {
        Case::Cycle(found) => cycle(history, found),
        Case::PredicateReadMiss { txn } => {
            format!("{} missed a row that matched its predicate in every version.\n", history.txn_name(*txn))
        }
        Case::Internal { read, expected, suffix } => {
            let shown = list(history, expected);
            let should = match (history.list(history.op(*read).value), suffix) {
                (Some(_), true) => format!("a list that ends with [{shown}]"),
                (Some(_), false) => format!("[{shown}]"),
                (None, _) => shown,
            };
            let (reader, key, value) = (name(*read), key(*read), value(*read));
            format!(
                "{reader} read {key} = {value}, but after what it did and saw before it had to be {should}.\n"
            )
        }
        Case::FutureRead { read, append } => format!(
            "{} read {} = {} and only then appended {}.\n",
            name(*read),
            key(*read),
            value(*read),
            value(*append)
        ),
        Case::DirtyRead { read, write } => {
            let fate = match history.outcome(history.txn_of(*write)) {
                Outcome::Aborted => "which failed",
                _ => "which then wrote the key again",
            };
            let (reader, key, seen) = (name(*read), key(*read), value(*read));
            format!("{reader} read {key} = {seen}, with {} from {}, {fate}.\n", value(*write), name(*write))
        }
        Case::Duplicates { read, elements } => {
            let times: Vec<String> =
                elements.iter().map(|&(v, n)| format!("{} {n} times", history.show(v))).collect();
            format!("{} read {} = {}, with {}.\n", name(*read), key(*read), value(*read), times.join(", "))
        }
        Case::IncompatibleOrder { shorter, longer } => format!(
            "{} read {} = {}, and {} read {}: neither begins with the other.\n",
            name(*shorter),
            key(*shorter),
            value(*shorter),
            name(*longer),
            value(*longer)
        ),
        Case::DirtyUpdate { key, elements, txns } => format!(
            "key {} went through {}, written by {}: the first failed, and the last committed on top of it.\n",
            history.show_key(*key),
            list(history, elements),
            txn_names(history, txns)
        ),
        Case::LostUpdate { read, txns } => format!(
            "{} all read {} = {} and then wrote it: at most one can have seen the others.\n",
            txn_names(history, txns),
            key(*read),
            value(*read)
        ),
        Case::CyclicVersions { key, values, sources } => format!(
            "versions {} of key {} would each have to come before the others, according to {}.\n",
            list(history, values),
            history.show_key(*key),
            sources.join(", ")
        ),
        Case::CycleExists { model, txns } => {
            format!("some cycle among {} transactions rules out {}.\n", txns.len(), model.name())
        }
        Case::Timeout { searching, size } => {
            format!("the search for {} among {size} transactions was stopped.\n", searching.code())
        }
        Case::EmptyGraph => "no transaction depends on any other: nothing could be seen.\n".to_owned(),
    }
}

fn list(history: &History, values: &[Value]) -> String {
    values.iter().map(|&v| history.show(v).to_string()).collect::<Vec<_>>().join(" ")
}

fn txn_names(history: &History, txns: &[TxnId]) -> String {
    txns.iter().map(|&t| history.txn_name(t)).collect::<Vec<_>>().join(", ")
}

fn cycle(history: &History, cycle: &Cycle) -> String {
    let mut order: Vec<TxnId> = cycle.steps.iter().map(|s| s.from).collect();
    order.sort_by_key(|&t| history.position(t));
    let alias = |t: TxnId| format!("T{}", order.iter().position(|&o| o == t).map_or(0, |i| i + 1));
    let mut text = String::from("Let:\n");
    for &t in &order {
        let ops: Vec<String> = history.ops(t).map(|(op, _)| operation(history, op)).collect();
        let line = history.line(t).map_or(String::new(), |line| format!(" (line {line})"));
        let _ = writeln!(text, "  {} = {}{line}: {}", alias(t), history.txn_name(t), ops.join(", "));
    }
    text.push_str("\nThen:\n");
    let last = cycle.steps.len().saturating_sub(1);
    for (i, step) in cycle.steps.iter().enumerate() {
        let (a, b) = (alias(step.from), alias(step.to));
        let why = reason(history, step, &a, &b);
        if i == last {
            let _ = writeln!(text, "  - However, {a} < {b}, because {why}: a contradiction.");
        } else {
            let _ = writeln!(text, "  - {a} < {b}, because {why}.");
        }
    }
    text
}

fn operation(history: &History, op: OpId) -> String {
    let o = history.op(op);
    let (key, value) = (history.show_key(o.key), history.show(o.value));
    match o.kind {
        OpKind::Read => format!("read {key} = {value}"),
        OpKind::Write => format!("wrote {key} = {value}"),
        OpKind::Append => format!("appended {value} to {key}"),
    }
}

/// Why `a`, the first transaction of a step, comes before `b`, the second.
pub(super) fn reason(history: &History, step: &Step, a: &str, b: &str) -> String {
    let (Some(first), Some(second)) = (step.first, step.second) else {
        return match step.relation {
            Edge::Process => {
                let process = history.show(history.session_label(history.session_of(step.from)));
                format!("process {process} ran {a} before {b}")
            }
            _ => match history.intervals().map(|i| (i[step.from.index()], i[step.to.index()])) {
                Some((from, to)) => format!(
                    "{a} had completed (event {}) before {b} was invoked (event {})",
                    from.completed.unwrap_or_default(),
                    to.invoked
                ),
                None => format!("{a} had completed before {b} was invoked"),
            },
        };
    };
    let key = history.show_key(history.op(second).key);
    let (before, after) = (history.op(first).value, history.op(second).value);
    let (before_shown, after_shown) = (history.show(before), history.show(after));
    let appends = [first, second].iter().any(|&op| history.op(op).kind == OpKind::Append);
    match (step.relation, appends) {
        (Edge::Wr, true) => format!("{b} read {key} with {before_shown} at its end, which {a} appended"),
        (Edge::Wr, false) => format!("{b} read {key} = {before_shown}, which {a} wrote"),
        (Edge::Ww, true) => {
            format!("{b} appended {after_shown} to {key} after {a} had appended {before_shown}")
        }
        (Edge::Ww, false) => {
            format!("{b} wrote {key} = {after_shown}, a later version than {a}'s {before_shown}")
        }
        (_, true) => match history.list(before).and_then(|list| list.last()) {
            Some(&last) => format!(
                "{a} read {key} up to {} and did not see {after_shown}, which {b} appended",
                history.show(last)
            ),
            None => format!("{a} found {key} empty, before {b} appended {after_shown}"),
        },
        (_, false) => {
            format!("{a} read {key} = {before_shown}, an earlier version than {after_shown}, which {b} wrote")
        }
    }
}
