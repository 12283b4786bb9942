//! Levels decided by trying everything: for tiny histories, to compare other answers with.

use crate::definition::{Kind, kind};
use crate::execution;
use crate::facts::Facts;
use crate::flaw::Flaw;
use crate::levels::keeps_real_time;
use crate::mixed::{self, has_snapshot};
use crate::reading::{Reading, Source};
use anomalist_history::{OpId, OpKind, TxnId};
use anomalist_level::{Choice, Definitions, Level, Order, Point};

/// Transactions up to which all orders are tried; with begins and commits, and with one point each.
const SNAPSHOT_LIMIT: usize = 4;
const COMMIT_LIMIT: usize = 6;
/// Explanations of the reads that are tried.
const READING_LIMIT: usize = 64;

/// Is there an execution that satisfies the level? `None`: too large to try them all.
pub(crate) fn decide(facts: &Facts<'_>, level: Level, definitions: Definitions) -> Option<bool> {
    if keeps_real_time(level) && facts.history.intervals().is_none() {
        return None;
    }
    let limit = if has_snapshot(level) { SNAPSHOT_LIMIT } else { COMMIT_LIMIT };
    // Without the transactions that need not have taken effect PL-1 forbids less.
    let explain = if kind(level) == Some(Kind::Writes) { Reading::uncommitted } else { Reading::new };
    any_execution(facts, limit, explain, |reading, txns| {
        let accepts = |order: &Order| execution::check(reading, level, order, definitions).is_ok();
        match kind(level) {
            Some(Kind::Cut) => accepts(&Order::Any),
            _ if has_snapshot(level) => {
                interleavings(txns).into_iter().any(|events| accepts(&Order::Events(events)))
            }
            _ => orders(txns).into_iter().any(|order| accepts(&Order::Commits(order))),
        }
    })
}

/// Is there an execution that suits transactions of these levels? `None`: too large to try them all.
pub(crate) fn decide_mixed(facts: &Facts<'_>, levels: &[Level]) -> Option<bool> {
    if facts.history.intervals().is_none() && levels.iter().any(|&level| keeps_real_time(level)) {
        return None;
    }
    let happens = |point: &Point| match *point {
        Point::Begin(t) => has_snapshot(levels[t.index()]),
        Point::Commit(_) => true,
    };
    any_execution(facts, SNAPSHOT_LIMIT, Reading::new, |reading, txns| {
        interleavings(txns).into_iter().any(|events| {
            let events = events.into_iter().filter(happens).collect();
            mixed::check(reading, levels, &Order::Events(events)).is_ok()
        })
    })
}

/// Does any explanation of the reads have an order? `None`: there are too many explanations, or
/// transactions.
fn any_execution<'a>(
    facts: &'a Facts<'a>,
    limit: usize,
    explain: fn(&'a Facts<'a>, &[Choice]) -> Result<Reading<'a>, Flaw>,
    has_order: impl Fn(&Reading<'_>, &[TxnId]) -> bool,
) -> Option<bool> {
    let mut work: Vec<Vec<Choice>> = vec![Vec::new()];
    let mut tried = 0;
    while let Some(choices) = work.pop() {
        tried += 1;
        let reading = explain(facts, &choices).ok()?;
        let open = next_choices(facts, &reading, &choices);
        if tried + open.len() > READING_LIMIT {
            return None;
        }
        if !open.is_empty() {
            work.extend(open.into_iter().map(|choice| [choices.clone(), vec![choice]].concat()));
            continue;
        }
        let txns: Vec<TxnId> = reading.txns().collect();
        if txns.len() > limit {
            return None;
        }
        if has_order(&reading, &txns) {
            return Some(true);
        }
    }
    Some(false)
}

/// For the first read of which it is open what it shows: every choice.
fn next_choices(facts: &Facts<'_>, reading: &Reading<'_>, made: &[Choice]) -> Vec<Choice> {
    let history = facts.history;
    for t in reading.txns() {
        for (read, op) in history.ops(t) {
            // A read that is wrong regardless of its writer still shows that a transaction wrote the value.
            let open = match reading.source(read) {
                Source::Open => true,
                Source::Fault(_) => !facts.is_list_key(op.key) && reading.remains(read).is_none(),
                _ => false,
            };
            if op.kind != OpKind::Read || !open {
                continue;
            }
            let alone = [op.value];
            for (element, &value) in (0..).zip(history.list(op.value).unwrap_or(&alone)) {
                let candidates = facts.candidates(t, op.key, value);
                let chosen = made.iter().any(|c| c.read == read && c.element == element);
                let used = |write: Option<OpId>| made.iter().any(|c| c.read == read && c.write == write);
                if candidates.len() > 1 && !chosen {
                    let left = candidates.iter().filter(|&write| !used(write));
                    return left.map(|write| Choice { read, element, write }).collect();
                }
            }
        }
    }
    Vec::new()
}

/// Every order. At most [`COMMIT_LIMIT`] items, so this may call itself.
fn orders(txns: &[TxnId]) -> Vec<Vec<TxnId>> {
    if txns.is_empty() {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for (i, &first) in txns.iter().enumerate() {
        let rest = [&txns[..i], &txns[i + 1..]].concat();
        found.extend(orders(&rest).into_iter().map(|order| [vec![first], order].concat()));
    }
    found
}

/// Every order of begins and commits in which each transaction begins first.
fn interleavings(txns: &[TxnId]) -> Vec<Vec<Point>> {
    let mut found: Vec<Vec<Point>> = vec![Vec::new()];
    for &t in txns {
        let mut longer = Vec::new();
        for events in &found {
            for begin in 0..=events.len() {
                for commit in begin..=events.len() {
                    let mut events = events.clone();
                    events.insert(commit, Point::Commit(t));
                    events.insert(begin, Point::Begin(t));
                    longer.push(events);
                }
            }
        }
        found = longer;
    }
    found
}
