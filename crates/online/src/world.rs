//! Transactions and sessions in memory, who comes before whom, who sees whom, and what a read must return.
//!
//! `judge` is EXT of the paper's Definition 4 for one read: the last version among those visible to it.
//! Where several share the last commit, any will do that no later one of its session follows. Under snapshot
//! isolation, a later transaction of the reader's session is not seen even if it commits at the reader's
//! start timestamp. Under serializability, what commits when the reader does counts if it comes before it in
//! its session, and may count if it is of another.

use crate::key::{Effect, Key, Read, Seen, Slot, Verdict, Version};
use crate::ring::Cursor;
use crate::trail::Trail;
use crate::{Datum, Shape, Shown, TxnName};
use anomalist_history::{SnapshotSet, Timestamp};
use anomalist_timestamp::list::{self, Block, Fit};
use anomalist_timestamp::{Mode, Rule, View};
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

impl Txn {
    /// Whether this is a later transaction of a reader's session that commits at the reader's start
    /// timestamp, and no set decides whether it is seen.
    pub fn is_later_tie(&self, reader: &Txn) -> bool {
        self.commit == reader.start
            && self.session == reader.session
            && self.position > reader.position
            && (reader.set.is_none() || self.set_id.is_none())
    }
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
    /// The number of the last committed transaction, where the recording has one.
    pub number: Option<u64>,
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
    /// A read that is right by one of several versions is said to be.
    ties: bool,
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
    pub fn new(rule: Rule, ties: bool) -> World {
        World {
            rule,
            ties,
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
            None => self.rule.sees(viewer.start, version.commit) && !self.is_later_tie(viewer, version),
            Some(set) => {
                let id = (version.set_id != u64::MAX).then_some(version.set_id);
                View::Set(set.view(), viewer.start).sees(self.rule, version.commit, id)
                    && !self.is_later_tie(viewer, version)
            }
        }
    }

    /// Whether a version is of a later transaction of a reader's session and commits at the reader's start
    /// timestamp: the session, not the timestamp, orders the two. Transactions lie scattered in memory, so
    /// they are looked up last.
    #[inline]
    pub fn is_later_tie(&self, reader: &Txn, version: &Version) -> bool {
        version.commit == reader.start
            && self.rule.mode == Mode::Si
            && self.txn(version.txn).is_later_tie(reader)
    }

    /// What is to be thought of a read, given the versions in memory.
    pub fn judge(&self, key: &Key, read: &Read) -> Result<Judged, Elsewhere> {
        let reader = self.txn(read.txn);
        let by_set = self.rule.mode == Mode::Si && reader.set.is_some();
        let (at, tied) = self.horizon(key, reader);
        // Nearly always a value was written last, by another, and nobody committed at the same time.
        if !by_set
            && !tied
            && let Some(before) = key.versions.prev(at)
            && let Some(last) = key.versions.get(before)
            && let Effect::Write(value) = last.effect
            && last.commit != reader.commit
            && !self.is_later_tie(reader, last)
        {
            let second = key.versions.prev(before).and_then(|at| key.versions.get(at));
            if second.is_none_or(|v| v.commit != last.commit) {
                let verdict = Verdict::of(is(value, &read.seen));
                return Ok(Judged { verdict, expected: Some(last.txn) });
            }
        }
        let (own, optional) = if tied { self.tied_with(key, reader, at) } else { (Vec::new(), Vec::new()) };
        self.weigh(key, read, self.visible(key, reader, by_set, own, at), optional)
    }

    /// Where what a transaction cannot see begins (or what only its set tells), and whether others commit when it does, which
    /// only matters under serializability.
    fn horizon(&self, key: &Key, reader: &Txn) -> (Cursor, bool) {
        let versions = &key.versions;
        match (self.rule.mode, &reader.set) {
            (Mode::Ser, _) => {
                let at = versions.find(reader.commit, |v| v.commit < reader.commit);
                (at, versions.get(at).is_some_and(|v| v.commit == reader.commit))
            }
            (Mode::Si, Some(_)) => (versions.end(), false),
            (Mode::Si, None) => {
                (versions.find(reader.start, |v| self.rule.sees(reader.start, v.commit)), false)
            }
        }
    }

