//! What a run shows: the engine's verdict, and every pair of transactions that depend on each other, by
//! IsoRel's names.
//!
//! The verdict is that of `anomalist-check` for the level, on the history of `mapping.rs`. It names Adya's
//! phenomena, and one example each. IsoRel tells more of them apart (section 2.4), by the kinds of the two
//! dependencies that close a cycle between two transactions, and whether they are about the same row:
//!
//! | T1 → T2, T2 → T1 | same row | different rows |
//! |---|---|---|
//! | `rw`, `ww` | lost update | read-write skew |
//! | `rw`, `wr` | non-repeatable read | read skew |
//! | `rw`, `rw` | (is also a lost update) | write skew |
//! | `ww`, `wr` and both `wr` | circular information flow (G1c) | the same |
//! | `ww`, `ww` | dirty write (G0) | the same |
//!
//! The first four are G-single, write skew is G2-item. With an `rw` through a predicate (`rwp`,
//! `predicate`) instead of a row, the cycle with one of them is a predicate read skew (G-single), that
//! with two a predicate write skew (G2, a phantom). An intermediate read is G1b, and no non-repeatable one
//! as well; an aborted read is G1a; both come from the engine, and so do longer cycles: with adjacent `rw`
//! they are write skew too, others go by their Adya codes. The pairs are read off the very dependencies that
//! the engine's graph is made of.

mod name;

pub use name::Name;

use crate::Flavour;
use crate::instrument::Effect;
use crate::mapping::{Mapped, Reads, map};
use crate::predicate::{Decided, Direction, PredicateLink, Unseen};
use crate::record::{Run, Step};
use crate::vendor::Promise;
use anomalist::Basis;
use anomalist_check::{Analyser, Budget, Dependency, ExtraEdge, dependencies};
use anomalist_history::{History, Index, Indexed, OpKind, TooLarge};
use anomalist_level::{Anomaly, AnomalyKind, Edge, Judgement, Level, Node, Relation, Verdict, Why, Witness};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

/// A dependency between two transactions of a run, about a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Link {
    /// Place of the first transaction in the run.
    pub from: usize,
    /// Place of the second.
    pub to: usize,
    /// `ww`, `wr` or `rw`.
    pub relation: Relation,
    /// The row.
    pub row: String,
    /// Place of the first transaction's statement.
    pub first: usize,
    /// Place of the second transaction's statement.
    pub second: usize,
}

/// An instance of an anomaly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Which.
    pub name: Name,
    /// The cycle, or the one dependency of a read that is wrong by itself.
    pub links: Vec<Link>,
    /// The transactions, by place in the run.
    pub transactions: Vec<usize>,
    /// What makes two instances the same: the kinds of the statements involved, in order.
    pub shape: String,
}

/// What a run shows.
pub struct Judged {
    /// The engine's verdict for Adya's level.
    pub verdict: Verdict,
    /// Its verdicts for the other levels that were asked about, in that order.
    pub required: Vec<Verdict>,
    /// How often each anomaly occurs.
    pub counts: BTreeMap<Name, u64>,
    /// One instance of every shape, in order of name and shape, with the number of instances.
    pub examples: Vec<(Found, u64)>,
    /// All dependencies.
    pub links: Vec<Link>,
    /// Statements of which dependencies through predicates may be missing, by reason.
    pub unseen: BTreeMap<Unseen, usize>,
}

/// Kinds of cycles that rest on dependencies alone.
const CYCLES: [AnomalyKind; 8] = [
    AnomalyKind::G0,
    AnomalyKind::G1c,
    AnomalyKind::GSingleItem,
    AnomalyKind::GNonadjacentItem,
    AnomalyKind::G2Item,
    AnomalyKind::GSingle,
    AnomalyKind::GNonadjacent,
    AnomalyKind::G2,
];

