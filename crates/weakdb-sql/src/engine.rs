//! SQLite as the executor of queries over tables that are not SQLite's.
//!
//! A table is a view. Its rows are the primary keys that any transaction has ever written, in an ordinary
//! table of this session's own SQLite; whether a row exists, and what a cell holds, is asked of the store
//! by a function, when and only when the query needs it:
//!
//! ```sql
//! CREATE VIEW account AS
//!   SELECT k.c0 AS id, CAST(weak_cell(1, k.rid, 1) AS INTEGER) AS balance
//!   FROM weak_keys1 AS k WHERE weak_has(1, k.rid)
//! ```
//!
//! SQLite flattens the view into the query. So `SELECT balance FROM account WHERE id = 7` is an index
//! lookup, one read of the membership and one of the cell, and a scan reads the membership of every key it
//! covers: the accesses of section 5 of the paper. Joins, subqueries, aggregates and windows come with it.
//! The cast gives the column its type's affinity. Nothing here is written by SQLite: statements that write
//! are queries for what to write (see `write.rs`).
//!
//! Virtual tables would do the same, but rusqlite's are an unsafe trait, and this workspace has no unsafe
//! code.
//!
//! Without statistics and automatic indices SQLite's plans depend on the text alone, so the reads of a
//! statement are the same in every run.

use super::bounds::{Charge, Limits, Meter, Running, Stop};
use super::catalogue::{Catalogue, Table};
use super::decimal;
use super::error::{Code, SqlError};
use super::functions;
use super::pattern::Patterns;
use super::types::Type;
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{self as store, Granularity, Value};
use rusqlite::limits::Limit;
use rusqlite::types::{Value as Lite, ValueRef};
use rusqlite::{Connection, params_from_iter};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A name for SQLite.
pub fn quoted(name: &str) -> String {
    Dialect::MySql.quote(name)
}

/// The suffix of the view that also shows the number of each row, as `_row`.
pub const ROWS: &str = "__rows";

/// That view's name for SQLite.
pub fn rows_of(table: &str) -> String {
    quoted(&format!("{table}{ROWS}"))
}

/// After so many of SQLite's steps a statement looks whether it is to end.
const STEPS: i32 = 4000;

/// Statements longer than this are not kept compiled.
const CACHED: usize = 1 << 16;

/// A row that exists: its table and its key.
type Found = (Arc<Table>, Arc<str>);

/// What functions called by SQLite need.
pub struct Shared {
    /// The session with the store.
    pub store: store::Session,
    /// All definitions.
    pub catalogue: Arc<Catalogue>,
    /// Tables by id.
    pub tables: FxHashMap<u32, Arc<Table>>,
    /// Reads are current reads: the statement says FOR UPDATE.
    pub current: bool,
    /// What a function failed with; SQLite only keeps the text.
    pub failure: Option<SqlError>,
    /// Variables of the session.
    pub variables: BTreeMap<String, String>,
    /// The last number that AUTO_INCREMENT, SERIAL or a sequence gave to this session.
    pub last_id: i64,
    /// Rows changed by the last statement.
    pub last_count: i64,
    /// For random(), UUIDs and their like: the seed decides them, too.
    pub random: fastrand::Rng,
    /// Regular expressions that are compiled.
    pub patterns: Patterns,
    /// When the transaction began, in microseconds since 1970.
    pub now: i64,
    /// The number of the connection.
    pub connection: u32,
    /// The name of the database.
    pub database: String,
    /// The name of the user.
    pub user: String,
    /// Whose SQL it is.
    pub dialect: Dialect,
    /// Whether constraints are checked against the newest state unless the session says otherwise.
    pub strict: bool,
    /// What the session may take.
    pub limits: Limits,
    /// What is kept for it.
    pub meter: Arc<Meter>,
    /// Ends its statements.
    pub stop: Arc<Stop>,
    /// Ends those of all sessions.
    pub running: Arc<Running>,
}

impl Shared {
    fn granularity(&self) -> Granularity {
        self.store.store().options().granularity
    }

    fn read(&mut self, key: &str) -> Result<Option<Value>, SqlError> {
        let found = if self.current { self.store.read_for_update(key) } else { self.store.read(key) };
        found.map_err(SqlError::from)
    }

    /// Whether the row exists.
    pub fn has(&mut self, table: &Table, key: &str) -> Result<bool, SqlError> {
        match self.granularity() {
            Granularity::Cell => Ok(self.read(&table.membership(key))?.is_some()),
            Granularity::Row => Ok(self.read(&table.row(key))?.is_some()),
        }
    }

