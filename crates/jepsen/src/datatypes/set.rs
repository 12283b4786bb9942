//! Grow-only sets: a register per element, absent at first, present once added.
//!
//! A read of the set reads every element that any client tried to add, or saw: present or absent. So who
//! sees an element read from its writer (wr), who does not see it precedes its writer (rw), a failed add
//! that is seen is an aborted read, and an element that no transaction added comes from thin air. Elements
//! added once have a version order, so nothing is left open.
//!
//! Operations are `add` x and `read` → [x …], or transactions of `[:add k x]` and `[:r k [x …]]`.
//! O(reads × elements), which is what there is to say; above a limit it is refused.

use super::recorder::Recorder;
use super::{Datatype, LowerError, Lowered, Malformed, Oversized};
use anomalist_history::{Datum, Events, KeyId, OpKind, Operation, Value};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Operations that a history of this kind may have.
const LIMIT: usize = 40_000_000;

enum Mop<'e> {
    Add(&'e Datum, &'e Datum),
    Read(&'e Datum, &'e [Datum]),
}

pub(super) fn lower(events: &Events) -> Result<Lowered, LowerError> {
    let ops = events.operations();
    let mut txns: Vec<(&Operation, Vec<Mop<'_>>)> = Vec::new();
    for op in &ops {
        txns.push((op, mops(events, op)?));
    }
    let mut recorder = Recorder::new(events, &ops);
    let (absent, present) = (recorder.token("absent"), recorder.token("present"));
    recorder.builder.set_initial_default(Some(absent));
    let elements = elements(&txns, &mut recorder);
    let mut total = 0usize;
    for (_, mops) in &txns {
        for mop in mops {
            total += match mop {
                Mop::Add(..) => 1,
                Mop::Read(set, _) => elements.get(set).map_or(0, BTreeMap::len),
            };
        }
    }
    if total > LIMIT {
        return Err(LowerError::TooLarge(Oversized::Set { operations: total, limit: LIMIT }));
    }
    let mut seen: FxHashMap<KeyId, usize> = FxHashMap::default();
    for (i, (op, mops)) in txns.iter().enumerate() {
        if mops.is_empty() {
            continue;
        }
        let draft = recorder.transaction(op);
        for mop in mops {
            match mop {
                Mop::Add(set, element) => {
                    let key = elements[set][element];
                    recorder.op(draft, OpKind::Write, key, present);
                }
                Mop::Read(set, found) => {
                    let Some(all) = elements.get(set) else { continue };
                    for element in *found {
                        seen.insert(all[element], i);
                    }
                    for &key in all.values() {
                        let value: Value = if seen.get(&key) == Some(&i) { present } else { absent };
                        recorder.op(draft, OpKind::Read, key, value);
                    }
                    for element in *found {
                        seen.remove(&all[element]);
                    }
                }
            }
        }
    }
    recorder.finish(Datatype::Set, None)
}

/// The keys of all elements of all sets: those that were added, or seen.
fn elements<'e>(
    txns: &[(&Operation, Vec<Mop<'e>>)],
    recorder: &mut Recorder<'_>,
) -> BTreeMap<&'e Datum, BTreeMap<&'e Datum, KeyId>> {
    let mut elements: BTreeMap<&Datum, BTreeMap<&Datum, KeyId>> = BTreeMap::new();
    let mut note = |set: &'e Datum, element: &'e Datum| {
        elements.entry(set).or_default().entry(element).or_insert_with(|| {
            let name = if set.is_nil() { format!("set∋{element}") } else { format!("{set}∋{element}") };
            recorder.key(&name)
        });
    };
    for (_, mops) in txns {
        for mop in mops {
            match mop {
                Mop::Add(set, element) => note(set, element),
                Mop::Read(set, found) => found.iter().for_each(|element| note(set, element)),
            }
        }
    }
    elements
}

fn mops<'e>(events: &'e Events, op: &Operation) -> Result<Vec<Mop<'e>>, Malformed> {
    const NONE: &Datum = &Datum::Nil;
    match events.f(op) {
        "add" => Ok(vec![Mop::Add(NONE, events.argument(op))]),
        "read" if !op.is_ok() => Ok(Vec::new()),
        "read" if !is_transaction(events.result(op)) => {
            Ok(vec![Mop::Read(NONE, crate::models::elements(events.get(op.shown()))?)])
        }
        _ => transaction(events, op),
    }
}

/// True for a list of micro-operations.
fn is_transaction(value: &Datum) -> bool {
    let named = |mop: &Datum| mop.as_list().and_then(|m| m.first()?.as_name()).is_some();
    value.as_list().is_some_and(|mops| !mops.is_empty() && mops.iter().all(named))
}

fn transaction<'e>(events: &'e Events, op: &Operation) -> Result<Vec<Mop<'e>>, Malformed> {
    // What was read is in the completion; what was asked for in the invocation.
    let event =
        if op.is_ok() { events.get(op.shown()) } else { events.get(op.invocation.unwrap_or(op.shown())) };
    let malformed = || Malformed::new(event, "micro-operations such as [:add :x 3] and [:r :x [3]]");
    let mut found = Vec::new();
    for mop in event.value.as_list().ok_or_else(malformed)? {
        match mop.as_list() {
            Some([f, set, element]) if f.as_name() == Some("add") => found.push(Mop::Add(set, element)),
            Some([f, set, seen]) if matches!(f.as_name(), Some("r" | "read")) => {
                if op.is_ok() {
                    let list = if seen.is_nil() { Some(&[][..]) } else { seen.as_list() };
                    found.push(Mop::Read(set, list.ok_or_else(malformed)?));
                }
            }
            _ => return Err(malformed()),
        }
    }
    Ok(found)
}