/// Judges a run, with what was decided of its dependencies through predicates, at Adya's level of the
/// promise, and at others. Anomalies are named for the first.
pub fn judge(
    flavour: Flavour,
    (run, decided): (&Run, &Decided),
    promise: &Promise,
    others: &[Level],
    budget: &Budget<'_>,
) -> Result<Judged, anomalist::Error> {
    // At SERIALIZABLE nothing excuses a cycle; below, a locking read sees more than the snapshot by design.
    let excused = promise.adya != Level::Serializable;
    let all = map(run, Reads::All)?;
    let all_indexed = Indexed::new(all.history.transactions(), NonZeroUsize::MIN);
    let mut links = links(run, &all, &dependencies(&all_indexed));
    let through = &decided.links;
    links.extend(through.iter().map(by_predicate));
    let mut found = pairs(run, &links, excused);
    let narrowed;
    let locking = |s: &Step| s.effect == Effect::LockingRead;
    let mapped = match excused && run.transactions.iter().any(|t| t.steps.iter().any(locking)) {
        true => {
            narrowed = map(run, Reads::Snapshot)?;
            &narrowed
        }
        false => &all,
    };
    let snapshot: Vec<PredicateLink> = match excused {
        true => through.iter().filter(|link| !is_current(flavour, run, link.reader)).cloned().collect(),
        false => through.clone(),
    };
    let given = Given::new(mapped, &snapshot);
    let spent = || budget.is_spent();
    let judgement = engine(mapped, &given, &[promise.adya], &[], &spent)?;
    let verdict = verdict_of(&judgement, promise.adya);
    // The engine does not look for what the level allows unless it is asked to.
    let all_kinds = CYCLES.into_iter().chain([AnomalyKind::AbortedRead, AnomalyKind::IntermediateRead]);
    let allowed: Vec<AnomalyKind> = all_kinds.filter(|kind| !promise.adya.forbids(*kind)).collect();
    let beyond = engine(mapped, &given, &[Level::Serializable], &allowed, &spent)?;
    let mut further = Vec::new();
    for anomaly in judgement.anomalies.iter().chain(&beyond.anomalies) {
        let one = (instance(run, mapped, &links, anomaly), anomaly.count);
        match one.0.name {
            Name::AbortedRead | Name::IntermediateRead => found.push(one),
            // The cycles of two transactions are among the pairs.
            _ if CYCLES.contains(&anomaly.kind) && ends(anomaly) > 2 => found.push(one),
            _ if promise.adya.forbids(anomaly.kind) => further.push(one),
            _ => {}
        }
    }
    // Other anomalies follow from the cycles; they are reported if there is no forbidden cycle.
    if verdict == Verdict::Violated && !found.iter().any(|(f, _)| f.name.is_forbidden_by(promise.adya)) {
        found.extend(further);
    }
    let mut required = Vec::new();
    if !others.is_empty() {
        let judgement = engine(&all, &Given::new(&all, through), others, &[], &spent)?;
        required.extend(others.iter().map(|&level| verdict_of(&judgement, level)));
    }
    let (counts, examples) = by_shape(run, found);
    Ok(Judged { verdict, required, counts, examples, links, unseen: decided.unseen.clone() })
}

/// Whether a statement reads what is there now, in a transaction whose plain reads have a snapshot: locking
/// reads, and with MySQL's kin statements that write.
fn is_current(flavour: Flavour, run: &Run, (txn, step): (usize, usize)) -> bool {
    let steps = &run.transactions[txn].steps;
    let current = match steps[step].effect {
        Effect::Read | Effect::None => false,
        Effect::LockingRead => true,
        Effect::Insert { .. } | Effect::Update | Effect::Delete | Effect::Replace => flavour.is_mysql(),
    };
    current && steps.iter().any(|s| s.effect == Effect::Read)
}

/// How many transactions, the initial state included, the edges of an anomaly connect.
fn ends(anomaly: &Anomaly) -> usize {
    anomaly.witness.edges.iter().flat_map(|e| [e.from, e.to]).collect::<BTreeSet<_>>().len()
}

/// An anomaly of the engine, by IsoRel's name and with the statements of the run.
fn instance(run: &Run, mapped: &Mapped, links: &[Link], anomaly: &Anomaly) -> Found {
    let name = match anomaly.kind {
        AnomalyKind::AbortedRead => Name::AbortedRead,
        AnomalyKind::IntermediateRead => Name::IntermediateRead,
        AnomalyKind::G2Item => Name::WriteSkew,
        AnomalyKind::G2 => Name::PredicateWriteSkew,
        kind => Name::Other(kind),
    };
    let transactions = anomaly.witness.transactions.iter().map(|&t| mapped.place(t)).collect();
    let cycle = cycle(mapped, links, &anomaly.witness);
    let shape = match (&cycle[..], ends(anomaly)) {
        ([], 0) => anomaly.kind.code().to_owned(),
        ([], n) => format!("{} of {n} transactions", anomaly.kind.code()),
        _ => shape(run, &cycle),
    };
    Found { name, links: cycle, transactions, shape }
}

/// How often each anomaly occurs, and for each of its shapes the instance with the fewest statements and the
/// number of instances.
fn by_shape(run: &Run, found: Vec<(Found, u64)>) -> (BTreeMap<Name, u64>, Vec<(Found, u64)>) {
    let size = |f: &Found| f.transactions.iter().map(|&t| run.transactions[t].steps.len()).sum::<usize>();
    let mut counts: BTreeMap<Name, u64> = BTreeMap::new();
    let mut examples: BTreeMap<(Name, String), (Found, u64)> = BTreeMap::new();
    for (one, count) in found {
        *counts.entry(one.name).or_default() += count;
        let key = (one.name, one.shape.clone());
        let kept = examples.entry(key).or_insert_with(|| (one.clone(), 0));
        if size(&one) < size(&kept.0) {
            kept.0 = one;
        }
        kept.1 += count;
    }
    (counts, examples.into_values().collect())
}

