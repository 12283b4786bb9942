//! Transactions of unknown outcome.
//!
//! The rule is the offline check's (`anomalist-timestamp`, `offline/open.rs`): one counts only if a read of
//! a transaction that counts is wrong without it and no other such transaction can make it right. Until
//! then it is held: its operations in the store, in memory what it would leave of its keys. A wrong read
//! that asks for one of those is *open*: no violation, and it stays pending. When it settles, and asks for
//! one transaction alone, that one counts. At the end this is done in rounds, as offline, so the result is
//! the same. What asks for several is left open, and the level is unknown.
//!
//! That a transaction counts is not taken back; `doubt.rs` has what that means for violations.

use crate::change::Side;
use crate::checker::Checker;
use crate::codec::{In, Out};
use crate::doubt::Reasons;
use crate::key::{Effect, Read, Verdict};
use crate::ops::Ops;
use crate::ring::Cursor;
use crate::rules::Seat;
use crate::{Batch, Event, Key128, Location, Store, StoreError};
use anomalist_history::{OpKind, SnapshotSet, Timestamp};
use anomalist_timestamp::external::Cut;
use anomalist_timestamp::{Footprint, asked};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A transaction that is held.
#[derive(Clone, Debug)]
pub(crate) struct Indeterminate {
    pub session: u32,
    pub position: u32,
    pub start: Timestamp,
    pub commit: Timestamp,
    pub set_id: Option<u64>,
    pub set: Option<Box<SnapshotSet>>,
    /// Its operations.
    pub body: Location,
    /// What it would leave of its keys.
    pub effects: Vec<(Key128, Effect)>,
}

