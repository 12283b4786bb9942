//! Writing rows: INSERT, UPDATE, DELETE, with defaults, types and constraints.
//!
//! The rows and values come from a query that is finished before the first write, so a statement never sees
//! its own. Whether a key is taken, a parent exists or children remain is found out by reads like any
//! other, as in section 5 of the paper, where `add` reads the membership: at a weak level a transaction may
//! miss what others have just written, and insert it again. With `strict` these reads are current reads,
//! and the commit is refused if another transaction wrote the key meanwhile: then constraints hold as they
//! do in a database whose indexes are not subject to isolation.

use super::catalogue::Table;
use super::constraints::{held, pick};
use super::engine::{Engine, rows_of};
use super::error::{Code, SqlError};
use super::plan::{DeletePlan, InsertPlan, OnDuplicate, UpdatePlan};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Granularity, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a statement changed.
#[derive(Debug, Default)]
pub struct Changed {
    /// Rows, as the database counts them.
    pub count: u64,
    /// The first number that AUTO_INCREMENT gave.
    pub first_id: Option<i64>,
    /// RETURNING.
    pub rows: Vec<Vec<Value>>,
}

/// How deep foreign keys may cascade.
const CASCADES: usize = 50;

/// A row by its key.
pub(super) type Key = Arc<str>;

/// Writes for one statement.
pub struct Writer<'e> {
    /// The session's engine.
    pub engine: &'e mut Engine,
    /// Whose SQL it is.
    pub dialect: Dialect,
    /// Constraints are checked by current reads.
    pub strict: bool,
}

