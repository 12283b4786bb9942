//! Transactions of which nobody knows whether they committed.
//!
//! As offline, one counts as soon as a transaction that counts read, from somebody else, a value that it wrote, that no
//! committed transaction wrote to the key and that the key did not begin with. Until then it is held: its operations in the
//! store, in memory only the values that would give it away. A read of such a value is wrong as long as its writer does not
//! count, so when one arrives, only wrong reads of its keys are looked through; when a read arrives, its values are looked up.
//!
//! What differs from the offline rule: once it counts, it counts. If values are written once, as workloads for checkers do,
//! that is the same; else a committed transaction that writes the same value may arrive after somebody read it.

use crate::checker::Checker;
use crate::codec::{In, Out};
use crate::key::{Effect, Read, Seen, Verdict, Version};
use crate::{Batch, Cell, Datum, Event, Location, Store, StoreError};
use anomalist_history::OpKind;
use rustc_hash::{FxHashMap, FxHashSet};

/// A transaction that is held.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub session: u32,
    pub position: u32,
    /// Its operations.
    pub body: Location,
    /// Keys and values that would give it away.
    pub values: Vec<(Datum, Datum)>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holding {
    /// By rank of arrival among them.
    pub held: FxHashMap<u64, Held>,
    pub next: u64,
    /// Who wrote a value to a key.
    writers: FxHashMap<Datum, FxHashMap<Datum, Vec<u64>>>,
    /// Values that transactions read which had read or written something else of the key before: no key has these reads.
    pub odd: FxHashSet<(Datum, Datum)>,
}

/// What the values of one held transaction cost, about, each.
const WEIGHT: usize = 120;

impl Holding {
    pub fn is_empty(&self) -> bool {
        self.writers.is_empty()
    }

    pub fn memory(&self) -> usize {
        WEIGHT * (self.held.len() + self.odd.len())
    }

    pub fn insert(&mut self, number: u64, held: Held) {
        for &(key, value) in &held.values {
            self.writers.entry(key).or_default().entry(value).or_default().push(number);
        }
        self.held.insert(number, held);
    }

    fn remove(&mut self, number: u64) -> Option<Held> {
        let held = self.held.remove(&number)?;
        for &(key, value) in &held.values {
            if let Some(values) = self.writers.get_mut(&key) {
                if let Some(writers) = values.get_mut(&value) {
                    writers.retain(|&writer| writer != number);
                }
                values.retain(|_, writers| !writers.is_empty());
            }
        }
        self.writers.retain(|_, values| !values.is_empty());
        Some(held)
    }

    /// A committed transaction wrote the value: whoever else did is not given away by it.
    fn written(&mut self, key: Datum, value: Datum) {
        let Some(values) = self.writers.get_mut(&key) else { return };
        for number in values.remove(&value).unwrap_or_default() {
            if let Some(held) = self.held.get_mut(&number) {
                held.values.retain(|&pair| pair != (key, value));
            }
        }
        if values.is_empty() {
            self.writers.remove(&key);
        }
    }

