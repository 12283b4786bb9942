//! Sentences for anomalies that are no cycle: reads that no write explains, and reads that contradict one
//! another.
//!
//! A witness that lacks what its kind usually has (another engine made it) is told operation by operation
//! instead.

use crate::cast::{Cast, repeated};
use crate::explain::{did, saw, whose};
use crate::layout::listed;
use anomalist_history::{Op, OpId, OpKind, TxnId, Value};
use anomalist_level::{AnomalyKind, Evidence};

/// The steps for a kind that has sentences of its own.
pub(crate) fn steps(cast: &Cast<'_>) -> Option<Vec<String>> {
    let step = match cast.anomaly.kind {
        AnomalyKind::ThinAirRead => thin_air(cast)?,
        AnomalyKind::AbortedRead | AnomalyKind::G1a => aborted(cast)?,
        AnomalyKind::FutureRead | AnomalyKind::ElleFutureRead => future(cast)?,
        AnomalyKind::NotMyOwnWrite | AnomalyKind::NotMyLastWrite => own_write(cast)?,
        AnomalyKind::IntermediateRead | AnomalyKind::G1b => intermediate(cast)?,
        AnomalyKind::NonRepeatableRead => return non_repeatable(cast),
        AnomalyKind::DuplicateElements => duplicate(cast)?,
        AnomalyKind::IncompatibleOrder => return incompatible(cast),
        kind if kind.is_stamp() => return crate::stamps::steps(cast),
        AnomalyKind::LostUpdate => return lost_update(cast),
        AnomalyKind::DirtyUpdate => return dirty_update(cast),
        AnomalyKind::Internal => return internal(cast),
        _ => return None,
    };
    Some(vec![step])
}

/// What every transaction did, and the definition that this breaks.
pub(crate) fn plain(cast: &Cast<'_>) -> Vec<String> {
    let mut steps = Vec::new();
    for &t in &cast.txns {
        let deeds: Vec<String> =
            cast.history.ops(t).filter(|(op, _)| cast.matters(*op)).map(|(op, _)| did(cast, op)).collect();
        if !deeds.is_empty() {
            steps.push(format!("{} {}.", cast.name(t), listed(&deeds)));
        }
    }
    steps.push(cast.anomaly.kind.info().definition.to_owned());
    steps
}

fn reads(cast: &Cast<'_>) -> Vec<OpId> {
    cast.ops_in_order().into_iter().filter(|&op| cast.history.op(op).kind == OpKind::Read).collect()
}

fn writes(cast: &Cast<'_>) -> Vec<OpId> {
    cast.ops_in_order().into_iter().filter(|&op| cast.history.op(op).kind != OpKind::Read).collect()
}

fn reader(cast: &Cast<'_>, read: OpId) -> TxnId {
    cast.history.txn_of(read)
}

fn thin_air(cast: &Cast<'_>) -> Option<String> {
    let read = *reads(cast).first()?;
    let (history, key) = (cast.history, cast.key_of(read));
    let op = history.op(read);
    let seen = format!("{} read {key} = {}", cast.name(reader(cast, read)), cast.value(read));
    let Some(elements) = history.list(op.value) else {
        return Some(format!("{seen}, but nobody wrote {} to {key}.", cast.value(read)));
    };
    let is_append = |i: usize| history.heads()[i].key() == op.key && !history.heads()[i].is_read();
    let appended: std::collections::BTreeSet<Value> =
        (0..history.op_count()).filter(|&i| is_append(i)).map(|i| history.values()[i]).collect();
    let nobodys: Vec<String> =
        elements.iter().filter(|e| !appended.contains(e)).take(3).map(|&e| cast.atom(e)).collect();
    Some(format!("{seen}, but nobody appended {} to {key}.", listed(&nobodys)))
}

fn aborted(cast: &Cast<'_>) -> Option<String> {
    let read = *reads(cast).first()?;
    let write = *writes(cast).first()?;
    Some(format!(
        "{}. {} aborted, so nobody should have seen that.",
        saw(cast, read, Some(write)),
        cast.name(cast.history.txn_of(write))
    ))
}

fn future(cast: &Cast<'_>) -> Option<String> {
    let read = *reads(cast).first()?;
    let write = *writes(cast).last()?;
    let name = cast.name(reader(cast, read));
    Some(format!("{name} {}, and only after that {}.", did(cast, read), did(cast, write)))
}

fn own_write(cast: &Cast<'_>) -> Option<String> {
    let read = *reads(cast).first()?;
    let t = reader(cast, read);
    let writes = writes(cast);
    let own: Vec<OpId> =
        writes.iter().copied().filter(|&w| cast.history.txn_of(w) == t && w < read).collect();
    let foreign = writes.iter().copied().find(|&w| cast.history.txn_of(w) != t);
    let last = *own.last()?;
    let deeds: Vec<String> = own.iter().map(|&w| did(cast, w)).collect();
    let told = format!(
        "{} {}, and then read {} = {}",
        cast.name(t),
        deeds.join(", then "),
        cast.key_of(read),
        cast.value(read)
    );
    let value = cast.history.op(read).value;
    if cast.anomaly.kind == AnomalyKind::NotMyLastWrite {
        return Some(format!("{told}: one of its own values, but not the last.",));
    }
    let source = match foreign {
        Some(_) => whose(cast, read, foreign),
        None if cast.history.list(value).is_none()
            && cast.history.initial().of(cast.history.op(read).key) == Some(value) =>
        {
            whose(cast, read, None)
        }
        None => String::new(),
    };
    Some(format!("{told}{source}. It should have read its own {}.", cast.value(last)))
}

