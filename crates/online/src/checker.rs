//! Arrival: what a new transaction says about itself, its session and the keys it touches.
//!
//! SESSION, INT and start ≤ commit concern only the transaction and its session, and are reported at once.
//! A version that arrives is compared with those it overlaps (NOCONFLICT, also final), and the reads that
//! see it, up to the next version that hides it, are judged again (Algorithm 3, step 3, with its
//! optimisations, per key). A read that arrives is judged against what is known. The cost depends on the
//! keys touched and on how much of them is affected, not on how many keys there are.

use crate::carried::Carried;
use crate::filter::{Filter, Of};
use crate::ids::Ids;
use crate::indeterminate::IndeterminateSet;
use crate::key::{Key, Seen, Slot};
use crate::live_state::{Id, LiveState, Txn, show};
use crate::ops::{Ops, written};
use crate::pending::Pending;
use crate::suspects::Suspects;
use crate::{
    Batch, Cell, Event, Fault, Finding, Gc, Key128, Options, Origin, Shape, Shown, Stats, Store, StoreError,
    TxnKey,
};
use anomalist_history::{OpKind, Outcome, Timestamp};
use anomalist_timestamp::{Access, Axiom, Footprint, Identity, Mode, Operations};
use rustc_hash::{FxHashMap, FxHashSet};

/// Checks transactions as they arrive. See the [crate documentation](crate).
pub struct Checker<S> {
    pub(crate) options: Options,
    pub(crate) live: LiveState,
    pub(crate) keys: Vec<Key>,
    pub(crate) free_keys: Vec<u32>,
    pub(crate) index: FxHashMap<Key128, u32>,
    /// Some keys are in the store's map only.
    pub(crate) evicted: bool,
    /// Names of keys and sessions that are there.
    pub(crate) away: Filter,
    pub(crate) ids: Ids,
    pub(crate) pending: Pending,
    pub(crate) suspects: Suspects,
    pub(crate) stats: Stats,
    pub(crate) store: S,
    /// Rank of the next arrival.
    pub(crate) seq: u64,
    /// When something last arrived, in milliseconds.
    pub(crate) now: u64,
    /// Memory in use, about.
    pub(crate) bytes: usize,
    /// Memory that the caller found in use beyond what was counted here.
    pub(crate) outside: usize,
    /// Keys with something to spill.
    pub(crate) touched: Vec<u32>,
    /// Keys that changed since the last checkpoint.
    pub(crate) dirty: Vec<u32>,
    pub(crate) dirty_sessions: FxHashSet<u32>,
    /// Commits of some transactions in memory, to find out what is old.
    pub(crate) samples: Vec<Timestamp>,
    /// What was reported (or retracted) after the checkpoint that this checker began with.
    pub(crate) carried: FxHashMap<Identity<TxnKey, Key128>, Carried>,
    /// Transactions of unknown outcome.
    pub(crate) holding: IndeterminateSet,
    pub(crate) text_bytes: usize,
    /// When to collect next.
    pub(crate) full_at: usize,
    footprint: Footprint<u32>,
    slots: Vec<u32>,
}

/// Texts of values are kept up to this many bytes, for reports.
const TEXTS: usize = 1 << 20;
/// One in so many transactions says how old what is in memory is, once there are many.
const SAMPLE: u64 = 16;
const MANY: usize = 64;

impl<S: Store> Checker<S> {
    /// A checker that has seen nothing.
    pub fn new(options: Options, store: S) -> Checker<S> {
        let ids = options.gc.bytes().map_or(usize::MAX, |bytes| bytes / 16 / crate::ids::ENTRY);
        Checker {
            live: LiveState::new(options.rule, options.ties),
            options,
            keys: Vec::new(),
            free_keys: Vec::new(),
            index: FxHashMap::default(),
            evicted: false,
            away: Filter::new(options.gc.bytes().unwrap_or(0)),
            ids: Ids::new(ids),
            pending: Pending::default(),
            suspects: Suspects::default(),
            stats: Stats::default(),
            store,
            seq: 0,
            now: 0,
            bytes: 0,
            outside: 0,
            touched: Vec::new(),
            dirty: Vec::new(),
            dirty_sessions: FxHashSet::default(),
            samples: Vec::new(),
            carried: FxHashMap::default(),
            holding: IndeterminateSet::default(),
            text_bytes: 0,
            full_at: match options.gc {
                Gc::None => usize::MAX,
                Gc::Threshold(limit) | Gc::Memory(limit) => limit,
            },
            footprint: Footprint::default(),
            slots: Vec::new(),
        }
    }

    /// What was counted so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Memory in use, in bytes, as the checker counts.
    pub fn memory(&self) -> usize {
        self.bytes
            + self.ids.len() * crate::ids::ENTRY
            + self.pending.len() * PENDING
            + self.text_bytes
            + self.live.sessions.memory()
            + self.away.memory()
            + self.holding.memory()
    }

