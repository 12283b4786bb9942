//! A refutation in words: a tree of forced choices that all end in a cycle.
//!
//! A refutation says of some clause that it holds in every execution, and of each of its alternatives why it cannot be. So it
//! is told from its end: what must be one way or the other, and, indented under each way, what goes wrong with it. The
//! replay of the hints (unit propagation, as the verifier does it) finds out which step excludes which alternative.

use crate::cast::{Cast, clean};
use anomalist_history::{History, OpId, OpKind, TxnId};
use anomalist_level::{Choice, Level, Literal, Point, Reason, Refutation};
use std::collections::{BTreeMap, BTreeSet};

/// Lines told before the rest is left to `--certificate`.
const LINES: usize = 40;
/// Choices inside each other that are told.
const DEPTH: usize = 12;

/// A line, and how deep it stands.
pub(crate) struct Line {
    pub depth: usize,
    pub text: String,
}

/// Whether transactions of a level begin at one moment and commit at another.
pub(crate) fn has_snapshots(level: Level) -> bool {
    matches!(
        level,
        Level::Prefix
            | Level::SnapshotIsolation
            | Level::StrongSessionSnapshotIsolation
            | Level::StrongSnapshotIsolation
    )
}

/// A refutation as lines of text; empty if there is nothing to tell. `snapshots`: whether a transaction begins at one moment and
/// commits at another.
pub(crate) fn told(cast: &Cast<'_>, snapshots: &dyn Fn(TxnId) -> bool, refutation: &Refutation) -> Vec<Line> {
    let Some(last) = refutation.steps.len().checked_sub(1) else { return Vec::new() };
    let mut teller =
        Teller { cast, history: cast.history, refutation, snapshots, lines: Vec::new(), left_out: false };
    teller.step(last, &BTreeSet::new(), &BTreeMap::new(), 0);
    if teller.left_out {
        let text = format!("… the whole proof has {} steps; --certificate writes it out", last + 1);
        teller.lines.push(Line { depth: 0, text });
    }
    teller.lines
}

struct Teller<'a> {
    cast: &'a Cast<'a>,
    history: &'a History,
    refutation: &'a Refutation,
    snapshots: &'a dyn Fn(TxnId) -> bool,
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
        // What several steps imply together is told by the one that closes it.
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
        let sentence = self.reason(&step.reason);
        let ends = if open.is_empty() && !matches!(step.reason, Reason::Cycle(_)) {
            ": neither is left"
        } else {
            ""
        };
        self.say(depth, format!("{sentence}{ends}."));
        for literal in open {
            self.say(depth, format!("If {}:", self.literal(literal)));
            let mut deeper = assumed.clone();
            deeper.insert(literal);
            match excluded.get(&literal) {
                Some(&by) => self.step(by, &deeper, &excluded, depth + 1),
                None => self.left_out = true,
            }
        }
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
        self.cast.name(t)
    }

    fn of(&self, op: OpId) -> String {
        self.name(self.history.txn_of(op))
    }

    fn key(&self, op: OpId) -> String {
        clean(&self.history.show_key(self.history.op(op).key).to_string())
    }

    fn value(&self, op: OpId) -> String {
        clean(&self.history.show(self.history.op(op).value).to_string())
    }

    fn point(&self, point: Point) -> String {
        match point {
            _ if !(self.snapshots)(point.txn()) => self.name(point.txn()),
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

    fn reason(&self, reason: &Reason) -> String {
        match reason {
            Reason::Cycle(points) => {
                let mut around: Vec<String> = points.iter().map(|&p| self.point(p)).collect();
                around.extend(around.first().cloned());
                format!("That is a cycle: {}", around.join(" → "))
            }
            Reason::Axiom { read, write, other, .. } => {
                let source = match write {
                    Some(write) => format!("from {}", self.of(*write)),
                    None => "as it was initially".to_owned(),
                };
                let did = match self.history.op(*other).kind {
                    OpKind::Append => "also appended to",
                    _ => "also wrote",
                };
                format!(
                    "{} read {} = {} {source}; {} {did} {}",
                    self.of(*read),
                    self.key(*read),
                    self.value(*read),
                    self.of(*other),
                    self.key(*other)
                )
            }
            Reason::Conflict { first, second } => format!(
                "{} and {} both wrote {}, so one committed before the other took its snapshot",
                self.of(*first),
                self.of(*second),
                self.key(*first)
            ),
            Reason::Version { read, first, second } => format!(
                "{} read {} = {}, which puts {} of {} before {} of {}",
                self.of(*read),
                self.key(*read),
                self.value(*read),
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
                "{} read {} = {} and {}, and would have to repeat its reads",
                self.of(*first),
                self.key(*first),
                self.value(*first),
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
            Reason::Source { read, .. } => format!(
                "{} read {} = {}, which several transactions wrote",
                self.of(*read),
                self.key(*read),
                self.value(*read)
            ),
            Reason::Observed(c) => {
                format!("{} read what {} wrote, so it took effect", self.of(c.read), self.source(*c))
            }
            Reason::Intermediate(c) => {
                format!(
                    "{} wrote {} again, so {} cannot have read that",
                    self.source(*c),
                    self.key(c.read),
                    self.of(c.read)
                )
            }
            Reason::Impossible { read } => format!(
                "Nothing explains that {} read {} = {}, so it cannot have taken effect",
                self.of(*read),
                self.key(*read),
                self.value(*read)
            ),
            Reason::Implied(_) => String::new(),
        }
    }
}
