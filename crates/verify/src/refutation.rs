//! Does a refutation show that no execution satisfies a level?
//!
//! Steps are taken one after another; what each reason means is said in `isolde_level`'s `proof` module, and transcribed
//! here. Every step is checked in time linear in the step (and in the transactions it names), so the whole is linear.

use crate::flaw::{Flaw, FlawKind};
use crate::reading::{Facts, Reading, Source, check_choice};
use isolde_history::{OpId, OpKind, Outcome, TxnId};
use isolde_level::{Choice, Level, Literal, Point, Reason, Refutation, Step};
use rustc_hash::FxHashSet;

/// What the level's axiom is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// One point per transaction: every read returns the latest version.
    Serial,
    /// Two points: every read returns the latest version at begin.
    Snapshot,
    /// One point: no read overlooks a visible version.
    Visible,
}

fn family(level: Level) -> Option<Family> {
    Some(match level {
        Level::Serializable
        | Level::RepeatableRead
        | Level::StrongSessionSerializable
        | Level::StrictSerializable => Family::Serial,
        Level::Prefix
        | Level::SnapshotIsolation
        | Level::StrongSessionSnapshotIsolation
        | Level::StrongSnapshotIsolation => Family::Snapshot,
        Level::ReadCommitted
        | Level::ReadAtomic
        | Level::Causal
        | Level::ReadYourWrites
        | Level::MonotonicReads
        | Level::MonotonicWrites
        | Level::WritesFollowReads
        | Level::ConsistentView
        | Level::ParallelSnapshotIsolation => Family::Visible,
        _ => return None,
    })
}

/// Checks a refutation. `certain` is the reading without choices.
pub(crate) fn check(
    facts: &Facts<'_>,
    certain: &Reading<'_>,
    level: Level,
    refutation: &Refutation,
    trusting: bool,
) -> Result<(), Flaw> {
    let Some(family) = family(level) else { return Err(Flaw::new(FlawKind::WrongKind)) };
    if refutation.steps.last().is_none_or(|last| !last.clause.is_empty()) {
        return Err(Flaw::new(FlawKind::NoContradiction));
    }
    let possible = Reading::of_all_possible(facts);
    let mut proof = Proof {
        facts,
        certain,
        possible: &possible,
        level,
        family,
        trusting,
        places_all: !level.info().real_time || facts.sessions_follow_the_clock(),
        clauses: Vec::with_capacity(refutation.steps.len()),
        units: FxHashSet::default(),
        reads: FxHashSet::default(),
    };
    for (at, step) in refutation.steps.iter().enumerate() {
        proof.step(step).map_err(|flaw| flaw.at(at))?;
    }
    Ok(())
}

struct Proof<'a> {
    facts: &'a Facts<'a>,
    certain: &'a Reading<'a>,
    /// How reads are explained if everybody of unknown outcome took effect. What a read may have returned does not depend on
    /// who did.
    possible: &'a Reading<'a>,
    level: Level,
    family: Family,
    /// What the caller assumed is taken as given.
    trusting: bool,
    /// Whoever did not take effect can be put into any order of the others: not if sessions ran against the clock.
    places_all: bool,
    clauses: Vec<Vec<Literal>>,
    /// Clauses of one literal.
    units: FxHashSet<Literal>,
    /// Who reads from whom without a doubt, for the readers looked at so far; a reader looked at is paired with itself.
    reads: FxHashSet<(TxnId, TxnId)>,
}

/// A clause in the making: its literals, for lookup.
struct Clause {
    literals: FxHashSet<Literal>,
}

impl Clause {
    fn has(&self, literal: Literal) -> Result<(), Flaw> {
        if self.literals.contains(&literal) { Ok(()) } else { Err(unproven()) }
    }
}

fn unproven() -> Flaw {
    Flaw::new(FlawKind::UnprovenStep)
}

/// A link on the way from a writer that is visible to a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Session,
    Read,
    Version,
}

