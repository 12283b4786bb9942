//! A session's transactions, as the store knows them.

use crate::catalogue::{Catalogue, Table};
use crate::reads::{Operand, Parameters};
use crate::shared::{Known, Shared, lock};
use anomalist_proxy::{Rows, ServerError};
use anomalist_weakdb::{Error, Mark, Session};
use rustc_hash::FxHashSet;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A change of a row, from the log.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub version: i64,
    pub xid: String,
    /// Of the transaction that is open, or of one that has committed since.
    pub open: bool,
    rel: u32,
    key: String,
    had: bool,
    has: bool,
}

/// The rows of `written`.
pub(crate) fn changes(rows: Rows) -> Vec<Change> {
    let change = |row: Vec<Option<String>>| {
        let mut values = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || values.next().unwrap_or_default();
        Change {
            version: next().parse().unwrap_or(0),
            xid: next(),
            open: next() == "t",
            rel: next().parse().unwrap_or(0),
            key: next(),
            had: next() == "t",
            has: next() == "t",
        }
    };
    rows.into_iter().map(change).collect()
}

/// A table and the prefixes of keys that a statement reads.
pub(crate) type Reading = (Arc<Table>, Vec<String>);

/// The names of what is read.
pub(crate) fn readings(
    tables: &[(Arc<Table>, Vec<Vec<Operand>>)],
    parameters: &Parameters<'_>,
) -> Vec<Reading> {
    let named = |(table, prefixes): &(Arc<Table>, Vec<Vec<Operand>>)| {
        let name = |operands: &Vec<Operand>| {
            let mut text = table.prefix.clone();
            for (at, operand) in operands.iter().enumerate() {
                let Some(value) = operand.text(table.key[at].kind, parameters) else { return text };
                text.push_str(&value);
                text.push(if at + 1 == table.key.len() { ')' } else { ',' });
            }
            text
        };
        (table.clone(), prefixes.iter().map(name).collect())
    };
    tables.iter().map(named).collect()
}

/// A serialization failure, as the server would report it.
pub(crate) fn refusal(why: &str) -> ServerError {
    ServerError { code: "40001".into(), message: format!("could not serialize access: {why}") }
}

pub(crate) struct Work {
    session: Session,
    /// The highest version of this session that has been taken in.
    pub last: i64,
    /// What the open transaction has written: key, version (negative if the row is gone), the version of
    /// the row before it.
    written: Vec<(Arc<str>, i64, Option<i64>)>,
    own: FxHashSet<Arc<str>>,
    /// Why the open transaction cannot commit.
    doomed: Option<String>,
}

/// A savepoint.
#[derive(Clone, Copy)]
pub(crate) struct Savepoint {
    mark: Mark,
    written: usize,
}

impl Work {
    pub fn new(session: Session, last: i64) -> Work {
        Work { session, last, written: Vec::new(), own: FxHashSet::default(), doomed: None }
    }

