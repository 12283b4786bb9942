//! Adya's phenomena by definition, in every interpretation of a history.
//!
//! An interpretation chooses the fate of every transaction whose outcome is not known, and an order of
//! versions for every key. In it, `ww` goes from a writer to every later writer of the key, `wr` from a
//! writer to who read its version, `rw` from a reader to the writer of every version after the one it read
//! (Adya 1999, with all later versions for the next: an order among versions that no transaction saw must
//! not change the name of a cycle). A phenomenon is certain if every interpretation has it; a level holds
//! if some interpretation satisfies it. All simple cycles are looked at.
//!
//! A list read counts without the reader's own appends at its end, without what no committed transaction
//! appended, and with repeated elements only once. The order of a list starts with what all reads agree on.

mod assumed;
mod raw;
mod unfolded;

pub use assumed::Assumed;
pub use unfolded::Operational;

use super::relation::Relation;
use anomalist_history::{History, Outcome};
use raw::Raw;
use std::collections::BTreeSet;

/// What a cycle consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum Phenomenon {
    /// Writes only.
    G0,
    /// Writes and reads, at least one read.
    G1c,
    /// Exactly one anti-dependency.
    GSingle,
    /// Several anti-dependencies, no two adjacent.
    GNonadjacent,
    /// Several anti-dependencies, two of them adjacent.
    G2,
}

/// The order that a cycle must use besides dependencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum Needs {
    /// None.
    Nothing,
    /// Session order.
    Session,
    /// Real time; session order is allowed too.
    RealTime,
}

const WW: u8 = 1;
const WR: u8 = 2;
const RW: u8 = 4;
const SO: u8 = 8;
const RT: u8 = 16;

/// One way to understand a history.
pub struct Interpretation {
    /// Per pair of transactions, the relations between them.
    edges: Vec<Vec<u8>>,
    /// The phenomena of its simple cycles.
    found: BTreeSet<(Phenomenon, Needs)>,
    writes: Vec<bool>,
    unfolded: unfolded::Unfolded,
}

/// All interpretations, with the facts they share.
pub struct Interpretations {
    /// Those in which a transaction of unknown outcome took effect only if a transaction saw it.
    pub likely: Vec<Interpretation>,
    /// Those in which more of them did.
    pub unlikely: Vec<Interpretation>,
    /// A read shows what no committed transaction wrote, or wrote and replaced, or wrote only later; or
    /// lists contradict each other.
    pub dirty: bool,
    /// A transaction's reads contradict its own operations.
    pub internal: bool,
    /// Every key's versions have one order only.
    pub total: bool,
    /// Keys whose versions have no order that agrees with what is assumed; of them nothing is assumed then.
    pub contradicted: usize,
}

/// The interpretations of a history: [`interpretations_under`] no assumption.
pub fn interpretations(history: &History, limit: usize) -> Option<Interpretations> {
    interpretations_under(history, &Assumed::default(), limit)
}

/// The interpretations of a history that agree with what is assumed; `None` if a value was written by
/// several transactions, or there are more than `limit` interpretations.
pub fn interpretations_under(history: &History, assumed: &Assumed, limit: usize) -> Option<Interpretations> {
    let raw = Raw::new(history);
    let base = raw.closed(&raw.committed())?;
    let contradicted = raw.contradicted(&base, assumed)?;
    let mut found = Interpretations {
        likely: Vec::new(),
        unlikely: Vec::new(),
        dirty: raw.dirty(&base),
        internal: raw.internal(&base),
        total: false,
        contradicted: contradicted.iter().filter(|c| **c).count(),
    };
    let open: Vec<usize> =
        (0..raw.n).filter(|&t| raw.outcome(t) == Outcome::Indeterminate && !base[t]).collect();
    if open.len() > 3 {
        return None;
    }
    let mut seen = BTreeSet::new();
    for subset in 0..1usize << open.len() {
        let mut exists = base.clone();
        for (i, &t) in open.iter().enumerate() {
            exists[t] |= subset >> i & 1 == 1;
        }
        if !seen.insert(exists.clone()) {
            continue;
        }
        let agrees = |key: usize, order: &[usize]| {
            contradicted[key] || raw.agrees(&exists, &base, key, order, assumed)
        };
        let orders = raw.all_orders(&exists, &base, limit, &agrees)?;
        let made = orders.iter().map(|order| raw.interpret(&exists, &base, order)).collect::<Vec<_>>();
        if exists == base {
            found.total = made.len() == 1;
            found.likely = made;
        } else {
            found.unlikely.extend(made);
        }
        if found.likely.len() + found.unlikely.len() > limit {
            return None;
        }
    }
    Some(found)
}

impl Interpretations {
    /// True if every interpretation has the phenomenon.
    pub fn certain(&self, phenomenon: Phenomenon, needs: Needs) -> bool {
        self.likely.iter().chain(&self.unlikely).all(|i| i.has(phenomenon, needs))
    }

