//! Sentences for anomalies that are no cycle: reads that no write explains, and reads that contradict one
//! another.
//!
//! A witness that lacks what its kind usually has (another engine made it) is reported operation by
//! operation instead.

use crate::explain::{did, saw, whose};
use crate::layout::listed;
use crate::witness_view::{WitnessView, repeated};
use anomalist_history::{Op, OpId, OpKind, TxnId, Value};
use anomalist_level::{AnomalyKind, Evidence};

/// The steps for a kind that has sentences of its own.
pub(crate) fn steps(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let step = match view.anomaly.kind {
        AnomalyKind::ThinAirRead => thin_air(view)?,
        AnomalyKind::AbortedRead | AnomalyKind::G1a => aborted(view)?,
        AnomalyKind::FutureRead | AnomalyKind::ElleFutureRead => future(view)?,
        AnomalyKind::NotMyOwnWrite | AnomalyKind::NotMyLastWrite => own_write(view)?,
        AnomalyKind::IntermediateRead | AnomalyKind::G1b => intermediate(view)?,
        AnomalyKind::NonRepeatableRead => return non_repeatable(view),
        AnomalyKind::DuplicateElements => duplicate(view)?,
        AnomalyKind::IncompatibleOrder => return incompatible(view),
        kind if kind.is_stamp() => return crate::stamps::steps(view),
        AnomalyKind::LostUpdate => return lost_update(view),
        AnomalyKind::DirtyUpdate => return dirty_update(view),
        AnomalyKind::Internal => return internal(view),
        AnomalyKind::PredicateReadMiss => return missed_row(view),
        _ => return None,
    };
    Some(vec![step])
}

/// What every transaction did, and the definition that this breaks.
pub(crate) fn plain(view: &WitnessView<'_>) -> Vec<String> {
    let mut steps = Vec::new();
    for &t in &view.txns {
        let deeds: Vec<String> =
            view.history.ops(t).filter(|(op, _)| view.matters(*op)).map(|(op, _)| did(view, op)).collect();
        if !deeds.is_empty() {
            steps.push(format!("{} {}.", view.name(t), listed(&deeds)));
        }
    }
    steps.push(view.anomaly.kind.info().definition.to_owned());
    steps
}

fn reads(view: &WitnessView<'_>) -> Vec<OpId> {
    view.ops_in_order().into_iter().filter(|&op| view.history.op(op).kind == OpKind::Read).collect()
}

fn writes(view: &WitnessView<'_>) -> Vec<OpId> {
    view.ops_in_order().into_iter().filter(|&op| view.history.op(op).kind != OpKind::Read).collect()
}

fn reader(view: &WitnessView<'_>, read: OpId) -> TxnId {
    view.history.txn_of(read)
}

fn thin_air(view: &WitnessView<'_>) -> Option<String> {
    let read = *reads(view).first()?;
    let (history, key) = (view.history, view.key_of(read));
    let op = history.op(read);
    let seen = format!("{} read {key} = {}", view.name(reader(view, read)), view.value(read));
    let Some(elements) = history.list(op.value) else {
        return Some(format!("{seen}, but no transaction wrote {} to {key}.", view.value(read)));
    };
    let is_append = |i: usize| history.heads()[i].key() == op.key && !history.heads()[i].is_read();
    let appended: std::collections::BTreeSet<Value> =
        (0..history.op_count()).filter(|&i| is_append(i)).map(|i| history.values()[i]).collect();
    let unwritten: Vec<String> =
        elements.iter().filter(|e| !appended.contains(e)).take(3).map(|&e| view.atom(e)).collect();
    Some(format!("{seen}, but no transaction appended {} to {key}.", listed(&unwritten)))
}

fn aborted(view: &WitnessView<'_>) -> Option<String> {
    let read = *reads(view).first()?;
    let write = *writes(view).first()?;
    Some(format!(
        "{}. {} aborted, so no read should return it.",
        saw(view, read, Some(write)),
        view.name(view.history.txn_of(write))
    ))
}

fn future(view: &WitnessView<'_>) -> Option<String> {
    let read = *reads(view).first()?;
    let write = *writes(view).last()?;
    let name = view.name(reader(view, read));
    Some(format!("{name} {}, and only after that {}.", did(view, read), did(view, write)))
}

fn own_write(view: &WitnessView<'_>) -> Option<String> {
    let read = *reads(view).first()?;
    let t = reader(view, read);
    let writes = writes(view);
    let own: Vec<OpId> =
        writes.iter().copied().filter(|&w| view.history.txn_of(w) == t && w < read).collect();
    let foreign = writes.iter().copied().find(|&w| view.history.txn_of(w) != t);
    let last = *own.last()?;
    let deeds: Vec<String> = own.iter().map(|&w| did(view, w)).collect();
    let reported = format!(
        "{} {}, and then read {} = {}",
        view.name(t),
        deeds.join(", then "),
        view.key_of(read),
        view.value(read)
    );
    let value = view.history.op(read).value;
    if view.anomaly.kind == AnomalyKind::NotMyLastWrite {
        return Some(format!("{reported}: one of its own values, but not the last.",));
    }
    let source = match foreign {
        Some(_) => whose(view, read, foreign),
        None if view.history.list(value).is_none()
            && view.history.initial().of(view.history.op(read).key) == Some(value) =>
        {
            whose(view, read, None)
        }
        None => String::new(),
    };
    Some(format!("{reported}{source}. It should have read its own {}.", view.value(last)))
}

