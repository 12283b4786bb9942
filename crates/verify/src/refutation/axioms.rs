//! The axioms of the levels: what a read requires of other writers of its key, and two writers of each
//! other.

use super::{Clause, Family, Link, Proof, unproven};
use crate::definition::{Kind, kind};
use crate::flaw::Flaw;
use crate::reading::Source;
use anomalist_history::{OpId, OpKind, TxnId};
use anomalist_level::{Choice, Definitions, Literal, Point};
use rustc_hash::FxHashSet;

impl Proof<'_> {
    pub(super) fn axiom(
        &mut self,
        clause: &Clause,
        read: OpId,
        write: Option<OpId>,
        other: OpId,
        path: &[TxnId],
    ) -> Result<(), Flaw> {
        self.read(read)?;
        self.write(other)?;
        let (r, o) = (self.facts.owner(read), self.facts.owner(other));
        let history = self.facts.history;
        if write.is_none() && self.possible.source(read) == Source::Initial {
            self.guarded(clause, r)?;
        } else {
            let choice = Choice { read, element: self.last_element(read), write };
            self.returned(clause, choice)?;
            if !self.is_version(choice) {
                return Err(unproven().ops([read].into_iter().chain(write)));
            }
        }
        let w = write.map(|write| self.facts.owner(write));
        if history.op(other).key != history.op(read).key || o == r || Some(o) == w {
            return Err(unproven().ops([read, other]));
        }
        self.guarded(clause, o)?;
        if let Some(w) = w {
            clause.has(Literal::Before(Point::Commit(o), Point::Commit(w)))?;
        }
        let after = Literal::Before(Point::Commit(r), Point::Commit(o));
        match self.family(r) {
            Family::Serial => clause.has(after),
            Family::Updates if path.is_empty() && self.updates(r) && clause.literals.contains(&after) => {
                Ok(())
            }
            Family::Snapshot => clause.has(Literal::Before(Point::Begin(r), Point::Commit(o))),
            Family::Visible | Family::Updates => self.visible(clause, read, o, path, r),
            Family::Flow | Family::Writes | Family::Cut => Err(unproven().ops([read])),
        }
    }

    /// Is `o` visible to the read of `r`, through `path`, as the level sees it?
    fn visible(
        &mut self,
        clause: &Clause,
        read: OpId,
        o: TxnId,
        path: &[TxnId],
        r: TxnId,
    ) -> Result<(), Flaw> {
        let stops: Vec<TxnId> = [o].into_iter().chain(path.iter().copied()).chain([r]).collect();
        for &stop in &stops {
            self.point(Point::Commit(stop))?;
            self.guarded(clause, stop)?;
        }
        let level = self.levels.of(r);
        let Some(kind) = kind(level) else { return Err(unproven()) };
        let updates = kind == Kind::Updates;
        if updates && !stops[..stops.len() - 1].iter().all(|&stop| self.updates(stop)) {
            return Err(unproven().txns(stops));
        }
        // By Plume's read committed, the reads of one key make no writer of it visible.
        let key = |op: OpId| self.facts.history.op(op).key;
        let plume = kind == Kind::ReadCommitted && self.terms.definitions == Definitions::Plume;
        let other = |op: OpId| !plume || key(op) != key(read);
        let mut links: Vec<[bool; 4]> = Vec::with_capacity(stops.len());
        for pair in stops.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let (limit, reader) = if kind == Kind::ReadCommitted { (read, r) } else { (OpId(u32::MAX), b) };
            let mut by_read = false;
            for choice in clause.literals.iter() {
                if let Literal::NotReadsFrom(c) = choice {
                    by_read |= c.write.is_some_and(|write| self.facts.owner(write) == a)
                        && self.facts.owner(c.read) == reader
                        && c.read < limit
                        && other(c.read)
                        && self.is_version(*c);
                }
            }
            by_read |= if kind == Kind::ReadCommitted {
                self.certain_reads(r).into_iter().any(|(op, w)| op < limit && other(op) && w == Some(a))
            } else {
                self.reads_from(a, b)
            };
            let (before, after) = (Point::Commit(a), Point::Commit(b));
            let version = matches!(kind, Kind::Parallel | Kind::View | Kind::Updates)
                && self.write_a_key(a, b)
                && (clause.literals.contains(&Literal::Before(after, before))
                    || self.units.contains(&Literal::Before(before, after)));
            let replaced = updates && self.replaced(clause, a, b);
            links.push([self.session_before(level, a, b), by_read, version, replaced]);
        }
        let fits = |shape: &[Link]| {
            shape.len() == links.len() && shape.iter().zip(&links).all(|(&l, has)| has[l as usize])
        };
        use Link::{Read, Session};
        let seen = match kind {
            Kind::ReadCommitted => fits(&[Read]),
            Kind::ReadAtomic => fits(&[Read]) || fits(&[Session]),
            Kind::ReadYourWrites => fits(&[Session]),
            Kind::MonotonicReads => fits(&[Read, Session]),
            Kind::MonotonicWrites => fits(&[Session, Read]),
            Kind::WritesFollowReads => fits(&[Read, Session, Read]),
            Kind::Parallel | Kind::View => links.iter().all(|has| has.contains(&true)),
            Kind::Updates => {
                links.iter().all(|has| has.contains(&true))
                    && links.last().is_some_and(|has| has[Link::Read as usize])
            }
            Kind::Causal => links.iter().all(|has| has[Link::Session as usize] || has[Link::Read as usize]),
            // Nothing is visible by such a path; callers look at the family first.
            Kind::Serial | Kind::Prefix | Kind::Snapshot | Kind::Flow | Kind::Writes | Kind::Cut => false,
        };
        debug_assert!(Link::Replaced as usize == 3);
        if seen { Ok(()) } else { Err(unproven().txns(stops)) }
    }

    /// Is the choice about the version that the read returned? A list also shows older ones.
    pub(super) fn is_version(&self, choice: Choice) -> bool {
        match self.possible.source(choice.read) {
            Source::From(_) | Source::Open | Source::Initial => {
                choice.element == self.last_element(choice.read)
            }
            _ => false,
        }
    }

    /// The place of the last element that a list shows of others' appends; 0 for a register.
    fn last_element(&self, read: OpId) -> u32 {
        let elements = self.facts.history.list(self.facts.history.op(read).value);
        elements.map_or(0, |e| e.len().saturating_sub(self.own_appends(read) + 1) as u32)
    }

    /// The reader's own earlier appends, which are the tail of the list.
    pub(super) fn own_appends(&self, read: OpId) -> usize {
        let key = self.facts.history.op(read).key;
        let mine = self.facts.history.ops(self.facts.owner(read));
        mine.filter(|(w, o)| *w < read && o.kind == OpKind::Append && o.key == key).count()
    }

    /// True if it writes anything.
    fn updates(&self, t: TxnId) -> bool {
        self.facts.written(t).next().is_some()
    }

    /// The reads of a transaction whose source is certain: the read, and whose write it returned.
    pub(super) fn certain_reads(&self, r: TxnId) -> Vec<(OpId, Option<TxnId>)> {
        let mut found: Vec<(OpId, Option<TxnId>)> =
            self.possible.external(r).map(|read| (read.op, self.possible.writer(read))).collect();
        // Of a list the last element may be certain although others are not.
        for (read, op) in self.facts.history.ops(r) {
            let open = self.possible.source(read) == Source::Open;
            let own = if open { self.own_appends(read) } else { 0 };
            if let Some(elements) = self.facts.history.list(op.value).filter(|_| open)
                && let Some(&last) = elements[..elements.len().saturating_sub(own)].last()
                && let Some(write) = self.facts.candidates(r, op.key, last).only_write()
            {
                found.push((read, Some(self.facts.owner(write))));
            }
        }
        found
    }

    /// Whether `b` replaced what a read of `a` returned: it wrote the key after that.
    fn replaced(&self, clause: &Clause, a: TxnId, b: TxnId) -> bool {
        let history = self.facts.history;
        let keys: FxHashSet<_> = self.facts.written(b).map(|(key, _)| key).collect();
        let after = |w: Option<TxnId>| {
            w.is_none_or(|w| {
                let (before, after) = (Point::Commit(w), Point::Commit(b));
                w != b
                    && (clause.literals.contains(&Literal::Before(after, before))
                        || self.units.contains(&Literal::Before(before, after)))
            })
        };
        let certain = self.certain_reads(a).into_iter();
        let chosen = clause.literals.iter().filter_map(|literal| match literal {
            Literal::NotReadsFrom(c) if self.facts.owner(c.read) == a && self.is_version(*c) => {
                Some((c.read, c.write.map(|write| self.facts.owner(write))))
            }
            _ => None,
        });
        a != b && certain.chain(chosen).any(|(read, w)| keys.contains(&history.op(read).key) && after(w))
    }

    fn write_a_key(&self, a: TxnId, b: TxnId) -> bool {
        let keys: FxHashSet<_> = self.facts.written(a).map(|(key, _)| key).collect();
        self.facts.written(b).any(|(key, _)| keys.contains(&key))
    }

    pub(super) fn conflict(&self, clause: &Clause, first: OpId, second: OpId) -> Result<(), Flaw> {
        self.write(first)?;
        self.write(second)?;
        let (a, b) = (self.facts.owner(first), self.facts.owner(second));
        let history = self.facts.history;
        let alone = |t: TxnId| kind(self.levels.of(t)) == Some(Kind::Snapshot);
        let applies = (alone(a) || alone(b)) && a != b && history.op(first).key == history.op(second).key;
        if !applies {
            return Err(unproven().ops([first, second]));
        }
        self.guarded(clause, a)?;
        self.guarded(clause, b)?;
        // Where the other's level does not care, it is its commit alone that must not come between.
        let from = |t: TxnId| if alone(t) { Point::Begin(t) } else { Point::Commit(t) };
        clause.has(Literal::Before(Point::Commit(a), from(b)))?;
        clause.has(Literal::Before(Point::Commit(b), from(a)))
    }

    /// What the caller assumed proves nothing by itself; taken as given, it is about two writers of one key.
    pub(super) fn assumed(&self, clause: &Clause, first: OpId, second: OpId) -> Result<(), Flaw> {
        self.write(first)?;
        self.write(second)?;
        let (a, b) = (self.facts.owner(first), self.facts.owner(second));
        let history = self.facts.history;
        if !self.terms.trusting || a == b || history.op(first).key != history.op(second).key {
            return Err(unproven().ops([first, second]));
        }
        self.guarded(clause, a)?;
        self.guarded(clause, b)?;
        clause.has(Literal::Before(Point::Commit(a), Point::Commit(b)))
    }
}
