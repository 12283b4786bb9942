//! A second opinion on generated histories: definitions written down as plainly as possible, for small
//! histories.
//!
//! Shares nothing with the simulation, nor with Anomalist's checkers.
#![allow(dead_code)]

use anomalist_history::{History, OpKind, Outcome, View};
use std::collections::{BTreeMap, BTreeSet};

/// A value, or the elements of a list.
pub type Val = Vec<i64>;

#[derive(Debug, Clone)]
pub struct T {
    pub session: i64,
    pub label: i64,
    pub outcome: Outcome,
    pub start: i64,
    pub commit: i64,
    /// (is a write, key, value)
    pub ops: Vec<(bool, i64, Val)>,
}

fn int(view: View) -> i64 {
    match view {
        View::Int(i) => i,
        other => panic!("{other:?} is not an integer"),
    }
}

/// The transactions in the order in which they were recorded.
pub fn txns(h: &History) -> Vec<T> {
    let mut list: Vec<(u32, T)> = h
        .txns()
        .map(|t| {
            let value = |v| match h.list(v) {
                Some(elements) => elements.iter().map(|e| int(e.view())).collect(),
                None => vec![int(v.view())],
            };
            let ops = h
                .ops(t)
                .map(|(_, o)| (o.kind != OpKind::Read, int(h.key_label(o.key).view()), value(o.value)));
            let stamps = h.stamps().map(|s| (s[t.index()].start.physical, s[t.index()].commit.physical));
            let (start, commit) = stamps.unwrap_or_default();
            let session = int(h.session_label(h.session_of(t)).view());
            let label = h.txn_label(t).map_or(-1, |l| int(l.view()));
            let ops = ops.collect();
            (h.position(t), T { session, label, outcome: h.outcome(t), start, commit, ops })
        })
        .collect();
    list.sort_by_key(|t| t.0);
    list.into_iter().map(|t| t.1).collect()
}

