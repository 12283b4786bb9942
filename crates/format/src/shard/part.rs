//! Records to the history of a part.

use super::code::Cursor;
use super::split::{ID, NUMBER, STAMPS, WRITES, hash_of};
use crate::anomalist::line::{self, Line};
use crate::load::ops::{Assembler, Cell, Columns, Mop};
use crate::load::recorded::Recorded;
use crate::load::{initial, refuse_two_kinds};
use crate::text::json::Json;
use crate::{Diagnostic, Format, Place, ReadError, ReadOptions};
use anomalist_history::{
    AtomKind, Facts, History, KeyId, OpKind, Outcome, Stamps, Timestamp, TooLarge, TxnId, Value,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a part must know of the whole.
pub struct Whole {
    /// The format of the input.
    pub format: Format,
    /// The input as the user named it.
    pub name: String,
    /// Some key is a list; some key is a register.
    pub shows: [bool; 2],
    /// All transactions that did not abort have numbers in their sessions.
    pub numbered: bool,
    /// Lines that say what keys hold before any write, with their numbers in the input, ascending.
    pub headers: Vec<(u64, Vec<u8>)>,
    /// What the user says that keys hold before any write; see [`ReadOptions::initial`].
    pub initial: Option<String>,
    /// The sessions, by the bytes that stand for their names, with the number of their first transaction.
    pub sessions: FxHashMap<Vec<u8>, u64>,
}

/// For which transactions that write something, none of it in this part, a write is made up. Each is of a
/// key of its own, which nothing else touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MakeUp {
    /// For none.
    Nothing,
    /// Where another transaction of the part commits at the same time: then it matters to their order
    /// whether a transaction writes.
    Ties,
    /// For all.
    Writers,
}

/// A part of a history, as a history.
pub struct Part {
    history: History,
    /// By rank in the input, like the next four: numbers in the whole input.
    seqs: Vec<u64>,
    /// Whether they write anything in the whole history.
    writes: Vec<bool>,
    /// How many operations they have in the whole history.
    totals: Vec<u32>,
    /// Where their operations begin in `ops`.
    start: Vec<u32>,
    txns: Vec<TxnId>,
    /// Numbers of operations in their transaction in the whole history.
    ops: Vec<u32>,
    origins: Vec<Option<Origin>>,
}

/// Where a key occurs first: transaction (or header) and operation, by their numbers in the whole history.
pub type Origin = (u64, u32);

/// In place of the number of an operation that was made up.
const MADE_UP: u32 = u32::MAX;

impl Part {
    /// The history. It is as if all operations that are not in the part had never been recorded.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The history alone.
    pub fn into_history(self) -> History {
        self.history
    }

    fn rank(&self, t: TxnId) -> usize {
        self.history.position(t) as usize
    }

    /// A transaction's number in the input.
    pub fn seq(&self, t: TxnId) -> u64 {
        self.seqs[self.rank(t)]
    }

    /// The transaction with this number, if it is in this part.
    pub fn txn(&self, seq: u64) -> Option<TxnId> {
        self.seqs.binary_search(&seq).ok().map(|rank| self.txns[rank])
    }

    /// Whether a transaction writes, in this part or elsewhere.
    pub fn writes(&self, t: TxnId) -> bool {
        self.writes[self.rank(t)]
    }

    /// How many operations a transaction has, in this part and elsewhere.
    pub fn total(&self, t: TxnId) -> u32 {
        self.totals[self.rank(t)]
    }

    /// The number in the whole transaction of an operation, which is this one of those in the part.
    pub fn op(&self, t: TxnId, op: u32) -> u32 {
        self.ops[(self.start[self.rank(t)] + op) as usize]
    }

    /// Which of those in the part an operation of the whole transaction is.
    pub fn local(&self, t: TxnId, op: u32) -> Option<u32> {
        let count = self.history.op_range(t).len() as u32;
        (0..count).find(|&local| self.op(t, local) == op)
    }

    /// Where a key occurs first; `None` if it was made up.
    pub fn origin(&self, key: KeyId) -> Option<Origin> {
        self.origins[key.index()]
    }

    /// How many keys there are.
    pub fn key_count(&self) -> usize {
        self.origins.iter().flatten().count()
    }
}

/// Why there is no part.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// Records are not what was written.
    #[error("the records of a part are damaged")]
    Damaged,
    /// It is nothing that a database can have, or too large.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A record.