    /// True if some interpretation has no cycle of these phenomena (or weaker) under the orders allowed.
    pub fn possible(&self, forbidden: &[Phenomenon], orders: Needs) -> bool {
        let allowed: &[Needs] = match orders {
            Needs::Nothing => &[Needs::Nothing],
            Needs::Session => &[Needs::Nothing, Needs::Session],
            Needs::RealTime => &[Needs::Nothing, Needs::Session, Needs::RealTime],
        };
        let free = |i: &Interpretation| allowed.iter().all(|&n| forbidden.iter().all(|&p| !i.has(p, n)));
        self.likely.iter().any(free)
    }

    /// True if some interpretation has neither cycles of dependencies nor this phenomenon of single
    /// operations.
    pub fn operationally_possible(&self, forbidden: Operational) -> bool {
        let flows = |i: &Interpretation| {
            !i.has(Phenomenon::G0, Needs::Nothing) && !i.has(Phenomenon::G1c, Needs::Nothing)
        };
        self.likely.iter().any(|i| flows(i) && !i.unfolded.has(forbidden))
    }

    /// True if every interpretation has the phenomenon, or a cycle of dependencies.
    pub fn operationally_certain(&self, phenomenon: Operational) -> bool {
        let flows = |i: &Interpretation| {
            !i.has(Phenomenon::G0, Needs::Nothing) && !i.has(Phenomenon::G1c, Needs::Nothing)
        };
        self.likely.iter().chain(&self.unlikely).all(|i| !flows(i) || i.unfolded.has(phenomenon))
    }

    /// Update serializability (Adya's PL-3U, without G1a and G1b).
    pub fn updates_possible(&self) -> bool {
        self.likely.iter().any(Interpretation::updates_acyclic)
    }

    /// True if every interpretation has a cycle of updates and at most one reader.
    pub fn update_cycle_certain(&self) -> bool {
        self.likely.iter().chain(&self.unlikely).all(|i| !i.updates_acyclic())
    }
}

impl Interpretation {
    /// The pairs of transactions of which the first made an earlier version of some key.
    pub fn version_order(&self) -> Vec<(usize, usize)> {
        let n = self.edges.len();
        let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
        pairs.filter(|&(a, b)| self.edges[a][b] & WW != 0).collect()
    }

    /// True if some simple cycle is of this make-up.
    pub fn has(&self, phenomenon: Phenomenon, needs: Needs) -> bool {
        self.found.contains(&(phenomenon, needs))
    }

    fn updates_acyclic(&self) -> bool {
        let n = self.edges.len();
        (0..=n).all(|reader| {
            let inside = |t: usize| self.writes[t] || t == reader;
            let mut relation = Relation::empty(n);
            for a in (0..n).filter(|&a| inside(a)) {
                for b in (0..n).filter(|&b| inside(b) && self.edges[a][b] & (WW | WR | RW) != 0) {
                    relation.add(a, b);
                }
            }
            let closure = relation.closure();
            (0..n).all(|t| !closure.has(t, t))
        })
    }
}

/// What matters about the steps of a walk, each by one relation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MakeUp {
    used: u8,
    first_anti: bool,
    last_anti: bool,
    adjacent: bool,
    /// Up to two.
    antis: u8,
}

/// Everything that the steps of a cycle can make up, each taken by one of its relations.
fn phenomena(steps: &[u8]) -> impl Iterator<Item = (Phenomenon, Needs)> {
    let mut made: BTreeSet<MakeUp> = BTreeSet::new();
    for (i, &step) in steps.iter().enumerate() {
        let labels = (0..5).map(|bit| 1 << bit).filter(|label| step & label != 0);
        let mut next = BTreeSet::new();
        for label in labels {
            let anti = label == RW;
            if i == 0 {
                let antis = u8::from(anti);
                next.insert(MakeUp {
                    used: label,
                    first_anti: anti,
                    last_anti: anti,
                    adjacent: false,
                    antis,
                });
            }
            next.extend(made.iter().map(|m| MakeUp {
                used: m.used | label,
                last_anti: anti,
                adjacent: m.adjacent || m.last_anti && anti,
                antis: (m.antis + u8::from(anti)).min(2),
                ..*m
            }));
        }
        made = next;
    }
    made.into_iter().filter_map(|m| {
        let adjacent = m.adjacent || m.first_anti && m.last_anti && m.antis == 2;
        let phenomenon = match m.antis {
            0 if m.used & WR != 0 => Phenomenon::G1c,
            0 if m.used & WW != 0 => Phenomenon::G0,
            0 => return None,
            1 => Phenomenon::GSingle,
            _ if adjacent => Phenomenon::G2,
            _ => Phenomenon::GNonadjacent,
        };
        let needs = match m.used {
            used if used & RT != 0 => Needs::RealTime,
            used if used & SO != 0 => Needs::Session,
            _ => Needs::Nothing,
        };
        Some((phenomenon, needs))
    })
}
