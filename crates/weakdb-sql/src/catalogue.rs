//! Tables: their columns and constraints, and every primary key that was ever written to them.
//!
//! Definitions take effect at once and for everybody; they are no part of any transaction. Rows are:
//! whether a row exists, and what its cells hold, is asked of the store by name. The names follow section 5
//! of the paper: `account.has/7` is the membership of the row with primary key 7, `account/7/balance` a
//! cell of it.
//!
//! Keys are only ever added. That a key is here means that some transaction may have inserted it; a scan
//! asks the store about each.

use super::decimal::Decimal;
use super::error::{Code, SqlError};
use super::types::{Type, plain};
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{Expr, ReferentialAction};
use anomalist_weakdb::Value;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// As declared.
    pub name: String,
    /// Its type.
    pub kind: Type,
    /// NOT NULL, or part of the primary key.
    pub not_null: bool,
    /// The digits of a decimal, if they were declared.
    pub precision: Option<u64>,
    /// DEFAULT, an expression of SQLite.
    pub default: Option<String>,
    /// DEFAULT, as it was written.
    pub shown_default: Option<String>,
    /// Counts upwards by itself.
    pub auto: bool,
    /// What rows hold that were there before the column was.
    pub missing: Value,
}

impl Column {
    /// A value as this column holds it.
    ///
    /// # Errors
    /// If it is no value of the column's type, or has more digits than the column.
    pub fn fit(&self, value: Value, dialect: Dialect) -> Result<Value, SqlError> {
        let value = self.kind.coerce(value, dialect)?;
        match (Decimal::of(&value), self.kind) {
            (Some(decimal), Type::Numeric(scale)) => Ok(decimal.fit(self.precision, scale, dialect)?.into()),
            _ => Ok(value),
        }
    }

    /// Its type as MySQL shows it.
    #[must_use]
    pub fn mysql_type(&self) -> String {
        match (self.kind, self.precision) {
            (Type::Numeric(scale), Some(digits)) => format!("decimal({digits},{})", scale.unwrap_or(0)),
            _ => self.kind.mysql_name(),
        }
    }
}

/// A unique constraint beside the primary key.
#[derive(Clone, Debug)]
pub struct Unique {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<usize>,
}

/// CHECK.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// An expression of SQLite over the table's columns.
    pub sql: String,
    /// As it was written.
    pub shown: String,
}

/// What happens to children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing; the parent may not go.
    Refuse,
    /// They go too.
    Cascade,
    /// They lose their parent.
    SetNull,
    /// They get the default parent.
    SetDefault,
}

impl From<Option<ReferentialAction>> for Action {
    fn from(action: Option<ReferentialAction>) -> Self {
        match action {
            Some(ReferentialAction::Cascade) => Self::Cascade,
            Some(ReferentialAction::SetNull) => Self::SetNull,
            Some(ReferentialAction::SetDefault) => Self::SetDefault,
            _ => Self::Refuse,
        }
    }
}

/// A foreign key.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// Its name.
    pub name: String,
    /// The child's columns.
    pub columns: Vec<usize>,
    /// The parent, in lower case.
    pub parent: String,
    /// The parent's columns; empty: its primary key.
    pub referred: Vec<String>,
    /// When the parent goes.
    pub on_delete: Action,
    /// When the parent's key changes.
    pub on_update: Action,
}

/// A table as it is at a time.
#[derive(Clone, Debug)]
pub struct Table {
    /// Tells tables of the same name apart, one dropped and one created later.
    pub id: u32,
    /// As declared.
    pub name: String,
    /// Its name in the store.
    pub stored: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The primary key; empty if rows have only a number.
    pub key: Vec<usize>,
    /// The name of the primary key.
    pub key_name: String,
    /// Unique constraints.
    pub unique: Vec<Unique>,
    /// CHECK constraints.
    pub checks: Vec<Check>,
    /// Foreign keys.
    pub foreign: Vec<Foreign>,
    /// The primary keys known.
    pub keys: Arc<Keys>,
    /// The last number given by AUTO_INCREMENT or SERIAL.
    pub counter: Arc<AtomicI64>,
}

impl Table {
    /// The column of this name, in any case.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// The column of this name, or the error that there is none.
    pub fn require(&self, name: &str) -> Result<usize, SqlError> {
        self.column(name).ok_or_else(|| {
            let text = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            SqlError::new(Code::UndefinedColumn, text)
        })
    }

    /// A value as this column holds it. In a key or a unique constraint a number has one text, whatever its
    /// scale.
    ///
    /// # Errors
    /// If it is no value of the column's type, or has more digits than the column.
    pub fn fit(&self, column: usize, value: Value, dialect: Dialect) -> Result<Value, SqlError> {
        let value = self.columns[column].fit(value, dialect)?;
        let decides = self.key.contains(&column) || self.unique.iter().any(|u| u.columns.contains(&column));
        match Decimal::of(&value) {
            Some(decimal) if decides && self.columns[column].kind == Type::Numeric(None) => {
                Ok(decimal.normalized().into())
            }
            _ => Ok(value),
        }
    }

    /// The membership of a row, in the store.
    #[must_use]
    pub fn membership(&self, key: &str) -> String {
        format!("{}.has/{key}", self.stored)
    }

    /// A cell, in the store.
    #[must_use]
    pub fn cell(&self, key: &str, column: usize) -> String {
        format!("{}/{key}/{}", self.stored, self.columns[column].name)
    }

    /// A whole row, in the store, where rows are not split into cells.
    #[must_use]
    pub fn row(&self, key: &str) -> String {
        format!("{}/{key}", self.stored)
    }

    /// Which row holds these values of a unique constraint, in the store.
    #[must_use]
    pub fn holder(&self, unique: &Unique, values: &[Value]) -> String {
        format!("{}.unique.{}/{}", self.stored, unique.name, encode(values))
    }
}

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

    fn copy(&self) -> Self {
        let log = self.read();
        Self(RwLock::new(KeyLog { rows: log.rows.clone(), numbers: log.numbers.clone() }))
    }
}

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
        if self.read().tables.contains_key(&name) || self.read().views.contains_key(&name) {
            let text = format!("relation \"{}\" already exists", table.name);
            return Err(SqlError::new(Code::DuplicateTable, text));
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
        let mut inner = self.write();
        inner.tables.remove(&from.to_lowercase());
        let renamed = Table { name: to.to_owned(), ..(*table).clone() };
        inner.tables.insert(to.to_lowercase(), Arc::new(renamed));
        Ok(())
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

/// The bare name of an expression that names a column.
#[must_use]
pub fn column_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(names) => names.last().map(|n| n.value.as_str()),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}
