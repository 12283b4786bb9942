//! Rows that a foreign key deleted: `ON DELETE CASCADE`.
//!
//! The server deletes rows of the referring table together with the one that they refer to, and no statement
//! returns them. A row that is not there at the end, and that no statement deleted, was deleted by the one
//! that deleted the row it referred to, if there was exactly one such deletion. It is noted with the rows
//! that this statement deleted. One cascade may cause the next.
//!
//! Other actions of foreign keys (`SET NULL`, `ON UPDATE CASCADE` and the like) change a row and not its
//! list; [`changes_silently`] names the tables with such rows.

use crate::Flavour;
use crate::record::{Outcome, Run, Step, Version};
use anomalist_databases::Value;
use anomalist_sqltext::ast::{
    ColumnOption, CreateTable, ForeignKeyConstraint, Ident, ObjectName, ReferentialAction, Statement,
    TableConstraint,
};
use anomalist_sqltext::parse;
use std::collections::{BTreeMap, BTreeSet};

/// A reference that deletes.
struct Reference {
    child: String,
    parent: String,
    /// Columns of the child, and those of the parent that they refer to.
    columns: Vec<(String, String)>,
}

/// Adds the rows that foreign keys deleted to the statements that caused it.
pub(crate) fn complete<'s>(flavour: Flavour, run: &mut Run, definitions: impl Iterator<Item = &'s str>) {
    let references = references(flavour, definitions);
    let read_at_end = run
        .transactions
        .last()
        .is_some_and(|end| end.outcome == Outcome::Committed && end.steps.iter().all(|s| s.failed.is_none()));
    if references.is_empty() || !read_at_end {
        return;
    }
    loop {
        let found = cascaded(run, &references);
        if found.is_empty() {
            return;
        }
        for ((txn, step), version) in found {
            let step = &mut run.transactions[txn].steps[step];
            step.deleted.push(version);
            step.deleted.sort_unstable();
        }
    }
}

/// The rows that are gone without a statement that deleted them, and the statement that must have.
fn cascaded(run: &Run, references: &[Reference]) -> Vec<((usize, usize), Version)> {
    let rows = Rows::of(run);
    let mut found = Vec::new();
    for (row, seen) in rows.by_name.iter().filter(|(row, _)| rows.is_gone(row)) {
        let Some((columns, values)) = seen.values.get(seen.longest) else { continue };
        let mut causes = BTreeSet::new();
        for reference in references.iter().filter(|r| r.child == seen.table) {
            let child: Option<Vec<&Value>> =
                reference.columns.iter().map(|(column, _)| cell(columns, values, column)).collect();
            let Some(child) = child.filter(|key| !key.iter().any(|v| v.is_null())) else { continue };
            for (name, place) in &rows.deletions {
                let Some(parent) = rows.by_name.get(name).filter(|p| p.table == reference.parent) else {
                    continue;
                };
                let refers = parent.values.get(parent.longest).is_some_and(|(columns, values)| {
                    let key = reference.columns.iter().map(|(_, column)| cell(columns, values, column));
                    key.collect::<Option<Vec<&Value>>>().is_some_and(|key| key == child)
                });
                if refers {
                    causes.insert(*place);
                }
            }
        }
        if let (Some(&cause), 1) = (causes.first(), causes.len()) {
            found.push((cause, Version { row: (*row).into(), list: seen.longest.into() }));
        }
    }
    found
}

fn cell<'v>(columns: &[String], values: &'v [Value], wanted: &str) -> Option<&'v Value> {
    let name = |column: &String| column.trim_matches(['"', '`']).eq_ignore_ascii_case(wanted);
    values.get(columns.iter().position(name)?)
}

/// What was seen of a row.
#[derive(Default)]
struct Seen<'r> {
    table: String,
    longest: &'r str,
    values: BTreeMap<&'r str, (&'r [String], &'r [Value])>,
}

#[derive(Default)]
struct Rows<'r> {
    by_name: BTreeMap<&'r str, Seen<'r>>,
    /// Rows that statements deleted, with transaction and step.
    deletions: Vec<(&'r str, (usize, usize))>,
    at_end: BTreeSet<&'r str>,
}

