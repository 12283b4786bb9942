//! Simulates an order of events and finds the constraints that it misses: each read returns the latest
//! write. Linear in the history.

use super::facts::{Facts, From, Origin};
use super::model::{Family, Model, Rules};
use anomalist_history::{KeyId, OpId, TxnId};

/// A constraint of the level.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Constraint {
    /// The axiom about a read (a place in `Facts::reads`), the writer it returned, and another writer of
    /// the key.
    Axiom { read: u32, from: Option<TxnId>, other: TxnId },
    /// Two writers of a key must not overlap.
    Conflict { key: KeyId, first: TxnId, second: TxnId },
    /// Levels at which only some writers are visible to a reader: the first of `path` is, by these links,
    /// to its last; so it precedes what was read.
    Path { read: u32, from: Option<TxnId>, path: Vec<TxnId>, links: Vec<Link> },
    /// A list (a place in `Facts::open_lists`) shows one append last and another, earlier one not at all.
    Unseen { list: u32, first: OpId, second: OpId },
    /// An open read (a place in `Facts::open`) returned one of its candidates.
    Source { open: u32 },
}

/// Why one transaction comes directly before another, for a level that looks at dependencies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Link {
    Session,
    /// By this read of the second, a place in `Facts::reads`.
    Read(u32),
    /// Both write some key, in this order.
    Version,
    /// The second replaced what this read of the first returned.
    Replaced(u32),
}

/// What the search has decided about open questions.
pub(crate) trait Decided {
    /// Did a transaction of unknown outcome take effect?
    fn took_effect(&self, t: TxnId) -> bool;
    /// Which of its candidates is an open read (or element)? `None`: it has to be asked about.
    fn source(&self, open: u32) -> Option<Origin>;
}

/// Constraints reported per read or write and round. More would mostly be implied by the others once they
/// are met.
const PER_READ: usize = 4;

/// The constraints that the order misses; empty: it satisfies the level.
pub(crate) fn missed(
    model: &Model<'_>,
    order: &[u32],
    position: &dyn Fn(u32) -> u32,
    decided: &impl Decided,
) -> Vec<Constraint> {
    let mut simulation = Simulation::new(model.facts, model.rules);
    let mut constraints = Vec::new();
    for &node in order.iter().filter(|&&node| model.counts(node)) {
        let t = model.rules.txn(node);
        if !model.facts.certain[t.index()] && !decided.took_effect(t) {
            continue;
        }
        let own = model.rules.own(t);
        let writes = || !model.facts.writes_of(t).is_empty();
        let reads = own.reads_latest() || own.family == Family::Updates && writes();
        if node == model.rules.begin(t) && reads {
            simulation.read(t, decided, &mut constraints);
        }
        if node == model.rules.commit(t) {
            if own.family == Family::Snapshot {
                simulation.conflicts(t, position, &mut constraints);
            }
            simulation.write(t);
        }
    }
    constraints
}

const NONE: u32 = u32::MAX;

/// The committed state while events pass by: per key the chain of writers so far.
struct Simulation<'a> {
    facts: &'a Facts<'a>,
    rules: Rules<'a>,
    /// Per key, its latest write.
    last: Vec<u32>,
    /// Per write, the one before it on its key, and its transaction.
    before: Vec<u32>,
    author: Vec<TxnId>,
}

impl<'a> Simulation<'a> {
    fn new(facts: &'a Facts<'a>, rules: Rules<'a>) -> Simulation<'a> {
        let writes = facts.write_count();
        Simulation {
            facts,
            rules,
            last: vec![NONE; facts.history.key_count()],
            before: vec![NONE; writes],
            author: vec![TxnId(NONE); writes],
        }
    }

    fn read(&self, t: TxnId, decided: &impl Decided, constraints: &mut Vec<Constraint>) {
        for i in self.facts.reads_of(t) {
            let read = &self.facts.reads[i];
            let mut last = self.last[read.key.index()];
            let latest = (last != NONE).then(|| self.author[last as usize]);
            let from = match read.from {
                From::Initial => None,
                From::Txn(w) => Some(w),
                From::Open(open) => {
                    // Any candidate will do for a register. A list has to be the same from beginning to
                    // end. Where levels are mixed, what others take into account depends on which it is.
                    let any = self.rules.reads_latest() && !self.facts.open[open as usize].of_list;
                    if any && self.facts.candidate_of(open, latest).is_some() {
                        continue;
                    }
                    match decided.source(open) {
                        Some(origin) => origin.txn(),
                        None => continue,
                    }
                }
            };
            if latest == from {
                continue;
            }
            let mut found = 0;
            while last != NONE && found < PER_READ {
                let other = self.author[last as usize];
                if Some(other) == from {
                    break;
                }
                if other != t {
                    constraints.push(Constraint::Axiom { read: i as u32, from, other });
                    found += 1;
                }
                last = self.before[last as usize];
            }
        }
    }

    /// Earlier writers of the same keys that had not committed when this one began.
    fn conflicts(&self, t: TxnId, position: &dyn Fn(u32) -> u32, constraints: &mut Vec<Constraint>) {
        let begin = position(self.rules.begin(t));
        for write in self.facts.writes_of(t) {
            let key = self.facts.key_of(write);
            let mut last = self.last[key.index()];
            let mut found = 0;
            while last != NONE && found < PER_READ {
                let other = self.author[last as usize];
                if position(self.rules.commit(other)) < begin {
                    break;
                }
                constraints.push(Constraint::Conflict { key, first: other, second: t });
                found += 1;
                last = self.before[last as usize];
            }
        }
    }

    fn write(&mut self, t: TxnId) {
        for write in self.facts.writes_of(t) {
            let last = &mut self.last[self.facts.key_of(write).index()];
            self.before[write] = *last;
            self.author[write] = t;
            *last = write as u32;
        }
    }
}