    /// Says that the transaction has looked at all rows whose keys begin so, also at those that do not
    /// exist.
    pub fn cover(&mut self, table: &Table, prefix: &str) -> Result<(), SqlError> {
        let name = match self.granularity() {
            Granularity::Cell => table.membership(prefix),
            Granularity::Row => table.row(prefix),
        };
        Ok(self.store.cover(&name)?)
    }

    /// What a cell of an existing row holds.
    pub fn cell(&mut self, table: &Table, key: &str, column: usize) -> Result<Value, SqlError> {
        let found = match self.granularity() {
            Granularity::Cell => self.read(&table.cell(key, column))?,
            Granularity::Row => match self.read(&table.row(key))? {
                Some(Value::List(values)) => values.get(column).cloned(),
                _ => None,
            },
        };
        Ok(found.unwrap_or_else(|| table.columns[column].missing.clone()))
    }

    /// A function of SQLite asks for a row; `None` if it does not exist.
    fn row(&mut self, table: i64, row: i64) -> Result<Option<Found>, SqlError> {
        let missing = || SqlError::new(Code::Internal, format!("row {row} of table {table} is not known"));
        let table =
            u32::try_from(table).ok().and_then(|id| self.tables.get(&id)).cloned().ok_or_else(missing)?;
        let (key, _) = table.keys.key(row).ok_or_else(missing)?;
        Ok(self.has(&table, &key)?.then_some((table, key)))
    }
}

/// A session's SQLite.
pub struct Engine {
    db: Connection,
    shared: Arc<Mutex<Shared>>,
    stop: Arc<Stop>,
    /// SQLite may be interrupted: a query runs. What it writes is never interrupted, because without a
    /// journal it could not be undone.
    armed: Arc<AtomicBool>,
    limits: Limits,
    dialect: Dialect,
    /// What the statement that runs has found.
    charge: RefCell<Charge>,
    /// The version of the catalogue that the views are of.
    version: Option<u64>,
    installed: BTreeMap<String, Arc<Table>>,
    /// How many keys of each table SQLite has.
    synced: FxHashMap<u32, usize>,
    views: Vec<String>,
    /// The tables that SQLite did not take when it last learned of any.
    refused: Vec<String>,
}

