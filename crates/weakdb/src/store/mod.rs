//! The store: transactions over keys and values, in which a read returns any value that the isolation level
//! allows.
//!
//! After MonkeyDB (Biswas et al. 2021). The state is the history itself; each read is given one of the
//! committed writes of its key whose choice keeps the history within the level (`isolation.rs` says how
//! that is decided), by a seeded draw (`choice.rs`). The set that is drawn from is exact: every value that
//! the level allows, and no other.
//!
//! Sessions may live on different threads. Nothing is locked between calls (except, as asked for, by
//! [`Schedule::Serial`]), so that one thread may hold two open transactions. Writes are seen by others when
//! their transaction has committed, all at once.

mod base;
mod choice;
mod cover;
mod error;
mod isolation;
mod options;
mod record;
mod search;
mod session;
mod strong;
mod value;
mod weak;

pub use choice::{Choice, Chooser, Otherwise, Pick, ReadName, Replay, TxnName};
pub use error::{Conflict, Error};
pub use options::{Granularity, Latest, Options, Schedule};
pub use session::{Mark, Session};
pub use value::Value;

use anomalist_history::{History, TooLarge};
use anomalist_level::Family;
use base::Base;
use isolation::{Isolation, isolation};
use record::{Order, Record};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A database that shows every behaviour its isolation level allows.
///
/// ```
/// use anomalist_level::Level;
/// use anomalist_weakdb::{Options, Store};
/// let store = Store::new(Options { seed: 1, ..Options::new(Level::Causal) })?;
/// let (mut alice, mut bob) = (store.session("alice"), store.session("bob"));
/// alice.transaction(|t| t.write("x", 1))?;
/// // Alice sees her own write. Bob has heard of nothing, and may see either.
/// assert_eq!(alice.transaction(|t| t.read("x"))?, Some(1.into()));
/// let seen = bob.transaction(|t| t.read("x"))?;
/// assert!(seen.is_none() || seen == Some(1.into()));
/// # Ok::<(), anomalist_weakdb::Error>(())
/// ```
pub struct Store {
    options: Options,
    inner: Mutex<Inner>,
    /// Signalled when a transaction ends, for the serial schedule.
    ended: Condvar,
}

pub(crate) struct Inner {
    base: Base,
    isolation: Box<dyn Isolation>,
    sessions: Vec<Arc<str>>,
    /// With the serial schedule: a transaction of some session is open.
    busy: bool,
    /// Some transaction has promised to write nothing.
    promised: bool,
    record: Record,
    choices: Vec<Choice>,
    statements: Vec<(TxnName, Arc<str>)>,
    covers: Vec<cover::Cover>,
}

impl Store {
    /// An empty store. Fails if it does not know the level.
    pub fn new(options: Options) -> Result<Arc<Store>, Error> {
        Store::with_initial(options, [])
    }

    /// A store in which these keys hold these values: the initial transaction, which comes before all
    /// others and which everybody sees unless something newer.
    pub fn with_initial<'a>(
        options: Options,
        initial: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Arc<Store>, Error> {
        let isolation = isolation(options.level, options.ordered)?;
        let mut base = Base::new();
        for (key, value) in initial {
            base.set_initial(key, value);
        }
        let inner = Inner {
            base,
            isolation,
            sessions: Vec::new(),
            busy: false,
            promised: false,
            record: Record::default(),
            choices: Vec::new(),
            statements: Vec::new(),
            covers: Vec::new(),
        };
        Ok(Arc::new(Store { options, inner: Mutex::new(inner), ended: Condvar::new() }))
    }

    /// The options with which it was made.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Opens a session. Sessions are numbered in the order in which they are opened; names are for people,
    /// and to tell sessions apart in a recorded history: give each its own.
    pub fn session(self: &Arc<Store>, name: &str) -> Session {
        let mut inner = self.lock();
        inner.isolation.open_session();
        inner.sessions.push(name.into());
        Session::new(self.clone(), inner.sessions.len() as u32 - 1)
    }

    /// All keys that hold something, with the values that committed last: what a new store's initial
    /// transaction can be made of ([`Store::with_initial`]).
    pub fn snapshot(&self) -> Vec<(Arc<str>, Value)> {
        self.lock().base.newest().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// The history so far, of transactions that have ended; empty unless [`Options::record`].
    pub fn history(&self) -> Result<History, TooLarge> {
        let inner = self.lock();
        inner.record.history(&inner.base, &inner.sessions, self.options.level)
    }

    /// The choices made so far, in the order in which they were made; empty unless
    /// [`Options::record_choices`].
    pub fn choices(&self) -> Vec<Choice> {
        self.lock().choices.clone()
    }

    /// The statements that sessions have announced, in that order; empty unless [`Options::record_choices`].
    pub fn statements(&self) -> Vec<(TxnName, Arc<str>)> {
        self.lock().statements.clone()
    }

    /// The name of a session.
    pub fn session_name(&self, session: u32) -> Option<Arc<str>> {
        self.lock().sessions.get(session as usize).cloned()
    }

    /// A text that is equal for two stores of one level only if the same can happen next in both, as long
    /// as no transaction is open: transactions by session, with what they read from whom and what they
    /// wrote, and as much of the order of commits as matters to the level. Needs [`Options::record`].
    pub fn fingerprint(&self) -> String {
        let inner = self.lock();
        let order = match self.options.level.info().family {
            Some(Family::Visible(_)) if !self.options.ordered => Order::None,
            Some(Family::Serial) if !inner.promised => Order::Last,
            Some(
                Family::Serial
                | Family::Snapshot
                | Family::Prefix
                | Family::Parallel
                | Family::Updates
                | Family::Flow
                | Family::Visible(_)
                | Family::Writes
                | Family::Cut,
            )
            | None => Order::All,
        };
        inner.record.fingerprint(&inner.base, order)
    }

    /// How many transactions have committed that wrote something.
    pub fn committed_writers(&self) -> usize {
        self.lock().base.writers().count()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change to the state is complete before anything could panic while the lock is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
