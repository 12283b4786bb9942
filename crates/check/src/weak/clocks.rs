//! Vector clocks: which transactions each one has seen, directly or not (`hb = (so ∪ wr)+`).
//!
//! One entry per *chain*: a session, or several where each begins with a read from the end of the one
//! before, so that having seen a transaction means having seen everything before it in its chain. Clients
//! that open a session per transaction would otherwise make rows as long as the history. An entry counts
//! the transactions of its chain that were seen; "has `t` seen `u`" is one comparison. With many chains rows
//! are sparse (`anomalist_graph::Rows`): a session that no other reads from costs one entry in its own rows,
//! and rows that have much in common share it.
//!
//! [`Clocks`] keeps rows in a pool while an order is simulated: a row is free again once the session's next
//! transaction and all readers have taken it over, so memory follows the number of rows still needed, not
//! the length of the history. [`AllClocks`] has all rows at once, in both directions, for histories that
//! turned out to be broken.

use crate::view::CommittedView;
use crate::{Budget, OutOfBudget};
use anomalist_graph::{Components, Rows};
use anomalist_history::{SessionId, TxnId};

/// Sessions strung together into chains.
pub(crate) struct Chains {
    /// Per session: its chain, and what makes a transaction's id its number in the chain when added.
    place: Vec<(u32, u32)>,
    /// Applied to an id before that: all ones where chains are numbered from their end.
    flip: u32,
    first: Vec<u32>,
    count: usize,
}

impl Chains {
    /// Every session a chain of its own: right even when causality has cycles.
    fn sessions(view: &CommittedView<'_>) -> Chains {
        let first: Vec<u32> = view.history.sessions().map(|s| view.history.session_range(s).start).collect();
        let place = first.iter().zip(0..).map(|(&first, c)| (c, 0u32.wrapping_sub(first))).collect();
        Chains { place, flip: 0, count: first.len(), first }
    }

    /// Appends a session to another whose last transaction its first one reads from.
    pub fn new(view: &CommittedView<'_>) -> Chains {
        let history = view.history;
        let mut chains = Chains::sessions(view);
        let committed = |s: SessionId| history.session_txns(s).filter(|&t| view.index.is_committed(t));
        let last: Vec<Option<TxnId>> = history.sessions().map(|s| committed(s).next_back()).collect();
        let mut next: Vec<Option<SessionId>> = vec![None; last.len()];
        let mut has_previous = vec![false; last.len()];
        for session in history.sessions() {
            let Some(begin) = committed(session).next() else { continue };
            let mut sources = view.reads(begin).filter_map(|r| r.from);
            let end_of_another = sources.find(|&w| {
                let s = history.session_of(w);
                s != session && last[s.index()] == Some(w) && next[s.index()].is_none()
            });
            if let Some(w) = end_of_another {
                next[history.session_of(w).index()] = Some(session);
                has_previous[session.index()] = true;
            }
        }
        let mut strung = vec![false; last.len()];
        let mut count = 0;
        for start in history.sessions().filter(|s| !has_previous[s.index()]) {
            let (mut at, mut before) = (Some(start), 0u32);
            while let Some(session) = at {
                let range = history.session_range(session);
                strung[session.index()] = true;
                chains.place[session.index()] = (count, before.wrapping_sub(range.start));
                before += range.len() as u32;
                at = next[session.index()];
            }
            count += 1;
        }
        // Sessions in a ring, which takes a cycle of causality, have no first one: each is a chain of its
        // own.
        for session in history.sessions().filter(|s| !strung[s.index()]) {
            let start = history.session_range(session).start;
            chains.place[session.index()] = (count, 0u32.wrapping_sub(start));
            count += 1;
        }
        chains.count = count as usize;
        chains
    }

    /// The same chains, numbered from their end: for clocks that run backwards.
    pub fn reversed(mut self, view: &CommittedView<'_>) -> Chains {
        let mut length = vec![0u32; self.count];
        for session in view.history.sessions() {
            length[self.place[session.index()].0 as usize] +=
                view.history.session_range(session).len() as u32;
        }
        // length − 1 − (id + offset) = !id + (length − offset)
        for (chain, offset) in &mut self.place {
            *offset = length[*chain as usize].wrapping_sub(*offset);
        }
        self.flip = u32::MAX;
        self
    }

    /// The chain of a transaction of this session, and its number in it.
    #[inline]
    fn place(&self, session: SessionId, t: TxnId) -> (usize, u32) {
        let (chain, offset) = self.place[session.index()];
        (chain as usize, (t.0 ^ self.flip).wrapping_add(offset))
    }

    /// The first transaction of a session that a row with this entry has not seen. (Not for chains numbered
    /// from the end.)
    #[inline]
    fn bound(&self, session: SessionId, entry: u32) -> u32 {
        let first = self.first[session.index()];
        let before = self.place[session.index()].1.wrapping_add(first);
        first.saturating_add(entry.saturating_sub(before))
    }
}

