//! What every database offers: sessions that run statements in transactions.

use crate::{Error, Isolation, Product, Value};
use std::sync::Arc;

/// What a statement answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The names of the columns; empty if the statement returns no rows.
    pub columns: Arc<[String]>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
    /// How many rows the statement inserted, changed or deleted; 0 for one that returns rows, unless it
    /// changes some too.
    pub affected: u64,
}

impl Reply {
    /// The first column of the first row.
    pub fn value(&self) -> Option<&Value> {
        self.rows.first()?.first()
    }

    /// The first column of the first row, as an integer.
    pub fn int(&self) -> Option<i64> {
        self.value()?.as_int()
    }
}

/// A statement with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The text, with placeholders as [`Product::placeholder`] has them.
    pub sql: &'a str,
    /// The parameters, in order.
    pub parameters: &'a [Value],
}

/// A session of a database. Blocking: a session is a thread's affair.
///
/// A connection that lost its server stays lost; open another one, and go on under another name if you
/// record a history. Dropping a connection rolls back what is open.
pub trait Connection: Send {
    /// What is at the other end.
    fn product(&self) -> &Product;

    /// Runs SQL text as it is, several statements with semicolons between them if you like, in one round
    /// trip. Placeholders have no meaning.
    ///
    /// The statements are not looked at: a BEGIN or COMMIT among them is the caller's responsibility, and
    /// so is the fate of a transaction committed this way. Use [`Connection::begin`] and
    /// [`Connection::commit`].
    fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error>;

    /// Runs one statement with parameters. It is prepared the first time and remembered.
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Error>;

    /// Runs statements one after the other, in one round trip if the protocol can (PostgreSQL's). Stops at
    /// the first failure; [`Error::place`] says which it was.
    fn batch(&mut self, queries: &[Query<'_>]) -> Result<Vec<Reply>, Error> {
        let mut replies = Vec::with_capacity(queries.len());
        for (at, query) in queries.iter().enumerate() {
            replies.push(self.query(query.sql, query.parameters).map_err(|e| e.with_place(at))?);
        }
        Ok(replies)
    }

    /// Begins a transaction at this level. If that fails, nothing has been done: the fate is
    /// [`crate::Fate::Aborted`].
    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error>;

    /// Commits. An error's fate is never [`crate::Fate::Open`]: if the database left the transaction open,
    /// it was rolled back.
    fn commit(&mut self) -> Result<(), Error>;

    /// Rolls back; to be called after every failed statement. Without an open transaction: nothing. A
    /// failure to roll back before COMMIT was sent leaves the transaction aborted all the same, and the
    /// connection lost.
    fn rollback(&mut self) -> Result<(), Error>;

    /// Whether a transaction is open, if only to be rolled back.
    fn in_transaction(&self) -> bool;

    /// Whether the connection is lost.
    fn is_lost(&self) -> bool;

    /// The server's number for this session: the process of PostgreSQL, the thread of MySQL.
    fn backend(&self) -> Option<u64>;

    /// Something that cancels the running statement from another thread.
    fn canceller(&self) -> Arc<dyn Cancel>;
}

/// Cancels what a connection is running.
pub trait Cancel: Send + Sync {
    /// Cancels the running statement, if there is one; it then fails with [`crate::Kind::Cancelled`].
    fn cancel(&self) -> Result<(), Error>;
}

/// Something to connect to.
pub trait Database: Send + Sync {
    /// Opens a session.
    fn connect(&self) -> Result<Box<dyn Connection>, Error>;

    /// What it is. Asks the server the first time.
    fn product(&self) -> Result<Product, Error> {
        Ok(self.connect()?.product().clone())
    }

    /// Its isolation levels, by its own names, weakest first.
    fn isolations(&self) -> Result<Vec<Isolation>, Error> {
        Ok(self.product()?.isolations())
    }
}
