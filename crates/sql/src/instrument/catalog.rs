//! What is known of tables and views: their columns, their keys, and under which names they offer the
//! auxiliary columns.

use crate::schema::{ROW_ID, W_LIST};
use anomalist_sqltext::ast::{
    ColumnDef, ColumnOption, CreateTable, Expr, IndexColumn, ObjectName, ObjectNamePart, TableConstraint,
};
use std::collections::BTreeMap;

/// How a relation tells which rows are behind one of its rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Aux {
    /// One row: its name and its list, by column name or expression.
    Pair(String, String),
    /// Any number of rows in one text, `row=list;row=list`.
    Rows(String),
}

/// A table, a view, or a query in parentheses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Relation {
    /// Its columns without the auxiliary ones, if they are known.
    pub columns: Option<Vec<String>>,
    /// Its primary key and its unique constraints.
    pub keys: Vec<Vec<String>>,
    /// Columns for which MySQL makes up a value where a zero is given.
    pub numbered: Vec<String>,
    /// What it tells of the rows behind it.
    pub aux: Vec<Aux>,
    /// Whether it is a table.
    pub is_table: bool,
}

impl Relation {
    /// A table without a description.
    pub fn unknown() -> Relation {
        Relation { is_table: true, ..Relation::derived(None, vec![own()]) }
    }

    /// A view or a query, with these columns.
    pub fn derived(columns: Option<Vec<String>>, aux: Vec<Aux>) -> Relation {
        Relation { columns, keys: Vec::new(), numbered: Vec::new(), aux, is_table: false }
    }
}

/// The auxiliary columns of a table.
pub(super) fn own() -> Aux {
    Aux::Pair(ROW_ID.to_owned(), W_LIST.to_owned())
}

/// What is known, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalog {
    relations: BTreeMap<String, Relation>,
}

impl Catalog {
    pub fn add(&mut self, name: &ObjectName, relation: Relation) {
        self.relations.insert(folded(&last(name)), relation);
    }

    pub fn add_named(&mut self, name: &str, relation: Relation) {
        self.relations.insert(folded(name), relation);
    }

    pub fn get(&self, name: &ObjectName) -> Relation {
        self.relations.get(&folded(&last(name))).cloned().unwrap_or_else(Relation::unknown)
    }
}

/// The last part of a name, without quotes.
pub(super) fn last(name: &ObjectName) -> String {
    match name.0.last() {
        Some(ObjectNamePart::Identifier(ident)) => ident.value.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

pub(super) fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// A table as its `CREATE TABLE` describes it.
pub(super) fn described(table: &CreateTable) -> Relation {
    let mut keys: Vec<Vec<String>> = Vec::new();
    for column in &table.columns {
        let is_key = |o: &ColumnOption| matches!(o, ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_));
        if column.options.iter().any(|o| is_key(&o.option)) {
            keys.push(vec![column.name.value.clone()]);
        }
    }
    for constraint in &table.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) => keys.push(names(&key.columns)),
            TableConstraint::Unique(key) => keys.push(names(&key.columns)),
            _ => {}
        }
    }
    let columns = table.columns.iter().map(|c| c.name.to_string()).collect();
    let is_numbered = |c: &&ColumnDef| {
        c.options.iter().any(|o| o.option.to_string().eq_ignore_ascii_case("AUTO_INCREMENT"))
    };
    let numbered = table.columns.iter().filter(is_numbered).map(|c| c.name.value.clone()).collect();
    Relation { columns: Some(columns), keys, numbered, aux: vec![own()], is_table: true }
}

fn names(columns: &[IndexColumn]) -> Vec<String> {
    let name = |c: &IndexColumn| match &c.column.expr {
        Expr::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    };
    columns.iter().map(name).collect()
}
