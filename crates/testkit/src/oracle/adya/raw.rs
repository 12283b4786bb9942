//! The operations of a history, and every way to order its versions.

use super::unfolded::Unfolded;
use super::{Assumed, Interpretation, RT, RW, SO, WR, WW, phenomena};
use anomalist_history::{History, OpKind, Outcome, TxnId, Value};
use std::collections::BTreeSet;

/// The order of versions of every key: operations.
pub(super) type Orders = Vec<Vec<usize>>;

pub(super) struct Op {
    pub txn: usize,
    pub kind: OpKind,
    pub key: usize,
    pub value: Value,
}

pub(super) struct Raw<'a> {
    pub history: &'a History,
    pub ops: Vec<Op>,
    pub n: usize,
    keys: usize,
    pub lists: Vec<bool>,
}

/// Where a read got its value.
pub(super) enum Origin {
    Nothing,
    Initial,
    Write(usize),
    Several,
}

impl<'a> Raw<'a> {
    pub fn new(history: &'a History) -> Raw<'a> {
        let mut ops = Vec::new();
        for t in history.txns() {
            for (_, o) in history.ops(t) {
                ops.push(Op { txn: t.index(), kind: o.kind, key: o.key.index(), value: o.value });
            }
        }
        let keys = history.key_count();
        let is_list =
            |k: usize| ops.iter().any(|o| o.key == k && (o.kind == OpKind::Append || o.value.is_list()));
        let lists = (0..keys).map(is_list).collect();
        Raw { history, n: history.txn_count(), ops, keys, lists }
    }

    pub fn outcome(&self, t: usize) -> Outcome {
        self.history.outcome(TxnId(t as u32))
    }

    pub fn committed(&self) -> Vec<bool> {
        (0..self.n).map(|t| self.outcome(t) == Outcome::Committed).collect()
    }

    pub fn own_before(&self, read: usize) -> Vec<usize> {
        let r = &self.ops[read];
        (0..read)
            .filter(|&w| {
                self.ops[w].txn == r.txn && self.ops[w].key == r.key && self.ops[w].kind != OpKind::Read
            })
            .collect()
    }

    fn writers(&self, key: usize, value: Value, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let writes = |w: &usize| {
            let op = &self.ops[*w];
            op.key == key && op.value == value && op.kind != OpKind::Read && wanted(op.txn)
        };
        (0..self.ops.len()).filter(writes).collect()
    }

    pub fn reads(&self, exists: &[bool]) -> Vec<usize> {
        let known = |&i: &usize| {
            let op = &self.ops[i];
            op.kind == OpKind::Read && op.value != Value::UNKNOWN && exists[op.txn]
        };
        (0..self.ops.len()).filter(known).collect()
    }

    fn elements(&self, read: usize) -> &[Value] {
        self.history.list(self.ops[read].value).unwrap_or_default()
    }

    /// Adds transactions of unknown outcome that existing ones read from; `None` if a source is not unique.
    pub fn closed(&self, exists: &[bool]) -> Option<Vec<bool>> {
        let mut exists = exists.to_vec();
        loop {
            let before = exists.clone();
            for read in self.reads(&exists) {
                let op = &self.ops[read];
                let own = self.own_before(read);
                let values: Vec<Value> = match self.lists[op.key] {
                    true => self.elements(read).to_vec(),
                    false if own.last().is_some_and(|&w| self.ops[w].value == op.value) => Vec::new(),
                    false => vec![op.value],
                };
                for value in values {
                    let possible = self.writers(op.key, value, |t| self.outcome(t) != Outcome::Aborted);
                    let txns: BTreeSet<usize> = possible.iter().map(|&w| self.ops[w].txn).collect();
                    if txns.len() > 1 || possible.len() > 1 {
                        return None;
                    }
                    txns.into_iter().for_each(|t| exists[t] = true);
                }
            }
            if exists == before {
                return Some(exists);
            }
        }
    }

    /// What a list read shows of committed appends, the reader's own at the end left out.
    fn body(&self, exists: &[bool], read: usize) -> Vec<usize> {
        let op = &self.ops[read];
        let own: Vec<Value> = self.own_before(read).iter().map(|&w| self.ops[w].value).collect();
        let elements = self.elements(read);
        let shown = elements.strip_suffix(own.as_slice()).unwrap_or(elements);
        let mut body = Vec::new();
        for &e in shown {
            for w in self.writers(op.key, e, |t| exists[t]) {
                if !body.contains(&w) {
                    body.push(w);
                }
            }
        }
        body
    }

    fn bodies(&self, exists: &[bool], key: usize) -> Vec<(usize, Vec<usize>)> {
        let on_key = |&read: &usize| self.ops[read].key == key && self.ops[read].value.is_list();
        self.reads(exists).into_iter().filter(on_key).map(|r| (r, self.body(exists, r))).collect()
    }

    /// The longest list that all bodies begin with or are a beginning of; and whether that is the longest
    /// body.
    fn agreed(&self, exists: &[bool], key: usize) -> (Vec<usize>, bool) {
        let bodies = self.bodies(exists, key);
        let longest = bodies.iter().map(|(_, b)| b.clone()).max_by_key(Vec::len).unwrap_or_default();
        let fits =
            |prefix: &[usize]| bodies.iter().all(|(_, b)| b.starts_with(prefix) || prefix.starts_with(b));
        let length = (0..=longest.len()).rev().find(|&l| fits(&longest[..l])).unwrap_or(0);
        (longest[..length].to_vec(), length == longest.len())
    }

    pub fn origin(&self, exists: &[bool], read: usize) -> Origin {
        let op = &self.ops[read];
        if self.own_before(read).last().is_some_and(|&w| self.ops[w].value == op.value) {
            return Origin::Nothing;
        }
        let written = self.writers(op.key, op.value, |t| exists[t] && t != op.txn);
        match written.as_slice() {
            [] => {
                let written = !self.writers(op.key, op.value, |_| true).is_empty();
                let initial = self.history.initial().of(anomalist_history::KeyId(op.key as u32));
                let own = !self.own_before(read).is_empty();
                if !written && !own && initial == Some(op.value) { Origin::Initial } else { Origin::Nothing }
            }
            [one] => Origin::Write(*one),
            _ => Origin::Several,
        }
    }

    /// Every order of every key's versions that `agrees`.
    pub fn all_orders(
        &self,
        exists: &[bool],
        seen: &[bool],
        limit: usize,
        agrees: &dyn Fn(usize, &[usize]) -> bool,
    ) -> Option<Vec<Orders>> {
        let mut all: Vec<Orders> = vec![Vec::new()];
        for key in 0..self.keys {
            let mut orders = self.key_orders(exists, seen, key)?;
            orders.retain(|order| agrees(key, order));
            if all.len() * orders.len() > limit {
                return None;
            }
            all = all
                .iter()
                .flat_map(|so_far| {
                    orders.iter().map(move |o| so_far.iter().cloned().chain([o.clone()]).collect::<Orders>())
                })
                .collect();
        }
        Some(all)
    }

    /// Per key, whether no order of its versions agrees with what is assumed.
    pub fn contradicted(&self, seen: &[bool], assumed: &Assumed) -> Option<Vec<bool>> {
        let none = |key: usize| {
            let orders = self.key_orders(seen, seen, key)?;
            Some(!orders.iter().any(|order| self.agrees(seen, seen, key, order, assumed)))
        };
        (0..self.keys).map(none).collect()
    }

    fn key_orders(&self, exists: &[bool], seen: &[bool], key: usize) -> Option<Vec<Vec<usize>>> {
        let written: Vec<usize> = (0..self.ops.len())
            .filter(|&w| {
                let op = &self.ops[w];
                op.key == key && op.kind != OpKind::Read && exists[op.txn]
            })
            .collect();
        if self.lists[key] {
            let (start, _) = self.agreed(seen, key);
            let rest: Vec<usize> = written.into_iter().filter(|w| !start.contains(w)).collect();
            let orders = permutations(&rest)?;
            // A transaction's appends take effect in program order.
            let in_program_order = |order: &Vec<usize>| {
                let pairs = (0..order.len()).flat_map(|i| (i + 1..order.len()).map(move |j| (i, j)));
                pairs
                    .into_iter()
                    .all(|(i, j)| self.ops[order[i]].txn != self.ops[order[j]].txn || order[i] < order[j])
            };
            let orders = orders.into_iter().filter(in_program_order);
            return Some(orders.map(|o| start.iter().copied().chain(o).collect()).collect());
        }
        let is_last = |w: &usize| !written.iter().any(|v| v > w && self.ops[*v].txn == self.ops[*w].txn);
        permutations(&written.iter().copied().filter(is_last).collect::<Vec<_>>())
    }

    /// `seen`: whose reads count. What a transaction of unknown outcome read is not known to any client.
    pub fn interpret(&self, exists: &[bool], seen: &[bool], orders: &Orders) -> Interpretation {
        let mut edges = vec![vec![0u8; self.n]; self.n];
        let mut unfolded = Unfolded::new(self.ops.iter().map(|o| o.txn).collect(), self.n);
        let mut add = |a: usize, b: usize, label: u8| {
            if a != b {
                edges[a][b] |= label;
            }
        };
        for order in orders {
            for (i, &a) in order.iter().enumerate() {
                for &b in &order[i + 1..] {
                    add(self.ops[a].txn, self.ops[b].txn, WW);
                    let same = |o: &Op| o.txn == self.ops[b].txn && o.key == self.ops[b].key;
                    let last = self.ops.iter().rposition(|o| same(o) && o.kind != OpKind::Read);
                    unfolded.depends(self.ops[a].txn, last.unwrap_or(b));
                }
            }
        }
        for read in self.reads(seen) {
            let (t, key) = (self.ops[read].txn, self.ops[read].key);
            let order = &orders[key];
            if self.lists[key] {
                if !self.ops[read].value.is_list() {
                    continue;
                }
                let body = self.body(exists, read);
                if let Some(&last) = body.last() {
                    add(self.ops[last].txn, t, WR);
                    unfolded.depends(self.ops[last].txn, read);
                }
                if order.starts_with(&body) {
                    order[body.len()..].iter().for_each(|&w| add(t, self.ops[w].txn, RW));
                    unfolded.misses(read, order[body.len()..].iter().map(|&w| self.ops[w].txn));
                }
                continue;
            }
            let own = !self.own_before(read).is_empty();
            match self.origin(exists, read) {
                Origin::Initial => {
                    order.iter().for_each(|&w| add(t, self.ops[w].txn, RW));
                    unfolded.misses(read, order.iter().map(|&w| self.ops[w].txn));
                }
                Origin::Write(write) => {
                    let writer = self.ops[write].txn;
                    add(writer, t, WR);
                    unfolded.depends(writer, read);
                    let place = order.iter().position(|&w| self.ops[w].txn == writer);
                    if let Some(place) = place.filter(|_| !own) {
                        order[place + 1..].iter().for_each(|&w| add(t, self.ops[w].txn, RW));
                        unfolded.misses(read, order[place + 1..].iter().map(|&w| self.ops[w].txn));
                    }
                }
                Origin::Nothing | Origin::Several => {}
            }
        }
        self.add_orders(exists, &mut edges);
        let writes =
            (0..self.n).map(|t| self.ops.iter().any(|o| o.txn == t && o.kind != OpKind::Read)).collect();
        let found = simple_cycles(&edges).iter().flat_map(|steps| phenomena(steps)).collect();
        Interpretation { edges, found, writes, unfolded }
    }

    fn add_orders(&self, exists: &[bool], edges: &mut [Vec<u8>]) {
        for a in (0..self.n).filter(|&a| exists[a]) {
            for b in (0..self.n).filter(|&b| b != a && exists[b]) {
                if self.history.session_before(TxnId(a as u32), TxnId(b as u32)) {
                    edges[a][b] |= SO;
                }
                let Some(intervals) = self.history.intervals() else { continue };
                let over = self.outcome(a) == Outcome::Committed;
                if over && intervals[a].completed.is_some_and(|end| end < intervals[b].invoked) {
                    edges[a][b] |= RT;
                }
            }
        }
    }

    pub fn dirty(&self, exists: &[bool]) -> bool {
        let lists_disagree = (0..self.keys).any(|k| {
            let (start, whole) = self.agreed(exists, k);
            let late = |w: usize| {
                let earlier = (0..w).filter(|&v| {
                    self.ops[v].txn == self.ops[w].txn
                        && self.ops[v].key == k
                        && self.ops[v].kind == OpKind::Append
                });
                earlier.into_iter().any(|v| {
                    start.iter().position(|&s| s == v) > start.iter().position(|&s| s == w)
                        || !start.contains(&v)
                })
            };
            !whole || start.iter().any(|&w| late(w))
        });
        lists_disagree || self.reads(exists).into_iter().any(|read| self.is_dirty(exists, read))
    }

    fn is_dirty(&self, exists: &[bool], read: usize) -> bool {
        let op = &self.ops[read];
        let replaced = |w: usize| {
            let later = &self.ops[w + 1..];
            later.iter().any(|o| o.txn == self.ops[w].txn && o.key == op.key && o.kind != OpKind::Read)
        };
        if self.lists[op.key] {
            let elements = self.elements(read);
            let unknown = elements.iter().any(|&e| self.writers(op.key, e, |t| exists[t]).is_empty());
            let future =
                elements.iter().any(|&e| self.writers(op.key, e, |t| t == op.txn).iter().any(|&w| w > read));
            let twice = (0..elements.len()).any(|i| elements[..i].contains(&elements[i]));
            let last = self.body(exists, read).last().copied();
            let part = last.is_some_and(|w| self.ops[w].txn != op.txn && replaced(w));
            return !op.value.is_list() || unknown || future || twice || part;
        }
        match self.origin(exists, read) {
            Origin::Initial | Origin::Several => false,
            Origin::Write(w) => replaced(w),
            Origin::Nothing => {
                let own = self.own_before(read);
                let mine = own.iter().any(|&w| self.ops[w].value == op.value);
                let initial =
                    self.history.initial().of(anomalist_history::KeyId(op.key as u32)) == Some(op.value);
                let written = !self.writers(op.key, op.value, |_| true).is_empty();
                !mine && (!initial || written)
            }
        }
    }

    pub fn internal(&self, exists: &[bool]) -> bool {
        let reads = self.reads(exists);
        let same =
            |a: usize, b: usize| self.ops[a].txn == self.ops[b].txn && self.ops[a].key == self.ops[b].key;
        let own_ignored = reads.iter().any(|&read| {
            let own: Vec<Value> = self.own_before(read).iter().map(|&w| self.ops[w].value).collect();
            match self.lists[self.ops[read].key] {
                true => !self.elements(read).ends_with(&own),
                false => own.last().is_some_and(|&v| v != self.ops[read].value),
            }
        });
        let external = |read: usize| self.own_before(read).is_empty();
        let changed = reads.iter().any(|&a| {
            reads.iter().any(|&b| {
                a < b
                    && same(a, b)
                    && match self.lists[self.ops[a].key] {
                        true => self.body(exists, a) != self.body(exists, b),
                        false => external(a) && external(b) && self.ops[a].value != self.ops[b].value,
                    }
            })
        });
        own_ignored || changed
    }
}

/// All orders of a few items; `None` if there are too many.
fn permutations(items: &[usize]) -> Option<Vec<Vec<usize>>> {
    if items.len() > 6 {
        return None;
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for &item in items {
        let mut next = Vec::new();
        for order in &all {
            for place in 0..=order.len() {
                let mut longer = order.clone();
                longer.insert(place, item);
                next.push(longer);
            }
        }
        all = next;
    }
    Some(all)
}

/// The relations of the steps of every simple cycle, starting at its least transaction.
fn simple_cycles(edges: &[Vec<u8>]) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut work: Vec<(Vec<usize>, Vec<u8>)> = (0..edges.len()).map(|t| (vec![t], Vec::new())).collect();
    while let Some((path, steps)) = work.pop() {
        let last = path[path.len() - 1];
        for next in (path[0]..edges.len()).filter(|&next| edges[last][next] != 0) {
            let with: Vec<u8> = steps.iter().copied().chain([edges[last][next]]).collect();
            if next == path[0] {
                found.insert(with);
            } else if !path.contains(&next) {
                work.push((path.iter().copied().chain([next]).collect(), with));
            }
        }
    }
    found
}
