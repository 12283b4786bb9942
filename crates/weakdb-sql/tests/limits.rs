//! Statements can be ended, and what clients take is bounded.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod client;

use anomalist_level::Level;
use anomalist_weakdb::{Options, Store};
use anomalist_weakdb_sql::wire::{Addresses, Server};
use anomalist_weakdb_sql::{Code, Database, Limits};
use client::{MY, PG, ask, code, run};
use mysql_async::prelude::Queryable;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// What a session defines cannot break others, nor reach SQLite as anything but a name.
#[test]
fn definitions_harm_no_other_session() {
    let database = database(Limits::default());
    let mut other = database.session(PG, "other").unwrap();
    let file = std::env::temp_dir().join(format!("anomalist-attached-{}", std::process::id()));
    let attach = format!("x` AS SELECT 1; ATTACH '{}' AS y; CREATE TABLE y.t(a); --", file.display());
    let many: Vec<String> = (0..3000).map(|n| format!("c{n} INT")).collect();
    let mut session = database.session(PG, "session").unwrap();
    let attempts = [
        format!("CREATE TABLE \"{attach}\" (id INT PRIMARY KEY)"),
        format!("CREATE TABLE \"{}\" (id INT PRIMARY KEY)", attach.replace('`', "\"\"")),
        format!("CREATE TABLE a (\"{attach}\" INT PRIMARY KEY, \"b`\"\"c\" TEXT CHECK (\"b`\"\"c\" <> ''))"),
        format!("CREATE VIEW \"{attach}v\" AS SELECT 1"),
        "CREATE TABLE empty".to_owned(),
        "CREATE TABLE empty ()".to_owned(),
        "CREATE TABLE sqlite_x (a INT)".to_owned(),
        "CREATE TABLE weak_keys1 (a INT)".to_owned(),
        "CREATE TABLE a__rows (a INT)".to_owned(),
        "CREATE TABLE k1 (a INT PRIMARY KEY)".to_owned(),
        format!("CREATE TABLE wide ({})", many.join(", ")),
        "CREATE VIEW broken AS SELECT nothing FROM nowhere".to_owned(),
        "CREATE TABLE one (a INT)".to_owned(),
        "ALTER TABLE one DROP COLUMN a".to_owned(),
        "ALTER TABLE one RENAME TO sqlite_y".to_owned(),
        "ALTER TABLE one RENAME TO k1".to_owned(),
    ];
    for sql in attempts {
        // Some are allowed: what counts is what they leave.
        _ = session.execute(&sql, &[]);
        assert_eq!(ask(&mut other, "SELECT 1"), "1", "{sql}");
        assert_eq!(ask(&mut session, "SELECT 1"), "1", "{sql}");
        assert!(!file.exists(), "{sql}");
    }
    run(&mut other, "INSERT INTO k1 VALUES (7)");
    assert_eq!(ask(&mut session, "SELECT a FROM k1"), "7");
    let odd = format!("\"{attach}\"");
    run(&mut other, &format!("INSERT INTO {odd} VALUES (3)"));
    assert_eq!(ask(&mut session, &format!("SELECT id FROM {odd}")), "3");
}

/// Statements that do not end by themselves, or not within a lifetime.
const ENDLESS: [&str; 4] = [
    "SELECT count(*) FROM generate_series(1, 1000000000000)",
    "WITH RECURSIVE e(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e) SELECT count(*) FROM e",
    "SELECT max(a + b) FROM generate_series(1, 10000000) a, generate_series(1, 10000000) b",
    "SELECT pg_sleep(50)",
];

fn database(limits: Limits) -> Database {
    Database::new(Store::new(Options::new(Level::Serializable)).unwrap()).with_limits(limits)
}

fn server(limits: Limits) -> Server {
    Server::start(database(limits), &Addresses::free()).unwrap()
}

fn wait(runtime: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(runtime);
}

