//! Workloads on a database that speaks SQL.
//!
//! Registers, accounts, counters and lists are rows of one table, found by its primary key or by another
//! column; sets are rows of a second one. How lists are kept is a choice ([`ListEncoding`]), because
//! databases differ in what they lock and what they read again: an append inside the statement reads the
//! newest row, one that was read before and written back does not. The statements are in `statements.rs`,
//! one per operation; a transaction is BEGIN, its statements one by one, COMMIT.

mod statements;

use crate::{Connection, Database, Error, Family, Fate, Isolation, Kind, Reply, Value, collect};
use anomalist_client::collect::Stamp;
use anomalist_client::{Answer, Ended, Engine, EngineError, Key, Op, Session};
use anomalist_workload::client::{ClientSpec, Workload};
use statements::Statements;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How a list is kept in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListEncoding {
    /// As text, appended to by the statement.
    #[default]
    Text,
    /// As the database's own: an array in PostgreSQL, JSON elsewhere; appended to by the statement.
    Native,
    /// As text that is read, and then written back longer. Counters likewise.
    ReadWrite,
}

/// How a row is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// By its primary key.
    #[default]
    Primary,
    /// By another column that has an index.
    Indexed,
    /// By another column that has none: every statement reads the whole table.
    Scan,
}

/// How the workload is laid out in tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Encoding {
    /// How lists are kept.
    pub list: ListEncoding,
    /// How rows are found.
    pub access: Access,
}

macro_rules! by_name {
    ($type:ident, $($name:literal => $value:ident),*) => {
        impl $type {
            /// All, with their names on the command line.
            pub const ALL: &'static [(&'static str, $type)] = &[$(($name, $type::$value)),*];

            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self { $($type::$value => $name),* }
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<$type, String> {
                let found = $type::ALL.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
                let names = || $type::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                found.ok_or_else(|| format!("there is no {text:?}; there are {}", names()))
            }
        }
    };
}

by_name!(ListEncoding, "text" => Text, "native" => Native, "read-write" => ReadWrite);
by_name!(Access, "primary" => Primary, "index" => Indexed, "scan" => Scan);

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lists by {} key", self.list.name(), self.access.name())
    }
}

impl From<Error> for EngineError {
    fn from(error: Error) -> EngineError {
        let passing = !matches!(error.kind(), Kind::Unsupported | Kind::Constraint);
        EngineError { message: error.to_string(), passing }
    }
}

/// A database that speaks SQL, at one isolation level, with one workload.
pub struct SqlEngine {
    /// One is enough; with more, sessions are spread over them.
    databases: Vec<Box<dyn Database>>,
    isolation: Isolation,
    product: String,
    statements: Arc<Statements>,
    stamped: bool,
}

impl SqlEngine {
    /// The same, with sessions that ask the server what each transaction saw. The level must be one of
    /// [`collect::suits`].
    #[must_use]
    pub fn with_stamps(self) -> SqlEngine {
        SqlEngine { stamped: true, ..self }
    }

    /// A workload on these databases (one, or the nodes of a cluster) at an isolation level.
    pub fn new(
        databases: Vec<Box<dyn Database>>,
        isolation: Isolation,
        spec: &ClientSpec,
        encoding: Encoding,
    ) -> Result<SqlEngine, EngineError> {
        let first = databases.first().ok_or_else(|| EngineError::new("no database"))?;
        let product = first.product()?;
        let statements = Arc::new(Statements::new(&product, spec, encoding));
        Ok(SqlEngine { databases, isolation, product: product.to_string(), statements, stamped: false })
    }
}

impl Engine for SqlEngine {
    fn describe(&self) -> String {
        format!("{}, {}", self.product, self.isolation)
    }

    fn prepare(&self) -> Result<(), EngineError> {
        let Some(database) = self.databases.first() else { return Ok(()) };
        let mut connection = database.connect()?;
        for statement in &self.statements.prepare {
            connection.run(statement).map_err(|error| {
                let error = EngineError::from(error);
                EngineError { message: format!("cannot make its tables: {}", error.message), ..error }
            })?;
        }
        Ok(())
    }

    fn open(&self, session: u32) -> Result<Box<dyn Session>, EngineError> {
        let database = &self.databases[session as usize % self.databases.len()];
        let mut connection = database.connect()?;
        if connection.product().family == Family::Postgres {
            // Hot keys in any order deadlock often, and PostgreSQL looks for that only after a second of
            // waiting. Only administrators may change it; others have slower runs.
            _ = connection.run("SET deadlock_timeout = '10ms'");
        }
        Ok(Box::new(SqlSession {
            connection,
            isolation: self.isolation.clone(),
            statements: Arc::clone(&self.statements),
            stamped: self.stamped,
            stamp: None,
        }))
    }
}

