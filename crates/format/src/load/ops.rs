//! Micro-operations as parsed, before a history knows them: what Elle's and TimeKiller's readers share.
//!
//! A parser fills [`Columns`] without looking at the history (so that blocks of one file can be parsed at
//! the same time); an [`Assembler`] then moves them into a [`Builder`], in file order. Two things are only
//! known there: the numbers of atoms, and whether a key holds a list or a register. `null` read from a list
//! is the empty list, from a register it is the initial state, and the first evidence about a key (an
//! append, a write, a read that shows something) may come after such a read: the operations of that
//! transaction wait until then, or until the end. So do those that read a list from a key that no
//! transaction has appended to yet: if it turns out that the key is written, not appended to, it is a
//! register and the list one composite value.

use crate::text::fault::Fault;
use crate::text::json::{Json, Scalar};
use crate::text::value::quote;
use anomalist_history::{AtomId, AtomKind, Atoms, Builder, Draft, KeyId, OpKind, Value, View};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The value of a micro-operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Absent, `null` or `nil`.
    Nil,
    /// A scalar or composite value.
    One(Value),
    /// A list: a range of [`Columns::elements`].
    List(u32, u32),
}

/// One micro-operation; its key and value are numbered by the [`Columns`] it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mop {
    pub kind: OpKind,
    pub key: Value,
    pub cell: Cell,
}

/// Parsed micro-operations.
#[derive(Default)]
pub(crate) struct Columns {
    pub mops: Vec<Mop>,
    pub elements: Vec<Value>,
    /// Version numbers by place in `mops`, ascending.
    pub versions: Vec<(u32, i64)>,
    atoms: Atoms,
    /// Text and keywords by kind, so that a known name costs no allocation.
    known: [FxHashMap<Box<str>, Value>; 2],
    /// The history's value of each atom, filled when first moved.
    moved: Vec<Option<Value>>,
}

impl Columns {
    /// Forgets operations; keeps names, which occur again and again, unless there are too many of them for
    /// that to be true. A stream has no end: what is kept must have one.
    pub fn reuse(&mut self) {
        const NAMES: usize = 8 << 20;
        self.mops.clear();
        self.elements.clear();
        self.versions.clear();
        if self.atoms.memory() > NAMES {
            *self = Columns {
                mops: std::mem::take(&mut self.mops),
                elements: std::mem::take(&mut self.elements),
                ..Columns::default()
            };
        }
    }

    /// Gives back the memory of an uncommonly large transaction.
    pub fn trim(&mut self) {
        const MANY: usize = 1 << 16;
        self.mops.shrink_to(MANY);
        self.elements.shrink_to(MANY);
        self.versions.shrink_to(MANY);
    }

    /// Length of both columns, to come back to with [`Columns::truncate`].
    pub fn mark(&self) -> (usize, usize) {
        (self.mops.len(), self.elements.len())
    }

    pub fn truncate(&mut self, (mops, elements): (usize, usize)) {
        self.mops.truncate(mops);
        self.elements.truncate(elements);
        self.versions.retain(|v| (v.0 as usize) < mops);
    }

    #[inline]
    pub fn int(&mut self, i: i64) -> Value {
        Value::int(i).unwrap_or_else(|| self.atoms.intern(AtomKind::Token, &i.to_string()))
    }

    pub fn atom(&mut self, kind: AtomKind, text: &str) -> Value {
        let known = match kind {
            AtomKind::Text => &mut self.known[0],
            AtomKind::Keyword => &mut self.known[1],
            _ => return self.atoms.intern(kind, text),
        };
        match known.get(text) {
            Some(&value) => value,
            None => {
                let value = self.atoms.intern(kind, text);
                known.insert(text.into(), value);
                value
            }
        }
    }

    /// Kind and text of an atom.
    pub fn atom_text(&self, id: AtomId) -> (AtomKind, &str) {
        self.atoms.get(id)
    }

    /// The text that values have as one composite value.
    pub fn canonical(&self, elements: &[Value]) -> Box<str> {
        let mut text = String::from("[");
        for (i, element) in elements.iter().enumerate() {
            if i > 0 {
                text.push(' ');
            }
            match element.view() {
                View::Int(i) => text.push_str(&i.to_string()),
                View::Atom(id) => match self.atoms.get(id) {
                    (AtomKind::Text, atom) => quote(&mut text, atom),
                    (AtomKind::Keyword, atom) => text.extend([":", atom]),
                    (AtomKind::Token | AtomKind::Compound, atom) => text.push_str(atom),
                },
                _ => text.push_str("nil"),
            }
        }
        text.push(']');
        text.into()
    }