async fn postgres(server: &Server) -> tokio_postgres::Client {
    let address = server.postgres().unwrap();
    let url = format!("host={} port={} user=postgres dbname=weakdb", address.ip(), address.port());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn mysql(server: &Server) -> mysql_async::Conn {
    let url = format!("mysql://root@{}/weakdb", server.mysql().unwrap());
    mysql_async::Conn::new(mysql_async::Opts::from_url(&url).unwrap()).await.unwrap()
}

fn number(error: &mysql_async::Error) -> u16 {
    match error {
        mysql_async::Error::Server(error) => error.code,
        other => panic!("{other}"),
    }
}

#[test]
fn time_is_limited() {
    let short = Limits::default().with_statement(Some(Duration::from_millis(300)));
    let database = database(short);
    let mut session = database.session(PG, "a").unwrap();
    for sql in ENDLESS {
        let began = Instant::now();
        let error = session.execute(sql, &[]).unwrap_err();
        assert_eq!((error.code, error.code.sqlstate()), (Code::TimeOver, "57014"), "{sql}");
        assert_eq!(error.message, "canceling statement due to statement timeout");
        assert!(began.elapsed() < Duration::from_secs(10), "{sql}");
    }
    assert_eq!(ask(&mut session, "SHOW statement_timeout"), "300ms");
    run(&mut session, "SET statement_timeout = '1min'");
    assert_eq!(ask(&mut session, "SELECT count(*) FROM generate_series(1, 100000)"), "100000");
    run(&mut session, "SET statement_timeout = 50");
    assert_eq!(code(&mut session, "SELECT pg_sleep(20)"), Code::TimeOver);
    for wrong in ["'soon'", "-1", "'5 parsecs'"] {
        let sql = format!("SET statement_timeout = {wrong}");
        assert_eq!(code(&mut session, &sql), Code::InvalidParameter, "{sql}");
    }
    run(&mut session, "RESET statement_timeout");
    assert_eq!(ask(&mut session, "SHOW statement_timeout"), "300ms");
    let mut session = database.session(MY, "b").unwrap();
    assert_eq!(session.execute("SELECT SLEEP(20)", &[]).unwrap_err().code.mysql(), (3024, "HY000"));
    run(&mut session, "SET max_statement_time = 0.05");
    assert_eq!(session.execute("SELECT SLEEP(20)", &[]).unwrap_err().code.mysql(), (1969, "70100"));
    run(&mut session, "SET SESSION max_execution_time = 50");
    assert_eq!(session.execute("SELECT SLEEP(20)", &[]).unwrap_err().code.mysql(), (3024, "HY000"));
}

/// A write that is ended leaves nothing, and the session goes on.
#[test]
fn an_ended_statement_is_undone() {
    let database = database(Limits::default());
    for dialect in [PG, MY] {
        let mut session = database.session(dialect, "a").unwrap();
        let (table, timeout) = match dialect {
            PG => ("pg_t", "SET statement_timeout = 300"),
            _ => ("my_t", "SET max_statement_time = 0.3"),
        };
        run(&mut session, &format!("CREATE TABLE {table} (id INT PRIMARY KEY)"));
        run(&mut session, &format!("INSERT INTO {table} VALUES (-1)"));
        run(&mut session, timeout);
        let many = format!("INSERT INTO {table} SELECT g FROM generate_series(1, 900000) g");
        let late = session.execute(&many, &[]).unwrap_err().code;
        assert!(matches!(late, Code::TimeOver | Code::StatementTime), "{late:?}");
        let mut other = database.session(dialect, "b").unwrap();
        assert_eq!(ask(&mut other, &format!("SELECT count(*) FROM {table} WHERE id < 5")), "1");
        run(&mut session, &format!("INSERT INTO {table} VALUES (1)"));
        assert_eq!(ask(&mut session, &format!("SELECT count(*) FROM {table} WHERE id < 5")), "2");
    }
}

#[test]
fn results_are_limited() {
    let database = database(Limits::default().with_result(1000, 1 << 20).with_kept(3 << 19, 1 << 21));
    let mut session = database.session(PG, "a").unwrap();
    let error = session.execute("SELECT * FROM generate_series(1, 1000000000000)", &[]).unwrap_err();
    assert_eq!((error.code.sqlstate(), error.code.mysql()), ("54000", (1104, "42000")));
    assert_eq!(error.message, "the statement finds more than 1000 rows");
    let wide = "SELECT repeat('x', 10000) FROM generate_series(1, 900)";
    assert_eq!(code(&mut session, wide), Code::TooMuch);
    for sql in [
        "SELECT repeat('x', 1000000000)",
        "SELECT repeat(repeat('x', 9000), 900000)",
        "SELECT lpad('x', 99999999)",
    ] {
        assert_eq!(code(&mut session, sql), Code::TooMuch, "{sql}");
    }
    assert_eq!(ask(&mut session, "SELECT repeat('ab', 2), repeat('x', -1), rpad('x', 3, '-')"), "abab||x--");
    // Cursors keep their rows; what a session keeps is limited, and freed with them.
    let half = "CURSOR FOR SELECT repeat('x', 10000) FROM generate_series(1, 80)";
    run(&mut session, "BEGIN");
    run(&mut session, &format!("DECLARE a {half}"));
    assert_eq!(code(&mut session, &format!("DECLARE b {half}")), Code::TooMuch);
    // All sessions together keep less than three such cursors need.
    let mut others: Vec<_> = (0..2).map(|_| database.session(PG, "b").unwrap()).collect();
    others.iter_mut().for_each(|other| drop(run(other, "BEGIN")));
    run(&mut others[0], &format!("DECLARE a {half}"));
    let error = others[1].execute(&format!("DECLARE a {half}"), &[]).unwrap_err();
    assert_eq!(error.code.sqlstate(), "53200");
    run(&mut session, "ROLLBACK");
    run(&mut others[1], "ROLLBACK");
    run(&mut others[1], "BEGIN");
    run(&mut others[1], &format!("DECLARE a {half}"));
}

#[test]
fn large_statements_are_refused_soon() {
    let database = database(Limits::default());
    let mut session = database.session(PG, "a").unwrap();
    let many: Vec<String> = (0..100_000).map(|n| format!("c{n} AS (SELECT {n})")).collect();
    let began = Instant::now();
    let error = session.execute(&format!("WITH {} SELECT 1", many.join(", ")), &[]).unwrap_err();
    assert_eq!(error.code, Code::TooComplex, "{error}");
    assert_eq!(code(&mut session, &format!("SELECT '{}'", "x".repeat(17 << 20))), Code::TooComplex);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let some: Vec<String> = (0..100).map(|n| format!("c{n} AS (SELECT {n})")).collect();
    assert_eq!(ask(&mut session, &format!("WITH {} SELECT count(*) FROM c7", some.join(", "))), "1");
}

#[test]
fn postgres_cancels() {
    let server = server(Limits::default());
    wait(async {
        let client = postgres(&server).await;
        for sql in ENDLESS {
            let token = client.cancel_token();
            let (asked, ended) = tokio::join!(client.simple_query(sql), async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                token.cancel_query(NoTls).await
            });
            ended.unwrap();
            let error = asked.unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{sql}");
            let text = error.as_db_error().unwrap().message().to_owned();
            assert_eq!(text, "canceling statement due to user request");
        }
        // Nothing runs: nothing is cancelled.
        client.cancel_token().cancel_query(NoTls).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let number: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        // Another secret has no effect.
        let foreign =
            [&16i32.to_be_bytes()[..], &80_877_102i32.to_be_bytes(), &number.to_be_bytes(), &[7; 4]];
        let mut stream = TcpStream::connect(server.postgres().unwrap()).unwrap();
        let (slept, ()) = tokio::join!(client.simple_query("SELECT pg_sleep(0.3)"), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            stream.write_all(&foreign.concat()).unwrap();
        });
        slept.unwrap();
        // By SQL, from another connection.
        let other = postgres(&server).await;
        let end = format!("SELECT pg_cancel_backend({number})");
        let (asked, ended) = tokio::join!(client.simple_query(ENDLESS[0]), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            other.simple_query(&end).await
        });
        ended.unwrap();
        assert_eq!(asked.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
        let end = format!("SELECT pg_terminate_backend({number})");
        let (asked, ended) = tokio::join!(client.simple_query(ENDLESS[0]), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            other.simple_query(&end).await
        });
        ended.unwrap();
        assert!(asked.is_err());
        assert!(client.simple_query("SELECT 1").await.is_err(), "the connection has ended");
        other.simple_query("SELECT 1").await.unwrap();
    });
}

