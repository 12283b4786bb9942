//! Bounded memory: what is old leaves for the store, and comes back when a late arrival needs it.
//!
//! A collection picks a moment and writes, for each key that has them, the reads before it and the versions
//! that no read after it can see, as one chunk that names the key's chunk before it. What stays of a
//! settled key is the latest version that hides all before it and whatever was appended since. In memory a
//! key knows bounds over everything it has in the store (greatest commit, greatest moment of a read), so it
//! can tell whether an arrival may concern any of it; if so, chunks come back, latest first, until it does
//! not. Late never means wrong.

use crate::change::Side;
use crate::checker::{Checker, key_weight};
use crate::codec::{In, Out};
use crate::filter::Of;
use crate::key::{BEGIN, Chain, Key, Read, Slot, Verdict, Weight};
use crate::live_state::Txn;
use crate::{Gc, Key128, Store, StoreError};
use anomalist_history::Timestamp;
use anomalist_timestamp::Mode;

/// Shares of what is in memory that a collection tries to be rid of, one after the other.
const SHARES: [f64; 3] = [0.5, 0.8, 0.95];

impl<S: Store> Checker<S> {
    /// True if it is time to collect.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.fill().is_some_and(|(fill, _)| fill > self.full_at)
    }

    /// What is to be kept low, and how low.
    #[inline]
    fn fill(&self) -> Option<(usize, usize)> {
        match self.options.gc {
            Gc::None => None,
            Gc::Threshold(txns) => Some((self.live.txn_count(), txns)),
            Gc::Memory(bytes) => Some((self.memory() + self.outside.min(bytes / 2), bytes)),
        }
    }

    /// True if a collection has done enough.
    fn has_room(&self) -> bool {
        self.fill().is_none_or(|(fill, limit)| fill <= limit / 4 * 3)
    }

    /// Makes room.
    pub(crate) fn collect(&mut self) -> Result<(), StoreError> {
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.memory());
        self.stats.collections += 1;
        for share in SHARES {
            self.samples.sort_unstable();
            let cut = (self.samples.len() as f64 * share) as usize;
            let Some(&moment) = self.samples.get(cut) else { break };
            self.spill_before(moment)?;
            self.samples.drain(..cut);
            if self.has_room() {
                break;
            }
        }
        if matches!(self.options.gc, Gc::Memory(_)) && !self.has_room() {
            self.evict_sessions(Self::has_room)?;
            self.evict()?;
        }
        // Where the least there must be is over the limit, collecting again at once would gain nothing.
        if let Some((fill, limit)) = self.fill() {
            self.full_at = limit.max(fill + limit / 8);
        }
        Ok(())
    }

    fn spill_before(&mut self, moment: Timestamp) -> Result<(), StoreError> {
        let keys = std::mem::take(&mut self.touched);
        for key in keys {
            self.keys[key as usize].touched = false;
            self.spill(key, moment, false)?;
            let k = &mut self.keys[key as usize];
            if k.reads.len() + k.set_reads.len() > 0 || k.versions.len() > 1 {
                k.touched = true;
                self.touched.push(key);
            }
        }
        Ok(())
    }

    /// Writes what of a key is before a moment to the store; with `all`, every version too.
    fn spill(&mut self, key: u32, moment: Timestamp, all: bool) -> Result<(), StoreError> {
        let k = &self.keys[key as usize];
        let ends = [Side::At, Side::Set].map(|side| k.side(side).find(moment, |r| r.at < moment));
        let versions = if all { k.versions.end() } else { self.first_needed(k, moment) };
        if ends == [k.reads.start(), k.set_reads.start()] && versions == k.versions.start() {
            return Ok(());
        }
        // What is yet to be reported about these reads must not need them.
        for (side, end) in [Side::At, Side::Set].into_iter().zip(ends) {
            let mut at = k.side(side).start();
            while at < end {
                let read = self.read(key, side, at);
                if read.pending {
                    let id = (self.live.txn(read.txn).seq, key);
                    let spilled = self.spilled_read(key, read);
                    if let Some(waiting) = self.pending.get_mut(id) {
                        waiting.spilled = Some(spilled);
                    }
                }
                at = self.keys[key as usize].side(side).next(at);
            }
        }
        let k = &mut self.keys[key as usize];
        let versions = k.versions.take_front(versions);
        let reads = [k.reads.take_front(ends[0]), k.set_reads.take_front(ends[1])].concat();
        let before = k.chain;
        let mut chain = before.unwrap_or(Chain {
            top: crate::Location { segment: 0, length: 0, offset: 0 },
            versions: BEGIN,
            reads: BEGIN,
            set_ids: 0,
            xmax: 0,
            wrong: false,
        });
        let mut out = Out::default();
        out.option(before.as_ref(), Out::chain);
        out.usize(versions.len());
        for version in &versions {
            out.version(version, self.live.txn(version.txn));
            chain.versions = chain.versions.max(version.commit);
            chain.set_ids = chain.set_ids.max(version.set_id);
        }
        out.usize(reads.len());
        for read in &reads {
            let txn = self.live.txn(read.txn);
            out.read(read, txn);
            chain.reads = chain.reads.max(read.at);
            chain.wrong |= matches!(read.verdict, Verdict::Wrong | Verdict::Open);
            chain.xmax = chain.xmax.max(read.xmax);
        }
        let weight: usize = versions.iter().map(Weight::weight).sum::<usize>()
            + reads.iter().map(Weight::weight).sum::<usize>();
        self.bytes = self.bytes.saturating_sub(weight);
        for slot in versions.iter().map(|v| v.txn).chain(reads.iter().map(|r| r.txn)) {
            self.drop_ref(slot);
        }
        chain.top = self.store.append(&out.0)?;
        self.stats.spilled_chunks += 1;
        self.stats.spilled_bytes += out.0.len() as u64;
        self.keys[key as usize].chain = Some(chain);
        if self.options.checkpoints && !self.keys[key as usize].dirty {
            self.keys[key as usize].dirty = true;
            self.dirty.push(key);
        }
        Ok(())
    }

    /// The first version that a read at a moment or later may see: of those before it, the latest that hide
    /// all others. Versions with one commit stay together.
    fn first_needed(&self, key: &Key, moment: Timestamp) -> crate::ring::Cursor {
        let versions = &key.versions;
        let mut at = versions.find(moment, |v| v.commit < moment);
        while let Some(last) = versions.prev(at) {
            let Some(commit) = versions.get(last).map(|v| v.commit) else { break };
            // Back to the beginning of the group.
            let mut hides = true;
            let mut alone = 0;
            while let Some(before) = versions.prev(at)
                && let Some(version) = versions.get(before).filter(|v| v.commit == commit)
            {
                hides &= version.effect.written().is_some();
                // What sees itself reads from before itself.
                let txn = self.live.txn(version.txn);
                hides &= self.options.rule.mode == Mode::Ser
                    || txn.set.is_some()
                    || !self.options.rule.contains(txn.start, txn.commit);
                alone += 1;
                at = before;
            }
            if hides && alone > 0 {
                return at;
            }
        }
        versions.start()
    }

    /// Brings back a key's latest chunk.
    pub(crate) fn reload(&mut self, key: u32) -> Result<(), StoreError> {
        let Some(chain) = self.keys[key as usize].chain else { return Ok(()) };
        let bytes = self.store.load(chain.top)?;
        let mut from = In(&bytes);
        let before = from.option(In::chain)?;
        let mut versions = Vec::new();
        for (mut version, txn) in from.many(In::version)? {
            version.txn = self.take_in(txn)?;
            self.bytes += version.weight();
            versions.push(version);
        }
        let reads = from.many(In::read)?;
        from.end()?;
        self.store.release(chain.top);
        self.stats.reloaded_chunks += 1;
        let k = &mut self.keys[key as usize];
        k.chain = before;
        k.versions.put_front(versions);
        for (read, txn) in reads {
            self.take_in_read(key, read, txn)?;
        }
        self.touch(key);
        Ok(())
    }

    /// Gives a transaction that was spilled a slot.
    pub(crate) fn take_in(&mut self, txn: Txn) -> Result<Slot, StoreError> {
        self.session_back(txn.session)?;
        self.bytes += crate::checker::txn_weight(&txn);
        Ok(self.live.add(txn))
    }

    /// Puts a read that was spilled among those of its key.
    pub(crate) fn take_in_read(&mut self, key: u32, mut read: Read, txn: Txn) -> Result<(), StoreError> {
        let seq = txn.seq;
        read.txn = self.take_in(txn)?;
        let side = self.side(read.txn);
        if read.pending {
            match self.pending.get_mut((seq, key)) {
                // What was reported may have been learnt since, from a log.
                Some(waiting) => {
                    if let Some(spilled) = waiting.spilled.take() {
                        read.reported = spilled.reported;
                    }
                }
                // It has settled meanwhile.
                None => (read.pending, read.reported) = (false, read.verdict),
            }
        }
        let mut arm = false;
        if !self.carried.is_empty() {
            read.reported = self.carried_verdict(key, read.txn, read.reported);
            arm = !read.pending && read.reported != read.verdict;
        }
        let at = self.insert_read(key, side, read);
        if arm {
            // What was reported came from arrivals that are about to be repeated.
            self.arm(key, side, at, self.now + self.options.settle_ms);
        }
        Ok(())
    }

    /// Brings back whatever of a key a version of this transaction may concern.
    pub(crate) fn reload_for(&mut self, key: u32, slot: Slot) -> Result<(), StoreError> {
        while let Some(chain) = &self.keys[key as usize].chain {
            let txn = self.live.txn(slot);
            let rule = self.options.rule;
            let concerned = chain.versions >= txn.commit
                || match (rule.mode, &txn.set) {
                    (Mode::Ser, _) => chain.reads >= txn.commit,
                    (Mode::Si, set) => {
                        let overlaps = match set {
                            None => {
                                !rule.contains(txn.start, chain.versions)
                                    || self.goes_on(txn) && chain.versions == txn.start
                            }
                            Some(set) => chain.set_ids >= set.view().xmin,
                        };
                        overlaps
                            || rule.contains(chain.reads, txn.commit)
                            || txn.set_id.is_some_and(|id| id < chain.xmax)
                    }
                };
            if !concerned {
                break;
            }
            self.reload(key)?;
        }
        Ok(())
    }

    /// Moves whole keys to the store: those that were not touched since the last collection.
    fn evict(&mut self) -> Result<(), StoreError> {
        let end = Timestamp { physical: i64::MAX, logical: i64::MAX };
        for key in 0..self.keys.len() as u32 {
            if self.has_room() {
                break;
            }
            let k = &self.keys[key as usize];
            if k.touched || k.pending > 0 || !self.index.contains_key(&k.name) || self.is_free(key) {
                continue;
            }
            self.spill(key, end, true)?;
            let record = self.encode_key(key);
            let k = &mut self.keys[key as usize];
            self.store.put(&key_name(k.name), &record)?;
            self.bytes = self.bytes.saturating_sub(key_weight(k));
            self.index.remove(&k.name);
            self.away.add(Of::Key, k.name);
            k.text = None;
            k.chain = None;
            k.dirty = false;
            self.free_keys.push(key);
            self.evicted = true;
            self.stats.evicted_keys += 1;
        }
        self.dirty.retain(|&key| self.keys[key as usize].dirty);
        Ok(())
    }

    fn is_free(&self, key: u32) -> bool {
        self.index.get(&self.keys[key as usize].name) != Some(&key)
    }

    /// A key of this name, with what the store has of it.
    pub(crate) fn bring_back(&mut self, name: Key128, text: Option<Box<str>>) -> Result<Key, StoreError> {
        let mut key = Key::new(name, text);
        if let Some(bytes) = self.store.get(&key_name(name))? {
            let mut from = In(&bytes);
            (key.name, key.text) = (from.datum()?, from.option(In::text)?);
            key.chain = from.option(In::chain)?;
        }
        Ok(key)
    }
}

/// Where the store's map has a key.
pub(crate) fn key_name(name: Key128) -> Vec<u8> {
    let mut out = Out(b"k".to_vec());
    out.datum(name);
    out.0
}
