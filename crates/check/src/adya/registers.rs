//! What is known about the order of a register's versions, and why.
//!
//! A read shows one version and nothing of its history, so little is certain: the initial state is first. More follows
//! only from assumptions, which the caller makes ([`Inference`]): that keys are written after what was read, that each key
//! by itself is sequential or linearizable, or that the order of transactions is known. Every fact keeps its reason. If
//! the facts about a key contradict each other, that is reported (`cyclic-versions`), and nothing more is concluded from
//! this key; the other keys stand. O(operations), with linearizable keys times their concurrency.

use crate::weak::Problem;
use crate::weak::witness::witness;
use isolde_graph::{Csr, Step, components, shortest_path};
use isolde_history::{KeyId, OpId, OpKind, Source, TxnId};
use isolde_level::{Anomaly, AnomalyKind, Edge, Evidence, Node, Relation, VersionReason};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What may be assumed about the versions of registers. By default nothing, and only the initial state's place is known.
///
/// A wrong assumption gives wrong answers, or shows itself as `cyclic-versions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inference {
    /// A transaction that reads a key and then writes it writes a later version.
    pub writes_follow_reads: bool,
    /// Each key by itself is sequentially consistent: no session goes back to an older version.
    pub sequential_keys: bool,
    /// Each key by itself is linearizable: nobody goes back to an older version than was seen or written before.
    pub linearizable_keys: bool,
    /// Versions are in the order of commit timestamps.
    pub commit_stamps: bool,
    /// Versions are in the order of these numbers, where both transactions have one.
    pub transaction_order: BTreeMap<TxnId, i64>,
}

impl Inference {
    fn is_none(&self) -> bool {
        *self == Inference::default()
    }
}

/// The writer of a version; none for the initial one.
pub(crate) type Version = Option<TxnId>;

/// Facts about versions of registers.
#[derive(Default)]
pub(crate) struct Registers {
    facts: FxHashMap<(KeyId, Version, TxnId), VersionReason>,
    /// The same, in order.
    pub list: Vec<(KeyId, Version, TxnId)>,
    /// The keys whose facts contradict each other.
    pub contradicted: Vec<KeyId>,
}

/// A fact as it is collected: the later version may turn out to be the initial one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Fact {
    key: KeyId,
    from: Version,
    to: Version,
    reason: VersionReason,
}

/// The first and last version of a key that a transaction touched.
#[derive(Clone, Copy)]
struct Touch {
    txn: TxnId,
    key: KeyId,
    first: (Version, OpId),
    last: (Version, OpId),
}

impl Registers {
    /// The facts under these assumptions, and the contradictions among them.
    pub fn new(problem: Problem<'_>, assumed: &Inference) -> (Registers, Option<Anomaly>) {
        let mut registers = Registers::default();
        if assumed.is_none() {
            return (registers, None);
        }
        let touches = touches(problem);
        let mut facts: Vec<Fact> = Vec::new();
        if assumed.writes_follow_reads {
            facts.extend(touches.iter().filter(|t| t.first.0 != Some(t.txn)).map(|t| Fact {
                key: t.key,
                from: t.first.0,
                to: t.last.0,
                reason: VersionReason::ReadThenWritten { read: t.first.1 },
            }));
        }
        if assumed.sequential_keys {
            sequential(problem, &touches, &mut facts);
        }
        if assumed.linearizable_keys {
            linearizable(problem, &touches, &mut facts);
        }
        given(problem, assumed, &mut facts);
        facts.retain(|f| f.from != f.to);
        facts.sort_unstable();
        facts.dedup_by_key(|f| (f.key, f.from, f.to));
        let mut anomaly: Option<Anomaly> = None;
        for key_facts in facts.chunk_by(|a, b| a.key == b.key) {
            match contradiction(key_facts) {
                None => registers.accept(key_facts),
                Some(cycle) => {
                    registers.contradicted.push(key_facts[0].key);
                    let edges = cycle.iter().map(|f| edge(problem, f)).collect();
                    let shorter = anomaly.as_ref().is_none_or(|a| a.witness.edges.len() > cycle.len());
                    let count = anomaly.as_ref().map_or(0, |a| a.count) + 1;
                    if shorter {
                        anomaly = Some(Anomaly {
                            kind: AnomalyKind::CyclicVersions,
                            count,
                            witness: witness(problem, edges),
                        });
                    } else if let Some(a) = &mut anomaly {
                        a.count = count;
                    }
                }
            }
        }
        (registers, anomaly)
    }

