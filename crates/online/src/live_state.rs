//! Transactions and sessions in memory, who comes before whom, who sees whom, and what a read must return.
//!
//! `judge` finds the versions in memory that a read sees, and asks `anomalist-timestamp` about EXT.

use crate::key::{Effect, Key, Read, Seen, Slot, Verdict, Version};
use crate::ring::Cursor;
use crate::rules::Seat;
use crate::session_tail::SessionTail;
use crate::sessions::Sessions;
use crate::{Key128, Shape, Shown, TxnName};
use anomalist_history::{SnapshotSet, Timestamp};
use anomalist_timestamp::external::{self, Cut, Match, Scope};
use anomalist_timestamp::{Mode, Place, Rule, Sight, Stamped};
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
    pub name: Key128,
    pub text: Option<Box<str>>,
}

/// A session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub name: Key128,
    /// The name as text: sessions are ordered by it.
    pub text: Box<str>,
    /// Transactions so far, whatever their outcome.
    pub count: u32,
    pub last: Option<Last>,
    pub last_writer: Option<Last>,
    /// The number of the last committed transaction, where the recording has one.
    pub number: Option<u64>,
    /// Transactions in memory.
    pub refs: u32,
    /// It went on since the last collection.
    pub fresh: bool,
    /// The store knows its name.
    pub stored: bool,
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

/// The state in memory that is not kept by key.
#[derive(Clone, Debug)]
pub(crate) struct LiveState {
    pub rule: Rule,
    /// A read that is right by one of several versions is said to be.
    ties: bool,
    txns: Vec<Txn>,
    free: Vec<Slot>,
    pub sessions: Sessions,
    /// Sessions with transactions of unknown outcome.
    pub tails: FxHashMap<u32, SessionTail>,
    /// What a register holds before any write; `None`: nothing.
    pub initial: Option<Key128>,
    pub initial_keys: FxHashMap<Key128, Seen>,
    /// How to write values; forgotten now and then.
    pub texts: FxHashMap<Key128, Box<str>>,
}

/// What `judge` found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Judged {
    pub verdict: Verdict,
    /// Whose version it should have read; `None` for the initial state.
    pub expected: Option<Slot>,
}

impl LiveState {
    pub fn new(rule: Rule, ties: bool) -> LiveState {
        LiveState {
            rule,
            ties,
            txns: Vec::new(),
            free: Vec::new(),
            sessions: Sessions::default(),
            tails: FxHashMap::default(),
            initial: Some(Key128::NIL),
            initial_keys: FxHashMap::default(),
            texts: FxHashMap::default(),
        }
    }

