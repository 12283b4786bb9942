//! Snapshot isolation and serializability by timestamps: Definitions 4 to 6 of the Chronos and AION paper,
//! by looking at every pair, every order of equal commits that keeps sessions, and every choice of which
//! transactions of unknown outcome committed.

use anomalist_history::{History, KeyId, Op, OpKind, Outcome, Timestamp, TxnId, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Which definitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StampRule {
    /// Serializability: a transaction happens at its commit. Else snapshot isolation.
    pub serial: bool,
    /// A snapshot does not contain what committed at its very timestamp.
    pub exclusive: bool,
}

/// One violation (or, for `TIE`, a warning).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StampFault {
    /// `TIMESTAMP`, `SESSION`, `INT`, `EXT`, `NOCONFLICT` or `TIE`.
    pub code: &'static str,
    /// Who breaks it; of a NOCONFLICT the later in the order of commits.
    pub txn: TxnId,
    /// The key.
    pub key: Option<KeyId>,
    /// The earlier one of a NOCONFLICT.
    pub other: Option<TxnId>,
    /// The read of an INT, counted from 0.
    pub read: Option<u32>,
}

/// All of them, and how many external reads could not be judged, for each choice of which transactions of
/// unknown outcome committed. The first choice is none of them.
///
/// # Panics
/// If the history has no timestamps.
pub fn stamp_faults(history: &History, rule: StampRule) -> Vec<(BTreeSet<StampFault>, u64)> {
    let all = |outcome| history.txns().filter(move |&t| history.outcome(t) == outcome);
    let writes = |t: &TxnId| ops(history, *t).iter().any(|op| op.kind != OpKind::Read);
    let open: Vec<TxnId> = all(Outcome::Indeterminate).filter(writes).collect();
    let choices = (0..1_u32 << open.len()).map(|choice| {
        let chosen = open.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1).map(|(_, &t)| t);
        let mut counted: Vec<TxnId> = all(Outcome::Committed).chain(chosen).collect();
        counted.sort_unstable();
        counted
    });
    choices.map(|counted| faults(&World { history, rule, counted })).collect()
}

fn faults(world: &World<'_>) -> (BTreeSet<StampFault>, u64) {
    let World { history, rule, .. } = *world;
    let mut faults = BTreeSet::new();
    let mut unjudged = 0;
    for &t in &world.counted {
        let fault = |code| StampFault { code, txn: t, key: None, other: None, read: None };
        if !rule.serial && history.snapshot(t).is_none() && world.start(t) > world.commit(t) {
            faults.insert(fault("TIMESTAMP"));
        }
        if world.breaks_session(t) {
            faults.insert(fault("SESSION"));
        }
        for (n, op) in ops(history, t).into_iter().enumerate() {
            if op.kind != OpKind::Read || op.value == Value::UNKNOWN {
                continue;
            }
            let of_key = |code| StampFault { key: Some(op.key), ..fault(code) };
            match world.reading(t, n) {
                Reading::Internal(true) => {}
                Reading::Internal(false) => {
                    faults.insert(StampFault { read: Some(n as u32), ..of_key("INT") });
                }
                Reading::External(value) => match world.external(t, op.key, &value) {
                    External::Right => {}
                    External::Tied => drop(faults.insert(of_key("TIE"))),
                    External::Wrong => drop(faults.insert(of_key("EXT"))),
                    External::Unjudged => unjudged += 1,
                },
            }
        }
        // NOCONFLICT: of two writers of a key, one sees the other.
        for &earlier in world.counted.iter().filter(|&&e| !rule.serial && world.before(e, t)) {
            for key in history.keys().filter(|&k| world.writes(t, k) && world.writes(earlier, k)) {
                if !world.visible(earlier, t) && !world.visible(t, earlier) {
                    faults.insert(StampFault { key: Some(key), other: Some(earlier), ..fault("NOCONFLICT") });
                }
            }
        }
    }
    (faults, unjudged)
}

/// A value with lists spelled out.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    One(Value),
    List(Vec<Value>),
}

enum Reading {
    Internal(bool),
    External(Seen),
}

#[derive(PartialEq, Eq)]
enum External {
    Right,
    Tied,
    Wrong,
    Unjudged,
}

/// What a transaction does to a key.
enum Deed {
    Writes(Value),
    Appends(Vec<Value>),
    /// Appends to what it wrote itself.
    Both,
}

