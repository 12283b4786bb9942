//! Known edges that are more than facts of the history, written down as steps of a refutation.
//!
//! An axiom of the level of which one alternative is ruled out: the axiom, the cycle that the alternative
//! would close, and the conclusion. What an open read returned: for each other candidate why not (it comes
//! after the reader, or was replaced before it), that it is one of them, and the conclusion. Each rests on
//! edges of smaller rank, which come first.

use super::facts::{From, Origin};
use super::model::{Edge, Family, Why};
use super::refute::{Path, Prover};
use anomalist_history::{OpId, TxnId};
use anomalist_level::{Literal, Reason};

impl Prover<'_> {
    /// Derives those of the known edges that are more than facts of the history. What each rests on comes
    /// first.
    pub(super) fn derive_all(&mut self, edges: &[u32]) {
        let mut stack: Vec<(u32, Option<Vec<Path>>)> = edges.iter().rev().map(|&e| (e, None)).collect();
        while let Some((index, paths)) = stack.pop() {
            let edge = *self.edge(index);
            let fact = matches!(edge.why, Why::Program | Why::Session | Why::Read(_) | Why::RealTime);
            if fact || self.derived.contains_key(&index) {
                continue;
            }
            match paths {
                Some(paths) => {
                    let step = self.derive(&edge, &paths);
                    self.derived.insert(index, step);
                }
                None => {
                    let paths = self.rests_on(&edge);
                    let below: Vec<u32> = paths.iter().flatten().rev().copied().collect();
                    stack.push((index, Some(paths)));
                    stack.extend(below.into_iter().map(|e| (e, None)));
                }
            }
        }
    }

    /// The known edges that an edge rests on: paths that rule its alternatives out.
    fn rests_on(&self, edge: &Edge) -> Vec<Path> {
        let path = |from: u32, to: u32| self.path(from, to, edge.rank).unwrap_or_default();
        match edge.why {
            // Seen by the reader, along a path.
            Why::Axiom { read, other } if self.model.rules.family == Family::Parallel => {
                vec![path(other.0, self.model.facts.reads[read as usize].reader.0)]
            }
            Why::Source { open, write } => {
                let others = self.model.facts.candidates(open).filter(|c| c.write() != Some(write));
                others.flat_map(|other| self.excluded_by(open, other.write())).collect()
            }
            Why::Axiom { read, .. } => {
                let (_, alternative) = self.justify(edge).unwrap_or((Reason::Implied(Vec::new()), None));
                let source = self.source_edge(read).map(|e| vec![e]);
                alternative.map(|(from, to)| path(to, from)).into_iter().chain(source).collect()
            }
            _ => {
                let alternative = self.justify(edge).and_then(|(_, alternative)| alternative);
                alternative.map(|(from, to)| path(to, from)).into_iter().collect()
            }
        }
    }

    /// The edge that tells what an open read returned.
    fn source_edge(&self, read: u32) -> Option<u32> {
        match self.model.facts.reads[read as usize].from {
            From::Open(open) => self.sources.get(&open).copied(),
            _ => None,
        }
    }

    /// Writes an edge down, once what it rests on is: the step that has it as its whole clause.
    fn derive(&mut self, edge: &Edge, paths: &[Path]) -> u32 {
        let conclusion = self.before(edge.from, edge.to);
        if let Why::Source { open, write } = edge.why {
            return self.derive_source(edge, open, write);
        }
        if let (Why::Axiom { read, other }, Family::Parallel) = (edge.why, self.model.rules.family) {
            let mut between: Vec<TxnId> = paths.iter().flatten().map(|&e| TxnId(self.edge(e).to)).collect();
            between.pop();
            let reason = self.axiom(read, Some(TxnId(edge.to)), other, between, &[]);
            return self.push(vec![conclusion], reason);
        }
        // Every edge that is no fact has its reason.
        let Some((reason, alternative)) = self.justify(edge) else { return 0 };
        let Some((from, to)) = alternative else { return self.push(vec![conclusion], reason) };
        let mut clause = vec![conclusion, self.before(from, to)];
        let mut hints = Vec::new();
        // What an open read returned has been derived: the axiom is about that.
        let returned = match edge.why {
            Why::Axiom { read, .. } => self.source_edge(read).map(|e| self.edge(e).why),
            _ => None,
        };
        if let Some(Why::Source { open, write }) = returned {
            clause.push(Literal::NotReadsFrom(self.choice(open, Some(write))));
            hints.extend(self.returned.get(&open));
        }
        let axiom = self.push(clause, reason);
        // The alternative closes a cycle.
        let mut nodes = vec![from, to];
        nodes.extend(paths.first().into_iter().flatten().map(|&e| self.edge(e).to));
        let points = self.shorten(nodes);
        hints.push(self.push(vec![self.before(to, from)], Reason::Cycle(points)));
        hints.push(axiom);
        self.push(vec![conclusion], Reason::Implied(hints))
    }

    /// The paths that show why an open read did not return something.
    pub(super) fn excluded_by(&self, open: u32, write: Option<OpId>) -> Vec<Path> {
        let (rules, facts) = (self.model.rules, self.model.facts);
        let Some(out) = self.model.ruled_out.get(&(open, write)) else { return Vec::new() };
        let begin = rules.begin(facts.open[open as usize].reader);
        let commit = write.map(|write| rules.commit(facts.history.txn_of(write)));
        let path = |from: u32, to: u32| self.path(from, to, out.rank).unwrap_or_default();
        match (out.other, commit) {
            (Some(o), Some(commit)) => vec![path(rules.commit(o), begin), path(commit, rules.commit(o))],
            (Some(o), None) => vec![path(rules.commit(o), begin)],
            (None, Some(commit)) => vec![path(begin, commit)],
            // The initial state follows no reader.
            (None, None) => Vec::new(),
        }
    }

    /// Writes down that an open read did not return something, once the paths that show it are.
    pub(super) fn exclude(&mut self, open: u32, write: Option<OpId>) -> u32 {
        if let Some(&step) = self.excluded.get(&(open, write)) {
            return step;
        }
        let (rules, facts) = (self.model.rules, self.model.facts);
        let found = facts.open[open as usize];
        let not = Literal::NotReadsFrom(self.choice(open, write));
        let begin = rules.begin(found.reader);
        let commit = write.map(|write| rules.commit(facts.history.txn_of(write)));
        let paths = self.excluded_by(open, write);
        let other = self.model.ruled_out.get(&(open, write)).and_then(|out| out.other);
        let round = |this: &Self, first: u32, path: Option<&Path>| {
            let mut nodes = vec![first];
            nodes.extend(path.into_iter().flatten().next().map(|&e| this.edge(e).from));
            nodes.extend(path.into_iter().flatten().map(|&e| this.edge(e).to));
            this.shorten(nodes)
        };
        let step = match (other, found.read) {
            (Some(o), Some(read)) => {
                let other = rules.commit(o);
                let mut clause = vec![self.before(begin, other), not];
                let seen = round(self, begin, paths.first());
                let mut hints = vec![self.push(vec![self.before(other, begin)], Reason::Cycle(seen))];
                if let Some(commit) = commit {
                    clause.push(self.before(other, commit));
                    let after = round(self, other, paths.get(1));
                    hints.push(self.push(vec![self.before(commit, other)], Reason::Cycle(after)));
                }
                let reason = self.axiom(read, commit.map(|c| rules.txn(c)), o, Vec::new(), &clause);
                hints.push(self.push(clause, reason));
                self.push(vec![not], Reason::Implied(hints))
            }
            _ => {
                let points = round(self, commit.unwrap_or(begin), paths.first());
                self.push(vec![not], Reason::Cycle(points))
            }
        };
        self.excluded.insert((open, write), step);
        step
    }

    /// What an open read returned, all its other candidates being ruled out; and so that it follows that.
    fn derive_source(&mut self, edge: &Edge, open: u32, write: OpId) -> u32 {
        let choice = self.choice(open, Some(write));
        let candidates: Vec<Option<OpId>> = self.model.facts.candidates(open).map(Origin::write).collect();
        let all = candidates.iter().map(|&write| Literal::ReadsFrom(self.choice(open, write))).collect();
        let others = candidates.into_iter().filter(|&other| other != Some(write));
        let mut hints: Vec<u32> = others.map(|other| self.exclude(open, other)).collect();
        hints.push(self.source(open, all));
        let returned = self.push(vec![Literal::ReadsFrom(choice)], Reason::Implied(hints));
        self.returned.insert(open, returned);
        let conclusion = self.before(edge.from, edge.to);
        let points = self.shorten(vec![edge.from, edge.to]);
        let follows = self.push(vec![conclusion, Literal::NotReadsFrom(choice)], Reason::Cycle(points));
        self.push(vec![conclusion], Reason::Implied(vec![returned, follows]))
    }

    /// The axiom behind an edge, and its other alternative if it has one.
    fn justify(&self, edge: &Edge) -> Option<(Reason, Option<(u32, u32)>)> {
        let rules = self.model.rules;
        let other_of = |a: (u32, u32), b: (u32, u32)| if (edge.from, edge.to) == a { b } else { a };
        match edge.why {
            Why::Version { read, first, second } => Some((Reason::Version { read, first, second }, None)),
            Why::Assumed { first, second, reason } => Some((Reason::Assumed { first, second, reason }, None)),
            Why::Conflict { key, first, second } => {
                let a = (rules.commit(first), rules.guarded(second));
                let b = (rules.commit(second), rules.guarded(first));
                Some((self.conflict(key, first, second), Some(other_of(a, b))))
            }
            Why::Axiom { read, other } => {
                let found = &self.model.facts.reads[read as usize];
                let from = match found.from {
                    From::Txn(w) => Some(w),
                    From::Initial => None,
                    From::Open(_) => self.source_edge(read).map(|e| rules.txn(self.edge(e).from)),
                };
                let late = (rules.begin(found.reader), rules.commit(other));
                let early = from.map(|w| (rules.commit(other), rules.commit(w)));
                Some((
                    self.axiom(read, from, other, Vec::new(), &[]),
                    early.map(|early| other_of(early, late)),
                ))
            }
            _ => None,
        }
    }
}