    /// A JSON value as one value; `None` for `null`.
    #[inline]
    pub fn json_value(&mut self, json: &mut Json<'_>, what: &str) -> Result<Option<Value>, Fault> {
        if let Some(i) = json.small_int() {
            return Ok(Some(self.int(i)));
        }
        self.other_value(json, what)
    }

    fn other_value(&mut self, json: &mut Json<'_>, what: &str) -> Result<Option<Value>, Fault> {
        Ok(Some(match json.peek() {
            Some(b'[' | b'{') => {
                let text = json.canonical()?;
                self.atom(AtomKind::Compound, &text)
            }
            _ => match json.scalar(what)? {
                Scalar::Null => return Ok(None),
                Scalar::Int(i) => self.int(i),
                Scalar::Bool(b) => self.atom(AtomKind::Token, if b { "true" } else { "false" }),
                Scalar::Number(text) => self.atom(AtomKind::Token, &text),
                Scalar::Text(text) => self.atom(AtomKind::Text, &text),
            },
        }))
    }

    /// The result of a read in JSON: an array is a list.
    #[inline]
    pub fn json_read(&mut self, json: &mut Json<'_>) -> Result<Cell, Fault> {
        if json.peek() != Some(b'[') {
            return Ok(self.json_value(json, "the value read")?.map_or(Cell::Nil, Cell::One));
        }
        json.open(b'[', "a list")?;
        let (start, mut first) = (self.elements.len() as u32, true);
        while json.element(&mut first)? {
            let element = self.json_value(json, "an element")?.unwrap_or(Value::NIL);
            self.elements.push(element);
        }
        Ok(Cell::List(start, self.elements.len() as u32))
    }
}

/// What is known about a key.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Holds {
    Unknown,
    /// It was read as a list, but no transaction appended to it yet.
    Lists,
    /// It was written, or read as something that is no list.
    Register,
    /// It was appended to.
    List,
}

/// An operation in the history's terms.
pub(crate) type Operation = (OpKind, KeyId, Value);

/// Moves parsed operations into a history.
#[derive(Default)]
pub(crate) struct Assembler {
    pub builder: Builder,
    /// Lists and composite values are written differently: a list is a list.
    pub explicit: bool,
    holds: Vec<Holds>,
    /// Of lists that may be values of registers.
    texts: FxHashMap<Value, Box<str>>,
    lists: bool,
    registers: bool,
    empty: Option<Value>,
    operations: Vec<Operation>,
    scratch: Vec<Value>,
    waiting: Vec<(Draft, Vec<Operation>)>,
}

impl Assembler {
    /// Notes what other parts of the history show: that there are lists, that there are registers.
    pub fn expect(&mut self, shows: [bool; 2]) {
        [self.lists, self.registers] = shows;
    }

    /// The history's value of a parsed one.
    #[inline]
    pub fn value(&mut self, columns: &mut Columns, value: Value) -> Value {
        let View::Atom(id) = value.view() else { return value };
        let i = id.0 as usize;
        if columns.moved.len() <= i {
            columns.moved.resize(i + 1, None);
        }
        *columns.moved[i].get_or_insert_with(|| {
            let (kind, text) = columns.atoms.get(id);
            self.builder.atom(kind, text)
        })
    }

    /// The key, and what the operation shows about it.
    #[inline]
    fn key(&mut self, columns: &mut Columns, mop: &Mop) -> KeyId {
        let label = self.value(columns, mop.key);
        let key = self.builder.key(label);
        let shows = match (mop.kind, mop.cell) {
            (OpKind::Append, _) => Holds::List,
            (OpKind::Read, Cell::List(..)) if self.explicit => Holds::List,
            (OpKind::Read, Cell::List(..)) => Holds::Lists,
            (OpKind::Read, Cell::Nil | Cell::One(Value::UNKNOWN)) => Holds::Unknown,
            _ => Holds::Register,
        };
        if self.holds.len() <= key.index() {
            self.holds.resize(key.index() + 1, Holds::Unknown);
        }
        let holds = &mut self.holds[key.index()];
        if shows > *holds {
            *holds = shows;
        }
        self.lists |= matches!(shows, Holds::List | Holds::Lists);
        self.registers |= shows == Holds::Register;
        key
    }

    /// An operation in the history's terms. A read without a result is `nil` if it certainly returned
    /// something, else unknown.
    pub fn operation(&mut self, columns: &mut Columns, mop: Mop, committed: bool) -> Operation {
        let key = self.key(columns, &mop);
        let value = match mop.cell {
            Cell::Nil if mop.kind == OpKind::Read && !committed => Value::UNKNOWN,
            Cell::Nil => Value::NIL,
            Cell::One(value) => self.value(columns, value),
            Cell::List(start, end) if start == end => {
                let list = self.empty_list();
                self.remember(key, list, columns, 0..0);
                list
            }
            Cell::List(start, end) => {
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.clear();
                for i in start..end {
                    scratch.push(self.value(columns, columns.elements[i as usize]));
                }
                let list = self.builder.list(&scratch);
                self.scratch = scratch;
                let elements = start as usize..end as usize;
                self.remember(key, list, columns, elements);
                list
            }
        };
        (mop.kind, key, value)
    }

