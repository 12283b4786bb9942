//! Lines to transactions, and these to records for several destinations.

use super::code::{put_name, put_number, put_signed};
use crate::anomalist::line::{self, Line};
use crate::load::ops::{Cell, Columns};
use crate::load::recorded::Recorded;
use crate::stream::StreamFault;
use crate::text::json::Json;
use crate::{Format, timekiller};
use anomalist_history::{OpKind, Outcome, Stamps, Value};
use std::hash::Hasher;

/// What a line is.
pub enum Item<'a> {
    /// Nothing.
    Blank,
    /// What is said about all transactions.
    Header {
        /// Recordings end with a marker.
        ends: bool,
        /// This is such a marker, after so many transactions.
        end: Option<u64>,
        /// It says what keys hold before any write: it concerns every part.
        initial: bool,
    },
    /// One transaction.
    Transaction(Transaction<'a>),
}

/// Reads lines of a format that has one transaction per line.
pub struct Splitter {
    format: Format,
    columns: Columns,
    recorded: Option<Recorded>,
}

/// A transaction that was read from a line.
pub struct Transaction<'a> {
    columns: &'a Columns,
    recorded: &'a Recorded,
}

impl Splitter {
    /// For Anomalist's own lines, or TimeKiller's; `None` for formats that are not read line by line.
    pub fn new(format: Format) -> Option<Splitter> {
        let is_known = matches!(format, Format::Anomalist | Format::Timekiller);
        is_known.then(|| Splitter { format, columns: Columns::default(), recorded: None })
    }

    /// Reads a line. An array of TimeKiller's with one transaction per line will do: its brackets and commas
    /// at the ends of lines are left out.
    pub fn read(&mut self, line: &[u8]) -> Result<Item<'_>, StreamFault> {
        self.columns.reuse();
        let text = match self.format {
            Format::Timekiller => element(line),
            _ => line,
        };
        let mut json = Json::new(text);
        if json.peek().is_none() {
            return Ok(Item::Blank);
        }
        let parsed = match self.format {
            Format::Timekiller => {
                Line::Transaction(Recorded::from(timekiller::transaction(&mut json, &mut self.columns)?))
            }
            _ => line::parse(&mut json, &mut self.columns)?,
        };
        if json.peek().is_some() {
            return Err(json.expected("the end of the line").into());
        }
        Ok(match parsed {
            Line::Header { initial, keys, ends, end, .. } => {
                Item::Header { ends, end, initial: initial.is_some() || !keys.is_empty() }
            }
            Line::Transaction(recorded) => {
                let recorded = self.recorded.insert(recorded);
                Item::Transaction(Transaction { columns: &self.columns, recorded })
            }
        })
    }
}

/// A line of an array without what belongs to the array.
fn element(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"[").unwrap_or(line);
    let line = line.strip_suffix(b"]").unwrap_or(line).trim_ascii();
    line.strip_suffix(b",").unwrap_or(line)
}

impl Transaction<'_> {
    /// What became of it.
    pub fn outcome(&self) -> Outcome {
        self.recorded.facts.outcome
    }

    /// Its timestamps.
    pub fn stamps(&self) -> Option<Stamps> {
        self.recorded.facts.stamps
    }

    /// It has a number in its session.
    pub fn has_number(&self) -> bool {
        self.recorded.facts.number.is_some()
    }

    /// Its snapshot is a set of transactions.
    pub fn sees_a_set(&self) -> bool {
        self.recorded.facts.snapshot.is_some()
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.recorded.mops.len()
    }

    /// It has no operations.
    pub fn is_empty(&self) -> bool {
        self.recorded.mops.is_empty()
    }

    /// It writes or appends.
    pub fn writes(&self) -> bool {
        self.columns.mops[self.recorded.mops.clone()].iter().any(|mop| mop.kind != OpKind::Read)
    }

    /// It shows that some key is a list; that some key is a register.
    pub fn shows(&self) -> [bool; 2] {
        let mut shows = [false; 2];
        for mop in &self.columns.mops[self.recorded.mops.clone()] {
            match (mop.kind, mop.cell) {
                (OpKind::Append, _) | (OpKind::Read, Cell::List(..)) => shows[0] = true,
                (OpKind::Read, Cell::Nil | Cell::One(Value::UNKNOWN)) => {}
                _ => shows[1] = true,
            }
        }
        shows
    }

    /// A number made of the key of an operation, the same in every process.
    #[inline]
    pub fn key_hash(&self, op: usize) -> u64 {
        hash(self.columns, self.columns.mops[self.recorded.mops.start + op].key)
    }

    /// A number made of its session.
    pub fn session_hash(&self) -> u64 {
        hash(self.columns, self.recorded.session)
    }

    /// Appends the bytes that stand for its session's name.
    pub fn put_session(&self, out: &mut Vec<u8>) {
        put_name(out, self.columns, self.recorded.session);
    }
}

