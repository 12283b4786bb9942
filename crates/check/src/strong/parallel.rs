//! Parallel snapshot isolation: which reads miss a write that dependencies put between?
//!
//! An order of transactions gives each key's writers an order; with session order and reads that is the relation whose
//! paths the level calls visibility. A read of `w` is wrong if the next writer of the key after `w` reaches the reader.
//! Reachability is kept in clocks: per transaction and session, how much of the session reaches it. O(m·k).

use super::facts::From;
use super::model::Model;
use super::scan::{Decided, Demand};
use isolde_history::TxnId;
use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

/// The reads that an order makes wrong, one demand each.
pub(crate) fn missed(model: &Model<'_>, order: &[u32], decided: &impl Decided) -> Vec<Demand> {
    let facts = model.facts;
    let sessions = facts.history.session_count();
    let mut view = View {
        model,
        decided,
        sessions,
        clocks: vec![0; facts.history.txn_count() * sessions],
        last: vec![NONE; facts.history.key_count()],
        first: vec![NONE; facts.history.key_count()],
        before: vec![NONE; facts.write_count()],
        after: vec![NONE; facts.write_count()],
        author: vec![TxnId(NONE); facts.write_count()],
    };
    let mut demands = Vec::new();
    for &node in order.iter().filter(|&&node| model.counts(node)) {
        let t = TxnId(node);
        if !view.counts(t) {
            continue;
        }
        view.place(t);
        for i in facts.reads_of(t) {
            view.check(i, &mut demands);
        }
        view.write(t);
    }
    demands
}

struct View<'a, 'd, D> {
    model: &'a Model<'a>,
    decided: &'d D,
    sessions: usize,
    /// Per transaction and session: the first transaction of the session that does not reach it, as a number.
    clocks: Vec<u32>,
    /// Per key: its latest and its first write.
    last: Vec<u32>,
    first: Vec<u32>,
    /// Per write: its neighbours in version order, and its transaction.
    before: Vec<u32>,
    after: Vec<u32>,
    author: Vec<TxnId>,
}

impl<D: Decided> View<'_, '_, D> {
    fn counts(&self, t: TxnId) -> bool {
        self.model.facts.certain[t.index()] || self.decided.took_effect(t)
    }

    /// What a read returned, as this order has it: an open read may have returned whatever fits.
    fn source(&self, read: usize) -> Option<TxnId> {
        match self.model.facts.reads[read].from {
            From::Initial => None,
            From::Txn(w) => Some(w),
            From::Open(open) => self.decided.source(open),
        }
    }

    /// Calls `f` with every direct predecessor of a transaction. Its own writes need not be there yet.
    fn predecessors(&self, t: TxnId, mut f: impl FnMut(TxnId)) {
        let facts = self.model.facts;
        let session = facts.history.session_range(facts.history.session_of(t));
        let exists = |&p: &TxnId| facts.index.is_committed(p) && self.counts(p);
        if let Some(p) = (session.start..t.0).rev().map(TxnId).find(exists) {
            f(p);
        }
        for i in facts.reads_of(t) {
            if let Some(w) = self.source(i) {
                f(w);
            }
        }
        for write in facts.writes_of(t) {
            let placed = self.author[write] == t;
            let before = if placed { self.before[write] } else { self.last[facts.key_of(write).index()] };
            if before != NONE {
                f(self.author[before as usize]);
            }
        }
    }

    fn place(&mut self, t: TxnId) {
        let history = self.model.facts.history;
        let mut row = vec![0u32; self.sessions];
        self.predecessors(t, |p| {
            let other = &self.clocks[p.index() * self.sessions..][..self.sessions];
            row.iter_mut().zip(other).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
            let own = &mut row[history.session_of(p).index()];
            *own = (*own).max(p.0 + 1);
        });
        self.clocks[t.index() * self.sessions..][..self.sessions].copy_from_slice(&row);
    }

    fn reaches(&self, a: TxnId, b: TxnId) -> bool {
        let session = self.model.facts.history.session_of(a).index();
        self.clocks[b.index() * self.sessions + session] > a.0
    }

    fn check(&self, i: usize, demands: &mut Vec<Demand>) {
        let facts = self.model.facts;
        let read = &facts.reads[i];
        let from = self.source(i);
        let next = match from {
            None => self.first[read.key.index()],
            Some(w) => {
                let Some(write) = facts.writes_of(w).find(|&write| facts.key_of(write) == read.key) else {
                    return;
                };
                self.after[write]
            }
        };
        if next == NONE {
            return;
        }
        let other = self.author[next as usize];
        if self.reaches(other, read.reader) {
            demands.push(Demand::Path { read: i as u32, from, path: self.path(other, read.reader) });
        }
    }

    /// A shortest path of dependencies, both ends included.
    fn path(&self, from: TxnId, to: TxnId) -> Vec<TxnId> {
        let mut came: rustc_hash::FxHashMap<TxnId, TxnId> = rustc_hash::FxHashMap::default();
        let mut queue = VecDeque::from([to]);
        while let Some(t) = queue.pop_front() {
            if t == from {
                break;
            }
            self.predecessors(t, |p| {
                if (p == from || self.reaches(from, p)) && p != to && !came.contains_key(&p) {
                    came.insert(p, t);
                    queue.push_back(p);
                }
            });
        }
        let mut path = vec![from];
        let mut at = from;
        while let Some(&next) = came.get(&at) {
            path.push(next);
            at = next;
        }
        path
    }

    fn write(&mut self, t: TxnId) {
        for write in self.model.facts.writes_of(t) {
            let key = self.model.facts.key_of(write).index();
            let last = self.last[key];
            self.before[write] = last;
            self.author[write] = t;
            match last {
                NONE => self.first[key] = write as u32,
                before => self.after[before as usize] = write as u32,
            }
            self.last[key] = write as u32;
        }
    }
}
