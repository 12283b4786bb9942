//! Verdicts that change, and when a change is reported.
//!
//! A verdict is provisional until its transaction has been here for the settling time; then, if it differs
//! from what was reported, it is reported. A reported violation that a later arrival overturns is retracted
//! at once; a read that had settled as right and turns wrong has to settle again. So violations minus
//! retractions are, once everything has settled, exactly the reads that are wrong by all that has arrived:
//! what the offline check finds.

use crate::checker::Checker;
use crate::key::{Effect, Key, Read, Slot, Verdict, Version};
use crate::pending::{SpilledRead, Waiting};
use crate::ring::{Cursor, Ring};
use crate::rules::Reader;
use crate::{Event, Finding, Key128, Store, StoreError, TxnKey};
use anomalist_history::Timestamp;
use anomalist_timestamp::external::Cut;
use anomalist_timestamp::{Axiom, Identity, Mode, Sight};
use std::cmp::Ordering;

/// Which of a key's two sequences of reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Those that see what a timestamp says.
    At,
    /// Those that see what a set says.
    Set,
}

impl Key {
    pub fn side(&self, side: Side) -> &Ring<Read> {
        match side {
            Side::At => &self.reads,
            Side::Set => &self.set_reads,
        }
    }

    pub fn side_mut(&mut self, side: Side) -> &mut Ring<Read> {
        match side {
            Side::At => &mut self.reads,
            Side::Set => &mut self.set_reads,
        }
    }
}

/// The deadline of what only the end settles.
pub(crate) const FOREVER: u64 = u64::MAX;

/// A timestamp as a moment of virtual time, for [`Options::virtual_time`](crate::Options). Logical parts
/// are left out, so what has settled is at worst a little late.
pub fn moment(at: Timestamp) -> u64 {
    (at.physical as u64) ^ (1 << 63)
}

/// The axiom that a verdict breaks.
fn broken(verdict: Verdict) -> Option<Axiom> {
    match verdict {
        Verdict::Right | Verdict::Open => None,
        Verdict::Wrong => Some(Axiom::Ext),
        Verdict::Tied => Some(Axiom::Tie),
    }
}

impl<S: Store> Checker<S> {
    /// A read; the cursor must be one of its key's.
    pub(crate) fn read(&self, key: u32, side: Side, at: Cursor) -> &Read {
        match self.keys[key as usize].side(side).get(at) {
            Some(read) => read,
            None => unreachable!("a cursor of this ring"),
        }
    }

    fn read_mut(&mut self, key: u32, side: Side, at: Cursor) -> &mut Read {
        match self.keys[key as usize].side_mut(side).get_mut(at) {
            Some(read) => read,
            None => unreachable!("a cursor of this ring"),
        }
    }

    /// Puts a read among those of its key.
    pub(crate) fn insert_read(&mut self, key: u32, side: Side, read: Read) -> Cursor {
        self.bytes += crate::key::Weight::weight(&read);
        let live = &self.live;
        let by_place = self.options.rule.mode == Mode::Ser;
        let ring = self.keys[key as usize].side_mut(side);
        let at = ring.find(read.at, |r| match r.at.cmp(&read.at) {
            Ordering::Equal if by_place => live.order(r.txn, read.txn) != Ordering::Greater,
            order => order != Ordering::Greater,
        });
        ring.insert(at, read)
    }

    /// Judges again the reads that see the version of this transaction, which is here, up to the next one
    /// that hides it.
    pub(crate) fn recheck(
        &mut self,
        key: u32,
        slot: Slot,
        mut mine: Cursor,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        while self.recheck_in_memory(key, slot, mine, now, events).is_err() {
            self.reload(key)?;
            mine = self.live.find(&self.keys[key as usize], slot);
        }
        Ok(())
    }