fn by_predicate(link: &PredicateLink) -> Link {
    let (first, second, relation) = match link.direction {
        Direction::Anti => (link.reader, link.writer, Relation::PredicateAntiDependency),
        Direction::Read => (link.writer, link.reader, Relation::WriteRead),
    };
    Link { from: first.0, to: second.0, relation, row: link.row.clone(), first: first.1, second: second.1 }
}

/// Dependencies through predicates, for the engine.
struct Given(Vec<ExtraEdge>);

impl Given {
    fn new(mapped: &Mapped, links: &[PredicateLink]) -> Given {
        let edge = |link: &PredicateLink| {
            let Link { from, to, relation, row, .. } = by_predicate(link);
            let reason = match link.direction {
                Direction::Anti => format!("a later version of {row} would change what its statement found"),
                Direction::Read => format!("a version of {row} changed what the statement found"),
            };
            let (from, to) = (mapped.txn(from)?, mapped.txn(to)?);
            Some(ExtraEdge { from, to, relation, reason: reason.into(), operations: Vec::new() })
        };
        Given(links.iter().filter_map(edge).collect())
    }
}

impl Analyser for Given {
    fn edges(&self, _: &History, _: &Index, add: &mut dyn FnMut(ExtraEdge)) {
        self.0.iter().cloned().for_each(add);
    }
}

/// The edges of a witness as dependencies of the run; of an aborted or intermediate read, the one that it
/// is. Nothing if one of them is no dependency of its own.
fn cycle(mapped: &Mapped, links: &[Link], witness: &Witness) -> Vec<Link> {
    let place = |node: Node| match node {
        Node::Txn(txn) => Some(mapped.place(txn)),
        Node::Initial => None,
    };
    let link = |edge: &Edge| {
        let (from, to) = (place(edge.from)?, place(edge.to)?);
        let mut between = links.iter().filter(|l| (l.from, l.to) == (from, to));
        let first = between.clone().next();
        // What a statement that writes returned is a read to the engine; here it is the order of versions.
        between.find(|l| l.relation == edge.relation).or(first).cloned()
    };
    if !witness.edges.is_empty() {
        return witness.edges.iter().map(link).collect::<Option<Vec<Link>>>().unwrap_or_default();
    }
    let of = |kind: OpKind| {
        let op = witness.operations.iter().find(|op| mapped.history.transactions().op(**op).kind == kind)?;
        Some((mapped.statement(*op), mapped.history.transactions().op(*op).key))
    };
    match (of(OpKind::Append), of(OpKind::Read)) {
        (Some(((from, first), _)), Some(((to, second), key))) if from != to => {
            let row = mapped.history.transactions().show_key(key).raw().to_string();
            vec![Link { from, to, relation: Relation::WriteRead, row, first, second }]
        }
        _ => Vec::new(),
    }
}

/// Decides levels of a mapped run, with the dependencies through predicates.
fn engine(
    mapped: &Mapped,
    given: &Given,
    levels: &[Level],
    anomalies: &[AnomalyKind],
    spent: &(dyn Fn() -> bool + Sync),
) -> Result<Judgement, anomalist::Error> {
    let check = anomalist::check(&mapped.history).by(Basis::Values).threads(NonZeroUsize::MIN);
    let check = levels.iter().fold(check, |check, &level| check.decide(level));
    let check = anomalies.iter().fold(check, |check, &kind| check.anomaly(kind));
    Ok(check.with(given).stop_when(spent).run()?.into_found().judgement)
}

fn verdict_of(judgement: &Judgement, level: Level) -> Verdict {
    let unasked = || Verdict::Unknown(Why::NotDecided);
    judgement.verdict(level).cloned().unwrap_or_else(unasked)
}

/// The dependencies of a run, as the engine sees them.
pub fn dependencies_of(run: &Run) -> Result<Vec<Link>, TooLarge> {
    let mapped = map(run, Reads::All)?;
    let indexed = Indexed::new(mapped.history.transactions(), NonZeroUsize::MIN);
    Ok(links(run, &mapped, &dependencies(&indexed)))
}

/// The names of all anomalies between two transactions, whatever excuses there are.
pub fn pairs_of(run: &Run, links: &[Link]) -> BTreeSet<Name> {
    pairs(run, links, false).into_iter().map(|(found, _)| found.name).collect()
}

