//! A refutation in words: a tree of forced choices that all end in a cycle.
//!
//! A refutation says of some clause that it holds in every execution, and of each of its alternatives why
//! it cannot be. So it is reported from its end: what must be one way or the other, and, indented under each
//! way, what goes wrong with it. The replay of the hints (unit propagation, as the verifier does it) finds
//! out which step excludes which alternative. Each link of a cycle has its reason: a read, a session, real
//! time, or an earlier step, which is reported before the cycle.

use crate::explain::fact;
use crate::layout::listed;
use crate::witness_view::WitnessView;
use anomalist_history::{History, OpId, OpKind, Outcome, TxnId};
use anomalist_level::{
    AnomalyKind, Choice, Edge, Evidence, Family, Level, Literal, Node, Point, Reason, Refutation, Relation,
};
use std::collections::{BTreeMap, BTreeSet};

/// Lines reported before the rest is left to `--certificate`.
const LINES: usize = 40;
/// Choices inside each other that are reported.
const DEPTH: usize = 12;

/// A line, and how deep it stands.
pub(crate) struct Line {
    pub depth: usize,
    pub text: String,
}

/// The proof that an example carries, as lines of text; `None` if it carries none.
pub(crate) fn steps(view: &WitnessView<'_>) -> Option<Vec<Line>> {
    let refutation = view.anomaly.witness.refutation.as_deref().filter(|r| !r.steps.is_empty())?;
    let level = denied(view.anomaly.kind);
    Some(reported(view, &|_| level, refutation))
}

/// The level of which a kind says that no order satisfies it: the weakest that forbids it.
fn denied(kind: AnomalyKind) -> Level {
    let all: Vec<Level> = Level::ALL.iter().copied().filter(|level| level.forbids(kind)).collect();
    Level::weakest(&all).first().copied().unwrap_or(Level::ReadUncommitted)
}

/// Whether transactions of a level begin at one moment and commit at another.
fn has_snapshots(level: Level) -> bool {
    level.family().is_some_and(Family::has_snapshots)
}

/// A refutation as lines of text; empty if there is nothing to tell. `level`: that of a transaction.
pub(crate) fn reported(
    view: &WitnessView<'_>,
    level: &dyn Fn(TxnId) -> Level,
    refutation: &Refutation,
) -> Vec<Line> {
    let Some(last) = refutation.steps.len().checked_sub(1) else { return Vec::new() };
    let mut certain = BTreeMap::new();
    for (i, step) in refutation.steps.iter().enumerate() {
        if let [Literal::Before(a, b)] = step.clause[..] {
            certain.entry((a, b)).or_insert(i);
        }
    }
    let (lines, shown) = (Vec::new(), BTreeSet::new());
    let mut teller =
        Teller { view, history: view.history, refutation, level, certain, shown, lines, left_out: false };
    teller.step(last, &BTreeSet::new(), &BTreeMap::new(), 0);
    if teller.left_out {
        let text = format!("… the whole proof has {} steps, which its certificate lists", last + 1);
        teller.lines.push(Line { depth: 0, text });
    }
    teller.lines
}

/// Why one transaction comes before another at first sight: a session, real time, or a read.
fn link(history: &History, level: Level, a: TxnId, b: TxnId) -> Option<Edge> {
    let info = level.info();
    let edge = |relation, evidence| Edge { from: Node::Txn(a), to: Node::Txn(b), relation, evidence };
    if info.session_order && history.session_of(a) == history.session_of(b) && a < b {
        return Some(edge(Relation::SessionOrder, Evidence::Session));
    }
    let times = history.intervals().map(|i| (i[a.index()].completed, i[b.index()].invoked));
    let ended = matches!(times, Some((Some(end), begin)) if end < begin);
    if info.real_time && history.outcome(a) == Outcome::Committed && ended {
        return Some(edge(Relation::RealTime, Evidence::RealTime));
    }
    let is_source = |write: OpId, read: OpId| {
        let (w, r) = (history.op(write), history.op(read));
        let seen = history.list(r.value).map_or(r.value == w.value, |list| list.contains(&w.value));
        w.kind != OpKind::Read && w.key == r.key && seen
    };
    let source = |read: OpId| history.ops(a).map(|(op, _)| op).rfind(|&write| is_source(write, read));
    let mut reads = history.ops(b).filter(|(_, op)| op.kind == OpKind::Read).map(|(op, _)| op);
    let (read, write) = reads.find_map(|read| Some((read, source(read)?)))?;
    Some(edge(Relation::WriteRead, Evidence::Read { write: Some(write), read }))
}

