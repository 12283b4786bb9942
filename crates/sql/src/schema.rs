//! The tables a run works on: what was generated, and the statements that create it.
//!
//! Every table gets the two auxiliary columns of IsoRel (section 3.1.2): `rowId` names a row for ever,
//! `wList` lists the statements that wrote it. Neither has a constraint or an index, so neither can make
//! two transactions meet that would not meet without them.

use crate::Flavour;
use std::fmt::{self, Write as _};

/// The column that names a row.
pub const ROW_ID: &str = "rowId";
/// The column that lists who wrote a row.
pub const W_LIST: &str = "wList";

/// A value as SQL writes it.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Literal {
    /// No value.
    Null,
    /// An integer.
    Int(i64),
    /// A text.
    Text(String),
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => f.write_str("NULL"),
            Literal::Int(i) => write!(f, "{i}"),
            Literal::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
        }
    }
}

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `INTEGER`
    Int,
    /// `VARCHAR(20)`: a type that every database allows in a key.
    Text,
}

/// A column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// `NOT NULL`
    pub not_null: bool,
    /// `DEFAULT`
    pub default: Option<Literal>,
    /// `CHECK`: the condition.
    pub check: Option<String>,
    /// Numbered by the database.
    pub auto_increment: bool,
}

/// A reference to another table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// The column that refers.
    pub column: usize,
    /// The table referred to.
    pub table: String,
    /// Its key.
    pub key: String,
}

/// A table with its first rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns, without the auxiliary ones.
    pub columns: Vec<Column>,
    /// The columns of the primary key; empty: none.
    pub primary_key: Vec<usize>,
    /// A column with a unique constraint.
    pub unique: Option<usize>,
    /// Columns with a secondary index.
    pub indexes: Vec<usize>,
    /// A reference.
    pub foreign: Option<Foreign>,
    /// The rows at the start.
    pub rows: Vec<Vec<Literal>>,
}

/// A view of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Its name.
    pub name: String,
    /// The query behind it, as generated.
    pub query: String,
    /// The names of its columns, without the auxiliary ones.
    pub columns: Vec<(String, Kind)>,
}

/// Everything a round works on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schema {
    /// In the order in which they are created.
    pub tables: Vec<Table>,
    /// Views of them.
    pub views: Vec<View>,
}

impl Schema {
    /// Statements that create the tables without auxiliary columns, then the rows, then the views.
    pub fn create(&self, flavour: Flavour) -> Vec<String> {
        let mut statements = Vec::new();
        for table in &self.tables {
            statements.extend(table.create(flavour));
            statements.extend(table.rows.iter().map(|row| {
                let columns: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
                let values: Vec<String> = row.iter().map(Literal::to_string).collect();
                format!("INSERT INTO {}({}) VALUES ({})", table.name, columns.join(", "), values.join(", "))
            }));
        }
        statements
            .extend(self.views.iter().map(|view| format!("CREATE VIEW {} AS {}", view.name, view.query)));
        statements
    }
}

impl Table {
    /// `CREATE TABLE` and `CREATE INDEX`.
    fn create(&self, flavour: Flavour) -> Vec<String> {
        let mut parts: Vec<String> = self.columns.iter().map(|c| self.column(c, flavour)).collect();
        let name = |&i: &usize| self.columns[i].name.clone();
        let numbered = self.primary_key.first().is_some_and(|&i| self.columns[i].auto_increment);
        let said = numbered && flavour == Flavour::Sqlite;
        if !self.primary_key.is_empty() && !said {
            let key: Vec<String> = self.primary_key.iter().map(name).collect();
            parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
        }
        if let Some(unique) = &self.unique {
            parts.push(format!("UNIQUE ({})", name(unique)));
        }
        if let Some(foreign) = &self.foreign {
            let column = name(&foreign.column);
            parts.push(format!("FOREIGN KEY ({column}) REFERENCES {}({})", foreign.table, foreign.key));
        }
        let mut statements = vec![format!("CREATE TABLE {} ({})", self.name, parts.join(", "))];
        for index in &self.indexes {
            let column = name(index);
            statements.push(format!("CREATE INDEX {0}_{column} ON {0}({column})", self.name));
        }
        statements
    }

    fn column(&self, column: &Column, flavour: Flavour) -> String {
        let kind = match column.kind {
            Kind::Int => "INTEGER",
            Kind::Text => "VARCHAR(20)",
        };
        let mut out = format!("{} {kind}", column.name);
        if column.auto_increment {
            out += match flavour {
                Flavour::PostgreSql => " GENERATED BY DEFAULT AS IDENTITY",
                Flavour::Sqlite => " PRIMARY KEY AUTOINCREMENT",
                _ => " AUTO_INCREMENT",
            };
        } else if column.not_null {
            out += " NOT NULL";
        }
        if let Some(default) = &column.default {
            _ = write!(out, " DEFAULT {default}");
        }
        if let Some(check) = &column.check {
            _ = write!(out, " CHECK ({check})");
        }
        out
    }

    /// Whether a column is part of a key, so that a value occurs once.
    pub fn is_keyed(&self, column: usize) -> bool {
        self.primary_key.contains(&column) || self.unique == Some(column)
    }

    /// The columns of the primary key or the unique constraint, by which an upsert finds the row it meets.
    pub fn key(&self) -> Option<Vec<usize>> {
        match (&self.primary_key[..], self.unique) {
            ([], None) => None,
            ([], Some(unique)) => Some(vec![unique]),
            (key, _) => Some(key.to_vec()),
        }
    }
}
