//! SESSION, also where it is open whether some transactions of a session count.
//!
//! What a transaction must follow is the last one before it in the session that counts, or, where it saw a
//! set, the last writer of those. Most sessions have only transactions that count and remember just these
//! two. A session with a transaction of unknown outcome keeps, from there on, the transactions that may
//! have to follow that one: those of unknown outcome, the first committed one after each, the first writer,
//! and those with sets up to it. When one turns out to count, they are looked at again.

use crate::checker::Checker;
use crate::codec::{In, Out};
use crate::key::Slot;
use crate::live_state::{Id, Last, Txn};
use crate::rules::InSession;
use crate::{Batch, Event, Fault, Finding, Head, Store, StoreError};
use anomalist_history::{Outcome, SnapshotSet};
use anomalist_timestamp::{Axiom, Identity, Mode, Rule, breaks_numbers, unfollowed};

/// Who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum State {
    /// Counts, and follows no transaction of unknown outcome.
    Before = 0,
    /// Counts.
    Counts = 1,
    /// Of unknown outcome.
    Open = 2,
}

/// A transaction of a session.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    last: Last,
    set: Option<Box<SnapshotSet>>,
    writes: bool,
    state: State,
    /// It was reported that this transaction breaks SESSION.
    reported: bool,
}

/// Transactions of one session, in order.
pub(crate) type SessionTail = Vec<Entry>;

fn broken(rule: Rule, tail: &SessionTail, i: usize) -> Option<&Last> {
    let before = |writers: bool| {
        let counts = |e: &&Entry| e.state != State::Open && (e.writes || !writers);
        tail[..i].iter().rev().find(counts).map(|e| &e.last)
    };
    follow(rule, &tail[i].last, tail[i].set.as_deref(), before(false), before(true))
}

/// Which transaction before it one fails to follow.
fn follow<'a>(
    rule: Rule,
    txn: &Last,
    set: Option<&SnapshotSet>,
    last: Option<&'a Last>,
    writer: Option<&'a Last>,
) -> Option<&'a Last> {
    let before = |last: Option<&'a Last>| last.map(|last| InSession { last, set: None });
    unfollowed(rule, &InSession { last: txn, set }, before(last), before(writer)).map(|other| other.last)
}

impl<S: Store> Checker<S> {
    /// SESSION, start ≤ commit, and faults of the stream that show in stamps.
    pub(crate) fn check_session(&mut self, slot: Slot, head: &Head, events: &mut Vec<Event>) {
        let txn = self.live.txn(slot);
        let rule = self.options.rule;
        let mut findings = Vec::new();
        if rule.starts_late(txn) {
            findings.push(self.finding(Axiom::Timestamp, slot, None, None, None));
        }
        if head.outcome != Outcome::Committed {
            // Its session has been looked at, by `tail_admit`.
            findings.into_iter().for_each(|finding| self.report(finding, events));
            return;
        }
        let session = &self.live.sessions[txn.session];
        let last = Last {
            start: txn.start,
            commit: txn.commit,
            position: txn.position,
            set_id: txn.set_id,
            id: txn.id.clone(),
        };
        let (before, writer) = (session.last.as_ref(), session.last_writer.as_ref());
        let other = follow(rule, &last, txn.set.as_deref(), before, writer);
        let reported = other.is_some();
        let gap = breaks_numbers(session.last.as_ref().map(|_| session.number), head.number);
        if other.is_some() || gap {
            let other = other.or(session.last.as_ref());
            let name = other.map(|o| self.live.name_of(txn.session, o.position, o.id.as_ref()));
            findings.push(Finding { other: name, ..self.finding(Axiom::Session, slot, None, None, None) });
        }
        if session.last.as_ref().is_some_and(|l| txn.commit < l.start) {
            self.stats.session_order += 1;
            let fault = Fault::SessionOrder { txn: self.live.name(slot) };
            events.push(Event::Fault { fault, origin: head.origin });
        }
        for suspect in self.suspects.next(txn.commit.physical, head.origin, || self.live.name(slot)) {
            self.stats.future += 1;
            events.push(Event::Fault { fault: Fault::Future { txn: suspect.0 }, origin: suspect.1 });
        }
        if !self.live.tails.is_empty() {
            let txn = self.live.txn(slot).clone();
            self.tail_committed(&txn, &last, reported);
        }
        let txn = self.live.txn(slot);
        let (writes, session) = (!txn.read_only, txn.session);
        let session = &mut self.live.sessions[session];
        session.number = head.number;
        if writes {
            session.last_writer = Some(last.clone());
        }
        session.last = Some(last);
        for finding in findings {
            self.report(finding, events);
        }
    }

