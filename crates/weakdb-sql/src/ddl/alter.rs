//! ALTER TABLE: one operation at a time changes a copy of the definition, which then replaces it.

use super::Definer;
use super::table::begin_at;
use crate::catalogue::Table;
use crate::error::{Code, SqlError};
use crate::names::bare;
use crate::types::Type;
use anomalist_sqltext::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, DataType, Ident, MySQLColumnPosition,
    RenameTableNameKind, TableConstraint,
};
use anomalist_weakdb::{Granularity, Value};

impl Definer<'_> {
    /// Runs one operation of ALTER TABLE.
    pub(super) fn alter(&mut self, name: &str, operation: &AlterTableOperation) -> Result<(), SqlError> {
        let mut table = (*self.catalogue.require(name)?).clone();
        match operation {
            AlterTableOperation::AddColumn { if_not_exists, column_def, column_position, .. } => {
                require_last(&table, column_position.as_ref())?;
                let added = &column_def.name.value;
                if table.column(added).is_some() {
                    let text = format!("column \"{added}\" of relation \"{name}\" already exists");
                    let error = SqlError::new(Code::DuplicateColumn, text);
                    return if *if_not_exists { Ok(()) } else { Err(error) };
                }
                self.add_column(&mut table, column_def)?;
            }
            AlterTableOperation::AddConstraint { constraint, .. } => {
                return self.add_constraint(table, constraint);
            }
            AlterTableOperation::DropConstraint { name, if_exists, .. } => {
                drop_constraint(&mut table, &name.value, *if_exists)?;
            }
            AlterTableOperation::DropIndex { name } => {
                // A unique constraint is an index in MySQL's words.
                let created = self.catalogue.drop_index(&name.value).is_some();
                drop_constraint(&mut table, &name.value, created)?;
            }
            AlterTableOperation::DropForeignKey { name, .. } => {
                drop_constraint(&mut table, &name.value, false)?
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                self.drop_columns(&mut table, column_names, *if_exists)?;
            }
            AlterTableOperation::RenameColumn { .. } => return Err(SqlError::unsupported("RENAME COLUMN")),
            AlterTableOperation::RenameTable { table_name } => {
                let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = table_name;
                return self.catalogue.rename(name, &bare(to));
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let at = table.require(&column_name.value)?;
                self.alter_column(&mut table, at, op)?;
            }
            AlterTableOperation::ModifyColumn { col_name, data_type, options, .. } => {
                let at = table.require(&col_name.value)?;
                self.modify_column(&mut table, at, data_type, options)?;
            }
            AlterTableOperation::OwnerTo { .. } => return Ok(()),
            AlterTableOperation::AutoIncrement { value, .. } => {
                begin_at(&table, &value.to_string());
                return Ok(());
            }
            other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
        }
        self.catalogue.alter(table);
        Ok(())
    }

    /// Adds a column after the others. Rows that exist have its default.
    fn add_column(&mut self, table: &mut Table, definition: &ColumnDef) -> Result<(), SqlError> {
        let key = table.key.clone();
        self.column(table, definition)?;
        if table.key != key {
            return Err(SqlError::unsupported("a primary key for a table that exists"));
        }
        self.expressions(table, definition)?;
        if let Some(column) = table.columns.last_mut()
            && let Some(default) = &column.default
        {
            let rows = self.engine.query(&format!("SELECT {default}"), &[])?;
            let value = rows.into_iter().flatten().next().unwrap_or(Value::Null);
            column.missing = column.fit(value, self.dialect)?;
        }
        Ok(())
    }

    fn add_constraint(&self, mut table: Table, constraint: &TableConstraint) -> Result<(), SqlError> {
        let key = table.key.clone();
        self.constraint(&mut table, constraint)?;
        if let TableConstraint::Check(check) = constraint {
            let named = check.name.as_ref().map(|n| n.value.clone());
            self.check(&mut table, named, &check.expr)?;
        }
        if table.key == key {
            self.catalogue.alter(table);
            return Ok(());
        }
        if !table.keys.is_empty() {
            return Err(SqlError::unsupported("a primary key for a table that has rows"));
        }
        for &column in &table.key.clone() {
            table.columns[column].not_null = true;
        }
        // Rows are known by their keys, so a table with another key is another table.
        self.catalogue.drop(&table.name);
        self.catalogue.create(table)
    }

    fn drop_columns(&self, table: &mut Table, names: &[Ident], if_exists: bool) -> Result<(), SqlError> {
        // A stored row is a list by place.
        if self.engine.shared().store.store().options().granularity == Granularity::Row {
            return Err(SqlError::unsupported("DROP COLUMN where a row is one key"));
        }
        for column in names {
            match table.column(&column.value) {
                Some(at) => drop_column(table, at)?,
                None if if_exists => {}
                None => return table.require(&column.value).map(|_| ()),
            }
        }
        match table.columns.is_empty() {
            true => Err(SqlError::unsupported("tables without columns")),
            false => Ok(()),
        }
    }

    /// ALTER COLUMN of PostgreSQL: one property.
    fn alter_column(
        &self,
        table: &mut Table,
        at: usize,
        operation: &AlterColumnOperation,
    ) -> Result<(), SqlError> {
        match operation {
            AlterColumnOperation::SetNotNull => table.columns[at].not_null = true,
            AlterColumnOperation::DropNotNull => table.columns[at].not_null = false,
            AlterColumnOperation::SetDefault { value } => {
                table.columns[at].default = Some(self.planner().expression(value, table)?);
                table.columns[at].shown_default = Some(value.to_string());
            }
            AlterColumnOperation::DropDefault => {
                (table.columns[at].default, table.columns[at].shown_default) = (None, None);
            }
            AlterColumnOperation::SetDataType { data_type, .. } => {
                (table.columns[at].kind, table.columns[at].precision) =
                    Type::of_column(data_type, self.dialect)?;
            }
            other => return Err(SqlError::unsupported(format!("ALTER COLUMN {other}"))),
        }
        Ok(())
    }

    /// MODIFY COLUMN of MySQL: the whole definition anew.
    fn modify_column(
        &self,
        table: &mut Table,
        at: usize,
        data_type: &DataType,
        options: &[ColumnOption],
    ) -> Result<(), SqlError> {
        let given = options.iter().find_map(|option| match option {
            ColumnOption::Default(value) => Some(value),
            _ => None,
        });
        let default = given.map(|value| self.planner().expression(value, table)).transpose()?;
        let not_null = table.key.contains(&at) || options.contains(&ColumnOption::NotNull);
        let column = &mut table.columns[at];
        (column.kind, column.precision) = Type::of_column(data_type, self.dialect)?;
        (column.default, column.shown_default) = (default, given.map(ToString::to_string));
        column.not_null = not_null;
        column.auto &= options.iter().any(|o| o.to_string().eq_ignore_ascii_case("auto_increment"));
        Ok(())
    }
}

