//! The columns and constraints of a table, as CREATE TABLE and ALTER TABLE declare them.

use super::Definer;
use crate::catalogue::{Action, Check, Column, Foreign, Keys, Table, Unique, column_name};
use crate::error::{Code, SqlError};
use crate::names::bare;
use crate::types::Type;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{
    ColumnDef, ColumnOption, CreateTable, CreateTableOptions, Expr, ForeignKeyConstraint, IndexColumn,
    SqlOption, TableConstraint,
};
use anomalist_weakdb::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

impl Definer<'_> {
    pub(super) fn create_table(&mut self, create: &CreateTable) -> Result<(), SqlError> {
        let name = bare(&create.name);
        if create.if_not_exists && self.catalogue.table(&name).is_some() {
            return Ok(());
        }
        if create.query.is_some() || create.like.is_some() || create.inherits.is_some() {
            return Err(SqlError::unsupported("CREATE TABLE from another table"));
        }
        if create.partition_of.is_some() || create.partition_by.is_some() {
            return Err(SqlError::unsupported("partitions"));
        }
        let mut table = Table {
            id: 0,
            name: name.clone(),
            stored: String::new(),
            columns: Vec::new(),
            key: Vec::new(),
            key_name: if self.dialect == Dialect::MySql { "PRIMARY".into() } else { format!("{name}_pkey") },
            unique: Vec::new(),
            checks: Vec::new(),
            foreign: Vec::new(),
            keys: Arc::new(Keys::default()),
            counter: Arc::new(AtomicI64::new(0)),
        };
        if let CreateTableOptions::Plain(options) = &create.table_options {
            for option in options {
                if let SqlOption::KeyValue { key, value } = option
                    && key.value.eq_ignore_ascii_case("auto_increment")
                {
                    begin_at(&table, &value.to_string());
                }
            }
        }
        for column in &create.columns {
            if table.column(&column.name.value).is_some() {
                let text = format!("column \"{}\" specified more than once", column.name.value);
                return Err(SqlError::new(Code::DuplicateColumn, text));
            }
            self.column(&mut table, column)?;
        }
        for constraint in &create.constraints {
            self.constraint(&mut table, constraint)?;
        }
        for &column in &table.key.clone() {
            table.columns[column].not_null = true;
        }
        // Expressions may name columns that are declared after them.
        for column in &create.columns {
            self.expressions(&mut table, column)?;
        }
        for constraint in &create.constraints {
            if let TableConstraint::Check(check) = constraint {
                let named = check.name.as_ref().map(|n| n.value.clone());
                self.check(&mut table, named, &check.expr)?;
            }
        }
        self.catalogue.create(table)?;
        self.engine.refresh(self.catalogue)?;
        if self.engine.has_refused(&name) {
            self.catalogue.drop(&name);
            return Err(SqlError::unsupported(format!("a table like \"{name}\"")));
        }
        Ok(())
    }

    /// The column with its type and keys; expressions come later.
    pub(super) fn column(&self, table: &mut Table, column: &ColumnDef) -> Result<(), SqlError> {
        let at = table.columns.len();
        let name = column.name.value.clone();
        let (kind, precision) = Type::of_column(&column.data_type, self.dialect)?;
        let mut new = Column {
            name: name.clone(),
            kind,
            not_null: false,
            precision,
            default: None,
            shown_default: None,
            auto: Type::is_serial(&column.data_type),
            missing: Value::Null,
        };
        new.not_null = new.auto;
        let mut foreign = Vec::new();
        for option in &column.options {
            let named = option.name.as_ref().map(|n| n.value.clone());
            match &option.option {
                ColumnOption::NotNull => new.not_null = true,
                ColumnOption::PrimaryKey(_) => table.key = vec![at],
                ColumnOption::Unique(_) => {
                    let name = named.unwrap_or_else(|| self.constraint_name(table, &[&name], "key"));
                    table.unique.push(Unique { name, columns: vec![at] });
                }
                ColumnOption::ForeignKey(key) => foreign.push((named, key)),
                ColumnOption::DialectSpecific(words) => {
                    let words =
                        words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ").to_uppercase();
                    if matches!(words.as_str(), "AUTO_INCREMENT" | "AUTOINCREMENT") {
                        new.auto = true;
                        new.not_null = true;
                    } else {
                        return Err(SqlError::unsupported(words));
                    }
                }
                ColumnOption::Generated { generation_expr: None, .. } | ColumnOption::Identity(_) => {
                    new.auto = true;
                    new.not_null = true;
                }
                ColumnOption::Generated { .. } => return Err(SqlError::unsupported("generated columns")),
                ColumnOption::Null
                | ColumnOption::Default(_)
                | ColumnOption::Check(_)
                | ColumnOption::CharacterSet(_)
                | ColumnOption::Collation(_)
                | ColumnOption::Comment(_)
                | ColumnOption::OnUpdate(_) => {}
                other => return Err(SqlError::unsupported(format!("the column option {other}"))),
            }
        }
        table.columns.push(new);
        for (named, key) in foreign {
            let mut key = key.clone();
            key.columns = vec![column.name.clone()];
            self.foreign(table, named, &key)?;
        }
        Ok(())
    }

    /// The DEFAULT and CHECK of a column, which may name columns that are declared after it.
    pub(super) fn expressions(&self, table: &mut Table, column: &ColumnDef) -> Result<(), SqlError> {
        for option in &column.options {
            match &option.option {
                ColumnOption::Default(expr) => {
                    let sql = self.planner().expression(expr, table)?;
                    let at = table.require(&column.name.value)?;
                    table.columns[at].default = Some(sql);
                    table.columns[at].shown_default = Some(expr.to_string());
                }
                ColumnOption::Check(check) => {
                    let named = option.name.as_ref().or(check.name.as_ref()).map(|n| n.value.clone());
                    let named =
                        named.or_else(|| Some(self.constraint_name(table, &[&column.name.value], "check")));
                    self.check(table, named, &check.expr)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn constraint_name(&self, table: &Table, columns: &[&str], suffix: &str) -> String {
        match self.dialect {
            Dialect::MySql => columns.join("_"),
            _ => format!("{}_{}_{suffix}", table.name, columns.join("_")),
        }
    }

    pub(super) fn check(
        &self,
        table: &mut Table,
        named: Option<String>,
        expr: &Expr,
    ) -> Result<(), SqlError> {
        let sql = self.planner().expression(expr, table)?;
        let count = table.checks.len();
        let name = named.unwrap_or_else(|| match self.dialect {
            Dialect::MySql => format!("CONSTRAINT_{}", count + 1),
            _ if count == 0 => format!("{}_check", table.name),
            _ => format!("{}_check{count}", table.name),
        });
        table.checks.push(Check { name, sql, shown: expr.to_string() });
        Ok(())
    }

    fn foreign(
        &self,
        table: &mut Table,
        named: Option<String>,
        key: &ForeignKeyConstraint,
    ) -> Result<(), SqlError> {
        let columns: Vec<usize> =
            key.columns.iter().map(|c| table.require(&c.value)).collect::<Result<_, _>>()?;
        let parent = bare(&key.foreign_table).to_lowercase();
        if parent != table.name.to_lowercase() {
            self.catalogue.require(&parent)?;
        }
        let names: Vec<&str> = key.columns.iter().map(|c| c.value.as_str()).collect();
        let name = named.or_else(|| key.name.as_ref().map(|n| n.value.clone())).unwrap_or_else(|| match self
            .dialect
        {
            Dialect::MySql => format!("{}_ibfk_{}", table.name, table.foreign.len() + 1),
            _ => self.constraint_name(table, &names, "fkey"),
        });
        let on_delete = Action::from(key.on_delete);
        let on_update = Action::from(key.on_update);
        let referred = key.referred_columns.iter().map(|c| c.value.clone()).collect();
        table.foreign.push(Foreign { name, columns, parent, referred, on_delete, on_update });
        Ok(())
    }

    pub(super) fn constraint(&self, table: &mut Table, constraint: &TableConstraint) -> Result<(), SqlError> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                table.key = columns(table, &key.columns)?;
                if let (Some(name), Dialect::PostgreSql) = (&key.name, self.dialect) {
                    table.key_name.clone_from(&name.value);
                }
            }
            TableConstraint::Unique(unique) => {
                let at = columns(table, &unique.columns)?;
                let names: Vec<&str> = at.iter().map(|&c| table.columns[c].name.as_str()).collect();
                let given = unique.name.as_ref().or(unique.index_name.as_ref()).map(|n| n.value.clone());
                let name = given.unwrap_or_else(|| self.constraint_name(table, &names, "key"));
                table.unique.push(Unique { name, columns: at });
            }
            TableConstraint::ForeignKey(key) => self.foreign(table, None, key)?,
            TableConstraint::Check(_) | TableConstraint::Index(_) | TableConstraint::FulltextOrSpatial(_) => {
            }
            other => return Err(SqlError::unsupported(format!("the constraint {other}"))),
        }
        Ok(())
    }
}

/// The places of the columns that a key or an index lists.
pub(super) fn columns(table: &Table, listed: &[IndexColumn]) -> Result<Vec<usize>, SqlError> {
    listed
        .iter()
        .map(|c| match column_name(&c.column.expr) {
            Some(name) => table.require(name),
            None => Err(SqlError::unsupported("indexes on expressions")),
        })
        .collect()
}

/// AUTO_INCREMENT = n: the next number, unless a greater one is there.
pub(super) fn begin_at(table: &Table, number: &str) {
    if let Ok(number) = number.parse::<i64>() {
        table.counter.fetch_max(number.saturating_sub(1), Ordering::SeqCst);
    }
}