    pub fn begin(&mut self) {
        if !self.session.in_transaction() {
            // It fails only if a transaction is open.
            let _ = self.session.begin();
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.written.clear();
        self.own.clear();
        self.doomed = None;
    }

    pub fn rollback(&mut self) {
        let _ = self.session.rollback();
        self.forget();
    }

    /// True if nothing would be left undone by committing the store alone.
    pub fn has_written(&self) -> bool {
        !self.written.is_empty()
    }

    pub fn statement(&mut self, text: &str) {
        self.session.statement(Some(text));
    }

    /// Takes in what the transaction has written, without having read the rows of `blind`. The gate is
    /// shared or closed.
    pub fn take(&mut self, catalogue: &Catalogue, changes: &[Change], blind: Option<u32>) {
        for change in changes {
            self.last = self.last.max(change.version);
            let Some(table) = catalogue.table(change.rel) else { continue };
            let key: Arc<str> = format!("{}{})", table.prefix, change.key).into();
            if change.had
                && blind != Some(change.rel)
                && !self.own.contains(&key)
                && let Err(Error::Serialization(why)) = self.session.read_newest(&key)
            {
                self.doomed.get_or_insert(why.to_string());
            }
            let version = if change.has { change.version } else { -change.version };
            let _ = self.session.write(&key, version);
            self.written.push((key.clone(), version, change.had.then_some(change.version)));
            self.own.insert(key);
        }
    }

    /// The statement has read the newest versions of these. The gate is shared or closed.
    pub fn tell(&mut self, readings: &[Reading]) {
        for prefix in readings.iter().flat_map(|(_, prefixes)| prefixes) {
            let _ = self.session.cover(prefix);
            for key in self.session.keys(prefix) {
                if let Err(Error::Serialization(why)) = self.session.read_newest(&key) {
                    self.doomed.get_or_insert(why.to_string());
                }
            }
        }
    }

    /// Chooses what a read sees; returns the setting for the views. The gate is shared.
    pub fn choose(&mut self, shared: &Shared, readings: &[Reading]) -> String {
        let mut chosen: BTreeMap<u32, (Vec<String>, Vec<i64>)> = BTreeMap::new();
        let mut seen: FxHashSet<Arc<str>> = FxHashSet::default();
        for (table, prefixes) in readings {
            for prefix in prefixes {
                let _ = self.session.cover(prefix);
                for key in self.session.keys(prefix) {
                    let Ok(value) = self.session.read(&key) else { continue };
                    if self.own.contains(&key) || !seen.insert(key.clone()) {
                        continue;
                    }
                    let Some(&Known { newest, initial }) = lock(&shared.keys).get(&key) else { continue };
                    let version = match value.and_then(|v| v.as_int()) {
                        Some(version) if version == newest => continue,
                        Some(version) => Some(version).filter(|&v| v > 0),
                        None => initial.map(|first| -first),
                    };
                    let (hide, show) = chosen.entry(table.rel).or_default();
                    // The name of the row within its table.
                    let name = key.strip_prefix(&*table.prefix).unwrap_or_default();
                    hide.push(name.strip_suffix(')').unwrap_or(name).to_owned());
                    show.extend(version);
                }
            }
        }
        if chosen.is_empty() {
            return String::new();
        }
        let mut setting = Map::new();
        for (rel, (hide, show)) in chosen {
            setting.insert(rel.to_string(), json!({"hide": hide, "show": show}));
        }
        Json::Object(setting).to_string()
    }

    pub fn mark(&self) -> Option<Savepoint> {
        let mark = self.session.mark().ok()?;
        Some(Savepoint { mark, written: self.written.len() })
    }

    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        let _ = self.session.rollback_to(savepoint.mark);
        self.written.truncate(savepoint.written);
        self.own = self.written.iter().map(|(key, ..)| key.clone()).collect();
    }

    /// Whether the store lets the transaction commit.
    pub fn may_commit(&self) -> Result<(), ServerError> {
        if let Some(why) = &self.doomed {
            return Err(refusal(why));
        }
        match self.session.may_commit() {
            Err(Error::Serialization(why)) => Err(refusal(&why.to_string())),
            _ => Ok(()),
        }
    }

    /// The server has committed.
    pub fn commit(&mut self, shared: &Shared) {
        if !self.session.in_transaction() {
            return;
        }
        if self.session.commit().is_err() && self.session.begin().is_ok() {
            // The server did what the store would have refused: nothing can be asked of its reads.
            for (key, version, _) in &self.written {
                let _ = self.session.write(key, *version);
            }
            let _ = self.session.commit();
        }
        let mut keys = lock(&shared.keys);
        for (key, version, before) in self.written.drain(..) {
            keys.entry(key).or_insert(Known { newest: version, initial: before }).newest = version;
        }
        drop(keys);
        shared.highest.fetch_max(self.last, Ordering::SeqCst);
        self.forget();
    }

    /// Transactions that committed without a decision of the store.
    pub fn adopt(&mut self, shared: &Shared, catalogue: &Catalogue, changes: &[Change]) {
        for group in changes.chunk_by(|a, b| a.xid == b.xid) {
            self.begin();
            self.take(catalogue, group, None);
            if group.iter().all(|change| !change.open) {
                self.commit(shared);
            }
        }
    }
}