    /// A transaction of unknown outcome is the session's last.
    pub(crate) fn tail_open(
        &mut self,
        session: u32,
        position: u32,
        head: &Head,
        read_only: bool,
        batch: &Batch,
    ) {
        let known = &self.live.sessions[session];
        let tail = self.live.tails.entry(session).or_default();
        for (last, writes) in [(&known.last_writer, true), (&known.last, false)] {
            let Some(last) = last else { continue };
            let at = tail.partition_point(|e| e.last.position < last.position);
            if tail.get(at).is_none_or(|e| e.last.position != last.position) {
                let (last, state) = (last.clone(), State::Before);
                tail.insert(at, Entry { last, set: None, writes, state, reported: false });
            }
        }
        let id = head.id.map(|name| Id { name, text: batch.texts.get(&name).cloned() });
        let last =
            Last { start: head.stamps.start, commit: head.stamps.commit, position, set_id: head.set_id, id };
        let (set, writes) = (head.set.clone(), !read_only);
        tail.push(Entry { last, set, writes, state: State::Open, reported: false });
    }

    /// A committed transaction is the session's last.
    pub(crate) fn tail_committed(&mut self, txn: &Txn, last: &Last, reported: bool) {
        let Some(tail) = self.live.tails.get_mut(&txn.session) else { return };
        let after = tail.iter().rposition(|e| e.state == State::Open).map_or(0, |open| open + 1);
        let after = &tail[after..];
        let (set, writes) = (txn.set.clone(), !txn.read_only);
        let no_writer = !after.iter().any(|e| e.writes);
        let by_set = set.is_some() && self.options.rule.mode == Mode::Si;
        let state = match after.is_empty() || by_set && no_writer {
            true => State::Counts,
            // Other transactions may have to follow it, but it follows one that counts.
            false if writes && no_writer => State::Before,
            false => return,
        };
        tail.push(Entry { last: last.clone(), set, writes, state, reported });
    }

    /// A transaction of unknown outcome counts.
    pub(crate) fn tail_admit(&mut self, session: u32, position: u32, events: &mut Vec<Event>) {
        let Some(mut tail) = self.live.tails.remove(&session) else { return };
        let Some(at) = tail.iter().position(|e| e.last.position == position) else { return };
        tail[at].state = State::Counts;
        let known = &mut self.live.sessions[session];
        let later = |last: &Option<Last>| last.as_ref().is_none_or(|last| last.position < position);
        if later(&known.last) {
            known.last = Some(tail[at].last.clone());
        }
        if tail[at].writes && later(&known.last_writer) {
            known.last_writer = Some(tail[at].last.clone());
        }
        if self.options.checkpoints {
            self.dirty_sessions.insert(session);
        }
        for i in (at..tail.len()).filter(|&i| tail[i].state == State::Counts).collect::<Vec<_>>() {
            let other = broken(self.options.rule, &tail, i);
            if other.is_some() == tail[i].reported {
                continue;
            }
            let name = |last: &Last| self.live.name_of(session, last.position, last.id.as_ref());
            let txn = (self.live.sessions[session].name, tail[i].last.position);
            let finding = Finding {
                identity: Identity { axiom: Axiom::Session, txn, key: None, other: None, read: None },
                txn: name(&tail[i].last),
                key: None,
                other: other.map(name),
                read: None,
                seen: None,
                expected: None,
            };
            tail[i].reported = other.is_some();
            match tail[i].reported {
                true => self.report(finding, events),
                false => self.take_back(finding, events),
            }
        }
        if tail.iter().any(|e| e.state == State::Open) {
            self.live.tails.insert(session, tail);
        }
    }
}

impl Out {
    pub fn tail(&mut self, tail: &SessionTail) {
        self.usize(tail.len());
        for entry in tail {
            self.last(&entry.last);
            self.option(entry.set.as_deref(), Out::set);
            self.flag(entry.writes);
            self.0.push(entry.state as u8);
            self.flag(entry.reported);
        }
    }
}

impl In<'_> {
    pub fn tail(&mut self) -> Result<SessionTail, StoreError> {
        self.many(|from| {
            let (last, set, writes) = (from.last()?, from.option(In::set)?, from.flag()?);
            let state = match from.byte()? {
                0 => State::Before,
                1 => State::Counts,
                2 => State::Open,
                _ => return Err(StoreError::Damaged("no state".to_owned())),
            };
            Ok(Entry { last, set, writes, state, reported: from.flag()? })
        })
    }
}
