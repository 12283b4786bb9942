//! Makes a refutation smaller: the history is cut down to the transactions and reads it speaks of, and then
//! to fewer, as long as the level stays violated.
//!
//! What a refutation rests on is a history of its own, in which the same contradiction arises; whatever
//! contradicts itself there contradicts itself in the whole history. So a search on the small history,
//! which costs next to nothing, can drop one reader after another, then one read after another (deletion
//! minimisation). For reads of registers with certain sources; lists show more than the reads one would
//! keep, and assumptions are about the whole.

use super::explain::known_cycle;
use super::facts::{Facts, From};
use super::model::{Family, Rules};
use super::refute::Prover;
use super::search::{self, Found, Progress, SearchOptions};
use crate::Budget;
use crate::view::CommittedView;
use crate::view::ExternalReads;
use anomalist_history::{Builder, Draft, History, Indexed, KeyId, OpId, OpKind, TxnId};
use anomalist_level::{Literal, Reason, Refutation};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

/// Beyond so many reads a refutation is not worth the searches.
const LARGEST: usize = 400;

/// A smaller refutation of the same level, if there is one.
pub(crate) fn reduced(
    facts: &Facts<'_>,
    rules: Rules<'_>,
    whole: &Refutation,
    budget: &Budget<'_>,
) -> Option<Refutation> {
    let lists = !facts.lists.is_empty() || !facts.open_lists.is_empty();
    if rests_on_choices(whole) || lists || !facts.assumed.is_empty() {
        return None;
    }
    let mut reads = spoken_of(facts, whole);
    if reads.len() > LARGEST {
        return None;
    }
    let mut best = Excerpt::new(facts, whole, &reads).refute(rules, budget)?;
    reads = spoken_of(facts, &best);
    let readers: BTreeSet<TxnId> = reads.iter().map(|&i| facts.reads[i as usize].reader).collect();
    let singles = |reads: &BTreeSet<u32>| reads.iter().map(|&i| BTreeSet::from([i])).collect::<Vec<_>>();
    let of = |t: TxnId, reads: &BTreeSet<u32>| {
        reads.iter().copied().filter(|&i| facts.reads[i as usize].reader == t).collect::<BTreeSet<u32>>()
    };
    let mut groups: Vec<BTreeSet<u32>> = readers.iter().map(|&t| of(t, &reads)).collect();
    groups.extend(singles(&reads));
    for group in groups {
        if budget.is_spent() {
            break;
        }
        let fewer: BTreeSet<u32> = reads.difference(&group).copied().collect();
        if fewer.len() == reads.len() {
            continue;
        }
        if let Some(found) = Excerpt::new(facts, &best, &fewer).refute(rules, budget) {
            reads = spoken_of(facts, &found);
            best = found;
        }
    }
    Some(best)
}

/// True if a refutation speaks of what open reads returned, of uncertain outcomes or of lists.
fn rests_on_choices(refutation: &Refutation) -> bool {
    let order = |literal: &Literal| matches!(literal, Literal::Before(..));
    refutation.steps.iter().any(|step| {
        let about_order = matches!(
            step.reason,
            Reason::Cycle(_) | Reason::Axiom { .. } | Reason::Conflict { .. } | Reason::Implied(_)
        );
        !about_order || !step.clause.iter().all(order)
    })
}

/// The reads behind a refutation: those of its axioms, and those that its cycles lead over.
pub(crate) fn spoken_of(facts: &Facts<'_>, refutation: &Refutation) -> BTreeSet<u32> {
    let by_op = |op: OpId| {
        let t = facts.history.txn_of(op);
        facts.reads_of(t).find(|&i| facts.reads[i].op == op).map(|i| i as u32)
    };
    let between = |w: TxnId, r: TxnId| {
        facts.reads_of(r).find(|&i| facts.reads[i].from == From::Txn(w)).map(|i| i as u32)
    };
    let mut reads = BTreeSet::new();
    for step in &refutation.steps {
        match &step.reason {
            Reason::Axiom { read, other, path, .. } => {
                reads.extend(by_op(*read));
                let ends = [facts.history.txn_of(*other)].into_iter().chain(path.iter().copied());
                let stops: Vec<TxnId> = ends.chain([facts.history.txn_of(*read)]).collect();
                reads.extend(stops.windows(2).filter_map(|pair| between(pair[0], pair[1])));
            }
            Reason::Cycle(points) => {
                for (a, b) in points.iter().zip(points.iter().cycle().skip(1)) {
                    reads.extend(between(a.txn(), b.txn()));
                }
            }
            _ => {}
        }
    }
    reads
}

/// A small history made of parts of a large one, and where its parts come from.
struct Excerpt {
    history: History,
    txns: Vec<TxnId>,
    ops: Vec<OpId>,
}

