//! The same history for the engines, and as JSON lines for the program.

use crate::model::{Atom, History, Kind, Op, Outcome, Seen};
use anomalist_history as real;
use anomalist_history::{AtomKind, Builder, OpKind, Stamps, Timestamp, Value};
use std::fmt::Write;

fn value(b: &mut Builder, atom: Atom) -> Value {
    atom.map_or(Value::NIL, |v| b.int(i64::from(v)))
}

/// The history as the engines take it. Transactions are labelled with their places here.
///
/// # Panics
/// If it is larger than ids can number.
pub fn history(from: &History) -> real::History {
    let mut b = Builder::new();
    let initial = value(&mut b, from.initial);
    b.set_initial_default(Some(initial));
    for (t, txn) in from.txns.iter().enumerate() {
        let label = b.int(txn.session as i64);
        let session = b.session(label);
        let draft = b.transaction(session);
        let label = b.atom(AtomKind::Text, &format!("t{t}"));
        b.set_label(draft, label);
        b.set_outcome(
            draft,
            match txn.outcome {
                Outcome::Committed => real::Outcome::Committed,
                Outcome::Aborted => real::Outcome::Aborted,
                Outcome::Indeterminate => real::Outcome::Indeterminate,
            },
        );
        if from.has_intervals {
            let (invoked, completed) = txn.interval;
            b.set_interval(draft, real::Interval { invoked, completed });
        }
        if from.has_stamps {
            let at = |physical| Timestamp { physical, logical: 0 };
            b.set_stamps(draft, Stamps { start: at(txn.stamps.0), commit: at(txn.stamps.1) });
        }
        for op in &txn.ops {
            operation(&mut b, draft, op);
        }
    }
    b.finish().unwrap_or_else(|e| panic!("{e}"))
}

fn operation(b: &mut Builder, draft: real::Draft, op: &Op) {
    let name = ["x", "y", "z"].get(op.key()).copied().unwrap_or("w");
    let label = b.atom(AtomKind::Text, name);
    let key = b.key(label);
    let (kind, value) = match op {
        Op::Read(_, Seen::Atom(atom)) => (OpKind::Read, value(b, *atom)),
        Op::Read(_, Seen::List(list)) => {
            let elements: Vec<Value> = list.iter().map(|&e| value(b, e)).collect();
            (OpKind::Read, b.list(&elements))
        }
        Op::Write(_, atom) => (OpKind::Write, value(b, *atom)),
        Op::Append(_, atom) => (OpKind::Append, value(b, *atom)),
    };
    b.op(draft, kind, key, value);
}

/// Whether a history has lists.
pub fn has_lists(from: &History) -> bool {
    from.txns.iter().flat_map(|t| &t.ops).any(|op| from.kinds[op.key()] == Kind::List)
}

fn json(atom: Atom) -> String {
    atom.map_or("null".into(), |v| v.to_string())
}

/// The history in the program's own format.
pub fn lines(from: &History) -> String {
    let mut out = format!("{{\"anomalist\": 1, \"initial\": {}}}\n", json(from.initial));
    for txn in &from.txns {
        let ops: Vec<String> = txn.ops.iter().map(op_json).collect();
        // Writing to a String cannot fail.
        let _ = write!(out, "{{\"session\": {}, \"ops\": [{}]", txn.session, ops.join(", "));
        let _ = match txn.outcome {
            Outcome::Committed => Ok(()),
            Outcome::Aborted => write!(out, ", \"outcome\": \"aborted\""),
            Outcome::Indeterminate => write!(out, ", \"outcome\": \"indeterminate\""),
        };
        if from.has_intervals {
            let end = txn.interval.1.map_or("null".into(), |end| end.to_string());
            let _ = write!(out, ", \"invoked\": {}, \"completed\": {end}", txn.interval.0);
        }
        if from.has_stamps {
            let _ = write!(out, ", \"start\": {}, \"commit\": {}", txn.stamps.0, txn.stamps.1);
        }
        out.push_str("}\n");
    }
    out
}

fn op_json(op: &Op) -> String {
    let (kind, value) = match op {
        Op::Read(_, Seen::Atom(atom)) => ("r", json(*atom)),
        Op::Read(_, Seen::List(list)) => {
            ("r", format!("[{}]", list.iter().map(|&e| json(e)).collect::<Vec<_>>().join(", ")))
        }
        Op::Write(_, atom) => ("w", json(*atom)),
        Op::Append(_, atom) => ("append", json(*atom)),
    };
    let name = ["x", "y", "z"].get(op.key()).copied().unwrap_or("w");
    format!("[\"{kind}\", \"{name}\", {value}]")
}
