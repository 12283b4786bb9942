//! A run as a list-append history over rows.
//!
//! A key is a row, its value the list of statements that wrote it. A query is a read of every row behind
//! its result. A statement that writes appends its element `txn.statement` to each row it wrote, which is
//! known from what it returned or, where the database returns nothing, from the lists that any transaction
//! saw the element in: an element that no read shows is in no dependency. A `DELETE` appends the last
//! element of its rows. No later list shows that one, so the version order gets it through a read by its
//! own transaction, after its own append; such a read says nothing about what the transaction read from
//! others that the order of versions does not say as well.
//!
//! What was rolled back to a savepoint, or failed as a statement, was written by an aborted transaction of
//! its own, so that any transaction that saw it has an aborted read. Elements of whole transactions that
//! were rolled back are kept the same way.
//!
//! What was *read* before a rollback to a savepoint still counts: the client has seen it, and PostgreSQL
//! keeps its predicate locks, InnoDB its row locks. There is one exception. If the savepoint is older than
//! the transaction's first access to a table, InnoDB did not take part in it and MySQL's kin roll back
//! InnoDB's whole transaction: snapshot and locks are gone, at SERIALIZABLE too, against the manual ("does
//! not release the row locks"). The rest is a new transaction of the database, and what was read before is
//! left out; `tests/savepoints.rs` shows it. Reads of what the transaction itself wrote and took back are
//! of none of them.

use crate::instrument::Effect;
use crate::record::{Executed, Outcome, Run, Step, Version, writer_of};
use anomalist_history::{AtomKind, Builder, Draft, History, Interval, OpId, OpKind, TooLarge, TxnId, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// A history, and where its operations come from.
pub struct Mapped {
    /// The history.
    pub history: anomalist::History,
    /// Per operation, the transaction (by its place in the run) and the statement behind it.
    statements: Vec<(usize, usize)>,
    /// Per transaction, its place in the run.
    places: Vec<usize>,
    /// By place in the run, the transaction without what it took back.
    txns: FxHashMap<usize, TxnId>,
}

/// A transaction as it was given to the builder.
struct Drafted {
    /// Its place in the run.
    place: usize,
    /// The steps behind its operations, in their order.
    steps: Vec<usize>,
    /// What the transaction took back.
    undone: bool,
}

impl Mapped {
    /// The ids of a history are not those of the drafts: a transaction of unknown outcome gets a session of
    /// its own, behind all others. What stays is its position, which is the place of its draft.
    fn new(history: History, drafts: &[Drafted]) -> Mapped {
        let mut mapped = Mapped {
            statements: Vec::new(),
            places: Vec::new(),
            txns: FxHashMap::default(),
            history: history.into(),
        };
        let history = mapped.history.transactions();
        for txn in history.txns() {
            let Drafted { place, steps, undone } = &drafts[history.position(txn) as usize];
            mapped.places.push(*place);
            mapped.statements.extend(steps.iter().map(|step| (*place, *step)));
            if !undone {
                mapped.txns.insert(*place, txn);
            }
        }
        mapped
    }

    /// The statement behind an operation: places in the run's transactions and in the transaction's steps.
    pub fn statement(&self, op: OpId) -> (usize, usize) {
        self.statements[op.index()]
    }

    /// The transaction at a place of the run, without what it took back.
    pub fn txn(&self, place: usize) -> Option<TxnId> {
        self.txns.get(&place).copied()
    }

    /// The place of a transaction in the run.
    pub fn place(&self, txn: TxnId) -> usize {
        self.places[txn.index()]
    }
}

/// Which reads count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// All of them.
    All,
    /// In a transaction with plain reads, those by `FOR UPDATE` and `FOR SHARE` do not: below SERIALIZABLE
    /// they return what is there now, whatever the snapshot of the others (section 3.4 of the paper).
    Snapshot,
}

/// Translates a run.
pub fn map(run: &Run, reads: Reads) -> Result<Mapped, TooLarge> {
    let mut mapper = Mapper {
        builder: Builder::new(),
        written: written(run),
        lists: FxHashMap::default(),
        drafts: Vec::new(),
    };
    let empty = mapper.builder.list(&[]);
    mapper.builder.set_initial_default(Some(empty));
    for place in 0..run.transactions.len() {
        mapper.transaction(run, place, reads);
    }
    Ok(Mapped::new(mapper.builder.finish()?, &mapper.drafts))
}

/// Per transaction and statement, the rows it wrote, as far as any transaction saw it.
type Written<'r> = BTreeMap<(u64, usize), FxHashSet<&'r str>>;

fn written(run: &Run) -> Written<'_> {
    let mut written: Written<'_> = BTreeMap::new();
    let mut known: FxHashSet<(&str, &str)> = FxHashSet::default();
    for txn in &run.transactions {
        for step in &txn.steps {
            for version in step.rows.iter().chain(&step.deleted) {
                if !known.insert((&version.row, &version.list)) {
                    continue;
                }
                for writer in version.elements().filter_map(writer_of) {
                    written.entry(writer).or_default().insert(&version.row);
                }
            }
            if step.failed.is_none() {
                let rows = step.inserted.iter().map(|r| &**r);
                written.entry((txn.id, step.number)).or_default().extend(rows);
            }
        }
    }
    written
}

struct Mapper<'r> {
    builder: Builder,
    written: Written<'r>,
    /// Lists by their text, so that a version seen often is stored once.
    lists: FxHashMap<&'r str, Value>,
    /// Every transaction of the builder, in order.
    drafts: Vec<Drafted>,
}

