//! Who must come before whom because of what was read and written: Adya's dependencies, as one labelled
//! graph.
//!
//! `wr` goes from a writer to who read its version, `ww` from a writer to the writer of the next version,
//! `rw` from a reader to the writer of the version after the one it read. Only what holds in every
//! interpretation of the history becomes an edge. An edge is its two ends and a set of labels; the
//! operations that prove it are looked up again when a witness needs them (`witness.rs`). O(operations),
//! but for a list key with many appends that no transaction saw and many readers that did not see them,
//! whose edges are cut off at a limit.

use super::extra::Given;
use super::lists::{Lists, Place};
use super::registers::Registers;
use crate::view::CommittedView;
use anomalist_graph::labelled::{Labelled, Labels};
use anomalist_history::{FaultKind, KeyId, OpId, OpKind, Source, TxnId, Value};
use rustc_hash::FxHashSet;

pub(crate) const WW: Labels = 1;
pub(crate) const WR: Labels = 2;
pub(crate) const RW: Labels = 4;
pub(crate) const SO: Labels = 8;
pub(crate) const RT: Labels = 16;
/// Anti-dependencies of reads by predicate; only analysers know them.
pub(crate) const RWP: Labels = 32;
/// All anti-dependencies.
pub(crate) const ANTI: Labels = RW | RWP;

/// The dependencies of a history, and what is not known about them.
pub(crate) struct Dependencies<'a> {
    pub view: CommittedView<'a>,
    pub graph: Labelled,
    pub lists: Lists,
    pub registers: &'a Registers,
    pub given: Given,
    /// A register whose writers are in no known order.
    pub open_register: Option<KeyId>,
    /// A list with appends of several transactions that no transaction saw: their order is open.
    pub open_list: Option<KeyId>,
    /// A read that ignored an own write returned what several others wrote, or a list where elements
    /// repeat: whom it depends on was not looked at.
    pub unattributed: bool,
    /// Edges were left out, because they were too many.
    pub cut_off: bool,
    /// The edges one by one, with their operations; empty unless they are wanted.
    pub events: Vec<Event>,
}

/// A dependency with the operation of the transaction that sees something: the reader's read, the later
/// writer's write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub from: TxnId,
    pub to: TxnId,
    pub label: Labels,
    pub op: OpId,
}

/// Pairs of a key that are written out one by one, in multiples of its readers and writers.
const PAIRS: usize = 256;

/// Who read a key, and its last read that saw the same.
type Reader = (KeyId, TxnId, OpId);

/// One entry per key and reader, sorted; of several reads the last.
fn merged(mut readers: Vec<Reader>) -> Vec<Reader> {
    readers.sort_unstable();
    readers.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        if same {
            kept.2 = next.2;
        }
        same
    });
    readers
}

struct Edges {
    all: Vec<(u32, u32, Labels)>,
    events: Option<Vec<Event>>,
    cut_off: bool,
}

impl Edges {
    #[inline]
    fn add(&mut self, from: TxnId, to: TxnId, label: Labels, op: OpId) {
        if from != to {
            self.all.push((from.0, to.0, label));
            if let Some(events) = &mut self.events {
                events.push(Event { from, to, label, op });
            }
        }
    }

    /// From each reader to each writer that it did not see, as far as the limit allows.
    fn product(&mut self, from: &[Reader], to: &[TxnId]) {
        let limit = PAIRS * (from.len() + to.len()) + 100_000;
        let each = if from.len() * to.len() <= limit { to.len() } else { (limit / from.len().max(1)).max(1) };
        self.cut_off |= each < to.len();
        for &(_, reader, read) in from {
            for &writer in &to[..each] {
                self.add(reader, writer, RW, read);
            }
        }
    }
}

impl<'a> Dependencies<'a> {
    pub fn new(
        view: CommittedView<'a>,
        registers: &'a Registers,
        given: Given,
        with_events: bool,
    ) -> Dependencies<'a> {
        let lists = Lists::new(view);
        let mut edges = Edges {
            all: Vec::with_capacity(view.history.op_count() * 2),
            events: with_events.then(Vec::new),
            cut_off: false,
        };
        let initial_readers = add_reads(view, &lists, &mut edges);
        add_list_orders(view, &lists, &mut edges);
        add_register_orders(view, registers, initial_readers, &mut edges);
        edges.all.extend(given.edges().filter(|e| e.0 != e.1).map(|(from, to, label)| (from.0, to.0, label)));
        let graph = Labelled::from_edges(view.txn_count(), edges.all);
        Dependencies {
            open_register: open_register(view, &lists, registers),
            open_list: view.history.keys().find(|&key| {
                let later = lists.later(key);
                later.iter().any(|a| a.txn != later[0].txn)
            }),
            unattributed: unattributed(view),
            view,
            graph,
            lists,
            registers,
            given,
            cut_off: edges.cut_off,
            events: edges.events.unwrap_or_default(),
        }
    }

    /// True if the version order of every key is known, up to appends that no transaction saw, and whom
    /// every read depends on.
    pub fn is_ordered(&self) -> bool {
        self.open_register.is_none() && self.lists.damaged().is_empty() && !self.unattributed && !self.cut_off
    }
}

