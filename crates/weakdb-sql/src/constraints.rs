//! Constraints: keys, NOT NULL, CHECK, foreign keys and what they do to children.

use super::catalogue::{Action, Foreign, Table, Unique, encode};
use super::engine::{quoted, rows_of};
use super::error::{Code, SqlError};
use super::types::plain;
use super::write::{Key, Writer};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Granularity, Value};

impl Writer<'_> {
    pub(super) fn not_null(&self, table: &Table, column: usize, value: &Value) -> Result<(), SqlError> {
        let column = &table.columns[column];
        if column.not_null && *value == Value::Null {
            let text = match self.dialect {
                Dialect::MySql => format!("Column '{}' cannot be null", column.name),
                _ => format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.name
                ),
            };
            return Err(SqlError::new(Code::NotNull, text));
        }
        Ok(())
    }

    /// NOT NULL and CHECK.
    pub(super) fn check_row(
        &self,
        table: &Table,
        values: &[Value],
        _old: Option<&[Value]>,
    ) -> Result<(), SqlError> {
        for (column, value) in values.iter().enumerate() {
            self.not_null(table, column, value)?;
        }
        for check in &table.checks {
            let columns: Vec<String> = table
                .columns
                .iter()
                .enumerate()
                .map(|(at, c)| format!("?{} AS {}", at + 1, Dialect::MySql.quote(&c.name)))
                .collect();
            let sql = format!(
                "SELECT ({}) FROM (SELECT {}) AS {}",
                check.sql,
                columns.join(", "),
                quoted(&table.name)
            );
            let rows = self.engine.query(&sql, values)?;
            if rows.first().and_then(|r| r.first()).and_then(super::types::truth) == Some(false) {
                let text = match self.dialect {
                    Dialect::MySql => format!("CONSTRAINT `{}` failed for `{}`", check.name, table.name),
                    _ => format!(
                        "new row for relation \"{}\" violates check constraint \"{}\"",
                        table.name, check.name
                    ),
                };
                return Err(SqlError::new(Code::Check, text).of_constraint(&check.name));
            }
        }
        Ok(())
    }

    /// The row that has the key, or a unique value, that this row is to have.
    pub(super) fn clash(
        &self,
        table: &Table,
        key: &Key,
        values: &[Value],
    ) -> Result<Option<Clash>, SqlError> {
        if !table.key.is_empty() && self.checked(|s| s.has(table, key))? {
            return Ok(Some(Clash {
                key: key.clone(),
                name: table.key_name.clone(),
                columns: table.key.clone(),
            }));
        }
        for unique in &table.unique {
            if let Some(found) = self.holder(table, unique, values, None)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    pub(super) fn clash_of(
        &self,
        table: &Table,
        new: &Key,
        key: &Key,
        old: &[Value],
        values: &[Value],
    ) -> Result<Option<Clash>, SqlError> {
        if new != key && self.checked(|s| s.has(table, new))? {
            return Ok(Some(Clash {
                key: new.clone(),
                name: table.key_name.clone(),
                columns: table.key.clone(),
            }));
        }
        for unique in &table.unique {
            if pick(old, &unique.columns) != pick(values, &unique.columns)
                && let Some(found) = self.holder(table, unique, values, Some(key))?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn holder(
        &self,
        table: &Table,
        unique: &Unique,
        values: &[Value],
        except: Option<&Key>,
    ) -> Result<Option<Clash>, SqlError> {
        let Some(wanted) = held(unique, values) else { return Ok(None) };
        let name = table.holder(unique, &wanted);
        let found = self.checked(|s| {
            let found = if s.current { s.store.read_for_update(&name) } else { s.store.read(&name) };
            Ok(found?)
        })?;
        let Some(Value::Text(holder)) = found else { return Ok(None) };
        if except.is_some_and(|e| **e == *holder) || !self.checked(|s| s.has(table, &holder))? {
            return Ok(None);
        }
        Ok(Some(Clash { key: holder, name: unique.name.clone(), columns: unique.columns.clone() }))
    }

    /// Every foreign key that changed has a parent.
    pub(super) fn check_parents(
        &self,
        table: &Table,
        values: &[Value],
        old: Option<&[Value]>,
    ) -> Result<(), SqlError> {
        for foreign in &table.foreign {
            let wanted = pick(values, &foreign.columns);
            if wanted.contains(&Value::Null) || old.is_some_and(|o| pick(o, &foreign.columns) == wanted) {
                continue;
            }
            let catalogue = self.engine.shared().catalogue.clone();
            let parent = catalogue.require(&foreign.parent)?;
            let referred = referred_columns(foreign, &parent)?;
            let mut ordered = Vec::new();
            for &column in &parent.key {
                ordered.extend(referred.iter().position(|&r| r == column).map(|at| wanted[at].clone()));
            }
            let found = if ordered.len() == parent.key.len() && referred.len() == parent.key.len() {
                let coerced = parent.key.iter().zip(ordered).map(|(&c, v)| parent.fit(c, v, self.dialect));
                let key = encode(&coerced.collect::<Result<Vec<_>, _>>()?);
                // A row may be its own parent.
                let itself = parent.id == table.id && encode(&pick(values, &table.key)) == key;
                itself || self.checked(|s| s.has(&parent, &key))?
            } else {
                let unique = parent.unique.iter().find(|u| u.columns == referred);
                let unique = unique.ok_or_else(|| {
                    SqlError::new(
                        Code::UndefinedObject,
                        "a foreign key refers to columns that are not unique",
                    )
                })?;
                let mut row = vec![Value::Null; parent.columns.len()];
                referred.iter().zip(&wanted).for_each(|(&c, v)| row[c] = v.clone());
                self.holder(&parent, unique, &row, None)?.is_some()
            };
            if !found {
                let text = match self.dialect {
                    Dialect::MySql => format!(
                        "Cannot add or update a child row: a foreign key constraint fails (`{}`, CONSTRAINT `{}`)",
                        table.name, foreign.name
                    ),
                    _ => format!(
                        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                        table.name, foreign.name
                    ),
                };
                return Err(SqlError::new(Code::NoParent, text).of_constraint(&foreign.name));
            }
        }
        Ok(())
    }

    /// Whether another table refers to columns of this one that fit.
    pub(super) fn is_referred(&self, table: &Table, fits: impl Fn(&[usize]) -> bool) -> bool {
        let catalogue = self.engine.shared().catalogue.clone();
        catalogue.tables().iter().flat_map(|child| &child.foreign).any(|foreign| {
            foreign.parent == table.name.to_lowercase()
                && referred_columns(foreign, table).is_ok_and(|columns| fits(&columns))
        })
    }

    /// Rows that refer to a parent. With `strict` they are found by current reads, and the commit fails if
    /// another transaction makes such a row before it.
    fn find_children(
        &mut self,
        child: &Table,
        column: usize,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        if !self.strict {
            return self.engine.query(sql, values);
        }
        {
            let mut shared = self.engine.shared();
            let suffix = match shared.store.store().options().granularity {
                Granularity::Cell => format!("/{}", child.columns[column].name),
                Granularity::Row => String::new(),
            };
            shared.store.guard(&child.row(""), &suffix)?;
        }
        let before = std::mem::replace(&mut self.engine.shared().current, true);
        let rows = self.engine.query(sql, values);
        self.engine.shared().current = before;
        rows
    }

    /// What happens to the children of a row that goes, or whose key changes.
    pub(super) fn children_follow(
        &mut self,
        table: &Table,
        old: &[Value],
        new: Option<&[Value]>,
        depth: usize,
    ) -> Result<(), SqlError> {
        let catalogue = self.engine.shared().catalogue.clone();
        for child in catalogue.tables() {
            for foreign in child.foreign.iter().filter(|f| f.parent == table.name.to_lowercase()) {
                let referred = referred_columns(foreign, table)?;
                let before = pick(old, &referred);
                let after = new.map(|n| pick(n, &referred));
                if before.contains(&Value::Null) || after.as_ref() == Some(&before) {
                    continue;
                }
                let condition: Vec<String> = foreign
                    .columns
                    .iter()
                    .enumerate()
                    .map(|(at, &c)| format!("{} = ?{}", Dialect::MySql.quote(&child.columns[c].name), at + 1))
                    .collect();
                let sql =
                    format!("SELECT _row FROM {} WHERE {}", rows_of(&child.name), condition.join(" AND "));
                self.engine.sync(&child)?;
                let rows = self.find_children(&child, foreign.columns[0], &sql, &before)?;
                let action = if new.is_some() { foreign.on_update } else { foreign.on_delete };
                for row in rows {
                    let Some((key, _)) = row[0].as_int().and_then(|n| child.keys.key(n)) else { continue };
                    match (action, &after) {
                        (Action::Cascade, None) => self.remove(&child, &key, depth + 1)?,
                        (Action::Cascade, Some(after)) => {
                            self.update_row(&child, &key, &foreign.columns, after.clone())?;
                        }
                        (Action::SetNull | Action::SetDefault, _) => {
                            let nulls = vec![Value::Null; foreign.columns.len()];
                            self.update_row(&child, &key, &foreign.columns, nulls)?;
                        }
                        (Action::Refuse, _) => {
                            let text = match self.dialect {
                                Dialect::MySql => format!(
                                    "Cannot delete or update a parent row: a foreign key constraint fails (`{}`, CONSTRAINT `{}`)",
                                    child.name, foreign.name
                                ),
                                _ => format!(
                                    "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                                    table.name, foreign.name, child.name
                                ),
                            };
                            return Err(SqlError::new(Code::HasChildren, text).of_constraint(&foreign.name));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// A row that is in the way.
pub(super) struct Clash {
    pub key: Key,
    name: String,
    pub columns: Vec<usize>,
}

impl Clash {
    pub fn error(&self, table: &Table, values: &[Value], dialect: Dialect) -> SqlError {
        let shown: Vec<String> = pick(values, &self.columns).iter().map(plain).collect();
        let text = match dialect {
            Dialect::MySql => {
                let name = if self.columns == table.key { "PRIMARY" } else { &self.name };
                format!("Duplicate entry '{}' for key '{name}'", shown.join("-"))
            }
            _ => format!("duplicate key value violates unique constraint \"{}\"", self.name),
        };
        SqlError::new(Code::Unique, text).of_constraint(&self.name)
    }
}

/// The values of these columns.
pub(super) fn pick(values: &[Value], columns: &[usize]) -> Vec<Value> {
    columns.iter().map(|&c| values[c].clone()).collect()
}

/// The values that a unique constraint is about; NULL is never equal to anything.
pub(super) fn held(unique: &Unique, values: &[Value]) -> Option<Vec<Value>> {
    let held = pick(values, &unique.columns);
    (!held.contains(&Value::Null)).then_some(held)
}

fn referred_columns(foreign: &Foreign, parent: &Table) -> Result<Vec<usize>, SqlError> {
    if foreign.referred.is_empty() {
        return Ok(parent.key.clone());
    }
    foreign.referred.iter().map(|name| parent.require(name)).collect()
}
