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
use crate::rules::InSession;
use crate::world::{Id, Last, Txn};
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
    told: bool,
}

/// Transactions of one session, in order.
pub(crate) type Trail = Vec<Entry>;

fn broken(rule: Rule, trail: &Trail, i: usize) -> Option<&Last> {
    let before = |writers: bool| {
        let counts = |e: &&Entry| e.state != State::Open && (e.writes || !writers);
        trail[..i].iter().rev().find(counts).map(|e| &e.last)
    };
    follow(rule, &trail[i].last, trail[i].set.as_deref(), before(false), before(true))
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
        let txn = self.world.txn(slot);
        let rule = self.options.rule;
        let mut findings = Vec::new();
        if rule.starts_late(txn) {
            findings.push(self.finding(Axiom::Timestamp, slot, None, None, None));
        }
        if head.outcome != Outcome::Committed {
            // Its session has been looked at, by `trail_admit`.
            findings.into_iter().for_each(|finding| self.report(finding, events));
            return;
        }
        let session = &self.world.sessions[txn.session as usize];
        let last = Last {
            start: txn.start,
            commit: txn.commit,
            position: txn.position,
            set_id: txn.set_id,
            id: txn.id.clone(),
        };
        let (before, writer) = (session.last.as_ref(), session.last_writer.as_ref());
        let other = follow(rule, &last, txn.set.as_deref(), before, writer);
        let told = other.is_some();
        let gap = breaks_numbers(session.last.as_ref().map(|_| session.number), head.number);
        if other.is_some() || gap {
            let other = other.or(session.last.as_ref());
            let name = other.map(|o| self.world.name_of(txn.session, o.position, o.id.as_ref()));
            findings.push(Finding { other: name, ..self.finding(Axiom::Session, slot, None, None, None) });
        }
        if session.last.as_ref().is_some_and(|l| txn.commit < l.start) {
            self.stats.session_order += 1;
            let fault = Fault::SessionOrder { txn: self.world.name(slot) };
            events.push(Event::Fault { fault, origin: head.origin });
        }
        for suspect in self.suspects.next(txn.commit.physical, head.origin, || self.world.name(slot)) {
            self.stats.future += 1;
            events.push(Event::Fault { fault: Fault::Future { txn: suspect.0 }, origin: suspect.1 });
        }
        if !self.world.trails.is_empty() {
            let txn = self.world.txn(slot).clone();
            self.trail_committed(&txn, &last, told);
        }
        let txn = self.world.txn(slot);
        let (writes, session) = (!txn.read_only, txn.session);
        let session = &mut self.world.sessions[session as usize];
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
    pub(crate) fn trail_open(
        &mut self,
        session: u32,
        position: u32,
        head: &Head,
        read_only: bool,
        batch: &Batch,
    ) {
        let known = &self.world.sessions[session as usize];
        let trail = self.world.trails.entry(session).or_default();
        for (last, writes) in [(&known.last_writer, true), (&known.last, false)] {
            let Some(last) = last else { continue };
            let at = trail.partition_point(|e| e.last.position < last.position);
            if trail.get(at).is_none_or(|e| e.last.position != last.position) {
                let (last, state) = (last.clone(), State::Before);
                trail.insert(at, Entry { last, set: None, writes, state, told: false });
            }
        }
        let id = head.id.map(|name| Id { name, text: batch.texts.get(&name).cloned() });
        let last =
            Last { start: head.stamps.start, commit: head.stamps.commit, position, set_id: head.set_id, id };
        let (set, writes) = (head.set.clone(), !read_only);
        trail.push(Entry { last, set, writes, state: State::Open, told: false });
    }

    /// A committed transaction is the session's last.
    pub(crate) fn trail_committed(&mut self, txn: &Txn, last: &Last, told: bool) {
        let Some(trail) = self.world.trails.get_mut(&txn.session) else { return };
        let after = trail.iter().rposition(|e| e.state == State::Open).map_or(0, |open| open + 1);
        let after = &trail[after..];
        let (set, writes) = (txn.set.clone(), !txn.read_only);
        let no_writer = !after.iter().any(|e| e.writes);
        let by_set = set.is_some() && self.options.rule.mode == Mode::Si;
        let state = match after.is_empty() || by_set && no_writer {
            true => State::Counts,
            // Other transactions may have to follow it, but it follows one that counts.
            false if writes && no_writer => State::Before,
            false => return,
        };
        trail.push(Entry { last: last.clone(), set, writes, state, told });
    }

    /// A transaction of unknown outcome counts.
    pub(crate) fn trail_admit(&mut self, session: u32, position: u32, events: &mut Vec<Event>) {
        let Some(mut trail) = self.world.trails.remove(&session) else { return };
        let Some(at) = trail.iter().position(|e| e.last.position == position) else { return };
        trail[at].state = State::Counts;
        let known = &mut self.world.sessions[session as usize];
        let later = |last: &Option<Last>| last.as_ref().is_none_or(|last| last.position < position);
        if later(&known.last) {
            known.last = Some(trail[at].last.clone());
        }
        if trail[at].writes && later(&known.last_writer) {
            known.last_writer = Some(trail[at].last.clone());
        }
        if self.options.checkpoints {
            self.dirty_sessions.insert(session);
        }
        for i in (at..trail.len()).filter(|&i| trail[i].state == State::Counts).collect::<Vec<_>>() {
            let other = broken(self.options.rule, &trail, i);
            if other.is_some() == trail[i].told {
                continue;
            }
            let name = |last: &Last| self.world.name_of(session, last.position, last.id.as_ref());
            let txn = (self.world.sessions[session as usize].name, trail[i].last.position);
            let finding = Finding {
                identity: Identity { axiom: Axiom::Session, txn, key: None, other: None, read: None },
                txn: name(&trail[i].last),
                key: None,
                other: other.map(name),
                read: None,
                seen: None,
                expected: None,
            };
            trail[i].told = other.is_some();
            match trail[i].told {
                true => self.report(finding, events),
                false => self.take_back(finding, events),
            }
        }
        if trail.iter().any(|e| e.state == State::Open) {
            self.world.trails.insert(session, trail);
        }
    }
}

impl Out {
    pub fn trail(&mut self, trail: &Trail) {
        self.usize(trail.len());
        for entry in trail {
            self.last(&entry.last);
            self.option(entry.set.as_deref(), Out::set);
            self.flag(entry.writes);
            self.0.push(entry.state as u8);
            self.flag(entry.told);
        }
    }
}

impl In<'_> {
    pub fn trail(&mut self) -> Result<Trail, StoreError> {
        self.many(|from| {
            let (last, set, writes) = (from.last()?, from.option(In::set)?, from.flag()?);
            let state = match from.byte()? {
                0 => State::Before,
                1 => State::Counts,
                2 => State::Open,
                _ => return Err(StoreError::Damaged("no state".to_owned())),
            };
            Ok(Entry { last, set, writes, state, told: from.flag()? })
        })
    }
}