/// What a statement that writes returned shows the order of versions, and is no read.
fn links(run: &Run, mapped: &Mapped, dependencies: &[Dependency]) -> Vec<Link> {
    let by_query = |op| {
        let (txn, step) = mapped.statement(op);
        matches!(run.transactions[txn].steps[step].effect, Effect::Read | Effect::LockingRead)
    };
    let read = |d: &&Dependency| match d.relation {
        Relation::AntiDependency => by_query(d.first),
        Relation::WriteRead => by_query(d.second),
        _ => true,
    };
    let link = |d: &Dependency| Link {
        from: mapped.place(d.from),
        to: mapped.place(d.to),
        relation: d.relation,
        row: mapped.history.transactions().show_key(d.key).raw().to_string(),
        first: mapped.statement(d.first).1,
        second: mapped.statement(d.second).1,
    };
    dependencies.iter().filter(read).map(link).collect()
}

/// Every pair of transactions that depend on each other, once per name.
fn pairs(run: &Run, links: &[Link], excused: bool) -> Vec<(Found, u64)> {
    let mut between: BTreeMap<(usize, usize), Vec<&Link>> = BTreeMap::new();
    for link in links {
        between.entry((link.from, link.to)).or_default().push(link);
    }
    let mut found = Vec::new();
    for (&(a, b), there) in between.iter().filter(|((a, b), _)| a < b) {
        let Some(back) = between.get(&(b, a)) else { continue };
        let mut names: BTreeSet<Name> = BTreeSet::new();
        for x in there {
            for y in back {
                let Some(name) = classify(x, y) else { continue };
                if name == Name::NonRepeatableRead && is_intermediate(run, x, y) {
                    continue;
                }
                let read = |l: &Link| run.transactions[l.to].steps[l.second].effect;
                // A statement that writes reads by its condition, and that is of what is there now.
                let current = |l: &Link| l.relation == Relation::WriteRead && read(l) != Effect::Read;
                if excused
                    && matches!(name, Name::NonRepeatableRead | Name::ReadSkew | Name::PredicateReadSkew)
                    && (current(x) || current(y))
                {
                    continue;
                }
                if names.insert(name) {
                    let cycle = vec![(*x).clone(), (*y).clone()];
                    let shape = shape(run, &cycle);
                    found.push((Found { name, links: cycle, transactions: vec![a, b], shape }, 1));
                }
            }
        }
    }
    found
}

/// Whether both dependencies are of one read of one version: one that its writer overwrote itself, which is
/// an intermediate read.
fn is_intermediate(run: &Run, x: &Link, y: &Link) -> bool {
    let (read, overwritten) = if x.relation == Relation::WriteRead { (x, y) } else { (y, x) };
    let step = &run.transactions[read.to].steps[read.second];
    let versions = step.rows.iter().filter(|v| *v.row == *read.row).count();
    read.second == overwritten.first && versions == 1
}

fn classify(x: &Link, y: &Link) -> Option<Name> {
    use Relation::{
        AntiDependency as Rw, PredicateAntiDependency as Rwp, VersionOrder as Ww, WriteRead as Wr,
    };
    let same = x.row == y.row;
    match (x.relation, y.relation) {
        (Ww, Ww) => Some(Name::DirtyWrite),
        (Rw, Rw) => (!same).then_some(Name::WriteSkew),
        (Rw, Ww) | (Ww, Rw) => Some(if same { Name::LostUpdate } else { Name::ReadWriteSkew }),
        (Rw, Wr) | (Wr, Rw) => Some(if same { Name::NonRepeatableRead } else { Name::ReadSkew }),
        (Ww | Wr, Ww | Wr) => Some(Name::CircularFlow),
        (Rwp, Rw | Rwp) | (Rw, Rwp) => Some(Name::PredicateWriteSkew),
        (Rwp, Ww | Wr) | (Ww | Wr, Rwp) => Some(Name::PredicateReadSkew),
        _ => None,
    }
}

/// The kinds of the statements of a cycle, transaction by transaction, whichever of them comes first.
fn shape(run: &Run, links: &[Link]) -> String {
    let mut steps: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for link in links {
        steps.entry(link.from).or_default().insert(link.first);
        steps.entry(link.to).or_default().insert(link.second);
    }
    let verb = |t: usize, s: &usize| verb(run.transactions[t].steps[*s].effect);
    let mut parts: Vec<String> = steps
        .iter()
        .map(|(&t, steps)| steps.iter().map(|s| verb(t, s)).collect::<Vec<_>>().join(" "))
        .collect();
    parts.sort();
    parts.join(" | ")
}

/// The word for what a statement does.
pub fn verb(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "SELECT",
        Effect::LockingRead => "SELECT-FOR-UPDATE",
        Effect::Insert { upsert: false } => "INSERT",
        Effect::Insert { upsert: true } => "UPSERT",
        Effect::Update => "UPDATE",
        Effect::Delete => "DELETE",
        Effect::Replace => "REPLACE",
        Effect::None => "-",
    }
}