/// Refuses to add a column anywhere but after the last: an INSERT without a list of columns would mix them
/// up.
fn require_last(table: &Table, position: Option<&MySQLColumnPosition>) -> Result<(), SqlError> {
    let last = table.columns.last().map(|c| c.name.as_str());
    let elsewhere = match position {
        Some(MySQLColumnPosition::After(before)) => last != Some(before.value.as_str()),
        Some(MySQLColumnPosition::First) => true,
        None => false,
    };
    match elsewhere {
        true => Err(SqlError::unsupported("ADD COLUMN … FIRST or AFTER another than the last")),
        false => Ok(()),
    }
}

fn drop_column(table: &mut Table, at: usize) -> Result<(), SqlError> {
    // Cells are known by the column's name, so only places shift.
    let used = table.key.contains(&at)
        || table.unique.iter().any(|u| u.columns.contains(&at))
        || table.foreign.iter().any(|f| f.columns.contains(&at));
    if used {
        return Err(SqlError::unsupported("dropping a column that a constraint uses"));
    }
    table.columns.remove(at);
    let shift = |c: &mut usize| *c -= usize::from(*c > at);
    table.key.iter_mut().for_each(shift);
    table.unique.iter_mut().flat_map(|u| &mut u.columns).for_each(shift);
    table.foreign.iter_mut().flat_map(|f| &mut f.columns).for_each(shift);
    Ok(())
}

fn drop_constraint(table: &mut Table, name: &str, if_exists: bool) -> Result<(), SqlError> {
    let before = (table.unique.len(), table.checks.len(), table.foreign.len());
    table.unique.retain(|u| !u.name.eq_ignore_ascii_case(name));
    table.checks.retain(|c| !c.name.eq_ignore_ascii_case(name));
    table.foreign.retain(|f| !f.name.eq_ignore_ascii_case(name));
    if before == (table.unique.len(), table.checks.len(), table.foreign.len()) && !if_exists {
        let text = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
        return Err(SqlError::new(Code::UndefinedObject, text));
    }
    Ok(())
}