impl Writer<'_> {
    fn granularity(&self) -> Granularity {
        self.engine.shared().store.store().options().granularity
    }

    /// A read for a constraint.
    pub(super) fn checked<T>(
        &self,
        read: impl FnOnce(&mut super::engine::Shared) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let mut shared = self.engine.shared();
        let before = shared.current;
        shared.current |= self.strict;
        let found = read(&mut shared);
        shared.current = before;
        found
    }

    fn write(&self, key: &str, value: Option<Value>) -> Result<(), SqlError> {
        self.engine.check()?;
        let mut shared = self.engine.shared();
        let written = match value {
            Some(value) => shared.store.write(key, value),
            None => shared.store.delete(key),
        };
        written.map_err(SqlError::from)
    }

    /// INSERT.
    pub fn insert(&mut self, plan: &InsertPlan, params: &[Value]) -> Result<Changed, SqlError> {
        let rows = match &plan.source {
            Ok(source) => self.engine.query(&source.sql, params)?,
            Err(count) => vec![Vec::new(); *count],
        };
        let mut changed = Changed::default();
        for (at, given) in rows.into_iter().enumerate() {
            if given.len() != plan.columns.len() && !given.is_empty() {
                let text = format!("INSERT has {} values for {} columns", given.len(), plan.columns.len());
                return Err(SqlError::new(Code::WrongCount, text));
            }
            let mask = plan.defaults.get(at).map(Vec::as_slice).unwrap_or_default();
            let mut values: Vec<Option<Value>> = vec![None; plan.table.columns.len()];
            for (i, (value, &column)) in given.into_iter().zip(&plan.columns).enumerate() {
                if !mask.get(i).copied().unwrap_or(false) {
                    values[column] = Some(value);
                }
            }
            let values = self.complete(&plan.table, values, &mut changed)?;
            self.insert_row(plan, params, values, &mut changed)?;
        }
        let mut shared = self.engine.shared();
        if let Some(first) = changed.first_id {
            shared.last_id = first;
        }
        drop(shared);
        Ok(changed)
    }

    /// The whole row: defaults, numbers, types.
    fn complete(
        &self,
        table: &Table,
        given: Vec<Option<Value>>,
        changed: &mut Changed,
    ) -> Result<Vec<Value>, SqlError> {
        let mut values = Vec::with_capacity(given.len());
        for (at, (column, value)) in table.columns.iter().zip(given).enumerate() {
            let counts = column.auto
                && matches!(
                    (&value, self.dialect),
                    (None, _) | (Some(Value::Null | Value::Int(0)), Dialect::MySql)
                );
            let value = match (value, &column.default) {
                _ if counts => {
                    let next = table.counter.fetch_add(1, Ordering::SeqCst) + 1;
                    changed.first_id.get_or_insert(next);
                    self.engine.shared().last_id = next;
                    Value::Int(next)
                }
                (Some(value), _) => value,
                (None, Some(default)) => {
                    let rows = self.engine.query(&format!("SELECT {default}"), &[])?;
                    rows.into_iter().flatten().next().unwrap_or(Value::Null)
                }
                (None, None) => Value::Null,
            };
            let value = table.fit(at, value, self.dialect)?;
            if let (true, Dialect::MySql, Value::Int(given)) = (column.auto, self.dialect, &value) {
                table.counter.fetch_max(*given, Ordering::SeqCst);
            }
            values.push(value);
        }
        Ok(values)
    }

    fn insert_row(
        &mut self,
        plan: &InsertPlan,
        params: &[Value],
        values: Vec<Value>,
        changed: &mut Changed,
    ) -> Result<(), SqlError> {
        let table = &plan.table;
        self.check_row(table, &values, None)?;
        let (row, key) = if table.key.is_empty() {
            table.keys.fresh()
        } else {
            let key = pick(&values, &table.key);
            table.keys.intern(&key)
        };
        let mut mysql_bonus = 0;
        while let Some(clash) = self.clash(table, &key, &values)? {
            let about = |target: &Option<Vec<usize>>| {
                target.as_ref().is_none_or(|t| {
                    t.iter().collect::<BTreeSet<_>>() == clash.columns.iter().collect::<BTreeSet<_>>()
                })
            };
            match &plan.duplicate {
                OnDuplicate::Ignore(target) if about(target) => return Ok(()),
                OnDuplicate::Replace => {
                    self.remove(table, &clash.key, 0)?;
                    mysql_bonus += 1;
                }
                OnDuplicate::Update { target, columns, sql } if about(target) => {
                    let number = table.keys.number(&clash.key).unwrap_or(0);
                    self.engine.sync(table)?;
                    let mut all = params.to_vec();
                    all.push(Value::Int(number));
                    all.extend(values);
                    let rows = self.engine.query(sql, &all)?;
                    if let Some(new) = rows.into_iter().next() {
                        let key = self.update_row(table, &clash.key, columns, new)?;
                        let number = table.keys.number(&key).unwrap_or(0);
                        changed.count += if self.dialect == Dialect::MySql { 2 } else { 1 };
                        self.returning(plan.returning.as_ref(), params, table, number, changed)?;
                    }
                    return Ok(());
                }
                _ => return Err(clash.error(table, &values, self.dialect)),
            }
        }
        self.check_parents(table, &values, None)?;
        self.put(table, &key, &values)?;
        changed.count += 1 + mysql_bonus;
        self.returning(plan.returning.as_ref(), params, table, row, changed)
    }

    fn returning(
        &mut self,
        returning: Option<&super::plan::Returning>,
        params: &[Value],
        table: &Table,
        row: i64,
        changed: &mut Changed,
    ) -> Result<(), SqlError> {
        let Some(returning) = returning else { return Ok(()) };
        self.engine.sync(table)?;
        let mut all = params.to_vec();
        all.push(Value::Int(row));
        changed.rows.extend(self.engine.query(&returning.sql, &all)?);
        Ok(())
    }

    /// UPDATE.
    pub fn update(&mut self, plan: &UpdatePlan, params: &[Value]) -> Result<Changed, SqlError> {
        let rows = self.engine.query(&plan.source.sql, params)?;
        let mut changed = Changed::default();
        let mut seen = BTreeSet::new();
        for mut new in rows {
            let row = new.remove(0).as_int().unwrap_or(0);
            // A join may find a row several times; the first one counts.
            if !seen.insert(row) {
                continue;
            }
            let Some((key, _)) = plan.table.keys.key(row) else { continue };
            let key = self.update_row(&plan.table, &key, &plan.columns, new)?;
            changed.count += 1;
            let row = plan.table.keys.number(&key).unwrap_or(row);
            self.returning(plan.returning.as_ref(), params, &plan.table, row, &mut changed)?;
        }
        Ok(changed)
    }

    /// Changes one row; its key, which may be another one now.
    pub(super) fn update_row(
        &mut self,
        table: &Table,
        key: &Key,
        columns: &[usize],
        new: Vec<Value>,
    ) -> Result<Key, SqlError> {
        let mut assigned: Vec<(usize, Value)> = Vec::with_capacity(columns.len());
        for (&column, value) in columns.iter().zip(new) {
            assigned.push((column, table.fit(column, value, self.dialect)?));
        }
        let touches = |columns: &[usize]| columns.iter().any(|c| assigned.iter().any(|(a, _)| a == c));
        let referred = self.is_referred(table, |columns| touches(columns));
        let whole = touches(&table.key)
            || self.granularity() == Granularity::Row
            || !table.checks.is_empty()
            || referred
            || table.unique.iter().any(|u| touches(&u.columns))
            || table.foreign.iter().any(|f| touches(&f.columns));
        if !whole {
            for (column, value) in assigned {
                self.not_null(table, column, &value)?;
                self.write(&table.cell(key, column), Some(value))?;
            }
            return Ok(key.clone());
        }
        let old = self.row(table, key)?;
        let mut values = old.clone();
        for (column, value) in assigned {
            values[column] = value;
        }
        self.check_row(table, &values, Some(&old))?;
        let new_key =
            if table.key.is_empty() { key.clone() } else { table.keys.intern(&pick(&values, &table.key)).1 };
        let moved = new_key != *key;
        if let Some(clash) = self.clash_of(table, &new_key, key, &old, &values)? {
            return Err(clash.error(table, &values, self.dialect));
        }
        self.check_parents(table, &values, Some(&old))?;
        if moved {
            self.write_membership(table, key, false)?;
            self.release(table, key, &old, &[])?;
            self.put(table, &new_key, &values)?;
        } else {
            self.release(table, key, &old, &values)?;
            self.change(table, key, columns, &old, &values)?;
        }
        self.children_follow(table, &old, Some(&values), 0)?;
        Ok(new_key)
    }

    /// DELETE.
    pub fn delete(&mut self, plan: &DeletePlan, params: &[Value]) -> Result<Changed, SqlError> {
        let rows = self.engine.query(&plan.source.sql, params)?;
        let mut changed = Changed::default();
        let mut seen = BTreeSet::new();
        for row in rows {
            let row = row[0].as_int().unwrap_or(0);
            if !seen.insert(row) {
                continue;
            }
            let Some((key, _)) = plan.table.keys.key(row) else { continue };
            self.returning(plan.returning.as_ref(), params, &plan.table, row, &mut changed)?;
            self.remove(&plan.table, &key, 0)?;
            changed.count += 1;
        }
        Ok(changed)
    }

    /// TRUNCATE.
    pub fn truncate(&mut self, table: &Arc<Table>) -> Result<(), SqlError> {
        let rows = self.engine.query(&format!("SELECT _row FROM {}", rows_of(&table.name)), &[])?;
        for row in rows {
            if let Some((key, _)) = row[0].as_int().and_then(|n| table.keys.key(n)) {
                self.remove(table, &key, 0)?;
            }
        }
        Ok(())
    }

    /// Removes a row that exists.
    pub(super) fn remove(&mut self, table: &Table, key: &Key, depth: usize) -> Result<(), SqlError> {
        if depth > CASCADES {
            return Err(SqlError::new(Code::HasChildren, "foreign keys cascade too deeply"));
        }
        let referred = self.is_referred(table, |_| true);
        if referred || !table.unique.is_empty() {
            let old = self.row(table, key)?;
            if referred {
                self.children_follow(table, &old, None, depth)?;
            }
            self.release(table, key, &old, &[])?;
        }
        self.write_membership(table, key, false)
    }

    /// All values of a row.
    fn row(&self, table: &Table, key: &Key) -> Result<Vec<Value>, SqlError> {
        let known = table.keys.number(key).and_then(|n| table.keys.key(n)).map(|(_, values)| values);
        let mut shared = self.engine.shared();
        (0..table.columns.len())
            .map(|column| match (table.key.iter().position(|&k| k == column), &known) {
                (Some(at), Some(values)) => Ok(values[at].clone()),
                _ => shared.cell(table, key, column),
            })
            .collect()
    }

    fn write_membership(&self, table: &Table, key: &str, present: bool) -> Result<(), SqlError> {
        match self.granularity() {
            Granularity::Cell => self.write(&table.membership(key), present.then_some(Value::Bool(true))),
            // The row itself says whether it is there.
            Granularity::Row if !present => self.write(&table.row(key), None),
            Granularity::Row => Ok(()),
        }
    }

    /// Writes a whole row.
    fn put(&self, table: &Table, key: &str, values: &[Value]) -> Result<(), SqlError> {
        self.write_membership(table, key, true)?;
        match self.granularity() {
            Granularity::Cell => {
                for (column, value) in values.iter().enumerate() {
                    if !table.key.contains(&column) {
                        self.write(&table.cell(key, column), Some(value.clone()))?;
                    }
                }
            }
            Granularity::Row => self.write(&table.row(key), Some(values.to_vec().into()))?,
        }
        for unique in &table.unique {
            if let Some(held) = held(unique, values) {
                self.write(&table.holder(unique, &held), Some(key.into()))?;
            }
        }
        Ok(())
    }

    /// Writes the assigned columns of a row.
    fn change(
        &self,
        table: &Table,
        key: &str,
        columns: &[usize],
        old: &[Value],
        values: &[Value],
    ) -> Result<(), SqlError> {
        match self.granularity() {
            Granularity::Cell => {
                for &column in columns {
                    self.write(&table.cell(key, column), Some(values[column].clone()))?;
                }
            }
            Granularity::Row => self.write(&table.row(key), Some(values.to_vec().into()))?,
        }
        for unique in &table.unique {
            if let Some(held) = held(unique, values)
                && pick(old, &unique.columns) != held
            {
                self.write(&table.holder(unique, &held), Some(key.into()))?;
            }
        }
        Ok(())
    }

    /// Gives up the values of unique constraints that the new row, if any, does not have.
    fn release(&self, table: &Table, _key: &str, old: &[Value], new: &[Value]) -> Result<(), SqlError> {
        for unique in &table.unique {
            let kept = !new.is_empty() && pick(new, &unique.columns) == pick(old, &unique.columns);
            if let (false, Some(held)) = (kept, held(unique, old)) {
                self.write(&table.holder(unique, &held), None)?;
            }
        }
        Ok(())
    }
}
