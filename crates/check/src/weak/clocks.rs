//! Vector clocks: which transactions each one has seen, directly or not (`hb = (so ∪ wr)+`).
//!
//! One entry per *chain*: a session, or several where each begins with a read from the end of the one
//! before, so that having seen a transaction means having seen everything before it in its chain. Clients
//! that open a session per transaction would otherwise make rows as long as the history. An entry counts
//! the transactions of its chain that were seen; "has `t` seen `u`" is one comparison.
//!
//! [`Clocks`] keeps rows in a pool while an order is simulated: a row is free again once the session's next
//! transaction and all readers have taken it over, so memory follows the number of rows still needed, not
//! the length of the history. [`AllClocks`] has all rows at once, in both directions, for histories that
//! turned out to be broken.

use crate::view::CommittedView;
use anomalist_graph::Components;
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
    slab: Vec<u32>,
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
            slab: Vec::new(),
            free: Vec::new(),
            row_of: vec![NO_ROW; n],
            needed,
            last: vec![None; sessions],
        }
    }

    #[inline]
    fn row(&self, t: TxnId) -> &[u32] {
        let at = self.row_of[t.index()] as usize * self.chains.count;
        &self.slab[at..at + self.chains.count]
    }

    /// True if `t` has seen the other; `t` was entered and its row is still needed.
    #[inline]
    pub fn has_seen(&self, t: TxnId, seen: TxnId) -> bool {
        let (chain, number) = self.chains.place(self.view.history.session_of(seen), seen);
        number < self.row(t)[chain]
    }

    /// The first transaction of a session that `t` has not seen.
    #[inline]
    pub fn unseen(&self, t: TxnId, session: SessionId) -> u32 {
        self.chains.bound(session, self.row(t)[self.chains.place[session.index()].0 as usize])
    }

    /// Computes the row of the next transaction in a causal order: its session's one before and its sources
    /// must have been entered.
    pub fn enter(&mut self, t: TxnId, sources: impl Iterator<Item = TxnId>) {
        let session = self.view.history.session_of(t);
        let len = self.chains.count;
        let row = match self.last[session.index()] {
            Some(previous) => {
                self.needed[previous.index()] -= 1;
                if self.needed[previous.index()] == 0 {
                    std::mem::replace(&mut self.row_of[previous.index()], NO_ROW)
                } else {
                    let row = self.allocate();
                    let from = self.row_of[previous.index()] as usize * len;
                    self.slab.copy_within(from..from + len, row as usize * len);
                    row
                }
            }
            None => {
                let row = self.allocate();
                self.slab[row as usize * len..][..len].fill(0);
                row
            }
        };
        self.row_of[t.index()] = row;
        let (own_chain, own_number) = self.chains.place(session, t);
        // Everything earlier in the chain has been seen. A session's first transaction learns that only
        // from what it reads, so there the entry must not yet hide the news.
        let continues = self.last[session.index()].replace(t).is_some();
        if continues {
            self.slab[row as usize * len + own_chain] = own_number;
        }
        for w in sources {
            let (chain, number) = self.chains.place(self.view.history.session_of(w), w);
            let entry = &mut self.slab[row as usize * len + chain];
            if *entry <= number {
                *entry = number + 1;
                self.join(row, self.row_of[w.index()]);
            }
        }
        self.slab[row as usize * len + own_chain] = own_number;
    }

    /// Gives up the rows of the sources of a transaction. Call once per entered transaction.
    pub fn release(&mut self, sources: impl Iterator<Item = TxnId>) {
        for w in sources {
            self.needed[w.index()] -= 1;
            if self.needed[w.index()] == 0 {
                let row = std::mem::replace(&mut self.row_of[w.index()], NO_ROW);
                self.free.push(row);
            }
        }
    }

    fn allocate(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let row = (self.slab.len() / self.chains.count.max(1)) as u32;
            self.slab.resize(self.slab.len() + self.chains.count, 0);
            row
        })
    }

    fn join(&mut self, into: u32, from: u32) {
        let (into, from) = two_rows(&mut self.slab, self.chains.count, into, from);
        for (x, &y) in into.iter_mut().zip(from) {
            *x = (*x).max(y);
        }
    }
}

fn two_rows(slab: &mut [u32], len: usize, into: u32, from: u32) -> (&mut [u32], &[u32]) {
    let (a, b) = (into as usize * len, from as usize * len);
    if a < b {
        let (low, high) = slab.split_at_mut(b);
        (&mut low[a..a + len], &high[..len])
    } else {
        let (low, high) = slab.split_at_mut(a);
        (&mut high[..len], &low[b..b + len])
    }
}

