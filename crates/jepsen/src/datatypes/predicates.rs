//! Rows read by predicate: histories as Elle's closed-predicate has them, with any number of mutations per
//! key.
//!
//! The first operation may be `init` with a map of rows. Then transactions of `[:insert k v]`, `[:w k v]`,
//! `[:delete k]`, `[:r k v]` and `[:rp p {k v …}]`, where p is `true`, `[= x]` or `[mod m r]`. A key that
//! is not in `init` is unborn at first; unborn and deleted rows match nothing. A value may be a list that
//! every mutation appends to: its last element is what predicates look at, and its prefixes are the
//! versions before.
//!
//! Lowered: insertions, writes and deletions are writes; `r`, and each row that `rp` returned, are reads of
//! items. What `rp` did not return is where predicates matter: see `predicate_edges.rs`. A read of nil is
//! the unborn or the deleted version if there is only one such, and says nothing if there are several. If
//! there is none, the read missed a row that was there in every version, as a read by predicate may
//! (`predicate-read-miss`).

use super::predicate_edges;
use super::recorder::Recorder;
use super::{Datatype, LowerError, Lowered, Malformed};
use anomalist_history::{Datum, Draft, Events, KeyId, OpKind, Operation, Value};
use anomalist_level::{AnomalyKind, Why};
use std::collections::BTreeMap;

/// A predicate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Predicate {
    True,
    Equals(Datum),
    Mod(i64, i64),
}

impl Predicate {
    pub fn parse(datum: &Datum) -> Option<Predicate> {
        match datum {
            Datum::Bool(true) => Some(Predicate::True),
            datum if datum.as_name() == Some("true") => Some(Predicate::True),
            Datum::List(parts) => match (parts.first()?.as_name()?, &parts[1..]) {
                ("=", [x]) => Some(Predicate::Equals(x.clone())),
                ("mod", [m, r]) => Some(Predicate::Mod(m.as_int().filter(|m| *m != 0)?, r.as_int()?)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a version matches; none is unborn or deleted.
    pub fn matches(&self, value: Option<&Datum>) -> bool {
        let Some(value) = value else { return false };
        let last = value.as_list().map_or(Some(value), <[Datum]>::last);
        match (self, last) {
            (Predicate::True, _) => true,
            (_, None) => false,
            (Predicate::Equals(x), Some(v)) => x == v,
            (Predicate::Mod(m, r), Some(v)) => {
                v.as_int().and_then(|v| v.checked_rem_euclid(*m)).is_some_and(|rest| rest == *r)
            }
        }
    }
}

impl std::fmt::Display for Predicate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Predicate::True => f.write_str("true"),
            Predicate::Equals(x) => write!(f, "= {x}"),
            Predicate::Mod(m, r) => write!(f, "mod {m} = {r}"),
        }
    }
}

/// A recording as it was, to be replayed in some order.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The rows of `init`.
    pub init: BTreeMap<Datum, Datum>,
    /// By draft, which is the rank in the input.
    pub txns: Vec<Txn>,
}

/// A micro-operation.
#[derive(Clone, Debug)]
pub(crate) enum Mop {
    /// The new row; none deletes it.
    Write(Datum, Option<Datum>),
    /// What was read; none is nil.
    Read(Datum, Option<Datum>),
    /// The rows that matched, by key.
    Rows(Predicate, BTreeMap<Datum, Datum>),
}

/// A transaction that may have happened, or failed.
#[derive(Debug)]
pub(crate) struct Txn {
    pub draft: Draft,
    pub ok: bool,
    pub failed: bool,
    pub mops: Vec<Mop>,
}

impl Txn {
    /// The last write of each key, with its place among the micro-operations.
    pub fn final_writes(&self) -> BTreeMap<&Datum, (usize, Option<&Datum>)> {
        let mut last = BTreeMap::new();
        for (i, mop) in self.mops.iter().enumerate() {
            if let Mop::Write(key, value) = mop {
                last.insert(key, (i, value.as_ref()));
            }
        }
        last
    }

    /// What the transaction itself wrote to a key before a micro-operation.
    pub fn own_before(&self, key: &Datum, mop: usize) -> Option<Option<&Datum>> {
        self.mops[..mop].iter().rev().find_map(|m| match m {
            Mop::Write(k, value) if k == key => Some(value.as_ref()),
            _ => None,
        })
    }
}