const NO_ROW: u32 = u32::MAX;

/// The clocks of an order that is simulated.
pub(crate) struct Clocks<'a, 'b> {
    view: CommittedView<'a>,
    chains: &'b Chains,
    rows: Rows,
    free: Vec<u32>,
    row_of: Vec<u32>,
    /// How many reads, and the session's next transaction, still need the row.
    needed: Vec<u32>,
    /// The last transaction of each session so far.
    last: Vec<Option<TxnId>>,
}

impl<'a, 'b> Clocks<'a, 'b> {
    /// What each transaction has seen. Its sources are the transactions it reads from, and the one it
    /// branches off.
    pub fn forward(view: CommittedView<'a>, chains: &'b Chains) -> Clocks<'a, 'b> {
        let mut needed = vec![1u32; view.txn_count()];
        for t in view.committed() {
            for w in view.reads(t).filter_map(|r| r.from).chain(view.trunk(t)) {
                needed[w.index()] += 1;
            }
        }
        Clocks::new(view, chains, needed)
    }

    /// What has seen each transaction. Its sources are its readers and those that branch off it; chains are
    /// numbered from their end.
    pub fn backward(view: CommittedView<'a>, chains: &'b Chains) -> Clocks<'a, 'b> {
        let mut needed = vec![1u32; view.txn_count()];
        for t in view.committed() {
            let sources = view.reads(t).filter_map(|r| r.from).chain(view.trunk(t));
            needed[t.index()] += sources.count() as u32;
        }
        Clocks::new(view, chains, needed)
    }

    fn new(view: CommittedView<'a>, chains: &'b Chains, needed: Vec<u32>) -> Clocks<'a, 'b> {
        let n = view.txn_count();
        let sessions = view.history.session_count();
        Clocks {
            view,
            chains,
            rows: Rows::new(chains.count, 0),
            free: Vec::new(),
            row_of: vec![NO_ROW; n],
            needed,
            last: vec![None; sessions],
        }
    }

    /// True if `t` has seen the other; `t` was entered and its row is still needed.
    #[inline]
    pub fn has_seen(&self, t: TxnId, seen: TxnId) -> bool {
        let (chain, number) = self.chains.place(self.view.history.session_of(seen), seen);
        number < self.rows.get(self.row_of[t.index()], chain)
    }

    /// The first transaction of a session that `t` has not seen.
    #[inline]
    pub fn unseen(&self, t: TxnId, session: SessionId) -> u32 {
        let chain = self.chains.place[session.index()].0 as usize;
        self.chains.bound(session, self.rows.get(self.row_of[t.index()], chain))
    }

    /// Computes the row of the next transaction in a causal order: its session's one before and its sources
    /// must have been entered.
    pub fn enter(&mut self, t: TxnId, sources: impl Iterator<Item = TxnId>) {
        let session = self.view.history.session_of(t);
        let previous = self.last[session.index()].replace(t);
        let row = match previous {
            Some(previous) => {
                self.needed[previous.index()] -= 1;
                if self.needed[previous.index()] == 0 {
                    std::mem::replace(&mut self.row_of[previous.index()], NO_ROW)
                } else {
                    let row = self.allocate();
                    self.rows.copy(row, self.row_of[previous.index()]);
                    row
                }
            }
            None => {
                let row = self.allocate();
                self.rows.clear(row);
                row
            }
        };
        self.row_of[t.index()] = row;
        let (own_chain, own_number) = self.chains.place(session, t);
        // Everything earlier in the chain has been seen. A session's first transaction learns that only
        // from what it reads, so there the entry must not yet hide the news.
        if previous.is_some() {
            self.rows.raise(row, own_chain, own_number);
        }
        for w in sources {
            let (chain, number) = self.chains.place(self.view.history.session_of(w), w);
            if self.rows.raise(row, chain, number + 1) {
                self.rows.join(row, self.row_of[w.index()]);
            }
        }
        self.rows.raise(row, own_chain, own_number);
    }

    /// Gives up the rows of the sources of a transaction. Call once per entered transaction.
    pub fn release(&mut self, sources: impl Iterator<Item = TxnId>) {
        sources.for_each(|w| self.one_less(w));
    }

    /// Gives up the row of the last transaction of a session: no next one takes it over.
    pub fn release_last(&mut self, t: TxnId) {
        self.one_less(t);
    }

    fn one_less(&mut self, t: TxnId) {
        let needed = &mut self.needed[t.index()];
        *needed -= 1;
        if *needed == 0 {
            let row = std::mem::replace(&mut self.row_of[t.index()], NO_ROW);
            self.rows.release(row);
            self.free.push(row);
        }
    }

    fn allocate(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| self.rows.push())
    }
}

