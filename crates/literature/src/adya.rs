//! Adya's portable levels on items (thesis, 1999), restated in Elle, sections 2, 3.1 and 5.
//!
//! The text of the thesis was not at hand; PL-3U's phenomenon G-update is restated from memory of its
//! section 4.3. An Adya history has, per object, a version order that begins with the initial version and
//! orders the installed versions, those that committed transactions wrote last (Elle, 3.1.3). We are not
//! given it: a level is satisfied if *there is* a version order, a choice of outcomes, and a version for
//! each read, without the phenomena that the level proscribes. For lists the version order must be one that
//! the versions read allow (Elle, 3.1.3: consistent with the version graph).
//!
//! Dependencies (Elle, 3.1.4): `ww` to the installer of the next version, `wr` from the installer to a
//! reader, `rw` from a reader to the installer of the next version; none from a transaction to itself.
//!
//! A version order without G0 is part of a total order of all transactions, one without G1c part of a
//! total order that contains `wr`. So orders of transactions are enumerated, and version orders are their
//! parts.
//!
//! Elle, 3.1.3: a read returns a version that was written before, and a transaction observes its own
//! writes; what does neither is no Adya history, and these definitions say nothing about it ("phenomena
//! which Adya et al.'s formalism does not admit", Elle 5.1).

use crate::Answer;
use crate::axioms::{Axiom, Execution, INIT, satisfies};
use crate::facts::{Effect, External, Parts, Set, members, set};
use crate::model::{Atom, Key, Op, Outcome, Seen};
use crate::order::{FREE, complete, next};

/// PL-1 proscribes G0, a cycle of `ww` alone (Elle, section 5). Registers have a version order without
/// it: any order of the transactions. Lists have one if their reads allow it. Where a list that was read
/// contains what did not commit, or two reads contradict each other in every version order of that list
/// alone, Elle infers no version order (3.3.2, "unclean interpretations"): not defined.
pub fn pl_1(parts: &Parts<'_>) -> Answer {
    if !is_adya(parts) {
        return Answer::Undefined;
    }
    let lists: Vec<Key> = (0..parts.history.kinds.len()).collect();
    if some_order(parts, 0, &mut Vec::new(), &lists) {
        return Answer::Holds;
    }
    if has_strangers(parts) {
        return Answer::Undefined;
    }
    let outcomes = (0..=parts.open).filter(|kept| kept & !parts.open == 0);
    let clean = |kept: Set| {
        let mut fixed = parts.clone();
        fixed.committed |= kept;
        fixed.open = 0;
        lists.iter().all(|&key| some_order(&fixed, 0, &mut Vec::new(), &[key]))
    };
    if outcomes.into_iter().any(clean) { Answer::Violated } else { Answer::Undefined }
}

/// Whether some order of the transactions explains what was read of these lists.
fn some_order(parts: &Parts<'_>, placed: Set, order: &mut Vec<usize>, keys: &[Key]) -> bool {
    if complete(parts, placed) && keys.iter().all(|&key| explains(parts, order, key)) {
        return true;
    }
    for t in next(parts, &FREE, placed) {
        order.push(t);
        if some_order(parts, placed | 1 << t, order, keys) {
            return true;
        }
        order.pop();
    }
    false
}

/// Whether every read of a list is a version of it in this order. It may be one in the middle of a
/// transaction's appends: PL-1 does not proscribe G1b.
fn explains(parts: &Parts<'_>, order: &[usize], key: Key) -> bool {
    let laid_out = laid_out(parts, order, key);
    let reads = order.iter().flat_map(|&t| parts.facts[t].reads.iter().map(move |read| (t, read)));
    reads.filter(|(_, read)| read.key == key).all(|(t, read)| match &read.seen {
        Seen::List(list) => version_of(&laid_out, t, list).is_some(),
        Seen::Atom(_) => true,
    })
}

/// The elements of a list, each with the transaction that appended it, if the transactions install
/// versions in this order.
pub fn laid_out(parts: &Parts<'_>, order: &[usize], key: Key) -> Vec<(Atom, usize)> {
    let block = |&t: &usize| match &parts.facts[t].effect[key] {
        Some(Effect::Elements(elements)) => elements.iter().map(|&e| (e, t)).collect(),
        _ => Vec::new(),
    };
    order.iter().flat_map(block).collect()
}