impl Excerpt {
    /// The transactions that a refutation names and the sources of these reads, with all their writes to
    /// the keys read or in conflict.
    fn new(facts: &Facts<'_>, refutation: &Refutation, reads: &BTreeSet<u32>) -> Excerpt {
        let large = facts.history;
        let mut keys: BTreeSet<KeyId> = reads.iter().map(|&i| facts.reads[i as usize].key).collect();
        let mut txns: BTreeSet<TxnId> = BTreeSet::new();
        for step in &refutation.steps {
            match &step.reason {
                Reason::Axiom { read, other, path, .. } => {
                    txns.extend([large.txn_of(*read), large.txn_of(*other)]);
                    txns.extend(path);
                }
                Reason::Conflict { first, second } => {
                    keys.insert(large.op(*first).key);
                    txns.extend([large.txn_of(*first), large.txn_of(*second)]);
                }
                Reason::Cycle(points) => txns.extend(points.iter().map(|p| p.txn())),
                _ => {}
            }
        }
        let mut found: BTreeMap<TxnId, Vec<u32>> = BTreeMap::new();
        for &i in reads {
            let read = &facts.reads[i as usize];
            txns.insert(read.reader);
            found.entry(read.reader).or_default().push(i);
            if let From::Txn(w) = read.from {
                txns.insert(w);
            }
        }
        let mut b = Builder::new();
        let zero = b.int(0);
        b.set_initial_default(Some(zero));
        let mut ops = Vec::new();
        let mut drafts: BTreeMap<TxnId, Draft> = BTreeMap::new();
        for &t in &txns {
            let label = b.int(i64::from(large.session_of(t).0));
            let trunk = large.branches_off(large.session_of(t)).is_some();
            let from = trunk.then(|| large.before_in_session(t).rev().find_map(|p| drafts.get(&p))).flatten();
            let session = match from {
                Some(&from) => b.another_session(label, Some(from)),
                None => b.session(label),
            };
            let draft = b.transaction(session);
            drafts.insert(t, draft);
            if let Some(intervals) = large.intervals() {
                b.set_interval(draft, intervals[t.index()]);
            }
            // Each transaction writes its own number, so that who wrote a value is certain.
            let number = |t: TxnId| i64::from(t.0) + 1;
            for &i in found.get(&t).map_or(&[][..], Vec::as_slice) {
                let read = &facts.reads[i as usize];
                let label = b.int(i64::from(read.key.0));
                let key = b.key(label);
                let value = match read.from {
                    From::Txn(w) => b.int(number(w)),
                    _ => zero,
                };
                b.op(draft, OpKind::Read, key, value);
                ops.push(read.op);
            }
            for write in facts.writes_of(t).filter(|&w| keys.contains(&facts.key_of(w))) {
                let Some(op) = facts.write_of(t, facts.key_of(write)) else { continue };
                let label = b.int(i64::from(facts.key_of(write).0));
                let key = b.key(label);
                let value = b.int(number(t));
                b.op(draft, OpKind::Write, key, value);
                ops.push(op);
            }
        }
        // Transactions were added session by session, in order, so ids are handed out in the same order.
        let txns = txns.into_iter().collect();
        let history = b.finish().unwrap_or_else(|_| empty());
        Excerpt { history, txns, ops }
    }

    /// The refutation of the level in the small history, translated to the large one; `None` if it is not
    /// violated there.
    fn refute(&self, rules: Rules<'_>, budget: &Budget<'_>) -> Option<Refutation> {
        let mut declared = Vec::new();
        let rules = rules.of_part(&self.txns, &mut declared);
        let indexed = Indexed::new(&self.history, NonZeroUsize::MIN);
        let index = indexed.index();
        let reads = ExternalReads::new(&self.history, index);
        let view = CommittedView { history: &self.history, index, reads: &reads, assumed: &[] };
        let facts = Facts::with(view, index, false, rules.family == Family::Mixed);
        let options = SearchOptions { no_guess: true, no_saturation: false };
        let found = search::decide(&facts, rules, options, budget, &mut Progress::default()).ok()?;
        let refutation = match found {
            Found::Holds(_) => return None,
            Found::KnownCycle(model) => {
                let prover = Prover::new(&model, None);
                let cycle = known_cycle(&model, &prover);
                prover.by_cycle(&cycle)
            }
            Found::Refuted(model, solver, end) => {
                let position = |node: u32| solver.order.position(node);
                Prover::new(&model, Some(&position)).by_log(&solver, end, budget)
            }
        };
        if refutation.steps.is_empty() {
            return None;
        }
        Some(refutation.map(|t| self.txns[t.index()], |op| self.ops[op.index()]))
    }
}

/// A history in which nothing happened; parts of a history always fit in one.
fn empty() -> History {
    Builder::new().finish().unwrap_or_else(|_| unreachable!("an empty history is small"))
}