struct SqlSession {
    connection: Box<dyn Connection>,
    isolation: Isolation,
    statements: Arc<Statements>,
    stamped: bool,
    stamp: Option<Stamp>,
}

/// Why a transaction has to be rolled back.
enum Stop {
    Failed(Error),
    /// The account has too little.
    Poor,
    /// An answer that is not what the statement asked for.
    Odd(String),
    Unsupported(Op),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

fn odd(what: impl fmt::Debug) -> Stop {
    Stop::Odd(format!("unexpected answer {what:?}"))
}

fn int(value: &Value) -> Result<i64, Stop> {
    match value {
        Value::Int(int) => Ok(*int),
        Value::Text(text) => text.trim().parse().map_err(|_| odd(text)),
        other => Err(odd(other)),
    }
}

/// `1,2`, `{1,2}` or `[1, 2]`.
fn list(value: Option<&Value>) -> Result<Vec<i64>, Stop> {
    let text = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Text(text)) => text.as_str(),
        // A list of one number, in a database that takes the text for one.
        Some(Value::Int(int)) => return Ok(vec![*int]),
        Some(Value::Bytes(bytes)) => std::str::from_utf8(bytes).map_err(|_| odd(bytes))?,
        Some(other) => return Err(odd(other)),
    };
    let inner = text.trim().trim_start_matches(['{', '[']).trim_end_matches(['}', ']']);
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    inner.split(',').map(|element| element.trim().parse().map_err(|_| odd(text))).collect()
}

fn rows(reply: &Reply) -> Result<Vec<(Key, i64)>, Stop> {
    let pair = |row: &Vec<Value>| match row.as_slice() {
        [key, value] => Ok((int(key)? as Key, int(value)?)),
        other => Err(odd(other)),
    };
    reply.rows.iter().map(pair).collect()
}

fn key(key: Key) -> Value {
    Value::Int(key as i64)
}

impl SqlSession {
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Stop> {
        Ok(self.connection.query(sql, parameters)?)
    }

    /// Writes a row that may not be there yet.
    fn put(&mut self, k: Key, value: Value) -> Result<Answer, Stop> {
        let statements = Arc::clone(&self.statements);
        if let Some(update) = &statements.update_only
            && self.query(update, &[value.clone(), key(k)])?.affected > 0
        {
            return Ok(Answer::Done);
        }
        self.query(&statements.upsert, &[key(k), key(k), value])?;
        Ok(Answer::Done)
    }

    fn append(&mut self, k: Key, element: i64) -> Result<Answer, Stop> {
        let statements = Arc::clone(&self.statements);
        if statements.encoding.list == ListEncoding::ReadWrite {
            let reply = self.query(&statements.read, &[key(k)])?;
            let before = list(reply.value())?;
            let mut text = String::new();
            for earlier in before {
                text.push_str(&earlier.to_string());
                text.push(',');
            }
            text.push_str(&element.to_string());
            return self.put(k, Value::Text(text));
        }
        let element = statements.element(element);
        if let Some(append) = &statements.append_only
            && self.query(append, &[element.clone(), key(k)])?.affected > 0
        {
            return Ok(Answer::Done);
        }
        let mut parameters = vec![key(k), key(k), element.clone()];
        if statements.append_twice {
            parameters.push(element);
        }
        self.query(&statements.append, &parameters)?;
        Ok(Answer::Done)
    }

    fn balance(&mut self, account: Key) -> Result<i64, Stop> {
        let statements = Arc::clone(&self.statements);
        let reply = self.query(&statements.read, &[key(account)])?;
        reply.value().map_or_else(|| Err(odd("no such account")), int)
    }

