//! Reference executions, and executions with one read changed.
//!
//! The interpreter is a toy database: transactions run in a random interleaving of sessions and see the
//! state that the level promises. Its histories satisfy the level by construction.

use super::{Shape, chance, measure, pick, skeleton};
use crate::plan::{Act, Plan, Txn};
use anomalist_history::{History, Outcome};
use fastrand::Rng;

/// How a reference execution isolates transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reference {
    /// One transaction after another.
    Serial,
    /// Snapshot isolation: reads from a snapshot of the past, the first of two conflicting writers commits.
    /// A session sees its own past.
    Snapshot,
    /// Causal memory: each session is a replica that learns of others' transactions in causal order; the
    /// last writer, by a logical clock, wins. Registers only: the shape's lists become registers.
    Causal,
}

impl Reference {
    /// All of them.
    pub const ALL: [Reference; 3] = [Reference::Serial, Reference::Snapshot, Reference::Causal];
}

/// What an execution of this kind may show. Of the shape, sizes and shares of reads, aborts, unknown
/// outcomes and lists count.
pub fn executed(rng: &mut Rng, reference: Reference, shape: &Shape) -> History {
    execute(rng, reference, shape).build()
}

/// [`executed`], then one read returns another value of its key, or two reads of one key swap their values.
pub fn mutated(rng: &mut Rng, reference: Reference, shape: &Shape) -> History {
    let mut plan = execute(rng, reference, shape);
    mutate(rng, &mut plan);
    plan.build()
}

/// A transaction that took effect.
struct Done {
    /// Place in the plan.
    txn: (usize, usize),
    /// Its own time, and the transactions it saw, as indices into the log.
    clock: usize,
    seen: Vec<usize>,
}

fn execute(rng: &mut Rng, reference: Reference, shape: &Shape) -> Plan {
    let lists = if reference == Reference::Causal { 0.0 } else { shape.lists };
    let shape = Shape { repeated: 0.0, lists, internal: true, ..shape.clone() };
    let (mut plan, is_list) = skeleton(rng, &shape);
    let mut log: Vec<Done> = Vec::new();
    let mut next = vec![0; plan.sessions.len()];
    let mut known: Vec<Vec<usize>> = vec![Vec::new(); plan.sessions.len()];
    let mut order = Vec::new();
    loop {
        let ready: Vec<usize> = (0..next.len()).filter(|&s| next[s] < plan.sessions[s].len()).collect();
        let Some(s) = pick(rng, &ready) else {
            if chance(rng, shape.timed) {
                measure(rng, &mut plan, &order);
            }
            return plan;
        };
        let place = (s, next[s]);
        order.push(place);
        next[s] += 1;
        // What it sees, oldest first.
        let seen: Vec<usize> = match reference {
            Reference::Serial => (0..log.len()).collect(),
            Reference::Snapshot => {
                let own_past = known[s].iter().max().map_or(0, |&last| last + 1);
                (0..rng.usize(own_past..=log.len())).collect()
            }
            Reference::Causal => {
                for (other, done) in log.iter().enumerate() {
                    if rng.bool() {
                        let mut news = done.seen.clone();
                        news.push(other);
                        news.retain(|d| !known[s].contains(d));
                        known[s].extend(news);
                    }
                }
                let mut seen = known[s].clone();
                // Ties of the clock are broken by place, the same way everywhere.
                seen.sort_by_key(|&d| (log[d].clock, log[d].txn));
                seen
            }
        };
        let results = run(&plan, &log, &seen, place, &is_list);
        let txn = &mut plan.sessions[s][place.1];
        for (step, result) in txn.steps.iter_mut().zip(results) {
            if let Some(act) = result {
                step.act = act;
            }
        }
        let conflict = reference == Reference::Snapshot && {
            let unseen = log.iter().enumerate().filter(|(d, _)| !seen.contains(d)).map(|(_, done)| done.txn);
            let mine = &plan.sessions[s][place.1];
            unseen.into_iter().any(|(os, ot)| overlap(mine, &plan.sessions[os][ot]))
        };
        let txn = &mut plan.sessions[s][place.1];
        if conflict {
            txn.outcome = Outcome::Aborted;
        }
        // Half of the transactions whose outcome the client never learns did commit.
        let effective =
            txn.outcome == Outcome::Committed || txn.outcome == Outcome::Indeterminate && rng.bool();
        if effective {
            let clock = 1 + seen.iter().map(|&d| log[d].clock).max().unwrap_or(0);
            known[s].push(log.len());
            log.push(Done { txn: place, clock, seen });
        }
    }
}

fn overlap(a: &Txn, b: &Txn) -> bool {
    a.steps.iter().any(|s| s.written().is_some() && !b.written(s.key).is_empty())
}

/// What the reads of a transaction return, given what it sees.
fn run(
    plan: &Plan,
    log: &[Done],
    seen: &[usize],
    place: (usize, usize),
    is_list: &[bool],
) -> Vec<Option<Act>> {
    let txn = &plan.sessions[place.0][place.1];
    (0..txn.steps.len())
        .map(|i| {
            let key = txn.steps[i].key;
            if txn.steps[i].written().is_some() {
                return None;
            }
            let mut written: Vec<i64> = Vec::new();
            for &d in seen {
                let (s, t) = log[d].txn;
                written.extend(plan.sessions[s][t].written(key));
            }
            written.extend(txn.written_before(key, i));
            Some(match is_list[key] {
                true => Act::ReadList(written),
                false => Act::Read(written.last().copied().unwrap_or(0)),
            })
        })
        .collect()
}

fn mutate(rng: &mut Rng, plan: &mut Plan) {
    let reads: Vec<(usize, usize)> = plan
        .steps_mut()
        .enumerate()
        .filter(|(_, s)| s.written().is_none())
        .map(|(i, s)| (i, s.key))
        .collect();
    let Some((read, key)) = pick(rng, &reads) else { return };
    let same_key: Vec<usize> = reads.iter().filter(|r| r.1 == key && r.0 != read).map(|r| r.0).collect();
    let written: Vec<i64> = plan.txns().flat_map(|t| t.written(key)).collect();
    let other = pick(rng, &same_key);
    let mut steps: Vec<_> = plan.steps_mut().collect();
    match other {
        Some(other) if rng.bool() => {
            let act = steps[other].act.clone();
            steps[other].act = std::mem::replace(&mut steps[read].act, act);
        }
        _ => match &mut steps[read].act {
            Act::Read(value) => *value = pick(rng, &written).filter(|_| rng.u8(..4) > 0).unwrap_or(0),
            Act::ReadList(elements) if rng.bool() => elements.truncate(rng.usize(..=elements.len())),
            Act::ReadList(elements) => rng.shuffle(elements),
            _ => {}
        },
    }
}
