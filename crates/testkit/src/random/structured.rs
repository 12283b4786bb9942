//! Shapes on which checkers take shortcuts.

use super::{Shape, chance, pick};
use crate::plan::{Act, Plan, Step, Txn};
use anomalist_history::{History, Outcome};
use fastrand::Rng;

/// A family of histories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Every write follows a read of the same key.
    ReadModifyWrite,
    /// Each transaction only writes or only reads.
    WriteOnlyOrReadOnly,
    /// One session.
    SingleSession,
    /// Each session has one transaction.
    OneTxnPerSession,
    /// All external reads see the initial state.
    AllInitial,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 5] = [
        Pattern::ReadModifyWrite,
        Pattern::WriteOnlyOrReadOnly,
        Pattern::SingleSession,
        Pattern::OneTxnPerSession,
        Pattern::AllInitial,
    ];
}

/// A random history of this family: registers, unique values, all committed. Of the shape, sizes and the
/// share of reads count.
pub fn structured(rng: &mut Rng, pattern: Pattern, shape: &Shape) -> History {
    let txns = rng.usize(shape.txns.clone());
    let keys = rng.usize(shape.keys.clone()).max(1);
    let sessions = match pattern {
        Pattern::SingleSession => 1,
        Pattern::OneTxnPerSession => txns.max(1),
        _ => rng.usize(shape.sessions.clone()).max(1),
    };
    let mut plan = Plan { sessions: vec![Vec::new(); sessions], ..Plan::default() };
    let mut next = 1;
    for t in 0..txns {
        let mut txn = Txn { steps: Vec::new(), outcome: Outcome::Committed };
        let read_only = chance(rng, shape.reads);
        for _ in 0..rng.usize(shape.ops.clone()) {
            let key = rng.usize(..keys);
            let writes = match pattern {
                Pattern::WriteOnlyOrReadOnly => !read_only,
                _ => !chance(rng, shape.reads),
            };
            if !writes || pattern == Pattern::ReadModifyWrite {
                txn.steps.push(Step { key, act: Act::ReadUnknown });
            }
            if writes {
                txn.steps.push(Step { key, act: Act::Write(next) });
                next += 1;
            }
        }
        let session = if pattern == Pattern::OneTxnPerSession { t } else { rng.usize(..sessions) };
        plan.sessions[session].push(txn);
    }
    plan.sessions.retain(|s| !s.is_empty());
    resolve(rng, &mut plan, pattern);
    plan.build()
}

/// Gives each read a source: its own latest write, or the final write of another transaction, or the
/// initial state.
fn resolve(rng: &mut Rng, plan: &mut Plan, pattern: Pattern) {
    let before = plan.clone();
    let txns: Vec<&Txn> = before.txns().collect();
    for (reader, txn) in plan.sessions.iter_mut().flatten().enumerate() {
        for i in 0..txn.steps.len() {
            if txn.steps[i].act != Act::ReadUnknown {
                continue;
            }
            let key = txn.steps[i].key;
            let value = match txn.written_before(key, i).last() {
                Some(&own) => own,
                None if pattern == Pattern::AllInitial => 0,
                None => {
                    let others = txns.iter().enumerate().filter(|&(t, _)| t != reader);
                    let finals: Vec<i64> =
                        others.filter_map(|(_, t)| t.written(key).last().copied()).chain([0]).collect();
                    pick(rng, &finals).unwrap_or(0)
                }
            };
            txn.steps[i].act = Act::Read(value);
        }
    }
}
