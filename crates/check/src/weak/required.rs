//! The commit-order edges that a level demands, reduced: the same transitive closure with causality as all of them, hence
//! the same strongly connected components (algorithms.md 2.3 to 2.6).
//!
//! If `t3` reads `x` from `t1`, and `t2` also writes `x` and is visible to that read, then `t2` commits before `t1`.
//! `t1` the initial state and any such `t2`: impossible at once.

use super::clocks::AllClocks;
use super::problem::{Problem, Read, Stamped, Writer};
use super::simulate::{by_session, leading};
use isolde_history::{KeyId, OpId, TxnId};

/// `from` must commit before `to`, because `read` returned `to`'s version although it could see `from`'s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequiredEdge {
    pub from: TxnId,
    pub to: TxnId,
    pub read: OpId,
}

/// The demands of a level.
#[derive(Default, Debug)]
pub(crate) struct Required {
    pub edges: Vec<RequiredEdge>,
    /// Some read of the initial state could see a writer of its key.
    pub initial_overwritten: bool,
}

impl Required {
    fn demand(&mut self, t2: TxnId, t1: Writer, read: OpId) {
        match t1 {
            Some(t1) => self.edges.push(RequiredEdge { from: t2, to: t1, read }),
            None => self.initial_overwritten = true,
        }
    }
}

/// A transaction's reads by key, for intersecting them with what another transaction writes.
struct ReadsByKey {
    /// The first entry of `chain` for a key.
    head: Stamped<u32>,
    /// (read, next entry of the same key).
    chain: Vec<(Read, u32)>,
    distinct: usize,
}

const END: u32 = u32::MAX;

impl ReadsByKey {
    fn new(keys: usize) -> Self {
        ReadsByKey { head: Stamped::new(keys), chain: Vec::new(), distinct: 0 }
    }

    fn clear(&mut self) {
        self.head.next_round();
        self.chain.clear();
        self.distinct = 0;
    }

    fn push(&mut self, read: Read) {
        let next = self.head.get(read.key.index()).unwrap_or(END);
        self.distinct += usize::from(next == END);
        self.chain.push((read, next));
        self.head.set(read.key.index(), self.chain.len() as u32 - 1);
    }

    /// Calls `f` with the pushed reads of keys that `writer` writes: iterates the smaller side, O(min) up to a logarithm.
    fn of_keys_written_by(&self, problem: &Problem<'_>, writer: TxnId, mut f: impl FnMut(Read)) {
        if problem.history.op_range(writer).len() <= 8 * self.chain.len() {
            let mut previous = None;
            for key in problem.written(writer) {
                // Twice in a row is the common repeat; a rarer one only repeats an edge.
                if previous == Some(key) {
                    continue;
                }
                previous = Some(key);
                let mut at = self.head.get(key.index()).unwrap_or(END);
                while at != END {
                    let (read, next) = self.chain[at as usize];
                    f(read);
                    at = next;
                }
            }
        } else {
            for &(read, _) in self.chain.iter().filter(|(r, _)| problem.index.writes(writer, r.key)) {
                f(read);
            }
        }
    }
}

/// Read committed, in O(m^{3/2}). Reads are taken from the last to the first; when the first read of a writer `w` is
/// reached, the reads after it are known, and for each key of `w` the *nearest* later read from somebody else gets the
/// edge: that somebody's own first read passes it on to those further away.
pub(crate) fn read_committed(problem: &Problem<'_>) -> Required {
    let mut required = Required::default();
    let mut later = NearestReads::new(problem.history.key_count());
    let mut first = Stamped::<u32>::new(problem.txn_count());
    for t in problem.committed() {
        later.clear();
        first.next_round();
        for read in problem.reads(t) {
            if let Some(w) = read.from
                && first.get(w.index()).is_none()
            {
                first.set(w.index(), read.op.0);
            }
        }
        for read in problem.reads(t).rev() {
            if let Some(w) = read.from
                && first.get(w.index()) == Some(read.op.0)
            {
                later.nearest_overwritten(problem, w, |r| required.demand(w, r.from, r.op));
            }
            later.push(read);
        }
    }
    required
}

