//! A level as a question about order: is there a total order of events that meets all its constraints?
//!
//! Serializability and parallel snapshot isolation have one event per transaction, the snapshot levels
//! two: it begins (reads) and commits (writes). Edges that every answer must respect are *known*: program
//! and session order, real time, reads, the orders that lists show, and what follows from those at once.
//! The constraints that leave a choice are left to the search. (`docs/spec/algorithms.md` 4.1.)

use super::facts::{Facts, Found, From};
pub(crate) use super::rules::{Family, Rules, Visible};
use anomalist_graph::Csr;
use anomalist_history::{KeyId, OpId, Outcome, TxnId};
use anomalist_level::VersionReason;
use rustc_hash::{FxHashMap, FxHashSet};

/// Why an edge is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// A transaction begins before it commits.
    Program,
    Session,
    /// By a read, a place in [`Facts::reads`].
    Read(u32),
    RealTime,
    /// A list shows the one before the other.
    Version {
        read: OpId,
        first: OpId,
        second: OpId,
    },
    /// The caller says so.
    Assumed {
        first: OpId,
        second: OpId,
        reason: VersionReason,
    },
    /// Of an open read, a place in [`Facts::open`], all other candidates are ruled out.
    Source {
        open: u32,
        write: OpId,
    },
    /// The axiom about this read and this other writer, one of whose alternatives earlier edges rule out.
    Axiom {
        read: u32,
        other: TxnId,
    },
    /// The two write the key and must not overlap; earlier edges rule out one of the two orders.
    Conflict {
        key: KeyId,
        first: TxnId,
        second: TxnId,
    },
}

/// A known edge. What it rests on came earlier, with a smaller `rank`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub from: u32,
    pub to: u32,
    pub rank: u32,
    pub why: Why,
}

/// Why an open read did not return one of its candidates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuledOut {
    /// This transaction, which precedes the reader, replaced it; `None`: it follows the reader. (Every
    /// writer of the key replaces the initial state.)
    pub other: Option<TxnId>,
    /// It rests on edges of smaller rank.
    pub rank: u32,
}

/// The known edges of a level.
pub(crate) struct Model<'a> {
    pub facts: &'a Facts<'a>,
    pub rules: Rules<'a>,
    /// Number of event nodes; nodes from here on are moments of real time.
    pub events: u32,
    pub nodes: u32,
    /// By source node.
    pub edges: Vec<Edge>,
    /// What open reads did not return (`None`: the initial state), by their place in [`Facts::open`].
    pub ruled_out: FxHashMap<(u32, Option<OpId>), RuledOut>,
    /// The open reads whose source a known edge says.
    pub resolved: FxHashSet<u32>,
}

/// Edges from initial reads and to unobserved appends are written out up to so many per operation; the
/// search asks for the others when it needs them.
const EAGER: usize = 8;