/// Locks it. No function panics with the lock held; if one did, the session's own state would still be
/// whole.
pub fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// An engine without tables.
    pub fn new(shared: Shared) -> Result<Self, SqlError> {
        let (dialect, limits, stop) = (shared.dialect, shared.limits, shared.stop.clone());
        let charge = RefCell::new(Charge::new(&shared.meter));
        let shared = Arc::new(Mutex::new(shared));
        let mut db = Connection::open_in_memory()?;
        let armed = Arc::new(AtomicBool::new(false));
        let (watched, may) = (stop.clone(), armed.clone());
        db.progress_handler(STEPS, Some(move || may.load(Ordering::Relaxed) && watched.pass()))?;
        for (limit, most) in [
            (Limit::SQLITE_LIMIT_LENGTH, limits.result),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, 2 * limits.text),
            // No statement opens a file.
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
        ] {
            db.set_limit(limit, i32::try_from(most).unwrap_or(i32::MAX))?;
        }
        db.set_prepared_statement_cache_capacity(256);
        db.execute_batch(
            "PRAGMA automatic_index = OFF; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;",
        )?;
        if dialect == Dialect::PostgreSql {
            db.execute_batch("PRAGMA case_sensitive_like = ON;")?;
        }
        rusqlite::vtab::series::load_module(&db)?;
        db.create_collation(decimal::COLLATION, decimal::compare)?;
        for (name, count) in [("weak_has", 2), ("weak_cell", 3)] {
            let shared = shared.clone();
            db.create_scalar_function(
                name,
                count,
                rusqlite::functions::FunctionFlags::SQLITE_UTF8,
                move |context| {
                    let (table, row) = (context.get::<i64>(0)?, context.get::<i64>(1)?);
                    let mut shared = lock(&shared);
                    let answer = shared.row(table, row).and_then(|found| match found {
                        None if count == 2 => Ok(Lite::Integer(0)),
                        None => Ok(Lite::Null),
                        Some(_) if count == 2 => Ok(Lite::Integer(1)),
                        Some((table, key)) => {
                            let column = context.get::<i64>(2).map_err(SqlError::from)?;
                            shared.cell(&table, &key, column as usize).map(lite)
                        }
                    });
                    answer.map_err(|error| fail(&mut shared, error))
                },
            )?;
        }
        functions::register(&db, &shared)?;
        let (installed, synced) = (BTreeMap::new(), FxHashMap::default());
        let views = Vec::new();
        Ok(Self {
            db,
            shared,
            stop,
            armed,
            limits,
            dialect,
            charge,
            version: None,
            installed,
            synced,
            views,
            refused: Vec::new(),
        })
    }

    /// What functions see.
    pub fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// Brings the views up to date with the catalogue. True if anything had changed.
    pub fn refresh(&mut self, catalogue: &Catalogue) -> Result<bool, SqlError> {
        let version = catalogue.version();
        if self.version == Some(version) {
            return Ok(false);
        }
        for view in std::mem::take(&mut self.views) {
            self.db.execute_batch(&format!("DROP VIEW IF EXISTS {};", quoted(&view)))?;
        }
        let tables: BTreeMap<String, Arc<Table>> =
            catalogue.tables().into_iter().map(|t| (t.name.to_lowercase(), t)).collect();
        for (name, old) in &self.installed {
            if !tables.get(name).is_some_and(|new| Arc::ptr_eq(new, old)) {
                let gone = !tables.values().any(|t| t.id == old.id);
                let (view, rows) = (quoted(name), rows_of(name));
                let mut sql = format!("DROP VIEW IF EXISTS {view}; DROP VIEW IF EXISTS {rows};");
                if gone {
                    sql += &format!("DROP TABLE IF EXISTS weak_keys{};", old.id);
                    self.synced.remove(&old.id);
                }
                self.db.execute_batch(&sql)?;
            }
        }
        let mut refused = Vec::new();
        for (name, table) in &tables {
            if !self.installed.get(name).is_some_and(|old| Arc::ptr_eq(old, table)) {
                // A table that SQLite does not take is missing here, and fails nothing but its own use.
                if self.install(name, table).is_err() {
                    let (view, rows) = (quoted(name), rows_of(name));
                    let left = format!("DROP VIEW IF EXISTS {view}; DROP VIEW IF EXISTS {rows};");
                    let _ = self.db.execute_batch(&left);
                    refused.push(name.clone());
                }
            }
        }
        self.shared().tables = tables.values().map(|t| (t.id, t.clone())).collect();
        self.installed = tables;
        for (name, view) in catalogue.views() {
            let sql = format!("CREATE VIEW {} AS {};", quoted(&name), view.sql);
            if self.db.execute_batch(&sql).is_ok() {
                self.views.push(name);
            }
        }
        self.version = Some(version);
        self.refused = refused;
        Ok(true)
    }

    fn install(&mut self, name: &str, table: &Table) -> Result<(), SqlError> {
        let id = table.id;
        let keys: Vec<String> = table
            .key
            .iter()
            .enumerate()
            .map(|(i, &c)| (i, table.columns[c].kind))
            .map(|(i, kind)| format!(", c{i} {}{}", affinity(kind), order(kind)))
            .collect();
        let unique: Vec<String> = (0..keys.len()).map(|i| format!("c{i}")).collect();
        let unique = if keys.is_empty() { String::new() } else { format!(", UNIQUE({})", unique.join(", ")) };
        let columns: Vec<String> = table
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let quoted = Dialect::MySql.quote(&column.name);
                match table.key.iter().position(|&k| k == at) {
                    Some(i) => format!("k.c{i} AS {quoted}"),
                    None => {
                        let (affinity, order) = (affinity(column.kind), order(column.kind));
                        format!("CAST(weak_cell({id}, k.rid, {at}) AS {affinity}){order} AS {quoted}")
                    }
                }
            })
            .collect();
        let columns = columns.join(", ");
        self.db.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS weak_keys{id} (rid INTEGER PRIMARY KEY{}{unique});
             CREATE VIEW {} AS SELECT {columns} FROM weak_keys{id} AS k WHERE weak_has({id}, k.rid);
             CREATE VIEW {} AS SELECT k.rid AS _row, {columns} FROM weak_keys{id} AS k WHERE weak_has({id}, k.rid);",
            keys.concat(),
            quoted(name),
            rows_of(name)
        ))?;
        Ok(())
    }

    /// Whether SQLite has not taken a new table.
    pub fn has_refused(&self, table: &str) -> bool {
        self.refused.contains(&table.to_lowercase())
    }

    /// Runs statements without result.
    pub fn batch(&self, statements: &[String]) -> Result<(), SqlError> {
        Ok(self.db.execute_batch(&statements.concat())?)
    }

    /// Tells SQLite about keys that others have added.
    pub fn sync(&mut self, table: &Table) -> Result<(), SqlError> {
        let done = self.synced.entry(table.id).or_insert(0);
        if table.keys.len() == *done {
            return Ok(());
        }
        let fresh = table.keys.since(*done);
        let places = ", ?".repeat(table.key.len());
        let mut insert =
            self.db.prepare_cached(&format!("INSERT INTO weak_keys{} VALUES (?{places})", table.id))?;
        for values in fresh {
            self.stop.check(self.dialect)?;
            let row = std::iter::once(Lite::Integer(*done as i64 + 1));
            let key = values.iter().take(table.key.len()).cloned().map(lite);
            insert.execute(params_from_iter(row.chain(key)))?;
            *done += 1;
        }
        Ok(())
    }

    /// What the session may take.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// An error if the statement that runs is to end.
    pub fn check(&self) -> Result<(), SqlError> {
        self.stop.check(self.dialect)
    }

    /// What the statement has found so far, for as long as that is kept. What it finds from now on is
    /// another charge.
    pub fn take_charge(&self) -> Charge {
        let fresh = Charge::new(&self.shared().meter);
        self.charge.replace(fresh)
    }

    /// Counts rows that the statement keeps.
    pub fn keep(&self, rows: &[Vec<Value>]) -> Result<(), SqlError> {
        let mut charge = self.charge.borrow_mut();
        rows.iter().try_for_each(|row| charge.add_row(row, &self.limits))
    }

    /// Runs a query to its end.
    pub fn query(&self, sql: &str, params: &[Value]) -> Result<Vec<Vec<Value>>, SqlError> {
        self.check()?;
        self.armed.store(true, Ordering::Relaxed);
        let found = self.run(sql, params);
        self.armed.store(false, Ordering::Relaxed);
        match (self.shared().failure.take(), &found) {
            (Some(failure), _) => Err(failure),
            (None, Err(_)) => self.check().and(found),
            (None, Ok(_)) => found,
        }
    }

    fn run(&self, sql: &str, params: &[Value]) -> Result<Vec<Vec<Value>>, SqlError> {
        let (mut cached, mut whole);
        let statement: &mut rusqlite::Statement<'_> = if sql.len() <= CACHED {
            cached = self.db.prepare_cached(sql)?;
            &mut cached
        } else {
            whole = self.db.prepare(sql)?;
            &mut whole
        };
        let expected = statement.parameter_count();
        if params.len() < expected {
            let text = format!("{expected} parameters are needed, {} were given", params.len());
            return Err(SqlError::new(Code::WrongCount, text));
        }
        let width = statement.column_count();
        let mut rows = statement.query(params_from_iter(params[..expected].iter().cloned().map(lite)))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let row: Vec<Value> = (0..width).map(|i| row.get_ref(i).map(value)).collect::<Result<_, _>>()?;
            self.charge.borrow_mut().add_row(&row, &self.limits)?;
            found.push(row);
        }
        Ok(found)
    }
}

