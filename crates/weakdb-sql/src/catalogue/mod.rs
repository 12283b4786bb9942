//! All definitions: tables, indexes, sequences, views.
//!
//! Definitions take effect at once and for all sessions; they are not part of any transaction. Rows are part
//! of transactions: the store is asked, by name, whether a row exists and what its cells hold.

mod keys;
mod table;

pub use keys::{Keys, encode};
pub use table::{Action, Check, Column, Foreign, Table, Unique, column_name};

use crate::engine::ROWS;
use crate::error::{Code, SqlError};
use crate::types::Type;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// All definitions.
#[derive(Debug, Default)]
pub struct Catalogue {
    inner: RwLock<Definitions>,
    version: AtomicU64,
}

#[derive(Debug, Default, Clone)]
struct Definitions {
    tables: BTreeMap<String, Arc<Table>>,
    indexes: BTreeMap<String, Index>,
    sequences: BTreeMap<String, Sequence>,
    views: BTreeMap<String, View>,
    /// How many tables of a name there have been.
    incarnations: BTreeMap<String, u32>,
    next: u32,
}

/// An index that was created by name. Those that are not unique make no difference, and are remembered to
/// be shown.
#[derive(Debug, Clone)]
pub struct Index {
    /// Tells it from all other relations.
    pub id: u32,
    /// Its table, in lower case.
    pub table: String,
    /// It is a unique constraint of the table, too.
    pub unique: bool,
    /// What it is over, as written.
    pub columns: Vec<String>,
}

/// A sequence.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// Tells it from all other relations.
    pub id: u32,
    /// The last number given.
    pub counter: Arc<AtomicI64>,
    /// The first number.
    pub start: i64,
    /// From one number to the next.
    pub increment: i64,
}

/// A view.
#[derive(Debug, Clone)]
pub struct View {
    /// Tells it from all other relations.
    pub id: u32,
    /// Its query, as it was written.
    pub shown: String,
    /// Its query, for SQLite.
    pub sql: String,
    /// The columns.
    pub columns: Vec<(String, Type)>,
    /// The tables that it reads, also through other views.
    pub tables: Vec<String>,
}

impl Definitions {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

impl Catalogue {
    fn read(&self) -> RwLockReadGuard<'_, Definitions> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Definitions> {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grows with every change of a definition.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The same definitions, with counters and keys of their own.
    #[must_use]
    pub fn copy(&self) -> Self {
        let mut inner = self.read().clone();
        for table in inner.tables.values_mut() {
            let counter = Arc::new(AtomicI64::new(table.counter.load(Ordering::SeqCst)));
            *table = Arc::new(Table { keys: Arc::new(table.keys.copy()), counter, ..(**table).clone() });
        }
        for sequence in inner.sequences.values_mut() {
            sequence.counter = Arc::new(AtomicI64::new(sequence.counter.load(Ordering::SeqCst)));
        }
        Self { inner: RwLock::new(inner), version: AtomicU64::new(self.version()) }
    }

    /// A table by its name in any case.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.read().tables.get(&name.to_lowercase()).cloned()
    }

    /// A table, or the error that there is none.
    pub fn require(&self, name: &str) -> Result<Arc<Table>, SqlError> {
        self.table(name)
            .ok_or_else(|| SqlError::new(Code::UndefinedTable, format!("relation \"{name}\" does not exist")))
    }

