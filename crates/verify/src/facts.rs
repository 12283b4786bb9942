//! What the operations of a history say by themselves: who wrote which value, and what may explain a read.
//!
//! Linear in the history, apart from sorting.

use anomalist_history::{History, KeyId, Op, OpId, OpKind, Outcome, TxnId, Value};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// What the operations say by themselves, before any choice.
pub(crate) struct Facts<'a> {
    pub history: &'a History,
    /// The transaction of every operation.
    owner: Vec<TxnId>,
    /// Is this a write that its transaction does not write over?
    is_final: Vec<bool>,
    is_list: Vec<bool>,
    written: FxHashMap<(KeyId, Value), Group>,
    /// All writes, grouped by key and value, ascending inside a group.
    all: Vec<OpId>,
    /// Those of transactions that did not abort, grouped likewise; of a register only the last of each
    /// transaction.
    live: Vec<OpId>,
}

/// The writes of one value to one key: ranges of [`Facts::all`] and [`Facts::live`].
#[derive(Clone)]
struct Group {
    all: Range<usize>,
    live: Range<usize>,
}

impl<'a> Facts<'a> {
    pub fn new(history: &'a History) -> Facts<'a> {
        let mut owner = Vec::with_capacity(history.op_count());
        let mut is_list = vec![false; history.key_count()];
        for t in history.txns() {
            for (_, op) in history.ops(t) {
                owner.push(t);
                is_list[op.key.index()] |= op.kind == OpKind::Append || op.value.is_list();
            }
        }
        let mut facts = Facts {
            history,
            owner,
            is_final: vec![false; history.op_count()],
            is_list,
            written: FxHashMap::default(),
            all: Vec::new(),
            live: Vec::new(),
        };
        facts.mark_final();
        facts.group_writes();
        facts
    }

    fn mark_final(&mut self) {
        // The transaction, counted from 1, that was last seen to write the key; ids descend.
        let mut last_writer = vec![0u32; self.history.key_count()];
        for (i, head) in self.history.heads().iter().enumerate().rev() {
            let t = self.owner[i].0 + 1;
            if !head.is_read() && last_writer[head.key().index()] != t {
                last_writer[head.key().index()] = t;
                self.is_final[i] = true;
            }
        }
    }

    fn group_writes(&mut self) {
        let mut writes: Vec<(KeyId, Value, OpId)> = Vec::new();
        for (i, (head, &value)) in self.history.heads().iter().zip(self.history.values()).enumerate() {
            // A write to a list key is no element of any list.
            let shown =
                !head.is_read() && (head.kind() == OpKind::Append || !self.is_list[head.key().index()]);
            if shown {
                writes.push((head.key(), value, OpId(i as u32)));
            }
        }
        writes.sort_unstable();
        for same in writes.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (all, live) = (self.all.len(), self.live.len());
            for &(_, _, op) in same {
                self.all.push(op);
                if self.history.outcome(self.owner(op)) == Outcome::Aborted {
                    continue;
                }
                match self.live[live..].last() {
                    Some(&last) if self.owner(last) == self.owner(op) && !self.is_list[same[0].0.index()] => {
                        self.live.pop()
                    }
                    _ => None,
                };
                self.live.push(op);
            }
            let group = Group { all: all..self.all.len(), live: live..self.live.len() };
            self.written.insert((same[0].0, same[0].1), group);
        }
    }

    pub fn owner(&self, op: OpId) -> TxnId {
        self.owner[op.index()]
    }

    /// True for a write that its transaction does not write over.
    pub fn is_final(&self, op: OpId) -> bool {
        self.is_final[op.index()]
    }

    /// True if one transaction had taken effect when another began. It is not known when one of unknown
    /// outcome took effect.
    pub fn ended_before(&self, a: TxnId, b: TxnId) -> bool {
        let Some(intervals) = self.history.intervals() else { return false };
        self.end(a).is_some_and(|end| end < intervals[b.index()].invoked)
    }

