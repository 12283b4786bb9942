//! The sessions that a run has opened, so that faults hit only those.

use anomalist_databases::{Cancel, Connection, Database, Error, Isolation, Product, Query, Reply, Value};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The open sessions: node and backend.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<Mutex<BTreeSet<(usize, u64)>>>);

impl Sessions {
    fn set(&self) -> MutexGuard<'_, BTreeSet<(usize, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of a node.
    pub fn of(&self, node: usize) -> Vec<u64> {
        self.set().iter().filter(|(of, _)| *of == node).map(|(_, backend)| *backend).collect()
    }
}

/// A database whose sessions are kept track of.
pub struct Tracked<D> {
    inner: D,
    node: usize,
    sessions: Sessions,
}

impl<D: Database> Tracked<D> {
    /// This database, which is the node of this number.
    pub fn new(inner: D, node: usize, sessions: &Sessions) -> Tracked<D> {
        Tracked { inner, node, sessions: sessions.clone() }
    }
}

impl<D: Database> Database for Tracked<D> {
    fn connect(&self) -> Result<Box<dyn Connection>, Error> {
        let inner = self.inner.connect()?;
        let entry = inner.backend().map(|backend| (self.node, backend));
        self.sessions.set().extend(entry);
        Ok(Box::new(Session { inner, entry, sessions: self.sessions.clone() }))
    }
}

struct Session {
    inner: Box<dyn Connection>,
    entry: Option<(usize, u64)>,
    sessions: Sessions,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            self.sessions.set().remove(entry);
        }
    }
}

impl Connection for Session {
    fn product(&self) -> &Product {
        self.inner.product()
    }

    fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
        self.inner.run(sql)
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Error> {
        self.inner.query(sql, parameters)
    }

    fn batch(&mut self, queries: &[Query<'_>]) -> Result<Vec<Reply>, Error> {
        self.inner.batch(queries)
    }

    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error> {
        self.inner.begin(isolation)
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.inner.commit()
    }

    fn rollback(&mut self) -> Result<(), Error> {
        self.inner.rollback()
    }

    fn in_transaction(&self) -> bool {
        self.inner.in_transaction()
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