    /// All tables, by name.
    #[must_use]
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.read().tables.values().cloned().collect()
    }

    /// A view by its name in any case.
    #[must_use]
    pub fn view(&self, name: &str) -> Option<View> {
        self.read().views.get(&name.to_lowercase()).cloned()
    }

    /// All views, by name.
    #[must_use]
    pub fn views(&self) -> Vec<(String, View)> {
        self.read().views.iter().map(|(n, v)| (n.clone(), v.clone())).collect()
    }

    /// Adds or replaces a view; its id is given here. `None` drops it.
    pub fn set_view(&self, name: &str, view: Option<View>) -> bool {
        let mut inner = self.write();
        match view {
            Some(view) => {
                let id = inner.number();
                inner.views.insert(name.to_lowercase(), View { id, ..view }).is_none()
            }
            None => inner.views.remove(&name.to_lowercase()).is_some(),
        }
    }

    /// Adds a table. Its id and its name in the store are given here.
    pub fn create(&self, mut table: Table) -> Result<(), SqlError> {
        let name = table.name.to_lowercase();
        self.require_free(&table.name)?;
        if table.columns.is_empty() {
            return Err(SqlError::unsupported("tables without columns"));
        }
        let mut inner = self.write();
        table.id = inner.number();
        let incarnation = inner.incarnations.entry(name.clone()).or_insert(0);
        *incarnation += 1;
        // What was stored under the name of a table that is gone must not show up in the next one.
        table.stored = if *incarnation == 1 { name.clone() } else { format!("{name}@{incarnation}") };
        inner.tables.insert(name, Arc::new(table));
        Ok(())
    }

    /// Replaces a table's definition.
    pub fn alter(&self, table: Table) {
        self.write().tables.insert(table.name.to_lowercase(), Arc::new(table));
    }

    /// Renames a table. Its name in the store stays.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), SqlError> {
        let table = self.require(from)?;
        if !from.eq_ignore_ascii_case(to) {
            self.require_free(to)?;
        }
        let mut inner = self.write();
        inner.tables.remove(&from.to_lowercase());
        let renamed = Table { name: to.to_owned(), ..(*table).clone() };
        inner.tables.insert(to.to_lowercase(), Arc::new(renamed));
        Ok(())
    }

    /// An error if a table or view has the name, or if it is one that SQLite or this crate uses.
    pub fn require_free(&self, name: &str) -> Result<(), SqlError> {
        let lower = name.to_lowercase();
        if self.read().tables.contains_key(&lower) || self.read().views.contains_key(&lower) {
            let text = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(Code::DuplicateTable, text));
        }
        let reserved = ["sqlite_", "weak_"].iter().any(|prefix| lower.starts_with(prefix));
        match reserved || lower.ends_with(ROWS) {
            true => Err(SqlError::unsupported(format!("the name \"{name}\" for a table"))),
            false => Ok(()),
        }
    }

    /// Removes a table; false if there is none.
    pub fn drop(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let mut inner = self.write();
        inner.indexes.retain(|_, index| index.table != name);
        inner.tables.remove(&name).is_some()
    }

    /// Remembers an index by name; false if there is one.
    pub fn add_index(&self, name: &str, table: &str, unique: bool, columns: Vec<String>) -> bool {
        let name = name.to_lowercase();
        if self.read().indexes.contains_key(&name) {
            return false;
        }
        let mut inner = self.write();
        let (id, table) = (inner.number(), table.to_lowercase());
        inner.indexes.insert(name, Index { id, table, unique, columns }).is_none()
    }

    /// Forgets an index.
    pub fn drop_index(&self, name: &str) -> Option<Index> {
        self.write().indexes.remove(&name.to_lowercase())
    }

    /// The indexes of a table that were created by name.
    #[must_use]
    pub fn indexes(&self, table: &str) -> Vec<(String, Index)> {
        let of = |(_, index): &(&String, &Index)| index.table.eq_ignore_ascii_case(table);
        self.read().indexes.iter().filter(of).map(|(n, i)| (n.clone(), i.clone())).collect()
    }

    /// A sequence.
    #[must_use]
    pub fn sequence(&self, name: &str) -> Option<Sequence> {
        self.read().sequences.get(&name.to_lowercase()).cloned()
    }

    /// All sequences, by name.
    #[must_use]
    pub fn sequences(&self) -> Vec<(String, Sequence)> {
        self.read().sequences.iter().map(|(n, s)| (n.clone(), s.clone())).collect()
    }

    /// Adds a sequence; false if there is one.
    pub fn add_sequence(&self, name: &str, start: i64, increment: i64) -> bool {
        let mut inner = self.write();
        let counter = Arc::new(AtomicI64::new(start.wrapping_sub(increment)));
        let sequence = Sequence { id: inner.number(), counter, start, increment };
        inner.sequences.insert(name.to_lowercase(), sequence).is_none()
    }

    /// Removes a sequence; false if there is none.
    pub fn drop_sequence(&self, name: &str) -> bool {
        self.write().sequences.remove(&name.to_lowercase()).is_some()
    }
}
