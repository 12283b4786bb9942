//! Every primary key that was ever written to a table.
//!
//! Keys are only ever added. That a key is here means that some transaction may have inserted it; a scan
//! asks the store about each.

use crate::types::plain;
use anomalist_weakdb::Value;
use rustc_hash::FxHashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// Key values as one text that differs from the texts of all other key values.
#[must_use]
pub fn encode(values: &[Value]) -> String {
    let mut text = String::new();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            text.push('/');
        }
        match value {
            Value::Text(t) => t.chars().for_each(|c| match c {
                '/' => text.push_str("%2F"),
                '%' => text.push_str("%25"),
                c => text.push(c),
            }),
            Value::Bytes(bytes) => bytes.iter().for_each(|b| text.push_str(&format!("{b:02x}"))),
            other => text.push_str(&plain(other)),
        }
    }
    text
}

/// The primary keys of a table, numbered from 1 in the order in which they became known.
#[derive(Debug, Default)]
pub struct Keys(RwLock<KeyLog>);

#[derive(Debug, Default)]
struct KeyLog {
    rows: Vec<(Arc<str>, Arc<[Value]>)>,
    numbers: FxHashMap<Arc<str>, i64>,
}

impl Keys {
    fn read(&self) -> RwLockReadGuard<'_, KeyLog> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a key, which is new if it was not known.
    pub fn intern(&self, values: &[Value]) -> (i64, Arc<str>) {
        let text = encode(values);
        if let Some((key, number)) = self.read().numbers.get_key_value(text.as_str()) {
            return (*number, key.clone());
        }
        let mut log = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let key: Arc<str> = text.into();
        if let Some(&number) = log.numbers.get(&key) {
            return (number, key);
        }
        log.rows.push((key.clone(), values.into()));
        let number = log.rows.len() as i64;
        log.numbers.insert(key.clone(), number);
        (number, key)
    }

    /// A key that no row has, for a row of a table without primary key.
    pub fn fresh(&self) -> (i64, Arc<str>) {
        let mut log = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let number = log.rows.len() as i64 + 1;
        let key: Arc<str> = number.to_string().into();
        log.rows.push((key.clone(), [Value::Int(number)].into()));
        log.numbers.insert(key.clone(), number);
        (number, key)
    }

    /// The number of a key that is known.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<i64> {
        self.read().numbers.get(key).copied()
    }

    /// The key with this number.
    #[must_use]
    pub fn key(&self, number: i64) -> Option<(Arc<str>, Arc<[Value]>)> {
        usize::try_from(number - 1).ok().and_then(|at| self.read().rows.get(at).cloned())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().rows.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those that became known after the first `from`.
    #[must_use]
    pub fn since(&self, from: usize) -> Vec<Arc<[Value]>> {
        self.read().rows.get(from..).unwrap_or_default().iter().map(|(_, values)| values.clone()).collect()
    }

    /// The same keys, to which others can be added.
    pub(super) fn copy(&self) -> Self {
        let log = self.read();
        Self(RwLock::new(KeyLog { rows: log.rows.clone(), numbers: log.numbers.clone() }))
    }
}