impl<'r> Rows<'r> {
    fn of(run: &'r Run) -> Rows<'r> {
        let mut rows = Rows::default();
        run.start.iter().for_each(|step| rows.see(step));
        for (place, txn) in run.transactions.iter().enumerate() {
            for (at, step) in txn.steps.iter().enumerate() {
                if txn.outcome == Outcome::Committed && !step.undone {
                    rows.see(step);
                    rows.deletions.extend(step.deleted.iter().map(|v| (&*v.row, (place, at))));
                }
            }
        }
        if let Some(end) = run.transactions.last() {
            rows.at_end = end.steps.iter().flat_map(|s| &s.rows).map(|v| &*v.row).collect();
        }
        rows
    }

    fn see(&mut self, step: &'r Step) {
        for whole in &step.whole {
            let seen = self.by_name.entry(&whole.version.row).or_default();
            if seen.table.is_empty() {
                seen.table = step.table.as_deref().unwrap_or_default().to_ascii_lowercase();
            }
            seen.values.insert(&whole.version.list, (&step.columns, &whole.values));
        }
        for version in step.rows.iter().chain(&step.deleted) {
            let seen = self.by_name.entry(&version.row).or_default();
            if version.list.len() > seen.longest.len() {
                seen.longest = &version.list;
            }
        }
    }

    fn is_gone(&self, row: &str) -> bool {
        !self.at_end.contains(row) && !self.deletions.iter().any(|(deleted, _)| *deleted == row)
    }
}

/// The foreign keys of a table, with the table in small letters.
fn foreign_keys(flavour: Flavour, definition: &str) -> Option<(String, Vec<ForeignKeyConstraint>)> {
    let Ok(Statement::CreateTable(table)) = parse(flavour.dialect(), definition) else { return None };
    let mut keys = Vec::new();
    for column in &table.columns {
        for option in &column.options {
            if let ColumnOption::ForeignKey(key) = &option.option {
                let mut key = key.clone();
                key.columns = vec![column.name.clone()];
                keys.push(key);
            }
        }
    }
    keys.extend(table.constraints.iter().filter_map(|constraint| match constraint {
        TableConstraint::ForeignKey(key) => Some(key.clone()),
        _ => None,
    }));
    Some((folded(&table.name), keys))
}

/// The tables in which a foreign key changes rows whose lists stay the same.
pub(crate) fn changes_silently<'s>(
    flavour: Flavour,
    definitions: impl Iterator<Item = &'s str>,
) -> BTreeSet<String> {
    let silent = |action: &Option<ReferentialAction>, cascades: bool| match action {
        Some(ReferentialAction::Cascade) => cascades,
        Some(ReferentialAction::SetNull | ReferentialAction::SetDefault) => true,
        Some(ReferentialAction::NoAction | ReferentialAction::Restrict) | None => false,
    };
    let changes = |key: &ForeignKeyConstraint| silent(&key.on_delete, false) || silent(&key.on_update, true);
    let keys = definitions.filter_map(|d| foreign_keys(flavour, d));
    keys.filter(|(_, keys)| keys.iter().any(changes)).map(|(table, _)| table).collect()
}

fn references<'s>(flavour: Flavour, definitions: impl Iterator<Item = &'s str>) -> Vec<Reference> {
    let mut primary: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for definition in definitions {
        if let Ok(Statement::CreateTable(table)) = parse(flavour.dialect(), definition) {
            primary.insert(folded(&table.name), primary_key(&table));
        }
        let Some((child, keys)) = foreign_keys(flavour, definition) else { continue };
        for key in keys.iter().filter(|k| k.on_delete == Some(ReferentialAction::Cascade)) {
            let parent = folded(&key.foreign_table);
            let named: Vec<String> = key.referred_columns.iter().map(|c| c.value.clone()).collect();
            let referred = if named.is_empty() { primary.get(&parent).cloned() } else { Some(named) };
            let columns = key.columns.iter().map(|c: &Ident| c.value.clone());
            let columns = columns.zip(referred.unwrap_or_default()).collect::<Vec<_>>();
            if columns.len() == key.columns.len() {
                found.push(Reference { child: child.clone(), parent, columns });
            }
        }
    }
    found
}

fn primary_key(table: &CreateTable) -> Vec<String> {
    let by_column = table
        .columns
        .iter()
        .filter(|c| c.options.iter().any(|o| matches!(o.option, ColumnOption::PrimaryKey(_))));
    let mut names: Vec<String> = by_column.map(|c| c.name.value.clone()).collect();
    for constraint in &table.constraints {
        if let TableConstraint::PrimaryKey(key) = constraint {
            names.extend(key.columns.iter().map(|c| c.column.expr.to_string()));
        }
    }
    names
}

fn folded(name: &ObjectName) -> String {
    name.0
        .last()
        .map(|part| part.to_string().trim_matches(['"', '`']).to_ascii_lowercase())
        .unwrap_or_default()
}
