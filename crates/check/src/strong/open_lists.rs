//! Lists that show an element which was appended more than once, or that only an indeterminate transaction
//! read.
//!
//! Which append such an element is has to be found out together with the order of events. Whatever it is,
//! the appends that a list shows are all those to its key up to the last, by commit and then by program
//! order. In clauses: neighbours in the list are neighbours in their transaction, or the end of one
//! transaction's appends and the beginning of a later one's (`open.rs` writes these down for every list);
//! and any transaction that is not shown comes after the last that is (`unseen`, asked of one order after
//! another). Together they say just that: with those, the transactions shown are in order, complete and
//! first.

use super::facts::{Facts, Open, Origin, Pool};
use super::model::Model;
use super::scan::{Constraint, Decided};
use crate::view::CommittedView;
use anomalist_history::{FaultKind, History, Index, KeyId, OpId, OpKind, Source, TxnId, Value};
use anomalist_level::Choice;
use rustc_hash::{FxHashMap, FxHashSet};

/// An element of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    /// Only this append can be it.
    Certain(OpId),
    /// One of several: a place in [`Facts::open`].
    Open(u32),
}

/// A read of a list.
#[derive(Clone, Debug)]
pub(crate) struct OpenList {
    pub op: OpId,
    pub reader: TxnId,
    pub key: KeyId,
    /// What it shows of others' appends, oldest first.
    pub elements: Vec<Element>,
}

impl OpenList {
    pub fn renumber(&mut self, number: &[u32]) {
        for element in &mut self.elements {
            if let Element::Open(open) = element {
                *open = number[*open as usize];
            }
        }
    }

    /// The append that an element is, as things are decided.
    pub fn shown(&self, at: usize, decided: &impl Decided) -> Option<OpId> {
        match self.elements[at] {
            Element::Certain(write) => Some(write),
            Element::Open(open) => decided.source(open).and_then(Origin::write),
        }
    }
}

/// The appends to keys with open lists.
#[derive(Default)]
pub(crate) struct Appends {
    by_key: FxHashMap<KeyId, Vec<(TxnId, Vec<OpId>)>>,
    by_element: FxHashMap<(KeyId, Value), Vec<(TxnId, OpId)>>,
    /// Per append, how many of its transaction's to the key come before it and after it.
    place: FxHashMap<OpId, (u32, u32)>,
}

impl Appends {
    /// `all`: the lists of all keys count as open.
    pub fn new(view: CommittedView<'_>, index: &Index, all: bool) -> Appends {
        let history = view.history;
        let mut appends = Appends::default();
        if index.ambiguous_reads() == 0 && !all {
            return appends;
        }
        // Orders that lists show would rest on reads that may not have happened.
        let uncertain = history.txns().any(|t| index.is_committed(t) && !view.index.is_committed(t));
        let contradicted = index.faults().iter().filter(|f| f.kind == FaultKind::IncompatibleOrder);
        for fault in contradicted {
            appends.by_key.entry(history.op(fault.op).key).or_default();
        }
        let txns = || history.txns().filter(|&t| index.is_committed(t));
        for t in txns() {
            for (op, o) in history.ops(t).filter(|(_, o)| o.kind == OpKind::Read) {
                let open = all || uncertain || index.source(op) == Source::Ambiguous;
                if open && history.list(o.value).is_some() {
                    appends.by_key.entry(o.key).or_default();
                }
            }
        }
        if appends.by_key.is_empty() {
            return appends;
        }
        for t in txns() {
            for (op, o) in history.ops(t).filter(|(_, o)| o.kind == OpKind::Append) {
                let Some(all) = appends.by_key.get_mut(&o.key) else { continue };
                match all.last_mut() {
                    Some((last, ops)) if *last == t => ops.push(op),
                    _ => all.push((t, vec![op])),
                }
                appends.by_element.entry((o.key, o.value)).or_default().push((t, op));
            }
        }
        for (_, ops) in appends.by_key.values().flatten() {
            for (i, &op) in ops.iter().enumerate() {
                appends.place.insert(op, (i as u32, (ops.len() - 1 - i) as u32));
            }
        }
        appends
    }

