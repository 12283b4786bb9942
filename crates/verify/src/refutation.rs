//! Does a refutation show that no execution satisfies a level?
//!
//! Steps are taken one after another; what each reason means is said in `anomalist_level`'s `proof` module,
//! and transcribed here. Every step is checked in time linear in the step (and in the transactions it
//! names), so the whole is linear.

mod axioms;
mod sources;

use crate::Terms;
use crate::definition::{Kind, definition, kind};
use crate::facts::Facts;
use crate::flaw::{Flaw, FlawKind};
use crate::levels::Levels;
use crate::reading::{Reading, Source, check_choice};
use anomalist_history::{OpId, OpKind, Outcome, TxnId};
use anomalist_level::{Choice, Level, Literal, Point, Reason, Refutation, Step};
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
    /// One point: those who write are serial, and those who do not overlook no version that leads to what
    /// they read.
    Updates,
    /// One point: readers follow what they read.
    Flow,
    /// One point: lists show the order of their versions.
    Writes,
    /// No order: a transaction repeats its reads.
    Cut,
}

fn family(level: Level) -> Option<Family> {
    Some(match kind(level)? {
        Kind::Serial => Family::Serial,
        Kind::Prefix | Kind::Snapshot => Family::Snapshot,
        Kind::ReadCommitted
        | Kind::ReadAtomic
        | Kind::Causal
        | Kind::ReadYourWrites
        | Kind::MonotonicReads
        | Kind::MonotonicWrites
        | Kind::WritesFollowReads
        | Kind::View
        | Kind::Parallel => Family::Visible,
        Kind::Updates => Family::Updates,
        Kind::Flow => Family::Flow,
        Kind::Writes => Family::Writes,
        Kind::Cut => Family::Cut,
    })
}

