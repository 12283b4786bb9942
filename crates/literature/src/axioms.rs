//! Levels with one commit order and a source for every read (Biswas & Enea 2019).
//!
//! MonkeyDB, Definition 3.3: a history with a write-read relation `wr` satisfies a level if there is a
//! strict total order `co` of its transactions that contains `wr` and `so`, in which the level's axiom
//! holds. All axioms are instances of MonkeyDB's (1): *if a read takes key k from t1, and another
//! transaction t2 that writes k is visible to that read, then t2 comes before t1 in co*. A history
//! includes a transaction that writes the initial values and precedes all others (MonkeyDB, after
//! Definition 3.2).
//!
//! The text of the original (Biswas & Enea, "On the complexity of checking transactional consistency",
//! OOPSLA 2019) was not at hand for this transcription. Read committed, causal and serializable are
//! restated in MonkeyDB, Figure 3, read atomic and causal in Plume, Definitions 5 and 6; for the axioms
//! Prefix and Conflict MonkeyDB refers to the original, which is restated from memory. The session
//! guarantees are those of `docs/spec/levels.md` 2: the papers have none.
//!
//! What is visible to a read concerns only transactions that are earlier in `co`, so transactions are
//! placed one by one, the sources of a transaction's reads are chosen when it is placed, and the axiom is
//! checked at once.

use crate::facts::{Effect, External, Parts, Set, members};
use crate::model::{Atom, History, Key, Seen};
use crate::order::{Before, complete, next};

/// What is visible to a read of a transaction `t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axiom {
    /// Nothing. There is only an order that contains `wr` (and the versions of each key, as every order
    /// does).
    None,
    /// MonkeyDB, Figure 3a, Read Committed: from whom `t` read, whatever the key, earlier in program
    /// order. (Plume's RC-(4) says "another key"; Biswas & Enea do not.)
    ReadCommitted,
    /// Plume, Definition 5, Read Atomic: what precedes `t` by `so ∪ wr`.
    ReadAtomic,
    /// MonkeyDB, Figure 3b; Plume, Definition 6, Causal: what precedes `t` by `(so ∪ wr)+`.
    Causal,
    /// Biswas & Enea 2019, Prefix: what precedes `t` by `co* ; (so ∪ wr)`.
    Prefix,
    /// Biswas & Enea 2019, Prefix and Conflict together: also what precedes or is, in `co`, a transaction
    /// before `t` in `co` that writes a key that `t` writes.
    Snapshot,
    /// MonkeyDB, Figure 3c, Serializability: what precedes `t` in `co`.
    Serializable,
    /// `docs/spec/levels.md` 2, read your writes: `so`.
    ReadYourWrites,
    /// `docs/spec/levels.md` 2, monotonic reads: `wr ; so`.
    MonotonicReads,
    /// `docs/spec/levels.md` 2, monotonic writes: `so ; wr`.
    MonotonicWrites,
    /// `docs/spec/levels.md` 2, writes follow reads: `wr ; so ; wr`.
    WritesFollowReads,
}

/// The transaction that writes the initial values.
pub const INIT: usize = History::MOST;

/// An order being built.
pub struct Execution<'p> {
    /// The history.
    pub parts: &'p Parts<'p>,
    axiom: Axiom,
    so: &'p Before,
    /// The transactions placed so far, in commit order.
    pub order: Vec<usize>,
    /// The same as a set.
    pub placed: Set,
    /// By transaction, the source of each external read.
    pub sources: Vec<Vec<usize>>,
    rank: [usize; History::MOST + 1],
    wr: [Set; History::MOST],
    past: [Set; History::MOST],
}

