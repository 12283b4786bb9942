//! Vector clocks: which transactions each one has seen, directly or not (`hb = (so ∪ wr)+`).
//!
//! Transaction ids are session-major, so an entry holds an absolute id: `row[s]` is the first transaction of session `s`
//! *not* seen. "Has `t` seen `u`" is then `u < row[session of u]`. Rows live in a pool: a row is free again once the
//! session's next transaction and all readers have taken it over, so memory follows the number of rows still needed,
//! not the length of the history.

use super::problem::Problem;
use isolde_graph::Components;
use isolde_history::TxnId;

const NO_ROW: u32 = u32::MAX;

pub(crate) struct Clocks<'a> {
    problem: Problem<'a>,
    sessions: usize,
    slab: Vec<u32>,
    free: Vec<u32>,
    row_of: Vec<u32>,
    /// How many reads, and the session's next transaction, still need the row.
    needed: Vec<u32>,
    /// The last transaction of each session so far.
    last: Vec<Option<TxnId>>,
    first_of_session: Vec<u32>,
}

impl<'a> Clocks<'a> {
    pub fn new(problem: Problem<'a>) -> Clocks<'a> {
        let n = problem.txn_count();
        let mut needed = vec![1u32; n];
        for t in problem.committed() {
            for r in problem.reads(t) {
                if let Some(w) = r.from {
                    needed[w.index()] += 1;
                }
            }
        }
        let sessions = problem.history.session_count();
        Clocks {
            problem,
            sessions,
            slab: Vec::new(),
            free: Vec::new(),
            row_of: vec![NO_ROW; n],
            needed,
            last: vec![None; sessions],
            first_of_session: first_of_session(&problem),
        }
    }

    /// The row of a transaction that was entered and is still needed.
    #[inline]
    pub fn row(&self, t: TxnId) -> &[u32] {
        let at = self.row_of[t.index()] as usize * self.sessions;
        &self.slab[at..at + self.sessions]
    }

    /// True if `seen hb t`.
    #[inline]
    pub fn has_seen(&self, t: TxnId, seen: TxnId) -> bool {
        seen.0 < self.row(t)[self.problem.history.session_of(seen).index()]
    }

    /// Computes the row of the next transaction in a causal order: its session predecessor and everything it reads from
    /// must have been entered.
    pub fn enter(&mut self, t: TxnId) {
        let session = self.problem.history.session_of(t).index();
        let row = match self.last[session] {
            Some(previous) => {
                self.needed[previous.index()] -= 1;
                if self.needed[previous.index()] == 0 {
                    std::mem::replace(&mut self.row_of[previous.index()], NO_ROW)
                } else {
                    let row = self.allocate();
                    let from = self.row_of[previous.index()] as usize * self.sessions;
                    self.slab.copy_within(from..from + self.sessions, row as usize * self.sessions);
                    row
                }
            }
            None => {
                let row = self.allocate();
                let at = row as usize * self.sessions;
                self.slab[at..at + self.sessions].copy_from_slice(&self.first_of_session);
                row
            }
        };
        self.last[session] = Some(t);
        self.row_of[t.index()] = row;
        self.slab[row as usize * self.sessions + session] = t.0;
        for r in self.problem.reads(t) {
            let Some(w) = r.from else { continue };
            let ws = self.problem.history.session_of(w).index();
            let entry = &mut self.slab[row as usize * self.sessions + ws];
            if *entry <= w.0 {
                *entry = w.0 + 1;
                self.join(row, self.row_of[w.index()]);
            }
        }
    }

    /// Gives up the rows of the transactions `t` reads from. Call once per entered transaction, when done with it.
    pub fn release_sources(&mut self, t: TxnId) {
        for r in self.problem.reads(t) {
            let Some(w) = r.from else { continue };
            self.needed[w.index()] -= 1;
            if self.needed[w.index()] == 0 {
                let row = std::mem::replace(&mut self.row_of[w.index()], NO_ROW);
                self.free.push(row);
            }
        }
    }

    fn allocate(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let row = (self.slab.len() / self.sessions.max(1)) as u32;
            self.slab.resize(self.slab.len() + self.sessions, 0);
            row
        })
    }

    /// `into = max(into, from)`, entry by entry.
    fn join(&mut self, into: u32, from: u32) {
        let (a, b) = (into as usize * self.sessions, from as usize * self.sessions);
        let (into, from) = if a < b {
            let (low, high) = self.slab.split_at_mut(b);
            (&mut low[a..a + self.sessions], &high[..self.sessions])
        } else {
            let (low, high) = self.slab.split_at_mut(a);
            (&mut high[..self.sessions], &low[b..b + self.sessions])
        };
        join(into, from);
    }
}

