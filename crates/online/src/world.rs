//! Transactions and sessions in memory, who comes before whom, who sees whom, and what a read must return.
//!
//! `judge` is EXT of the paper's Definition 4 for one read: the last version among those visible to it. Under snapshot
//! isolation several may share the last commit, and any of them will do; under serializability the order is total.

use crate::key::{Effect, Key, Read, Seen, Slot, Verdict, Version};
use crate::ring::Cursor;
use crate::trail::Trail;
use crate::{Datum, Shape, Shown, TxnName};
use anomalist_history::{SnapshotSet, Timestamp};
use anomalist_timestamp::{Mode, Rule, View, list};
use rustc_hash::FxHashMap;
use std::cmp::Ordering;

/// A transaction in memory. It lives as long as a version or read of it does.
#[derive(Clone, Debug)]
pub(crate) struct Txn {
    /// Rank of arrival: who it is.
    pub seq: u64,
    pub start: Timestamp,
    pub commit: Timestamp,
    pub session: u32,
    pub position: u32,
    pub read_only: bool,
    /// Some read of it changed from right to wrong or back.
    pub flipped: bool,
    /// Versions and reads in memory.
    pub refs: u32,
    /// In milliseconds.
    pub arrived: u64,
    pub set_id: Option<u64>,
    pub set: Option<Box<SnapshotSet>>,
    pub id: Option<Id>,
}

/// A transaction's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub name: Datum,
    pub text: Option<Box<str>>,
}

/// A session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub name: Datum,
    /// The name as text: sessions are ordered by it.
    pub text: Box<str>,
    /// Transactions so far, whatever their outcome.
    pub count: u32,
    pub last: Option<Last>,
    pub last_writer: Option<Last>,
}

/// What a session remembers of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Last {
    pub start: Timestamp,
    pub commit: Timestamp,
    pub position: u32,
    pub set_id: Option<u64>,
    pub id: Option<Id>,
}

/// What there is, whatever the key.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub rule: Rule,
    txns: Vec<Txn>,
    free: Vec<Slot>,
    pub sessions: Vec<Session>,
    pub session_index: FxHashMap<Datum, u32>,
    /// Sessions with transactions of unknown outcome.
    pub trails: FxHashMap<u32, Trail>,
    /// What a register holds before any write; `None`: nothing.
    pub initial: Option<Datum>,
    pub initial_keys: FxHashMap<Datum, Seen>,
    /// How to write values; forgotten now and then.
    pub texts: FxHashMap<Datum, Box<str>>,
}

/// Some of the versions that matter are in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Elsewhere;

/// What `judge` found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Judged {
    pub verdict: Verdict,
    /// Whose version it should have read; `None` for the initial state.
    pub expected: Option<Slot>,
}

impl World {
    pub fn new(rule: Rule) -> World {
        World {
            rule,
            txns: Vec::new(),
            free: Vec::new(),
            sessions: Vec::new(),
            session_index: FxHashMap::default(),
            trails: FxHashMap::default(),
            initial: Some(Datum::NIL),
            initial_keys: FxHashMap::default(),
            texts: FxHashMap::default(),
        }
    }

    /// Takes in a transaction.
    pub fn add(&mut self, txn: Txn) -> Slot {
        match self.free.pop() {
            Some(slot) => {
                self.txns[slot.0 as usize] = txn;
                slot
            }
            None => {
                self.txns.push(txn);
                Slot(self.txns.len() as u32 - 1)
            }
        }
    }

    /// One version or read of it is gone; true if it was the last.
    pub fn forget(&mut self, slot: Slot) -> bool {
        let txn = &mut self.txns[slot.0 as usize];
        txn.refs = txn.refs.saturating_sub(1);
        let gone = txn.refs == 0;
        if gone {
            txn.id = None;
            txn.set = None;
            self.free.push(slot);
        }
        gone
    }

    /// Transactions in memory.
    pub fn live(&self) -> usize {
        self.txns.len() - self.free.len()
    }

    #[inline]
    pub fn txn(&self, slot: Slot) -> &Txn {
        &self.txns[slot.0 as usize]
    }

    #[inline]
    pub fn txn_mut(&mut self, slot: Slot) -> &mut Txn {
        &mut self.txns[slot.0 as usize]
    }