    /// In the order of their arrival.
    pub fn sorted(&self) -> Vec<(u64, &Held)> {
        let mut all: Vec<_> = self.held.iter().map(|(&number, held)| (number, held)).collect();
        all.sort_by_key(|(number, _)| *number);
        all
    }
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
        let (head, ops) = &batch.heads[i];
        let ops = &batch.ops[ops.start as usize..ops.end as usize];
        let mut values: Vec<(Datum, Datum)> = Vec::new();
        let mut seen = false;
        for op in ops.iter().filter(|op| op.kind != OpKind::Read) {
            let Cell::One(value) = op.cell else { continue };
            let initial = match self.world.initial_keys.get(&op.key) {
                Some(Seen::One(initial)) => Some(*initial),
                Some(Seen::List(_)) => None,
                None => self.world.initial,
            };
            if initial != Some(value) && !values.contains(&(op.key, value)) {
                values.push((op.key, value));
                seen |= self.holding.odd.contains(&(op.key, value)) || self.was_read(op.key, value)?;
            }
        }
        if values.is_empty() {
            // Nobody can have seen it.
            return Ok(());
        }
        let mut out = Out::default();
        out.body(batch, i);
        let body = self.store.append(&out.0)?;
        let number = self.holding.next;
        self.holding.next += 1;
        self.holding.insert(number, Held { session, position, body, values });
        self.trail_open(session, position, head, ops.iter().all(|op| op.kind == OpKind::Read), batch);
        if seen {
            self.admit(vec![number], now, events)?;
        }
        Ok(())
    }

    /// Whether somebody read a value that no version has.
    fn was_read(&mut self, name: Datum, value: Datum) -> Result<bool, StoreError> {
        let chain = match self.index.get(&name) {
            Some(&key) => {
                let k = &self.keys[key as usize];
                let mut reads = k.reads.iter().chain(k.set_reads.iter());
                if k.versions.iter().any(|v| wrote(v, value)) {
                    return Ok(false);
                }
                if reads.any(|read| shows(read, value)) {
                    return Ok(true);
                }
                k.chain
            }
            None if self.evicted => self.bring_back(name, None)?.chain,
            None => None,
        };
        let mut next = chain;
        let mut read = false;
        while let Some(chain) = next.filter(|chain| chain.wrong) {
            let bytes = self.store.load(chain.top)?;
            let mut from = In(&bytes);
            next = from.option(In::chain)?;
            if from.many(In::version)?.iter().any(|(version, _)| wrote(version, value)) {
                return Ok(false);
            }
            read |= from.many(In::read)?.iter().any(|(read, _)| shows(read, value));
        }
        Ok(read)
    }

    /// A transaction that counts has arrived: who is given away by what it read?
    pub(crate) fn observe(&mut self, batch: &Batch, i: usize, committed: bool) -> Vec<u64> {
        let ops = &batch.heads[i].1;
        let ops = &batch.ops[ops.start as usize..ops.end as usize];
        if committed {
            for op in ops.iter().filter(|op| op.kind != OpKind::Read) {
                if let Cell::One(value) = op.cell {
                    self.holding.written(op.key, value);
                }
            }
        }
        let mut found = Vec::new();
        for op in ops.iter().filter(|op| op.kind == OpKind::Read) {
            let Some(values) = self.holding.writers.get(&op.key) else { continue };
            for value in batch.values(&op.cell) {
                let own = |other: &crate::batch::Op| {
                    other.kind != OpKind::Read && other.key == op.key && other.cell == Cell::One(*value)
                };
                if let Some(writers) = values.get(value).filter(|_| !ops.iter().any(own)) {
                    found.extend(writers.iter().copied());
                }
            }
        }
        found
    }

    /// Keeps in mind what a transaction read after it had read or written something else of the key.
    pub(crate) fn remember_odd(&mut self, batch: &Batch, i: usize, internal: impl Iterator<Item = usize>) {
        let ops = &batch.heads[i].1;
        for op in internal.map(|op| &batch.ops[ops.start as usize + op]) {
            self.holding.odd.extend(batch.values(&op.cell).iter().map(|&value| (op.key, value)));
        }
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
            out.location(held.body);
            out.usize(held.values.len());
            for &(key, value) in &held.values {
                out.datum(key);
                out.datum(value);
            }
        }
        let mut odd: Vec<_> = self.holding.odd.iter().collect();
        odd.sort_unstable();
        out.usize(odd.len());
        for &(key, value) in odd {
            out.datum(key);
            out.datum(value);
        }
        let mut trails: Vec<_> = self.world.trails.iter().collect();
        trails.sort_by_key(|(session, _)| **session);
        out.usize(trails.len());
        for (&session, trail) in trails {
            out.u64(session.into());
            out.trail(trail);
        }
    }

    pub(crate) fn decode_open(&mut self, from: &mut In<'_>) -> Result<(), StoreError> {
        let pair = |from: &mut In<'_>| Ok((from.datum()?, from.datum()?));
        self.holding.next = from.u64()?;
        for _ in 0..from.count()? {
            let (number, session, position) = (from.u64()?, from.u32()?, from.u32()?);
            let held = Held { session, position, body: from.location()?, values: from.many(pair)? };
            self.holding.insert(number, held);
        }
        self.holding.odd = from.many(pair)?.into_iter().collect();
        for _ in 0..from.count()? {
            let (session, trail) = (from.u32()?, from.trail()?);
            self.world.trails.insert(session, trail);
        }
        Ok(())
    }

    /// Transactions that count from now on, and whoever they give away.
    pub(crate) fn admit(
        &mut self,
        mut found: Vec<u64>,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        while let Some(number) = found.pop() {
            let Some(held) = self.holding.remove(number) else { continue };
            let bytes = self.store.load(held.body)?;
            let mut from = In(&bytes);
            let body = from.body()?;
            from.end()?;
            self.store.release(held.body);
            self.stats.not_committed -= 1;
            self.trail_admit(held.session, held.position, events);
            self.judge_transaction(&body, 0, (held.session, held.position), now, events)?;
            found.extend(self.observe(&body, 0, false));
        }
        Ok(())
    }
}

fn wrote(version: &Version, value: Datum) -> bool {
    match &version.effect {
        Effect::Write(written) => *written == value,
        Effect::Append(elements) => elements.contains(&value),
        Effect::Undefined => false,
    }
}

fn shows(read: &Read, value: Datum) -> bool {
    read.verdict == Verdict::Wrong
        && match &read.seen {
            Seen::One(one) => *one == value,
            Seen::List(elements) => elements.contains(&value),
        }
}