    /// The versions in memory that a read sees, and those that it may see.
    pub fn scope<'a>(&'a self, key: &'a Key, read: &Read) -> (Vec<&'a Version>, Vec<&'a Version>) {
        let reader = self.txn(read.txn);
        let by_set = self.rule.mode == Mode::Si && reader.set.is_some();
        let (at, tied) = self.horizon(key, reader);
        let (own, optional) = if tied { self.tied_with(key, reader, at) } else { (Vec::new(), Vec::new()) };
        (self.visible(key, reader, by_set, own, at).collect(), optional)
    }

    /// The versions that a transaction sees, latest first: these, and those before a place.
    fn visible<'a>(
        &'a self,
        key: &'a Key,
        reader: &'a Txn,
        by_set: bool,
        own: Vec<&'a Version>,
        mut at: Cursor,
    ) -> impl Iterator<Item = &'a Version> {
        let before = std::iter::from_fn(move || {
            loop {
                at = key.versions.prev(at)?;
                let version = key.versions.get(at)?;
                // Few transactions are looked up: they lie scattered in memory.
                let own = version.commit == reader.commit && self.txn(version.txn).seq == reader.seq;
                let seen = || match by_set {
                    true => self.sees(reader, version),
                    false => !self.is_later_tie(reader, version),
                };
                if !own && seen() {
                    return Some(version);
                }
            }
        });
        own.into_iter().chain(before)
    }

    /// Versions with the reader's commit, which begin here, under serializability: those before it in its session, latest
    /// first, and those of other sessions.
    fn tied_with<'a>(
        &self,
        key: &'a Key,
        reader: &Txn,
        mut at: Cursor,
    ) -> (Vec<&'a Version>, Vec<&'a Version>) {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        while let Some(version) = key.versions.get(at).filter(|v| v.commit == reader.commit) {
            let txn = self.txn(version.txn);
            if txn.session != reader.session {
                others.push(version);
            } else if txn.position < reader.position {
                own.push(version);
            }
            at = key.versions.next(at);
        }
        own.sort_by_key(|v| std::cmp::Reverse(self.txn(v.txn).position));
        (own, others)
    }

    /// Of versions with one commit, those that no other of its session follows.
    fn last_ones<'a>(&self, versions: &[&'a Version]) -> Vec<&'a Version> {
        let place = |v: &Version| (self.txn(v.txn).session, self.txn(v.txn).position);
        let followed = |v: &Version| {
            let (session, position) = place(v);
            versions.iter().any(|o| place(o).0 == session && place(o).1 > position)
        };
        versions.iter().copied().filter(|v| !followed(v)).collect()
    }

    /// Compares a read with the versions that it sees, latest first, and those that it may see.
    fn weigh<'a>(
        &'a self,
        key: &Key,
        read: &Read,
        mut visible: impl Iterator<Item = &'a Version>,
        optional: Vec<&'a Version>,
    ) -> Result<Judged, Elsewhere> {
        let mut tie: Vec<&Version> = Vec::new();
        let mut older = visible.next();
        while let Some(version) = older.filter(|v| tie.first().is_none_or(|last| last.commit == v.commit)) {
            tie.push(version);
            older = visible.next();
        }
        if tie.is_empty() && key.chain.is_some() {
            return Err(Elsewhere);
        }
        let expected = tie.first().map(|last| last.txn);
        let candidates = [self.last_ones(&tie), optional.clone()].concat();
        let several = self.ties && candidates.len() + usize::from(tie.is_empty()) > 1;
        let verdict = |holds: bool| match holds {
            true if several => Verdict::Tied,
            holds => Verdict::of(holds),
        };
        let initially = || self.initially(key, &read.seen) == Verdict::Right;
        if candidates.is_empty() {
            return Ok(Judged { verdict: self.initially(key, &read.seen), expected });
        }
        let written: Option<Vec<Datum>> = candidates.iter().map(|v| v.effect.written()).collect();
        if let Some(values) = written {
            let before = tie.is_empty() && initially();
            let holds = before || values.into_iter().any(|value| is(value, &read.seen));
            return Ok(Judged { verdict: verdict(holds), expected });
        }
        // A list, unless some version is anything but appends: then its content is not defined.
        let mut versions = tie;
        let pure = |versions: &[&Version]| versions.iter().all(|v| v.effect.appended().is_some());
        while let Some(version) = older.filter(|_| pure(&versions) && pure(&optional)) {
            versions.push(version);
            older = visible.next();
        }
        if !pure(&versions) || !pure(&optional) {
            return Ok(Judged { verdict: Verdict::Open, expected });
        }
        if key.chain.is_some() {
            return Err(Elsewhere);
        }
        let Seen::List(seen) = &read.seen else {
            let holds = versions.is_empty() && initially();
            return Ok(Judged { verdict: verdict(holds), expected });
        };
        let verdict = match self.is_list(key, &versions, &optional, seen) {
            Fit::Yes => verdict(true),
            Fit::No => Verdict::Wrong,
            Fit::GaveUp => Verdict::Open,
        };
        Ok(Judged { verdict, expected })
    }

    /// Whether a list is what the key held at first, what these versions appended and perhaps what those did.
    fn is_list(&self, key: &Key, versions: &[&Version], optional: &[&Version], seen: &[Datum]) -> Fit {
        let required = versions.iter().map(|v| (*v, true));
        let mut all: Vec<(&Version, bool)> = required.chain(optional.iter().map(|v| (*v, false))).collect();
        let place = |v: &Version| (self.txn(v.txn).session, self.txn(v.txn).position);
        all.sort_by_key(|(v, _)| (v.commit, place(v)));
        let blocks = all.iter().map(|&(v, required)| Block {
            commit: v.commit,
            session: place(v).0,
            required,
            elements: v.effect.appended().unwrap_or_default(),
        });
        let rest = seen.strip_prefix(self.initial_list(key.name));
        rest.map_or(Fit::No, |rest| list::is_concatenation(blocks, rest))
    }

    /// The list that a key begins as.
    pub fn initial_list(&self, key: Datum) -> &[Datum] {
        match self.initial_keys.get(&key) {
            Some(Seen::List(initial)) => initial,
            _ => &[],
        }
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
