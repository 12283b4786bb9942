//! Random transactions: statements that write, savepoints, ends.

use super::query::From;
use super::schema::fresh;
use super::{End, Knobs, Transaction, percent};
use crate::Flavour;
use crate::schema::{Kind, Schema, Table};
use fastrand::Rng;

/// Writes statements about a schema.
pub(super) struct Writer<'a> {
    pub schema: &'a Schema,
    pub knobs: &'a Knobs,
    pub flavour: Flavour,
    pub rng: &'a mut Rng,
}

/// Rows that `INSERT … SELECT` copies at most.
const COPIED: usize = 3;

/// How a statement is made.
type Make<'a> = fn(&mut Writer<'a>) -> String;

impl<'a> Writer<'a> {
    /// A whole transaction.
    pub fn transaction(&mut self) -> Transaction {
        if percent(self.rng, self.knobs.autocommit) {
            return Transaction { statements: vec![self.statement()], end: End::Autocommit };
        }
        let count = self.rng.usize(1..=self.knobs.statements.max(1));
        let mut statements: Vec<String> = (0..count).map(|_| self.statement()).collect();
        if count > 2 && percent(self.rng, self.knobs.savepoint) {
            let from = self.rng.usize(..count - 1);
            let to = self.rng.usize(from + 1..count);
            statements.insert(to, "ROLLBACK TO SAVEPOINT s1".to_owned());
            statements.insert(from, "SAVEPOINT s1".to_owned());
        }
        let end = if percent(self.rng, self.knobs.rollback) { End::Rollback } else { End::Commit };
        Transaction { statements, end }
    }

    fn statement(&mut self) -> String {
        let mix = &self.knobs.mix;
        let choices: [(u32, Make<'a>); 11] = [
            (mix.select, Writer::select),
            (mix.cross, Writer::cross),
            (mix.compound, Writer::compound),
            (mix.aggregate, Writer::aggregate),
            (mix.locking, Writer::locking),
            (mix.insert, Writer::insert),
            (mix.copy, Writer::copy),
            (mix.upsert, Writer::upsert),
            (mix.update, Writer::update),
            (mix.delete, Writer::delete),
            (mix.replace, Writer::replace),
        ];
        let total: u32 = choices.iter().map(|c| c.0).sum();
        let mut left = self.rng.u32(..total.max(1));
        for (share, make) in choices {
            if left < share {
                return make(self);
            }
            left -= share;
        }
        self.select()
    }

    fn table(&mut self) -> &'a Table {
        let schema = self.schema;
        &schema.tables[self.rng.usize(..schema.tables.len())]
    }

    /// A row; one that `meets` others has a key that they may have.
    fn row(&mut self, table: &Table, meets: bool) -> String {
        let key = table.key().filter(|_| meets).unwrap_or_default();
        let cell = |i| match key.contains(&i) {
            true => self.literal(table.columns[i].kind),
            false => self.cell(table, i),
        };
        let cells: Vec<String> = (0..table.columns.len()).map(cell).collect();
        format!("({})", cells.join(", "))
    }

    /// A value for a column, mostly one that its constraints allow: in PostgreSQL a refused row is the end
    /// of its transaction.
    fn cell(&mut self, table: &Table, column: usize) -> String {
        let kind = table.columns[column].kind;
        if let Some(foreign) = table.foreign.as_ref().filter(|f| f.column == column)
            && let Some(parent) = self.schema.tables.iter().find(|t| t.name == foreign.table)
            && percent(self.rng, 95)
        {
            return self.rng.usize(1..=parent.rows.len().max(1)).to_string();
        }
        match table.is_keyed(column) && percent(self.rng, 75) {
            true => fresh(kind, self.knobs, self.rng).to_string(),
            false => self.literal(kind),
        }
    }

    fn values(&mut self, table: &Table, meets: bool) -> String {
        let rows = if !meets && percent(self.rng, 20) { 2 } else { 1 };
        let rows: Vec<String> = (0..rows).map(|_| self.row(table, meets)).collect();
        format!("{}({}) VALUES {}", table.name, names(table).join(", "), rows.join(", "))
    }

    fn insert(&mut self) -> String {
        let table = self.table();
        if table.columns[0].auto_increment && table.columns.len() > 1 && self.rng.bool() {
            let names = names(table)[1..].join(", ");
            let cells: Vec<String> = (1..table.columns.len()).map(|i| self.cell(table, i)).collect();
            return format!("INSERT INTO {}({names}) VALUES ({})", table.name, cells.join(", "));
        }
        format!("INSERT INTO {}", self.values(table, false))
    }

