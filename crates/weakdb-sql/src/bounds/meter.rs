//! Bytes that are kept for clients, counted where they are kept and forgotten with them.

use crate::error::{Code, SqlError};
use anomalist_weakdb::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much is kept, of one session or of all.
#[derive(Debug)]
pub(crate) struct Meter {
    used: AtomicUsize,
    limit: usize,
    /// What this is a part of.
    whole: Option<Arc<Meter>>,
}

/// A limit would be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// That of the session.
    Session(usize),
    /// That of all sessions.
    All(usize),
}

impl From<Exceeded> for SqlError {
    fn from(exceeded: Exceeded) -> SqlError {
        match exceeded {
            Exceeded::Session(most) => {
                let text = format!("this session would keep more than {most} bytes");
                SqlError::new(Code::TooMuch, text)
            }
            Exceeded::All(most) => {
                let text = format!("out of memory: all sessions would keep more than {most} bytes");
                SqlError::new(Code::OutOfMemory, text)
            }
        }
    }
}

impl Meter {
    /// Of all sessions.
    pub(crate) fn of_all(limit: usize) -> Arc<Meter> {
        Arc::new(Meter { used: AtomicUsize::new(0), limit, whole: None })
    }

    /// Of one of them.
    pub(crate) fn of_session(limit: usize, whole: &Arc<Meter>) -> Arc<Meter> {
        Arc::new(Meter { used: AtomicUsize::new(0), limit, whole: Some(whole.clone()) })
    }

    fn add(&self, bytes: usize) -> Result<(), Exceeded> {
        if let Some(whole) = &self.whole {
            whole.add(bytes)?;
        }
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.limit {
            return Ok(());
        }
        self.remove(bytes);
        Err(if self.whole.is_some() { Exceeded::Session(self.limit) } else { Exceeded::All(self.limit) })
    }

    fn remove(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.remove(bytes);
        }
    }

    /// How much is kept.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    meter: Arc<Meter>,
    bytes: usize,
    rows: usize,
}

impl Charge {
    /// Nothing yet.
    pub(crate) fn new(meter: &Arc<Meter>) -> Charge {
        Charge { meter: meter.clone(), bytes: 0, rows: 0 }
    }

    /// So much more.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.meter.add(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Nothing again.
    pub(crate) fn clear(&mut self) {
        self.meter.remove(std::mem::take(&mut self.bytes));
        self.rows = 0;
    }

    /// One more row, within the limits of a result.
    pub(crate) fn add_row(&mut self, row: &[Value], limits: &super::Limits) -> Result<(), SqlError> {
        self.rows += 1;
        let bytes = size(row);
        if self.rows > limits.rows {
            let text = format!("the statement finds more than {} rows", limits.rows);
            return Err(SqlError::new(Code::TooMuch, text));
        }
        if self.bytes.saturating_add(bytes) > limits.result {
            let text = format!("the statement finds more than {} bytes", limits.result);
            return Err(SqlError::new(Code::TooMuch, text));
        }
        Ok(self.add(bytes)?)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The memory of a row.
fn size(row: &[Value]) -> usize {
    let inside = |value: &Value| match value {
        Value::Text(text) => text.len() + 16,
        Value::Bytes(bytes) => bytes.len() + 16,
        Value::List(values) => size(values),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Real(_) => 0,
    };
    size_of::<Vec<Value>>() + size_of_val(row) + row.iter().map(inside).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_forgotten() {
        let all = Meter::of_all(100);
        let (one, two) = (Meter::of_session(80, &all), Meter::of_session(80, &all));
        let mut first = Charge::new(&one);
        assert_eq!(first.add(81), Err(Exceeded::Session(80)));
        assert_eq!((one.used(), all.used()), (0, 0), "what was refused is not kept");
        first.add(70).unwrap();
        let mut second = Charge::new(&two);
        assert_eq!(second.add(40), Err(Exceeded::All(100)));
        drop(first);
        second.add(40).unwrap();
        assert_eq!((one.used(), two.used(), all.used()), (0, 40, 40));
    }
}
