//! A solver of the simplest kind: splits on literals of unsatisfied clauses and resolves the two
//! contradictions.

mod search;

use anomalist_history::{History, KeyId, Op, OpId, OpKind, Outcome, TxnId, Value};
use anomalist_level::{Choice, Execution, Level, Literal, Order, Point, Reason, Refutation, Step};
use std::collections::BTreeSet;

pub enum Answer {
    Holds(Execution),
    Violated(Refutation),
}

type Clause = BTreeSet<Literal>;

/// A read that is no read of an own write.
struct Read {
    op: OpId,
    txn: TxnId,
    candidates: Vec<OpId>,
    /// Appends shown, for lists.
    shown: Vec<OpId>,
}

struct Problem<'a> {
    history: &'a History,
    level: Level,
    snapshot: bool,
    certain: BTreeSet<TxnId>,
    reads: Vec<Read>,
    known: Vec<(Point, Point)>,
    clauses: Vec<(Clause, Reason)>,
    steps: Vec<Step>,
}

/// `None`: reads that are faulty by themselves (an anomaly shows those), or too much to search.
pub fn solve(history: &History, level: Level) -> Option<Answer> {
    let snapshot = matches!(
        level,
        Level::Prefix
            | Level::SnapshotIsolation
            | Level::StrongSessionSnapshotIsolation
            | Level::StrongSnapshotIsolation
    );
    let mut problem = Problem {
        history,
        level,
        snapshot,
        certain: BTreeSet::new(),
        reads: Vec::new(),
        known: Vec::new(),
        clauses: Vec::new(),
        steps: Vec::new(),
    };
    problem.look()?;
    problem.encode();
    let mut budget = 20_000;
    match problem.search(&mut Vec::new(), &mut budget)? {
        Err(model) => Some(Answer::Holds(problem.execution(&model))),
        Ok((last, clause)) => {
            assert!(clause.is_empty());
            let mut steps = problem.steps;
            steps.truncate(last as usize + 1);
            Some(Answer::Violated(Refutation { steps }))
        }
    }
}

fn live(history: &History, t: TxnId) -> bool {
    history.outcome(t) != Outcome::Aborted
}