fn intermediate(view: &WitnessView<'_>) -> Option<String> {
    let read = *reads(view).first()?;
    let write = *writes(view).first()?;
    let writer = view.history.txn_of(write);
    let later = view
        .history
        .ops(writer)
        .filter(|(op, o)| *op > write && o.kind != OpKind::Read && o.key == view.history.op(write).key)
        .map(|(op, _)| op)
        .next_back();
    let went_on = match later {
        Some(later) => format!("{} then {} in the same transaction", view.name(writer), did(view, later)),
        None => format!("{} went on to replace it", view.name(writer)),
    };
    Some(format!(
        "{}. But {went_on}, so the first value should never have been seen.",
        saw(view, read, Some(write))
    ))
}

fn non_repeatable(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let seen: Vec<(OpId, Option<OpId>)> = view
        .anomaly
        .witness
        .edges
        .iter()
        .filter_map(|e| match e.evidence {
            Evidence::Read { write, read } => Some((read, write)),
            _ => None,
        })
        .collect();
    let [(first, from), (second, then)] = *seen.as_slice() else { return None };
    let name = view.name(reader(view, first));
    let key = view.key_of(first);
    // Plume's definition counts reads after own writes, too.
    let history = view.history;
    let own = |o: Op| o.kind == OpKind::Write && o.key == history.op(second).key;
    let mut before = history.ops(reader(view, first)).take_while(|(op, _)| *op < second);
    let why = match before.any(|(_, o)| own(o)) {
        false => format!("{name} did not write {key} in between, so both reads should have agreed."),
        true => format!(
            "{name} wrote {key} itself, but both reads are of others' values, so they should have agreed."
        ),
    };
    Some(vec![format!("{}.", saw(view, first, from)), format!("Later {}.", saw(view, second, then)), why])
}

fn duplicate(view: &WitnessView<'_>) -> Option<String> {
    let read = *reads(view).first()?;
    let elements = view.history.list(view.history.op(read).value)?;
    let twice = repeated(elements)?;
    let places: Vec<String> =
        (0..elements.len()).filter(|&i| elements[i] == twice).take(4).map(|i| (i + 1).to_string()).collect();
    Some(format!(
        "{} {}: element {} is in it more than once, at positions {}.",
        view.name(reader(view, read)),
        did(view, read),
        view.atom(twice),
        listed(&places)
    ))
}

fn incompatible(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let [a, b, ..] = *reads(view).as_slice() else { return None };
    let list = |op: OpId| view.history.list(view.history.op(op).value);
    let (left, right) = (list(a)?, list(b)?);
    let at = left.iter().zip(right).position(|(l, r)| l != r)?;
    Some(vec![
        format!("{} {}.", view.name(reader(view, a)), did(view, a)),
        format!("{} {}.", view.name(reader(view, b)), did(view, b)),
        format!(
            "At position {} one has {} and the other {}: no single order of appends gives both.",
            at + 1,
            view.atom(left[at]),
            view.atom(right[at])
        ),
    ])
}

fn lost_update(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    for read in reads(view) {
        let (t, key) = (reader(view, read), view.history.op(read).key);
        let write = writes(view)
            .into_iter()
            .find(|&w| view.history.txn_of(w) == t && w > read && view.history.op(w).key == key)?;
        let source = view.anomaly.witness.edges.iter().find_map(|e| match e.evidence {
            Evidence::Read { write, read: r } if r == read => Some(write),
            _ => None,
        });
        let again = if steps.is_empty() { "" } else { ", the same version," };
        let seen =
            source.map_or_else(|| format!("{} {}", view.name(t), did(view, read)), |w| saw(view, read, w));
        steps.push(format!("{seen}{again} and then {}.", did(view, write)));
    }
    if steps.len() < 2 {
        return None;
    }
    steps.push("Whichever of them wrote second overwrote what it had not seen.".to_owned());
    Some(steps)
}

fn dirty_update(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let (first, second, read) = view.anomaly.witness.edges.iter().find_map(|e| match e.evidence {
        Evidence::Version { first, second, read } => Some((first, second, read)),
        _ => None,
    })?;
    let name = |op: OpId| view.name(view.history.txn_of(op));
    Some(vec![
        format!("{} {} and aborted.", name(first), did(view, first)),
        format!("{} {} and committed.", name(second), did(view, second)),
        format!(
            "{} {}: the committed append was made to a list that held the aborted one.",
            name(read),
            did(view, read)
        ),
    ])
}

/// A row that a read by predicate left out: the predicate is not in the history, so the reason names it.
fn missed_row(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let (to, reason) = view.anomaly.witness.edges.iter().find_map(|e| match &e.evidence {
        Evidence::Given { reason, .. } => Some((e.to, reason)),
        _ => None,
    })?;
    let written = writes(view)
        .first()
        .map(|&write| format!("{} {}.", view.name(view.history.txn_of(write)), did(view, write)));
    Some(written.into_iter().chain([format!("{}: {reason}.", view.node(to))]).collect())
}

fn internal(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let t = *view.txns.first()?;
    let deeds: Vec<String> = view.ops_in_order().into_iter().map(|op| did(view, op)).collect();
    let (last, before) = deeds.split_last()?;
    Some(vec![
        format!("{} {}, and then {last}.", view.name(t), before.join(", then ")),
        "Apart from its own appends, both reads should have returned the same list.".to_owned(),
    ])
}
