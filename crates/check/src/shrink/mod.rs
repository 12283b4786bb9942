//! The smallest part of a history that still violates a level.
//!
//! First the history is cut down to what the witness or the refutation names; then delta debugging (Zeller
//! & Hildebrandt 2002) takes away sessions, transactions, keys and single operations, as long as anything
//! can go: in the end no single transaction or operation can. Every probe is a check of what is left.
//!
//! Taking away must not invent a violation. A read goes when any write goes that may explain it, so that
//! what remains has all its explanations; elements of lists go with their append (if others appended the
//! same element, the read goes). Then an execution that explains the whole, with what is gone left out,
//! explains the part: if the part violates the level, so does the whole. Initial values are the initial
//! state's and stay.
//!
//! Costs: linear for the cut; then, for `q` transactions that it leaves, O(q²) checks of at most that size
//! (usually q log q). When the budget ends, the best so far is the answer.

mod ddmin;
mod parts;
mod tighten;

pub use tighten::tighten;

use crate::{Budget, Request, check};
use anomalist_history::{History, IdMap, Indexed, OpId, TxnId};
use anomalist_level::{Anomaly, AnomalyKind, Certificate, Definitions, Judgement, Level, Verdict};
use ddmin::{Outcome, minimise};
use parts::{Mask, Values};
use std::num::NonZeroUsize;

/// What a history violates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// A level.
    Level(Level),
    /// The levels that its transactions declare, each its own.
    Declared,
}

impl std::fmt::Display for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Promise::Level(level) => level.fmt(f),
            Promise::Declared => f.write_str("the levels that transactions declare"),
        }
    }
}

impl Promise {
    /// What was found out about it.
    fn verdict(self, judgement: &Judgement) -> Option<&Verdict> {
        match self {
            Promise::Level(level) => judgement.verdict(level),
            Promise::Declared => judgement.mixed.as_ref().map(|mixed| &mixed.verdict),
        }
    }
}

/// What to keep while shrinking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Goal {
    /// This stays violated.
    pub violates: Promise,
    /// An anomaly of this kind stays.
    pub anomaly: Option<AnomalyKind>,
}

impl Goal {
    /// To keep a level violated.
    pub fn level(level: Level) -> Goal {
        Goal { violates: Promise::Level(level), anomaly: None }
    }

    /// Whether an anomaly is of the kind, or the shape, that stays.
    fn wants(self, history: &History, anomaly: &Anomaly) -> bool {
        self.anomaly.is_none_or(|kind| anomaly.kind == kind || anomaly.pattern(history) == Some(kind))
    }
}

/// A history shrunk.
#[derive(Debug)]
pub struct Shrunk {
    /// What is left.
    pub history: History,
    /// Which transactions and operations of the original these are.
    pub origin: IdMap,
    /// What was found out about it.
    pub judgement: Judgement,
    /// No single transaction or operation can go. False if the budget ended before that was known.
    pub minimal: bool,
    /// Checks made.
    pub probes: u64,
}

/// Why a history cannot be shrunk.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NothingToShrink {
    /// The level is not violated, as far as could be decided.
    NotViolated(Option<Verdict>),
    /// The history does not have the anomaly.
    NoSuchAnomaly,
}

impl std::fmt::Display for NothingToShrink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NothingToShrink::NotViolated(Some(Verdict::Unknown(_))) => {
                f.write_str("it is not known whether the level is violated")
            }
            NothingToShrink::NotViolated(_) => f.write_str("the level is not violated"),
            NothingToShrink::NoSuchAnomaly => f.write_str("the history does not have this anomaly"),
        }
    }
}

impl std::error::Error for NothingToShrink {}

/// Shrinks a history.
///
/// ```
/// use anomalist_check::{Budget, shrink::{Goal, shrink}};
/// use anomalist_level::Level;
/// use anomalist_testkit::mini;
/// let history = mini::history("w(z,1); w(x,1) w(y,1) r(z,1); r(z,1) || r(z,1) r(x,0) r(y,1); w(z,2)");
/// let goal = Goal::level(Level::ReadAtomic);
/// let shrunk = shrink(&history, goal, &Budget::unlimited()).unwrap();
/// assert!(shrunk.minimal);
/// assert_eq!(mini::print(&shrunk.history), "w(x,1) w(y,1) || r(x,0) r(y,1)");
/// ```
pub fn shrink(history: &History, goal: Goal, budget: &Budget<'_>) -> Result<Shrunk, NothingToShrink> {
    let definitions = Definitions::default();
    let mut shrinker = Shrinker { goal, definitions, budget, probes: 0, ends: false };
    let judgement = shrinker.judge(history);
    shrinker.from(history, judgement)
}