/// Checks a refutation. `certain` is the reading without choices.
pub(crate) fn check(
    facts: &Facts<'_>,
    certain: &Reading<'_>,
    levels: Levels<'_>,
    refutation: &Refutation,
    terms: Terms,
) -> Result<(), Flaw> {
    // Levels that see versions have no order of commits to share with others.
    let unfit = |t: TxnId| kind(levels.of(t)).is_none_or(|k| matches!(k, Kind::Updates | Kind::Parallel));
    let defined = match levels {
        Levels::One(level) => family(level).is_some(),
        Levels::Declared(_) => !facts.history.txns().any(unfit),
    };
    if !defined {
        return Err(Flaw::new(FlawKind::WrongKind));
    }
    if refutation.steps.last().is_none_or(|last| !last.clause.is_empty()) {
        return Err(Flaw::new(FlawKind::NoContradiction));
    }
    let possible = Reading::of_all_possible(facts);
    let mut proof = Proof {
        facts,
        certain,
        possible: &possible,
        levels,
        terms,
        // Where levels are mixed, those with session order need not care for the clock.
        places_all: !levels.real_time() || !levels.is_mixed() && facts.sessions_follow_the_clock(),
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
    /// How reads are explained if everybody of unknown outcome took effect. What a read may have returned
    /// does not depend on who did.
    possible: &'a Reading<'a>,
    levels: Levels<'a>,
    terms: Terms,
    /// Any transaction that did not take effect can be put into any order of the others: not if sessions
    /// ran against the clock.
    places_all: bool,
    clauses: Vec<Vec<Literal>>,
    /// Clauses of one literal.
    units: FxHashSet<Literal>,
    /// Who reads from whom without a doubt, for the readers looked at so far; a reader looked at is paired
    /// with itself.
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
    #[expect(
        dead_code,
        reason = "no shape of a weak level has it; parallel snapshot isolation and PL-3U take any link"
    )]
    Version,
    Replaced,
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
                let write = choice.write.ok_or_else(|| unproven().ops([choice.read]))?;
                clause.has(Literal::Committed(self.facts.owner(write)))?;
            }
            Reason::Intermediate(choice) => self.intermediate(&clause, *choice)?,
            Reason::Impossible { read } => self.impossible(&clause, *read)?,
            Reason::Repeated { first, second } => self.repeated(&clause, *first, *second)?,
            Reason::Implied(hints) => self.implied(&literals, hints)?,
        }
        if let [unit] = literals[..] {
            self.units.insert(unit);
        }
        self.clauses.push(literals);
        Ok(())
    }

    /// How the level of a transaction looks at it. (All levels have one: that was seen before the first
    /// step.)
    fn family(&self, t: TxnId) -> Family {
        family(self.levels.of(t)).unwrap_or(Family::Writes)
    }

    fn one_point(&self, t: TxnId) -> bool {
        self.family(t) != Family::Snapshot
    }

    /// Whether the level of a transaction says anything about its single reads.
    fn judges_reads(&self, t: TxnId) -> bool {
        !matches!(self.family(t), Family::Writes | Family::Cut)
    }

    fn point(&self, point: Point) -> Result<Point, Flaw> {
        let t = point.txn();
        if t.index() >= self.facts.history.txn_count() {
            return Err(Flaw::new(FlawKind::NoSuchTransaction));
        }
        Ok(if self.one_point(t) { Point::Commit(t) } else { point })
    }

    /// A literal with points as this level has them. Nothing is before itself, so there the negation would
    /// not be one.
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
            self.reads.extend(self.certain_reads(r).into_iter().filter_map(|(_, w)| Some((w?, r))));
        }
        w != r && self.reads.contains(&(w, r))
    }

    /// `a` comes before `b` in their session, and that matters to `level`.
    fn session_before(&self, level: Level, a: TxnId, b: TxnId) -> bool {
        let history = self.facts.history;
        definition(level).is_some_and(|d| d.sessions) && history.session_before(a, b)
    }

    fn time_before(&self, a: TxnId, b: TxnId) -> bool {
        definition(self.levels.of(b)).is_some_and(|d| d.real_time) && self.facts.ended_before(a, b)
    }

    /// Each link is known, or its reverse is in the clause.
    fn cycle(&mut self, clause: &Clause, points: &[Point]) -> Result<(), Flaw> {
        let points: Vec<Point> = points.iter().map(|&p| self.point(p)).collect::<Result<_, Flaw>>()?;
        if points.is_empty() || self.levels.have_no_order() {
            return Err(unproven());
        }
        let mut chosen: FxHashSet<(TxnId, TxnId)> = FxHashSet::default();
        for literal in &clause.literals {
            if let Literal::NotReadsFrom(choice) = literal
                && self.judges_reads(self.facts.owner(choice.read))
                && self.is_version(*choice)
                && let Some(write) = choice.write
            {
                chosen.insert((self.facts.owner(write), self.facts.owner(choice.read)));
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
                || self.session_before(self.levels.of(u), t, u)
                || self.time_before(t, u)
                || a != b
                    && (clause.literals.contains(&Literal::Before(b, a))
                        || self.units.contains(&Literal::Before(a, b)));
            let read = self.judges_reads(u) && self.reads_from(t, u);
            if !otherwise && !read {
                return Err(unproven().txns([t, u]));
            }
            by_read.push(chosen || read);
            only_by_read.push(!otherwise);
        }
        // A transaction that did not take effect has its place as well, wherever the known order lets it
        // stand, but reads nothing. Backwards, twice round: from a transaction that takes effect to whom it
        // reads from.
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

    /// The read returned this write: without a doubt, or the clause allows for its not having. Its
    /// transaction takes effect, or the clause allows for its not having.
    fn returned(&self, clause: &Clause, choice: Choice) -> Result<(), Flaw> {
        check_choice(self.facts, choice)?;
        self.read(choice.read)?;
        self.guarded(clause, self.facts.owner(choice.read))?;
        let certain = match self.possible.source(choice.read) {
            Source::From(write) => {
                let shown = self.possible.shown(choice.read);
                choice.write == shown.map_or(Some(write), |all| all.get(choice.element as usize).copied())
            }
            Source::Initial => choice.write.is_none(),
            Source::Open => self.only_candidate(choice),
            _ => return Err(unproven().ops([choice.read])),
        };
        if certain { Ok(()) } else { clause.has(Literal::NotReadsFrom(choice)) }
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