    fn accept(&mut self, facts: &[Fact]) {
        for f in facts {
            if let Some(to) = f.to {
                self.facts.insert((f.key, f.from, to), f.reason);
                self.list.push((f.key, f.from, to));
            }
        }
    }

    /// Why one version is before another, if that is known directly.
    pub fn reason(&self, key: KeyId, from: Version, to: TxnId) -> Option<VersionReason> {
        let assumed = self.facts.get(&(key, from, to)).copied();
        assumed.or_else(|| from.is_none().then_some(VersionReason::Initial))
    }

    /// True if the facts put all writers of a key in one order.
    pub fn is_total(&self, problem: Problem<'_>, key: KeyId) -> bool {
        let writers = problem.index.writers(key);
        if writers.len() < 2 {
            return true;
        }
        let place = |t: TxnId| writers.binary_search(&t).unwrap_or(0) as u32;
        let known = || {
            let pairs = writers.iter().flat_map(|&a| writers.iter().map(move |&b| (a, b)));
            pairs.filter(|&(a, b)| self.facts.contains_key(&(key, Some(a), b)))
        };
        // Only keys with facts are looked at, and only if there are enough of them to be total.
        if self.facts.len() + 1 < writers.len() || writers.len() > 4096 {
            return false;
        }
        let graph = Csr::from_edges(writers.len(), || known().map(|(a, b)| (place(a), place(b))));
        let order = components(&graph).topological();
        order.windows(2).all(|w| graph.successors(w[0]).contains(&w[1]))
    }
}

/// What every committed transaction touched, in the order of transactions.
fn touches(problem: Problem<'_>) -> Vec<Touch> {
    let Problem { history, index, .. } = problem;
    let mut touches: Vec<Touch> = Vec::new();
    for txn in problem.committed() {
        let begin = touches.len();
        for (op, o) in history.ops(txn) {
            let version = match (o.kind, index.source(op)) {
                (OpKind::Write, _) => Some(txn),
                (OpKind::Read, Source::From(w)) if history.list(o.value).is_none() => Some(w),
                (OpKind::Read, Source::Initial) if history.list(o.value).is_none() => None,
                _ => continue,
            };
            match touches[begin..].iter_mut().find(|t| t.key == o.key) {
                None => touches.push(Touch { txn, key: o.key, first: (version, op), last: (version, op) }),
                Some(touch) if o.kind == OpKind::Write => touch.last = (version, op),
                Some(_) => {}
            }
        }
    }
    touches
}

fn sequential(problem: Problem<'_>, touches: &[Touch], facts: &mut Vec<Fact>) {
    let session = |t: &Touch| problem.history.session_of(t.txn);
    for mine in touches.chunk_by(|a, b| session(a) == session(b)) {
        let mut last: FxHashMap<KeyId, (Version, OpId)> = FxHashMap::default();
        for touch in mine {
            if let Some((from, before)) = last.insert(touch.key, touch.last) {
                let reason = VersionReason::Session { before, after: touch.first.1 };
                facts.push(Fact { key: touch.key, from, to: touch.first.0, reason });
            }
        }
    }
}

fn linearizable(problem: Problem<'_>, touches: &[Touch], facts: &mut Vec<Fact>) {
    let Some(intervals) = problem.history.intervals() else { return };
    let began = |t: &Touch| intervals[t.txn.index()].invoked;
    let ended = |t: &Touch| match problem.history.outcome(t.txn) {
        isolde_history::Outcome::Committed => intervals[t.txn.index()].completed,
        _ => None,
    };
    let mut by_key: Vec<&Touch> = touches.iter().collect();
    by_key.sort_by_key(|t| (t.key, began(t)));
    for begun in by_key.chunk_by(|a, b| a.key == b.key) {
        let mut done: Vec<(u64, &Touch)> = begun.iter().filter_map(|t| Some((ended(t)?, *t))).collect();
        done.sort_by_key(|(end, t)| (*end, t.txn));
        let (mut frontier, mut next): (Vec<(u64, &Touch)>, usize) = (Vec::new(), 0);
        for touch in begun {
            while let Some(&(end, earlier)) = done.get(next)
                && end < began(touch)
            {
                frontier.retain(|&(other_end, _)| other_end >= began(earlier));
                frontier.push((end, earlier));
                next += 1;
            }
            facts.extend(frontier.iter().map(|&(_, earlier)| Fact {
                key: touch.key,
                from: earlier.last.0,
                to: touch.first.0,
                reason: VersionReason::RealTime { before: earlier.last.1, after: touch.first.1 },
            }));
        }
    }
}