    /// The order of [`anomalist_timestamp::Place`].
    pub fn order(&self, a: Slot, b: Slot) -> Ordering {
        let (a, b) = (self.txn(a), self.txn(b));
        (a.commit, a.read_only, a.start).cmp(&(b.commit, b.read_only, b.start)).then_with(|| {
            let text = |txn: &Txn| &*self.sessions[txn.session as usize].text;
            text(a).cmp(text(b)).then(a.position.cmp(&b.position))
        })
    }

    /// Whether a version comes before a transaction in that order.
    #[inline]
    pub fn before(&self, version: &Version, commit: Timestamp, slot: Slot) -> bool {
        match version.commit.cmp(&commit) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.order(version.txn, slot) == Ordering::Less,
        }
    }

    /// Where the version of a transaction is among those of a key, or belongs.
    #[inline]
    pub fn find(&self, key: &Key, slot: Slot) -> Cursor {
        let commit = self.txn(slot).commit;
        key.versions.find(commit, |version| self.before(version, commit, slot))
    }

    /// Whether a transaction sees a version (of another) under snapshot isolation.
    #[inline]
    pub fn sees(&self, viewer: &Txn, version: &Version) -> bool {
        match &viewer.set {
            None => self.rule.sees(viewer.start, version.commit),
            Some(set) => {
                let id = (version.set_id != u64::MAX).then_some(version.set_id);
                View::Set(set.view(), viewer.start).sees(self.rule, version.commit, id)
            }
        }
    }

    /// What is to be thought of a read, given the versions in memory.
    pub fn judge(&self, key: &Key, read: &Read) -> Result<Judged, Elsewhere> {
        let reader = self.txn(read.txn);
        let ser = self.rule.mode == Mode::Ser;
        let by_set = !ser && reader.set.is_some();
        let mut at = if by_set {
            key.versions.end()
        } else if ser {
            self.find(key, read.txn)
        } else {
            key.versions.find(reader.start, |v| self.rule.sees(reader.start, v.commit))
        };
        // Nearly always a value was written last, by another, and nobody committed at the same time.
        if !by_set
            && let Some(before) = key.versions.prev(at)
            && let Some(last) = key.versions.get(before)
            && let Effect::Write(value) = last.effect
            && last.commit != reader.commit
        {
            let second = if ser { None } else { key.versions.prev(before) };
            if second.and_then(|at| key.versions.get(at)).is_none_or(|v| v.commit != last.commit) {
                let verdict = Verdict::of(is(value, &read.seen));
                return Ok(Judged { verdict, expected: Some(last.txn) });
            }
        }
        // Visible versions, latest first.
        let mut visible = std::iter::from_fn(|| {
            loop {
                at = key.versions.prev(at)?;
                let version = key.versions.get(at)?;
                // Nobody else's version is looked up: transactions lie scattered in memory.
                let own = version.commit == reader.commit && self.txn(version.txn).seq == reader.seq;
                if !own && (!by_set || self.sees(reader, version)) {
                    return Some(version);
                }
            }
        });
        let Some(last) = visible.next() else {
            return match key.chain {
                Some(_) => Err(Elsewhere),
                None => Ok(Judged { verdict: self.initially(key, &read.seen), expected: None }),
            };
        };
        let expected = Some(last.txn);
        let second = visible.next();
        let tied = !ser && second.is_some_and(|v| v.commit == last.commit);
        if let (Effect::Write(value), false) = (&last.effect, tied) {
            return Ok(Judged { verdict: Verdict::of(is(*value, &read.seen)), expected });
        }
        let mut tie = vec![last];
        let mut older = second;
        while let Some(version) = older.filter(|v| !ser && v.commit == last.commit) {
            tie.push(version);
            older = visible.next();
        }
        let written: Option<Vec<Datum>> = tie.iter().map(|v| v.effect.written()).collect();
        let holds = if let Some(values) = written {
            values.into_iter().any(|value| is(value, &read.seen))
        } else {
            // A list, unless some visible version is anything but appends: then nobody can say.
            let mut versions = tie.clone();
            while let Some(version) = older.filter(|_| versions.iter().all(|v| v.effect.appended().is_some()))
            {
                versions.push(version);
                older = visible.next();
            }
            let blocks: Option<Vec<&[Datum]>> = versions.iter().rev().map(|v| v.effect.appended()).collect();
            match blocks {
                None => return Ok(Judged { verdict: Verdict::Right, expected }),
                Some(_) if key.chain.is_some() => return Err(Elsewhere),
                Some(blocks) => {
                    let commits = versions.iter().rev().map(|v| v.commit);
                    let ranks = (0..).map(|rank| if ser { rank } else { 0 });
                    self.is_list(key, commits.zip(ranks).zip(blocks), &read.seen)
                }
            }
        };
        let verdict = match holds {
            true if tie.len() > 1 => Verdict::Tied,
            holds => Verdict::of(holds),
        };
        Ok(Judged { verdict, expected })
    }

    /// Whether blocks, after what the key held at first, are the list that was seen.
    fn is_list<'a, C: Ord>(
        &'a self,
        key: &Key,
        blocks: impl Iterator<Item = (C, &'a [Datum])>,
        seen: &Seen,
    ) -> bool {
        let Seen::List(elements) = seen else { return false };
        let initial = match self.initial_keys.get(&key.name) {
            Some(Seen::List(initial)) => &initial[..],
            _ => &[],
        };
        elements.strip_prefix(initial).is_some_and(|rest| list::is_concatenation(blocks, rest))
    }

    /// A read that sees no version. The empty list will do, unless the key began as another.
    fn initially(&self, key: &Key, seen: &Seen) -> Verdict {
        Verdict::of(match (self.initial_keys.get(&key.name), seen) {
            (Some(Seen::List(initial)), Seen::One(value)) => initial.is_empty() && *value == Datum::NIL,
            (Some(initial @ Seen::List(_)), seen) => initial == seen,
            (_, Seen::List(elements)) => elements.is_empty(),
            (Some(initial), seen) => initial == seen,
            (None, Seen::One(value)) => self.initial == Some(*value),
        })
    }

    /// A transaction's name.
    pub fn name(&self, slot: Slot) -> TxnName {
        let txn = self.txn(slot);
        self.name_of(txn.session, txn.position, txn.id.as_ref())
    }

    pub fn name_of(&self, session: u32, position: u32, id: Option<&Id>) -> TxnName {
        let id = id.map(|id| show(id.name, id.text.as_deref()));
        let session = &self.sessions[session as usize];
        TxnName { session: show(session.name, Some(&session.text)), position: position + 1, id }
    }

    /// A value as people write it, as far as that is remembered.
    pub fn show_value(&self, value: Datum) -> Option<Shown> {
        match value.shape() {
            Shape::Text => self.texts.get(&value).map(|text| Shown::Text(text.clone())),
            _ => Some(show(value, None)),
        }
    }

    /// What was read, as people write it.
    pub fn show_seen(&self, seen: &Seen) -> Option<Shown> {
        match seen {
            Seen::One(value) => self.show_value(*value),
            Seen::List(elements) => Some(self.show_list(elements.iter())?.into()),
        }
    }

    fn show_list<'a>(&self, elements: impl ExactSizeIterator<Item = &'a Datum>) -> Option<String> {
        const MOST: usize = 64;
        let more = elements.len().saturating_sub(MOST);
        let shown: Option<Vec<String>> =
            elements.skip(more).map(|&e| Some(self.show_value(e)?.to_string())).collect();
        Some(format!("[{}{}]", if more > 0 { "… " } else { "" }, shown?.join(" ")))
    }

    /// What a transaction left in a key, as people write it; of a list only what it added.
    pub fn show_effect(&self, effect: &Effect) -> Option<Shown> {
        match effect {
            Effect::Write(value) => self.show_value(*value),
            Effect::Append(elements) => Some(format!("… {}", self.show_list(elements.iter())?).into()),
            Effect::Undefined => None,
        }
    }

    /// What the key holds at first, as people write it.
    pub fn show_initial(&self, name: Datum) -> Option<Shown> {
        match self.initial_keys.get(&name) {
            Some(seen) => self.show_seen(seen),
            None => self.show_value(self.initial?),
        }
    }
}

/// Whether a value that was written is what was seen. An array that was written as one value has a fingerprint of its own, and
/// no list that was read is compared with that: such a read counts as right.
pub(crate) fn is(value: Datum, seen: &Seen) -> bool {
    match seen {
        Seen::One(one) => *one == value,
        Seen::List(_) => value.shape() == Shape::Text,
    }
}

/// A name as people write it.
pub(crate) fn show(name: Datum, text: Option<&str>) -> Shown {
    match name.shape() {
        Shape::Int(i) => Shown::Int(i),
        Shape::Nil => Shown::Nil,
        Shape::Text => Shown::Text(text.unwrap_or("?").into()),
    }
}
