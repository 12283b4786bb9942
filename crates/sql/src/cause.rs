//! Why a database let an anomaly happen: the root causes of section 5.3 of the paper, read off who held
//! which lock when.
//!
//! Two transactions that write one row, or change what the other one read, would meet at a lock if both
//! were open. The paper's 48 anomalies happened because they did not meet, for one of three reasons. A
//! fourth one is not in the paper and would be a bug: a row was written while another open transaction had
//! written it.

use crate::Flavour;
use crate::judge::Link;
use crate::record::{Executed, Run};
use anomalist_level::Relation;
use anomalist_sqltext::ast::{FromTable, Statement, TableFactor, TableObject};
use anomalist_sqltext::parse;
use std::collections::BTreeSet;

/// A root cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Cause {
    /// The first writer had committed, and its locks were gone, when the second one wrote.
    CommitTiming,
    /// They wrote rows of different tables.
    DifferentTables,
    /// They wrote different rows of one table, and nothing between the rows was locked.
    NoGapLocks,
    /// They wrote one row, and both were open.
    NoLock,
}

impl Cause {
    /// The name in JSON.
    pub fn kind(self) -> &'static str {
        match self {
            Cause::CommitTiming => "commit-timing",
            Cause::DifferentTables => "different-tables",
            Cause::NoGapLocks => "no-gap-locks",
            Cause::NoLock => "no-lock",
        }
    }

    /// What it means.
    pub fn text(self) -> &'static str {
        match self {
            Cause::CommitTiming => "the first writer had committed when the second wrote",
            Cause::DifferentTables => "the rows are of different tables",
            Cause::NoGapLocks => "different rows of one table, and no gap locks",
            Cause::NoLock => "a row was written that an open transaction had written",
        }
    }
}

/// The cause of a cycle with an anti-dependency; others, and wrong reads, have none of these.
pub fn cause(flavour: Flavour, run: &Run, links: &[Link]) -> Option<Cause> {
    let anti = |l: &&Link| matches!(l.relation, Relation::AntiDependency | Relation::PredicateAntiDependency);
    if let Some(link) = links.iter().find(|l| l.relation == Relation::VersionOrder) {
        let (first, second) = (&run.transactions[link.from], &run.transactions[link.to]);
        let answered = second.steps[link.second].interval.1;
        // Only an answer that came before COMMIT was even sent proves that no session waited.
        return Some(match answered < commit_sent(first) {
            true => Cause::NoLock,
            false => Cause::CommitTiming,
        });
    }
    let writes: Vec<&Link> = links.iter().filter(anti).collect();
    if writes.len() < 2 || writes.len() < links.len() {
        return None;
    }
    let text = |l: &&Link| &run.transactions[l.to].steps[l.second].text;
    let tables: BTreeSet<String> =
        writes.iter().map(|l| written_table(flavour, text(l))).collect::<Option<_>>()?;
    if tables.len() > 1 {
        return Some(Cause::DifferentTables);
    }
    let sent = |l: &&Link| run.transactions[l.to].steps[l.second].interval.0;
    let before = |a: &Link, b: &&Link| run.transactions[a.to].interval.1 <= sent(b);
    let apart = writes.iter().any(|a| writes.iter().any(|b| before(a, b)));
    Some(if apart { Cause::CommitTiming } else { Cause::NoGapLocks })
}

/// When a transaction had the answer to its last statement: COMMIT was sent later.
fn commit_sent(txn: &Executed) -> u64 {
    txn.steps.last().map_or(txn.interval.0, |s| s.interval.1)
}

/// The table that a statement writes.
fn written_table(flavour: Flavour, text: &str) -> Option<String> {
    let relation = match parse(flavour.dialect(), text).ok()? {
        Statement::Update(update) => update.table.relation,
        Statement::Delete(delete) => match delete.from {
            FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => {
                from.into_iter().next()?.relation
            }
        },
        Statement::Insert(insert) => match insert.table {
            TableObject::TableName(name) => return Some(name.to_string().to_ascii_lowercase()),
            _ => return None,
        },
        _ => return None,
    };
    match relation {
        TableFactor::Table { name, .. } => Some(name.to_string().to_ascii_lowercase()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::Effect;
    use crate::record::{Outcome, Step};

    /// Transactions of one statement each: (text, sent, answered, end).
    fn run(transactions: &[(&str, u64, u64, u64)]) -> Run {
        let executed = |(i, &(text, sent, answered, end)): (usize, &(&str, u64, u64, u64))| {
            let mut step = Step::new(1, text, Effect::Update);
            step.interval = (sent, answered);
            let interval = (sent, end);
            Executed {
                id: i as u64 + 1,
                session: i,
                steps: vec![step],
                outcome: Outcome::Committed,
                failed: None,
                interval,
            }
        };
        Run::of(transactions.iter().enumerate().map(executed).collect())
    }

    fn link(from: usize, to: usize, relation: Relation) -> Link {
        Link { from, to, relation, row: "r1".into(), first: 0, second: 0 }
    }

    #[test]
    fn the_causes_of_section_5_3() {
        let of = |run: &Run, links: &[Link]| cause(Flavour::MariaDb, run, links);
        let (ww, rw) = (Relation::VersionOrder, Relation::AntiDependency);
        let skew = [link(0, 1, rw), link(1, 0, rw)];
        let lost = [link(1, 0, rw), link(0, 1, ww)];
        let u = ["UPDATE t1 SET c = 1", "UPDATE t2 SET c = 2"];
        // Figure 6: rows of different tables.
        assert_eq!(of(&run(&[(u[0], 0, 1, 9), (u[1], 2, 3, 8)]), &skew), Some(Cause::DifferentTables));
        // One table, both open; and one after the other.
        assert_eq!(of(&run(&[(u[0], 0, 1, 9), (u[0], 2, 3, 8)]), &skew), Some(Cause::NoGapLocks));
        assert_eq!(of(&run(&[(u[0], 0, 1, 2), (u[0], 3, 4, 8)]), &skew), Some(Cause::CommitTiming));
        // Figure 1: the first committed, then the second wrote; waiting for it is the same.
        assert_eq!(of(&run(&[(u[0], 0, 1, 2), (u[0], 3, 4, 8)]), &lost), Some(Cause::CommitTiming));
        assert_eq!(of(&run(&[(u[0], 0, 3, 5), (u[0], 2, 6, 8)]), &lost), Some(Cause::CommitTiming));
        assert_eq!(of(&run(&[(u[0], 0, 7, 9), (u[0], 2, 3, 8)]), &lost), Some(Cause::NoLock));
        assert_eq!(
            of(&run(&[(u[0], 0, 1, 2), (u[0], 3, 4, 8)]), &[link(0, 1, rw), link(1, 0, Relation::WriteRead)]),
            None
        );
    }
}
