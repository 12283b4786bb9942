//! What is in the catalogue: statements that fill its tables.

mod definitions;
mod server;

use crate::catalogue::Catalogue;
use crate::engine::Shared;
use crate::system::{parts, tables};
use crate::types::Type;
use anomalist_sqltext::Dialect;

/// Statements that make the catalogue tables and fill them.
#[must_use]
pub fn statements(catalogue: &Catalogue, shared: &Shared) -> Vec<String> {
    let schema = if shared.dialect == Dialect::PostgreSql { "public" } else { &shared.database };
    let mut rows = Rows { catalogue, shared, schema, database: &shared.database, statements: empty_tables() };
    rows.server();
    rows.definitions();
    rows.statements
}

fn empty_tables() -> Vec<String> {
    let declared = |(name, kind): (&str, Type)| {
        format!("{name} {}", if kind == Type::Text { "TEXT" } else { "INTEGER" })
    };
    let made = |&(name, columns): &(&str, &str)| {
        let columns: Vec<String> = parts(columns).map(declared).collect();
        format!("DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({});", columns.join(", "))
    };
    tables().map(made).collect()
}

/// Statements so far, and what the rows are about.
struct Rows<'a> {
    catalogue: &'a Catalogue,
    shared: &'a Shared,
    schema: &'a str,
    database: &'a str,
    statements: Vec<String>,
}

impl Rows<'_> {
    /// Adds a row to a catalogue table.
    fn add(&mut self, table: &str, pairs: &[(&str, String)]) {
        let (names, values): (Vec<&str>, Vec<&str>) = pairs.iter().map(|(n, v)| (*n, v.as_str())).unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        self.statements.push(format!("INSERT INTO {table} ({names}) VALUES ({values});"));
    }
}

fn quote(text: &str) -> String {
    Dialect::Sqlite.literal(text)
}

/// A list of places, as in `{1,2}`.
fn places(list: &[usize]) -> String {
    quote(&format!("{{{}}}", list.iter().map(usize::to_string).collect::<Vec<_>>().join(",")))
}