    /// Says how much memory is in use beyond [`Checker::memory`]: what the allocator, tables that are not
    /// full, parsers and the store take. It counts against the limit, up to half of that.
    pub fn set_outside(&mut self, bytes: usize) {
        self.outside = bytes;
    }

    /// Verdicts that are not settled and would be reported now.
    pub fn unsettled(&self) -> usize {
        self.pending.len()
    }

    /// Transactions in memory.
    pub fn live(&self) -> usize {
        self.live.txn_count()
    }

    /// Keys known and in memory.
    pub fn keys(&self) -> usize {
        self.index.len()
    }

    /// The store.
    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// What keys hold before any write, unless the stream says so itself.
    pub fn set_initial(&mut self, initial: Option<Key128>) {
        self.live.initial = initial;
    }

    /// Takes in transactions that have arrived now (in milliseconds of any clock that does not go back),
    /// and reports.
    pub fn accept(&mut self, batch: &Batch, now: u64, events: &mut Vec<Event>) -> Result<(), StoreError> {
        self.now = now;
        self.holding.resolved &= batch.heads.is_empty();
        let mut initial = batch.initial.iter().peekable();
        for i in 0..batch.heads.len() {
            while let Some((_, said)) = initial.next_if(|(before, _)| *before <= i) {
                self.begin_with(batch, said, events);
            }
            self.arrive(batch, i, now, events)?;
            if self.is_full() {
                self.collect()?;
            }
        }
        for (_, said) in initial {
            self.begin_with(batch, said, events);
        }
        self.settle(now, events)
    }

    /// A header. Once a key has been judged by it, an initial value stands.
    fn begin_with(&mut self, batch: &Batch, said: &crate::Initial, events: &mut Vec<Event>) {
        let mut contradicts = false;
        if let Some(default) = said.default
            && default != self.live.initial
        {
            if self.stats.checked == 0 {
                self.live.initial = default;
            } else {
                contradicts = true;
            }
        }
        for &(key, cell) in &said.keys {
            let value = match cell {
                Cell::List(start, end) => Seen::List(batch.elements[start as usize..end as usize].into()),
                other => Seen::One(written(other)),
            };
            if self.index.contains_key(&key) || self.live.initial_keys.get(&key).is_some_and(|v| *v != value)
            {
                contradicts |= self.live.initial_keys.get(&key) != Some(&value);
            } else {
                self.live.initial_keys.insert(key, value);
            }
        }
        if contradicts {
            self.stats.headers += 1;
            events.push(Event::Fault { fault: Fault::Initial, origin: Origin::default() });
        }
    }

    fn arrive(
        &mut self,
        batch: &Batch,
        i: usize,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        let (head, _) = &batch.heads[i];
        self.stats.arrived += 1;
        if let Some(id) = head.id
            && !self.ids.insert(id)
        {
            self.stats.repeated += 1;
            let fault = Fault::Repeated { id: show(id, batch.texts.get(&id).map(|text| &**text)) };
            events.push(Event::Fault { fault, origin: head.origin });
            return Ok(());
        }
        if self.options.rule.mode == Mode::Si && !head.stamps.has_start() && head.set.is_none() {
            self.stats.no_start += 1;
            events.push(Event::Fault { fault: Fault::NoStart, origin: head.origin });
            return Ok(());
        }
        let session = self.session(head.session, batch)?;
        let position = self.live.sessions[session].count;
        self.live.sessions[session].count += 1;
        if self.options.checkpoints {
            self.dirty_sessions.insert(session);
        }
        if head.outcome != Outcome::Aborted {
            self.doubt(batch, i);
        }
        if head.outcome != Outcome::Committed {
            self.stats.not_committed += 1;
            return match head.outcome {
                Outcome::Indeterminate => self.hold(batch, i, (session, position), now, events),
                _ => Ok(()),
            };
        }
        self.judge_transaction(batch, i, (session, position), now, events)
    }