    fn replace(&mut self) -> String {
        let table = self.table();
        format!("REPLACE INTO {}", self.values(table, true))
    }

    fn copy(&mut self) -> String {
        let table = self.table();
        let from = as_from(table);
        let condition = self.condition(&from, "");
        let names = names(table);
        // A key that others have would only fail.
        let chosen: Vec<String> = (0..names.len())
            .map(|i| match (table.is_keyed(i), table.columns[i].kind) {
                (true, Kind::Int) => format!("{} + {}", names[i], fresh(Kind::Int, self.knobs, self.rng)),
                (true, Kind::Text) => self.cell(table, i),
                (false, _) => names[i].clone(),
            })
            .collect();
        // Without a limit a table would double again and again. With the order, it is the same rows
        // whatever way they are found.
        format!(
            "INSERT INTO {0}({1}) SELECT {2} FROM {0} WHERE {condition} ORDER BY {1} LIMIT {COPIED}",
            table.name,
            names.join(", "),
            chosen.join(", ")
        )
    }

    fn upsert(&mut self) -> String {
        let table = self.table();
        let values = self.values(table, true);
        let (Some(key), names) = (table.key(), names(table)) else {
            return format!("INSERT INTO {values}");
        };
        let free: Vec<&String> =
            names.iter().enumerate().filter(|(i, _)| !key.contains(i)).map(|(_, n)| n).collect();
        let target = free.first().map_or(&names[key[0]], |name| *name);
        if self.flavour.is_mysql() {
            return format!("INSERT INTO {values} ON DUPLICATE KEY UPDATE {target} = VALUES({target})");
        }
        let key: Vec<&str> = key.iter().map(|&i| names[i].as_str()).collect();
        format!(
            "INSERT INTO {values} ON CONFLICT ({}) DO UPDATE SET {target} = excluded.{target}",
            key.join(", ")
        )
    }

    fn update(&mut self) -> String {
        let table = self.table();
        let from = as_from(table);
        let mut free: Vec<usize> = (0..table.columns.len()).filter(|&i| !table.is_keyed(i)).collect();
        if free.is_empty() || percent(self.rng, 5) {
            free = (0..table.columns.len()).collect();
        }
        let at = free[self.rng.usize(..free.len())];
        let column = &table.columns[at];
        if table.is_keyed(at) {
            // Several rows would get one key.
            let (new, old) = (self.cell(table, at), self.literal(column.kind));
            return format!("UPDATE {} SET {1} = {new} WHERE {1} = {old}", table.name, column.name);
        }
        let filter = self.filter(&from, "");
        if table.foreign.as_ref().is_some_and(|f| f.column == at) {
            return format!("UPDATE {} SET {} = {}{filter}", table.name, column.name, self.cell(table, at));
        }
        let value = match (column.kind, self.rng.u8(0..5)) {
            (Kind::Int, 0) => format!("{} + 1", column.name),
            (kind, 1) if percent(self.rng, 40) => self.subquery(kind, &table.name),
            (kind, _) => self.literal(kind),
        };
        format!("UPDATE {} SET {} = {value}{filter}", table.name, column.name)
    }

    /// A scalar subquery of another table; MySQL refuses one of the same.
    fn subquery(&mut self, kind: Kind, not: &str) -> String {
        let schema = self.schema;
        let found = schema.tables.iter().filter(|t| t.name != not).find_map(|t| {
            let column = t.columns.iter().find(|c| c.kind == kind)?;
            Some(format!("(SELECT MAX({}) FROM {})", column.name, t.name))
        });
        found.unwrap_or_else(|| self.literal(kind))
    }

    fn delete(&mut self) -> String {
        let table = self.table();
        let from = as_from(table);
        let condition = self.condition(&from, "");
        format!("DELETE FROM {} WHERE {condition}", table.name)
    }
}

fn names(table: &Table) -> Vec<String> {
    table.columns.iter().map(|c| c.name.clone()).collect()
}

fn as_from(table: &Table) -> From {
    From {
        name: table.name.clone(),
        columns: table.columns.iter().map(|c| (c.name.clone(), c.kind)).collect(),
    }
}
