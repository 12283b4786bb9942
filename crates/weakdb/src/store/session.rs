//! A session: transactions one after another, by one client.

use super::base::{KeyId, Seq};
use super::choice::{Candidates, Choice, Otherwise, ReadName, TxnName, Wish};
use super::error::{Conflict, Error};
use super::options::{Latest, Schedule};
use super::record::{Ended, Logged};
use super::value::Value;
use super::{Inner, Store};
use anomalist_history::Outcome;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// A session. Dropping it rolls an open transaction back.
pub struct Session {
    store: Arc<Store>,
    number: u32,
    /// Transactions begun so far.
    begun: u32,
    latest: Latest,
    open: Option<Open>,
}

/// Where a transaction can be rolled back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    transaction: u32,
    undo: usize,
    log: usize,
}

/// An open transaction.
#[derive(Default)]
struct Open {
    writes: FxHashMap<KeyId, Option<Value>>,
    /// What writes replaced, to undo them: `None`: nothing.
    undo: Vec<(KeyId, Option<Option<Value>>)>,
    log: Vec<Logged>,
    /// External reads so far.
    reads: u32,
    /// Answers given within the current statement.
    memo: FxHashMap<KeyId, Seq>,
    statement: Option<Arc<str>>,
    /// Keys read for update, with the version that has to be the last one still.
    current: FxHashMap<KeyId, Seq>,
    /// Beginnings and ends of keys that no other transaction may write before the commit, and since when.
    guarded: Vec<(Box<str>, Box<str>, Seq)>,
}

impl Session {
    pub(super) fn new(store: Arc<Store>, number: u32) -> Session {
        let latest = store.options.latest;
        Session { store, number, begun: 0, latest, open: None }
    }

    /// Its number, from 0, in the order in which sessions were opened.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// True while a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// With `true`, reads return one of the newest allowed writes of each session, and none that is known
    /// to be overwritten: for the queries of a test's assertions. [`Latest`] says what else there is.
    pub fn set_latest(&mut self, latest: impl Into<Latest>) {
        self.latest = latest.into();
    }

