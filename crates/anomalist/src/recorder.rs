//! Records what clients saw, from as many threads as there are.
//!
//! A [`Recorder`] is shared by cloning it; a [`Session`] belongs to one client, which does one thing at a
//! time, so a transaction borrows it. Operations are kept by the transaction and handed over when it
//! ends: one lock per transaction. A transaction that is dropped without an end (its thread panicked,
//! say) counts as of unknown outcome, which is never wrong.
//!
//! The recorder also notes when a transaction began and ended: real time, which strict serializability is
//! about. Simulators give it their own clock.
//!
//! A [`Monitor`](crate::Monitor) is a recorder that also judges: what is recorded is handed on as it is
//! recorded.

use crate::error::Error;
use crate::history::History;
use crate::value::Value;
use crate::watch::{Ended, Watch};
use anomalist_history::{Builder, Draft, Interval, OpKind, Outcome, SessionId, Stamps, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Records transactions. Clones record into the same history.
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) builder: Builder,
    /// Judges what is recorded.
    pub(crate) watch: Option<Box<Watch>>,
    /// Transactions that have begun and not ended.
    open: usize,
    /// The history was taken: nothing is recorded any more.
    finished: bool,
}

impl State {
    pub(crate) fn pass_on_initial(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.set_initial(self.builder.initial());
        }
    }
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::new()
    }
}

impl Recorder {
    /// Starts a recording. Keys are absent ([`Value::Null`]) until they are written.
    pub fn new() -> Recorder {
        let start = Instant::now();
        let recorder = Recorder::with_clock(move || start.elapsed().as_nanos() as u64);
        recorder.state().builder.set_clock(anomalist_history::Clock::Nanoseconds);
        recorder
    }

    /// The same with another clock for real time: virtual time of a simulator. It must not run backwards,
    /// and two transactions are ordered by it only if the one ends *before* the other begins.
    pub fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Recorder {
        let mut state = State::default();
        state.builder.set_initial_default(Some(anomalist_history::Value::NIL));
        Recorder { inner: Arc::new(Inner { clock: Box::new(clock), state: Mutex::new(state) }) }
    }

    /// The value of every key before it is written, if not null.
    pub fn initial(&self, value: impl Into<Value>) -> &Recorder {
        let state = &mut *self.state();
        let value = value.into().interned(&mut state.builder);
        state.builder.set_initial_default(Some(value));
        state.pass_on_initial();
        self
    }

    /// The value of one key before it is written.
    pub fn initial_of(&self, key: impl Into<Value>, value: impl Into<Value>) -> &Recorder {
        let state = &mut *self.state();
        let label = key.into().interned(&mut state.builder);
        let key = state.builder.key(label);
        let value = value.into().interned(&mut state.builder);
        state.builder.set_initial(key, value);
        state.pass_on_initial();
        self
    }

    /// The session of this name: one client, one connection. Its transactions come one after another.
    pub fn session(&self, name: impl Into<Value>) -> Session {
        let state = &mut *self.state();
        let label = name.into().interned(&mut state.builder);
        Session { id: state.builder.session(label), recorder: self.clone() }
    }

    /// What was recorded. Fails while transactions are open. Nothing is recorded after that.
    pub fn finish(&self) -> Result<History, Error> {
        let mut state = self.state();
        if state.open > 0 {
            return Err(Error::Unended(state.open));
        }
        state.finished = true;
        Ok(History::from(std::mem::take(&mut state.builder).finish()?))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        (self.inner.clock)()
    }
}

/// One client.
pub struct Session {
    id: SessionId,
    recorder: Recorder,
}

impl Session {
    /// Begins a transaction: call it before the database is asked for anything.
    pub fn begin(&mut self) -> Transaction<'_> {
        let mut state = self.recorder.state();
        state.open += 1;
        drop(state);
        let began = self.recorder.now();
        Transaction {
            session: self,
            began,
            ops: Vec::new(),
            stamps: None,
            name: None,
            level: None,
            over: false,
        }
    }
}

/// A transaction in work.
#[must_use = "end it with commit, abort or unknown"]
pub struct Transaction<'s> {
    session: &'s mut Session,
    began: u64,
    ops: Vec<(OpKind, Value, Value)>,
    stamps: Option<Stamps>,
    name: Option<Value>,
    level: Option<anomalist_level::Level>,
    over: bool,
}

impl Transaction<'_> {
    /// Read a key, and got this value; a list for a key that is appended to.
    pub fn read(mut self, key: impl Into<Value>, value: impl Into<Value>) -> Self {
        self.ops.push((OpKind::Read, key.into(), value.into()));
        self
    }

    /// Wrote a key.
    pub fn write(mut self, key: impl Into<Value>, value: impl Into<Value>) -> Self {
        self.ops.push((OpKind::Write, key.into(), value.into()));
        self
    }

    /// Appended an element to the list under a key.
    pub fn append(mut self, key: impl Into<Value>, element: impl Into<Value>) -> Self {
        self.ops.push((OpKind::Append, key.into(), element.into()));
        self
    }

    /// The timestamps that the database gave it: of its snapshot, and of its commit.
    pub fn timestamps(mut self, start: i64, commit: i64) -> Self {
        let at = |physical| Timestamp { physical, logical: 0 };
        self.stamps = Some(Stamps { start: at(start), commit: at(commit) });
        self
    }

    /// Its name in explanations; without one, session and number.
    pub fn name(mut self, name: impl Into<Value>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The level that it ran at, for [`Check::declared`](crate::Check::declared).
    pub fn at(mut self, level: anomalist_level::Level) -> Self {
        self.level = Some(level);
        self
    }

    /// It took effect, as the database said.
    pub fn commit(self) {
        self.end(Outcome::Committed);
    }

    /// It took no effect, as the database said.
    pub fn abort(self) {
        self.end(Outcome::Aborted);
    }

    /// The client did not learn whether it took effect: the connection was lost, or the time was over.
    pub fn unknown(self) {
        self.end(Outcome::Indeterminate);
    }

    fn end(mut self, outcome: Outcome) {
        self.record(outcome);
    }

    fn record(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let recorder = &self.session.recorder;
        let ended = recorder.now();
        let state = &mut *recorder.state();
        state.open -= 1;
        if state.finished {
            return;
        }
        let builder = &mut state.builder;
        let draft: Draft = builder.transaction(self.session.id);
        builder.set_outcome(draft, outcome);
        let completed = (outcome != Outcome::Indeterminate).then_some(ended);
        let interval = Interval { invoked: self.began, completed };
        builder.set_interval(draft, interval);
        if let Some(stamps) = self.stamps {
            builder.set_stamps(draft, stamps);
        }
        if let Some(name) = self.name.take() {
            let label = name.interned(builder);
            builder.set_label(draft, label);
        }
        if let Some(level) = self.level {
            builder.set_metadata(draft, "level", level.name());
        }
        let mut ops = Vec::with_capacity(self.ops.len());
        for (kind, key, value) in self.ops.drain(..) {
            let label = key.interned(builder);
            let key = builder.key(label);
            let value = value.interned(builder);
            builder.op(draft, kind, key, value);
            ops.push((kind, key, value));
        }
        if let Some(watch) = &mut state.watch {
            let (session, stamps) = (self.session.id, self.stamps);
            watch.accept(builder, &Ended { session, outcome, interval, stamps, ops: &ops });
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.record(Outcome::Indeterminate);
    }
}