    /// True if no transaction was invoked before an earlier one of its session. Then every transaction that
    /// had ended when one began had also ended when the next of that one's session began, so leaving out
    /// the one loses nothing.
    pub fn sessions_follow_the_clock(&self) -> bool {
        let Some(intervals) = self.history.intervals() else { return true };
        let invoked = |t: TxnId| intervals[t.index()].invoked;
        let previous = |t: TxnId| self.history.before_in_session(t).next_back();
        self.history.txns().all(|t| previous(t).is_none_or(|before| invoked(before) <= invoked(t)))
    }

    /// When a transaction had certainly taken effect.
    pub fn end(&self, t: TxnId) -> Option<u64> {
        let over = self.history.outcome(t) == Outcome::Committed;
        self.history.intervals().filter(|_| over).and_then(|intervals| intervals[t.index()].completed)
    }

    pub fn is_list_key(&self, key: KeyId) -> bool {
        self.is_list[key.index()]
    }

    /// The keys a transaction writes, each once, with its final write.
    pub fn written(&self, t: TxnId) -> impl Iterator<Item = (KeyId, OpId)> + '_ {
        let range = self.history.op_range(t);
        range.filter(|&i| self.is_final[i]).map(|i| (self.history.heads()[i].key(), OpId(i as u32)))
    }

    /// What a read of this value, or an element of a list, may have returned: writes by other transactions,
    /// not aborted, and the initial state of a register.
    pub fn candidates(&self, reader: TxnId, key: KeyId, value: Value) -> Candidates<'_> {
        let live = self.written.get(&(key, value)).map_or(&[][..], |g| &self.live[g.live.clone()]);
        let before = live.partition_point(|&op| self.owner(op) < reader);
        let after = live.partition_point(|&op| self.owner(op) <= reader);
        let initial = !self.is_list_key(key) && self.history.initial().of(key) == Some(value);
        Candidates { before: &live[..before], after: &live[after..], initial }
    }

    /// The reader's own writes of a value, earlier and later ones.
    pub fn own_writes(&self, reader: TxnId, key: KeyId, value: Value) -> &[OpId] {
        let all = self.written.get(&(key, value)).map_or(&[][..], |g| &self.all[g.all.clone()]);
        let before = all.partition_point(|&op| self.owner(op) < reader);
        let after = all.partition_point(|&op| self.owner(op) <= reader);
        &all[before..after]
    }

    pub fn wrote_itself(&self, reader: TxnId, key: KeyId, value: Value) -> bool {
        !self.own_writes(reader, key, value).is_empty()
    }

    /// True if only aborted transactions made a write like this one.
    pub fn is_aborted_only(&self, write: Op) -> bool {
        self.written.get(&(write.key, write.value)).is_some_and(|group| group.live.is_empty())
    }

    pub fn is_written(&self, key: KeyId, value: Value) -> bool {
        self.written.contains_key(&(key, value))
    }
}

/// What may explain a read.
#[derive(Clone, Copy)]
pub(crate) struct Candidates<'a> {
    before: &'a [OpId],
    after: &'a [OpId],
    /// The initial state may.
    pub initial: bool,
}

impl Candidates<'_> {
    /// The writes.
    pub fn writes(&self) -> impl Iterator<Item = OpId> + '_ {
        self.before.iter().chain(self.after).copied()
    }

    /// The writes, and `None` for the initial state.
    pub fn iter(&self) -> impl Iterator<Item = Option<OpId>> + '_ {
        self.writes().map(Some).chain(self.initial.then_some(None))
    }

    pub fn len(&self) -> usize {
        self.before.len() + self.after.len() + usize::from(self.initial)
    }

    /// The only one; `Some(None)`: the initial state.
    pub fn only(&self) -> Option<Option<OpId>> {
        if self.len() == 1 { self.iter().next() } else { None }
    }

    /// The only one, which is a write.
    pub fn only_write(&self) -> Option<OpId> {
        self.only().flatten()
    }
}
