//! A name for what a search refuted: among the few transactions that its refutation speaks of there is mostly a cycle that can be
//! told edge by edge, and named as Adya does.
//!
//! Edges are those that a sentence shows: session order, reads, and a read of a version that another transaction replaced, where it
//! is known which came first (the initial one does, and what its replacer has read from). Of the cycles that the level
//! forbids the shortest is told. None may be: then no more is said than that no order exists.

use super::facts::{Facts, From};
use super::model::{Edge, Rules, Why};
use super::story::{name, told};
use crate::weak::Problem;
use crate::weak::witness::witness;
use isolde_history::TxnId;
use isolde_level::{self as level, Anomaly, Node};

/// Transactions among which cycles are looked for, edges of a cycle, and steps of the search.
const TRANSACTIONS: usize = 16;
const LENGTH: usize = 6;
const STEPS: usize = 20_000;

/// The shortest cycle among these transactions that the level forbids, if a refutation is about one.
pub(super) fn cycle(
    problem: Problem<'_>,
    facts: &Facts<'_>,
    rules: Rules<'_>,
    txns: &[TxnId],
) -> Option<Anomaly> {
    if txns.len() > TRANSACTIONS || facts.has_open_reads() {
        return None;
    }
    let edges = edges(facts, rules, txns);
    let kind = |path: &[usize]| {
        let cycle: Vec<level::Edge> = path.iter().map(|&e| edges[e].clone()).collect();
        name(&cycle, rules).filter(|&kind| rules.level.forbids(kind))
    };
    let mut best: Option<Vec<usize>> = None;
    let mut steps = 0;
    for start in 0..edges.len() {
        // Every cycle is found from its first edge; deeper entries of the stack are tried first.
        let mut stack: Vec<Vec<usize>> = vec![vec![start]];
        while let Some(path) = stack.pop() {
            steps += 1;
            let longest = best.as_ref().map_or(LENGTH, |best| best.len() - 1);
            if steps > STEPS || path.len() > longest {
                continue;
            }
            let (first, last) = (edges[start].from, edges[path[path.len() - 1]].to);
            if last == first {
                if kind(&path).is_some() {
                    best = Some(path);
                }
                continue;
            }
            let met = |node: Node| path.iter().any(|&e| edges[e].to == node);
            let next = (start + 1..edges.len()).filter(|&e| edges[e].from == last && !met(edges[e].to));
            stack.extend(next.map(|e| [&path[..], &[e]].concat()));
        }
    }
    let best = best?;
    let kind = kind(&best)?;
    let cycle = best.iter().map(|&e| edges[e].clone()).collect();
    Some(Anomaly { kind, count: 1, witness: witness(problem, cycle) })
}

/// Everything between these transactions that a sentence shows.
fn edges(facts: &Facts<'_>, rules: Rules<'_>, txns: &[TxnId]) -> Vec<level::Edge> {
    let mut found: Vec<Edge> = Vec::new();
    let mut add = |from: u32, to: u32, why: Why| found.push(Edge { from, to, rank: 0, why });
    for &t in txns {
        let before = txns.iter().copied().filter(|&p| rules.sessions && facts.session_before(p, t));
        if let Some(before) = before.max() {
            add(rules.commit(before), rules.begin(t), Why::Session);
        }
        for i in facts.reads_of(t) {
            let read = &facts.reads[i];
            let from = match read.from {
                From::Txn(w) => Some(w),
                _ => None,
            };
            if let Some(w) = from.filter(|w| txns.contains(w)) {
                add(rules.commit(w), rules.begin(t), Why::Read(i as u32));
            }
            // Lists show their order by themselves, to others.
            let list = facts.lists.iter().any(|list| list.key == read.key);
            let others = txns.iter().copied().filter(|&o| !list && o != t && Some(o) != from);
            for o in others.filter(|&o| facts.writes(o, read.key)) {
                add(rules.begin(t), rules.commit(o), Why::Axiom { read: i as u32, other: o });
            }
        }
    }
    found.iter().filter_map(|edge| told(facts, rules, edge)).collect()
}
