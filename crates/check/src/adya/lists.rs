//! The version order of every list key, and where each read stands in it.
//!
//! A read returns the whole list, so it is a version with its history. On a sound key all reads are
//! prefixes of the longest, which the index has checked: the order is the longest read's, and a read's
//! place is its length. Appends by committed transactions that no read shows come after all that are shown,
//! or the longest read would show them; among each other they are in no known order.
//!
//! A key is *damaged* if the index found a fault in one of its reads. There the lists are gone through
//! element by element: what no committed transaction appended is bridged, an element counts where it is
//! first, and only the prefix on which all reads agree is an order. A transaction's own appends at the end
//! of its read say nothing about others; what is before them is what it read. O(operations), and
//! O(elements) on damaged keys.

use crate::view::CommittedView;
use crate::view::EpochMap;
use anomalist_history::{FaultKind, History, Index, KeyId, OpId, OpKind, Outcome, Source, TxnId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

const NONE: u32 = u32::MAX;

/// The version orders of all list keys.
pub(crate) struct Lists {
    /// Per key, where its order begins in `appends`.
    start: Vec<u32>,
    appends: Vec<OpId>,
    writers: Vec<TxnId>,
    /// Per key, the read that shows the whole order.
    shown_by: Vec<u32>,
    /// Per key, where its unordered appends begin in `later`.
    later_start: Vec<u32>,
    later: Vec<Append>,
    /// Per operation: an append's position in `appends`; for a read, the position after the last append it
    /// shows.
    place: Vec<u32>,
    /// Reads that show more than all reads of the key agree on: the last append they show.
    beyond: FxHashMap<OpId, Append>,
    damaged: Vec<KeyId>,
    /// Reads of damaged keys that no one order explains: one pair per key, or one read of elements out of
    /// program order.
    contradictions: Vec<(OpId, OpId)>,
    unattributed: bool,
}

/// An append with its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Append {
    pub txn: TxnId,
    pub op: OpId,
}

/// What a read of a list saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// All up to this position of the key's order, and nothing after it.
    At(u32),
    /// More than reads agree on, ending with this append.
    Beyond(Append),
}

impl Lists {
    pub fn new(view: CommittedView<'_>) -> Lists {
        let CommittedView { history, index, .. } = view;
        let keys = history.key_count();
        if !history.has_lists() {
            return Lists::none();
        }
        let damaged = damaged_keys(history, index);
        let mut repaired = Repaired::of(history, index, &damaged);
        let mut lists = Lists {
            start: Vec::with_capacity(keys + 1),
            appends: Vec::new(),
            writers: Vec::new(),
            shown_by: vec![NONE; keys],
            later_start: vec![0; keys + 1],
            later: Vec::new(),
            place: vec![NONE; history.op_count()],
            beyond: std::mem::take(&mut repaired.beyond),
            damaged,
            contradictions: std::mem::take(&mut repaired.contradictions),
            unattributed: repaired.unattributed,
        };
        lists.set_orders(view, &repaired);
        lists.place_reads(view, &repaired);
        lists.collect_later(view);
        lists
    }

    fn none() -> Lists {
        Lists {
            start: Vec::new(),
            appends: Vec::new(),
            writers: Vec::new(),
            shown_by: Vec::new(),
            later_start: Vec::new(),
            later: Vec::new(),
            place: Vec::new(),
            beyond: FxHashMap::default(),
            damaged: Vec::new(),
            contradictions: Vec::new(),
            unattributed: false,
        }
    }

    fn set_orders(&mut self, view: CommittedView<'_>, repaired: &Repaired) {
        let mut known = view.index.version_orders().iter().peekable();
        self.start.push(0);
        for key in view.history.keys() {
            let mut order = None;
            while let Some(next) = known.next_if(|o| o.key <= key) {
                order = order.or((next.key == key).then_some(next));
            }
            if let Some((read, agreed)) = repaired.orders.get(&key) {
                self.shown_by[key.index()] = read.0;
                self.appends.extend_from_slice(agreed);
            } else if let Some(order) = order.filter(|_| !self.is_damaged(key)) {
                self.shown_by[key.index()] = order.read.0;
                self.appends.extend_from_slice(&order.appends);
            }
            self.start.push(self.appends.len() as u32);
        }
        for (i, op) in self.appends.iter().enumerate() {
            self.place[op.index()] = i as u32;
        }
        self.writers = vec![TxnId(NONE); self.appends.len()];
    }