    fn perform(&mut self, op: Op) -> Result<Answer, Stop> {
        let statements = Arc::clone(&self.statements);
        let s = &*statements;
        Ok(match op {
            Op::Read(k) | Op::ReadRow(k) => {
                let reply = self.query(&s.read, &[key(k)])?;
                Answer::Value(match reply.value() {
                    None | Some(Value::Null) => None,
                    Some(value) => Some(int(value)?),
                })
            }
            Op::Write(k, value) => self.put(k, Value::Int(value))?,
            Op::ReadList(k) => {
                let reply = self.query(&s.read, &[key(k)])?;
                Answer::List(list(reply.value())?)
            }
            Op::Append(k, element) => self.append(k, element)?,
            Op::ReadSet(k) => {
                let reply = self.query(&s.read_set, &[key(k)])?;
                let element = |row: &Vec<Value>| row.first().map_or_else(|| Err(odd(row)), int);
                Answer::List(reply.rows.iter().map(element).collect::<Result<_, _>>()?)
            }
            Op::Add(k, element) => {
                self.query(&s.add, &[key(k), Value::Int(element)])?;
                Answer::Done
            }
            Op::ReadCounter => Answer::Value(Some(self.balance(0)?)),
            Op::Increment(by) if s.encoding.list == ListEncoding::ReadWrite => {
                let now = self.balance(0)?;
                self.put(0, Value::Int(now + by))?
            }
            Op::Increment(by) => {
                self.query(&s.increment, &[Value::Int(by), key(0)])?;
                Answer::Done
            }
            Op::ReadBalances => Answer::Rows(rows(&self.query(&s.read_all, &[])?)?),
            Op::Transfer { from, to, amount } => {
                let (paying, paid) = (self.balance(from)?, self.balance(to)?);
                if paying < amount {
                    return Err(Stop::Poor);
                }
                self.put(from, Value::Int(paying - amount))?;
                self.put(to, Value::Int(paid + amount))?
            }
            Op::Insert(k, value) => {
                self.query(&s.insert, &[key(k), key(k), Value::Int(value)])?;
                Answer::Done
            }
            Op::Update(k, value) => match self.query(&s.update, &[Value::Int(value), key(k)])?.affected {
                0 => Answer::Missed,
                _ => Answer::Done,
            },
            Op::Delete(k) => match self.query(&s.delete, &[key(k)])?.affected {
                0 => Answer::Missed,
                _ => Answer::Done,
            },
            Op::ReadWhere { modulus, rest } if s.workload == Workload::Predicate => {
                Answer::Rows(rows(&self.query(&s.read_where, &[Value::Int(modulus), Value::Int(rest)])?)?)
            }
            other => return Err(Stop::Unsupported(other)),
        })
    }

    /// Rolls back and says why.
    fn stop(&mut self, stop: Stop) -> Ended {
        // A failure to roll back loses the connection, and with it the transaction: COMMIT was never sent.
        _ = self.connection.rollback();
        match stop {
            Stop::Failed(error) if error.fate() == Fate::Unknown => {
                Ended::indeterminate(error.kind().name(), error)
            }
            Stop::Failed(error) => Ended::aborted(error.kind().name(), error),
            Stop::Poor => Ended::aborted("constraint", "the account has too little"),
            Stop::Odd(what) => Ended::aborted("odd", what),
            Stop::Unsupported(op) => Ended::unsupported(op),
        }
    }
}

impl Session for SqlSession {
    fn transact(&mut self, ops: &[Op], answers: &mut Vec<Answer>) -> Ended {
        self.stamp = None;
        let begun = if self.stamped {
            collect::begin(&mut *self.connection, &self.isolation)
                .map(|seen| self.stamp = Some(Stamp { seen, number: None }))
        } else {
            self.connection.begin(&self.isolation)
        };
        if let Err(error) = begun {
            // Nothing was asked yet, so nothing can have happened.
            return self.stop(Stop::Failed(error.with_fate(Fate::Aborted)));
        }
        for &op in ops {
            match self.perform(op) {
                Ok(answer) => answers.push(answer),
                Err(stop) => return self.stop(stop),
            }
        }
        let result = if self.stamped {
            let collect::Ended { number, result } = collect::commit(&mut *self.connection);
            if let Some(stamp) = &mut self.stamp {
                stamp.number = number;
            }
            result
        } else {
            self.connection.commit()
        };
        match result {
            Ok(()) => Ended::Committed,
            Err(error) if error.fate() == Fate::Aborted => Ended::aborted(error.kind().name(), error),
            Err(error) => Ended::indeterminate(error.kind().name(), error),
        }
    }

    fn stamp(&mut self) -> Option<Stamp> {
        self.stamp.take()
    }

    fn is_usable(&self) -> bool {
        !self.connection.is_lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_in_every_notation() {
        for text in ["1,22,3", "{1,22,3}", "[1, 22, 3]"] {
            assert_eq!(list(Some(&Value::from(text))).ok(), Some(vec![1, 22, 3]), "{text}");
        }
        assert_eq!(list(Some(&Value::from("[]"))).ok(), Some(vec![]));
        assert_eq!(list(None).ok(), Some(vec![]));
        assert!(list(Some(&Value::from("1,,2"))).is_err());
        assert_eq!("scan".parse(), Ok(Access::Scan));
        assert!("by-name".parse::<ListEncoding>().unwrap_err().contains("read-write"));
    }
}