    fn recheck_in_memory(
        &mut self,
        key: u32,
        slot: Slot,
        mine: Cursor,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), Cut> {
        let commit = self.live.txn(slot).commit;
        let ser = self.options.rule.mode == Mode::Ser;
        let k = &self.keys[key as usize];
        let stop = self.hidden_by(k, mine, commit);
        let alone = self.stands_alone(k, mine, commit);
        // Under serializability who commits at the same moment may see it.
        let mut at = match ser {
            true => k.reads.find(commit, |r| r.at < commit),
            false => k.reads.find(commit, |r| !self.options.rule.contains(r.at, commit)),
        };
        while let Some(read) = self.keys[key as usize].reads.get(at) {
            let sees = |commit: Timestamp| match ser {
                true => read.at > commit,
                false => self.options.rule.contains(read.at, commit),
            };
            let may_see = |other: Timestamp| sees(other) || ser && read.at == other;
            // At that very moment there may be readers that do not see it: itself, and those whose session
            // it goes on.
            if stop.is_some_and(|stop| read.at > stop) {
                break;
            }
            let reader = Reader { live: &self.live, read };
            let sight = || self.options.rule.sight(&reader, self.live.txn(slot));
            let is_seen = || read.txn != slot && sight() == Sight::Seen;
            let verdict = match alone {
                Some((value, next)) if !next.is_some_and(may_see) && is_seen() => {
                    Verdict::of(read.seen.is(value))
                }
                _ => self.live.judge(&self.keys[key as usize], read)?.verdict,
            };
            let verdict = self.open_verdict(key, Side::At, at, verdict)?;
            let read = self.read(key, Side::At, at);
            if verdict != read.verdict {
                self.change(key, Side::At, at, verdict, now, events);
            }
            at = self.keys[key as usize].reads.next(at);
        }
        // Sets from before the writer's id was given out do not contain it: of a long stream, only the last
        // few may.
        let id = self.live.txn(slot).set_id;
        let mut at = self.keys[key as usize].set_reads.start();
        loop {
            let reads = &self.keys[key as usize].set_reads;
            at = id.map_or(at, |id| reads.pass(at, id));
            let Some(read) = reads.get(at) else { return Ok(()) };
            if id.is_none_or(|id| id < read.xmax) {
                let verdict = self.live.judge(&self.keys[key as usize], read)?.verdict;
                let verdict = self.open_verdict(key, Side::Set, at, verdict)?;
                if verdict != self.read(key, Side::Set, at).verdict {
                    self.change(key, Side::Set, at, verdict, now, events);
                }
            }
            at = self.keys[key as usize].set_reads.next(at);
        }
    }

    /// A written value that decides alone what others must read, up to the version after it: no other
    /// version has the same commit timestamp.
    fn stands_alone(&self, key: &Key, at: Cursor, commit: Timestamp) -> Option<(Key128, Option<Timestamp>)> {
        let versions = &key.versions;
        let value = versions.get(at)?.effect.written()?;
        let next = versions.get(versions.next(at));
        let before = versions.prev(at).and_then(|before| versions.get(before));
        let tied = |other: Option<&Version>| other.is_some_and(|other| other.commit == commit);
        if tied(next) || tied(before) {
            return None;
        }
        Some((value, next.map(|next| next.commit)))
    }

    /// The commit of the first versions after this one that hide it from all who read later.
    fn hidden_by(&self, key: &Key, mut at: Cursor, commit: Timestamp) -> Option<Timestamp> {
        let versions = &key.versions;
        let ser = self.options.rule.mode == Mode::Ser;
        let is_write = |effect: &Effect| effect.written().is_some();
        loop {
            at = versions.next(at);
            let version = versions.get(at)?;
            if version.commit == commit {
                continue;
            }
            // A group of versions with one commit, all of them writes.
            let (mut count, mut hides) = (1, is_write(&version.effect));
            let mut ahead = versions.next(at);
            while let Some(next) = versions.get(ahead).filter(|next| next.commit == version.commit) {
                hides &= is_write(&next.effect);
                count += 1;
                at = ahead;
                ahead = versions.next(at);
            }
            // One that starts after its commit does not hide from itself.
            let txn = self.live.txn(version.txn);
            let sees_itself = !ser && txn.set.is_none() && txn.start > txn.commit;
            if hides && (count > 1 || !sees_itself) {
                return Some(version.commit);
            }
        }
    }

