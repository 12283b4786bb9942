//! SQLite, in this process. A file is the database, its locks are its isolation.
//!
//! A busy database is a [`Kind::Timeout`] after the statement's time limit; SQLITE_BUSY_SNAPSHOT, a write
//! by a transaction whose snapshot is no longer the newest, is a [`Kind::Conflict`]. Some failures (a full
//! disk, an I/O error) end the transaction, most leave it open; SQLite says which. If COMMIT meets a busy
//! database the transaction stays open and is rolled back, so it is certainly aborted.

use crate::{Cancel, Connection, Error, Family, Fate, Isolation, Kind, Product, Reply, Target, Value};
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::ffi;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::sync::Arc;

/// A connection to a file.
struct Sqlite {
    inner: rusqlite::Connection,
    product: Product,
}

pub(crate) fn open(target: &Target) -> Result<impl Connection + use<>, Error> {
    let path = target.parts.database.as_deref().unwrap_or_default();
    let inner = rusqlite::Connection::open(path).map_err(failure)?;
    inner.busy_timeout(target.statement_timeout).map_err(failure)?;
    inner.set_prepared_statement_cache_capacity(256);
    for (pragma, value) in [
        ("journal_mode", target.parameter("journal").unwrap_or("wal")),
        ("synchronous", target.parameter("synchronous").unwrap_or("normal")),
    ] {
        let kept: Value = inner
            .pragma_update_and_check(None, pragma, value, |row| row.get_ref(0).map(value_of))
            .or_else(|e| match e {
                rusqlite::Error::QueryReturnedNoRows => Ok(Value::from(value)),
                other => Err(other),
            })
            .map_err(failure)?;
        if pragma == "journal_mode" && kept.as_text().is_some_and(|k| !k.eq_ignore_ascii_case(value)) {
            return Err(Error::new(Kind::Unsupported, format!("SQLite has no {pragma} {value}")));
        }
    }
    let product = Product::new(Family::Sqlite, "SQLite", rusqlite::version());
    Ok(Sqlite { inner, product })
}

impl Sqlite {
    fn one(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, rusqlite::Error> {
        let before = self.inner.total_changes();
        let mut statement = self.inner.prepare_cached(sql)?;
        let reply = rows_of(&mut statement, parameters)?;
        drop(statement);
        Ok(Reply { affected: self.inner.total_changes() - before, ..reply })
    }

    fn failed(&self, error: rusqlite::Error) -> Error {
        failure(error).at_statement(true, self.in_transaction(), false)
    }
}

fn rows_of(statement: &mut rusqlite::Statement<'_>, parameters: &[Value]) -> rusqlite::Result<Reply> {
    let mut rows = Vec::new();
    let mut found = statement.query(rusqlite::params_from_iter(parameters))?;
    while let Some(row) = found.next()? {
        let width = row.as_ref().column_count();
        let values = (0..width).map(|at| row.get_ref(at).map(value_of));
        rows.push(values.collect::<rusqlite::Result<Vec<Value>>>()?);
    }
    drop(found);
    // Only now: a changed table shows when the statement runs.
    let columns: Arc<[String]> = statement.column_names().map(str::to_owned).collect();
    Ok(Reply { columns, rows, affected: 0 })
}

impl Connection for Sqlite {
    fn product(&self) -> &Product {
        &self.product
    }

    fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
        let mut replies = Vec::new();
        let mut batch = rusqlite::Batch::new(&self.inner, sql);
        loop {
            let before = self.inner.total_changes();
            let next = batch.next().and_then(|statement| {
                let Some(mut statement) = statement else { return Ok(None) };
                rows_of(&mut statement, &[]).map(Some)
            });
            match next.map_err(|e| self.failed(e).with_place(replies.len()))? {
                Some(reply) => {
                    replies.push(Reply { affected: self.inner.total_changes() - before, ..reply });
                }
                None => return Ok(replies),
            }
        }
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Error> {
        let done = self.one(sql, parameters);
        done.map_err(|e| self.failed(e))
    }

    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error> {
        self.one(isolation.begin(), &[]).map(drop).map_err(|e| failure(e).with_fate(Fate::Aborted))
    }

    fn commit(&mut self) -> Result<(), Error> {
        if !self.in_transaction() {
            return Err(Error::new(Kind::Other, "no transaction is open").with_fate(Fate::Aborted));
        }
        let Err(error) = self.one("COMMIT", &[]) else { return Ok(()) };
        let error = failure(error);
        // Still open: the commit did not happen and, once rolled back, never will.
        if self.in_transaction() && self.one("ROLLBACK", &[]).is_ok() {
            return Err(error.with_fate(Fate::Aborted));
        }
        Err(error.at_commit())
    }

    fn rollback(&mut self) -> Result<(), Error> {
        if !self.in_transaction() {
            return Ok(());
        }
        let done = self.one("ROLLBACK", &[]);
        done.map(drop).map_err(|e| self.failed(e))
    }

    fn in_transaction(&self) -> bool {
        !self.inner.is_autocommit()
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn backend(&self) -> Option<u64> {
        None
    }

    fn canceller(&self) -> Arc<dyn Cancel> {
        Arc::new(Interrupt(self.inner.get_interrupt_handle()))
    }
}

struct Interrupt(rusqlite::InterruptHandle);

impl Cancel for Interrupt {
    fn cancel(&self) -> Result<(), Error> {
        self.0.interrupt();
        Ok(())
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(int) => ValueRef::Integer(*int),
            Value::Float(float) => ValueRef::Real(*float),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn value_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(int) => Value::Int(int),
        ValueRef::Real(float) => Value::Float(float),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Value::from(text),
            Err(_) => Value::Bytes(text.to_vec()),
        },
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

fn failure(error: rusqlite::Error) -> Error {
    let message = error.to_string();
    let Some(&ffi::Error { code: _, extended_code }) = error.sqlite_error() else {
        return Error::new(Kind::Unsupported, message);
    };
    let kind = match (extended_code & 0xff, extended_code) {
        (_, ffi::SQLITE_BUSY_SNAPSHOT) => Kind::Conflict,
        (ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED, _) => Kind::Timeout,
        (ffi::SQLITE_CONSTRAINT, _) => Kind::Constraint,
        (ffi::SQLITE_INTERRUPT, _) => Kind::Cancelled,
        // SQL that does not compile; SQLite has no finer code.
        (ffi::SQLITE_ERROR, _) => Kind::Unsupported,
        (ffi::SQLITE_CANTOPEN | ffi::SQLITE_NOTADB, _) => Kind::Lost,
        _ => Kind::Other,
    };
    Error::new(kind, message).with_code(extended_code.to_string())
}
