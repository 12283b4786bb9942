//! Lines of the history.

use crate::transaction::{End, Transaction};
use anomalist_format::{HistoryWriter, Sink, WriteError};
use anomalist_history::{AtomKind, Builder, Clock, Interval, OpKind, Outcome, Value};
use anomalist_level::Level;
use anomalist_sqltext::Isolation;
use std::io::Write;
use std::sync::Arc;

/// Transactions that are written together.
const BATCH: usize = 512;

/// What a transaction did to a row; versions by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// `None` is the initial version.
    Read(Arc<str>, Option<i64>),
    ReadUnknown(Arc<str>),
    Write(Arc<str>, i64),
    Delete(Arc<str>, i64),
}

/// A transaction of the history.
#[derive(Debug)]
pub(crate) struct Line {
    /// The session; none for what did not come through the proxy.
    pub session: Option<u64>,
    /// The server's number, if it is known.
    pub number: Option<u64>,
    pub end: End,
    pub interval: Interval,
    pub isolation: Option<Isolation>,
    pub asked: Option<Isolation>,
    pub statements: String,
    pub ops: Vec<Op>,
}

impl Default for Line {
    /// A transaction of which nothing is known but that it committed at some time.
    fn default() -> Line {
        Line {
            session: None,
            number: None,
            end: End::Committed,
            interval: Interval { invoked: 0, completed: None },
            isolation: None,
            asked: None,
            statements: String::new(),
            ops: Vec::new(),
        }
    }
}

impl Line {
    pub fn of(transaction: &Transaction) -> Line {
        let texts: Vec<&str> = transaction.statements.iter().map(|shape| shape.text.as_str()).collect();
        let completed = (transaction.end != End::Unknown).then_some(transaction.completed);
        Line {
            session: Some(transaction.session),
            number: match transaction.own {
                crate::transaction::Own::Number(number) => Some(number),
                _ => None,
            },
            end: transaction.end,
            interval: Interval { invoked: transaction.invoked, completed },
            isolation: transaction.isolation,
            asked: transaction.asked.filter(|asked| transaction.isolation.is_some_and(|i| i != *asked)),
            statements: texts.join("; "),
            ops: Vec::new(),
        }
    }
}

/// What PostgreSQL's level is among those that are judged.
pub(crate) fn level(isolation: Isolation) -> Level {
    match isolation {
        Isolation::ReadUncommitted | Isolation::ReadCommitted => Level::ReadCommitted,
        Isolation::RepeatableRead => Level::SnapshotIsolation,
        Isolation::Serializable => Level::Serializable,
    }
}

pub(crate) struct Writer {
    out: Box<dyn HistoryWriter>,
    batch: Box<Builder>,
}

fn empty() -> Box<Builder> {
    let mut builder = Builder::new();
    builder.set_initial_default(Some(Value::NIL));
    builder.set_clock(Clock::Nanoseconds);
    Box::new(builder)
}

impl Writer {
    pub fn new(out: Box<dyn Write + Send>) -> Result<Writer, WriteError> {
        Ok(Writer { out: anomalist_format::recorder(Sink::Stream(out))?, batch: empty() })
    }

    pub fn push(&mut self, line: &Line) -> Result<(), WriteError> {
        let b = &mut self.batch;
        let session = match (line.session, line.number) {
            (Some(session), _) => b.int(i64::try_from(session).unwrap_or(i64::MAX)),
            (None, number) => b.atom(AtomKind::Text, &format!("outside {}", number.unwrap_or_default())),
        };
        let session = b.session(session);
        let draft = b.transaction(session);
        b.set_outcome(
            draft,
            match line.end {
                End::Committed => Outcome::Committed,
                End::Aborted => Outcome::Aborted,
                End::Unknown => Outcome::Indeterminate,
            },
        );
        b.set_interval(draft, line.interval);
        for (place, op) in (0..).zip(&line.ops) {
            let (kind, name, value, version) = match op {
                Op::Read(name, Some(order)) => (OpKind::Read, name, b.int(*order), Some(*order)),
                Op::Read(name, None) => (OpKind::Read, name, Value::NIL, None),
                Op::ReadUnknown(name) => (OpKind::Read, name, Value::UNKNOWN, None),
                Op::Write(name, order) => (OpKind::Write, name, b.int(*order), Some(*order)),
                Op::Delete(name, order) => {
                    let value = b.atom(AtomKind::Text, &format!("deleted {order}"));
                    (OpKind::Write, name, value, Some(*order))
                }
            };
            let key = b.atom(AtomKind::Text, name);
            let key = b.key(key);
            b.op(draft, kind, key, value);
            if let Some(version) = version {
                b.set_version(draft, place, version);
            }
        }
        if let Some(isolation) = line.isolation {
            b.set_metadata(draft, "level", level(isolation).name());
        }
        if let Some(asked) = line.asked {
            b.set_metadata(draft, "asked", level(asked).name());
        }
        if !line.statements.is_empty() {
            b.set_metadata(draft, "statements", &line.statements);
        }
        if let Some(number) = line.number {
            b.set_metadata(draft, "xid", &number.to_string());
        }
        if b.txn_count() >= BATCH { self.flush() } else { Ok(()) }
    }

    pub fn flush(&mut self) -> Result<(), WriteError> {
        let full = std::mem::replace(&mut self.batch, empty());
        // Far fewer than ids can number.
        if let Ok(history) = full.finish()
            && history.txn_count() > 0
        {
            self.out.append(&history)?;
        }
        Ok(())
    }

    /// Writes the rest, without an end.
    pub fn cut_off(mut self) -> Result<(), WriteError> {
        self.flush()
    }

    /// Writes the rest, and that it is the end.
    pub fn finish(mut self) -> Result<(), WriteError> {
        self.flush()?;
        self.out.finish()
    }
}