/// The cycle with which the proof of an example ends, for pictures: each link with its reason where that is
/// simple.
pub(crate) fn last_cycle(view: &WitnessView<'_>) -> Vec<(TxnId, TxnId, Option<Edge>)> {
    let steps = view.anomaly.witness.refutation.as_deref().map_or(&[][..], |r| &r.steps);
    let closing = steps.last().and_then(|last| match &last.reason {
        Reason::Implied(hints) => steps.get(*hints.last()? as usize),
        _ => Some(last),
    });
    let Some(Reason::Cycle(points)) = closing.map(|step| &step.reason) else { return Vec::new() };
    let level = denied(view.anomaly.kind);
    let around = points.iter().zip(points.iter().cycle().skip(1)).map(|(a, b)| (a.txn(), b.txn()));
    around.filter(|(a, b)| a != b).map(|(a, b)| (a, b, link(view.history, level, a, b))).collect()
}

struct Teller<'a> {
    view: &'a WitnessView<'a>,
    history: &'a History,
    refutation: &'a Refutation,
    level: &'a dyn Fn(TxnId) -> Level,
    /// The steps that put one point before another, whatever else is true.
    certain: BTreeMap<(Point, Point), usize>,
    /// Those that were reported.
    shown: BTreeSet<usize>,
    lines: Vec<Line>,
    left_out: bool,
}

/// For a literal that was excluded: the step that did it.
type Excluded = BTreeMap<Literal, usize>;

