//! A client of a database at the serializable level, whose answers are compared as text.

#![allow(clippy::unwrap_used)]
#![allow(dead_code)]

use anomalist_level::Level;
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Granularity, Options, Store, Value};
use anomalist_weakdb_sql::{Code, Database, Session};

pub const PG: Dialect = Dialect::PostgreSql;
pub const MY: Dialect = Dialect::MySql;

pub fn database(granularity: Granularity) -> Database {
    let options = Options { granularity, record: true, ..Options::new(Level::Serializable) };
    Database::new(Store::new(options).unwrap())
}

pub fn session(dialect: Dialect) -> Session {
    database(Granularity::Cell).session(dialect, "a").unwrap()
}

/// Rows as text, as the dialect prints them.
pub fn ask(session: &mut Session, sql: &str) -> String {
    let dialect = session.dialect();
    let outcome = session.execute(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let columns = outcome.columns.unwrap_or_default();
    let row = |row: &Vec<Value>| {
        let cells =
            row.iter().zip(&columns).map(|(v, c)| c.kind.text(v, dialect).unwrap_or_else(|| "NULL".into()));
        cells.collect::<Vec<_>>().join("|")
    };
    outcome.rows.iter().map(row).collect::<Vec<_>>().join(" ")
}

pub fn run(session: &mut Session, sql: &str) -> String {
    session.execute(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e:?}")).tag
}

pub fn code(session: &mut Session, sql: &str) -> Code {
    session.execute(sql, &[]).expect_err(sql).code
}

pub fn shop(session: &mut Session) {
    run(session, "CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, city VARCHAR(20))");
    run(
        session,
        "CREATE TABLE orders (cid INT NOT NULL, no INT NOT NULL, total NUMERIC(10,2), PRIMARY KEY (cid, no))",
    );
    run(session, "INSERT INTO customer VALUES (1, 'Ann', 'Rome'), (2, 'Bob', NULL), (3, 'Cy', 'Oslo')");
    run(session, "INSERT INTO orders (cid, no, total) VALUES (1, 1, 10.10), (1, 2, 20.20), (2, 1, 5)");
}
