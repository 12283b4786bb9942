//! Checkpoints: the whole state in the store's map, all at once.
//!
//! Only what changed since the last one is written: keys with what they have in memory, sessions, and one
//! record with the rest. Chunks are in the store already. After a crash the checker begins with the last
//! checkpoint; the caller feeds it again what arrived since, and says what was reported since, so that
//! nothing is reported twice: a read takes up what was reported about it wherever it enters memory, and a
//! verdict that differs from that is reported when it settles. What was reported about reads that have not
//! entered memory yet is part of every checkpoint: one may be made, and the process end again, before all
//! is back where it was.

use crate::carried::Carried;
use crate::checker::Checker;
use crate::codec::{In, Out};
use crate::filter::Of;
use crate::key::{Key, Verdict, Weight};
use crate::pending::{SpilledRead, Waiting};
use crate::spill::key_name;
use crate::{Event, Finding, Key128, Options, Shape, Shown, Stats, Store, StoreError, TxnKey, TxnName};
use anomalist_history::AtomKind;
use anomalist_timestamp::{Axiom, Identity};

/// 7: short texts are held themselves, longer ones by SipHash-2-4-128. 8: sessions are found by name.
const VERSION: u64 = 8;

/// What a store had.
pub enum Restored<S> {
    /// No checkpoint: the store, as it was given.
    Nothing(S),
    /// The checker, and the caller's bytes.
    Checker(Box<Checker<S>>, Vec<u8>),
}

/// What was reported or retracted, for [`Checker::restore`].
pub type Reported = (Identity<TxnKey, Key128>, bool);

impl Event {
    /// What this event reports: which violation, and whether it now stands.
    pub fn reported(&self) -> Option<Reported> {
        match self {
            Event::Violation(finding) => Some((finding.identity, true)),
            Event::Retracted(finding) => Some((finding.identity, false)),
            Event::Provisional { .. } | Event::Fault { .. } => None,
        }
    }
}

/// As bytes, for a log of events.
pub fn encode_reported(reported: &Reported) -> Vec<u8> {
    let mut out = Out::default();
    out.identity(&reported.0);
    out.flag(reported.1);
    out.0
}

/// What [`encode_reported`] wrote.
pub fn decode_reported(bytes: &[u8]) -> Result<Reported, StoreError> {
    let mut from = In(bytes);
    let reported = (from.identity()?, from.flag()?);
    from.end()?;
    Ok(reported)
}

impl Out {
    fn identity(&mut self, identity: &Identity<TxnKey, Key128>) {
        let txn = |out: &mut Out, (session, position): TxnKey| {
            out.datum(session);
            out.u64(position.into());
        };
        self.usize(identity.axiom as usize);
        txn(self, identity.txn);
        self.option(identity.key, Out::datum);
        self.option(identity.other, txn);
        self.option(identity.read, |out, read| out.u64(read.into()));
    }

    fn shown(&mut self, shown: &Shown) {
        match shown {
            Shown::Int(value) => self.datum(Key128::int(*value)),
            Shown::Nil => self.datum(Key128::NIL),
            Shown::Text(text) => {
                self.datum(Key128::text(AtomKind::Text, text));
                self.text(text);
            }
        }
    }

    fn name(&mut self, name: &TxnName) {
        self.shown(&name.session);
        self.u64(name.position.into());
        self.option(name.id.as_ref(), Out::shown);
    }

    fn finding(&mut self, finding: &Finding) {
        self.identity(&finding.identity);
        self.name(&finding.txn);
        self.option(finding.key.as_ref(), Out::shown);
        self.option(finding.other.as_ref(), Out::name);
        self.option(finding.read, |out, read| out.u64(read.into()));
        self.option(finding.seen.as_ref(), Out::shown);
        self.option(finding.expected.as_ref(), Out::shown);
    }
}

impl In<'_> {
    fn identity(&mut self) -> Result<Identity<TxnKey, Key128>, StoreError> {
        let txn = |from: &mut Self| Ok((from.datum()?, from.u32()?));
        let axiom = self.u64()? as usize;
        let axiom =
            Axiom::ALL.get(axiom).copied().ok_or_else(|| StoreError::Damaged("no axiom".to_owned()))?;
        Ok(Identity {
            axiom,
            txn: txn(self)?,
            key: self.option(In::datum)?,
            other: self.option(txn)?,
            read: self.option(In::u32)?,
        })
    }

    fn name(&mut self) -> Result<TxnName, StoreError> {
        let (session, position) = (self.shown()?, self.u32()?);
        Ok(TxnName { session, position, id: self.option(In::shown)? })
    }

    fn shown(&mut self) -> Result<Shown, StoreError> {
        Ok(match self.datum()?.shape() {
            Shape::Int(value) => Shown::Int(value),
            Shape::Nil => Shown::Nil,
            Shape::Text => Shown::Text(self.text()?),
        })
    }

    fn finding(&mut self) -> Result<Finding, StoreError> {
        Ok(Finding {
            identity: self.identity()?,
            txn: self.name()?,
            key: self.option(In::shown)?,
            other: self.option(In::name)?,
            read: self.option(In::u32)?,
            seen: self.option(In::shown)?,
            expected: self.option(In::shown)?,
        })
    }
}