fn ops(history: &History, t: TxnId) -> Vec<Op> {
    history.ops(t).map(|(_, op)| op).collect()
}

struct World<'a> {
    history: &'a History,
    rule: StampRule,
    counted: Vec<TxnId>,
}

impl World<'_> {
    fn start(&self, t: TxnId) -> Timestamp {
        self.history.stamps().expect("timestamps")[t.index()].start
    }

    fn commit(&self, t: TxnId) -> Timestamp {
        self.history.stamps().expect("timestamps")[t.index()].commit
    }

    fn writes(&self, t: TxnId, key: KeyId) -> bool {
        ops(self.history, t).iter().any(|op| op.kind != OpKind::Read && op.key == key)
    }

    fn is_read_only(&self, t: TxnId) -> bool {
        self.history.keys().all(|key| !self.writes(t, key))
    }

    /// Definition 5, ties broken: commit, writers before read-only, start, session as text, position.
    fn before(&self, a: TxnId, b: TxnId) -> bool {
        let session =
            |t: TxnId| self.history.show(self.history.session_label(self.history.session_of(t))).to_string();
        let rank = |t: TxnId| self.history.issue_rank(t);
        let place = |t: TxnId| (self.commit(t), self.is_read_only(t), self.start(t), session(t), rank(t));
        place(a).cmp(&place(b)) == Ordering::Less
    }

    /// Definition 6, or the set. At equal timestamps a session's transactions are in its order.
    fn visible(&self, a: TxnId, to: TxnId) -> bool {
        if a == to {
            return false;
        }
        if self.rule.serial {
            return self.before(a, to);
        }
        match (self.history.snapshot(to), self.history.snapshot_id(a)) {
            (Some(set), Some(id)) => id < set.xmin || id < set.xmax && !set.running.contains(&id),
            _ if self.rule.exclusive => self.commit(a) < self.start(to),
            _ if self.commit(a) == self.start(to) => !self.history.issued_before(to, a),
            _ => self.commit(a) < self.start(to),
        }
    }

    fn breaks_session(&self, t: TxnId) -> bool {
        let earlier: Vec<TxnId> = self
            .history
            .issued(self.history.issuer(t))
            .take_while(|&o| o != t)
            .filter(|o| self.counted.contains(o))
            .collect();
        if let Some(numbers) = self.history.numbers() {
            let number = |t: TxnId| i128::from(numbers[t.index()]);
            let first = number(t) == 0 || number(t) == 1;
            if !earlier.last().map_or(first, |&o| number(o) + 1 == number(t)) {
                return true;
            }
        }
        if !self.rule.serial && self.history.snapshot(t).is_some() {
            let writer = earlier.iter().rev().find(|&&w| !self.is_read_only(w));
            return writer.is_some_and(|&w| !self.visible(w, t));
        }
        let at = if self.rule.serial { self.commit(t) } else { self.start(t) };
        earlier.last().is_some_and(|&previous| at < self.commit(previous))
    }

    fn seen(&self, value: Value) -> Seen {
        match self.history.list(value) {
            Some(list) => Seen::List(list.to_vec()),
            None => Seen::One(value),
        }
    }

    /// INT, or what is left for EXT.
    fn reading(&self, t: TxnId, n: usize) -> Reading {
        let all = ops(self.history, t);
        let (read, before) = (all[n], &all[..n]);
        let value = self.seen(read.value);
        let known: Vec<Op> = before
            .iter()
            .copied()
            .filter(|op| op.key == read.key && !(op.kind == OpKind::Read && op.value == Value::UNKNOWN))
            .collect();
        if known.is_empty() {
            return Reading::External(value);
        }
        let anchor = known.iter().rposition(|op| op.kind != OpKind::Append);
        let added: Vec<Value> = known[anchor.map_or(0, |a| a + 1)..].iter().map(|op| op.value).collect();
        let Some(anchor) = anchor else {
            return match value {
                Seen::List(list) if list.ends_with(&added) => {
                    Reading::External(Seen::List(list[..list.len() - added.len()].to_vec()))
                }
                _ => Reading::Internal(false),
            };
        };
        let base = self.seen(known[anchor].value);
        Reading::Internal(match base {
            Seen::One(one) if one != Value::NIL && added.is_empty() => value == Seen::One(one),
            // What appending to a value gives is not defined.
            Seen::One(one) if one != Value::NIL => true,
            Seen::One(_) => is_list(&value, &added),
            Seen::List(list) => is_list(&value, &[list, added].concat()),
        })
    }

    fn deed(&self, t: TxnId, key: KeyId) -> Option<Deed> {
        let deeds: Vec<Op> =
            ops(self.history, t).into_iter().filter(|op| op.kind != OpKind::Read && op.key == key).collect();
        let last = deeds.last()?;
        Some(if last.kind == OpKind::Write {
            Deed::Writes(last.value)
        } else if deeds.iter().all(|op| op.kind == OpKind::Append) {
            Deed::Appends(deeds.iter().map(|op| op.value).collect())
        } else {
            Deed::Both
        })
    }

    /// EXT: the last version in the order of commits, among those of visible transactions, for some order
    /// of equal commits.
    fn external(&self, t: TxnId, key: KeyId, value: &Seen) -> External {
        let orders = self.views(t, key);
        let deeds = |order: &[TxnId]| order.iter().filter_map(|&w| self.deed(w, key)).collect::<Vec<Deed>>();
        let initial = self.history.initial().of(key).map(|value| self.seen(value));
        let is_initial = || match &initial {
            Some(Seen::List(list)) => is_list(value, list),
            other => other.as_ref() == Some(value) || *value == Seen::List(Vec::new()),
        };
        let pure = |order: &Vec<TxnId>| deeds(order).iter().all(|d| matches!(d, Deed::Appends(_)));
        let right = if orders.iter().all(pure) {
            let start = match &initial {
                Some(Seen::List(list)) => list.clone(),
                _ => Vec::new(),
            };
            orders.iter().any(|order| {
                let mut list = start.clone();
                for deed in deeds(order) {
                    if let Deed::Appends(block) = deed {
                        list.extend(block);
                    }
                }
                match order.is_empty() {
                    true => is_initial(),
                    false => *value == Seen::List(list),
                }
            })
        } else {
            let last: Vec<Option<Deed>> = orders.iter().map(|order| deeds(order).pop()).collect();
            if last.iter().flatten().any(|deed| !matches!(deed, Deed::Writes(_))) {
                return External::Unjudged;
            }
            last.iter().any(|deed| match deed {
                Some(Deed::Writes(v)) => self.seen(*v) == *value,
                _ => is_initial(),
            })
        };
        let last: BTreeSet<Option<TxnId>> = orders.iter().map(|order| order.last().copied()).collect();
        match right {
            true if last.len() > 1 => External::Tied,
            true => External::Right,
            false => External::Wrong,
        }
    }

    /// The writers of a key that a transaction sees, in every order that keeps commits and sessions.
    fn views(&self, t: TxnId, key: KeyId) -> Vec<Vec<TxnId>> {
        let writers = self.counted.iter().copied().filter(|&w| w != t && self.writes(w, key));
        if !self.rule.serial {
            return self.orders(writers.filter(|&w| self.visible(w, t)).collect());
        }
        let mut all: Vec<TxnId> = writers.filter(|&w| self.commit(w) <= self.commit(t)).collect();
        all.push(t);
        let cut = |order: Vec<TxnId>| order.into_iter().take_while(|&w| w != t).collect();
        let views: BTreeSet<Vec<TxnId>> = self.orders(all).into_iter().map(cut).collect();
        views.into_iter().collect()
    }

    /// Every order of transactions that keeps commits and, of equal ones, sessions.
    fn orders(&self, txns: Vec<TxnId>) -> Vec<Vec<TxnId>> {
        let after = |a: TxnId, b: TxnId| {
            self.commit(a) > self.commit(b)
                || self.commit(a) == self.commit(b) && self.history.issued_before(b, a)
        };
        let mut partial: Vec<Vec<TxnId>> = vec![Vec::new()];
        for _ in &txns {
            let mut longer = Vec::new();
            for order in partial {
                let left: Vec<TxnId> = txns.iter().copied().filter(|t| !order.contains(t)).collect();
                let next = left.iter().filter(|&&a| !left.iter().any(|&b| after(a, b)));
                longer.extend(next.map(|&a| [order.clone(), vec![a]].concat()));
            }
            partial = longer;
        }
        partial
    }
}

/// Whether a value is this list; nil is the empty one.
fn is_list(value: &Seen, list: &[Value]) -> bool {
    match value {
        Seen::One(one) => *one == Value::NIL && list.is_empty(),
        Seen::List(seen) => seen == list,
    }
}