    /// Places reads, and notes the transactions of ordered appends on the way.
    fn place_reads(&mut self, view: CommittedView<'_>, repaired: &Repaired) {
        let CommittedView { history, index, .. } = view;
        let mut own: EpochMap<u32> = EpochMap::new(history.key_count());
        for t in view.committed() {
            own.next_round();
            for i in history.op_range(t) {
                let head = history.heads()[i];
                let key = head.key();
                if head.kind() == OpKind::Append {
                    let so_far = own.get(key.index()).unwrap_or(0);
                    own.set(key.index(), so_far + 1);
                    if self.place[i] != NONE {
                        self.writers[self.place[i] as usize] = t;
                    }
                    continue;
                }
                let read = OpId(i as u32);
                let Some(elements) = history.list(history.values()[i]) else { continue };
                let base = self.start[key.index()];
                if self.is_damaged(key) {
                    if let Some(&length) = repaired.lengths.get(&read) {
                        self.place[i] = base + length;
                    }
                } else if !matches!(index.source(read), Source::Ambiguous | Source::Fault | Source::NotJudged)
                {
                    let own = own.get(key.index()).unwrap_or(0);
                    self.place[i] = base + (elements.len() as u32).saturating_sub(own);
                }
            }
        }
    }

    fn collect_later(&mut self, view: CommittedView<'_>) {
        let CommittedView { history, index, .. } = view;
        // With an element that several transactions appended, who is missing from a list is open; and so it
        // is where lists contradict each other.
        let key = |&(read, _): &(OpId, OpId)| history.heads()[read.index()].key();
        let mut open: FxHashSet<KeyId> = self.contradictions.iter().map(key).collect();
        if index.ambiguous_reads() > 0 {
            let ambiguous = |i: &usize| index.source(OpId(*i as u32)) == Source::Ambiguous;
            open.extend((0..history.op_count()).filter(ambiguous).map(|i| history.heads()[i].key()));
        }
        let mut found: Vec<(KeyId, Append)> = Vec::new();
        for txn in view.committed() {
            for i in history.op_range(txn) {
                let head = history.heads()[i];
                if head.kind() == OpKind::Append && self.place[i] == NONE && !open.contains(&head.key()) {
                    found.push((head.key(), Append { txn, op: OpId(i as u32) }));
                }
            }
        }
        found.sort_by_key(|&(key, _)| key);
        for &(key, append) in &found {
            self.later_start[key.index() + 1] += 1;
            self.later.push(append);
        }
        for k in 0..history.key_count() {
            self.later_start[k + 1] += self.later_start[k];
        }
    }

    /// True if there are lists at all.
    pub fn any(&self) -> bool {
        !self.place.is_empty()
    }

    /// Keys with a fault in one of their reads.
    pub fn damaged(&self) -> &[KeyId] {
        &self.damaged
    }

    /// True if no order of appends makes all lists what they were seen to be.
    pub fn is_contradictory(&self) -> bool {
        !self.contradictions.is_empty()
    }

    /// True if a list of a damaged key shows an element that several transactions appended: it says
    /// something about their order, but not what.
    pub fn is_unattributed(&self) -> bool {
        self.unattributed
    }

    /// Of damaged keys, pairs of reads that no one order of appends explains; a single read is paired with
    /// itself.
    pub fn contradictions(&self) -> &[(OpId, OpId)] {
        &self.contradictions
    }

    pub fn is_damaged(&self, key: KeyId) -> bool {
        self.damaged.binary_search(&key).is_ok()
    }