impl Indeterminate {
    fn effect(&self, key: Key128) -> &Effect {
        self.effects.iter().find(|(name, _)| *name == key).map_or(&Effect::Undefined, |(_, effect)| effect)
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndeterminateSet {
    /// By rank of arrival among them.
    pub held: FxHashMap<u64, Indeterminate>,
    pub next: u64,
    /// Who would leave something of a key, in the order of arrival.
    writers: FxHashMap<Key128, Vec<u64>>,
    /// Keys of reads by which a transaction was found to count.
    reasons: Reasons,
    /// The end has come, and nothing has arrived since.
    pub resolved: bool,
}

/// What one held transaction costs, about, for each of its keys.
const WEIGHT: usize = 160;

impl IndeterminateSet {
    pub fn memory(&self) -> usize {
        WEIGHT * (self.held.len() + self.writers.len() + self.reasons.len())
    }

    fn insert(&mut self, number: u64, held: Indeterminate) {
        for (key, _) in &held.effects {
            self.writers.entry(*key).or_default().push(number);
        }
        self.held.insert(number, held);
    }

    fn remove(&mut self, number: u64) -> Option<Indeterminate> {
        let held = self.held.remove(&number)?;
        for (key, _) in &held.effects {
            if let Some(writers) = self.writers.get_mut(key) {
                writers.retain(|&writer| writer != number);
                if writers.is_empty() {
                    self.writers.remove(key);
                }
            }
        }
        Some(held)
    }

    /// In the order of their arrival.
    fn sorted(&self) -> Vec<(u64, &Indeterminate)> {
        let mut all: Vec<_> = self.held.iter().map(|(&number, held)| (number, held)).collect();
        all.sort_by_key(|(number, _)| *number);
        all
    }
}

/// What a transaction would leave of its keys.
fn effects(batch: &Batch, i: usize) -> Vec<(Key128, Effect)> {
    let (_, range) = &batch.heads[i];
    let range = range.start as usize..range.end as usize;
    let keys: Vec<Key128> = batch.ops[range.clone()].iter().map(|op| op.key).collect();
    let ops = Ops { batch, first: range.start, keys: &keys };
    let mut footprint = Footprint::default();
    footprint.pass(&ops);
    footprint.writes.iter().map(|written| (written.key, ops.effect(written))).collect()
}

impl<S: Store> Checker<S> {
    /// A transaction of unknown outcome has arrived.
    pub(crate) fn hold(
        &mut self,
        batch: &Batch,
        i: usize,
        (session, position): (u32, u32),
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        let (head, _) = &batch.heads[i];
        let effects = effects(batch, i);
        if effects.is_empty() {
            // No other transaction can have read from it.
            return Ok(());
        }
        let mut out = Out::default();
        out.body(batch, i);
        let body = self.store.append(&out.0)?;
        let number = self.holding.next;
        self.holding.next += 1;
        let keys: Vec<Key128> = effects.iter().map(|(key, _)| *key).collect();
        let held = Indeterminate {
            session,
            position,
            start: head.stamps.start,
            commit: head.stamps.commit,
            set_id: head.set_id,
            set: head.set.clone(),
            body,
            effects,
        };
        self.holding.insert(number, held);
        self.tail_open(session, position, head, false, batch);
        for key in keys {
            self.open_wrong_reads(key, now, events)?;
        }
        Ok(())
    }

    /// Wrong reads of a key may be right by what has arrived.
    fn open_wrong_reads(
        &mut self,
        name: Key128,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        let key = match self.index.get(&name) {
            Some(&key) => key,
            None if self.evicted => {
                let key = self.bring_back(name, None)?;
                if key.chain.is_none_or(|chain| !chain.wrong) {
                    return Ok(());
                }
                self.insert_key(key)
            }
            None => return Ok(()),
        };
        while self.keys[key as usize].chain.is_some_and(|chain| chain.wrong) {
            self.reload(key)?;
        }
        while self.open_in_memory(key, now, events).is_err() {
            self.reload(key)?;
        }
        Ok(())
    }

    fn open_in_memory(&mut self, key: u32, now: u64, events: &mut Vec<Event>) -> Result<(), Cut> {
        for side in [Side::At, Side::Set] {
            let mut at = self.keys[key as usize].side(side).start();
            while let Some(read) = self.keys[key as usize].side(side).get(at) {
                if read.verdict == Verdict::Wrong
                    && self.open_verdict(key, side, at, Verdict::Wrong)? == Verdict::Open
                {
                    self.change(key, side, at, Verdict::Open, now, events);
                }
                at = self.keys[key as usize].side(side).next(at);
            }
        }
        Ok(())
    }

    /// What is to be thought of a read with this verdict by what counts.
    pub(crate) fn open_verdict(
        &self,
        key: u32,
        side: Side,
        at: Cursor,
        verdict: Verdict,
    ) -> Result<Verdict, Cut> {
        if verdict != Verdict::Wrong || !self.holding.writers.contains_key(&self.keys[key as usize].name) {
            return Ok(verdict);
        }
        self.open_if_asked(key, self.read(key, side, at), verdict)
    }

    /// The same of a read that is not among those of its key.
    pub(crate) fn open_if_asked(&self, key: u32, read: &Read, verdict: Verdict) -> Result<Verdict, Cut> {
        let asks = verdict == Verdict::Wrong && !self.ask(key, read)?.is_empty();
        Ok(if asks { Verdict::Open } else { verdict })
    }

    /// Of the transactions that are held, those one of which must have committed if a read that is wrong so
    /// far is right.
    fn ask(&self, key: u32, read: &Read) -> Result<Vec<u64>, Cut> {
        let (live, key) = (&self.live, &self.keys[key as usize]);
        let Some(writers) = self.holding.writers.get(&key.name) else { return Ok(Vec::new()) };
        let seat = |number: &u64| {
            let held = self.holding.held.get(number)?;
            Some((*number, Seat::Open(held, held.effect(key.name))))
        };
        let open: Vec<(u64, Seat<'_>)> = writers.iter().filter_map(seat).collect();
        let scope = || live.scope_of(key, read);
        asked(self.options.rule, live.txn(read.txn), &live.read(key, read), &open, scope)
    }

    /// A read that is open has settled, and stays pending: if it asks for one transaction, that one counts.
    pub(crate) fn decide(
        &mut self,
        seq: u64,
        key: u32,
        side: Side,
        moment: Timestamp,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        match self.asked_by(seq, key, side, moment, events)?[..] {
            [number] => self.admit(number, self.now, events),
            _ => Ok(()),
        }
    }

    /// Whom an open read asks for; the reason is kept if it is one.
    fn asked_by(
        &mut self,
        seq: u64,
        key: u32,
        side: Side,
        moment: Timestamp,
        events: &mut Vec<Event>,
    ) -> Result<Vec<u64>, StoreError> {
        let (at, asked) = loop {
            let Some(at) = self.find_read(key, side, moment, seq) else {
                if self.keys[key as usize].chain.is_none() {
                    return Ok(Vec::new());
                }
                self.reload(key)?;
                continue;
            };
            let read = self.read(key, side, at);
            if read.verdict != Verdict::Open {
                return Ok(Vec::new());
            }
            let judged = self.live.judge(&self.keys[key as usize], read);
            match judged.and_then(|judged| match judged.verdict {
                Verdict::Wrong => self.ask(key, read).map(Some),
                _ => Ok(None),
            }) {
                Ok(asked) => break (at, asked),
                Err(_) => self.reload(key)?,
            }
        };
        let Some(asked) = asked else { return Ok(Vec::new()) };
        match asked.len() {
            0 => self.change(key, side, at, Verdict::Wrong, self.now, events),
            1 => {
                let read = self.read(key, side, at);
                let (moment, xmax) = (read.at, read.xmax);
                self.holding.reasons.add(self.keys[key as usize].name, moment, xmax);
            }
            _ => {}
        }
        Ok(asked)
    }

    /// The end: the transactions that must have committed count, in rounds.
    pub(crate) fn resolve(&mut self, events: &mut Vec<Event>) -> Result<(), StoreError> {
        loop {
            let pending: Vec<(u64, u32, Side, Timestamp)> = self
                .pending
                .sorted()
                .into_iter()
                .map(|(&(seq, key), waiting)| {
                    (seq, key, if waiting.by_set { Side::Set } else { Side::At }, waiting.at)
                })
                .collect();
            let mut forced: BTreeSet<u64> = BTreeSet::new();
            for (seq, key, side, moment) in pending {
                if let [number] = self.asked_by(seq, key, side, moment, events)?[..] {
                    forced.insert(number);
                }
            }
            if forced.is_empty() {
                return Ok(());
            }
            for number in forced {
                self.admit(number, self.now, events)?;
            }
        }
    }

    /// Reads that cannot be judged: their time to settle is over, and they are still open.
    pub fn open(&self) -> usize {
        self.pending.sorted().iter().filter(|(_, waiting)| waiting.deadline == crate::change::FOREVER).count()
    }

    /// A transaction has arrived that did not abort.
    pub(crate) fn doubt(&mut self, batch: &Batch, i: usize) {
        let (head, ops) = &batch.heads[i];
        let mut ops = batch.ops[ops.start as usize..ops.end as usize].iter();
        let (rule, reasons) = (self.options.rule, &self.holding.reasons);
        let doubted = !reasons.is_empty()
            && ops.any(|op| op.kind != OpKind::Read && reasons.may_see(rule, op.key, head));
        self.stats.doubts += u64::from(doubted);
    }

    /// A transaction counts from now on.
    fn admit(&mut self, number: u64, now: u64, events: &mut Vec<Event>) -> Result<(), StoreError> {
        let Some(held) = self.holding.remove(number) else { return Ok(()) };
        let bytes = self.store.load(held.body)?;
        let mut from = In(&bytes);
        let body = from.body()?;
        from.end()?;
        self.store.release(held.body);
        self.stats.not_committed -= 1;
        self.tail_admit(held.session, held.position, events);
        self.judge_transaction(&body, 0, (held.session, held.position), now, events)
    }

    /// All that a checkpoint says about transactions of unknown outcome.
    pub(crate) fn encode_open(&self, out: &mut Out) {
        out.u64(self.holding.next);
        let held = self.holding.sorted();
        out.usize(held.len());
        for (number, held) in held {
            out.u64(number);
            out.u64(held.session.into());
            out.u64(held.position.into());
            out.stamp(held.start);
            out.stamp(held.commit);
            out.option(held.set_id, Out::u64);
            out.option(held.set.as_deref(), Out::set);
            out.location(held.body);
            out.usize(held.effects.len());
            for (key, effect) in &held.effects {
                out.datum(*key);
                out.effect(effect);
            }
        }
        out.reasons(&self.holding.reasons);
        let mut tails: Vec<_> = self.live.tails.iter().collect();
        tails.sort_by_key(|(session, _)| **session);
        out.usize(tails.len());
        for (&session, tail) in tails {
            out.u64(session.into());
            out.tail(tail);
        }
    }

    pub(crate) fn decode_open(&mut self, from: &mut In<'_>) -> Result<(), StoreError> {
        self.holding.next = from.u64()?;
        for _ in 0..from.count()? {
            let number = from.u64()?;
            let held = Indeterminate {
                session: from.u32()?,
                position: from.u32()?,
                start: from.stamp()?,
                commit: from.stamp()?,
                set_id: from.option(In::u64)?,
                set: from.option(In::set)?,
                body: from.location()?,
                effects: from.many(|from| Ok((from.datum()?, from.effect()?)))?,
            };
            self.holding.insert(number, held);
        }
        self.holding.reasons = from.reasons()?;
        for _ in 0..from.count()? {
            let (session, tail) = (from.u32()?, from.tail()?);
            self.live.tails.insert(session, tail);
        }
        Ok(())
    }
}