/// `wr` edges, and `rw` edges of list reads; returns the reads of initial values of registers.
fn add_reads(view: CommittedView<'_>, lists: &Lists, edges: &mut Edges) -> Vec<Reader> {
    let CommittedView { history, index, .. } = view;
    let mut initial = Vec::new();
    let mut tail_readers: Vec<Reader> = Vec::new();
    for t in view.committed() {
        for i in history.op_range(t) {
            let head = history.heads()[i];
            if !head.is_read() {
                continue;
            }
            let (read, key) = (OpId(i as u32), head.key());
            match lists.place(read) {
                Some(Place::At(position)) => {
                    let order = lists.range(key);
                    if position > order.start {
                        edges.add(lists.writer(position - 1), t, WR, read);
                    }
                    if position < order.end {
                        edges.add(t, lists.writer(position), RW, read);
                    } else if !lists.later(key).is_empty() {
                        tail_readers.push((key, t, read));
                    }
                }
                Some(Place::Beyond(append)) => edges.add(append.txn, t, WR, read),
                None => match index.source(read) {
                    Source::From(writer) => edges.add(writer, t, WR, read),
                    Source::Initial if history.list(history.values()[i]).is_none() => {
                        initial.push((key, t, read));
                    }
                    _ => {}
                },
            }
        }
    }
    // A transaction that ignored its own write still read another transaction's.
    for fault in index.faults().iter().filter(|f| f.kind == FaultKind::NotMyOwnWrite) {
        if let Some(write) = fault.other
            && lists.place(fault.op).is_none()
            && index.is_committed(history.txn_of(write))
        {
            edges.add(history.txn_of(write), history.txn_of(fault.op), WR, fault.op);
        }
    }
    for readers in merged(tail_readers).chunk_by(|a, b| a.0 == b.0) {
        let later: Vec<TxnId> = lists.later(readers[0].0).iter().map(|a| a.txn).collect();
        edges.product(readers, &later);
    }
    initial
}

/// Whether a read that ignored an own write returned what several others wrote, or any faulty read a list
/// where elements repeat.
fn unattributed(view: CommittedView<'_>) -> bool {
    let CommittedView { history, index, .. } = view;
    let mut open: FxHashSet<(KeyId, Value)> = FxHashSet::default();
    for fault in index.faults() {
        let read = history.op(fault.op);
        if index.repeats_elements() && read.value.is_list() {
            return true;
        }
        if fault.kind == FaultKind::NotMyOwnWrite && fault.other.is_none() {
            open.insert((read.key, read.value));
        }
    }
    let writes = |t: TxnId| history.ops(t).filter(|(_, o)| o.kind == OpKind::Write);
    !open.is_empty() && history.txns().flat_map(writes).any(|(_, o)| open.contains(&(o.key, o.value)))
}

fn add_list_orders(view: CommittedView<'_>, lists: &Lists, edges: &mut Edges) {
    if !lists.any() {
        return;
    }
    for key in view.history.keys() {
        let order = lists.range(key);
        for position in order.start + 1..order.end {
            let next = lists.at(position);
            edges.add(lists.writer(position - 1), next.txn, WW, next.op);
        }
        if !order.is_empty() {
            let last = lists.writer(order.end - 1);
            for append in lists.later(key) {
                edges.add(last, append.txn, WW, append.op);
            }
        }
    }
}

fn add_register_orders(
    view: CommittedView<'_>,
    registers: &Registers,
    initial: Vec<Reader>,
    edges: &mut Edges,
) {
    for readers in merged(initial).chunk_by(|a, b| a.0 == b.0) {
        // On a list key that no transaction read as a list, an initial value is no version of it.
        edges.product(readers, view.index.writers(readers[0].0));
    }
    if registers.pairs().next().is_none() {
        return;
    }
    let readers = register_readers(view);
    for (key, writer, to) in registers.pairs() {
        let Some(write) = view.write_of(to, key) else { continue };
        edges.add(writer, to, WW, write);
        for &(.., reader, read) in readers_of(&readers, key, writer) {
            edges.add(reader, to, RW, read);
        }
    }
}

/// Key, writer of the version, reader and read of every external read of a register's version, sorted.
pub(super) fn register_readers(view: CommittedView<'_>) -> Vec<(KeyId, TxnId, TxnId, OpId)> {
    let mut readers = Vec::new();
    for t in view.committed() {
        let reads = view.reads(t).filter(|&r| view.is_installed(r));
        readers.extend(reads.filter_map(|r| Some((r.key, r.from?, t, r.op))));
    }
    readers.sort_unstable();
    readers
}

/// Those of one version.
pub(super) fn readers_of(
    readers: &[(KeyId, TxnId, TxnId, OpId)],
    key: KeyId,
    writer: TxnId,
) -> &[(KeyId, TxnId, TxnId, OpId)] {
    let first = readers.partition_point(|r| (r.0, r.1) < (key, writer));
    let len = readers[first..].partition_point(|r| (r.0, r.1) == (key, writer));
    &readers[first..first + len]
}

fn open_register(view: CommittedView<'_>, lists: &Lists, registers: &Registers) -> Option<KeyId> {
    let is_register = |key: KeyId| {
        let first = view.index.writers(key).first();
        first.is_some_and(|&t| view.history.ops(t).any(|(_, o)| o.key == key && o.kind == OpKind::Write))
    };
    view.history.keys().find(|&key| {
        view.index.writers(key).len() > 1
            && (lists.range(key).is_empty() && lists.later(key).is_empty() || is_register(key))
            && !registers.is_total(view, key)
    })
}
