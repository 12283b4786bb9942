//! Databases with a known bug: a real one behind a wrapper that does what its bug says. A checker that
//! calls one of them clean is wrong.
//!
//! | bug | what the wrapper does | what a checker finds |
//! |---|---|---|
//! | dirty-read | writes take effect at once; one commit in eight fails and undoes nothing | G1a, G1b |
//! | lost-update | a transaction begins at its first write: earlier reads are unprotected | G-single |
//! | non-atomic-commit | each write is committed by itself | fractured reads |
//! | stale-failover | a copy follows some commits behind, and takes over once | committed writes vanish |
//! | lost-commit-is-abort | the client reports commits of unknown outcome as aborted | G1a, under faults |

use crate::{Cancel, Connection, Database, Error, Fate, Isolation, Kind, Product, Reply, Value};
use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A known bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Writes are visible before they are committed, and after they were refused.
    DirtyRead,
    /// What a transaction read before its first write may have changed when it writes.
    LostUpdate,
    /// A commit is several.
    NonAtomicCommit,
    /// After a failover, the last commits are missing.
    StaleFailover,
    /// The client takes a lost answer to COMMIT for a refusal.
    LostCommitIsAbort,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 5] =
        [Bug::DirtyRead, Bug::LostUpdate, Bug::NonAtomicCommit, Bug::StaleFailover, Bug::LostCommitIsAbort];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Bug::DirtyRead => "dirty-read",
            Bug::LostUpdate => "lost-update",
            Bug::NonAtomicCommit => "non-atomic-commit",
            Bug::StaleFailover => "stale-failover",
            Bug::LostCommitIsAbort => "lost-commit-is-abort",
        }
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(name: &str) -> Result<Bug, String> {
        let names = || Bug::ALL.map(Bug::name).join(", ");
        let found = Bug::ALL.into_iter().find(|bug| bug.name() == name);
        found.ok_or_else(|| format!("no bug {name:?}; there are {}", names()))
    }
}

/// One commit in so many is refused, by a database with dirty reads.
const REFUSED: u64 = 8;

/// A database with a bug.
pub struct Broken<D> {
    inner: D,
    bug: Bug,
    shared: Arc<Shared>,
    /// The copy that takes over.
    copy: Option<D>,
}

#[derive(Default)]
struct Shared {
    commits: AtomicU64,
    copying: Mutex<Copying>,
}

/// The copy that follows, and what it has not done yet.
#[derive(Default)]
struct Copying {
    session: Option<Box<dyn Connection>>,
    behind: VecDeque<Vec<(String, Vec<Value>)>>,
    commits: u64,
    /// How many commits the copy stays behind, and after how many it takes over.
    lag: usize,
    takes_over: u64,
    over: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Database> Broken<D> {
    /// This database with this bug. [`Bug::StaleFailover`] needs [`Broken::with_failover`].
    pub fn new(inner: D, bug: Bug) -> Broken<D> {
        Broken { inner, bug, shared: Arc::default(), copy: None }
    }

    /// Two databases that begin alike. The second follows, `lag` commits behind, and takes over for good
    /// after `commits` commits; what it had not done by then is lost, though it was acknowledged.
    /// Statements outside transactions go to both.
    pub fn with_failover(primary: D, copy: D, lag: usize, commits: u64) -> Result<Broken<D>, Error> {
        let session = Some(copy.connect()?);
        let copying = Copying { session, lag, takes_over: commits, ..Copying::default() };
        let shared = Shared { copying: Mutex::new(copying), ..Shared::default() };
        Ok(Broken { inner: primary, bug: Bug::StaleFailover, shared: Arc::new(shared), copy: Some(copy) })
    }
}

impl<D: Database> Database for Broken<D> {
    fn connect(&self) -> Result<Box<dyn Connection>, Error> {
        let copy = self.copy.as_ref().map(Database::connect).transpose()?;
        Ok(Box::new(Session {
            inner: self.inner.connect()?,
            bug: self.bug,
            shared: Arc::clone(&self.shared),
            copy,
            isolation: None,
            begun: false,
            written: Vec::new(),
        }))
    }
}

struct Session {
    inner: Box<dyn Connection>,
    bug: Bug,
    shared: Arc<Shared>,
    copy: Option<Box<dyn Connection>>,
    /// The level of the transaction that the client believes to be open.
    isolation: Option<Isolation>,
    /// Whether one is open in the database, too.
    begun: bool,
    /// The writes of the open transaction, for the copy.
    written: Vec<(String, Vec<Value>)>,
}

fn writes(sql: &str) -> bool {
    let word = sql.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    !matches!(word.as_str(), "SELECT" | "SHOW" | "WITH" | "VALUES")
}

impl Session {
    /// Goes over to the copy, between transactions, once it is in charge.
    fn fail_over(&mut self) {
        if self.isolation.is_none()
            && locked(&self.shared.copying).over
            && let Some(copy) = self.copy.take()
        {
            self.inner = copy;
        }
    }