    /// A read's verdict is another now.
    pub(crate) fn change(
        &mut self,
        key: u32,
        side: Side,
        at: Cursor,
        verdict: Verdict,
        now: u64,
        events: &mut Vec<Event>,
    ) {
        let read = self.read_mut(key, side, at);
        let before = std::mem::replace(&mut read.verdict, verdict);
        let (slot, pending, reported) = (read.txn, read.pending, read.reported);
        let flipped = (before == Verdict::Wrong) != (verdict == Verdict::Wrong);
        if flipped {
            read.flips = read.flips.saturating_add(1);
            let (flips, stood) = (read.flips, (now as u32).wrapping_sub(read.changed));
            read.changed = now as u32;
            self.stats.flip(flips, stood);
            let txn = self.live.txn_mut(slot);
            self.stats.flipped_txns += u64::from(!std::mem::replace(&mut txn.flipped, true));
        }
        self.touch(key);
        let (settles, again) = self.deadlines(slot, self.read(key, side, at).at, now);
        if pending {
            if verdict == reported {
                self.disarm(key, side, at);
            } else if before == Verdict::Open {
                // It may have waited for the end.
                self.disarm(key, side, at);
                self.arm(key, side, at, settles.max(again));
            }
        } else if now < settles {
            if verdict != reported {
                self.arm(key, side, at, settles);
            }
        } else {
            if let Some(axiom) = broken(reported) {
                self.read_mut(key, side, at).reported = Verdict::Right;
                let finding = self.finding_of(key, self.read(key, side, at), axiom);
                self.retract(finding, events);
            }
            if verdict != Verdict::Right {
                self.arm(key, side, at, again);
            }
        }
        if flipped && self.options.provisional {
            let finding = self.finding_of(key, self.read(key, side, at), Axiom::Ext);
            events.push(Event::Provisional { finding, holds: verdict == Verdict::Wrong });
        }
    }

    /// When a read of this transaction at this moment settles, and when one settles again whose verdict
    /// changes now.
    pub(crate) fn deadlines(&self, slot: Slot, at: Timestamp, now: u64) -> (u64, u64) {
        if self.options.virtual_time {
            let settles = moment(at).saturating_add(1).min(FOREVER - 1);
            return (settles, settles.max(now));
        }
        (self.live.txn(slot).arrived + self.options.settle_ms, now + self.options.settle_ms)
    }

    /// The read's new verdict is to be reported at the deadline.
    pub(crate) fn arm(&mut self, key: u32, side: Side, at: Cursor, deadline: u64) {
        let read = self.read_mut(key, side, at);
        read.pending = true;
        let (slot, moment) = (read.txn, read.at);
        let id = (self.live.txn(slot).seq, key);
        self.pending.arm(id, Waiting { deadline, at: moment, by_set: side == Side::Set, spilled: None });
        self.keys[key as usize].pending += 1;
    }

    fn disarm(&mut self, key: u32, side: Side, at: Cursor) {
        let read = self.read_mut(key, side, at);
        read.pending = false;
        let slot = read.txn;
        self.pending.disarm((self.live.txn(slot).seq, key));
        self.keys[key as usize].pending -= 1;
    }

    /// Reports what has settled by now.
    pub fn settle(&mut self, now: u64, events: &mut Vec<Event>) -> Result<(), StoreError> {
        self.settle_some(now, usize::MAX, events).map(|_| ())
    }

