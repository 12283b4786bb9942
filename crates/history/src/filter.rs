//! Part of a history: some of its transactions, some of their operations.

use crate::builder::{Builder, Draft, TooLarge};
use crate::ids::{KeyId, OpId, TxnId};
use crate::model::History;
use crate::snapshots::SnapshotSet;
use crate::value::{Value, View};
use rustc_hash::FxHashMap;

/// What of a history to keep.
pub trait Filter {
    /// Is this transaction kept?
    fn txn(&self, t: TxnId) -> bool;
    /// Is this operation, of a transaction that is kept, kept?
    fn op(&self, op: OpId) -> bool;
    /// Is this element kept in the lists that were read under this key?
    fn element(&self, key: KeyId, element: Value) -> bool;
}

/// Where the transactions and operations of a part come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdMap {
    /// For each transaction of the part, which one of the whole it is.
    pub txns: Vec<TxnId>,
    /// For each operation of the part, which one of the whole it is.
    pub ops: Vec<OpId>,
}

impl History {
    /// The history that has only what is kept, in the same order, with the same names. Sessions and keys
    /// that nothing is left of disappear. A transaction that had no name of its own is still called by
    /// session and position, which may be another then.
    pub fn filtered(&self, filter: &impl Filter) -> Result<(History, IdMap), TooLarge> {
        let mut txns: Vec<TxnId> = self.txns().filter(|&t| filter.txn(t)).collect();
        // Where numbers are the order of sessions, the input may have had another.
        if self.numbers().is_none() {
            txns.sort_by_key(|&t| self.position(t));
        }
        let mut b = Builder::new();
        let default = self.initial().default.map(|value| self.moved(&mut b, value));
        b.set_initial_default(default);
        if let Some(clock) = self.clock() {
            b.set_clock(clock);
        }
        let mut sessions = vec![None; self.session_count()];
        let mut drafts: FxHashMap<TxnId, Draft> = FxHashMap::default();
        for &t in &txns {
            let session = *sessions[self.session_of(t).index()].get_or_insert_with(|| {
                let label = self.moved(&mut b, self.session_label(self.session_of(t)));
                let trunk = self.branches_off(self.session_of(t)).is_some();
                let from =
                    trunk.then(|| self.before_in_session(t).rev().find_map(|p| drafts.get(&p))).flatten();
                b.another_session(label, from.copied())
            });
            let draft = b.transaction(session);
            drafts.insert(t, draft);
            b.set_outcome(draft, self.outcome(t));
            if let Some(label) = self.txn_label(t) {
                let label = self.moved(&mut b, label);
                b.set_label(draft, label);
            }
            if let Some(line) = self.line(t) {
                b.set_line(draft, line);
            }
            if let Some(stamps) = self.stamps() {
                b.set_stamps(draft, stamps[t.index()]);
            }
            if let Some(intervals) = self.intervals() {
                b.set_interval(draft, intervals[t.index()]);
            }
            let set =
                self.snapshot(t).and_then(|s| SnapshotSet::new(s.xmin, s.xmax, s.running.to_vec()).ok());
            if set.is_some() || self.snapshot_id(t).is_some() {
                b.set_snapshot(draft, self.snapshot_id(t), set);
            }
            for (name, value) in self.metadata().get(&t).into_iter().flatten() {
                b.set_metadata(draft, name, value);
            }
            for (place, (op, o)) in (0..).zip(self.ops(t).filter(|(op, _)| filter.op(*op))) {
                if let Some(number) = self.version(op) {
                    b.set_version(draft, place, number);
                }
                let label = self.moved(&mut b, self.key_label(o.key));
                let key = b.key(label);
                if let Some(&initial) = self.initial().keys.get(&o.key) {
                    let initial = self.moved(&mut b, initial);
                    b.set_initial(key, initial);
                }
                let value = match self.list(o.value) {
                    Some(elements) => {
                        let left: Vec<Value> = elements
                            .iter()
                            .filter(|&&e| filter.element(o.key, e))
                            .map(|&e| self.moved(&mut b, e))
                            .collect();
                        b.list(&left)
                    }
                    None => self.moved(&mut b, o.value),
                };
                b.op(draft, o.kind, key, value);
            }
        }
        let part = b.finish()?;
        let mut origin = IdMap { txns: Vec::new(), ops: Vec::new() };
        for t in part.txns() {
            // By position both are the same list.
            let old = txns[part.position(t) as usize];
            origin.txns.push(old);
            origin.ops.extend(self.ops(old).map(|(op, _)| op).filter(|&op| filter.op(op)));
        }
        Ok((part, origin))
    }

    /// A value of this history as one of the history that `b` builds. Lists hold scalars.
    fn moved(&self, b: &mut Builder, value: Value) -> Value {
        match value.view() {
            View::Atom(id) => {
                let (kind, text) = self.atom(id);
                b.atom(kind, text)
            }
            View::List(_) => {
                let elements: Vec<Value> =
                    self.list(value).unwrap_or_default().iter().map(|&e| self.moved(b, e)).collect();
                b.list(&elements)
            }
            View::Nil | View::Unknown | View::Int(_) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{OpKind, Outcome};

    struct Without(TxnId, i64);

    impl Filter for Without {
        fn txn(&self, t: TxnId) -> bool {
            t != self.0
        }
        fn op(&self, _: OpId) -> bool {
            true
        }
        fn element(&self, _: KeyId, element: Value) -> bool {
            Some(element) != Value::int(self.1)
        }
    }

    #[test]
    fn what_is_kept_keeps_its_names_and_order() {
        let mut b = Builder::new();
        let (s, text) = (b.atom(crate::AtomKind::Text, "s"), b.atom(crate::AtomKind::Text, "v"));
        let (one, two) = (b.int(1), b.int(2));
        b.set_initial_default(Some(text));
        let (first, second) = (b.session(s), b.session(one));
        let key = b.key(text);
        for (session, value) in [(first, one), (second, two)] {
            let draft = b.transaction(session);
            b.op(draft, OpKind::Append, key, value);
        }
        let reader = b.transaction(first);
        let list = b.list(&[one, two]);
        b.op(reader, OpKind::Read, key, list);
        b.set_outcome(reader, Outcome::Indeterminate);
        b.set_metadata(reader, "level", "causal");
        b.set_label(reader, two);
        let history = b.finish().unwrap();
        let appended_two = history.txns().find(|&t| history.position(t) == 1).unwrap();
        let (part, origin) = history.filtered(&Without(appended_two, 2)).unwrap();
        assert_eq!((part.txn_count(), part.session_count(), part.key_count()), (2, 1, 1));
        let reader = TxnId(1);
        assert_eq!(origin.txns[1], history.txns().find(|&t| history.position(t) == 2).unwrap());
        assert_eq!((part.txn_name(reader), part.outcome(reader)), ("2".to_owned(), Outcome::Indeterminate));
        assert_eq!(&*part.metadata()[&reader]["level"], "causal");
        let (at, read) = part.ops(reader).next().unwrap();
        assert_eq!(history.op(origin.ops[at.index()]).kind, read.kind);
        assert_eq!(part.list(read.value), Some(&[one][..]));
        assert_eq!(part.show(part.initial().default.unwrap()).to_string(), "v");
    }
}