    /// What comes before a statement.
    fn before(&mut self, sql: &str) -> Result<(), Error> {
        self.fail_over();
        if self.bug == Bug::LostUpdate
            && !self.begun
            && writes(sql)
            && let Some(isolation) = &self.isolation
        {
            self.inner.begin(isolation)?;
            self.begun = true;
        }
        Ok(())
    }

    /// What comes after a statement that worked.
    fn after(&mut self, sql: &str, parameters: &[Value]) -> Result<(), Error> {
        if !writes(sql) {
            return Ok(());
        }
        match (self.bug, &self.isolation) {
            (Bug::NonAtomicCommit, Some(isolation)) => {
                self.inner.commit()?;
                self.inner.begin(isolation)
            }
            (Bug::StaleFailover, Some(_)) => {
                self.written.push((sql.to_owned(), parameters.to_vec()));
                Ok(())
            }
            (Bug::StaleFailover, None) if self.copy.is_some() => {
                let mut copying = locked(&self.shared.copying);
                copying.session.as_mut().map_or(Ok(()), |copy| copy.query(sql, parameters).map(drop))
            }
            _ => Ok(()),
        }
    }

    /// Commits here, and lets the copy follow as far as it does.
    fn commit_and_copy(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        // One commit at a time, so that the copy follows in the order of commits.
        let mut copying = locked(&shared.copying);
        if copying.over && self.copy.is_some() {
            // Begun before the failover: the old primary does not answer any more.
            self.inner.rollback()?;
            let message = "the primary is gone; the transaction was rolled back";
            return Err(Error::new(Kind::Conflict, message).with_fate(Fate::Aborted));
        }
        self.inner.commit()?;
        if self.copy.is_none() {
            return Ok(());
        }
        copying.commits += 1;
        let written = std::mem::take(&mut self.written);
        if !written.is_empty() {
            copying.behind.push_back(written);
        }
        if copying.commits >= copying.takes_over {
            copying.over = true;
            copying.session = None;
            return Ok(());
        }
        while copying.behind.len() > copying.lag {
            let Copying { session, behind, .. } = &mut *copying;
            let (Some(session), Some(statements)) = (session, behind.pop_front()) else { break };
            for (sql, parameters) in statements {
                session.query(&sql, &parameters)?;
            }
        }
        Ok(())
    }
}

impl Connection for Session {
    fn product(&self) -> &Product {
        self.inner.product()
    }

    fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
        self.before(sql)?;
        let replies = self.inner.run(sql)?;
        if self.bug == Bug::StaleFailover && self.isolation.is_none() && self.copy.is_some() {
            if let Some(copy) = locked(&self.shared.copying).session.as_mut() {
                copy.run(sql)?;
            }
        } else {
            self.after(sql, &[])?;
        }
        Ok(replies)
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Error> {
        self.before(sql)?;
        let reply = self.inner.query(sql, parameters)?;
        self.after(sql, parameters)?;
        Ok(reply)
    }

    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error> {
        self.fail_over();
        self.written.clear();
        self.begun = !matches!(self.bug, Bug::DirtyRead | Bug::LostUpdate);
        if self.begun {
            self.inner.begin(isolation)?;
        }
        self.isolation = Some(isolation.clone());
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let open = self.isolation.take().is_some();
        if !open {
            return Err(Error::new(Kind::Other, "no transaction is open").with_fate(Fate::Aborted));
        }
        let number = self.shared.commits.fetch_add(1, Ordering::Relaxed) + 1;
        match self.bug {
            Bug::DirtyRead if self.inner.is_lost() => {
                Err(Error::new(Kind::Lost, "the connection was lost before").with_fate(Fate::Unknown))
            }
            Bug::DirtyRead if number.is_multiple_of(REFUSED) => {
                let message = "could not serialize access, or so it says";
                Err(Error::new(Kind::Conflict, message).with_fate(Fate::Aborted))
            }
            Bug::DirtyRead => Ok(()),
            Bug::LostUpdate if !self.begun => Ok(()),
            Bug::StaleFailover => self.commit_and_copy(),
            Bug::LostCommitIsAbort => self.inner.commit().map_err(|e| e.with_fate(Fate::Aborted)),
            Bug::LostUpdate | Bug::NonAtomicCommit => self.inner.commit(),
        }
    }

    fn rollback(&mut self) -> Result<(), Error> {
        self.isolation = None;
        self.inner.rollback()
    }

    fn in_transaction(&self) -> bool {
        self.isolation.is_some() && !self.inner.is_lost()
    }

    fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    fn backend(&self) -> Option<u64> {
        self.inner.backend()
    }

    fn canceller(&self) -> Arc<dyn Cancel> {
        self.inner.canceller()
    }
}