#[test]
fn mysql_kills() {
    let server = server(Limits::default());
    wait(async {
        let (mut client, mut other) = (mysql(&server).await, mysql(&server).await);
        let endless = "SELECT SLEEP(50)";
        for (kill, lives) in [("KILL QUERY", true), ("KILL", false)] {
            let kill = format!("{kill} {}", client.id());
            let (asked, ended) = tokio::join!(client.query_drop(endless), async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                other.query_drop(&kill).await
            });
            ended.unwrap();
            let error = asked.unwrap_err();
            assert_eq!(number(&error), 1317, "{error}");
            assert_eq!(client.query_drop("SELECT 1").await.is_ok(), lives, "{kill}");
        }
        assert_eq!(number(&other.query_drop("KILL QUERY 999999").await.unwrap_err()), 1094);
    });
}

fn raw(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn startup(stream: &mut TcpStream) {
    let body = b"\0\x03\0\0user\0a\0\0";
    stream.write_all(&[&(body.len() as i32 + 4).to_be_bytes()[..], body].concat()).unwrap();
}

fn query(stream: &mut TcpStream, sql: &str) {
    let length = (sql.len() as i32 + 5).to_be_bytes();
    stream.write_all(&[b"Q", &length[..], sql.as_bytes(), b"\0"].concat()).unwrap();
}

/// Waits until the server has so many connections.
fn until(server: &Server, connections: usize) {
    let limit = Instant::now() + Duration::from_secs(30);
    while server.connections() != connections {
        assert!(Instant::now() < limit, "{} connections", server.connections());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn statements_of_clients_that_are_gone_end() {
    let server = server(Limits::default());
    for farewell in [&b""[..], b"X\0\0\0\x04"] {
        let mut stream = raw(server.postgres().unwrap());
        startup(&mut stream);
        query(&mut stream, ENDLESS[1]);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(server.connections(), 1);
        stream.write_all(farewell).unwrap();
        drop(stream);
        until(&server, 0);
    }
    // A server that stops does not wait for statements.
    let mut stream = raw(server.postgres().unwrap());
    startup(&mut stream);
    query(&mut stream, ENDLESS[1]);
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn slow_and_idle_connections_end() {
    let limits = Limits::default().with_pause(Duration::from_millis(300)).with_idle(Duration::from_secs(2));
    let server = server(limits);
    // Nothing, half a startup, half a message.
    let _silent = raw(server.postgres().unwrap());
    let _silent_mysql = raw(server.mysql().unwrap());
    let mut half = raw(server.postgres().unwrap());
    half.write_all(&[0, 0, 0]).unwrap();
    let mut message = raw(server.postgres().unwrap());
    startup(&mut message);
    message.write_all(b"Q\0\0\xff\xffSELECT").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.connections(), 4);
    until(&server, 0);
    // A session that asks for nothing gets the reason why it ends.
    let mut idle = raw(server.postgres().unwrap());
    startup(&mut idle);
    query(&mut idle, "SET idle_session_timeout = '100ms'");
    let mut answer = Vec::new();
    idle.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("FATAL") && answer.contains("57P05"), "{answer}");
    until(&server, 0);
}

#[test]
fn connections_and_messages_are_limited() {
    let server = server(Limits::default().with_connections(2).with_kept(1 << 20, 1 << 21));
    let (mut first, mut second) = (raw(server.postgres().unwrap()), raw(server.postgres().unwrap()));
    startup(&mut first);
    startup(&mut second);
    until(&server, 2);
    let mut third = raw(server.postgres().unwrap());
    startup(&mut third);
    let mut answer = Vec::new();
    third.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("C53300"), "{answer:?}");
    // A message that is larger than what a session may keep is refused as it comes.
    let length = (60i32 << 20).to_be_bytes();
    first.write_all(&[b"Q", &length[..]].concat()).unwrap();
    let piece = vec![b' '; 1 << 16];
    // The server stops reading at its limit.
    for _ in 0..40 {
        if first.write_all(&piece).is_err() {
            break;
        }
    }
    until(&server, 1);
    wait(async {
        let mut client = mysql(&server).await;
        // Pieces of parameters count, too: the execution is refused, and the connection goes on.
        let statement = client.prep("SELECT LENGTH(?)").await.unwrap();
        let long = vec![b'x'; 40 << 20];
        assert!(client.exec_drop(&statement, (long,)).await.is_err());
    });
    drop(second);
}