/// What is left of the history; `None`: all of it.
struct Part {
    origin: IdMap,
    judgement: Judgement,
    owned: Option<History>,
}

struct Shrinker<'a, 'b> {
    goal: Goal,
    /// By which the part still violates what the whole does.
    definitions: Definitions,
    budget: &'a Budget<'b>,
    probes: u64,
    /// Lists keep their last elements, or go.
    ends: bool,
}

impl Shrinker<'_, '_> {
    /// Shrinks a history of which the judgement, with its proofs, is known.
    fn from(self, history: &History, judgement: Judgement) -> Result<Shrunk, NothingToShrink> {
        let goal = self.goal;
        let verdict = goal.violates.verdict(&judgement);
        if verdict != Some(&Verdict::Violated) {
            return Err(NothingToShrink::NotViolated(verdict.cloned()));
        }
        if !self.shows(history, &judgement) {
            return Err(NothingToShrink::NoSuchAnomaly);
        }
        let origin =
            IdMap { txns: history.txns().collect(), ops: (0..history.op_count() as u32).map(OpId).collect() };
        let whole = Part { origin, judgement, owned: None };
        Ok(self.run(history, whole))
    }

    fn judge(&mut self, history: &History) -> Judgement {
        self.probes += 1;
        let indexed = Indexed::new(history, NonZeroUsize::MIN);
        let levels = match self.goal.violates {
            Promise::Level(level) => vec![level],
            // It costs least.
            Promise::Declared => vec![Level::ReadUncommitted],
        };
        let definitions = self.definitions;
        let mut request = Request { levels, certificates: true, definitions, ..Request::default() };
        let judgement = check(&indexed, &request, self.budget);
        let Some(kind) = self.goal.anomaly.filter(|_| !self.shows(history, &judgement)) else {
            return judgement;
        };
        // The smallest cycle may not be of the shape that was asked for, though another is.
        request.anomalies = Some(vec![kind]);
        let other = check(&indexed, &request, self.budget);
        if self.shows(history, &other) { other } else { judgement }
    }

    fn shows(&self, history: &History, judgement: &Judgement) -> bool {
        self.goal.violates.verdict(judgement) == Some(&Verdict::Violated)
            && (self.goal.anomaly.is_none()
                || judgement.anomalies.iter().any(|a| self.goal.wants(history, a)))
    }

    fn run(mut self, history: &History, mut part: Part) -> Shrunk {
        let mut minimal = false;
        self.cut(history, &mut part);
        loop {
            let size = |part: &Part| {
                let h = part.owned.as_ref().unwrap_or(history);
                (h.txn_count(), h.op_count())
            };
            let before = size(&part);
            let mut finished = true;
            for units in [Units::Sessions, Units::Transactions, Units::Keys, Units::Operations] {
                finished &= self.pass(history, &mut part, units);
            }
            if size(&part) == before {
                minimal = finished;
                break;
            }
            if !finished {
                break;
            }
        }
        let Part { origin, judgement, owned } = part;
        let history = owned.unwrap_or_else(|| history.clone());
        Shrunk { history, origin, judgement, minimal, probes: self.probes }
    }

    /// Cuts down to what the proof names: its operations, else all of its transactions.
    fn cut(&mut self, history: &History, part: &mut Part) {
        let (txns, ops) = named(history, &part.judgement, self.goal);
        for only_ops in [true, false] {
            let mut mask = Mask::none(history);
            mask.keep_txns(&txns);
            match only_ops {
                true => mask.keep_ops(&ops),
                false => txns.iter().for_each(|&t| mask.keep_all_ops_of(history, t)),
            }
            if self.probe(history, part, &mask) {
                return;
            }
        }
    }