pub struct Record<'a> {
    /// The transaction's number in the input.
    pub seq: u64,
    flags: u8,
    session: &'a [u8],
    id: Option<&'a [u8]>,
    stamps: Option<Stamps>,
    number: Option<u64>,
    total: u32,
    count: u32,
    ops: &'a [u8],
}

impl Record<'_> {
    /// Whether the transaction's own name is in the record.
    pub fn is_named(&self) -> bool {
        self.id.is_some()
    }

    /// Appends the same record as the only one of a block; with this name, if one is given.
    pub fn put(&self, name: Option<&str>, out: &mut Vec<u8>) {
        use super::code::{put_name, put_number, put_signed};
        put_signed(out, self.seq as i64);
        out.push(self.flags | if name.is_some() { ID } else { 0 });
        out.extend_from_slice(self.session);
        match name {
            None => out.extend_from_slice(self.id.unwrap_or_default()),
            Some(name) => {
                let mut columns = Columns::default();
                let name = columns.atom(AtomKind::Token, name);
                put_name(out, &columns, name);
            }
        }
        if let Some(Stamps { start, commit }) = self.stamps {
            [start.physical, start.logical, commit.physical, commit.logical]
                .into_iter()
                .for_each(|part| put_signed(out, part));
        }
        self.number.into_iter().for_each(|number| put_number(out, number));
        put_number(out, self.total.into());
        put_number(out, self.count.into());
        put_number(out, self.ops.len() as u64);
        out.extend_from_slice(self.ops);
    }

    fn outcome(&self) -> Option<Outcome> {
        [Outcome::Committed, Outcome::Aborted, Outcome::Indeterminate].get((self.flags & 3) as usize).copied()
    }

    fn is_made_up(&self, make_up: MakeUp, is_tied: impl Fn(Timestamp) -> bool) -> bool {
        if self.flags & WRITES == 0 {
            return false;
        }
        match make_up {
            MakeUp::Nothing => false,
            MakeUp::Writers => true,
            MakeUp::Ties => self.stamps.is_some_and(|stamps| is_tied(stamps.commit)),
        }
    }

    fn operations(&self, columns: &mut Columns, into: &mut Vec<(u32, Mop)>) -> Option<()> {
        let (mut cursor, mut before) = (Cursor::new(self.ops), 0u64);
        for _ in 0..self.count {
            let head = cursor.number()?;
            let kind = match (head >> 2) & 3 {
                0 => OpKind::Read,
                1 => OpKind::Write,
                2 => OpKind::Append,
                _ => return None,
            };
            before += head >> 4;
            let key = cursor.name(columns)?;
            let cell = match head & 3 {
                0 => Cell::Nil,
                1 => Cell::One(cursor.name(columns)?),
                _ => {
                    let start = columns.elements.len() as u32;
                    for _ in 0..cursor.number()? {
                        let element = cursor.name(columns)?;
                        columns.elements.push(element);
                    }
                    Cell::List(start, columns.elements.len() as u32)
                }
            };
            into.push((u32::try_from(before).ok()?, Mop { kind, key, cell }));
        }
        Some(())
    }
}

/// The records of a block, in order.
pub struct Records<'a> {
    cursor: Cursor<'a>,
    before: [i64; 3],
}

/// The records of a block, in order.
pub fn records(block: &[u8]) -> Records<'_> {
    Records { cursor: Cursor::new(block), before: [0; 3] }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, PartError>;

    fn next(&mut self) -> Option<Result<Record<'a>, PartError>> {
        if self.cursor.is_at_end() {
            return None;
        }
        let record = self.record();
        if record.is_none() {
            self.cursor.at = self.cursor.bytes.len();
        }
        Some(record.ok_or(PartError::Damaged))
    }
}

impl<'a> Records<'a> {
    fn record(&mut self) -> Option<Record<'a>> {
        let Records { cursor, before } = self;
        let mut next = |i: usize, cursor: &mut Cursor<'a>| -> Option<i64> {
            before[i] = before[i].wrapping_add(cursor.signed()?);
            Some(before[i])
        };
        let seq = next(0, cursor)? as u64;
        let flags = cursor.byte()?;
        let session = cursor.name_bytes()?;
        let id = if flags & ID != 0 { Some(cursor.name_bytes()?) } else { None };
        let mut stamps = None;
        if flags & STAMPS != 0 {
            let mut stamp = |i| Some(Timestamp { physical: next(i, cursor)?, logical: cursor.signed()? });
            stamps = Some(Stamps { start: stamp(1)?, commit: stamp(2)? });
        }
        let number = if flags & NUMBER != 0 { Some(cursor.number()?) } else { None };
        let total = u32::try_from(cursor.number()?).ok()?;
        let count = u32::try_from(cursor.number()?).ok()?;
        let length = usize::try_from(cursor.number()?).ok()?;
        let ops = cursor.take(length)?;
        Some(Record { seq, flags, session, id, stamps, number, total, count, ops })
    }
}

