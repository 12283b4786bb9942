//! Versions, reads and transactions as bytes, for the store.
//!
//! Numbers of variable length; a transaction is written out with every version and read of it, so that a
//! chunk stands alone.

use crate::key::{Chain, Effect, Read, Seen, Slot, Verdict, Version, xmax};
use crate::live_state::{Id, Last, Txn};
use crate::{Key128, Location, Shape, StoreError};
use anomalist_history::Timestamp;

/// Writes.
#[derive(Default)]
pub(crate) struct Out(pub Vec<u8>);

impl Out {
    #[inline]
    pub fn u64(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    pub fn usize(&mut self, n: usize) {
        self.u64(n as u64);
    }

    pub fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    #[inline]
    pub fn i64(&mut self, n: i64) {
        self.u64((n << 1 ^ n >> 63) as u64);
    }

    pub fn text(&mut self, text: &str) {
        self.usize(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    pub fn stamp(&mut self, at: Timestamp) {
        self.i64(at.physical);
        self.i64(at.logical);
    }

    pub fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Out, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            put(self, value);
        }
    }

    pub fn datum(&mut self, datum: Key128) {
        match datum.shape() {
            Shape::Int(i) => {
                self.0.push(0);
                self.i64(i);
            }
            Shape::Nil => self.0.push(1),
            Shape::Text => {
                self.0.push(2);
                let (a, b) = datum.words();
                self.0.extend_from_slice(&a.to_le_bytes());
                self.0.extend_from_slice(&b.to_le_bytes());
            }
        }
    }

    pub fn data(&mut self, data: &[Key128]) {
        self.usize(data.len());
        for &datum in data {
            self.datum(datum);
        }
    }

    pub fn id(&mut self, id: &Id) {
        self.datum(id.name);
        self.option(id.text.as_deref(), Out::text);
    }

    pub fn seen(&mut self, seen: &Seen) {
        match seen {
            Seen::One(value) => {
                self.0.push(0);
                self.datum(*value);
            }
            Seen::List(elements) => {
                self.0.push(1);
                self.data(elements);
            }
        }
    }

    pub fn txn(&mut self, txn: &Txn) {
        self.u64(txn.seq);
        self.stamp(txn.start);
        self.stamp(txn.commit);
        self.u64(txn.session.into());
        self.u64(txn.position.into());
        self.0.push(u8::from(txn.read_only) | u8::from(txn.flipped) << 1);
        self.u64(txn.arrived);
        self.option(txn.set_id, Out::u64);
        self.option(txn.set.as_deref(), Out::set);
        self.option(txn.id.as_ref(), Out::id);
    }

    pub fn version(&mut self, version: &Version, txn: &Txn) {
        self.txn(txn);
        self.effect(&version.effect);
    }

    pub fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Write(value) => {
                self.0.push(0);
                self.datum(*value);
            }
            Effect::Append(elements) => {
                self.0.push(1);
                self.data(elements);
            }
            Effect::Undefined => self.0.push(2),
        }
    }

    pub fn read(&mut self, read: &Read, txn: &Txn) {
        self.txn(txn);
        self.stamp(read.at);
        self.u64(read.op.into());
        self.u64(read.changed.into());
        self.seen(&read.seen);
        self.0.push(read.verdict as u8 | (read.reported as u8) << 2 | u8::from(read.pending) << 4);
        self.0.push(read.flips);
    }

    pub fn location(&mut self, at: Location) {
        self.u64(at.segment.into());
        self.u64(at.length.into());
        self.u64(at.offset);
    }

    pub fn chain(&mut self, chain: &Chain) {
        self.location(chain.top);
        self.stamp(chain.versions);
        self.stamp(chain.reads);
        self.u64(chain.set_ids);
        self.u64(chain.xmax);
        self.flag(chain.wrong);
    }

    pub fn last(&mut self, last: &Last) {
        self.stamp(last.start);
        self.stamp(last.commit);
        self.u64(last.position.into());
        self.option(last.set_id, Out::u64);
        self.option(last.id.as_ref(), Out::id);
    }
}

/// Reads what [`Out`] wrote.
pub(crate) struct In<'a>(pub &'a [u8]);

type Got<T> = Result<T, StoreError>;

#[cold]
fn damaged<T>() -> Got<T> {
    Err(StoreError::Damaged("a record is not what was written".to_owned()))
}