    /// Takes away as many of these units as possible. False if the budget ended.
    fn pass(&mut self, whole: &History, part: &mut Part, units: Units) -> bool {
        let history = part.owned.as_ref().unwrap_or(whole).clone();
        let groups = units.of(&history);
        let mut smaller: Option<Part> = None;
        let outcome = minimise(groups.len(), |kept| {
            if self.budget.is_spent() {
                return Err(crate::OutOfBudget);
            }
            let mut mask = Mask::all(&history);
            for (at, group) in groups.iter().enumerate() {
                if !kept[at] {
                    mask.remove(&history, group);
                }
            }
            let mut attempt =
                Part { origin: part.origin.clone(), judgement: Judgement::default(), owned: None };
            let shows = self.probe(&history, &mut attempt, &mask);
            if shows {
                smaller = Some(attempt);
            }
            Ok(shows)
        });
        if let Some(smaller) = smaller {
            *part = smaller;
        }
        outcome == Outcome::Minimal
    }

    /// Replaces the part by what the mask leaves of it, if that still shows what it should.
    fn probe(&mut self, history: &History, part: &mut Part, mask: &Mask) -> bool {
        let mut mask = mask.clone();
        mask.drop_unexplained(history, &Values::new(history), self.ends);
        let Ok((smaller, origin)) = history.filtered(&mask) else { return false };
        if smaller.txn_count() == 0 {
            return false;
        }
        let judgement = self.judge(&smaller);
        if !self.shows(&smaller, &judgement) {
            return false;
        }
        let origin = IdMap {
            txns: origin.txns.iter().map(|t| part.origin.txns[t.index()]).collect(),
            ops: origin.ops.iter().map(|op| part.origin.ops[op.index()]).collect(),
        };
        *part = Part { origin, judgement, owned: Some(smaller) };
        true
    }
}

/// What is taken away at a time.
#[derive(Clone, Copy)]
enum Units {
    Sessions,
    Transactions,
    Keys,
    Operations,
}

/// Transactions, and single operations of others.
#[derive(Default)]
struct Group {
    txns: Vec<TxnId>,
    ops: Vec<OpId>,
}

impl Units {
    fn of(self, history: &History) -> Vec<Group> {
        match self {
            Units::Sessions => {
                let txns = |s| Group { txns: history.session_txns(s).collect(), ops: Vec::new() };
                history.sessions().map(txns).collect()
            }
            Units::Transactions => history.txns().map(|t| Group { txns: vec![t], ops: Vec::new() }).collect(),
            Units::Keys => {
                let mut groups: Vec<Group> = history.keys().map(|_| Group::default()).collect();
                for (i, head) in history.heads().iter().enumerate() {
                    groups[head.key().index()].ops.push(OpId(i as u32));
                }
                groups
            }
            Units::Operations => {
                let one = |i| Group { txns: Vec::new(), ops: vec![OpId(i as u32)] };
                (0..history.op_count()).map(one).collect()
            }
        }
    }
}

/// The transactions and operations that the proof of the violation names.
fn named(history: &History, judgement: &Judgement, goal: Goal) -> (Vec<TxnId>, Vec<OpId>) {
    let (mut txns, mut ops) = (Vec::new(), Vec::new());
    if let (Promise::Declared, Some(mixed)) = (goal.violates, &judgement.mixed)
        && let Some(Certificate::Violated(refutation)) = &mixed.proof
    {
        return refutation.names(history);
    }
    let forbids = |kind: AnomalyKind| matches!(goal.violates, Promise::Level(level) if level.forbids(kind));
    let wanted = |a: &Anomaly| goal.wants(history, a) && forbids(a.kind);
    // The smallest is enough.
    let anomaly = judgement
        .anomalies
        .iter()
        .filter(|a| wanted(a))
        .min_by_key(|a| (a.witness.transactions.len(), a.witness.operations.len()));
    if let Some(anomaly) = anomaly {
        txns.extend(&anomaly.witness.transactions);
        ops.extend(&anomaly.witness.operations);
    }
    let edges = anomaly.is_some_and(|a| !a.witness.edges.is_empty());
    for (_, certificate) in judgement.certificates.iter().filter(|_| !edges) {
        let Certificate::Violated(refutation) = certificate else { continue };
        let (named_txns, named_ops) = refutation.names(history);
        txns.extend(named_txns);
        ops.extend(named_ops);
    }
    txns.extend(ops.iter().map(|&op| history.txn_of(op)));
    // A read of what is named needs its writers, or it goes; a session edge needs nothing more.
    txns.sort_unstable();
    txns.dedup();
    (txns, ops)
}