/// Past and future of all transactions at once. The members of a cycle have all seen each other, so they
/// share rows. For histories already known to be broken: 8 bytes × transactions × chains.
pub(crate) struct AllClocks<'a> {
    view: CommittedView<'a>,
    chains: Chains,
    components: Components,
    /// Per component and chain: how many of the chain were seen.
    past: Vec<u32>,
    /// Per component and chain: the number of the first that has seen it.
    future: Vec<u32>,
}

impl<'a> AllClocks<'a> {
    pub fn new(view: CommittedView<'a>, components: Components) -> AllClocks<'a> {
        let cyclic = components.cyclic_count() > 0;
        let chains = if cyclic { Chains::sessions(&view) } else { Chains::new(&view) };
        let size = chains.count * components.count();
        let mut clocks =
            AllClocks { view, chains, components, past: vec![0; size], future: vec![u32::MAX; size] };
        let order = clocks.components.topological();
        // Rows of earlier components are complete when a component is reached; inside one, members only add
        // up.
        let groups = || order.chunk_by(|&a, &b| clocks.components.of(a) == clocks.components.of(b));
        let mut past = std::mem::take(&mut clocks.past);
        let mut future = std::mem::take(&mut clocks.future);
        for group in groups() {
            clocks.fill_past(group, &mut past);
        }
        for group in groups().collect::<Vec<_>>().into_iter().rev() {
            clocks.fill_future(group, &mut future);
        }
        AllClocks { past, future, ..clocks }
    }

    fn committed<'c>(&'c self, group: &'c [u32]) -> impl Iterator<Item = TxnId> + 'c {
        group.iter().map(|&t| TxnId(t)).filter(|&t| self.view.index.is_committed(t))
    }

    fn place(&self, t: TxnId) -> (usize, u32) {
        self.chains.place(self.view.history.session_of(t), t)
    }

    fn fill_past(&self, group: &[u32], past: &mut [u32]) {
        let len = self.chains.count;
        for t in self.committed(group) {
            let c = self.components.of(t.0);
            let sources = self.view.reads(t).filter_map(|r| r.from);
            for before in sources.chain(self.view.session_predecessor(t)) {
                let from = self.components.of(before.0);
                if from != c {
                    let (into, from) = two_rows(past, len, c, from);
                    into.iter_mut().zip(from).for_each(|(x, &y)| *x = (*x).max(y));
                }
                let (chain, number) = self.place(before);
                let entry = &mut past[c as usize * len + chain];
                *entry = (*entry).max(number + 1);
            }
            let (chain, number) = self.place(t);
            let entry = &mut past[c as usize * len + chain];
            *entry = (*entry).max(number + u32::from(self.components.is_cyclic(t.0)));
        }
    }

    /// The mirror image: what has seen `t` is what its readers and its session's next are, or has seen them.
    fn fill_future(&self, group: &[u32], future: &mut [u32]) {
        let len = self.chains.count;
        for t in self.committed(group) {
            let sources = self.view.reads(t).filter_map(|r| r.from);
            for before in sources.chain(self.view.session_predecessor(t)) {
                let into = self.components.of(before.0);
                let (chain, number) = self.place(t);
                let entry = &mut future[into as usize * len + chain];
                *entry = (*entry).min(number);
            }
        }
        // Everything later has passed its row on to this component by now, so its row is complete and can
        // be passed on.
        for t in self.committed(group) {
            let c = self.components.of(t.0);
            let sources = self.view.reads(t).filter_map(|r| r.from);
            for before in sources.chain(self.view.session_predecessor(t)) {
                let into = self.components.of(before.0);
                if into != c {
                    let (into, from) = two_rows(future, len, into, c);
                    into.iter_mut().zip(from).for_each(|(x, &y)| *x = (*x).min(y));
                }
            }
        }
    }

    /// True if `seen hb t`.
    #[inline]
    pub fn has_seen(&self, t: TxnId, seen: TxnId) -> bool {
        let (chain, number) = self.place(seen);
        number < self.past[self.components.of(t.0) as usize * self.chains.count + chain]
    }

    /// The first transaction of a session that `t` has not seen.
    #[inline]
    pub fn unseen(&self, t: TxnId, session: SessionId) -> u32 {
        let chain = self.chains.place[session.index()].0 as usize;
        self.chains.bound(session, self.past[self.components.of(t.0) as usize * self.chains.count + chain])
    }

    /// The first transaction of a session that has seen `t` (or some larger id, if none has).
    #[inline]
    pub fn first_to_see(&self, t: TxnId, session: SessionId) -> u32 {
        let chain = self.chains.place[session.index()].0 as usize;
        self.chains.bound(session, self.future[self.components.of(t.0) as usize * self.chains.count + chain])
    }

    /// The components of causality.
    pub fn components(&self) -> &Components {
        &self.components
    }
}
