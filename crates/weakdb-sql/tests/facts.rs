//! Answers over the protocols are those of real servers.
//!
//! The files in `facts` hold statements with the answers of a real PostgreSQL and a real MariaDB: `=` and
//! the rows, or `!` and the code of the error. All of a file run in one session here.

#![allow(clippy::unwrap_used)]

use anomalist_level::Level;
use anomalist_weakdb::{Options, Store};
use anomalist_weakdb_sql::Database;
use anomalist_weakdb_sql::wire::{Addresses, Server};
use mysql_async::prelude::Queryable;
use mysql_async::{Error, Opts, Row, Value};
use tokio::runtime::Runtime;
use tokio_postgres::{NoTls, SimpleQueryMessage, types::Type};

fn server() -> Server {
    let database = Database::new(Store::new(Options::new(Level::Serializable)).unwrap());
    Server::start(database, &Addresses::free()).unwrap()
}

async fn postgres(server: &Server) -> tokio_postgres::Client {
    let address = server.postgres().unwrap();
    let url = format!("host=127.0.0.1 port={} user=postgres dbname=weakdb", address.port());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn mysql(server: &Server) -> mysql_async::Conn {
    let address = server.mysql().unwrap();
    let url = format!("mysql://root@127.0.0.1:{}/weakdb", address.port());
    mysql_async::Conn::new(Opts::from_url(&url).unwrap()).await.unwrap()
}

/// Statements and answers.
fn facts(file: &str) -> Vec<(&str, &str)> {
    let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with("--")).collect();
    lines.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

fn answer(rows: Vec<String>) -> String {
    format!("= {}", rows.join(" ")).trim_end().to_owned()
}

async fn ask_postgres(client: &tokio_postgres::Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(messages) => {
            let row = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                    Some(cells.collect::<Vec<_>>().join("|"))
                }
                _ => None,
            };
            answer(messages.iter().filter_map(row).collect())
        }
        Err(error) => format!("! {}", error.code().map_or("?", |code| code.code())),
    }
}

async fn ask_mysql(connection: &mut mysql_async::Conn, sql: &str) -> String {
    match connection.query::<Row, _>(sql).await {
        Ok(rows) => {
            let cell = |value: Value| match value {
                Value::NULL => "NULL".to_owned(),
                Value::Bytes(text) => String::from_utf8(text).unwrap(),
                other => format!("{other:?}"),
            };
            let row = |row: Row| row.unwrap().into_iter().map(cell).collect::<Vec<_>>().join("|");
            answer(rows.into_iter().map(row).collect())
        }
        Err(Error::Server(error)) => format!("! {}", error.code),
        Err(other) => panic!("{sql}: {other}"),
    }
}

fn compare(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} answers differ\n{}", wrong.len(), wrong.join("\n"));
}

fn as_postgres(file: &str) {
    Runtime::new().unwrap().block_on(async {
        let server = server();
        let client = postgres(&server).await;
        let mut wrong = Vec::new();
        for (sql, expected) in facts(file) {
            let found = ask_postgres(&client, sql).await;
            if found != expected {
                wrong.push(format!("{sql}\n  PostgreSQL {expected}\n  weakdb     {found}"));
            }
        }
        compare(wrong);
    });
}

fn as_mysql(file: &str) {
    Runtime::new().unwrap().block_on(async {
        let server = server();
        let mut connection = mysql(&server).await;
        let mut wrong = Vec::new();
        for (sql, expected) in facts(file) {
            let found = ask_mysql(&mut connection, sql).await;
            if found != expected {
                wrong.push(format!("{sql}\n  MariaDB {expected}\n  weakdb  {found}"));
            }
        }
        compare(wrong);
    });
}

#[test]
fn decimals_as_postgres() {
    as_postgres(include_str!("facts/decimals.postgres"));
}

#[test]
fn decimals_as_mysql() {
    as_mysql(include_str!("facts/decimals.mysql"));
}

#[test]
fn decimals_are_announced_and_bound_as_decimals() {
    Runtime::new().unwrap().block_on(async {
        let server = server();
        let client = postgres(&server).await;
        client.batch_execute("CREATE TABLE a (id INT PRIMARY KEY, b NUMERIC(12,2))").await.unwrap();
        for sql in [
            "SELECT b FROM a",
            "SELECT sum(b) FROM a",
            "SELECT avg(id) FROM a",
            "SELECT b * 2 FROM a",
            "SELECT coalesce(sum(b), 0) FROM a",
            "SELECT round(b, 1) FROM a",
            "SELECT 1.5",
        ] {
            let statement = client.prepare(sql).await.unwrap();
            assert_eq!(*statement.columns()[0].type_(), Type::NUMERIC, "{sql}");
        }
        let statement = client.prepare("UPDATE a SET b = b - $1 WHERE b >= $2").await.unwrap();
        assert_eq!(statement.params(), [Type::NUMERIC, Type::NUMERIC]);

        let mut connection = mysql(&server).await;
        let insert = "INSERT INTO a VALUES (?, ?)";
        connection.exec_drop(insert, (1, "12345678.91")).await.unwrap();
        connection.exec_drop(insert, (2, 0.1)).await.unwrap();
        connection.exec_drop("UPDATE a SET b = b + ? WHERE b < ?", ("0.20", 1)).await.unwrap();
        let rows: Vec<Row> =
            connection.exec("SELECT b, b / 3, sum(b) OVER () FROM a ORDER BY b", ()).await.unwrap();
        for column in rows[0].columns_ref() {
            assert_eq!(column.column_type(), mysql_async::consts::ColumnType::MYSQL_TYPE_NEWDECIMAL);
        }
        let shown: Vec<Vec<Value>> = rows.into_iter().map(Row::unwrap).collect();
        let text = |t: &str| Value::Bytes(t.into());
        assert_eq!(shown[0], [text("0.30"), text("0.100000"), text("12345679.21")]);
        assert_eq!(shown[1][0], text("12345678.91"));
    });
}

#[test]
fn dates_and_patterns_as_postgres() {
    as_postgres(include_str!("facts/times.postgres"));
}

#[test]
fn dates_and_patterns_as_mysql() {
    as_mysql(include_str!("facts/times.mysql"));
}