/// The caller's bytes in the last checkpoint of a store, if it has one.
pub fn checkpoint_extra<S: Store>(store: &mut S) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(record) = store.get(b"m")? else { return Ok(None) };
    let mut from = In(&record);
    version(&mut from)?;
    let n = from.count()?;
    Ok(Some(from.bytes(n)?.to_vec()))
}

fn version(from: &mut In<'_>) -> Result<(), StoreError> {
    match from.u64()? {
        VERSION => Ok(()),
        _ => Err(StoreError::Damaged("a checkpoint of another version".to_owned())),
    }
}

impl<S: Store> Checker<S> {
    /// Makes the state durable, together with some bytes of the caller's: how far the input was read, for
    /// instance.
    pub fn checkpoint(&mut self, extra: &[u8]) -> Result<(), StoreError> {
        for key in std::mem::take(&mut self.dirty) {
            let k = &mut self.keys[key as usize];
            k.dirty = false;
            let record = self.encode_key(key);
            self.store.put(&key_name(self.keys[key as usize].name), &record)?;
        }
        let mut sessions: Vec<u32> = self.dirty_sessions.drain().collect();
        sessions.sort_unstable();
        for session in sessions {
            self.store_session(session)?;
        }
        let record = self.encode_rest(extra);
        self.store.put(b"m", &record)?;
        self.store.commit()
    }

    /// A key with what it has in memory.
    pub(crate) fn encode_key(&self, key: u32) -> Vec<u8> {
        let k = &self.keys[key as usize];
        let mut out = Out::default();
        out.datum(k.name);
        out.option(k.text.as_deref(), Out::text);
        out.option(k.chain.as_ref(), Out::chain);
        out.usize(k.versions.len());
        for version in k.versions.iter() {
            out.version(version, self.live.txn(version.txn));
        }
        out.usize(k.reads.len() + k.set_reads.len());
        for read in k.reads.iter().chain(k.set_reads.iter()) {
            out.read(read, self.live.txn(read.txn));
        }
        out.0
    }

    fn encode_rest(&self, extra: &[u8]) -> Vec<u8> {
        let mut out = Out::default();
        out.u64(VERSION);
        out.usize(extra.len());
        out.0.extend_from_slice(extra);
        out.u64(self.seq);
        out.u64(self.now);
        out.flag(self.evicted);
        self.stats.each(|n| out.u64(*n));
        out.option(self.stats.newest, Out::stamp);
        out.option(self.live.initial, Out::datum);
        let mut initial: Vec<_> = self.live.initial_keys.iter().collect();
        initial.sort_by_key(|(name, _)| **name);
        out.usize(initial.len());
        for (name, value) in initial {
            out.datum(*name);
            out.seen(value);
        }
        for (ranges, others) in self.ids.parts() {
            out.usize(ranges.len());
            for (start, end) in ranges {
                out.i64(start);
                out.i64(end);
            }
            out.data(&others);
        }
        out.usize(self.samples.len());
        self.samples.iter().for_each(|&at| out.stamp(at));
        let pending = self.pending.sorted();
        out.usize(pending.len());
        for (&(seq, key), waiting) in pending {
            out.u64(seq);
            out.datum(self.keys[key as usize].name);
            out.u64(waiting.deadline);
            out.stamp(waiting.at);
            out.flag(waiting.by_set);
            out.option(waiting.spilled.as_deref(), |out, spilled| {
                out.0.push(spilled.verdict as u8);
                out.0.push(spilled.reported as u8);
                out.finding(&spilled.finding);
            });
        }
        let mut carried: Vec<_> = self.carried.iter().collect();
        carried.sort_unstable();
        out.usize(carried.len());
        for (identity, carried) in carried {
            out.identity(identity);
            out.flag(carried.reported);
            out.flag(carried.found);
        }
        self.encode_open(&mut out);
        out.0
    }