impl Whole {
    /// The history that records of some blocks make: of some keys, or of some sessions. A block has
    /// transactions in the order of the input; where two blocks have such of the same part of the input, one
    /// ends before the other begins. Several records of one transaction are joined. `concerns` says whether
    /// a key whose initial value is given belongs to the part. `line` says on which line a transaction
    /// begins.
    pub fn part(
        &self,
        blocks: &[&[u8]],
        make_up: MakeUp,
        concerns: impl Fn(u64) -> bool,
        line: impl Fn(u64) -> u32,
    ) -> Result<Part, PartError> {
        let mut order: Vec<(u64, usize)> = Vec::with_capacity(blocks.len());
        for (i, block) in blocks.iter().enumerate() {
            if let Some(first) = records(block).next() {
                order.push((first?.seq, i));
            }
        }
        order.sort_unstable();
        let ordered: Vec<&[u8]> = order.into_iter().map(|(_, i)| blocks[i]).collect();
        let (sessions, ties) = survey(&ordered, make_up)?;
        let mut making = Making::default();
        making.assembler.explicit = self.format == Format::Anomalist;
        making.assembler.expect(self.shows);
        let (initial, header_keys) = self.initially(&mut making, concerns)?;
        self.name_sessions(sessions, &mut making);
        let mut group: Vec<Record<'_>> = Vec::new();
        for record in ordered.iter().flat_map(|block| records(block)) {
            let record = record?;
            if group.first().is_some_and(|first| first.seq != record.seq) {
                making.transaction(&group, self, make_up, &ties, &line)?;
                group.clear();
            }
            group.push(record);
        }
        if !group.is_empty() {
            making.transaction(&group, self, make_up, &ties, &line)?;
        }
        let history = making.assembler.finish(Some(initial)).finish();
        let history =
            history.map_err(|source: TooLarge| ReadError::TooLarge { file: self.name.clone(), source })?;
        if let Some(refusal) = refuse_two_kinds(&history, &self.name) {
            return Err(ReadError::Malformed(vec![refusal]).into());
        }
        Ok(making.part.complete(history, header_keys))
    }

    /// Sets the initial values, and gives the default one, and the keys that were named.
    fn initially(
        &self,
        making: &mut Making,
        concerns: impl Fn(u64) -> bool,
    ) -> Result<(Option<Value>, Vec<Origin>), PartError> {
        let mut said: Option<Option<Value>> = None;
        let mut keys = Vec::new();
        for (seq, text) in &self.headers {
            let columns = &mut making.columns;
            columns.reuse();
            let parsed = line::parse(&mut Json::new(text), columns).map_err(|_| PartError::Damaged)?;
            let Line::Header { initial, keys: named, .. } = parsed else { return Err(PartError::Damaged) };
            let initial = initial.map(|v| v.map(|v| making.assembler.value(columns, v)));
            if initial.is_some() && said.is_some_and(|before| Some(before) != initial) {
                let message = "a second header with another initial value";
                let refusal = Diagnostic::error(&self.name, Place::File, message);
                return Err(ReadError::Malformed(vec![refusal]).into());
            }
            said = said.or(initial);
            for (i, at) in named.enumerate() {
                let mop = columns.mops[at];
                if concerns(hash_of(columns, mop.key)) {
                    let (_, key, value) = making.assembler.operation(columns, mop, true);
                    making.assembler.builder.set_initial(key, value);
                    if keys.len() == key.index() {
                        keys.push((*seq, i as u32));
                    }
                }
            }
        }
        let options = ReadOptions { initial: self.initial.as_deref(), ..ReadOptions::default() };
        let given = initial::given(&options, &mut making.assembler.builder)?;
        let natural = (self.shows[1] || !self.shows[0]).then_some(Value::NIL);
        Ok((given.or(said).unwrap_or(natural), keys))
    }

    /// Numbers sessions in the order in which they begin in the input.
    fn name_sessions(&self, names: FxHashSet<&[u8]>, making: &mut Making) {
        let first = |name: &[u8]| self.sessions.get(name).copied().unwrap_or(u64::MAX);
        let mut names: Vec<(u64, &[u8])> = names.into_iter().map(|name| (first(name), name)).collect();
        names.sort_unstable();
        for (_, name) in names {
            if let Some(name) = Cursor::new(name).name(&mut making.columns) {
                let name = making.assembler.value(&mut making.columns, name);
                making.assembler.builder.session(name);
            }
        }
    }
}