    /// Reports what has settled by now, until there are so many events; true if there is more. The greatest
    /// number is the end: nothing more will arrive, so everything has settled.
    pub fn settle_some(
        &mut self,
        now: u64,
        most: usize,
        events: &mut Vec<Event>,
    ) -> Result<bool, StoreError> {
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.memory());
        if now == u64::MAX && !self.holding.resolved {
            self.resolve(events)?;
            self.holding.resolved = true;
        }
        while events.len() < most {
            let Some(((seq, key), waiting)) = self.pending.due(now.min(FOREVER - 1)) else {
                if now == u64::MAX {
                    self.reconcile(events)?;
                }
                return Ok(false);
            };
            self.keys[key as usize].pending -= 1;
            let side = if waiting.by_set { Side::Set } else { Side::At };
            let is_open = match &waiting.spilled {
                Some(spilled) => spilled.verdict == Verdict::Open,
                None => {
                    let at = self.find_read(key, side, waiting.at, seq);
                    at.is_some_and(|at| self.read(key, side, at).verdict == Verdict::Open)
                }
            };
            if is_open {
                let moment = waiting.at;
                self.leave_open(seq, key, side, waiting, events);
                self.decide(seq, key, side, moment, events)?;
                continue;
            }
            if let Some(spilled) = waiting.spilled {
                let SpilledRead { verdict, reported, finding } = *spilled;
                self.tell(verdict, reported, finding, events);
                continue;
            }
            let Some(at) = self.find_read(key, side, waiting.at, seq) else { continue };
            let read = self.read_mut(key, side, at);
            read.pending = false;
            let (verdict, reported) = (read.verdict, std::mem::replace(&mut read.reported, read.verdict));
            if verdict != reported {
                let finding = self.finding_of(key, self.read(key, side, at), Axiom::Ext);
                self.tell(verdict, reported, finding, events);
            }
            self.touch(key);
        }
        Ok(true)
    }

    /// A read that is open stays pending, and is no violation until it is decided: what was reported is
    /// taken back.
    fn leave_open(&mut self, seq: u64, key: u32, side: Side, mut waiting: Waiting, events: &mut Vec<Event>) {
        let in_memory = self.find_read(key, side, waiting.at, seq).filter(|_| waiting.spilled.is_none());
        if let Some(spilled) = &mut waiting.spilled {
            let reported = std::mem::replace(&mut spilled.reported, Verdict::Right);
            self.tell(Verdict::Right, reported, spilled.finding.clone(), events);
        } else if let Some(at) = in_memory
            && let reported = std::mem::replace(&mut self.read_mut(key, side, at).reported, Verdict::Right)
            && reported != Verdict::Right
        {
            let finding = self.finding_of(key, self.read(key, side, at), Axiom::Ext);
            self.tell(Verdict::Right, reported, finding, events);
            self.touch(key);
        }
        self.pending.arm((seq, key), Waiting { deadline: FOREVER, ..waiting });
        self.keys[key as usize].pending += 1;
    }

    /// The end: nothing more will arrive, so everything has settled.
    pub fn finish(&mut self, events: &mut Vec<Event>) -> Result<(), StoreError> {
        self.settle(u64::MAX, events)
    }

    fn tell(&mut self, verdict: Verdict, reported: Verdict, mut finding: Finding, events: &mut Vec<Event>) {
        if verdict == reported {
            return;
        }
        if let Some(axiom) = broken(reported) {
            finding.identity.axiom = axiom;
            self.retract(finding.clone(), events);
        }
        if let Some(axiom) = broken(verdict) {
            self.stats.violations[axiom as usize] += 1;
            finding.identity.axiom = axiom;
            events.push(Event::Violation(finding));
        }
    }

    pub(crate) fn retract(&mut self, finding: Finding, events: &mut Vec<Event>) {
        self.stats.retracted[finding.axiom() as usize] += 1;
        events.push(Event::Retracted(finding));
    }

    /// Where a read is.
    pub(crate) fn find_read(&self, key: u32, side: Side, moment: Timestamp, seq: u64) -> Option<Cursor> {
        let ring = self.keys[key as usize].side(side);
        let mut at = ring.find(moment, |r| r.at < moment);
        while let Some(read) = ring.get(at).filter(|r| r.at == moment) {
            if self.live.txn(read.txn).seq == seq {
                return Some(at);
            }
            at = ring.next(at);
        }
        None
    }

    /// What is to be reported about a read that leaves memory.
    pub(crate) fn spilled_read(&self, key: u32, read: &Read) -> Box<SpilledRead> {
        let finding = self.finding_of(key, read, Axiom::Ext);
        Box::new(SpilledRead { verdict: read.verdict, reported: read.reported, finding })
    }

    pub(crate) fn identity(
        &self,
        axiom: Axiom,
        slot: Slot,
        key: Option<u32>,
        other: Option<Slot>,
        read: Option<u32>,
    ) -> Identity<TxnKey, Key128> {
        let txn_key = |slot: Slot| {
            let txn = self.live.txn(slot);
            (self.live.sessions[txn.session].name, txn.position)
        };
        let key = key.map(|key| self.keys[key as usize].name);
        Identity { axiom, txn: txn_key(slot), key, other: other.map(txn_key), read }
    }

    /// A violation with names.
    pub(crate) fn finding(
        &self,
        axiom: Axiom,
        slot: Slot,
        key: Option<u32>,
        other: Option<Slot>,
        read: Option<u32>,
    ) -> Finding {
        Finding {
            identity: self.identity(axiom, slot, key, other, read),
            txn: self.live.name(slot),
            key: key.map(|key| {
                let key = &self.keys[key as usize];
                crate::live_state::show(key.name, key.text.as_deref())
            }),
            other: other.map(|other| self.live.name(other)),
            read,
            seen: None,
            expected: None,
        }
    }

    /// EXT or TIE about a read.
    pub(crate) fn finding_of(&self, key: u32, read: &Read, axiom: Axiom) -> Finding {
        let k = &self.keys[key as usize];
        let expected = self.live.judge(k, read).ok().map(|judged| judged.expected);
        let effect = |slot: Slot| self.live.show_effect(&k.versions.get(self.live.find(k, slot))?.effect);
        Finding {
            other: expected.flatten().map(|slot| self.live.name(slot)),
            read: Some(read.op),
            seen: self.live.show_seen(&read.seen),
            expected: match expected {
                None => None,
                Some(None) => self.live.show_initial(k.name),
                Some(Some(slot)) => effect(slot),
            },
            ..self.finding(axiom, read.txn, Some(key), None, None)
        }
    }
}