fn hash(columns: &Columns, name: Value) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    match name.view() {
        anomalist_history::View::Atom(id) => {
            let (_, text) = columns.atom_text(id);
            hasher.write(text.as_bytes());
        }
        _ => hasher.write_u64(name.bits()),
    }
    mixed(hasher.finish())
}

/// The same with every bit dependent on every other.
fn mixed(mut x: u64) -> u64 {
    x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

/// The number that [`Transaction::key_hash`] gives the key of these bytes.
pub(super) fn hash_of(columns: &Columns, name: Value) -> u64 {
    hash(columns, name)
}

pub(super) const STAMPS: u8 = 1 << 2;
pub(super) const NUMBER: u8 = 1 << 3;
pub(super) const ID: u8 = 1 << 4;
pub(super) const WRITES: u8 = 1 << 5;

pub(super) fn outcome_bits(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Committed => 0,
        Outcome::Aborted => 1,
        Outcome::Indeterminate => 2,
    }
}

/// Records of one destination, one after another. What repeats or hardly changes from one to the next takes
/// little.
#[derive(Default)]
pub struct Block {
    bytes: Vec<u8>,
    before: [i64; 3],
    ops: Vec<u8>,
}

impl Block {
    /// Adds some of the operations of a transaction, which has this number in the input. With its own name
    /// or not.
    pub fn push(
        &mut self,
        seq: u64,
        transaction: &Transaction<'_>,
        named: bool,
        ops: impl Iterator<Item = usize>,
    ) {
        let Transaction { columns, recorded } = transaction;
        self.ops.clear();
        let (mut count, mut before) = (0, 0);
        let out = &mut self.ops;
        for op in ops {
            let mop = columns.mops[recorded.mops.start + op];
            let cell = match mop.cell {
                Cell::Nil => 0,
                Cell::One(_) => 1,
                Cell::List(..) => 2,
            };
            // The distance to the operation before, its kind, and what kind of value it has.
            put_number(out, (((op - before) as u64) << 2 | mop.kind as u64) << 2 | cell);
            put_name(out, columns, mop.key);
            match mop.cell {
                Cell::Nil => {}
                Cell::One(value) => put_name(out, columns, value),
                Cell::List(start, end) => {
                    put_number(out, u64::from(end - start));
                    let elements = &columns.elements[start as usize..end as usize];
                    elements.iter().for_each(|&element| put_name(out, columns, element));
                }
            }
            (count, before) = (count + 1, op);
        }
        self.head(seq, transaction, named);
        put_number(&mut self.bytes, transaction.len() as u64);
        put_number(&mut self.bytes, count);
        put_number(&mut self.bytes, self.ops.len() as u64);
        self.bytes.extend_from_slice(&self.ops);
    }

    fn head(&mut self, seq: u64, transaction: &Transaction<'_>, named: bool) {
        let Transaction { columns, recorded } = transaction;
        let facts = &recorded.facts;
        let id = facts.id.filter(|_| named);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = outcome_bits(facts.outcome)
            | flag(facts.stamps.is_some(), STAMPS)
            | flag(facts.number.is_some(), NUMBER)
            | flag(id.is_some(), ID)
            | flag(transaction.writes(), WRITES);
        let mut delta = |i: usize, value: i64| {
            let delta = value.wrapping_sub(self.before[i]);
            self.before[i] = value;
            delta
        };
        let out = &mut self.bytes;
        put_signed(out, delta(0, seq as i64));
        out.push(flags);
        put_name(out, columns, recorded.session);
        if let Some(id) = id {
            put_name(out, columns, id);
        }
        if let Some(Stamps { start, commit }) = facts.stamps {
            put_signed(out, delta(1, start.physical));
            put_signed(out, start.logical);
            put_signed(out, delta(2, commit.physical));
            put_signed(out, commit.logical);
        }
        if let Some(number) = facts.number {
            put_number(out, number);
        }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// There are no records.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The records; others start anew.
    pub fn take(&mut self) -> Vec<u8> {
        self.before = [0; 3];
        std::mem::take(&mut self.bytes)
    }
}