/// The sessions that occur, and the commit timestamps that occur more than once.
fn survey<'a>(
    blocks: &[&'a [u8]],
    make_up: MakeUp,
) -> Result<(FxHashSet<&'a [u8]>, Vec<Timestamp>), PartError> {
    let mut sessions: FxHashSet<&[u8]> = FxHashSet::default();
    let mut commits: Vec<Timestamp> = Vec::new();
    for record in blocks.iter().flat_map(|block| records(block)) {
        let record = record?;
        sessions.insert(record.session);
        if make_up == MakeUp::Ties {
            commits.extend(record.stamps.map(|stamps| stamps.commit));
        }
    }
    commits.sort_unstable();
    let mut ties: Vec<Timestamp> =
        commits.chunk_by(|a, b| a == b).filter(|equal| equal.len() > 1).map(|equal| equal[0]).collect();
    ties.shrink_to_fit();
    Ok((sessions, ties))
}

/// A part that is being made.
#[derive(Default)]
struct Making {
    assembler: Assembler,
    columns: Columns,
    operations: Vec<(u32, Mop)>,
    part: PartColumns,
}

#[derive(Default)]
struct PartColumns {
    seqs: Vec<u64>,
    writes: Vec<bool>,
    totals: Vec<u32>,
    start: Vec<u32>,
    ops: Vec<u32>,
}

impl Making {
    fn transaction(
        &mut self,
        group: &[Record<'_>],
        whole: &Whole,
        make_up: MakeUp,
        ties: &[Timestamp],
        line: &impl Fn(u64) -> u32,
    ) -> Result<(), PartError> {
        let Making { assembler, columns, operations, part } = self;
        let Some(record) = group.first() else { return Ok(()) };
        columns.reuse();
        operations.clear();
        for record in group {
            record.operations(columns, operations).ok_or(PartError::Damaged)?;
        }
        if group.len() > 1 {
            operations.sort_by_key(|(op, _)| *op);
        }
        let has_write = operations.iter().any(|(_, mop)| mop.kind != OpKind::Read);
        if !has_write && record.is_made_up(make_up, |commit| ties.binary_search(&commit).is_ok()) {
            let key = columns.atom(AtomKind::Compound, &format!("\0{}", record.seq));
            let cell = Cell::One(columns.int(0));
            operations.push((MADE_UP, Mop { kind: OpKind::Write, key, cell }));
        }
        columns.mops.extend(operations.iter().map(|(_, mop)| *mop));
        let name =
            |bytes: &[u8], columns: &mut Columns| Cursor::new(bytes).name(columns).ok_or(PartError::Damaged);
        let session = name(record.session, columns)?;
        let id = group.iter().find_map(|record| record.id).map(|id| name(id, columns)).transpose()?;
        let facts = Facts {
            id,
            outcome: record.outcome().ok_or(PartError::Damaged)?,
            stamps: record.stamps,
            number: record.number.filter(|_| whole.numbered),
            ..Facts::default()
        };
        let recorded = Recorded { session, mops: 0..columns.mops.len(), facts, meta: Vec::new() };
        recorded.assemble(assembler, columns, line(record.seq));
        part.seqs.push(record.seq);
        part.writes.push(record.flags & WRITES != 0);
        part.totals.push(record.total);
        part.start.push(part.ops.len() as u32);
        part.ops.extend(operations.iter().map(|(op, _)| *op));
        Ok(())
    }
}

impl PartColumns {
    fn complete(self, history: History, header_keys: Vec<Origin>) -> Part {
        let PartColumns { seqs, writes, totals, start, ops } = self;
        let mut txns = vec![TxnId(0); seqs.len()];
        for t in history.txns() {
            txns[history.position(t) as usize] = t;
        }
        let mut origins: Vec<Option<Origin>> = vec![None; history.key_count()];
        for (origin, named) in origins.iter_mut().zip(header_keys) {
            *origin = Some(named);
        }
        for (rank, &t) in txns.iter().enumerate() {
            for (local, i) in history.op_range(t).enumerate() {
                let op = ops[start[rank] as usize + local];
                let origin = &mut origins[history.heads()[i].key().index()];
                if op != MADE_UP && origin.is_none() {
                    *origin = Some((seqs[rank], op));
                }
            }
        }
        Part { history, seqs, writes, totals, start, txns, ops, origins }
    }
}