    /// A checker with the state of the last checkpoint, and the caller's bytes. The last argument is what
    /// was reported and retracted since that checkpoint, in order.
    pub fn restore(
        options: Options,
        mut store: S,
        reported: impl IntoIterator<Item = Reported>,
    ) -> Result<Restored<S>, StoreError> {
        let Some(record) = store.get(b"m")? else { return Ok(Restored::Nothing(store)) };
        let mut checker = Checker::new(options, store);
        let mut pending = Vec::new();
        let extra = checker.decode_rest(&mut In(&record), &mut pending)?;
        reported.into_iter().for_each(|reported| checker.carry(reported));
        checker.restore_sessions()?;
        // Keys come back one at a time; the names of those that are only in the store stay there.
        let mut records = Vec::new();
        checker.store.each(b"k", &mut |_, bytes| {
            records.push(bytes.to_vec());
            Ok(())
        })?;
        let mut waiting: rustc_hash::FxHashMap<Key128, Vec<(u64, Waiting)>> =
            rustc_hash::FxHashMap::default();
        for (seq, name, entry) in pending {
            waiting.entry(name).or_default().push((seq, entry));
        }
        for record in records {
            checker.decode_key(&record, &mut waiting)?;
        }
        Ok(Restored::Checker(Box::new(checker), extra))
    }

    fn decode_rest(
        &mut self,
        from: &mut In<'_>,
        pending: &mut Vec<(u64, Key128, Waiting)>,
    ) -> Result<Vec<u8>, StoreError> {
        version(from)?;
        let n = from.count()?;
        let extra = from.bytes(n)?.to_vec();
        self.seq = from.u64()?;
        self.now = from.u64()?;
        self.evicted = from.flag()?;
        let mut stats = Stats::default();
        let mut failed = None;
        stats.each_mut(|n| match from.u64() {
            Ok(value) => *n = value,
            Err(error) => failed = Some(error),
        });
        if let Some(error) = failed {
            return Err(error);
        }
        stats.newest = from.option(In::stamp)?;
        self.stats = stats;
        self.live.initial = from.option(In::datum)?;
        self.live.initial_keys = from.many(|from| Ok((from.datum()?, from.seen()?)))?.into_iter().collect();
        let mut parts = || {
            let ranges = from.many(|from| Ok((from.i64()?, from.i64()?)))?;
            Ok::<_, StoreError>((ranges, from.data()?.into_vec()))
        };
        let parts = [parts()?, parts()?];
        self.ids.restore(parts);
        self.samples = from.many(In::stamp)?;
        *pending = from.many(|from| {
            let (seq, name, deadline, at) = (from.u64()?, from.datum()?, from.u64()?, from.stamp()?);
            let by_set = from.flag()?;
            let spilled = from.option(|from| {
                let (verdict, reported) = (verdict(from.byte()?)?, verdict(from.byte()?)?);
                Ok(Box::new(SpilledRead { verdict, reported, finding: from.finding()? }))
            })?;
            Ok((seq, name, Waiting { deadline, at, by_set, spilled }))
        })?;
        let carried = |from: &mut In<'_>| {
            Ok((from.identity()?, Carried { reported: from.flag()?, found: from.flag()? }))
        };
        self.carried = from.many(carried)?.into_iter().collect();
        self.decode_open(from)?;
        In(from.0).end()?;
        Ok(extra)
    }

    fn decode_key(
        &mut self,
        record: &[u8],
        waiting: &mut rustc_hash::FxHashMap<Key128, Vec<(u64, Waiting)>>,
    ) -> Result<(), StoreError> {
        let mut from = In(record);
        let mut key = Key::new(from.datum()?, from.option(In::text)?);
        key.chain = from.option(In::chain)?;
        let (versions, reads) = (from.many(In::version)?, from.many(In::read)?);
        from.end()?;
        let pending = waiting.remove(&key.name).unwrap_or_default();
        if versions.is_empty() && reads.is_empty() && pending.is_empty() && self.evicted {
            self.away.add(Of::Key, key.name);
            return Ok(());
        }
        let slot = self.insert_key(key);
        for (seq, mut entry) in pending {
            self.keys[slot as usize].pending += 1;
            if let Some(spilled) = &mut entry.spilled
                && !self.carried.is_empty()
            {
                spilled.reported = self.carried_read(spilled.finding.identity).unwrap_or(spilled.reported);
            }
            self.pending.arm((seq, slot), entry);
        }
        let mut restored = Vec::new();
        for (mut version, txn) in versions {
            version.txn = self.take_in(txn)?;
            self.bytes += version.weight();
            restored.push(version);
        }
        self.keys[slot as usize].versions.put_front(restored);
        for (read, txn) in reads {
            self.take_in_read(slot, read, txn)?;
        }
        let k = &mut self.keys[slot as usize];
        if !std::mem::replace(&mut k.touched, true) {
            self.touched.push(slot);
        }
        Ok(())
    }
}

fn verdict(byte: u8) -> Result<Verdict, StoreError> {
    match byte {
        0 => Ok(Verdict::Right),
        1 => Ok(Verdict::Wrong),
        2 => Ok(Verdict::Tied),
        3 => Ok(Verdict::Open),
        _ => Err(StoreError::Damaged("no verdict".to_owned())),
    }
}