fn intermediate(cast: &Cast<'_>) -> Option<String> {
    let read = *reads(cast).first()?;
    let write = *writes(cast).first()?;
    let writer = cast.history.txn_of(write);
    let later = cast
        .history
        .ops(writer)
        .filter(|(op, o)| *op > write && o.kind != OpKind::Read && o.key == cast.history.op(write).key)
        .map(|(op, _)| op)
        .next_back();
    let went_on = match later {
        Some(later) => format!("{} then {} in the same transaction", cast.name(writer), did(cast, later)),
        None => format!("{} went on to replace it", cast.name(writer)),
    };
    Some(format!(
        "{}. But {went_on}, so the first value should never have been seen.",
        saw(cast, read, Some(write))
    ))
}

fn non_repeatable(cast: &Cast<'_>) -> Option<Vec<String>> {
    let seen: Vec<(OpId, Option<OpId>)> = cast
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
    let name = cast.name(reader(cast, first));
    let key = cast.key_of(first);
    // Plume's definition counts reads after own writes, too.
    let history = cast.history;
    let own = |o: Op| o.kind == OpKind::Write && o.key == history.op(second).key;
    let mut before = history.ops(reader(cast, first)).take_while(|(op, _)| *op < second);
    let why = match before.any(|(_, o)| own(o)) {
        false => format!("{name} did not write {key} in between, so both reads should have agreed."),
        true => format!(
            "{name} wrote {key} itself, but both reads are of others' values, so they should have agreed."
        ),
    };
    Some(vec![format!("{}.", saw(cast, first, from)), format!("Later {}.", saw(cast, second, then)), why])
}

fn duplicate(cast: &Cast<'_>) -> Option<String> {
    let read = *reads(cast).first()?;
    let elements = cast.history.list(cast.history.op(read).value)?;
    let twice = repeated(elements)?;
    let places: Vec<String> =
        (0..elements.len()).filter(|&i| elements[i] == twice).take(4).map(|i| (i + 1).to_string()).collect();
    Some(format!(
        "{} {}: element {} is in it more than once, at positions {}.",
        cast.name(reader(cast, read)),
        did(cast, read),
        cast.atom(twice),
        listed(&places)
    ))
}

fn incompatible(cast: &Cast<'_>) -> Option<Vec<String>> {
    let [a, b, ..] = *reads(cast).as_slice() else { return None };
    let list = |op: OpId| cast.history.list(cast.history.op(op).value);
    let (left, right) = (list(a)?, list(b)?);
    let at = left.iter().zip(right).position(|(l, r)| l != r)?;
    Some(vec![
        format!("{} {}.", cast.name(reader(cast, a)), did(cast, a)),
        format!("{} {}.", cast.name(reader(cast, b)), did(cast, b)),
        format!(
            "At position {} one has {} and the other {}: no single order of appends gives both.",
            at + 1,
            cast.atom(left[at]),
            cast.atom(right[at])
        ),
    ])
}

fn lost_update(cast: &Cast<'_>) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    for read in reads(cast) {
        let (t, key) = (reader(cast, read), cast.history.op(read).key);
        let write = writes(cast)
            .into_iter()
            .find(|&w| cast.history.txn_of(w) == t && w > read && cast.history.op(w).key == key)?;
        let source = cast.anomaly.witness.edges.iter().find_map(|e| match e.evidence {
            Evidence::Read { write, read: r } if r == read => Some(write),
            _ => None,
        });
        let again = if steps.is_empty() { "" } else { ", the same version," };
        let seen =
            source.map_or_else(|| format!("{} {}", cast.name(t), did(cast, read)), |w| saw(cast, read, w));
        steps.push(format!("{seen}{again} and then {}.", did(cast, write)));
    }
    if steps.len() < 2 {
        return None;
    }
    steps.push("Whichever of them wrote second overwrote what it had not seen.".to_owned());
    Some(steps)
}

fn dirty_update(cast: &Cast<'_>) -> Option<Vec<String>> {
    let (first, second, read) = cast.anomaly.witness.edges.iter().find_map(|e| match e.evidence {
        Evidence::Version { first, second, read } => Some((first, second, read)),
        _ => None,
    })?;
    let name = |op: OpId| cast.name(cast.history.txn_of(op));
    Some(vec![
        format!("{} {} and aborted.", name(first), did(cast, first)),
        format!("{} {} and committed.", name(second), did(cast, second)),
        format!(
            "{} {}: the committed append was made to a list that held the aborted one.",
            name(read),
            did(cast, read)
        ),
    ])
}

fn internal(cast: &Cast<'_>) -> Option<Vec<String>> {
    let t = *cast.txns.first()?;
    let deeds: Vec<String> = cast.ops_in_order().into_iter().map(|op| did(cast, op)).collect();
    let (last, before) = deeds.split_last()?;
    Some(vec![
        format!("{} {}, and then {last}.", cast.name(t), before.join(", then ")),
        "Apart from its own appends, both reads should have returned the same list.".to_owned(),
    ])
}