    /// Whether lists of this key are open.
    #[inline]
    pub fn is_open(&self, key: KeyId) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(&key)
    }

    /// The transactions that append to an open key, with their appends.
    pub fn of(&self, key: KeyId) -> &[(TxnId, Vec<OpId>)] {
        self.by_key.get(&key).map_or(&[], Vec::as_slice)
    }

    /// How many of its transaction's appends to the key come before an append, and after it.
    pub fn place(&self, append: OpId) -> (u32, u32) {
        self.place.get(&append).copied().unwrap_or_default()
    }

    /// The append to the key right before this one, in its transaction; if there is none, the append itself.
    pub fn previous(&self, key: KeyId, append: OpId) -> OpId {
        let ops = self.of(key).iter().map(|(_, ops)| ops).find(|ops| ops.contains(&append));
        let before = ops.and_then(|ops| ops.get((self.place(append).0 as usize).checked_sub(1)?));
        before.copied().unwrap_or(append)
    }

    /// A list and its open elements, numbered from `first` on. Their pools are added to `pools`.
    pub fn list(
        &self,
        history: &History,
        op: OpId,
        reader: TxnId,
        shown: &[Value],
        first: u32,
        pools: &mut Vec<Pool>,
    ) -> (OpenList, Vec<Open>) {
        let key = history.op(op).key;
        let mut open: Vec<Open> = Vec::new();
        let mut elements = Vec::with_capacity(shown.len());
        for (element, value) in (0..).zip(shown) {
            let all = self.by_element.get(&(key, *value)).map_or(&[][..], Vec::as_slice);
            let writes: Vec<(TxnId, OpId)> = all.iter().copied().filter(|c| c.0 != reader).collect();
            elements.push(match writes[..] {
                [(_, only)] => Element::Certain(only),
                _ => {
                    let pool = pools.len() as u32;
                    pools.push(Pool { writes, ..Pool::default() });
                    open.push(Open { op, reader, element, read: None, of_list: true, pool });
                    Element::Open(first + open.len() as u32 - 1)
                }
            });
        }
        (OpenList { op, reader, key, elements }, open)
    }
}

/// For each list, an append that it does not show although its transaction comes before the last that it
/// shows.
pub(crate) fn unseen(
    model: &Model<'_>,
    position: &dyn Fn(u32) -> u32,
    decided: &impl Decided,
) -> Vec<Constraint> {
    let facts: &Facts<'_> = model.facts;
    let counts = |t: TxnId| facts.certain[t.index()] || decided.took_effect(t);
    let at = |t: TxnId| position(model.rules.commit(t));
    let mut constraints = Vec::new();
    for (i, list) in facts.open_lists.iter().enumerate() {
        if list.elements.is_empty() || !counts(list.reader) {
            continue;
        }
        let shown: Vec<Option<OpId>> = (0..list.elements.len()).map(|e| list.shown(e, decided)).collect();
        let Some(&Some(last)) = shown.last() else { continue };
        let author = facts.history.txn_of(last);
        let seen: FxHashSet<OpId> = shown.iter().flatten().copied().collect();
        let others = facts.appends.of(list.key).iter();
        let earlier = others.filter(|(t, _)| *t != author && counts(*t) && at(*t) < at(author));
        let missing = earlier.filter_map(|(_, ops)| ops.iter().find(|op| !seen.contains(op)));
        if let Some(&second) = missing.into_iter().next() {
            constraints.push(Constraint::Unseen { list: i as u32, first: last, second });
        }
    }
    constraints
}

/// Whether the lists of each open key are versions of it, in some order of its own: all begin the longest,
/// and in that each transaction's appends stand together, in program order and complete but for the last.
/// Cut isolation asks for no order of transactions, so the search does not see to that.
pub(crate) fn are_versions(facts: &Facts<'_>, choices: &[Choice]) -> bool {
    let chosen: FxHashMap<(OpId, u32), OpId> =
        choices.iter().filter_map(|c| Some(((c.read, c.element), c.write?))).collect();
    let is_open = |list: &&OpenList| list.elements.iter().any(|e| matches!(e, Element::Open(_)));
    let open: FxHashSet<KeyId> = facts.open_lists.iter().filter(is_open).map(|list| list.key).collect();
    let mut longest: FxHashMap<KeyId, Vec<OpId>> = FxHashMap::default();
    for list in facts.open_lists.iter().filter(|list| open.contains(&list.key)) {
        let append = |(at, element): (usize, &Element)| match element {
            Element::Certain(write) => Some(*write),
            Element::Open(_) => chosen.get(&(list.op, at as u32)).copied(),
        };
        // What a transaction read that did not take effect shows nothing.
        let Some(shown) = list.elements.iter().enumerate().map(append).collect::<Option<Vec<OpId>>>() else {
            continue;
        };
        let known = longest.entry(list.key).or_default();
        let common = known.len().min(shown.len());
        if known[..common] != shown[..common] {
            return false;
        }
        if shown.len() > known.len() {
            *known = shown;
        }
    }
    longest.values().all(|shown| {
        let mut runs = shown.chunk_by(|&a, &b| facts.history.txn_of(a) == facts.history.txn_of(b)).peekable();
        let mut met: FxHashSet<TxnId> = FxHashSet::default();
        std::iter::from_fn(|| runs.next().map(|run| (run, runs.peek().is_none()))).all(|(run, last)| {
            let in_order = (0..).zip(run).all(|(at, &append)| facts.appends.place(append).0 == at);
            let complete = run.last().is_none_or(|&append| facts.appends.place(append).1 == 0);
            in_order && (complete || last) && met.insert(facts.history.txn_of(run[0]))
        })
    })
}
