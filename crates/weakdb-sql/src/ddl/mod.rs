//! Definitions: CREATE, ALTER, DROP. They take effect at once, for all sessions, and are not undone by
//! ROLLBACK.

mod alter;
mod table;

use crate::catalogue::{Catalogue, Table, Unique, View};
use crate::engine::Engine;
use crate::error::{Code, SqlError};
use crate::names::bare;
use crate::plan::Planner;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{
    CreateIndex, CreateView, Expr, ObjectName, ObjectType, SequenceOptions, Statement,
};
use table::columns;

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
            Statement::CreateView(view) => self.create_view(view).map(|()| "CREATE VIEW"),
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
            Statement::Drop { object_type, if_exists, names, cascade, .. } => {
                self.drop(object_type, *if_exists, names, *cascade)
            }
            other => Err(SqlError::unsupported(other)),
        }
    }

    fn create_view(&self, view: &CreateView) -> Result<(), SqlError> {
        let name = bare(&view.name);
        let exists = self.catalogue.view(&name).is_some() || self.catalogue.table(&name).is_some();
        if exists && !view.or_replace {
            return if view.if_not_exists { Ok(()) } else { Err(exists_already(&name)) };
        }
        let (mut sql, mut columns, tables) = self.planner().view(view.query.clone())?;
        columns.iter_mut().zip(&view.columns).for_each(|(c, named)| c.0.clone_from(&named.name.value));
        if !view.columns.is_empty() {
            let named: Vec<String> = columns.iter().map(|c| Dialect::MySql.quote(&c.0)).collect();
            sql = format!("WITH named({}) AS ({sql}) SELECT * FROM named", named.join(", "));
        }
        if !exists {
            self.catalogue.require_free(&name)?;
        }
        self.engine.query(&format!("SELECT * FROM ({sql}) LIMIT 0"), &[])?;
        let view = View { id: 0, shown: view.query.to_string(), sql, columns, tables };
        self.catalogue.set_view(&name, Some(view));
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

    fn drop(
        &self,
        kind: &ObjectType,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
    ) -> Result<&'static str, SqlError> {
        for name in names {
            let name = bare(name);
            let found = match kind {
                ObjectType::Table => self.drop_table(&name, names, cascade)?,
                ObjectType::View => self.catalogue.set_view(&name, None),
                ObjectType::Sequence => self.catalogue.drop_sequence(&name),
                ObjectType::Index => self.drop_index(&name),
                _ => true,
            };
            if !found && !if_exists {
                let code =
                    if *kind == ObjectType::Table { Code::UndefinedTable } else { Code::UndefinedObject };
                let text = format!("{} \"{name}\" does not exist", kind.to_string().to_lowercase());
                return Err(SqlError::new(code, text));
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

    /// Drops one of the tables that a statement drops together. A foreign key that refers to it prevents
    /// that, unless its table is dropped too or CASCADE removes it. False if there is no such table.
    fn drop_table(&self, name: &str, together: &[ObjectName], cascade: bool) -> Result<bool, SqlError> {
        let lower = name.to_lowercase();
        let refers = |t: &Table| t.foreign.iter().any(|f| f.parent == lower);
        let among = |t: &Table| together.iter().any(|n| bare(n).eq_ignore_ascii_case(&t.name));
        let others = self.catalogue.tables().into_iter().filter(|t| t.name.to_lowercase() != lower);
        for child in others.filter(|t| refers(t)) {
            if cascade || among(&child) {
                let mut child = (*child).clone();
                child.foreign.retain(|f| f.parent != lower);
                self.catalogue.alter(child);
            } else if self.catalogue.table(name).is_some() {
                let text = format!("cannot drop table {name} because table {} refers to it", child.name);
                return Err(SqlError::new(Code::HasChildren, text));
            }
        }
        Ok(self.catalogue.drop(name))
    }

    /// Drops an index, and the unique constraint that it was created with. False if there is no such index.
    fn drop_index(&self, name: &str) -> bool {
        let Some(index) = self.catalogue.drop_index(name) else { return false };
        if let (true, Some(table)) = (index.unique, self.catalogue.table(&index.table)) {
            let mut table = (*table).clone();
            table.unique.retain(|u| !u.name.eq_ignore_ascii_case(name));
            self.catalogue.alter(table);
        }
        true
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