    /// Takes in a transaction that counts.
    pub(crate) fn judge_transaction(
        &mut self,
        batch: &Batch,
        i: usize,
        (session, position): (u32, u32),
        now: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        let (head, ops) = &batch.heads[i];
        let text = |name: Key128| batch.texts.get(&name).cloned();
        let ops = ops.start as usize..ops.end as usize;
        self.stats.checked += 1;
        self.stats.operations += ops.len() as u64;
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        for op in &batch.ops[ops.clone()] {
            slots.push(self.key(op.key, batch)?);
            self.remember_text(op.cell, batch);
        }
        let warm = slots
            .iter()
            .map(|&key| self.keys[key as usize].versions.warm() ^ self.keys[key as usize].reads.warm());
        std::hint::black_box(warm.fold(0, |all, one| all ^ one));
        let mut footprint = std::mem::take(&mut self.footprint);
        let accesses = Ops { batch, first: ops.start, keys: &slots };
        footprint.pass(&accesses);
        let read_only = !batch.ops[ops].iter().any(|op| op.kind != OpKind::Read);
        let txn = Txn {
            seq: self.seq,
            start: head.stamps.start,
            commit: head.stamps.commit,
            session,
            position,
            read_only,
            flipped: false,
            refs: 1 + (footprint.reads.len() + footprint.writes.len()) as u32,
            arrived: now,
            set_id: head.set_id,
            set: head.set.clone(),
            id: head.id.map(|name| Id { name, text: text(name) }),
        };
        if self.samples.len() < MANY || self.seq.is_multiple_of(SAMPLE) {
            self.samples.push(txn.commit);
        }
        self.seq += 1;
        self.bytes += txn_weight(&txn);
        self.stats.newest = self.stats.newest.max(Some(txn.commit));
        let slot = self.live.add(txn);
        self.check_session(slot, head, events);
        for internal in &footprint.internal {
            let seen = self.show_access(accesses.access(internal.op as usize));
            let expected = self.show_access(accesses.access(internal.before as usize));
            let finding = self.finding(Axiom::Int, slot, Some(internal.key), None, Some(internal.op));
            self.report(Finding { seen, expected, ..finding }, events);
        }
        for external in &footprint.reads {
            let seen = match accesses.access(external.op as usize) {
                Access::ReadList(list) => Seen::List(list[..list.len() - external.own as usize].into()),
                Access::Read(value) => Seen::One(value),
                _ => continue,
            };
            self.add_read(external.key, slot, external.op, seen, now, events)?;
        }
        for written in &footprint.writes {
            let effect = accesses.effect(written);
            self.add_version(written.key, slot, effect, now, events)?;
        }
        self.drop_ref(slot);
        (self.slots, self.footprint) = (slots, footprint);
        Ok(())
    }

    /// One version or read of a transaction is gone, or it need not be held any longer.
    pub(crate) fn drop_ref(&mut self, slot: Slot) {
        let weight = txn_weight(self.live.txn(slot));
        if self.live.forget(slot) {
            self.bytes = self.bytes.saturating_sub(weight);
        }
    }

    /// A key's number.
    #[inline]
    fn key(&mut self, name: Key128, batch: &Batch) -> Result<u32, StoreError> {
        match self.index.get(&name) {
            Some(&key) => Ok(key),
            None => self.new_key(name, batch),
        }
    }

    fn new_key(&mut self, name: Key128, batch: &Batch) -> Result<u32, StoreError> {
        let text = batch.texts.get(&name).cloned();
        let key = match self.evicted && self.away.may_have(Of::Key, name) {
            true => self.bring_back(name, text)?,
            false => Key::new(name, text),
        };
        Ok(self.insert_key(key))
    }

    /// Gives a key a number.
    pub(crate) fn insert_key(&mut self, key: Key) -> u32 {
        self.bytes += key_weight(&key);
        let name = key.name;
        let slot = match self.free_keys.pop() {
            Some(slot) => {
                self.keys[slot as usize] = key;
                slot
            }
            None => {
                self.keys.push(key);
                self.keys.len() as u32 - 1
            }
        };
        self.index.insert(name, slot);
        slot
    }

    fn remember_text(&mut self, cell: Cell, batch: &Batch) {
        for value in batch.values(&cell).iter().filter(|value| value.shape() == Shape::Text) {
            let Some(text) = batch.texts.get(value).filter(|_| !self.live.texts.contains_key(value)) else {
                continue;
            };
            if self.text_bytes > TEXTS {
                self.live.texts.clear();
                self.text_bytes = 0;
            }
            self.text_bytes += text.len() + 48;
            self.live.texts.insert(*value, text.clone());
        }
    }

    fn show_access(&self, access: Access<'_, Key128>) -> Option<Shown> {
        match access {
            Access::Read(value) | Access::Write(value) | Access::Append(value) => self.live.show_value(value),
            Access::ReadList(list) => self.live.show_seen(&Seen::List(list.into())),
            Access::Unknown => None,
        }
    }
}

/// What a waiting verdict costs, about.
const PENDING: usize = 160;

pub(crate) fn key_weight(key: &Key) -> usize {
    // The map's entry, and a block each for versions and reads.
    size_of::<Key>() + 40 + 96 + key.text.as_ref().map_or(0, |t| t.len())
}

pub(crate) fn txn_weight(txn: &Txn) -> usize {
    let id = txn.id.as_ref().and_then(|id| id.text.as_ref()).map_or(0, |t| t.len() + 16);
    size_of::<Txn>() + id + txn.set.as_ref().map_or(0, |s| 64 + 8 * s.view().running.len())
}