impl Proof<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Flaw> {
        let literals: Vec<Literal> =
            step.clause.iter().map(|&l| self.normal(l)).collect::<Result<_, Flaw>>()?;
        let clause = Clause { literals: literals.iter().copied().collect() };
        match &step.reason {
            Reason::Cycle(points) => self.cycle(&clause, points)?,
            Reason::Axiom { read, write, other, path } => {
                self.axiom(&clause, *read, *write, *other, path)?;
            }
            Reason::Conflict { first, second } => self.conflict(&clause, *first, *second)?,
            Reason::Version { read, first, second } => self.version(&clause, *read, *first, *second)?,
            Reason::Assumed { first, second, .. } => self.assumed(&clause, *first, *second)?,
            Reason::Source { read, element } => self.sources(&clause, *read, *element)?,
            Reason::Observed(choice) => {
                self.returned(&clause, *choice)?;
                clause.has(Literal::Committed(self.facts.owner(choice.write)))?;
            }
            Reason::Intermediate(choice) => self.intermediate(&clause, *choice)?,
            Reason::Impossible { read } => {
                self.read(*read)?;
                self.guarded(&clause, self.facts.owner(*read))?;
                if !matches!(self.possible.source(*read), Source::Fault(_)) {
                    return Err(unproven().ops([*read]));
                }
            }
            Reason::Implied(hints) => self.implied(&literals, hints)?,
        }
        if let [unit] = literals[..] {
            self.units.insert(unit);
        }
        self.clauses.push(literals);
        Ok(())
    }

    fn one_point(&self) -> bool {
        self.family != Family::Snapshot
    }

    fn point(&self, point: Point) -> Result<Point, Flaw> {
        let t = point.txn();
        if t.index() >= self.facts.history.txn_count() {
            return Err(Flaw::new(FlawKind::NoSuchTransaction));
        }
        Ok(if self.one_point() { Point::Commit(t) } else { point })
    }

    /// A literal with points as this level has them. Nothing is before itself, so there the negation would not be one.
    fn normal(&self, literal: Literal) -> Result<Literal, Flaw> {
        match literal {
            Literal::Before(a, b) => {
                let (a, b) = (self.point(a)?, self.point(b)?);
                if a == b { Err(unproven().txns([a.txn()])) } else { Ok(Literal::Before(a, b)) }
            }
            Literal::ReadsFrom(choice) | Literal::NotReadsFrom(choice) => {
                check_choice(self.facts, choice)?;
                Ok(literal)
            }
            Literal::Committed(t) | Literal::NotCommitted(t) => {
                self.point(Point::Commit(t))?;
                Ok(literal)
            }
        }
    }

    fn aborted(&self, t: TxnId) -> bool {
        self.facts.history.outcome(t) == Outcome::Aborted
    }

    /// The transaction took effect, or the clause allows for its not having.
    fn is_guarded(&self, clause: &Clause, t: TxnId) -> bool {
        self.certain.counts(t) || !self.aborted(t) && clause.literals.contains(&Literal::NotCommitted(t))
    }

    fn guarded(&self, clause: &Clause, t: TxnId) -> Result<(), Flaw> {
        if self.is_guarded(clause, t) { Ok(()) } else { Err(unproven().txns([t])) }
    }

    fn op(&self, op: OpId, kind: OpKind) -> Result<(), Flaw> {
        let history = self.facts.history;
        if op.index() >= history.op_count() {
            return Err(Flaw::new(FlawKind::NoSuchOperation));
        }
        let fits = (history.op(op).kind == OpKind::Read) == (kind == OpKind::Read);
        if fits && !self.aborted(self.facts.owner(op)) { Ok(()) } else { Err(unproven().ops([op])) }
    }

    fn read(&self, op: OpId) -> Result<(), Flaw> {
        self.op(op, OpKind::Read)
    }

    fn write(&self, op: OpId) -> Result<(), Flaw> {
        self.op(op, OpKind::Write)
    }

    /// Does `r` read from `w` without a doubt? (If `r` takes effect at all.)
    fn reads_from(&mut self, w: TxnId, r: TxnId) -> bool {
        if self.reads.insert((r, r)) {
            for read in self.possible.external(r) {
                self.reads.extend(self.possible.writer(read).map(|w| (w, r)));
            }
        }
        w != r && self.reads.contains(&(w, r))
    }

    fn session_before(&self, a: TxnId, b: TxnId) -> bool {
        let history = self.facts.history;
        self.level.info().session_order && a < b && history.session_of(a) == history.session_of(b)
    }

    fn time_before(&self, a: TxnId, b: TxnId) -> bool {
        self.level.info().real_time && self.facts.ended_before(a, b)
    }

    /// Each link is known, or its reverse is in the clause.
    fn cycle(&mut self, clause: &Clause, points: &[Point]) -> Result<(), Flaw> {
        let points: Vec<Point> = points.iter().map(|&p| self.point(p)).collect::<Result<_, Flaw>>()?;
        if points.is_empty() {
            return Err(unproven());
        }
        let mut chosen: FxHashSet<(TxnId, TxnId)> = FxHashSet::default();
        for literal in &clause.literals {
            if let Literal::NotReadsFrom(choice) = literal
                && self.is_version(*choice)
            {
                chosen.insert((self.facts.owner(choice.write), self.facts.owner(choice.read)));
            }
        }
        let links: Vec<(Point, Point)> =
            points.iter().zip(points.iter().cycle().skip(1)).map(|(&a, &b)| (a, b)).collect();
        let mut by_read = Vec::with_capacity(links.len());
        let mut only_by_read = Vec::with_capacity(links.len());
        for &(a, b) in &links {
            let (t, u) = (a.txn(), b.txn());
            let chosen = chosen.contains(&(t, u));
            let otherwise = chosen
                || matches!((a, b), (Point::Begin(t), Point::Commit(u)) if t == u)
                || self.session_before(t, u)
                || self.time_before(t, u)
                || a != b
                    && (clause.literals.contains(&Literal::Before(b, a))
                        || self.units.contains(&Literal::Before(a, b)));
            let read = self.reads_from(t, u);
            if !otherwise && !read {
                return Err(unproven().txns([t, u]));
            }
            by_read.push(chosen || read);
            only_by_read.push(!otherwise);
        }
        // A transaction that did not take effect has its place as well, wherever the known order lets it stand, but reads
        // nothing. Backwards, twice round: from a transaction that takes effect to whom it reads from.
        let mut effective: Vec<bool> = points.iter().map(|p| self.is_guarded(clause, p.txn())).collect();
        for at in (0..links.len()).rev().chain((0..links.len()).rev()) {
            let next = (at + 1) % links.len();
            effective[at] |= by_read[at] && effective[next];
        }
        let unfounded = |at: usize| match self.places_all {
            true => only_by_read[at] && !effective[(at + 1) % links.len()],
            false => !effective[at],
        };
        match (0..links.len()).find(|&at| unfounded(at)) {
            Some(at) => Err(unproven().txns([points[at].txn()])),
            None => Ok(()),
        }
    }

    /// The read returned this write: without a doubt, or the clause allows for its not having. Its transaction takes effect,
    /// or the clause allows for its not having.
    fn returned(&self, clause: &Clause, choice: Choice) -> Result<(), Flaw> {
        check_choice(self.facts, choice)?;
        self.read(choice.read)?;
        self.guarded(clause, self.facts.owner(choice.read))?;
        let certain = match self.possible.source(choice.read) {
            Source::From(write) => {
                write == choice.write
                    || self.possible.shown(choice.read).is_some_and(|all| all.contains(&choice.write))
            }
            Source::Open => false,
            _ => return Err(unproven().ops([choice.read])),
        };
        if certain { Ok(()) } else { clause.has(Literal::NotReadsFrom(choice)) }
    }

    fn axiom(
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
        match write {
            Some(write) => {
                self.returned(clause, Choice { read, write })?;
                if !self.is_version(Choice { read, write }) {
                    return Err(unproven().ops([read, write]));
                }
            }
            None => {
                self.guarded(clause, r)?;
                if self.possible.source(read) != Source::Initial {
                    return Err(unproven().ops([read]));
                }
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
        match self.family {
            Family::Serial => clause.has(Literal::Before(Point::Commit(r), Point::Commit(o))),
            Family::Snapshot => clause.has(Literal::Before(Point::Begin(r), Point::Commit(o))),
            Family::Visible => self.visible(clause, read, o, path, r),
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
        let mut links: Vec<[bool; 3]> = Vec::with_capacity(stops.len());
        for pair in stops.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let (limit, reader) =
                if self.level == Level::ReadCommitted { (read, r) } else { (OpId(u32::MAX), b) };
            let mut by_read = false;
            for choice in clause.literals.iter() {
                if let Literal::NotReadsFrom(c) = choice {
                    by_read |= self.facts.owner(c.write) == a
                        && self.facts.owner(c.read) == reader
                        && c.read < limit
                        && self.is_version(*c);
                }
            }
            by_read |= match self.level {
                Level::ReadCommitted => {
                    self.possible.external(r).any(|e| e.op < limit && self.possible.writer(e) == Some(a))
                }
                _ => self.reads_from(a, b),
            };
            let (before, after) = (Point::Commit(a), Point::Commit(b));
            let version = matches!(self.level, Level::ParallelSnapshotIsolation | Level::ConsistentView)
                && self.write_a_key(a, b)
                && (clause.literals.contains(&Literal::Before(after, before))
                    || self.units.contains(&Literal::Before(before, after)));
            links.push([self.session_before(a, b), by_read, version]);
        }
        let fits = |shape: &[Link]| {
            shape.len() == links.len() && shape.iter().zip(&links).all(|(&l, has)| has[l as usize])
        };
        use Link::{Read, Session};
        let seen = match self.level {
            Level::ReadCommitted => fits(&[Read]),
            Level::ReadAtomic => fits(&[Read]) || fits(&[Session]),
            Level::ReadYourWrites => fits(&[Session]),
            Level::MonotonicReads => fits(&[Read, Session]),
            Level::MonotonicWrites => fits(&[Session, Read]),
            Level::WritesFollowReads => fits(&[Read, Session, Read]),
            Level::ParallelSnapshotIsolation | Level::ConsistentView => {
                links.iter().all(|has| has.contains(&true))
            }
            _ => links.iter().all(|has| has[Link::Session as usize] || has[Link::Read as usize]),
        };
        debug_assert!(Link::Version as usize == 2);
        if seen { Ok(()) } else { Err(unproven().txns(stops)) }
    }

    /// Is the write (chosen or certain) the version that the read returned? A list also shows older ones.
    fn is_version(&self, choice: Choice) -> bool {
        let history = self.facts.history;
        let (read, write) = (history.op(choice.read), history.op(choice.write));
        match self.possible.source(choice.read) {
            Source::From(_) | Source::Open => {}
            _ => return false,
        }
        match history.list(read.value) {
            None => read.value == write.value,
            Some(elements) => {
                let own = self.own_appends(choice.read);
                let others = &elements[..elements.len().saturating_sub(own)];
                others.last() == Some(&write.value)
            }
        }
    }

    /// The reader's own earlier appends, which are the tail of the list.
    fn own_appends(&self, read: OpId) -> usize {
        let key = self.facts.history.op(read).key;
        let mine = self.facts.history.ops(self.facts.owner(read));
        mine.filter(|(w, o)| *w < read && o.kind == OpKind::Append && o.key == key).count()
    }

    fn write_a_key(&self, a: TxnId, b: TxnId) -> bool {
        let keys: FxHashSet<_> = self.facts.written(a).map(|(key, _)| key).collect();
        self.facts.written(b).any(|(key, _)| keys.contains(&key))
    }

    fn conflict(&self, clause: &Clause, first: OpId, second: OpId) -> Result<(), Flaw> {
        self.write(first)?;
        self.write(second)?;
        let (a, b) = (self.facts.owner(first), self.facts.owner(second));
        let history = self.facts.history;
        let applies = self.family == Family::Snapshot
            && self.level != Level::Prefix
            && a != b
            && history.op(first).key == history.op(second).key;
        if !applies {
            return Err(unproven().ops([first, second]));
        }
        self.guarded(clause, a)?;
        self.guarded(clause, b)?;
        clause.has(Literal::Before(Point::Commit(a), Point::Begin(b)))?;
        clause.has(Literal::Before(Point::Commit(b), Point::Begin(a)))
    }

    /// What the caller assumed proves nothing by itself; taken as given, it is about two writers of one key.
    fn assumed(&self, clause: &Clause, first: OpId, second: OpId) -> Result<(), Flaw> {
        self.write(first)?;
        self.write(second)?;
        let (a, b) = (self.facts.owner(first), self.facts.owner(second));
        let history = self.facts.history;
        if !self.trusting || a == b || history.op(first).key != history.op(second).key {
            return Err(unproven().ops([first, second]));
        }
        self.guarded(clause, a)?;
        self.guarded(clause, b)?;
        clause.has(Literal::Before(Point::Commit(a), Point::Commit(b)))
    }

    fn version(&self, clause: &Clause, read: OpId, first: OpId, second: OpId) -> Result<(), Flaw> {
        self.read(read)?;
        self.write(second)?;
        let flaw = || unproven().ops([read, second]);
        let shown = self.possible.shown(read).ok_or_else(flaw)?;
        let history = self.facts.history;
        let at = shown.iter().position(|&a| a == first).ok_or_else(flaw)?;
        let follows = match shown.get(at + 1) {
            Some(&next) => next == second,
            None => {
                let append = history.op(second);
                append.kind == OpKind::Append
                    && append.key == history.op(read).key
                    && !shown.contains(&second)
            }
        };
        let (a, b) = (self.facts.owner(first), self.facts.owner(second));
        if !follows || a == b {
            return Err(flaw());
        }
        self.guarded(clause, self.facts.owner(read))?;
        if !shown.contains(&second) {
            self.guarded(clause, b)?;
        }
        clause.has(Literal::Before(Point::Commit(a), Point::Commit(b)))
    }

    fn sources(&self, clause: &Clause, read: OpId, element: u32) -> Result<(), Flaw> {
        self.read(read)?;
        let history = self.facts.history;
        let op = history.op(read);
        let reader = self.facts.owner(read);
        self.guarded(clause, reader)?;
        let flaw = || unproven().ops([read]);
        let value = match history.list(op.value) {
            None if element == 0 => op.value,
            None => return Err(flaw()),
            Some(elements) => {
                let others = elements.len().saturating_sub(self.own_appends(read));
                *elements[..others].get(element as usize).ok_or_else(flaw)?
            }
        };
        let open = self.possible.source(read) == Source::Open;
        let candidates = self.facts.candidates(reader, op.key, value);
        if !open || candidates.len() == 0 {
            return Err(flaw());
        }
        candidates.iter().try_for_each(|write| clause.has(Literal::ReadsFrom(Choice { read, write })))
    }

    fn intermediate(&self, clause: &Clause, choice: Choice) -> Result<(), Flaw> {
        self.returned(clause, choice)?;
        if self.is_version(choice) && !self.facts.is_final(choice.write) {
            Ok(())
        } else {
            Err(unproven().ops([choice.read, choice.write]))
        }
    }

    /// Reverse unit propagation along the hints.
    fn implied(&self, literals: &[Literal], hints: &[u32]) -> Result<(), Flaw> {
        let mut true_now: FxHashSet<Literal> = literals.iter().map(|&l| !l).collect();
        for &hint in hints {
            let clause =
                self.clauses.get(hint as usize).ok_or_else(|| Flaw::new(FlawKind::ForwardReference))?;
            let mut open = clause.iter().filter(|&&l| !true_now.contains(&!l));
            match (open.next(), open.next()) {
                (None, _) => return Ok(()),
                (Some(&forced), None) => drop(true_now.insert(forced)),
                (Some(first), Some(second)) if first == second && open.all(|l| l == first) => {
                    true_now.insert(*first);
                }
                _ => return Err(unproven()),
            }
        }
        Err(unproven())
    }
}