impl<'a> In<'a> {
    #[inline]
    pub fn byte(&mut self) -> Got<u8> {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                Ok(byte)
            }
            None => damaged(),
        }
    }

    #[inline]
    pub fn u64(&mut self) -> Got<u64> {
        let (mut n, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            if shift > 63 {
                return damaged();
            }
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
            shift += 7;
        }
    }

    pub fn u32(&mut self) -> Got<u32> {
        u32::try_from(self.u64()?).or_else(|_| damaged())
    }

    /// A number of things that take at least a byte each.
    pub fn count(&mut self) -> Got<usize> {
        match usize::try_from(self.u64()?) {
            Ok(n) if n <= self.0.len() => Ok(n),
            _ => damaged(),
        }
    }

    pub fn flag(&mut self) -> Got<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => damaged(),
        }
    }

    #[inline]
    pub fn i64(&mut self) -> Got<i64> {
        let n = self.u64()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    pub fn bytes(&mut self, n: usize) -> Got<&'a [u8]> {
        match self.0.split_at_checked(n) {
            Some((bytes, rest)) => {
                self.0 = rest;
                Ok(bytes)
            }
            None => damaged(),
        }
    }

    pub fn text(&mut self) -> Got<Box<str>> {
        let n = self.count()?;
        std::str::from_utf8(self.bytes(n)?).map(Box::from).or_else(|_| damaged())
    }

    pub fn stamp(&mut self) -> Got<Timestamp> {
        Ok(Timestamp { physical: self.i64()?, logical: self.i64()? })
    }

    pub fn option<T>(&mut self, get: impl FnOnce(&mut In<'a>) -> Got<T>) -> Got<Option<T>> {
        if self.flag()? { get(self).map(Some) } else { Ok(None) }
    }

    pub fn datum(&mut self) -> Got<Key128> {
        match self.byte()? {
            0 => Ok(Key128::int(self.i64()?)),
            1 => Ok(Key128::NIL),
            2 => {
                let mut words = [0; 2];
                for word in &mut words {
                    let mut bytes = [0; 8];
                    bytes.copy_from_slice(self.bytes(8)?);
                    *word = u64::from_le_bytes(bytes);
                }
                Key128::from_words(words[0], words[1]).map_or_else(damaged, Ok)
            }
            _ => damaged(),
        }
    }

    pub fn many<T>(&mut self, mut get: impl FnMut(&mut In<'a>) -> Got<T>) -> Got<Vec<T>> {
        let n = self.count()?;
        (0..n).map(|_| get(self)).collect()
    }

    pub fn data(&mut self) -> Got<Box<[Key128]>> {
        self.many(In::datum).map(Vec::into_boxed_slice)
    }

    pub fn id(&mut self) -> Got<Id> {
        Ok(Id { name: self.datum()?, text: self.option(In::text)? })
    }

    pub fn seen(&mut self) -> Got<Seen> {
        match self.byte()? {
            0 => Ok(Seen::One(self.datum()?)),
            1 => Ok(Seen::List(self.data()?)),
            _ => damaged(),
        }
    }

    pub fn txn(&mut self) -> Got<Txn> {
        let (seq, start, commit) = (self.u64()?, self.stamp()?, self.stamp()?);
        let (session, position, flags, arrived) = (self.u32()?, self.u32()?, self.byte()?, self.u64()?);
        let set_id = self.option(In::u64)?;
        let set = self.option(In::set)?;
        let id = self.option(In::id)?;
        let (read_only, flipped) = (flags & 1 != 0, flags & 2 != 0);
        Ok(Txn {
            seq,
            start,
            commit,
            session,
            position,
            read_only,
            flipped,
            refs: 1,
            arrived,
            set_id,
            set,
            id,
        })
    }

    /// The version as it will be once its transaction has a slot.
    pub fn version(&mut self) -> Got<(Version, Txn)> {
        let txn = self.txn()?;
        Ok((Version::of(&txn, Slot(u32::MAX), self.effect()?), txn))
    }

    pub fn effect(&mut self) -> Got<Effect> {
        match self.byte()? {
            0 => Ok(Effect::Write(self.datum()?)),
            1 => Ok(Effect::Append(self.data()?)),
            2 => Ok(Effect::Undefined),
            _ => damaged(),
        }
    }

    /// The read as it will be once its transaction has a slot.
    pub fn read(&mut self) -> Got<(Read, Txn)> {
        let txn = self.txn()?;
        let (at, op, changed, seen) = (self.stamp()?, self.u32()?, self.u32()?, self.seen()?);
        let (flags, flips) = (self.byte()?, self.byte()?);
        let verdict = |bits: u8| match bits & 3 {
            0 => Verdict::Right,
            1 => Verdict::Wrong,
            2 => Verdict::Tied,
            _ => Verdict::Open,
        };
        let (verdict, reported) = (verdict(flags), verdict(flags >> 2));
        let pending = flags >> 4 & 1 != 0;
        let (slot, xmax) = (Slot(u32::MAX), xmax(&txn));
        Ok((Read { at, txn: slot, op, changed, seen, xmax, verdict, reported, pending, flips }, txn))
    }

    pub fn location(&mut self) -> Got<Location> {
        Ok(Location { segment: self.u32()?, length: self.u32()?, offset: self.u64()? })
    }

    pub fn chain(&mut self) -> Got<Chain> {
        Ok(Chain {
            top: self.location()?,
            versions: self.stamp()?,
            reads: self.stamp()?,
            set_ids: self.u64()?,
            xmax: self.u64()?,
            wrong: self.flag()?,
        })
    }

    pub fn last(&mut self) -> Got<Last> {
        let (start, commit, position) = (self.stamp()?, self.stamp()?, self.u32()?);
        Ok(Last { start, commit, position, set_id: self.option(In::u64)?, id: self.option(In::id)? })
    }

    /// The end: nothing is left.
    pub fn end(self) -> Got<()> {
        if self.0.is_empty() { Ok(()) } else { damaged() }
    }
}