impl<'r> Mapper<'r> {
    fn transaction(&mut self, run: &'r Run, place: usize, reads: Reads) {
        let txn = &run.transactions[place];
        let draft = self.open(txn, place, txn.outcome, false);
        let plain = txn.steps.iter().any(|s| s.effect == Effect::Read && !s.rows.is_empty());
        for (i, step) in txn.steps.iter().enumerate() {
            let skipped = reads == Reads::Snapshot && plain && step.effect == Effect::LockingRead;
            match (skipped, step.undone) {
                (true, _) => {}
                (false, false) => self.step(draft, txn, step, i),
                (false, true) if step.is_read() => self.reads_before_rollback(draft, txn, step, i),
                (false, true) => {}
            }
        }
        let Some(first) = txn.steps.iter().position(|s| s.undone && self.wrote(txn, s)) else { return };
        let aborted = self.open(txn, place, Outcome::Aborted, true);
        for (i, step) in txn.steps.iter().enumerate().skip(first).filter(|(_, s)| s.undone) {
            self.appends(aborted, txn, step, i);
        }
    }

    fn open(&mut self, txn: &Executed, place: usize, outcome: Outcome, undone: bool) -> Draft {
        let note = if undone { " (rolled back)" } else { "" };
        let session = self.builder.int(txn.session as i64);
        let session = self.builder.session(session);
        let draft = self.builder.transaction(session);
        let label = self.builder.atom(AtomKind::Token, &format!("T{}{note}", txn.id));
        self.builder.set_label(draft, label);
        let (invoked, completed) = txn.interval;
        self.builder.set_interval(draft, Interval { invoked, completed: Some(completed) });
        self.builder.set_outcome(
            draft,
            match outcome {
                Outcome::Committed => anomalist_history::Outcome::Committed,
                Outcome::Aborted => anomalist_history::Outcome::Aborted,
                Outcome::Unknown => anomalist_history::Outcome::Indeterminate,
            },
        );
        self.drafts.push(Drafted { place, steps: Vec::new(), undone });
        draft
    }

    fn wrote(&self, txn: &Executed, step: &Step) -> bool {
        self.written.get(&(txn.id, step.number)).is_some_and(|rows| !rows.is_empty())
    }

    fn step(&mut self, draft: Draft, txn: &Executed, step: &'r Step, at: usize) {
        match step.effect {
            Effect::Read | Effect::LockingRead => self.reads(draft, step, at),
            Effect::None => {}
            Effect::Insert { .. } | Effect::Update | Effect::Delete | Effect::Replace => {
                self.appends(draft, txn, step, at);
                // What the statement returned of the rows it made: their lists, own element last.
                self.reads(draft, step, at);
                for version in &step.deleted {
                    self.last_element(draft, txn, step, version, at);
                }
            }
        }
    }

    fn appends(&mut self, draft: Draft, txn: &Executed, step: &Step, at: usize) {
        let element = self.element(txn.id, step.number);
        let mut rows: Vec<&str> =
            self.written.get(&(txn.id, step.number)).into_iter().flatten().copied().collect();
        rows.sort_unstable();
        for row in rows {
            self.op(draft, OpKind::Append, row, element, at);
        }
    }

    fn reads(&mut self, draft: Draft, step: &'r Step, at: usize) {
        for version in &step.rows {
            let list = self.list(version);
            self.op(draft, OpKind::Read, &version.row, list, at);
        }
    }

    /// What was read before a rollback to a savepoint, without what the transaction itself had written by
    /// then.
    fn reads_before_rollback(&mut self, draft: Draft, txn: &Executed, step: &'r Step, at: usize) {
        let own = |element: &str| {
            writer_of(element).is_some_and(|(t, n)| {
                t == txn.id && txn.steps.get(n.wrapping_sub(1)).is_some_and(|s| s.undone)
            })
        };
        for version in step.rows.iter().filter(|v| !v.elements().any(own)) {
            let list = self.list(version);
            self.op(draft, OpKind::Read, &version.row, list, at);
        }
    }

    /// A deletion: the last element, and the list that ends with it.
    fn last_element(&mut self, draft: Draft, txn: &Executed, step: &Step, version: &Version, at: usize) {
        let element = self.element(txn.id, step.number);
        self.op(draft, OpKind::Append, &version.row, element, at);
        let mut list: Vec<Value> = version.elements().map(str::to_owned).map(|e| self.text(&e)).collect();
        list.push(element);
        let list = self.builder.list(&list);
        self.op(draft, OpKind::Read, &version.row, list, at);
    }

    fn element(&mut self, txn: u64, statement: usize) -> Value {
        self.builder.atom(AtomKind::Token, &format!("{txn}.{statement}"))
    }

    fn text(&mut self, element: &str) -> Value {
        self.builder.atom(AtomKind::Token, element)
    }

    fn list(&mut self, version: &'r Version) -> Value {
        if let Some(&list) = self.lists.get(&*version.list) {
            return list;
        }
        let elements: Vec<Value> =
            version.elements().map(|e| self.builder.atom(AtomKind::Token, e)).collect();
        let list = self.builder.list(&elements);
        self.lists.insert(&version.list, list);
        list
    }

    fn op(&mut self, draft: Draft, kind: OpKind, row: &str, value: Value, at: usize) {
        let key = self.builder.atom(AtomKind::Token, row);
        let key = self.builder.key(key);
        self.builder.op(draft, kind, key, value);
        self.drafts[draft.0 as usize].steps.push(at);
    }
}