/// `into = max(into, from)`, entry by entry.
fn join(into: &mut [u32], from: &[u32]) {
    for (x, &y) in into.iter_mut().zip(from) {
        *x = (*x).max(y);
    }
}

fn first_of_session(problem: &Problem<'_>) -> Vec<u32> {
    problem.history.sessions().map(|s| problem.history.session_range(s).start).collect()
}

/// The clocks of all transactions at once, also when causality is cyclic: the members of a cycle have all seen each
/// other, so they share a row. For histories already known to be broken: 4 bytes × transactions × sessions.
pub(crate) struct AllClocks<'a> {
    problem: Problem<'a>,
    sessions: usize,
    slab: Vec<u32>,
    components: Components,
}

impl<'a> AllClocks<'a> {
    pub fn new(problem: Problem<'a>, components: Components) -> AllClocks<'a> {
        let sessions = problem.history.session_count();
        let first = first_of_session(&problem);
        let mut clocks = AllClocks { problem, sessions, slab: first.repeat(components.count()), components };
        let order = clocks.components.topological();
        // Rows of earlier components are complete when a component is reached; inside one, members only add up.
        let mut group = 0;
        while group < order.len() {
            let c = clocks.components.of(order[group]);
            let end = group + clocks.components.size(c) as usize;
            for &t in &order[group..end] {
                clocks.take_over(c, TxnId(t));
            }
            if clocks.components.is_cyclic(order[group]) {
                for &t in &order[group..end] {
                    clocks.raise(c, TxnId(t), t + 1);
                }
            }
            group = end;
        }
        clocks
    }

    fn take_over(&mut self, c: u32, t: TxnId) {
        if !self.problem.index.is_committed(t) {
            return;
        }
        if let Some(previous) = self.problem.session_predecessor(t) {
            self.join_component(c, previous);
        }
        self.raise(c, t, t.0);
        for r in self.problem.reads(t) {
            if let Some(w) = r.from {
                self.join_component(c, w);
                self.raise(c, w, w.0 + 1);
            }
        }
    }

    fn join_component(&mut self, c: u32, t: TxnId) {
        let from = self.components.of(t.0);
        if from != c {
            let k = self.sessions;
            let (a, b) = (c as usize * k, from as usize * k);
            // An edge leads to a smaller component number, so `from` lies behind `c` in the slab.
            let (low, high) = self.slab.split_at_mut(b);
            join(&mut low[a..a + k], &high[..k]);
        }
    }

    fn raise(&mut self, c: u32, t: TxnId, bound: u32) {
        let entry = &mut self.slab[c as usize * self.sessions + self.problem.history.session_of(t).index()];
        *entry = (*entry).max(bound);
    }

    /// The row of a transaction.
    #[inline]
    pub fn row(&self, t: TxnId) -> &[u32] {
        let at = self.components.of(t.0) as usize * self.sessions;
        &self.slab[at..at + self.sessions]
    }

    /// True if `seen hb t`.
    #[inline]
    pub fn has_seen(&self, t: TxnId, seen: TxnId) -> bool {
        seen.0 < self.row(t)[self.problem.history.session_of(seen).index()]
    }

    /// The components of causality.
    pub fn components(&self) -> &Components {
        &self.components
    }
}