/// A version of a row.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// Its writer; none for the initial one.
    pub writer: Option<usize>,
    /// None: unborn or deleted.
    pub value: Option<Datum>,
    /// The value in the history.
    pub stored: Value,
    /// The write, as an operation of its transaction.
    pub op: usize,
}

/// All versions that may exist: the initial one first, then the final writes of transactions that did not
/// fail.
pub(super) type Rows = BTreeMap<Datum, Vec<Version>>;

pub(super) fn lower(events: &Events) -> Result<Lowered, LowerError> {
    let ops = events.operations();
    let mut recorder = Recorder::new(events, &ops);
    recorder.builder.set_initial_default(Some(Value::NIL));
    let (mut init, mut txns): (BTreeMap<Datum, Datum>, Vec<Txn>) = (BTreeMap::new(), Vec::new());
    for op in &ops {
        if let Some(rows) = initial_rows(events, op)? {
            init.extend(rows);
            continue;
        }
        let mops = mops(events, op)?;
        let draft = recorder.transaction(op);
        txns.push(Txn { draft, ok: op.is_ok(), failed: op.failed(), mops });
    }
    let mut rows: Rows = BTreeMap::new();
    for (key, value) in &init {
        let (label, stored) = (recorder.value(key), recorder.value(value));
        let id = recorder.builder.key(label);
        recorder.builder.set_initial(id, stored);
        rows.insert(key.clone(), vec![Version { writer: None, value: Some(value.clone()), stored, op: 0 }]);
    }
    let unborn = || Version { writer: None, value: None, stored: Value::NIL, op: 0 };
    let mut stored: Vec<Vec<Value>> = Vec::new();
    for (i, txn) in txns.iter().enumerate() {
        stored.push(stored_values(&mut recorder, txn));
        for (key, (mop, value)) in txn.final_writes() {
            let versions = rows.entry(key.clone()).or_insert_with(|| vec![unborn()]);
            if !txn.failed {
                let version =
                    Version { writer: Some(i), value: value.cloned(), stored: stored[i][mop], op: 0 };
                versions.push(version);
            }
        }
    }
    for (i, txn) in txns.iter().enumerate() {
        operations(&mut recorder, txn, i, &stored[i], &mut rows);
    }
    predicate_edges::add(&mut recorder, &txns, &rows);
    let lowered = recorder.finish(Datatype::Predicates, Some(Why::PredicateReads))?;
    Ok(Lowered { recording: Some(Recording { init, txns }), ..lowered })
}

/// The rows of an `init` operation.
fn initial_rows(events: &Events, op: &Operation) -> Result<Option<BTreeMap<Datum, Datum>>, Malformed> {
    let event = events.get(op.shown());
    let map = match events.f(op) {
        "init" => Some(&event.value),
        _ => match event.value.as_list() {
            Some([Datum::List(mop)]) if mop.first().and_then(Datum::as_name) == Some("init") => mop.get(1),
            _ => None,
        },
    };
    match map {
        None => Ok(None),
        Some(map) => rows_of(map).map(Some).ok_or_else(|| Malformed::new(event, "a map from keys to values")),
    }
}

pub(crate) fn rows_of(map: &Datum) -> Option<BTreeMap<Datum, Datum>> {
    if map.is_nil() {
        return Some(BTreeMap::new());
    }
    Some(map.as_map()?.iter().map(|(k, v)| (k.normal_key(), v.clone())).collect())
}

