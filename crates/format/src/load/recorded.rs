//! A transaction as parsed, on its way into a history or into any other sink.
//!
//! A file's transactions go through an [`Assembler`], because only the whole file shows what `null` and an
//! array mean for a key. A stream's transactions stand alone and go straight to a [`TransactionSink`].

use super::ops::{Assembler, Cell, Columns};
use anomalist_history::{Draft, Facts, TransactionSink, Untimed, Value, View};
use std::ops::Range;

/// One transaction as parsed; its names and operations are numbered by the [`Columns`] it is in.
pub(crate) struct Recorded {
    pub session: Value,
    pub mops: Range<usize>,
    pub facts: Facts<Value>,
    pub meta: Vec<(String, String)>,
}

impl Recorded {
    /// Moves it into a history.
    #[inline]
    pub fn assemble(self, assembler: &mut Assembler, columns: &mut Columns, line: u32) -> Draft {
        let Recorded { session, mops, facts, meta } = self;
        let session = assembler.value(columns, session);
        let session = assembler.builder.session(session);
        let id = facts.id.map(|id| assembler.value(columns, id));
        let draft = assembler.builder.transaction(session);
        assembler.builder.set_facts(draft, Facts { id, line: line.into(), ..facts });
        for (name, value) in &meta {
            assembler.builder.set_metadata(draft, name, value);
        }
        assembler.add(draft, columns, mops, true);
        draft
    }

    /// Moves it into a sink.
    pub fn send<S: TransactionSink>(self, columns: &Columns, line: u64, sink: &mut S) -> Result<(), Untimed> {
        let session = name(columns, self.session, sink);
        sink.begin(session);
        for mop in &columns.mops[self.mops] {
            let key = name(columns, mop.key, sink);
            let value = value(columns, mop.cell, sink);
            sink.operation(mop.kind, key, value);
        }
        let Facts { id, outcome, stamps, number, xid, snapshot, interval, .. } = self.facts;
        let id = id.map(|id| name(columns, id, sink));
        sink.end(Facts { id, outcome, stamps, number, xid, snapshot, interval, line })
    }
}

/// Moves what keys hold before any write into a sink.
pub(crate) fn send_initial<S: TransactionSink>(
    columns: &Columns,
    initial: Option<Option<Value>>,
    keys: Range<usize>,
    sink: &mut S,
) {
    let initial = initial.map(|value| value.map(|value| name(columns, value, sink)));
    let keys: Vec<_> = columns.mops[keys]
        .iter()
        .map(|mop| (name(columns, mop.key, sink), value(columns, mop.cell, sink)))
        .collect();
    sink.initially(initial, keys);
}

/// A name or single value in a sink's terms.
#[inline]
fn name<S: TransactionSink>(columns: &Columns, value: Value, sink: &mut S) -> S::Name {
    match value.view() {
        View::Int(i) => sink.name_int(i),
        View::Atom(id) => {
            let (kind, text) = columns.atom_text(id);
            sink.name_atom(kind, text)
        }
        View::Nil | View::Unknown | View::List(_) => S::NIL,
    }
}

/// What was read or written, in a sink's terms.
#[inline]
fn value<S: TransactionSink>(columns: &Columns, cell: Cell, sink: &mut S) -> S::Value {
    match cell {
        Cell::Nil => S::one(S::NIL),
        Cell::One(Value::UNKNOWN) => S::UNKNOWN,
        Cell::One(value) => S::one(name(columns, value, sink)),
        Cell::List(start, end) => {
            let elements = &columns.elements[start as usize..end as usize];
            let elements: Vec<S::Name> = elements.iter().map(|&e| name(columns, e, sink)).collect();
            sink.list_of(&elements)
        }
    }
}