/// Violations of the timestamp axioms of SI (Chronos), by code; SER's EXT is "SER".
pub fn by_timestamps(all: &[T], lists: bool) -> BTreeMap<&'static str, usize> {
    // An indeterminate transaction took effect if another one read from it.
    let seen = |t: &T| {
        let wrote: BTreeSet<(i64, i64)> = t.ops.iter().filter(|o| o.0).map(|o| (o.1, o.2[0])).collect();
        let others = all.iter().filter(|u| u.label != t.label).flat_map(|u| &u.ops);
        others.filter(|o| !o.0).any(|o| o.2.iter().any(|v| wrote.contains(&(o.1, *v))))
    };
    let counts = |t: &&T| match t.outcome {
        Outcome::Committed => true,
        Outcome::Aborted => false,
        Outcome::Indeterminate => seen(t),
    };
    let committed: Vec<&T> = all.iter().filter(counts).collect();
    let mut found = BTreeMap::new();
    let mut hit = |code| *found.entry(code).or_insert(0) += 1;
    let state = |key: i64, before: &dyn Fn(&T) -> bool| -> Val {
        let mut writers: Vec<&&T> = committed.iter().filter(|w| before(w)).collect();
        writers.sort_by_key(|w| w.commit);
        let mut value = if lists { vec![] } else { vec![0] };
        for (write, k, v) in writers.iter().flat_map(|w| &w.ops) {
            if *write && *k == key {
                if lists { value.extend(v) } else { value.clone_from(v) }
            }
        }
        value
    };
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    for (n, t) in committed.iter().enumerate() {
        if t.start > t.commit {
            hit("TIMESTAMP");
        }
        if last.insert(t.session, t.commit).is_some_and(|commit| commit > t.start) {
            hit("SESSION");
        }
        let mut mine: BTreeMap<i64, Val> = BTreeMap::new();
        for (write, key, value) in &t.ops {
            if *write {
                let own = mine.entry(*key).or_default();
                if lists {
                    own.extend(value)
                } else {
                    own.clone_from(value)
                }
                continue;
            }
            let own = mine.get(key);
            let expected = |mut external: Val| match own {
                Some(own) if lists => {
                    external.extend(own);
                    external
                }
                Some(own) => own.clone(),
                None => external,
            };
            if *value != expected(state(*key, &|w| w.commit <= t.start)) {
                hit(if own.is_some() { "INT" } else { "EXT" });
            }
            if *value != expected(state(*key, &|w| w.commit < t.commit)) {
                hit("SER");
            }
        }
        for u in &committed[..n] {
            let overlap = !(u.commit <= t.start || t.commit <= u.start);
            let keys = |t: &T| t.ops.iter().filter(|o| o.0).map(|o| o.1).collect::<BTreeSet<_>>();
            if overlap {
                keys(t).intersection(&keys(u)).for_each(|_| hit("NOCONFLICT"));
            }
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Level {
    ReadCommitted,
    ReadAtomic,
    Causal,
}

/// A directed graph over transactions as rows of booleans.
struct Graph(Vec<Vec<bool>>);

impl Graph {
    fn closed(mut self) -> Graph {
        let n = self.0.len();
        for k in 0..n {
            let row = self.0[k].clone();
            for i in 0..n {
                if self.0[i][k] {
                    self.0[i].iter_mut().zip(&row).for_each(|(a, b)| *a |= b);
                }
            }
        }
        self
    }

    fn acyclic(&self) -> bool {
        (0..self.0.len()).all(|i| !self.0[i][i])
    }
}

/// What a history looks like to the definitions of Biswas & Enea: transaction 0 writes all initial values.
pub struct Facts {
    n: usize,
    so: Vec<(usize, usize)>,
    /// (reader, position of the read, key, writer)
    reads: Vec<(usize, usize, i64, usize)>,
    writers: BTreeMap<i64, Vec<usize>>,
    /// Pairs ordered by what lists show.
    ww: Vec<(usize, usize)>,
    /// Reads that break the rules a to f of Plume, by letter.
    pub faults: BTreeSet<char>,
    /// Transactions that read one key from two writers.
    pub unrepeatable: usize,
    pub compatible: bool,
}

/// Resolves reads by value. Indeterminate transactions count as committed if another transaction that
/// counts read from them.
pub fn facts(all: &[T], lists: bool) -> Facts {
    let wrote = writes(all);
    let counts = committed(all, &wrote);
    // Transactions that count, numbered from 1.
    let number: Vec<usize> = counts
        .iter()
        .scan(0, |n, &c| {
            *n += usize::from(c);
            Some(*n)
        })
        .collect();
    let n = number.last().copied().unwrap_or(0) + 1;
    let mut reader = Reader { wrote, counts, number, lists, longest: BTreeMap::new(), facts: Facts::of(n) };
    let mut last: BTreeMap<i64, usize> = BTreeMap::new();
    for (i, t) in all.iter().enumerate() {
        if reader.counts[i] {
            let me = reader.number[i];
            reader.facts.so.push((last.insert(t.session, me).unwrap_or(0), me));
            reader.transaction(i, t);
        }
    }
    reader.finish()
}

/// By key and value, the transaction that wrote it, and whether that was its last write of the key.
type Writes = BTreeMap<(i64, i64), (usize, bool)>;

fn writes(all: &[T]) -> Writes {
    let mut wrote = Writes::new();
    for (i, t) in all.iter().enumerate() {
        let mut last: BTreeMap<i64, i64> = BTreeMap::new();
        for (_, key, value) in t.ops.iter().filter(|o| o.0) {
            if let Some(previous) = last.insert(*key, value[0]) {
                wrote.insert((*key, previous), (i, false));
            }
            let twice = wrote.insert((*key, value[0]), (i, true));
            assert!(twice.is_none(), "value {} of key {key} is written twice", value[0]);
        }
    }
    wrote
}

/// Which transactions committed, or are indeterminate and were read by one that did.
fn committed(all: &[T], wrote: &Writes) -> Vec<bool> {
    let mut counts: Vec<bool> = all.iter().map(|t| t.outcome == Outcome::Committed).collect();
    loop {
        let mut seen = BTreeSet::new();
        for (i, t) in all.iter().enumerate().filter(|(i, _)| counts[*i]) {
            for (_, key, value) in t.ops.iter().filter(|o| !o.0) {
                let from = value.iter().filter_map(|v| wrote.get(&(*key, *v))).map(|w| w.0);
                seen.extend(
                    from.filter(|&w| w != i && all[w].outcome == Outcome::Indeterminate && !counts[w]),
                );
            }
        }
        if seen.is_empty() {
            return counts;
        }
        seen.into_iter().for_each(|w| counts[w] = true);
    }
}

/// Goes through transactions and notes what they show.
struct Reader {
    wrote: Writes,
    counts: Vec<bool>,
    number: Vec<usize>,
    lists: bool,
    longest: BTreeMap<i64, Vec<Val>>,
    facts: Facts,
}

impl Reader {
    fn transaction(&mut self, i: usize, t: &T) {
        let me = self.number[i];
        let mut own: BTreeMap<i64, Val> = BTreeMap::new();
        let mut from: BTreeMap<i64, usize> = BTreeMap::new();
        for (p, (write, key, value)) in t.ops.iter().enumerate() {
            if *write {
                own.entry(*key).or_default().push(value[0]);
                let writers = self.facts.writers.entry(*key).or_default();
                if writers.last() != Some(&me) {
                    writers.push(me);
                }
            } else if let Some(source) = self.source(i, *key, value, own.get(key)) {
                let first = *from.entry(*key).or_insert(source);
                self.facts.unrepeatable += usize::from(first != source);
                self.facts.reads.push((me, p, *key, source));
            }
        }
    }

    /// The transaction that a read returned a value of; `None` if it is an own one, or faulty.
    fn source(&mut self, i: usize, key: i64, value: &Val, own: Option<&Val>) -> Option<usize> {
        let others = match own {
            Some(own) if self.lists => match value.strip_suffix(own.as_slice()) {
                Some(others) => others,
                None => return self.fault('d'),
            },
            Some(own) if Some(&value[0]) == own.last() => return None,
            Some(own) => return self.fault(if own.contains(&value[0]) { 'e' } else { 'd' }),
            None => value.as_slice(),
        };
        if self.lists {
            self.longest.entry(key).or_default().push(others.to_vec());
            self.facts.compatible &= others.iter().collect::<BTreeSet<_>>().len() == others.len();
            let aborted = |v| self.wrote.get(&(key, v)).is_some_and(|w| !self.counts[w.0]);
            if others.iter().any(|&v| aborted(v)) {
                self.facts.faults.insert('b');
            }
        }
        let last = match others.last() {
            None => return Some(0),
            Some(0) if !self.lists => return Some(0),
            Some(v) => self.wrote.get(&(key, *v)).copied(),
        };
        match last {
            None => self.fault('a'),
            Some((w, _)) if w == i => self.fault('c'),
            Some((w, _)) if !self.counts[w] => self.fault('b'),
            Some((w, is_last)) => {
                if !is_last {
                    self.facts.faults.insert('f');
                }
                Some(self.number[w])
            }
        }
    }

    fn fault(&mut self, pattern: char) -> Option<usize> {
        self.facts.faults.insert(pattern);
        None
    }

    /// Adds what the longest reads say about the order of versions.
    fn finish(self) -> Facts {
        let Reader { wrote, counts, number, longest, facts: mut f, .. } = self;
        for (key, mut reads) in longest {
            reads.sort_by_key(Vec::len);
            f.compatible &= reads.windows(2).all(|w| w[1].starts_with(&w[0]));
            let order: Vec<usize> = reads
                .last()
                .into_iter()
                .flatten()
                .filter_map(|v| wrote.get(&(key, *v)))
                .filter(|w| counts[w.0])
                .map(|w| number[w.0])
                .collect();
            f.ww.extend(order.windows(2).filter(|w| w[0] != w[1]).map(|w| (w[0], w[1])));
        }
        f
    }
}

impl Facts {
    fn of(n: usize) -> Facts {
        Facts {
            n,
            so: vec![],
            reads: vec![],
            writers: BTreeMap::new(),
            ww: vec![],
            faults: BTreeSet::new(),
            unrepeatable: 0,
            compatible: true,
        }
    }

    fn graph(&self, edges: impl Iterator<Item = (usize, usize)>) -> Graph {
        let mut g = Graph(vec![vec![false; self.n]; self.n]);
        edges.for_each(|(a, b)| g.0[a][b] = true);
        g
    }

    fn hb(&self) -> Graph {
        self.graph(self.so.iter().copied().chain(self.reads.iter().map(|r| (r.3, r.0)))).closed()
    }

    /// No G0 in what lists show.
    fn no_g0(&self) -> bool {
        self.graph(self.ww.iter().copied()).closed().acyclic()
    }

    pub fn read_uncommitted(&self) -> bool {
        self.compatible && self.no_g0()
    }

    /// The definition: some commit order contains happens-before, what lists show, and what the axiom
    /// requires.
    pub fn satisfies(&self, level: Level) -> bool {
        let hb = self.hb();
        if !self.faults.is_empty() || !hb.acyclic() || !self.compatible {
            return false;
        }
        let so = self.graph(self.so.iter().copied()).closed();
        let wr = self.graph(self.reads.iter().map(|r| (r.3, r.0)));
        let mut cm = self.hb();
        self.ww.iter().for_each(|&(a, b)| cm.0[a][b] = true);
        for &(t3, p, key, t1) in &self.reads {
            // Transaction 0 writes every key, but is before everybody anyway.
            for &t2 in self.writers.get(&key).into_iter().flatten().filter(|&&t2| t2 != t1 && t2 != t3) {
                let visible = match level {
                    Level::ReadCommitted => self.reads.iter().any(|r| r.0 == t3 && r.1 < p && r.3 == t2),
                    Level::ReadAtomic => so.0[t2][t3] || wr.0[t2][t3],
                    Level::Causal => hb.0[t2][t3],
                };
                if visible && t1 == 0 {
                    return false;
                }
                cm.0[t2][t1] |= visible;
            }
        }
        cm.closed().acyclic() && (level == Level::ReadCommitted || self.unrepeatable == 0)
    }

    /// Whether it is snapshot isolated, and serializable, if every key's versions are in the order of
    /// recording: the case for lists, and for registers of any database that is not replicated.
    pub fn strong(&self) -> (bool, bool) {
        let mut d = self.graph(self.so.iter().copied().chain(self.reads.iter().map(|r| (r.3, r.0))));
        let versions = |key| self.writers.get(&key).map_or(&[][..], Vec::as_slice);
        for order in self.writers.values() {
            order.windows(2).for_each(|w| d.0[w[0]][w[1]] = true);
        }
        let mut si = self.graph(std::iter::empty());
        let mut ser = self.graph(std::iter::empty());
        for a in 0..self.n {
            si.0[a].clone_from(&d.0[a]);
            ser.0[a].clone_from(&d.0[a]);
        }
        for &(t, _, key, from) in &self.reads {
            let order = versions(key);
            let next = order.iter().position(|&w| w == from).map_or(0, |p| p + 1);
            for &w in order[next..].iter().filter(|&&w| w != t).take(1) {
                ser.0[t][w] = true;
                (0..self.n).filter(|&a| d.0[a][t]).for_each(|a| si.0[a][w] = true);
            }
        }
        (si.closed().acyclic(), ser.closed().acyclic())
    }

    /// Keys of which two transactions read the same version and both wrote a new one.
    pub fn lost_updates(&self) -> usize {
        let mut updates = BTreeMap::new();
        for &(t, _, key, from) in &self.reads {
            if self.writers.get(&key).is_some_and(|w| w.contains(&t)) {
                updates.entry((key, from)).or_insert_with(BTreeSet::new).insert(t);
            }
        }
        updates.values().filter(|readers| readers.len() > 1).count()
    }
}
