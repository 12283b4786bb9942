//! The definition of a table: its columns and constraints, and the names of its rows and cells in the store.
//!
//! The names follow section 5 of the paper: `account.has/7` is the membership of the row with primary key 7,
//! `account/7/balance` a cell of it.

use super::keys::{Keys, encode};
use crate::decimal::Decimal;
use crate::error::{Code, SqlError};
use crate::types::Type;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{Expr, ReferentialAction};
use anomalist_weakdb::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// As declared.
    pub name: String,
    /// Its type.
    pub kind: Type,
    /// NOT NULL, or part of the primary key.
    pub not_null: bool,
    /// The digits of a decimal, if they were declared.
    pub precision: Option<u64>,
    /// DEFAULT, an expression of SQLite.
    pub default: Option<String>,
    /// DEFAULT, as it was written.
    pub shown_default: Option<String>,
    /// Counts upwards by itself.
    pub auto: bool,
    /// What rows hold that were there before the column was.
    pub missing: Value,
}

impl Column {
    /// A value as this column holds it.
    ///
    /// # Errors
    /// If it is no value of the column's type, or has more digits than the column.
    pub fn fit(&self, value: Value, dialect: Dialect) -> Result<Value, SqlError> {
        let value = self.kind.coerce(value, dialect)?;
        match (Decimal::of(&value), self.kind) {
            (Some(decimal), Type::Numeric(scale)) => Ok(decimal.fit(self.precision, scale, dialect)?.into()),
            _ => Ok(value),
        }
    }

    /// Its type as MySQL shows it.
    #[must_use]
    pub fn mysql_type(&self) -> String {
        match (self.kind, self.precision) {
            (Type::Numeric(scale), Some(digits)) => format!("decimal({digits},{})", scale.unwrap_or(0)),
            _ => self.kind.mysql_name(),
        }
    }
}

/// A unique constraint beside the primary key.
#[derive(Clone, Debug)]
pub struct Unique {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<usize>,
}

/// CHECK.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// An expression of SQLite over the table's columns.
    pub sql: String,
    /// As it was written.
    pub shown: String,
}

/// What happens to children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing; the parent may not go.
    Refuse,
    /// They go too.
    Cascade,
    /// They lose their parent.
    SetNull,
    /// They get the default parent.
    SetDefault,
}

impl From<Option<ReferentialAction>> for Action {
    fn from(action: Option<ReferentialAction>) -> Self {
        match action {
            Some(ReferentialAction::Cascade) => Self::Cascade,
            Some(ReferentialAction::SetNull) => Self::SetNull,
            Some(ReferentialAction::SetDefault) => Self::SetDefault,
            _ => Self::Refuse,
        }
    }
}

/// A foreign key.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// Its name.
    pub name: String,
    /// The child's columns.
    pub columns: Vec<usize>,
    /// The parent, in lower case.
    pub parent: String,
    /// The parent's columns; empty: its primary key.
    pub referred: Vec<String>,
    /// When the parent goes.
    pub on_delete: Action,
    /// When the parent's key changes.
    pub on_update: Action,
}

/// A table as it is at a time.
#[derive(Clone, Debug)]
pub struct Table {
    /// Tells tables of the same name apart, one dropped and one created later.
    pub id: u32,
    /// As declared.
    pub name: String,
    /// Its name in the store.
    pub stored: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The primary key; empty if rows have only a number.
    pub key: Vec<usize>,
    /// The name of the primary key.
    pub key_name: String,
    /// Unique constraints.
    pub unique: Vec<Unique>,
    /// CHECK constraints.
    pub checks: Vec<Check>,
    /// Foreign keys.
    pub foreign: Vec<Foreign>,
    /// The primary keys known.
    pub keys: Arc<Keys>,
    /// The last number given by AUTO_INCREMENT or SERIAL.
    pub counter: Arc<AtomicI64>,
}

impl Table {
    /// The column of this name, in any case.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// The column of this name, or the error that there is none.
    pub fn require(&self, name: &str) -> Result<usize, SqlError> {
        self.column(name).ok_or_else(|| {
            let text = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            SqlError::new(Code::UndefinedColumn, text)
        })
    }

    /// A value as this column holds it. In a key or a unique constraint a number has one text, whatever its
    /// scale.
    ///
    /// # Errors
    /// If it is no value of the column's type, or has more digits than the column.
    pub fn fit(&self, column: usize, value: Value, dialect: Dialect) -> Result<Value, SqlError> {
        let value = self.columns[column].fit(value, dialect)?;
        let decides = self.key.contains(&column) || self.unique.iter().any(|u| u.columns.contains(&column));
        match Decimal::of(&value) {
            Some(decimal) if decides && self.columns[column].kind == Type::Numeric(None) => {
                Ok(decimal.normalized().into())
            }
            _ => Ok(value),
        }
    }

    /// The membership of a row, in the store.
    #[must_use]
    pub fn membership(&self, key: &str) -> String {
        format!("{}.has/{key}", self.stored)
    }

    /// A cell, in the store.
    #[must_use]
    pub fn cell(&self, key: &str, column: usize) -> String {
        format!("{}/{key}/{}", self.stored, self.columns[column].name)
    }

    /// A whole row, in the store, where rows are not split into cells.
    #[must_use]
    pub fn row(&self, key: &str) -> String {
        format!("{}/{key}", self.stored)
    }

    /// Which row holds these values of a unique constraint, in the store.
    #[must_use]
    pub fn holder(&self, unique: &Unique, values: &[Value]) -> String {
        format!("{}.unique.{}/{}", self.stored, unique.name, encode(values))
    }
}

/// The bare name of an expression that names a column.
#[must_use]
pub fn column_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(names) => names.last().map(|n| n.value.as_str()),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}