/// Components between two looks at the budget.
const POLL_EVERY: usize = 4096;

/// Past and future of all transactions at once. The members of a cycle have all seen each other, so they
/// share rows. For histories already known to be broken: 8 bytes × transactions × chains, or what sparse
/// rows take.
pub(crate) struct AllClocks<'a> {
    view: CommittedView<'a>,
    chains: Chains,
    components: Components,
    /// Per component and chain: how many of the chain were seen.
    past: Rows,
    /// Per component and chain: the number of the first that has seen it, subtracted from the largest
    /// number; 0: none has.
    future: Rows,
}

impl<'a> AllClocks<'a> {
    pub fn new(
        view: CommittedView<'a>,
        components: Components,
        budget: &Budget<'_>,
    ) -> Result<AllClocks<'a>, OutOfBudget> {
        let cyclic = components.cyclic_count() > 0;
        let chains = if cyclic { Chains::sessions(&view) } else { Chains::new(&view) };
        let none = || Rows::new(chains.count, 0);
        let (width, count) = (chains.count, components.count());
        if !budget.allows(2 * Rows::bytes(width, count)) {
            return Err(OutOfBudget);
        }
        let mut clocks = AllClocks { view, past: none(), future: none(), chains, components };
        let order = clocks.components.topological();
        // Rows of earlier components are complete when a component is reached; inside one, members only add
        // up.
        let groups: Vec<&[u32]> =
            order.chunk_by(|&a, &b| clocks.components.of(a) == clocks.components.of(b)).collect();
        let (mut past, mut future) = (Rows::new(width, count), Rows::new(width, count));
        for (i, group) in groups.iter().enumerate() {
            if i.is_multiple_of(POLL_EVERY) && budget.is_spent() {
                return Err(OutOfBudget);
            }
            clocks.fill_past(group, &mut past);
        }
        for (i, group) in groups.iter().rev().enumerate() {
            if i.is_multiple_of(POLL_EVERY) && budget.is_spent() {
                return Err(OutOfBudget);
            }
            clocks.fill_future(group, &mut future);
        }
        (clocks.past, clocks.future) = (past, future);
        Ok(clocks)
    }

    fn committed<'c>(&'c self, group: &'c [u32]) -> impl Iterator<Item = TxnId> + 'c {
        group.iter().map(|&t| TxnId(t)).filter(|&t| self.view.index.is_committed(t))
    }

    fn place(&self, t: TxnId) -> (usize, u32) {
        self.chains.place(self.view.history.session_of(t), t)
    }

    fn fill_past(&self, group: &[u32], past: &mut Rows) {
        for t in self.committed(group) {
            let c = self.components.of(t.0);
            let sources = self.view.reads(t).filter_map(|r| r.from);
            for before in sources.chain(self.view.session_predecessor(t)) {
                past.join(c, self.components.of(before.0));
                let (chain, number) = self.place(before);
                past.raise(c, chain, number + 1);
            }
            let (chain, number) = self.place(t);
            past.raise(c, chain, number + u32::from(self.components.is_cyclic(t.0)));
        }
    }

    /// The mirror image: what has seen `t` is what its readers and its session's next are, or has seen them.
    fn fill_future(&self, group: &[u32], future: &mut Rows) {
        for t in self.committed(group) {
            let sources = self.view.reads(t).filter_map(|r| r.from);
            let (chain, number) = self.place(t);
            for before in sources.chain(self.view.session_predecessor(t)) {
                future.raise(self.components.of(before.0), chain, u32::MAX - number);
            }
        }
        // Everything later has passed its row on to this component by now, so its row is complete and can
        // be passed on.
        for t in self.committed(group) {
            let c = self.components.of(t.0);
            let sources = self.view.reads(t).filter_map(|r| r.from);
            for before in sources.chain(self.view.session_predecessor(t)) {
                future.join(self.components.of(before.0), c);
            }
        }
    }

    /// True if `seen hb t`.
    #[inline]
    pub fn has_seen(&self, t: TxnId, seen: TxnId) -> bool {
        let (chain, number) = self.place(seen);
        number < self.past.get(self.components.of(t.0), chain)
    }

    /// The first transaction of a session that `t` has not seen.
    #[inline]
    pub fn unseen(&self, t: TxnId, session: SessionId) -> u32 {
        let chain = self.chains.place[session.index()].0 as usize;
        self.chains.bound(session, self.past.get(self.components.of(t.0), chain))
    }

    /// The first transaction of a session that has seen `t` (or some larger id, if none has).
    #[inline]
    pub fn first_to_see(&self, t: TxnId, session: SessionId) -> u32 {
        let chain = self.chains.place[session.index()].0 as usize;
        self.chains.bound(session, u32::MAX - self.future.get(self.components.of(t.0), chain))
    }

    /// The components of causality.
    pub fn components(&self) -> &Components {
        &self.components
    }
}
