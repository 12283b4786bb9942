//! Reads and versions on their way into a key.

use crate::change::Side;
use crate::checker::Checker;
use crate::key::{BEGIN, Effect, Read, Seen, Slot, Verdict, Version, Weight, xmax};
use crate::live_state::Txn;
use crate::ring::Cursor;
use crate::{Event, Store, StoreError};
use anomalist_timestamp::{Axiom, Mode};

impl<S: Store> Checker<S> {
    /// A read has arrived: judges it, by what is known.
    pub(crate) fn add_read(
        &mut self,
        key: u32,
        slot: Slot,
        op: u32,
        seen: Seen,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        let txn = self.live.txn(slot);
        let at = if self.options.rule.mode == Mode::Ser { txn.commit } else { txn.start };
        let mut read = Read {
            at,
            txn: slot,
            op,
            changed: now as u32,
            seen,
            xmax: xmax(txn),
            verdict: Verdict::Right,
            reported: Verdict::Right,
            pending: false,
            flips: 0,
        };
        read.verdict = loop {
            let judged = self.live.judge(&self.keys[key as usize], &read);
            match judged.and_then(|judged| self.open_if_asked(key, &read, judged.verdict)) {
                Ok(verdict) => break verdict,
                Err(_) => self.reload(key)?,
            }
        };
        if !self.carried.is_empty() {
            read.reported = self.carried_verdict(key, slot, Verdict::Right);
        }
        let side = self.side(slot);
        let at = self.insert_read(key, side, read);
        self.touch(key);
        let read = self.read(key, side, at);
        if read.verdict != read.reported {
            let (deadline, _) = self.deadlines(slot, read.at, now);
            self.arm(key, side, at, deadline);
            if self.options.provisional && self.read(key, side, at).verdict == Verdict::Wrong {
                let finding = self.finding_of(key, self.read(key, side, at), Axiom::Ext);
                events.push(Event::Provisional { finding, holds: true });
            }
        }
        Ok(())
    }

    /// A version has arrived: compares it with those it overlaps, and judges again who sees it.
    pub(crate) fn add_version(
        &mut self,
        key: u32,
        slot: Slot,
        effect: Effect,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        self.reload_for(key, slot)?;
        let version = Version::of(self.live.txn(slot), slot, effect);
        let at = self.live.find(&self.keys[key as usize], slot);
        if self.options.rule.mode == Mode::Si {
            self.check_conflicts(key, at, &version, events);
        }
        self.bytes += version.weight();
        let at = self.keys[key as usize].versions.insert(at, version);
        self.touch(key);
        self.recheck(key, slot, at, now, events)
    }

    /// NOCONFLICT: writers of which neither sees the other. The version belongs here.
    fn check_conflicts(&mut self, key: u32, at: Cursor, version: &Version, events: &mut Vec<Event>) {
        let txn = self.live.txn(version.txn);
        let versions = &self.keys[key as usize].versions;
        let commit = version.commit;
        let (rule, goes_on) = (self.options.rule, self.goes_on(txn));
        let mut others: Vec<Slot> = Vec::new();
        let look_at = |other: &Version| {
            // Transactions lie scattered in memory, so they are looked up last.
            if (other.low == BEGIN || other.low == commit || !rule.contains(other.low, commit))
                && rule.conflict(txn, &self.live.seat(other))
            {
                others.push(other.txn);
            }
        };
        match &txn.set {
            None => {
                let mut from = match txn.start <= commit {
                    true => at,
                    false => versions.find(txn.start, |v| rule.contains(txn.start, v.commit)),
                };
                // Whatever committed between start and commit is a conflict, so there is little to walk
                // past.
                let unseen =
                    |v: &Version| !rule.contains(txn.start, v.commit) || goes_on && v.commit == txn.start;
                while let Some(before) = versions.prev(from)
                    && versions.get(before).is_some_and(unseen)
                {
                    from = before;
                }
                versions.scan(from, commit, 0, look_at);
            }
            Some(set) => versions.scan(versions.start(), crate::ring::END, set.view().xmin, look_at),
        }
        for other in others {
            let (later, earlier) = match self.live.order(version.txn, other) {
                std::cmp::Ordering::Less => (other, version.txn),
                _ => (version.txn, other),
            };
            let finding = self.finding(Axiom::NoConflict, later, Some(key), Some(earlier), None);
            self.report(finding, events);
        }
    }

    /// Whether later transactions of its session arrived before a transaction counted. (One of unknown
    /// outcome counts late.)
    pub(crate) fn goes_on(&self, txn: &Txn) -> bool {
        self.live.sessions[txn.session].count > txn.position + 1
    }

    /// Which ring a transaction's reads are in.
    pub(crate) fn side(&self, slot: Slot) -> Side {
        let by_set = self.options.rule.mode == Mode::Si && self.live.txn(slot).set.is_some();
        if by_set { Side::Set } else { Side::At }
    }

    /// Something of the key is new in memory.
    pub(crate) fn touch(&mut self, key: u32) {
        let k = &mut self.keys[key as usize];
        if !k.touched {
            k.touched = true;
            self.touched.push(key);
        }
        if self.options.checkpoints && !k.dirty {
            k.dirty = true;
            self.dirty.push(key);
        }
    }
}