    /// Keeps the text of a list that may turn out to be the value of a register.
    fn remember(&mut self, key: KeyId, list: Value, columns: &Columns, elements: Range<usize>) {
        if self.holds[key.index()] != Holds::List {
            let text = columns.canonical(&columns.elements[elements]);
            self.texts.entry(list).or_insert(text);
        }
    }

    fn empty_list(&mut self) -> Value {
        *self.empty.get_or_insert_with(|| self.builder.list(&[]))
    }

    /// Adds parsed operations to a transaction.
    pub fn add(&mut self, draft: Draft, columns: &mut Columns, mops: Range<usize>, committed: bool) {
        if self.add_usual(draft, &columns.mops[mops.clone()]) {
            return;
        }
        let mut operations = std::mem::take(&mut self.operations);
        operations.clear();
        for i in mops {
            operations.push(self.operation(columns, columns.mops[i], committed));
        }
        self.add_operations(draft, &operations);
        self.operations = operations;
    }

    /// Adds reads and writes of integers under integer names, which is what large files consist of; false
    /// if there is anything else, and then nothing happens.
    #[inline]
    fn add_usual(&mut self, draft: Draft, mops: &[Mop]) -> bool {
        let is_int = |value: Value| matches!(value.view(), View::Int(_));
        let usual = |mop: &Mop| {
            mop.kind != OpKind::Append
                && is_int(mop.key)
                && matches!(mop.cell, Cell::One(value) if is_int(value))
        };
        if !mops.iter().all(usual) {
            return false;
        }
        let Assembler { builder, holds, registers, .. } = self;
        *registers |= !mops.is_empty();
        builder.named_ops(
            draft,
            mops.iter().map(|mop| (mop.kind, mop.key)),
            mops.iter().map(|mop| if let Cell::One(value) = mop.cell { value } else { Value::NIL }),
            |key| match holds.get_mut(key.index()) {
                Some(known) if *known >= Holds::Register => {}
                Some(known) => *known = Holds::Register,
                None => {
                    holds.resize(key.index() + 1, Holds::Unknown);
                    holds[key.index()] = Holds::Register;
                }
            },
        );
        true
    }

    /// The same operations as values of the history, for later.
    pub fn keep(&mut self, columns: &mut Columns, mops: Range<usize>, into: &mut Vec<Operation>) {
        into.clear();
        for i in mops {
            let mop = columns.mops[i];
            // What an invocation says about the result of a read is not an observation.
            let mop = if mop.kind == OpKind::Read { Mop { cell: Cell::Nil, ..mop } } else { mop };
            into.push(self.operation(columns, mop, false));
        }
    }

    /// Adds operations to a transaction, at once if all is known about the keys they found empty.
    pub fn add_operations(&mut self, draft: Draft, operations: &[Operation]) {
        let undecided = |&(kind, key, value): &Operation| {
            let holds = self.holds[key.index()];
            kind == OpKind::Read
                && (value == Value::NIL && holds == Holds::Unknown
                    || value.is_list() && holds == Holds::Lists)
        };
        if operations.iter().any(undecided) {
            self.waiting.push((draft, operations.to_vec()));
            return;
        }
        self.put(draft, operations, false);
    }

    fn put(&mut self, draft: Draft, operations: &[Operation], by_default: bool) {
        let empty = if self.lists { self.empty_list() } else { Value::NIL };
        for &(kind, key, value) in operations {
            let holds = self.holds[key.index()];
            let is_list =
                matches!(holds, Holds::List | Holds::Lists) || holds == Holds::Unknown && by_default;
            let value = match value {
                Value::NIL if kind == OpKind::Read && is_list => empty,
                list if kind == OpKind::Read && list.is_list() && !is_list => match self.texts.get(&list) {
                    Some(text) => self.builder.atom(AtomKind::Compound, text),
                    None => list,
                },
                other => other,
            };
            self.builder.op(draft, kind, key, value);
        }
    }

    /// The builder, complete. Registers start as `initial`; a history of lists only has no initial value to
    /// speak of.
    pub fn finish(mut self, initial: Option<Option<Value>>) -> Builder {
        for (draft, operations) in std::mem::take(&mut self.waiting) {
            self.put(draft, &operations, self.lists);
        }
        let natural = (self.registers || !self.lists).then_some(Value::NIL);
        self.builder.set_initial_default(initial.unwrap_or(natural));
        self.builder
    }
}
