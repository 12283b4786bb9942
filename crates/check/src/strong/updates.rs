//! Update serializability (Adya's PL-3U): which transactions that only read are in a cycle with those that
//! write?
//!
//! The order makes the transactions that write serial; that is looked at before. Between them there are
//! dependencies: a later version of a key, a read, a read that was replaced. A transaction that only reads
//! is in a cycle if they lead from something that replaced one of its reads to something that it read.
//! Every such transaction searches the part of the order between the two.

use super::facts::{From, Origin};
use super::model::Model;
use super::scan::{Constraint, Decided, Link};
use anomalist_history::{KeyId, TxnId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// One constraint for each transaction that only reads and is in a cycle.
pub(crate) fn missed(model: &Model<'_>, order: &[u32], decided: &impl Decided) -> Vec<Constraint> {
    let facts = model.facts;
    let exists = |t: TxnId| facts.certain[t.index()] || decided.took_effect(t);
    let writes = |t: TxnId| !facts.writes_of(t).is_empty();
    let mut view = View {
        model,
        place: vec![u32::MAX; facts.history.txn_count()],
        replaced_by: FxHashMap::default(),
        readers: FxHashMap::default(),
        source: Vec::with_capacity(facts.reads.len()),
    };
    view.source.extend(facts.reads.iter().map(|read| match read.from {
        From::Initial => None,
        From::Txn(w) => Some(w),
        From::Open(open) => decided.source(open).and_then(Origin::txn),
    }));
    let txns: Vec<TxnId> =
        order.iter().filter(|&&n| model.counts(n)).map(|&n| TxnId(n)).filter(|&t| exists(t)).collect();
    let mut last: FxHashMap<KeyId, TxnId> = FxHashMap::default();
    for (i, &t) in (0..).zip(&txns) {
        view.place[t.index()] = i;
        for write in facts.writes_of(t) {
            let key = facts.key_of(write);
            view.replaced_by.insert((key, last.insert(key, t)), t);
        }
        for read in facts.reads_of(t).filter(|_| writes(t)) {
            if let Some(w) = view.source[read] {
                view.readers.entry(w).or_default().push((t, read as u32));
            }
        }
    }
    txns.iter().filter(|&&t| !writes(t)).filter_map(|&t| view.cycle(t)).collect()
}

struct View<'a> {
    model: &'a Model<'a>,
    place: Vec<u32>,
    /// Per key and writer (`None`: the initial state), who wrote the next version.
    replaced_by: FxHashMap<(KeyId, Option<TxnId>), TxnId>,
    readers: FxHashMap<TxnId, Vec<(TxnId, u32)>>,
    /// Per read, what it returned.
    source: Vec<Option<TxnId>>,
}

impl View<'_> {
    fn replacement(&self, read: usize) -> Option<TxnId> {
        self.replaced_by.get(&(self.model.facts.reads[read].key, self.source[read])).copied()
    }

    /// Calls `f` with everybody who directly depends on `t`, of those who write.
    fn successors(&self, t: TxnId, mut f: impl FnMut(TxnId, Link)) {
        let facts = self.model.facts;
        for &(reader, read) in self.readers.get(&t).map_or(&[][..], Vec::as_slice) {
            f(reader, Link::Read(read));
        }
        for write in facts.writes_of(t) {
            if let Some(&next) = self.replaced_by.get(&(facts.key_of(write), Some(t))) {
                f(next, Link::Version);
            }
        }
        for read in facts.reads_of(t) {
            if let Some(next) = self.replacement(read).filter(|&next| next != t) {
                f(next, Link::Replaced(read as u32));
            }
        }
    }

    /// A way from what replaced a read of `reader` to something that it read.
    fn cycle(&self, reader: TxnId) -> Option<Constraint> {
        let facts = self.model.facts;
        let reads = facts.reads_of(reader);
        let read_by = |t: TxnId| reads.clone().find(|&i| self.source[i] == Some(t));
        let last = reads.clone().filter_map(|i| Some(self.place[self.source[i]?.index()])).max()?;
        let mut came: FxHashMap<TxnId, Option<(TxnId, Link)>> = FxHashMap::default();
        let mut began: FxHashMap<TxnId, u32> = FxHashMap::default();
        let mut queue = VecDeque::new();
        for i in reads.clone() {
            if let Some(next) = self.replacement(i).filter(|t| self.place[t.index()] <= last)
                && came.insert(next, None).is_none()
            {
                began.insert(next, i as u32);
                queue.push_back(next);
            }
        }
        while let Some(t) = queue.pop_front() {
            if let Some(read) = read_by(t) {
                let (mut path, mut links) = (vec![reader, t], vec![Link::Read(read as u32)]);
                let mut at = t;
                while let Some(&Some((before, link))) = came.get(&at) {
                    path.push(before);
                    links.push(link);
                    at = before;
                }
                path.reverse();
                links.reverse();
                let read = *began.get(&at)?;
                return Some(Constraint::Path { read, from: self.source[read as usize], path, links });
            }
            self.successors(t, |next, link| {
                if self.place[next.index()] <= last && !came.contains_key(&next) {
                    came.insert(next, Some((t, link)));
                    queue.push_back(next);
                }
            });
        }
        None
    }
}