impl<'a> Model<'a> {
    pub fn new(facts: &'a Facts<'a>, rules: Rules<'a>) -> Model<'a> {
        let events = facts.history.txn_count() as u32 * if rules.is_split() { 2 } else { 1 };
        let mut model = Model {
            facts,
            rules,
            events,
            nodes: events,
            edges: Vec::new(),
            ruled_out: FxHashMap::default(),
            resolved: FxHashSet::default(),
        };
        match rules.family {
            // What a transaction reads twice does not depend on any order, nor on what lists of others show
            // of one.
            Family::Cut => return model,
            Family::Mixed => model.add_own_sessions(),
            _ => model.add_program_and_sessions(),
        }
        if rules.real_time {
            model.add_real_time();
        }
        model.add_reads();
        model.add_lists();
        model.add_assumed();
        if rules.reads_latest() || rules.family == Family::Mixed {
            model.add_initial_reads();
            model.add_next_writers();
        }
        model.sort();
        model
    }

    /// Adds edges found later.
    pub fn extend(&mut self, edges: impl IntoIterator<Item = Edge>) {
        self.edges.extend(edges);
        self.sort();
    }

    fn sort(&mut self) {
        self.edges.sort_by_key(|e| e.from);
    }

    pub fn graph(&self) -> Csr {
        Csr::from_edges(self.nodes as usize, || self.edges.iter().map(|e| (e.from, e.to)))
    }

    /// True if an event takes place for sure or may.
    pub fn counts(&self, node: u32) -> bool {
        node < self.events && self.facts.index.is_committed(self.rules.txn(node))
    }

    /// The transaction whose commit this is, if it takes place for sure or may.
    pub fn committed(&self, node: u32) -> Option<TxnId> {
        let t = self.rules.txn(node);
        (self.counts(node) && node == self.rules.commit(t)).then_some(t)
    }

    fn push(&mut self, from: u32, to: u32, rank: u32, why: Why) {
        if from != to {
            self.edges.push(Edge { from, to, rank, why });
        }
    }

    fn add_program_and_sessions(&mut self) {
        let (facts, rules) = (self.facts, self.rules);
        for t in facts.txns() {
            if rules.is_split() {
                self.push(rules.begin(t), rules.commit(t), 0, Why::Program);
            }
            if rules.sessions {
                self.add_session_edges(t, |before| facts.certain[before.index()]);
            }
        }
    }

    /// Edges from those before a transaction in its session, from the latest back to one that speaks for
    /// all before it. (In proofs, one that may not have taken effect speaks for none.)
    fn add_session_edges(&mut self, t: TxnId, speaks: impl Fn(TxnId) -> bool) {
        let (facts, rules) = (self.facts, self.rules);
        let before = facts.history.before_in_session(t).rev().filter(|&p| facts.index.is_committed(p));
        for p in before {
            self.push(rules.commit(p), rules.begin(t), 0, Why::Session);
            if speaks(p) {
                return;
            }
        }
    }

    /// Mixed: a transaction that keeps session order follows all before it in its session. The latest
    /// before it that does so as well speaks for those before that one.
    fn add_own_sessions(&mut self) {
        let (facts, rules) = (self.facts, self.rules);
        for t in facts.txns() {
            if rules.own(t).is_split() {
                self.push(rules.begin(t), rules.commit(t), 0, Why::Program);
            }
            if rules.own(t).sessions {
                let speaks = |before: TxnId| rules.own(before).sessions && facts.certain[before.index()];
                self.add_session_edges(t, speaks);
            }
        }
    }

    /// A node for each moment at which a transaction ends; it follows the transaction and all earlier
    /// moments, and precedes what begins after it.
    fn add_real_time(&mut self) {
        let (facts, rules) = (self.facts, self.rules);
        let Some(intervals) = facts.history.intervals() else { return };
        let over = |t: &TxnId| facts.history.outcome(*t) == Outcome::Committed;
        let mut ends: Vec<(u64, TxnId)> =
            facts.txns().filter(over).filter_map(|t| Some((intervals[t.index()].completed?, t))).collect();
        ends.sort_unstable();
        let first = self.events;
        for (i, &(_, t)) in ends.iter().enumerate() {
            let moment = first + i as u32;
            self.push(rules.commit(t), moment, 0, Why::RealTime);
            if i > 0 {
                self.push(moment - 1, moment, 0, Why::RealTime);
            }
        }
        for t in facts.txns().filter(|&t| rules.own(t).real_time) {
            let invoked = intervals[t.index()].invoked;
            let over_by_then = ends.partition_point(|&(end, _)| end < invoked);
            if over_by_then > 0 {
                self.push(first + over_by_then as u32 - 1, rules.begin(t), 0, Why::RealTime);
            }
        }
        self.nodes = first + ends.len() as u32;
    }

    /// What a transaction that certainly took effect certainly read.
    pub fn certain_source(&self, read: &Found) -> Option<TxnId> {
        match read.from {
            From::Txn(w) if self.facts.certain[read.reader.index()] => Some(w),
            _ => None,
        }
    }

    fn add_reads(&mut self) {
        let rules = self.rules;
        let mut last = None;
        let mut edges = Vec::new();
        for (i, read) in self.facts.reads.iter().enumerate() {
            if let Some(w) = self.certain_source(read)
                && last != Some((w, read.reader))
                && rules.own(read.reader).follows_reads()
            {
                last = Some((w, read.reader));
                let (from, to) = (rules.commit(w), rules.begin(read.reader));
                edges.push(Edge { from, to, rank: 0, why: Why::Read(i as u32) });
            }
        }
        self.edges.append(&mut edges);
    }

    fn add_lists(&mut self) {
        let rules = self.rules;
        for list in &self.facts.lists {
            let conflict = |first, second| Why::Conflict { key: list.key, first, second };
            let runs = list.runs.windows(2).map(|pair| (pair[0], (pair[1].0, pair[1].1)));
            let last = list.runs.last();
            let later = list.later.iter().filter_map(|&next| Some((*last?, next)));
            for ((a, _, first), (b, second)) in runs.chain(later).filter(|(run, next)| run.0 != next.0) {
                let why = Why::Version { read: list.read, first, second };
                self.push(rules.commit(a), rules.commit(b), 0, why);
                if rules.own(b).family == Family::Snapshot {
                    self.push(rules.commit(a), rules.begin(b), 1, conflict(a, b));
                }
            }
        }
    }

    fn add_assumed(&mut self) {
        let (facts, rules) = (self.facts, self.rules);
        for edge in facts.assumed {
            let (a, b) = (edge.from, edge.to);
            let why = Why::Assumed { first: edge.first, second: edge.second, reason: edge.reason };
            self.push(rules.commit(a), rules.commit(b), 0, why);
            if rules.own(b).family == Family::Snapshot {
                let key = facts.history.op(edge.first).key;
                self.push(rules.commit(a), rules.begin(b), 1, Why::Conflict { key, first: a, second: b });
            }
        }
    }

    /// A transaction that read the initial value of a key read it before any transaction wrote the key. In
    /// a session the first writer is enough.
    fn add_initial_reads(&mut self) {
        let (facts, rules) = (self.facts, self.rules);
        let mut room = EAGER * facts.reads.len().max(facts.write_count());
        for (i, read) in facts.reads.iter().enumerate() {
            let latest = rules.own(read.reader).reads_latest();
            if read.from != From::Initial || !facts.certain[read.reader.index()] || !latest {
                continue;
            }
            let mut session = None;
            for &o in facts.index.writers(read.key) {
                let here = Some(facts.history.session_of(o));
                let implied = rules.sessions && session == here;
                // Only a writer that certainly took effect speaks for those after it.
                if implied || o == read.reader || !facts.certain[o.index()] {
                    continue;
                }
                session = here;
                if room == 0 {
                    return;
                }
                room -= 1;
                self.push(
                    rules.begin(read.reader),
                    rules.commit(o),
                    0,
                    Why::Axiom { read: i as u32, other: o },
                );
            }
        }
    }

    /// Who read a version whose successor is known read it before the successor was written. A successor is
    /// known if it read the version itself (read-modify-write), or if a list shows it.
    fn add_next_writers(&mut self) {
        let (facts, rules) = (self.facts, self.rules);
        let mut next: FxHashMap<(KeyId, TxnId), TxnId> = FxHashMap::default();
        for read in &facts.reads {
            if let Some(w) = self.certain_source(read)
                && facts.writes(read.reader, read.key)
                && rules.own(read.reader).follows_reads()
            {
                next.entry((read.key, w)).or_insert(read.reader);
            }
        }
        for list in &facts.lists {
            for pair in list.runs.windows(2) {
                next.insert((list.key, pair[0].0), pair[1].0);
            }
        }
        let mut room = EAGER * facts.reads.len().max(facts.write_count());
        let later: FxHashMap<(KeyId, TxnId), &[(TxnId, OpId)]> = (facts.lists.iter())
            .filter_map(|list| Some(((list.key, list.runs.last()?.0), list.later.as_slice())))
            .collect();
        if next.is_empty() && later.is_empty() {
            return;
        }
        for (i, read) in facts.reads.iter().enumerate() {
            let Some(w) = self.certain_source(read) else { continue };
            if !rules.own(read.reader).reads_latest() {
                continue;
            }
            let why = |other| Why::Axiom { read: i as u32, other };
            if let Some(&o) = next.get(&(read.key, w))
                && o != read.reader
            {
                self.push(rules.begin(read.reader), rules.commit(o), 1, why(o));
            }
            for &(o, _) in later.get(&(read.key, w)).copied().unwrap_or_default() {
                if o != read.reader && o != w && room > 0 {
                    room -= 1;
                    self.push(rules.begin(read.reader), rules.commit(o), 1, why(o));
                }
            }
        }
    }
}