    /// Begins a transaction. Waits as the options ask: a random delay; with the serial schedule, for its
    /// turn.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.begin_with(false)
    }

    /// Begins a transaction that promises to write nothing: at the serializable level it may then be shown
    /// a state of the past.
    pub fn begin_read_only(&mut self) -> Result<(), Error> {
        self.begin_with(true)
    }

    fn begin_with(&mut self, read_only: bool) -> Result<(), Error> {
        if self.open.is_some() {
            return Err(Error::AlreadyOpen);
        }
        let store = self.store.clone();
        if let Some((from, to)) = store.options.delay {
            let span = to.saturating_sub(from).as_micros() as u64;
            let wait = self.random(u64::MAX).u64(..=span);
            std::thread::sleep(from + Duration::from_micros(wait));
        }
        let mut inner = store.lock();
        if store.options.schedule == Schedule::Serial {
            let waited = store.ended.wait_timeout_while(inner, store.options.patience, |i| i.busy);
            let (guard, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            inner = guard;
            if timeout.timed_out() {
                return Err(Error::Busy);
            }
            inner.busy = true;
        }
        inner.promised |= read_only;
        inner.isolation.begin(self.number as usize, read_only);
        drop(inner);
        self.begun += 1;
        self.open = Some(Open::default());
        Ok(())
    }

    /// Runs a transaction and commits it; rolls it back if the closure fails.
    pub fn transaction<T>(
        &mut self,
        body: impl FnOnce(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.begin()?;
        match body(self) {
            Ok(value) => self.commit().map(|()| value),
            Err(error) => {
                self.close(None);
                Err(error)
            }
        }
    }

    /// Begins a statement: until the next one, a key is read once, and further reads of it repeat the
    /// answer. Sessions that never call this make every read a statement of its own.
    ///
    /// The text is for explanations ([`Choice::statement`](super::Choice::statement),
    /// [`Store::statements`](super::Store::statements)).
    pub fn statement(&mut self, text: Option<&str>) {
        let name = self.name();
        let Some(open) = &mut self.open else { return };
        let text: Arc<str> = text.unwrap_or_default().into();
        open.memo.clear();
        open.statement = Some(text.clone());
        if self.store.options.record_choices && !text.is_empty() {
            self.store.lock().statements.push((name, text));
        }
    }

    /// Reads a key: its own last write, or one that the level allows.
    pub fn read(&mut self, key: &str) -> Result<Option<Value>, Error> {
        let store = self.store.clone();
        let mut inner = store.lock();
        let key = inner.key(key);
        Ok(self.read_key(&mut inner, key, None)?.0)
    }

    /// Reads a key for update: the allowed version that committed last. If another transaction overwrites
    /// it before this transaction commits, the commit is refused. That is how `SELECT … FOR UPDATE` keeps
    /// others out without a lock to wait for.
    ///
    /// What the transaction has read before may allow only an old version: then it was overwritten before
    /// it was locked, and the commit is refused as well. Versions that certainly come before the one that
    /// was read overwrite nothing, whenever they committed.
    pub fn read_for_update(&mut self, key: &str) -> Result<Option<Value>, Error> {
        let store = self.store.clone();
        let mut inner = store.lock();
        let key = inner.key(key);
        let (value, source) = self.read_key(&mut inner, key, Some(Wish::Newest))?;
        let versions = inner.base.versions(key);
        let overwritten = |source: &Seq| {
            let mut later = versions.writers.iter().rev().take_while(|&w| w > source);
            later.any(|&w| !inner.isolation.before(w, *source))
        };
        let seen = source.filter(overwritten).unwrap_or(versions.last());
        let open = self.open.as_mut().ok_or(Error::NoTransaction)?;
        open.current.entry(key).or_insert(seen);
        Ok(value)
    }

    /// Reads the version of a key that committed last: what another program, which knows no other, has read
    /// for this transaction. Fails if the level does not allow it; the transaction stays open, and should
    /// be rolled back.
    pub fn read_newest(&mut self, key: &str) -> Result<Option<Value>, Error> {
        let store = self.store.clone();
        let mut inner = store.lock();
        let key = inner.key(key);
        let open = self.open.as_ref().ok_or(Error::NoTransaction)?;
        let last = inner.base.versions(key).last();
        let candidates = Candidates::new(&*inner.isolation, &inner.base, self.number as usize, key);
        if !open.writes.contains_key(&key) && !candidates.allows(last) {
            let name = inner.base.name(key).clone();
            return Err(Error::Serialization(Conflict::Newest(name)));
        }
        Ok(self.read_key(&mut inner, key, Some(Wish::Newest))?.0)
    }

    /// Whether [`commit`](Session::commit) would succeed now.
    pub fn may_commit(&self) -> Result<(), Error> {
        let open = self.open.as_ref().ok_or(Error::NoTransaction)?;
        self.refused(&self.store.lock(), open).map_or(Ok(()), |c| Err(Error::Serialization(c)))
    }

    /// Refuses the commit if another transaction has by then written a key whose name begins and ends so:
    /// what a scan for a constraint did not find is not to appear behind its back.
    pub fn guard(&mut self, prefix: &str, suffix: &str) -> Result<(), Error> {
        let since = self.store.lock().base.next();
        let open = self.open.as_mut().ok_or(Error::NoTransaction)?;
        open.guarded.push((prefix.into(), suffix.into(), since));
        Ok(())
    }

    /// Writes a key.
    pub fn write(&mut self, key: &str, value: impl Into<Value>) -> Result<(), Error> {
        self.put(key, Some(value.into()))
    }

    /// Makes a key hold nothing.
    pub fn delete(&mut self, key: &str) -> Result<(), Error> {
        self.put(key, None)
    }

    /// Reads a key, and writes it if it held this value. True if so.
    pub fn compare_and_set(
        &mut self,
        key: &str,
        expected: Option<&Value>,
        value: impl Into<Value>,
    ) -> Result<bool, Error> {
        let equal = self.read(key)?.as_ref() == expected;
        if equal {
            self.write(key, value)?;
        }
        Ok(equal)
    }

    /// Reads every key whose name begins so, and returns those that hold something, in the order of names.
    pub fn scan(&mut self, prefix: &str) -> Result<Vec<(Arc<str>, Value)>, Error> {
        self.cover(prefix)?;
        let store = self.store.clone();
        let mut inner = store.lock();
        let mut found = Vec::new();
        for (name, key) in inner.base.with_prefix(prefix) {
            if let (Some(value), _) = self.read_key(&mut inner, key, None)? {
                found.push((name, value));
            }
        }
        Ok(found)
    }

    /// The names of keys that begin so and that any transaction has ever touched, in their order; reads
    /// none of them.
    pub fn keys(&self, prefix: &str) -> Vec<Arc<str>> {
        self.store.lock().base.with_prefix(prefix).into_iter().map(|(name, _)| name).collect()
    }

    /// A savepoint.
    pub fn mark(&self) -> Result<Mark, Error> {
        let open = self.open.as_ref().ok_or(Error::NoTransaction)?;
        Ok(Mark { transaction: self.begun, undo: open.undo.len(), log: open.log.len() })
    }

    /// Undoes the writes since the mark. What has been read stays read. A mark of another transaction, or
    /// one that an earlier mark was already rolled back past, is refused.
    pub fn rollback_to(&mut self, mark: Mark) -> Result<(), Error> {
        let store = self.store.clone();
        let mut inner = store.lock();
        let open = self.open.as_mut().ok_or(Error::NoTransaction)?;
        if mark.transaction != self.begun || mark.undo > open.undo.len() || mark.log > open.log.len() {
            return Err(Error::NoSavepoint);
        }
        for (key, before) in open.undo.drain(mark.undo..).rev() {
            match before {
                Some(value) => {
                    open.writes.insert(key, value);
                }
                None => {
                    open.writes.remove(&key);
                    inner.isolation.write(self.number as usize, key, false);
                }
            }
        }
        let kept: Vec<Logged> =
            open.log.drain(mark.log..).filter(|op| matches!(op, Logged::Read(..))).collect();
        open.log.extend(kept);
        open.memo.clear();
        Ok(())
    }

    /// Commits. After an error the transaction has been rolled back.
    pub fn commit(&mut self) -> Result<(), Error> {
        let store = self.store.clone();
        let mut inner = store.lock();
        let open = self.open.as_ref().ok_or(Error::NoTransaction)?;
        let refused = self.refused(&inner, open);
        match refused {
            Some(conflict) => {
                self.end(&mut inner, Outcome::Aborted);
                Err(Error::Serialization(conflict))
            }
            None => {
                self.end(&mut inner, Outcome::Committed);
                Ok(())
            }
        }
    }

    fn refused(&self, inner: &Inner, open: &Open) -> Option<Conflict> {
        let late = open.current.iter().filter(|&(&k, &seen)| inner.base.versions(k).last() != seen);
        if let Some((&key, _)) = late.min() {
            return Some(Conflict::ForUpdate(inner.base.name(key).clone()));
        }
        for (prefix, suffix, since) in &open.guarded {
            let new = |(name, key): &(Arc<str>, KeyId)| {
                name.ends_with(&**suffix) && inner.base.versions(*key).last() >= *since
            };
            if let Some((name, _)) = inner.base.with_prefix(prefix).into_iter().find(new) {
                return Some(Conflict::ForUpdate(name));
            }
        }
        let abort = self.store.options.abort;
        if abort > 0.0 && self.random(u64::MAX - 1).f64() < abort {
            return Some(Conflict::Injected);
        }
        inner.isolation.may_commit(&inner.base, self.number as usize).err()
    }

    /// Rolls the open transaction back.
    pub fn rollback(&mut self) -> Result<(), Error> {
        if self.open.is_none() {
            return Err(Error::NoTransaction);
        }
        self.close(None);
        Ok(())
    }

    fn close(&mut self, inner: Option<&mut Inner>) {
        if self.open.is_some() {
            match inner {
                Some(inner) => self.end(inner, Outcome::Aborted),
                None => {
                    let store = self.store.clone();
                    self.end(&mut store.lock(), Outcome::Aborted);
                }
            }
        }
    }

    fn name(&self) -> TxnName {
        TxnName { session: self.number, transaction: self.begun.saturating_sub(1) }
    }

    /// A source of randomness of this transaction's own, for one purpose.
    fn random(&self, purpose: u64) -> fastrand::Rng {
        let mut state = self.store.options.seed;
        for part in [u64::from(self.number), u64::from(self.begun), purpose] {
            state = fastrand::Rng::with_seed(state ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
        }
        fastrand::Rng::with_seed(state)
    }

    fn put(&mut self, key: &str, value: Option<Value>) -> Result<(), Error> {
        let store = self.store.clone();
        let mut inner = store.lock();
        let open = self.open.as_mut().ok_or(Error::NoTransaction)?;
        let key = inner.key(key);
        let before = open.writes.insert(key, value);
        if before.is_none() {
            inner.isolation.write(self.number as usize, key, true);
        }
        open.undo.push((key, before));
        open.log.push(Logged::Write(key));
        Ok(())
    }

    /// The value, and who wrote it unless the transaction itself did.
    fn read_key(
        &mut self,
        inner: &mut Inner,
        key: KeyId,
        wish: Option<Wish>,
    ) -> Result<(Option<Value>, Option<Seq>), Error> {
        let (name, random, latest) = (self.name(), self.random_of_next_read(), self.latest);
        let open = self.open.as_mut().ok_or(Error::NoTransaction)?;
        if let Some(value) = open.writes.get(&key) {
            open.log.push(Logged::ReadOwn(key));
            return Ok((value.clone(), None));
        }
        if let Some(&source) = open.memo.get(&key) {
            return Ok((inner.base.value(key, source), Some(source)));
        }
        let read = ReadName { by: name, read: open.reads };
        let statement = open.statement.clone().filter(|s| !s.is_empty());
        let source = choose(&self.store, inner, Asked { read, key, wish, latest, statement }, random);
        inner.isolation.observe(&inner.base, self.number as usize, key, source);
        open.reads += 1;
        open.log.push(Logged::Read(key, source));
        if open.statement.is_some() {
            open.memo.insert(key, source);
        }
        Ok((inner.base.value(key, source), Some(source)))
    }

    fn random_of_next_read(&self) -> fastrand::Rng {
        self.random(self.open.as_ref().map_or(0, |o| u64::from(o.reads)))
    }

    fn end(&mut self, inner: &mut Inner, outcome: Outcome) {
        let Some(open) = self.open.take() else { return };
        let (name, session) = (self.name(), self.number as usize);
        let absent = inner.uncover(session);
        let mut seq = None;
        if outcome == Outcome::Committed {
            if !open.writes.is_empty() {
                let mut writes: Vec<(KeyId, Option<Value>)> = open.writes.into_iter().collect();
                writes.sort_unstable_by_key(|w| w.0);
                seq = Some(inner.base.commit(name, writes));
            }
            inner.isolation.commit(&inner.base, session, seq);
        } else {
            inner.isolation.abort(&inner.base, session);
        }
        if self.store.options.record {
            let ops = absent.chain(open.log).collect();
            inner.record.ended.push(Ended { name, ops, outcome, seq });
        }
        inner.busy = false;
        self.store.ended.notify_one();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close(None);
        self.store.lock().isolation.close_session(self.number as usize);
    }
}

/// A read that has to be answered.
struct Asked {
    read: ReadName,
    key: KeyId,
    wish: Option<Wish>,
    latest: Latest,
    statement: Option<Arc<str>>,
}

fn choose(store: &Store, inner: &mut Inner, asked: Asked, mut random: fastrand::Rng) -> Seq {
    let options = &store.options;
    let Asked { read, key, wish, latest, statement } = asked;
    let base = &inner.base;
    let candidates = Candidates::new(&*inner.isolation, base, read.by.session as usize, key);
    let name = |s: Seq| base.writer(s);
    let otherwise = options.replay.as_ref().map(|r| r.otherwise);
    // A current read is not free to choose.
    let free = wish.is_none();
    let wish = wish.unwrap_or(match (latest, otherwise, options.stale) {
        (Latest::On | Latest::PerSession, ..) => Wish::Latest(latest),
        (_, Some(Otherwise::Newest), _) => Wish::Newest,
        (_, Some(Otherwise::Oldest), _) => Wish::Oldest,
        (.., Some(p)) => Wish::Stale(p),
        (.., None) => Wish::Uniform,
    });
    let alternatives = || match wish {
        Wish::Latest(latest) => candidates.latest(latest),
        _ if free => candidates.all(),
        _ => vec![candidates.newest()],
    };
    let names = |all: Vec<Seq>| all.into_iter().map(name).collect::<Vec<_>>();
    let source = match (&options.chooser, &options.replay) {
        (Some(chooser), _) if free => {
            let all = alternatives();
            let pick = (chooser.0)(read, &names(all.clone()));
            all[pick.min(all.len() - 1)]
        }
        (None, Some(replay)) if free => {
            let given = replay.choices.get(&read).and_then(|&source| {
                let seq = base.versions(key).writers.iter().rev().copied().find(|&w| name(w) == source);
                seq.filter(|&s| candidates.allows(s))
            });
            given.unwrap_or_else(|| candidates.choose(wish, &mut random))
        }
        _ => candidates.choose(wish, &mut random),
    };
    if options.record_choices {
        let newest = candidates.newest();
        let choice = Choice {
            read,
            key: base.name(key).clone(),
            source: name(source),
            value: base.value(key, source),
            newest: name(newest),
            newest_value: base.value(key, newest),
            alternatives: if options.record_alternatives { names(alternatives()) } else { Vec::new() },
            statement,
        };
        inner.choices.push(choice);
    }
    source
}