    /// Takes in a transaction.
    pub fn add(&mut self, txn: Txn) -> Slot {
        self.sessions[txn.session].refs += 1;
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
            let session = &mut self.sessions[txn.session];
            session.refs = session.refs.saturating_sub(1);
            self.free.push(slot);
        }
        gone
    }

    /// Transactions in memory.
    pub fn txn_count(&self) -> usize {
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

    fn place(&self, slot: Slot) -> Place<Timestamp, &str> {
        let &Txn { commit, read_only, start, position, session, .. } = self.txn(slot);
        Place { commit, read_only, start, session: &self.sessions[session].text, position }
    }

    /// The order of transactions.
    pub fn order(&self, a: Slot, b: Slot) -> Ordering {
        self.place(a).cmp(&self.place(b))
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

    /// A version as the rules see it.
    #[inline]
    pub fn seat<'a>(&'a self, version: &'a Version) -> Seat<'a> {
        Seat::Counted(self, version)
    }

    /// What is to be thought of a read, given the versions in memory.
    pub fn judge(&self, key: &Key, read: &Read) -> Result<Judged, Cut> {
        let reader = self.txn(read.txn);
        let (at, tied) = self.horizon(key, reader);
        if !tied && let Some(judged) = self.judge_by_one(key, read, reader, at) {
            return Ok(judged);
        }
        let (matched, expected) = external::judge(&self.read(key, read), self.scope(key, reader, at, tied))?;
        let verdict = match matched {
            Match::Right => Verdict::Right,
            Match::Tied if !self.ties => Verdict::Right,
            Match::Tied => Verdict::Tied,
            Match::Wrong => Verdict::Wrong,
            Match::Unjudged | Match::GaveUp => Verdict::Open,
        };
        let slot = |seat: Seat<'_>| match seat {
            Seat::Counted(_, version) => Some(version.txn),
            Seat::Open(..) => None,
        };
        Ok(Judged { verdict, expected: expected.and_then(slot) })
    }

    /// The same where one value was written last, by another, and no one else commits when its writer does:
    /// nearly always.
    #[inline]
    fn judge_by_one(&self, key: &Key, read: &Read, reader: &Txn, at: Cursor) -> Option<Judged> {
        if self.rule.mode == Mode::Si && reader.set.is_some() {
            return None;
        }
        let before = key.versions.prev(at)?;
        let last = key.versions.get(before)?;
        let value = last.effect.written()?;
        let second = key.versions.prev(before).and_then(|at| key.versions.get(at));
        let alone = last.commit != reader.commit
            && self.rule.sight(reader, &self.seat(last)) == Sight::Seen
            && second.is_none_or(|v| v.commit != last.commit);
        alone.then(|| Judged { verdict: Verdict::of(read.seen.is(value)), expected: Some(last.txn) })
    }

    /// A read as the rules see it.
    pub fn read<'a>(
        &'a self,
        key: &Key,
        read: &'a Read,
    ) -> external::Read<'a, Key128, impl Fn(Key128) -> bool + use<'a>> {
        let shows = |value| read.seen.is(value);
        external::Read { seen: read.seen.view(), initial: self.initial(key.name), shows }
    }

    /// What a read may see.
    pub fn scope_of<'a>(
        &'a self,
        key: &'a Key,
        read: &Read,
    ) -> Scope<impl Iterator<Item = Seat<'a>>, Seat<'a>> {
        let reader = self.txn(read.txn);
        let (at, tied) = self.horizon(key, reader);
        self.scope(key, reader, at, tied)
    }

    /// Where what a transaction cannot see begins (or what only its set tells), and whether others commit
    /// when it does, which only matters under serializability.
    fn horizon(&self, key: &Key, reader: &Txn) -> (Cursor, bool) {
        let versions = &key.versions;
        match (self.rule.mode, &reader.set) {
            (Mode::Ser, _) => {
                let at = versions.find(reader.commit, |v| v.commit < reader.commit);
                (at, versions.get(at).is_some_and(|v| v.commit == reader.commit))
            }
            (Mode::Si, Some(_)) => (versions.end(), false),
            (Mode::Si, None) => {
                (versions.find(reader.start, |v| self.rule.contains(reader.start, v.commit)), false)
            }
        }
    }

    /// The versions in memory that a transaction sees, latest first, and those that it may see, given its
    /// horizon.
    fn scope<'a>(
        &'a self,
        key: &'a Key,
        reader: &'a Txn,
        mut at: Cursor,
        tied: bool,
    ) -> Scope<impl Iterator<Item = Seat<'a>>, Seat<'a>> {
        let (own, optional) = if tied { self.tied_with(key, reader, at) } else { Default::default() };
        let before = std::iter::from_fn(move || {
            loop {
                at = key.versions.prev(at)?;
                let version = key.versions.get(at)?;
                let own = version.commit == reader.commit && self.txn(version.txn).seq == reader.seq;
                if !own && self.rule.sight(reader, &self.seat(version)) == Sight::Seen {
                    return Some(self.seat(version));
                }
            }
        });
        Scope { required: own.into_iter().chain(before), optional, cut: key.chain.is_some(), mixed: false }
    }

    /// Versions with the reader's commit, which begin here, under serializability: those that it sees,
    /// latest first, and those that it may see.
    fn tied_with<'a>(&'a self, key: &'a Key, reader: &Txn, mut at: Cursor) -> (Vec<Seat<'a>>, Vec<Seat<'a>>) {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        while let Some(version) = key.versions.get(at).filter(|v| v.commit == reader.commit) {
            let seat = self.seat(version);
            match self.rule.sight(reader, &seat) {
                Sight::Seen => own.push(seat),
                Sight::Perhaps => others.push(seat),
                Sight::Unseen => {}
            }
            at = key.versions.next(at);
        }
        own.sort_by_key(|seat| std::cmp::Reverse(seat.position()));
        (own, others)
    }

    /// What a key begins as.
    fn initial(&self, key: Key128) -> Option<external::Seen<'_, Key128>> {
        match self.initial_keys.get(&key) {
            Some(seen) => Some(seen.view()),
            None => self.initial.map(external::Seen::One),
        }
    }

    /// A transaction's name.
    pub fn name(&self, slot: Slot) -> TxnName {
        let txn = self.txn(slot);
        self.name_of(txn.session, txn.position, txn.id.as_ref())
    }

    pub fn name_of(&self, session: u32, position: u32, id: Option<&Id>) -> TxnName {
        let id = id.map(|id| show(id.name, id.text.as_deref()));
        let session = &self.sessions[session];
        TxnName { session: show(session.name, Some(&session.text)), position: position + 1, id }
    }

    /// A value as people write it, as far as that is remembered.
    pub fn show_value(&self, value: Key128) -> Option<Shown> {
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

    fn show_list<'a>(&self, elements: impl ExactSizeIterator<Item = &'a Key128>) -> Option<String> {
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
    pub fn show_initial(&self, name: Key128) -> Option<Shown> {
        match self.initial_keys.get(&name) {
            Some(seen) => self.show_seen(seen),
            None => self.show_value(self.initial?),
        }
    }
}

/// A name as people write it.
pub(crate) fn show(name: Key128, text: Option<&str>) -> Shown {
    match name.shape() {
        Shape::Int(i) => Shown::Int(i),
        Shape::Nil => Shown::Nil,
        Shape::Text => Shown::Text(text.unwrap_or("?").into()),
    }
}