    /// The positions of a key's order.
    #[inline]
    pub fn range(&self, key: KeyId) -> std::ops::Range<u32> {
        match self.any() {
            true => self.start[key.index()]..self.start[key.index() + 1],
            false => 0..0,
        }
    }

    /// The append at a position.
    #[inline]
    pub fn at(&self, position: u32) -> Append {
        Append { txn: self.writers[position as usize], op: self.appends[position as usize] }
    }

    /// All ordered appends with the position of each key's first.
    #[inline]
    pub fn writer(&self, position: u32) -> TxnId {
        self.writers[position as usize]
    }

    /// The read that shows a key's order.
    pub fn shown_by(&self, key: KeyId) -> Option<OpId> {
        self.shown_by.get(key.index()).copied().filter(|&read| read != NONE).map(OpId)
    }

    /// The appends after all ordered ones, by transaction.
    #[inline]
    pub fn later(&self, key: KeyId) -> &[Append] {
        match self.any() {
            true => {
                &self.later
                    [self.later_start[key.index()] as usize..self.later_start[key.index() + 1] as usize]
            }
            false => &[],
        }
    }

    /// Where a read of a list stands; `None` if it is no such read, or says nothing.
    #[inline]
    pub fn place(&self, read: OpId) -> Option<Place> {
        match self.place.get(read.index()) {
            None => None,
            Some(&NONE) if self.beyond.is_empty() => None,
            Some(&NONE) => self.beyond.get(&read).map(|&append| Place::Beyond(append)),
            Some(&position) => Some(Place::At(position)),
        }
    }

    /// An append's position in its key's order.
    pub fn position(&self, append: OpId) -> Option<u32> {
        self.place.get(append.index()).copied().filter(|&p| p != NONE)
    }

    /// The append whose effect a read saw last, leaving out the reader's own at the end.
    pub fn seen(&self, key: KeyId, read: OpId) -> Option<Append> {
        match self.place(read)? {
            Place::At(position) => (position > self.range(key).start).then(|| self.at(position - 1)),
            Place::Beyond(append) => Some(append),
        }
    }
}