/// Who wrote the version that `t` read before its own appends: `Some(None)` for the initial one, `None`
/// if it is no version, or one from after an append of `t`.
pub fn version_of(laid_out: &[(Atom, usize)], t: usize, list: &[Atom]) -> Option<Option<usize>> {
    let beginning = laid_out.get(..list.len())?;
    let same = beginning.iter().zip(list).all(|(&(element, owner), e)| element == *e && owner != t);
    same.then(|| beginning.last().map(|&(_, owner)| owner))
}

/// PL-2 proscribes G1: reads of what aborted (G1a), of versions that their transaction replaced (G1b),
/// and cycles of `ww` and `wr` (G1c); G0 is such a cycle.
pub fn pl_2(parts: &Parts<'_>) -> Answer {
    portable(parts, &|_| true)
}

/// PL-2.99 also proscribes G2-item: cycles with one or more item anti-dependencies; there are no others
/// here.
pub fn pl_2_99(parts: &Parts<'_>) -> Answer {
    portable(parts, &|execution| acyclic(&dependencies(execution), execution.placed))
}

/// PL-3U proscribes G1 and G-update: a cycle with anti-dependencies in the graph of all update
/// transactions and any one transaction more.
pub fn pl_3u(parts: &Parts<'_>) -> Answer {
    let updates = set(parts.history, |t| parts.facts[t].updates());
    portable(parts, &|execution| {
        let graph = dependencies(execution);
        let updates = updates & execution.placed;
        acyclic(&graph, updates) && members(execution.placed).all(|t| acyclic(&graph, updates | 1 << t))
    })
}

fn portable(parts: &Parts<'_>, also: &dyn Fn(&Execution<'_>) -> bool) -> Answer {
    match satisfies(parts, &FREE, Axiom::None, also) {
        _ if !is_adya(parts) => Answer::Undefined,
        true => Answer::Holds,
        false if has_strangers(parts) => Answer::Undefined,
        false => Answer::Violated,
    }
}

/// By transaction, those that depend on it.
fn dependencies(execution: &Execution<'_>) -> Vec<Set> {
    let facts = &execution.parts.facts;
    let mut graph = vec![0; facts.len()];
    let installed = |after: usize, key: Key| {
        let start = execution.order.iter().position(|&t| t == after).map_or(0, |i| i + 1);
        execution.order[start..].iter().copied().find(|&t| facts[t].writes(key))
    };
    for &t in &execution.order {
        for key in (0..execution.parts.history.kinds.len()).filter(|&k| facts[t].writes(k)) {
            if let Some(next) = installed(t, key) {
                graph[t] |= 1 << next;
            }
        }
        for (read, &source) in facts[t].reads.iter().zip(&execution.sources[t]) {
            if source != INIT {
                graph[source] |= 1 << t;
            }
            if let Some(next) = installed(source, read.key).filter(|&next| next != t) {
                graph[t] |= 1 << next;
            }
        }
    }
    graph
}

/// Whether a graph has no cycle within a set.
fn acyclic(graph: &[Set], mut within: Set) -> bool {
    while let Some(sink) = members(within).find(|&t| graph[t] & within == 0) {
        within &= !(1 << sink);
    }
    within == 0
}

/// Whether all committed transactions can be in an Adya history.
fn is_adya(parts: &Parts<'_>) -> bool {
    members(parts.committed).all(|t| adya_txn(parts, t))
}

/// Whether an indeterminate transaction is in no Adya history. It may be the one that was read.
fn has_strangers(parts: &Parts<'_>) -> bool {
    let stranger = |t: usize| parts.history.txns[t].outcome == Outcome::Indeterminate && !adya_txn(parts, t);
    set(parts.history, stranger) != 0
}

/// Whether the reads of a transaction return own writes, or something that another transaction, whatever
/// became of it, wrote or the initial state held.
fn adya_txn(parts: &Parts<'_>, t: usize) -> bool {
    let written = |read: &External| match &read.seen {
        Seen::Atom(value) => *value == parts.history.initial || others_wrote(parts, t, read.key, *value) > 0,
        Seen::List(list) => list.iter().all(|&e| {
            let shown = list.iter().filter(|&&other| other == e).count();
            shown <= others_wrote(parts, t, read.key, e)
        }),
    };
    parts.facts[t].internal && parts.facts[t].reads.iter().all(written)
}

/// How often transactions other than `t` wrote a value or appended an element.
fn others_wrote(parts: &Parts<'_>, t: usize, key: Key, atom: Atom) -> usize {
    let others = parts.history.txns.iter().enumerate().filter(|&(other, _)| other != t);
    let ops = others.flat_map(|(_, txn)| &txn.ops);
    ops.filter(|op| matches!(op, Op::Write(k, v) | Op::Append(k, v) if *k == key && *v == atom)).count()
}