impl Problem<'_> {
    fn writes(&self, t: TxnId) -> Vec<OpId> {
        let ops: Vec<_> = self.history.ops(t).filter(|(_, o)| o.kind != OpKind::Read).collect();
        let is_final =
            |(op, o): &&(OpId, anomalist_history::Op)| !ops.iter().any(|(q, p)| q > op && p.key == o.key);
        ops.iter().filter(is_final).map(|(op, _)| *op).collect()
    }

    /// All lists of a key that a transaction reads must agree on what others appended.
    fn lists_repeat(&self) -> bool {
        matches!(self.level, Level::ReadAtomic | Level::Causal)
    }

    /// The reads and what may explain them; who certainly counts.
    fn look(&mut self) -> Option<()> {
        let history = self.history;
        for t in history.txns().filter(|&t| live(history, t)) {
            for (op, o) in history.ops(t) {
                if o.kind == OpKind::Read && o.value != Value::UNKNOWN {
                    match history.list(o.value) {
                        Some(elements) => self.look_at_list(t, op, elements)?,
                        None => self.look_at_register(t, op)?,
                    }
                }
            }
        }
        // Read atomic and causal want a transaction's lists to agree; an anomaly shows it if they do not.
        let list = |op: OpId| history.list(history.op(op).value);
        let differ = |a: &Read, b: &Read| {
            let key = |r: &Read| (r.txn, history.op(r.op).key);
            key(a) == key(b) && list(a.op).is_some() && a.shown != b.shown
        };
        if self.lists_repeat() && self.reads.iter().any(|a| self.reads.iter().any(|b| differ(a, b))) {
            return None;
        }
        self.find_certain();
        // A faulty read of a transaction that turns out to count is an anomaly of its own.
        let faulty = |(_, reason): &(Clause, Reason)| match reason {
            Reason::Impossible { read } => self.certain.contains(&history.txn_of(*read)),
            _ => false,
        };
        (!self.clauses.iter().any(faulty)).then_some(())
    }

    /// The reader's earlier writes of the key that it reads.
    fn own_before(&self, t: TxnId, read: OpId) -> Vec<OpId> {
        let key = self.history.op(read).key;
        let own = |(w, p): &(OpId, Op)| *w < read && p.kind != OpKind::Read && p.key == key;
        self.history.ops(t).filter(own).map(|(w, _)| w).collect()
    }

    /// The last write of the value by each other transaction that may count.
    fn writers(&self, t: TxnId, key: KeyId, value: Value) -> Vec<OpId> {
        let history = self.history;
        let wrote = |(_, p): &(OpId, Op)| p.kind != OpKind::Read && p.key == key && p.value == value;
        let others = history.txns().filter(|&u| u != t && live(history, u));
        others.filter_map(|u| history.ops(u).rfind(wrote).map(|(w, _)| w)).collect()
    }

    fn look_at_list(&mut self, t: TxnId, op: OpId, elements: &[Value]) -> Option<()> {
        let history = self.history;
        let key = history.op(op).key;
        let mine: Vec<Value> = self.own_before(t, op).iter().map(|&w| history.op(w).value).collect();
        let mut shown = Vec::new();
        for &e in elements.strip_suffix(&mine[..])? {
            let [only] = self.writers(t, key, e)[..] else { return None };
            shown.push(only);
        }
        let distinct: BTreeSet<OpId> = shown.iter().copied().collect();
        if distinct.len() < shown.len() {
            return None;
        }
        // A transaction's appends reach a list in program order, none without those before it.
        for (i, &a) in shown.iter().enumerate() {
            let earlier = |(w, p): &(OpId, Op)| *w < a && p.kind == OpKind::Append && p.key == key;
            let mut earlier = history.ops(history.txn_of(a)).filter(earlier);
            if !earlier.all(|(w, _)| shown[..i].contains(&w)) {
                return None;
            }
        }
        let candidates = shown.last().copied().into_iter().collect();
        self.reads.push(Read { op, txn: t, candidates, shown });
        Some(())
    }

    fn look_at_register(&mut self, t: TxnId, op: OpId) -> Option<()> {
        let history = self.history;
        let o = history.op(op);
        let all = || history.txns().flat_map(|t| history.ops(t));
        if all().any(|(_, p)| p.kind == OpKind::Append && p.key == o.key) {
            return None;
        }
        let own = self.own_before(t, op);
        if own.last().is_some_and(|&w| history.op(w).value == o.value) {
            return Some(());
        }
        let candidates = self.writers(t, o.key, o.value);
        let is_written = all().any(|(_, p)| p.kind != OpKind::Read && p.key == o.key && p.value == o.value);
        let initial = history.initial().of(o.key) == Some(o.value) && !is_written;
        if own.is_empty() && (initial || !candidates.is_empty()) {
            self.reads.push(Read { op, txn: t, candidates, shown: Vec::new() });
            return Some(());
        }
        // Faulty. If its transaction certainly counts, that is an anomaly of its own.
        if history.outcome(t) == Outcome::Committed {
            return None;
        }
        self.clauses.push(([Literal::NotCommitted(t)].into(), Reason::Impossible { read: op }));
        Some(())
    }

    /// Transactions that committed, and those that these certainly read from.
    fn find_certain(&mut self) {
        let history = self.history;
        self.certain = history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).collect();
        loop {
            let before = self.certain.len();
            for read in &self.reads {
                if self.certain.contains(&read.txn) {
                    let seen = read.shown.iter().chain(&read.candidates);
                    let unique = read.candidates.len() <= 1;
                    self.certain.extend(seen.filter(|_| unique).map(|&w| history.txn_of(w)));
                }
            }
            if self.certain.len() == before {
                return;
            }
        }
    }

    fn ended_before(&self, a: TxnId, b: TxnId) -> bool {
        let Some(times) = self.history.intervals() else { return false };
        self.history.outcome(a) == Outcome::Committed
            && times[a.index()].completed.is_some_and(|end| end < times[b.index()].invoked)
    }

    fn commit(&self, t: TxnId) -> Point {
        Point::Commit(t)
    }

    fn begin(&self, t: TxnId) -> Point {
        if self.snapshot { Point::Begin(t) } else { Point::Commit(t) }
    }

    fn guards(&self, txns: &[TxnId]) -> Clause {
        txns.iter().filter(|t| !self.certain.contains(t)).map(|&t| Literal::NotCommitted(t)).collect()
    }

    fn encode(&mut self) {
        let history = self.history;
        let live: Vec<TxnId> = history.txns().filter(|&t| live(self.history, t)).collect();
        let session_order = self.level.info().session_order;
        let mut links: Vec<(TxnId, TxnId, bool)> = Vec::new();
        let mut timed: Vec<(TxnId, TxnId)> = Vec::new();
        for &a in &live {
            if self.snapshot {
                self.known.push((Point::Begin(a), Point::Commit(a)));
            }
            for &b in live.iter().filter(|&&b| history.session_before(a, b)) {
                if session_order {
                    links.push((a, b, true));
                }
            }
            for &b in live.iter().filter(|&&b| self.level.info().real_time && self.ended_before(a, b)) {
                timed.push((a, b));
            }
        }
        for read in &self.reads {
            if let [only] = read.candidates[..] {
                links.push((history.txn_of(only), read.txn, false));
            }
        }
        for &(a, b) in &timed {
            self.known.push((self.commit(a), self.begin(b)));
        }
        for &(a, b, _) in &links {
            self.known.push((self.commit(a), self.begin(b)));
        }
        let mut clauses = Vec::new();
        for read in &self.reads {
            self.sources_of(read, &mut clauses);
            self.versions_of(read, &live, &mut clauses);
            let sources: Vec<Option<OpId>> = match read.candidates[..] {
                [] => vec![None],
                _ => read.candidates.iter().copied().map(Some).collect(),
            };
            let same_key = |w: &OpId| history.op(*w).key == history.op(read.op).key;
            for write in sources {
                let source = write.map(|w| history.txn_of(w));
                for &o in live.iter().filter(|&&o| o != read.txn && Some(o) != source) {
                    if let Some(other) = self.writes(o).into_iter().find(same_key) {
                        self.axiom(read, write, other, &links, &mut clauses);
                    }
                }
            }
        }
        if self.snapshot && self.level != Level::Prefix {
            self.conflicts(&live, &mut clauses);
        }
        self.clauses.extend(clauses);
    }

    fn sources_of(&self, read: &Read, clauses: &mut Vec<(Clause, Reason)>) {
        let r = read.txn;
        if read.candidates.len() > 1 {
            let mut clause = self.guards(&[r]);
            clause.extend(read.candidates.iter().map(|&w| Literal::ReadsFrom(Choice::write(read.op, w))));
            clauses.push((clause, Reason::Source { read: read.op, element: 0 }));
        }
        for &write in &read.candidates {
            let choice = Choice::write(read.op, write);
            let w = self.history.txn_of(write);
            let doubt = (read.candidates.len() > 1).then_some(Literal::NotReadsFrom(choice));
            if !self.certain.contains(&w) {
                let mut clause = self.guards(&[r]);
                clause.extend(doubt);
                clause.insert(Literal::Committed(w));
                clauses.push((clause, Reason::Observed(choice)));
            }
            if !self.writes(w).contains(&write) {
                let mut clause = self.guards(&[r]);
                clause.extend(doubt);
                clauses.push((clause, Reason::Intermediate(choice)));
            }
        }
    }

    fn versions_of(&self, read: &Read, live: &[TxnId], clauses: &mut Vec<(Clause, Reason)>) {
        for pair in read.shown.windows(2) {
            self.shows(read, pair[0], pair[1], clauses);
        }
        let Some(&last) = read.shown.last() else { return };
        let key = self.history.op(read.op).key;
        for (second, o) in live.iter().flat_map(|&t| self.history.ops(t)) {
            if o.kind == OpKind::Append && o.key == key && !read.shown.contains(&second) {
                self.shows(read, last, second, clauses);
            }
        }
    }

    fn conflicts(&self, live: &[TxnId], clauses: &mut Vec<(Clause, Reason)>) {
        for (i, &a) in live.iter().enumerate() {
            for &b in &live[i + 1..] {
                for &first in &self.writes(a) {
                    let key = self.history.op(first).key;
                    for &second in self.writes(b).iter().filter(|&&s| self.history.op(s).key == key) {
                        let mut clause = self.guards(&[a, b]);
                        clause.insert(Literal::Before(Point::Commit(a), Point::Begin(b)));
                        clause.insert(Literal::Before(Point::Commit(b), Point::Begin(a)));
                        clauses.push((clause, Reason::Conflict { first, second }));
                    }
                }
            }
        }
    }

    fn shows(&self, read: &Read, first: OpId, second: OpId, clauses: &mut Vec<(Clause, Reason)>) {
        let (a, b) = (self.history.txn_of(first), self.history.txn_of(second));
        if a != b {
            let mut clause = self.guards(&[read.txn, b]);
            clause.insert(Literal::Before(Point::Commit(a), Point::Commit(b)));
            clauses.push((clause, Reason::Version { read: read.op, first, second }));
        }
    }

    fn axiom(
        &self,
        read: &Read,
        write: Option<OpId>,
        other: OpId,
        links: &[(TxnId, TxnId, bool)],
        clauses: &mut Vec<(Clause, Reason)>,
    ) {
        let (r, o) = (read.txn, self.history.txn_of(other));
        let mut clause = self.guards(&[r, o]);
        if let Some(write) = write {
            clause.insert(Literal::Before(self.commit(o), self.commit(self.history.txn_of(write))));
            if read.candidates.len() > 1 {
                clause.insert(Literal::NotReadsFrom(Choice::write(read.op, write)));
            }
        }
        let reason = |path: Vec<TxnId>| Reason::Axiom { read: read.op, write, other, path };
        let serial = self.snapshot
            || matches!(
                self.level,
                Level::Serializable
                    | Level::RepeatableRead
                    | Level::StrongSessionSerializable
                    | Level::StrictSerializable
            );
        if serial {
            clause.insert(Literal::Before(self.begin(r), self.commit(o)));
            clauses.push((clause, reason(Vec::new())));
            return;
        }
        for (path, shape, more) in self.paths(o, r, read.op, links) {
            let fits = match self.level {
                Level::ReadCommitted => shape == "w",
                Level::ReadAtomic => shape == "w" || shape == "s",
                Level::ReadYourWrites => shape == "s",
                Level::MonotonicReads => shape == "ws",
                Level::MonotonicWrites => shape == "sw",
                Level::WritesFollowReads => shape == "wsw",
                Level::Causal => !shape.contains('v'),
                _ => true,
            };
            if fits {
                let mut clause = clause.clone();
                clause.extend(more);
                clause.extend(self.guards(&path));
                clauses.push((clause, reason(path)));
            }
        }
    }

    /// All simple paths from `o` to `r`: what lies between, the kinds of links, and the literals that undo
    /// them.
    fn paths(
        &self,
        o: TxnId,
        r: TxnId,
        read: OpId,
        links: &[(TxnId, TxnId, bool)],
    ) -> Vec<(Vec<TxnId>, String, Vec<Literal>)> {
        let mut found = Vec::new();
        let mut work = vec![(vec![o], String::new(), Vec::new())];
        while let Some((stops, shape, literals)) = work.pop() {
            let at = stops[stops.len() - 1];
            if at == r {
                found.push((stops[1..stops.len() - 1].to_vec(), shape, literals));
                continue;
            }
            let mut go = |to: TxnId, kind: char, literal: Option<Literal>| {
                if !stops.contains(&to) {
                    let mut stops = stops.clone();
                    stops.push(to);
                    let mut literals: Vec<Literal> = literals.clone();
                    literals.extend(literal);
                    work.push((stops, format!("{shape}{kind}"), literals));
                }
            };
            for &(_, b, session) in links.iter().filter(|l| l.0 == at && l.2) {
                go(b, if session { 's' } else { 'w' }, None);
            }
            for other in &self.reads {
                let early = self.level != Level::ReadCommitted || other.txn == r && other.op < read;
                for &write in other.candidates.iter().filter(|&&w| early && self.history.txn_of(w) == at) {
                    let choice = Choice::write(other.op, write);
                    let doubt = (other.candidates.len() > 1).then_some(Literal::NotReadsFrom(choice));
                    go(other.txn, 'w', doubt);
                }
            }
            if self.level == Level::ParallelSnapshotIsolation {
                let key = |&w: &OpId| self.history.op(w).key;
                let keys: BTreeSet<_> = self.writes(at).iter().map(key).collect();
                for b in self.history.txns().filter(|&b| b != at && live(self.history, b)) {
                    if self.writes(b).iter().any(|w| keys.contains(&key(w))) {
                        go(b, 'v', Some(Literal::Before(self.commit(b), self.commit(at))));
                    }
                }
            }
        }
        found
    }
}