/// What is known of the later reads of one key.
#[derive(Clone, Copy, Default)]
struct Later {
    /// The two nearest from different transactions: two suffice to find the nearest that is not from `w`.
    near: [Option<Read>; 2],
    /// The nearest of the initial state.
    initial: Option<Read>,
}

/// The later reads of each key.
struct NearestReads {
    slots: Stamped<Later>,
    keys: Vec<KeyId>,
}

impl NearestReads {
    fn new(keys: usize) -> Self {
        NearestReads { slots: Stamped::new(keys), keys: Vec::new() }
    }

    fn clear(&mut self) {
        self.slots.next_round();
        self.keys.clear();
    }

    fn push(&mut self, read: Read) {
        let mut slot = self.slots.get(read.key.index()).unwrap_or_else(|| {
            self.keys.push(read.key);
            Later::default()
        });
        match slot.near[0] {
            _ if read.from.is_none() => slot.initial = Some(read),
            Some(near) if near.from == read.from => slot.near[0] = Some(read),
            near => slot.near = [Some(read), near],
        }
        self.slots.set(read.key.index(), slot);
    }

    fn nearest_overwritten(&self, problem: &Problem<'_>, w: TxnId, mut f: impl FnMut(Read)) {
        let look = |key: KeyId| {
            let Some(slot) = self.slots.get(key.index()) else { return };
            let other = slot.near.into_iter().flatten().find(|r| r.from != Some(w));
            other.into_iter().chain(slot.initial).for_each(&mut f);
        };
        if problem.history.op_range(w).len() <= 8 * self.keys.len() {
            problem.written(w).for_each(look);
        } else {
            self.keys.iter().copied().filter(|&key| problem.index.writes(w, key)).for_each(look);
        }
    }
}

/// Read atomic, in O(m^{3/2}): the latest earlier writer of the same session, and every transaction read from.
pub(crate) fn read_atomic(problem: &Problem<'_>) -> Required {
    let mut required = Required::default();
    let mut reads = ReadsByKey::new(problem.history.key_count());
    let mut done = Stamped::<()>::new(problem.txn_count());
    let mut last = Stamped::<u32>::new(problem.history.key_count());
    for session in problem.history.sessions() {
        last.next_round();
        for t in problem.history.session_txns(session).filter(|&t| problem.index.is_committed(t)) {
            reads.clear();
            for read in problem.reads(t) {
                reads.push(read);
                if let Some(own) = last.get(read.key.index()).map(TxnId)
                    && read.from != Some(own)
                {
                    required.demand(own, read.from, read.op);
                }
            }
            done.next_round();
            for t2 in problem.reads(t).filter_map(|r| r.from) {
                if done.get(t2.index()).is_none() {
                    done.set(t2.index(), ());
                    reads.of_keys_written_by(problem, t2, |r| {
                        if r.from != Some(t2) {
                            required.demand(t2, r.from, r.op);
                        }
                    });
                }
            }
            for key in problem.written(t) {
                last.set(key.index(), t.0);
            }
        }
    }
    required
}

/// Causal, in O(m·k): of each session only the latest seen writer, earlier ones follow by session order; and none that
/// causality already puts before `t1`.
pub(crate) fn causal(problem: &Problem<'_>, clocks: &AllClocks<'_>) -> Required {
    let mut required = Required::default();
    for t3 in problem.committed() {
        for read in problem.reads(t3) {
            by_session(problem, read.key, |session, writers| {
                let seen = leading(writers, clocks.unseen(t3, session));
                let latest = writers[..seen].iter().rev().copied().find(|&t2| t2 != t3);
                if let Some(t2) = latest
                    && Some(t2) != read.from
                    && !read.from.is_some_and(|t1| clocks.has_seen(t1, t2))
                {
                    required.demand(t2, read.from, read.op);
                }
            });
        }
    }
    required
}