/// Keeps the error for after the query, and stops it.
pub fn fail(shared: &mut Shared, error: SqlError) -> rusqlite::Error {
    let stop = rusqlite::Error::UserFunctionError(error.message.clone().into());
    shared.failure.get_or_insert(error);
    stop
}

/// How SQLite compares a column.
fn order(kind: Type) -> &'static str {
    if kind.is_decimal() { " COLLATE weak_number" } else { "" }
}

fn affinity(kind: Type) -> &'static str {
    match kind {
        Type::Bool | Type::Int1 | Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid => "INTEGER",
        Type::Float4 | Type::Float8 => "REAL",
        Type::Bytes => "BLOB",
        _ => "TEXT",
    }
}

/// A value as SQLite has it.
#[must_use]
pub fn lite(value: Value) -> Lite {
    match value {
        Value::Null => Lite::Null,
        Value::Bool(b) => Lite::Integer(i64::from(b)),
        Value::Int(i) => Lite::Integer(i),
        Value::Real(r) => Lite::Real(r),
        Value::Text(t) => Lite::Text(t.to_string()),
        Value::Bytes(b) => Lite::Blob(b.to_vec()),
        Value::List(_) => Lite::Text(value.to_string()),
    }
}

/// A value as the store has it.
#[must_use]
pub fn value(lite: ValueRef<'_>) -> Value {
    match lite {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(i) => Value::Int(i),
        ValueRef::Real(r) => Value::Real(r),
        ValueRef::Text(t) => Value::Text(String::from_utf8_lossy(t).into()),
        ValueRef::Blob(b) => Value::Bytes(b.into()),
    }
}