fn mops(events: &Events, op: &Operation) -> Result<Vec<Mop>, Malformed> {
    let event =
        if op.is_ok() { events.get(op.shown()) } else { events.get(op.invocation.unwrap_or(op.shown())) };
    let malformed = || {
        Malformed::new(
            event,
            "micro-operations such as [:insert 1 5], [:w 1 6], [:delete 1], [:r 1 6] or [:rp [:= 6] {1 6}]",
        )
    };
    let mut found = Vec::new();
    for mop in event.value.as_list().ok_or_else(malformed)? {
        let parts = mop.as_list().ok_or_else(malformed)?;
        let name = parts.first().and_then(Datum::as_name).ok_or_else(malformed)?;
        let some = |value: &Datum| (!value.is_nil()).then(|| value.clone());
        match (name, &parts[1..]) {
            ("insert" | "w" | "write", [key, value]) if !value.is_nil() => {
                found.push(Mop::Write(key.normal_key(), Some(value.clone())));
            }
            ("delete", [key] | [key, Datum::Nil]) => found.push(Mop::Write(key.normal_key(), None)),
            // What a transaction read that is not known to have committed says nothing.
            ("r" | "read", [key, value]) if op.is_ok() => {
                found.push(Mop::Read(key.normal_key(), some(value)))
            }
            ("rp", [predicate, rows]) if op.is_ok() => {
                let predicate = Predicate::parse(predicate).ok_or_else(malformed)?;
                found.push(Mop::Rows(predicate, rows_of(rows).ok_or_else(malformed)?));
            }
            ("r" | "read" | "rp", _) if !op.is_ok() => {}
            _ => return Err(malformed()),
        }
    }
    Ok(found)
}

/// What the history calls the values a transaction wrote; deletions have names of their own, so that they
/// differ.
fn stored_values(recorder: &mut Recorder<'_>, txn: &Txn) -> Vec<Value> {
    let value = |(i, mop): (usize, &Mop)| match mop {
        Mop::Write(_, Some(value)) => recorder.value(value),
        Mop::Write(_, None) => recorder.token(&format!("deleted#{}.{i}", txn.draft.0)),
        _ => Value::NIL,
    };
    txn.mops.iter().enumerate().map(value).collect()
}

/// Adds the operations of a transaction, and notes where its final writes are.
fn operations(recorder: &mut Recorder<'_>, txn: &Txn, number: usize, stored: &[Value], rows: &mut Rows) {
    let finals: BTreeMap<Datum, usize> =
        txn.final_writes().iter().map(|(k, (mop, _))| ((*k).clone(), *mop)).collect();
    let key_of = |recorder: &mut Recorder<'_>, key: &Datum| -> KeyId {
        let label = recorder.value(key);
        recorder.builder.key(label)
    };
    for (i, mop) in txn.mops.iter().enumerate() {
        match mop {
            Mop::Write(key, _) => {
                let id = key_of(recorder, key);
                let (_, place) = recorder.op(txn.draft, OpKind::Write, id, stored[i]);
                if finals.get(key) == Some(&i)
                    && let Some(versions) = rows.get_mut(key)
                    && let Some(version) = versions.iter_mut().find(|v| v.writer == Some(number))
                {
                    version.op = place;
                }
            }
            Mop::Read(key, row) => {
                let (id, own) = (key_of(recorder, key), txn.own_before(key, i));
                let value = match (row, own) {
                    (Some(value), _) => recorder.value(value),
                    // The transaction's own deletion, whatever others did.
                    (None, Some(None)) => {
                        let own =
                            txn.mops[..i].iter().rposition(|m| matches!(m, Mop::Write(k, None) if k == key));
                        own.map_or(Value::UNKNOWN, |mop| stored[mop])
                    }
                    (None, _) => nil_version(rows.get(key)),
                };
                let at = recorder.op(txn.draft, OpKind::Read, id, value);
                let was_there = |versions: &Vec<Version>| versions.iter().all(|v| v.value.is_some());
                if own.is_none() && row.is_none() && rows.get(key).is_some_and(was_there) {
                    recorder.flaw(AnomalyKind::PredicateReadMiss, txn.draft, vec![at]);
                }
            }
            Mop::Rows(_, found) => {
                for (key, value) in found {
                    let (id, value) = (key_of(recorder, key), recorder.value(value));
                    recorder.op(txn.draft, OpKind::Read, id, value);
                }
            }
        }
    }
}

/// The version that a read of nil saw, if only one can be it.
fn nil_version(versions: Option<&Vec<Version>>) -> Value {
    let Some(versions) = versions else { return Value::NIL };
    let mut nils = versions.iter().filter(|version| version.value.is_none());
    match (nils.next(), nils.next()) {
        (Some(only), None) => only.stored,
        _ => Value::UNKNOWN,
    }
}