fn damaged_keys(history: &History, index: &Index) -> Vec<KeyId> {
    let mut keys: Vec<KeyId> = index
        .faults()
        .iter()
        .filter(|f| f.kind != FaultKind::Intermediate && history.list(history.op(f.op).value).is_some())
        .map(|f| history.heads()[f.op.index()].key())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// What the reads of damaged keys still say.
#[derive(Default)]
struct Repaired {
    /// The agreed order, and a read that shows it.
    orders: FxHashMap<KeyId, (OpId, Vec<OpId>)>,
    /// How much of it a read shows.
    lengths: FxHashMap<OpId, u32>,
    beyond: FxHashMap<OpId, Append>,
    contradictions: Vec<(OpId, OpId)>,
    unattributed: bool,
}

impl Repaired {
    fn of(history: &History, index: &Index, damaged: &[KeyId]) -> Repaired {
        let mut repaired = Repaired::default();
        if damaged.is_empty() {
            return repaired;
        }
        let appended = committed_appends(history, index, damaged);
        let mut bodies: FxHashMap<KeyId, Vec<(OpId, Vec<Append>)>> = FxHashMap::default();
        for t in history.txns().filter(|&t| index.is_committed(t)) {
            for (read, o) in history.ops(t).filter(|(_, o)| o.kind == OpKind::Read) {
                if damaged.binary_search(&o.key).is_ok()
                    && index.source(read) != Source::Ambiguous
                    && let Some(elements) = history.list(o.value)
                {
                    let foreign = without_own_tail(history, t, read, elements);
                    // Whose append an element is that was appended twice is open.
                    if foreign.iter().any(|&e| appended.get(&(o.key, e)) == Some(&None)) {
                        repaired.unattributed = true;
                        continue;
                    }
                    bodies.entry(o.key).or_default().push((read, known(&appended, o.key, foreign)));
                }
            }
        }
        for (key, bodies) in bodies {
            repaired.agree(history, key, bodies);
        }
        repaired.contradictions.sort_unstable();
        repaired
    }

    fn agree(&mut self, history: &History, key: KeyId, bodies: Vec<(OpId, Vec<Append>)>) {
        // The first of the longest, so that nothing depends on the order of the map.
        let Some((longest_read, longest)) = bodies.iter().rev().max_by_key(|(_, body)| body.len()) else {
            return;
        };
        let common = |body: &[Append]| body.iter().zip(longest).take_while(|(a, b)| a == b).count();
        let contradicting = bodies
            .iter()
            .map(|(read, body)| (common(body), body.len(), *read))
            .filter(|(common, length, _)| common < length)
            .min();
        let agreed = contradicting.map_or(longest.len(), |(common, ..)| common);
        match contradicting {
            Some((.., read)) => self.contradictions.push((read, *longest_read)),
            None if !in_program_order(history, key, longest) => {
                self.contradictions.push((*longest_read, *longest_read));
            }
            None => {}
        }
        self.orders.insert(key, (*longest_read, longest[..agreed].iter().map(|a| a.op).collect()));
        for (read, body) in &bodies {
            match body.last() {
                Some(&last) if body.len() > agreed => {
                    self.beyond.insert(*read, last);
                }
                _ => {
                    self.lengths.insert(*read, body.len() as u32);
                }
            }
        }
    }
}

/// A transaction's appends reach a list in program order, and none without those before it.
fn in_program_order(history: &History, key: KeyId, appends: &[Append]) -> bool {
    let mut shown: FxHashMap<TxnId, usize> = FxHashMap::default();
    appends.iter().all(|a| {
        let own = history.ops(a.txn).filter(|(_, o)| o.kind == OpKind::Append && o.key == key);
        let before = own.take_while(|(op, _)| *op < a.op).count();
        let count = shown.entry(a.txn).or_insert(0);
        *count += 1;
        *count == before + 1
    })
}

type Appended = FxHashMap<(KeyId, Value), Option<Append>>;

/// The committed append of every element of these keys; none where there are several, or an indeterminate
/// transaction also appended it.
fn committed_appends(history: &History, index: &Index, keys: &[KeyId]) -> Appended {
    let mut appended: Appended = FxHashMap::default();
    let appends = |txn: TxnId| {
        let ops = history.ops(txn).filter(|(_, o)| o.kind == OpKind::Append);
        ops.filter(|(_, o)| keys.binary_search(&o.key).is_ok())
    };
    for txn in history.txns().filter(|&t| index.is_committed(t)) {
        for (op, o) in appends(txn) {
            appended
                .entry((o.key, o.value))
                .and_modify(|several| *several = None)
                .or_insert(Some(Append { txn, op }));
        }
    }
    let unknown = |t: &TxnId| history.outcome(*t) == Outcome::Indeterminate && !index.is_committed(*t);
    for txn in history.txns().filter(unknown) {
        for (_, o) in appends(txn) {
            appended.entry((o.key, o.value)).and_modify(|several| *several = None);
        }
    }
    appended
}

/// The committed appends of a list, each where it is first.
fn known(appended: &Appended, key: KeyId, elements: &[Value]) -> Vec<Append> {
    let mut seen = FxHashSet::default();
    let fresh = elements.iter().filter(|&&e| seen.insert(e));
    fresh.filter_map(|&e| appended.get(&(key, e)).copied().flatten()).collect()
}

/// A list without the reader's own earlier appends, if they are its tail.
fn without_own_tail<'a>(history: &History, t: TxnId, read: OpId, elements: &'a [Value]) -> &'a [Value] {
    let key = history.heads()[read.index()].key();
    let own: Vec<Value> = history
        .ops(t)
        .take_while(|(op, _)| *op < read)
        .filter(|(_, o)| o.kind == OpKind::Append && o.key == key)
        .map(|(_, o)| o.value)
        .collect();
    elements.strip_suffix(own.as_slice()).unwrap_or(elements)
}