/// Orders of transactions that are simply given.
fn given(problem: Problem<'_>, assumed: &Inference, facts: &mut Vec<Fact>) {
    let stamps = problem.history.stamps().filter(|_| assumed.commit_stamps);
    if assumed.transaction_order.is_empty() && stamps.is_none() {
        return;
    }
    let registers = |&key: &KeyId| {
        let wrote = |t: &TxnId| problem.history.ops(*t).any(|(_, o)| o.key == key && o.kind == OpKind::Write);
        problem.index.writers(key).first().is_some_and(wrote)
    };
    for key in problem.history.keys().filter(registers) {
        let writers = problem.index.writers(key);
        let mut ranked: Vec<(i64, TxnId)> =
            writers.iter().filter_map(|&t| Some((*assumed.transaction_order.get(&t)?, t))).collect();
        ranked.sort_unstable();
        let mut chain = |pair: [TxnId; 2], reason| {
            facts.push(Fact { key, from: Some(pair[0]), to: Some(pair[1]), reason });
        };
        for pair in ranked.windows(2).filter(|p| p[0].0 < p[1].0) {
            chain([pair[0].1, pair[1].1], VersionReason::Given);
        }
        if let Some(stamps) = stamps {
            let mut stamped: Vec<_> = writers.iter().map(|&t| (stamps[t.index()].commit, t)).collect();
            stamped.sort_unstable();
            for pair in stamped.windows(2).filter(|p| p[0].0 < p[1].0) {
                chain([pair[0].1, pair[1].1], VersionReason::Stamps);
            }
        }
    }
}

/// The shortest cycle of a key's facts; that the initial version is first is one of them.
fn contradiction(facts: &[Fact]) -> Option<Vec<Fact>> {
    let mut versions: Vec<Version> = facts.iter().flat_map(|f| [f.from, f.to]).chain([None]).collect();
    versions.sort_unstable();
    versions.dedup();
    let place = |v: Version| versions.binary_search(&v).unwrap_or(0) as u32;
    let initial = facts.iter().filter_map(|f| f.to).map(|to| Fact {
        key: facts[0].key,
        from: None,
        to: Some(to),
        reason: VersionReason::Initial,
    });
    // A fact into the initial version contradicts that every write follows it.
    let stale = facts.iter().filter(|f| f.to.is_none()).filter_map(|f| f.from).map(|from| Fact {
        key: facts[0].key,
        from: None,
        to: Some(from),
        reason: VersionReason::Initial,
    });
    let all: Vec<Fact> = facts.iter().copied().chain(initial).chain(stale).collect();
    let graph = Csr::from_edges(versions.len(), || all.iter().map(|f| (place(f.from), place(f.to))));
    let found = components(&graph);
    if found.cyclic_count() == 0 {
        return None;
    }
    let starts = (0..versions.len() as u32).filter(|&v| found.is_cyclic(v)).take(64);
    let expand = |node: u32, offer: &mut dyn FnMut(Step<Fact>)| {
        for f in all.iter().filter(|f| place(f.from) == node) {
            offer(Step { to: place(f.to), label: *f, mergeable: false });
        }
    };
    let cycles = starts.filter_map(|v| shortest_path(v, v, expand, || false));
    cycles.min_by_key(Vec::len).map(|steps| steps.into_iter().map(|(_, step)| step.label).collect())
}

fn edge(problem: Problem<'_>, fact: &Fact) -> Edge {
    let node = |v: Version| v.map_or(Node::Initial, Node::Txn);
    let write = |v: Version| v.and_then(|t| problem.write_of(t, fact.key));
    let evidence = match (write(fact.from), write(fact.to)) {
        (Some(first), Some(second)) => Evidence::Ordered { first, second, reason: fact.reason },
        _ => match fact.reason {
            VersionReason::Session { after, .. } | VersionReason::RealTime { after, .. } => {
                Evidence::Overwritten {
                    read: after,
                    seen: write(fact.to),
                    write: write(fact.from).unwrap_or(after),
                    reason: fact.reason,
                }
            }
            _ => Evidence::Session,
        },
    };
    Edge { from: node(fact.from), to: node(fact.to), relation: Relation::VersionOrder, evidence }
}