impl Teller<'_> {
    fn say(&mut self, depth: usize, text: String) {
        if self.lines.len() < LINES {
            self.lines.push(Line { depth, text });
        } else {
            self.left_out = true;
        }
    }

    /// Why step `at` is violated when all of `assumed` is true. Goes only as deep as [`DEPTH`].
    fn step(&mut self, at: usize, assumed: &BTreeSet<Literal>, excluded: &Excluded, depth: usize) {
        let refutation = self.refutation;
        let Some(step) = refutation.steps.get(at) else { return };
        if depth >= DEPTH || self.lines.len() >= LINES {
            self.left_out = true;
            return;
        }
        let (mut at, mut excluded) = (at, excluded.clone());
        let mut assumed = assumed.clone();
        // What several steps imply together is reported by the one that closes it.
        if let Reason::Implied(hints) = &step.reason {
            let Some((closing, by_step)) = self.replay(&step.clause, hints) else { return };
            at = closing;
            assumed.extend(step.clause.iter().map(|&l| !l).filter(|l| !excluded.contains_key(&!*l)));
            excluded.extend(by_step);
            if matches!(refutation.steps[at].reason, Reason::Implied(_)) {
                return self.step(at, &assumed, &excluded, depth + 1);
            }
        }
        let step = &refutation.steps[at];
        let open: Vec<Literal> = step.clause.iter().copied().filter(|l| !assumed.contains(&!*l)).collect();
        match &step.reason {
            Reason::Cycle(points) => self.cycle(points, (at, &assumed), &excluded, depth, open.is_empty()),
            reason => {
                let ends = if open.is_empty() { ": neither is left" } else { "" };
                self.say(depth, format!("{}{ends}.", self.reason(reason)));
            }
        }
        let word = if open.len() == 1 { "So" } else { "If" };
        for literal in open {
            self.say(depth, format!("{word} {}:", self.literal(literal)));
            let mut deeper = assumed.clone();
            deeper.insert(literal);
            match excluded.get(&literal) {
                Some(&by) => self.step(by, &deeper, &excluded, depth + 1),
                None => self.left_out = true,
            }
        }
    }

    /// A cycle with the reason for each of its links; links that were supposed need none. What step `at`
    /// needs of earlier steps is reported before it.
    fn cycle(
        &mut self,
        points: &[Point],
        (at, assumed): (usize, &BTreeSet<Literal>),
        excluded: &Excluded,
        depth: usize,
        closes: bool,
    ) {
        let links = || points.iter().copied().zip(points.iter().copied().cycle().skip(1));
        let clause = &self.refutation.steps[at].clause;
        let supposed =
            |a, b| assumed.contains(&Literal::Before(a, b)) || clause.contains(&Literal::Before(b, a));
        let links: Vec<(Point, Point)> =
            links().filter(|&(a, b)| a.txn() != b.txn() && !supposed(a, b)).collect();
        let mut facts = Vec::new();
        for (a, b) in links {
            match self.certain.get(&(a, b)).copied().filter(|&step| step < at) {
                Some(step) if self.shown.insert(step) => {
                    let text = format!("{}, because otherwise:", self.literal(Literal::Before(a, b)));
                    self.say(depth, text);
                    let mut otherwise = assumed.clone();
                    otherwise.insert(Literal::Before(b, a));
                    self.step(step, &otherwise, excluded, depth + 1);
                }
                Some(_) => {}
                None => {
                    let seen = link(self.history, (self.level)(b.txn()), a.txn(), b.txn());
                    facts.extend(seen.map(|edge| fact(self.view, &edge)));
                }
            }
        }
        let mut around: Vec<String> = points.iter().map(|&p| self.point(p)).collect();
        around.extend(around.first().cloned());
        let start = if closes { "That is a cycle:" } else { "No order has the cycle" };
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join("; ")) };
        self.say(depth, format!("{start} {}{facts}.", around.join(" → ")));
    }

    /// Follows the hints: the step that closes, and which step excluded which literal.
    fn replay(&self, clause: &[Literal], hints: &[u32]) -> Option<(usize, Excluded)> {
        let mut true_now: BTreeSet<Literal> = clause.iter().map(|&l| !l).collect();
        let mut by_step = Excluded::new();
        for &hint in hints {
            let literals = &self.refutation.steps.get(hint as usize)?.clause;
            let mut open = literals.iter().copied().filter(|l| !true_now.contains(&!*l));
            match open.next() {
                None => return Some((hint as usize, by_step)),
                Some(forced) => {
                    true_now.insert(forced);
                    by_step.entry(!forced).or_insert(hint as usize);
                }
            }
        }
        None
    }

    fn name(&self, t: TxnId) -> String {
        self.view.name(t)
    }

    fn of(&self, op: OpId) -> String {
        self.name(self.history.txn_of(op))
    }

    fn key(&self, op: OpId) -> String {
        self.history.show_key(self.history.op(op).key).to_string()
    }

    fn value(&self, op: OpId) -> String {
        self.view.whole_value(op)
    }

    fn point(&self, point: Point) -> String {
        match point {
            _ if !has_snapshots((self.level)(point.txn())) => self.name(point.txn()),
            Point::Begin(t) => format!("{}'s snapshot", self.name(t)),
            Point::Commit(t) => format!("{}'s commit", self.name(t)),
        }
    }

    fn source(&self, choice: Choice) -> String {
        choice.write.map_or_else(|| "the initial state".to_owned(), |write| self.of(write))
    }

    fn literal(&self, literal: Literal) -> String {
        match literal {
            Literal::Before(a, b) => format!("{} comes before {}", self.point(a), self.point(b)),
            Literal::ReadsFrom(c) => {
                format!("{} read {} from {}", self.of(c.read), self.key(c.read), self.source(c))
            }
            Literal::NotReadsFrom(c) => {
                format!("{} did not read {} from {}", self.of(c.read), self.key(c.read), self.source(c))
            }
            Literal::Committed(t) => format!("{} took effect", self.name(t)),
            Literal::NotCommitted(t) => format!("{} did not take effect", self.name(t)),
        }
    }

    /// A read and its result: "T1 read x = 2".
    fn read(&self, read: OpId) -> String {
        format!("{} read {} = {}", self.of(read), self.key(read), self.value(read))
    }

    fn reason(&self, reason: &Reason) -> String {
        match reason {
            Reason::Axiom { read, write, other, path } => self.axiom(*read, *write, *other, path),
            Reason::Conflict { first, second } => format!(
                "{} and {} both wrote {}, so one committed before the other took its snapshot",
                self.of(*first),
                self.of(*second),
                self.key(*first)
            ),
            Reason::Version { read, first, second } => format!(
                "{}, which puts {} of {} before {} of {}",
                self.read(*read),
                self.value(*first),
                self.of(*first),
                self.value(*second),
                self.of(*second)
            ),
            Reason::Repeated { first, second } if first == second => format!(
                "{} read each element of {} from one transaction only",
                self.of(*first),
                self.key(*first)
            ),
            Reason::Repeated { first, second } => format!(
                "{} and {}, and would have to repeat its reads",
                self.read(*first),
                self.value(*second)
            ),
            Reason::Assumed { first, second, .. } => format!(
                "It is assumed that {} wrote {} = {} before {} wrote {}",
                self.of(*first),
                self.key(*first),
                self.value(*first),
                self.of(*second),
                self.value(*second)
            ),
            Reason::Source { read, .. } => {
                format!("{}, which several transactions wrote", self.read(*read))
            }
            Reason::Observed(c) => {
                format!("{} read what {} wrote, so it took effect", self.of(c.read), self.source(*c))
            }
            Reason::Intermediate(c) => format!(
                "{} wrote {} again, so {} cannot have read that",
                self.source(*c),
                self.key(c.read),
                self.of(c.read)
            ),
            Reason::Impossible { read } => {
                format!("Nothing explains that {}, so it cannot have taken effect", self.read(*read))
            }
            // Explained by `cycle` and by the steps that imply it.
            Reason::Cycle(_) | Reason::Implied(_) => String::new(),
        }
    }

    /// A read returned what `write` wrote, and `other` also wrote the key. The reader sees `other` through
    /// `path`, if that is not empty.
    fn axiom(&self, read: OpId, write: Option<OpId>, other: OpId, path: &[TxnId]) -> String {
        let source = match write {
            Some(write) => format!("from {}", self.of(write)),
            None => "as it was initially".to_owned(),
        };
        let did = match self.history.op(other).kind {
            OpKind::Append => "also appended to",
            _ => "also wrote",
        };
        let path: Vec<String> = path.iter().map(|&t| self.name(t)).collect();
        let sees = match path.is_empty() {
            true => String::new(),
            false => format!(", which {} sees through {}", self.of(read), listed(&path)),
        };
        format!("{} {source}; {} {did} {}{sees}", self.read(read), self.of(other), self.key(other))
    }
}