/// Whether there are outcomes, an order that contains `so`, and sources, such that the axiom holds, and
/// `also` at the end.
pub fn satisfies(
    parts: &Parts<'_>,
    so: &Before,
    axiom: Axiom,
    also: &dyn Fn(&Execution<'_>) -> bool,
) -> bool {
    let count = parts.history.txns.len();
    let mut execution = Execution {
        parts,
        axiom,
        so,
        order: Vec::with_capacity(count),
        placed: 0,
        sources: vec![Vec::new(); count],
        rank: [0; History::MOST + 1],
        wr: [0; History::MOST],
        past: [0; History::MOST],
    };
    parts.internal() && execution.place(also)
}

impl Execution<'_> {
    fn place(&mut self, also: &dyn Fn(&Execution<'_>) -> bool) -> bool {
        if complete(self.parts, self.placed) && also(self) {
            return true;
        }
        let parts = self.parts;
        next(parts, self.so, self.placed).any(|t| self.choose(t, also))
    }

    /// Chooses a source for the next read of `t`; when all have one, places `t` if the axiom holds.
    fn choose(&mut self, t: usize, also: &dyn Fn(&Execution<'_>) -> bool) -> bool {
        let parts = self.parts;
        let chosen = self.sources[t].len();
        let Some(read) = parts.facts[t].reads.get(chosen) else {
            return self.put(t, also);
        };
        for source in self.candidates(read) {
            self.sources[t].push(source);
            if self.choose(t, also) {
                return true;
            }
            self.sources[t].pop();
        }
        false
    }

    fn put(&mut self, t: usize, also: &dyn Fn(&Execution<'_>) -> bool) -> bool {
        let sources = self.sources[t].iter().filter(|&&s| s != INIT);
        self.wr[t] = sources.fold(0, |set, &s| set | 1 << s);
        let direct = (self.so[t] & self.placed) | self.wr[t];
        self.past[t] = members(direct).fold(direct, |past, p| past | self.past[p]);
        if !self.axiom_holds(t) {
            return false;
        }
        self.order.push(t);
        self.rank[t] = self.order.len();
        self.placed |= 1 << t;
        if self.place(also) {
            return true;
        }
        self.placed &= !(1 << t);
        self.order.pop();
        false
    }

    /// From whom a read can be: the initial state, or a transaction placed before whose version it
    /// returned.
    fn candidates(&self, read: &External) -> Vec<usize> {
        match &read.seen {
            Seen::Atom(value) => {
                let effect = |t: usize| &self.parts.facts[t].effect[read.key];
                let wrote = |t: &&usize| matches!(effect(**t), Some(Effect::Value(v)) if v == value);
                let init = (self.parts.history.initial == *value).then_some(INIT);
                init.into_iter().chain(self.order.iter().filter(wrote).copied()).collect()
            }
            Seen::List(list) => self.version(read.key, list).into_iter().collect(),
        }
    }

    /// Whose version of a list this is. The versions of a key are made by its writers in commit order.
    fn version(&self, key: Key, list: &[Atom]) -> Option<usize> {
        let (mut rest, mut last) = (list, INIT);
        for &t in &self.order {
            if rest.is_empty() {
                break;
            }
            if let Some(Effect::Elements(more)) = &self.parts.facts[t].effect[key] {
                rest = rest.strip_prefix(more.as_slice())?;
                last = t;
            }
        }
        rest.is_empty().then_some(last)
    }

    /// (1) for all reads of `t`, which would be placed next.
    fn axiom_holds(&self, t: usize) -> bool {
        let facts = &self.parts.facts;
        facts[t].reads.iter().zip(&self.sources[t]).enumerate().all(|(place, (read, &t1))| {
            let newer =
                |t2: usize| t2 != t1 && facts[t2].writes(read.key) && self.rank_of(t2) > self.rank_of(t1);
            !members(self.visible(t, place)).any(newer)
        })
    }

    fn rank_of(&self, t: usize) -> usize {
        if t == INIT { 0 } else { self.rank[t] }
    }

    fn visible(&self, t: usize, place: usize) -> Set {
        let (so, wr) = (self.so[t] & self.placed, self.wr[t]);
        let sessions = |of: Set| members(of).fold(0, |set, p| set | self.so[p] & self.placed);
        let reads = |of: Set| members(of).fold(0, |set, p| set | self.wr[p]);
        match self.axiom {
            Axiom::None => 0,
            Axiom::ReadCommitted => {
                let earlier = self.sources[t][..place].iter().filter(|&&s| s != INIT);
                earlier.fold(0, |set, &s| set | 1 << s)
            }
            Axiom::ReadAtomic => so | wr,
            Axiom::Causal => self.past[t],
            Axiom::Prefix => self.up_to(so | wr),
            Axiom::Snapshot => self.up_to(so | wr | self.conflicting(t)),
            Axiom::Serializable => self.placed,
            Axiom::ReadYourWrites => so,
            Axiom::MonotonicReads => reads(so),
            Axiom::MonotonicWrites => sessions(wr),
            Axiom::WritesFollowReads => reads(sessions(wr)),
        }
    }

    /// The transactions of a set and those before them in commit order.
    fn up_to(&self, last: Set) -> Set {
        let end = self.order.iter().rposition(|&t| last >> t & 1 == 1).map_or(0, |i| i + 1);
        self.order[..end].iter().fold(0, |set, &t| set | 1 << t)
    }

    /// Transactions placed that write a key that `t` writes.
    fn conflicting(&self, t: usize) -> Set {
        let facts = &self.parts.facts;
        let conflict = |&p: &usize| {
            (0..self.parts.history.kinds.len()).any(|k| facts[p].writes(k) && facts[t].writes(k))
        };
        members(self.placed).filter(conflict).fold(0, |set, p| set | 1 << p)
    }
}
