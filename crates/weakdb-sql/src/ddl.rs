//! Definitions: CREATE, ALTER, DROP. They take effect at once, for all sessions, and are not undone by
//! ROLLBACK.

use super::catalogue::{Action, Catalogue, Check, Column, Foreign, Keys, Table, Unique, View};
use super::engine::Engine;
use super::error::{Code, SqlError};
use super::names::bare;
use super::plan::Planner;
use super::types::Type;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, CreateIndex, CreateTable,
    CreateTableOptions, Expr, ForeignKeyConstraint, IndexColumn, MySQLColumnPosition, ObjectName, ObjectType,
    RenameTableNameKind, SequenceOptions, SqlOption, Statement, TableConstraint,
};
use anomalist_weakdb::{Granularity, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Changes definitions for one statement.
pub struct Definer<'a> {
    /// All definitions.
    pub catalogue: &'a Catalogue,
    /// Whose SQL it is.
    pub dialect: Dialect,
    /// For defaults of new columns and checks of existing rows.
    pub engine: &'a mut Engine,
}

impl Definer<'_> {
    fn planner(&self) -> Planner<'_> {
        Planner { catalogue: self.catalogue, dialect: self.dialect }
    }

    /// Runs the statement; the words of its success.
    pub fn run(&mut self, statement: &Statement) -> Result<&'static str, SqlError> {
        match statement {
            Statement::CreateTable(create) => self.create_table(create).map(|()| "CREATE TABLE"),
            Statement::CreateIndex(create) => self.create_index(create).map(|()| "CREATE INDEX"),
            Statement::AlterTable(alter) => {
                let name = bare(&alter.name);
                if alter.if_exists && self.catalogue.table(&name).is_none() {
                    return Ok("ALTER TABLE");
                }
                for operation in &alter.operations {
                    self.alter(&name, operation)?;
                }
                Ok("ALTER TABLE")
            }
            Statement::CreateView(view) => {
                let name = bare(&view.name);
                let exists = self.catalogue.view(&name).is_some() || self.catalogue.table(&name).is_some();
                if exists && !view.or_replace {
                    return if view.if_not_exists { Ok("CREATE VIEW") } else { Err(exists_already(&name)) };
                }
                let (sql, mut columns, tables) = self.planner().view(view.query.clone())?;
                columns
                    .iter_mut()
                    .zip(&view.columns)
                    .for_each(|(c, named)| c.0.clone_from(&named.name.value));
                let named: Vec<String> = columns.iter().map(|c| Dialect::MySql.quote(&c.0)).collect();
                let sql = if view.columns.is_empty() {
                    sql
                } else {
                    format!("WITH named({}) AS ({sql}) SELECT * FROM named", named.join(", "))
                };
                let view = View { id: 0, shown: view.query.to_string(), sql, columns, tables };
                self.catalogue.set_view(&name, Some(view));
                Ok("CREATE VIEW")
            }
            Statement::CreateSequence { name, if_not_exists, sequence_options, .. } => {
                let name = bare(name);
                let (start, increment) = steps(sequence_options)?;
                if self.catalogue.sequence(&name).is_some() {
                    return if *if_not_exists { Ok("CREATE SEQUENCE") } else { Err(exists_already(&name)) };
                }
                self.catalogue.add_sequence(&name, start, increment);
                Ok("CREATE SEQUENCE")
            }
            Statement::RenameTable(renames) => {
                for rename in renames {
                    self.catalogue.rename(&bare(&rename.old_name), &bare(&rename.new_name))?;
                }
                Ok("RENAME TABLE")
            }
            Statement::CreateSchema { .. } => Ok("CREATE SCHEMA"),
            Statement::CreateDatabase { .. } => Ok("CREATE DATABASE"),
            Statement::Drop { object_type, if_exists, names, cascade, table, .. } => {
                self.drop(object_type, *if_exists, names, *cascade, table.as_ref())
            }
            other => Err(SqlError::unsupported(other)),
        }
    }

    fn create_table(&mut self, create: &CreateTable) -> Result<(), SqlError> {
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
        self.catalogue.create(table)
    }

    /// The column with its type and keys; expressions come later.
    fn column(&self, table: &mut Table, column: &ColumnDef) -> Result<(), SqlError> {
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

    fn expressions(&self, table: &mut Table, column: &ColumnDef) -> Result<(), SqlError> {
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

    fn check(&self, table: &mut Table, named: Option<String>, expr: &Expr) -> Result<(), SqlError> {
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

    fn constraint(&self, table: &mut Table, constraint: &TableConstraint) -> Result<(), SqlError> {
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

    fn create_index(&mut self, create: &CreateIndex) -> Result<(), SqlError> {
        let mut table = (*self.catalogue.require(&bare(&create.table_name))?).clone();
        let at = columns(&table, &create.columns);
        let name = match &create.name {
            Some(name) => bare(name),
            None => {
                let names: Vec<&str> = at.iter().flatten().map(|&c| table.columns[c].name.as_str()).collect();
                format!("{}_{}_idx", table.name, names.join("_"))
            }
        };
        if create.unique && create.predicate.is_some() {
            return Err(SqlError::unsupported("partial unique indexes"));
        }
        // What is refused must not leave its name behind.
        let at = if create.unique { at? } else { Vec::new() };
        let over = create.columns.iter().map(|c| c.column.to_string()).collect();
        if !self.catalogue.add_index(&name, &table.name, create.unique, over) {
            return if create.if_not_exists { Ok(()) } else { Err(exists_already(&name)) };
        }
        if create.unique {
            table.unique.push(Unique { name, columns: at });
            self.catalogue.alter(table);
        }
        Ok(())
    }

    fn alter(&mut self, name: &str, operation: &AlterTableOperation) -> Result<(), SqlError> {
        let mut table = (*self.catalogue.require(name)?).clone();
        match operation {
            AlterTableOperation::AddColumn { if_not_exists, column_def, column_position, .. } => {
                let last = table.columns.last().map(|c| c.name.as_str());
                let elsewhere = match column_position {
                    Some(MySQLColumnPosition::After(before)) => last != Some(before.value.as_str()),
                    Some(MySQLColumnPosition::First) => true,
                    None => false,
                };
                // An INSERT without a list of columns would mix them up.
                if elsewhere {
                    return Err(SqlError::unsupported("ADD COLUMN … FIRST or AFTER another than the last"));
                }
                if table.column(&column_def.name.value).is_some() {
                    if *if_not_exists {
                        return Ok(());
                    }
                    let text =
                        format!("column \"{}\" of relation \"{name}\" already exists", column_def.name.value);
                    return Err(SqlError::new(Code::DuplicateColumn, text));
                }
                let key = table.key.clone();
                self.column(&mut table, column_def)?;
                if table.key != key {
                    return Err(SqlError::unsupported("a primary key for a table that exists"));
                }
                self.expressions(&mut table, column_def)?;
                if let Some(column) = table.columns.last_mut()
                    && let Some(default) = &column.default
                {
                    let rows = self.engine.query(&format!("SELECT {default}"), &[])?;
                    let value = rows.into_iter().flatten().next().unwrap_or(Value::Null);
                    column.missing = column.fit(value, self.dialect)?;
                }
            }
            AlterTableOperation::AddConstraint { constraint, .. } => {
                let key = table.key.clone();
                self.constraint(&mut table, constraint)?;
                if let TableConstraint::Check(check) = constraint {
                    let named = check.name.as_ref().map(|n| n.value.clone());
                    self.check(&mut table, named, &check.expr)?;
                }
                if table.key != key {
                    if !table.keys.is_empty() {
                        return Err(SqlError::unsupported("a primary key for a table that has rows"));
                    }
                    for &column in &table.key.clone() {
                        table.columns[column].not_null = true;
                    }
                    // Rows are known by their keys, so a table with another key is another table.
                    self.catalogue.drop(name);
                    return self.catalogue.create(table);
                }
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
                // A stored row is a list by place.
                if self.engine.shared().store.store().options().granularity == Granularity::Row {
                    return Err(SqlError::unsupported("DROP COLUMN where a row is one key"));
                }
                for column in column_names {
                    match table.column(&column.value) {
                        Some(at) => drop_column(&mut table, at)?,
                        None if *if_exists => {}
                        None => return table.require(&column.value).map(|_| ()),
                    }
                }
            }
            AlterTableOperation::RenameColumn { .. } => return Err(SqlError::unsupported("RENAME COLUMN")),
            AlterTableOperation::RenameTable { table_name } => {
                let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = table_name;
                return self.catalogue.rename(name, &bare(to));
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let at = table.require(&column_name.value)?;
                match op {
                    AlterColumnOperation::SetNotNull => table.columns[at].not_null = true,
                    AlterColumnOperation::DropNotNull => table.columns[at].not_null = false,
                    AlterColumnOperation::SetDefault { value } => {
                        table.columns[at].default = Some(self.planner().expression(value, &table)?);
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
            }
            AlterTableOperation::ModifyColumn { col_name, data_type, options, .. } => {
                let at = table.require(&col_name.value)?;
                let given = options.iter().find_map(|option| match option {
                    ColumnOption::Default(value) => Some(value),
                    _ => None,
                });
                let default = given.map(|value| self.planner().expression(value, &table)).transpose()?;
                let not_null = table.key.contains(&at) || options.contains(&ColumnOption::NotNull);
                let column = &mut table.columns[at];
                (column.kind, column.precision) = Type::of_column(data_type, self.dialect)?;
                (column.default, column.shown_default) = (default, given.map(ToString::to_string));
                column.not_null = not_null;
                column.auto &= options.iter().any(|o| o.to_string().eq_ignore_ascii_case("auto_increment"));
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

    fn drop(
        &mut self,
        kind: &ObjectType,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
        on: Option<&ObjectName>,
    ) -> Result<&'static str, SqlError> {
        for name in names {
            let name = bare(name);
            let found = match kind {
                ObjectType::Table => {
                    let lower = name.to_lowercase();
                    let children = self.catalogue.tables().into_iter().filter(|t| {
                        t.name.to_lowercase() != lower && t.foreign.iter().any(|f| f.parent == lower)
                    });
                    let among = |t: &Table| names.iter().any(|n| bare(n).eq_ignore_ascii_case(&t.name));
                    for child in children.collect::<Vec<_>>() {
                        if cascade || among(&child) {
                            let mut child = (*child).clone();
                            child.foreign.retain(|f| f.parent != lower);
                            self.catalogue.alter(child);
                        } else if self.catalogue.table(&name).is_some() {
                            let text =
                                format!("cannot drop table {name} because table {} refers to it", child.name);
                            return Err(SqlError::new(Code::HasChildren, text));
                        }
                    }
                    self.catalogue.drop(&name)
                }
                ObjectType::View => self.catalogue.set_view(&name, None),
                ObjectType::Sequence => self.catalogue.drop_sequence(&name),
                ObjectType::Index => match (self.catalogue.drop_index(&name), on) {
                    (Some(index), _) => {
                        if let (true, Some(table)) = (index.unique, self.catalogue.table(&index.table)) {
                            let mut table = (*table).clone();
                            table.unique.retain(|u| !u.name.eq_ignore_ascii_case(&name));
                            self.catalogue.alter(table);
                        }
                        true
                    }
                    (None, _) => false,
                },
                _ => true,
            };
            if !found && !if_exists {
                let code =
                    if *kind == ObjectType::Table { Code::UndefinedTable } else { Code::UndefinedObject };
                return Err(SqlError::new(
                    code,
                    format!("{} \"{name}\" does not exist", kind.to_string().to_lowercase()),
                ));
            }
        }
        Ok(match kind {
            ObjectType::Table => "DROP TABLE",
            ObjectType::View => "DROP VIEW",
            ObjectType::Sequence => "DROP SEQUENCE",
            ObjectType::Index => "DROP INDEX",
            _ => "DROP SCHEMA",
        })
    }
}

/// Where a sequence starts and how it goes on.
fn steps(options: &[SequenceOptions]) -> Result<(i64, i64), SqlError> {
    let whole = |expr: &Expr| {
        let unsupported = || SqlError::unsupported(format!("{expr} for a sequence"));
        expr.to_string().replace(' ', "").parse::<i64>().map_err(|_| unsupported())
    };
    let (mut start, mut increment) = (None, 1);
    for option in options {
        match option {
            SequenceOptions::StartWith(expr, _) => start = Some(whole(expr)?),
            SequenceOptions::IncrementBy(expr, _) => increment = whole(expr)?,
            SequenceOptions::Cycle(false) => return Err(SqlError::unsupported("CYCLE")),
            _ => {}
        }
    }
    // Numbers count down to -1 first.
    Ok((start.unwrap_or(if increment < 0 { -1 } else { 1 }), increment))
}

fn exists_already(name: &str) -> SqlError {
    SqlError::new(Code::DuplicateTable, format!("relation \"{name}\" already exists"))
}

fn columns(table: &Table, listed: &[IndexColumn]) -> Result<Vec<usize>, SqlError> {
    listed
        .iter()
        .map(|c| match super::catalogue::column_name(&c.column.expr) {
            Some(name) => table.require(name),
            None => Err(SqlError::unsupported("indexes on expressions")),
        })
        .collect()
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

/// AUTO_INCREMENT = n: the next number, unless a greater one is there.
fn begin_at(table: &Table, number: &str) {
    if let Ok(number) = number.parse::<i64>() {
        table.counter.fetch_max(number.saturating_sub(1), Ordering::SeqCst);
    }
}
