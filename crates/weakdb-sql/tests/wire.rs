//! The protocols through Rust's own drivers, and clients that misbehave.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_level::Level;
use anomalist_weakdb::{Options, Schedule, Store};
use anomalist_weakdb_sql::Database;
use anomalist_weakdb_sql::wire::{Addresses, Server};
use mysql_async::prelude::Queryable;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

fn start(options: Options) -> Server {
    Server::start(Database::new(Store::new(options).unwrap()), &Addresses::free()).unwrap()
}

fn server() -> Server {
    start(Options::new(Level::Serializable))
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

#[test]
fn tokio_postgres_client() {
    let server = server();
    wait(async {
        let mut client = postgres(&server).await;
        client
            .batch_execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT, n BIGINT, f FLOAT8, b BOOLEAN)")
            .await
            .unwrap();
        let insert = client.prepare("INSERT INTO t VALUES ($1, $2, $3, $4, $5)").await.unwrap();
        for id in 1..=3 {
            let text = (id != 2).then(|| format!("v{id}"));
            client.execute(&insert, &[&id, &text, &(i64::from(id) << 40), &1.5, &(id == 1)]).await.unwrap();
        }
        let rows =
            client.query("SELECT id, v, n, f, b FROM t WHERE id >= $1 ORDER BY id", &[&2]).await.unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].get::<_, i32>(0), rows[0].get::<_, Option<String>>(1)), (2, None));
        assert_eq!(
            (rows[1].get::<_, i64>(2), rows[1].get::<_, f64>(3), rows[1].get::<_, bool>(4)),
            (3 << 40, 1.5, false)
        );
        let transaction = client.transaction().await.unwrap();
        transaction.execute("UPDATE t SET n = 0", &[]).await.unwrap();
        transaction.rollback().await.unwrap();
        let total = client.query_one("SELECT sum(id), count(*) FROM t", &[]).await.unwrap();
        assert_eq!((total.get::<_, i64>(0), total.get::<_, i64>(1)), (6, 3));
        let some = client.query("SELECT id FROM t WHERE id = ANY($1)", &[&vec![2, 3, 4]]).await.unwrap();
        assert_eq!(some.len(), 2);
        let lists = "SELECT array_agg(id ORDER BY id), array_agg(v ORDER BY id), ARRAY(SELECT n FROM t WHERE id > $1) FROM t";
        let lists = client.query_one(lists, &[&9]).await.unwrap();
        assert_eq!((lists.get(0), lists.get(2)), (vec![1, 2, 3], Vec::<i64>::new()));
        assert_eq!(lists.get::<_, Vec<Option<&str>>>(1), [Some("v1"), None, Some("v3")]);
        let error = client.execute(&insert, &[&1, &"", &0i64, &0.0, &true]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
        let error = client.query("SELECT nowhere FROM t", &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::UNDEFINED_COLUMN));
        let mut other = postgres(&server).await;
        let (a, b) = (client.transaction().await.unwrap(), other.transaction().await.unwrap());
        for t in [&a, &b] {
            t.execute("UPDATE t SET n = n + 1 WHERE id = 1", &[]).await.unwrap();
        }
        a.commit().await.unwrap();
        let error = b.commit().await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
    });
}

#[test]
fn mysql_async_client() {
    let server = server();
    wait(async {
        let url = format!("mysql://root@{}/weakdb", server.mysql().unwrap());
        let pool = mysql_async::Pool::new(url.as_str());
        let mut c = pool.get_conn().await.unwrap();
        c.query_drop("CREATE TABLE t (id INT PRIMARY KEY, v TEXT, n BIGINT, f DOUBLE)").await.unwrap();
        for id in 1..=3 {
            let text = (id != 2).then(|| format!("v{id}"));
            c.exec_drop("INSERT INTO t VALUES (?, ?, ?, ?)", (id, text, i64::from(id) << 40, 1.5))
                .await
                .unwrap();
        }
        let rows: Vec<(i32, Option<String>, i64, f64)> =
            c.exec("SELECT id, v, n, f FROM t WHERE id >= ? ORDER BY id", (2,)).await.unwrap();
        assert_eq!(rows, [(2, None, 2 << 40, 1.5), (3, Some("v3".into()), 3 << 40, 1.5)]);
        let mut t = c.start_transaction(mysql_async::TxOpts::default()).await.unwrap();
        t.query_drop("DELETE FROM t").await.unwrap();
        t.rollback().await.unwrap();
        assert_eq!(c.query_first::<i64, _>("SELECT count(*) FROM t").await.unwrap(), Some(3));
        let error = c.query_drop("INSERT INTO t (id) VALUES (1)").await.unwrap_err();
        assert!(matches!(error, mysql_async::Error::Server(e) if e.code == 1062));
        // A connection that goes back to the pool in the middle of a transaction.
        c.query_drop("BEGIN").await.unwrap();
        c.query_drop("DELETE FROM t").await.unwrap();
        drop(c);
        let mut c = pool.get_conn().await.unwrap();
        assert_eq!(c.query_first::<i64, _>("SELECT count(*) FROM t").await.unwrap(), Some(3));
        drop(c);
        pool.disconnect().await.unwrap();
    });
}

fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> (String, serde_json::Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(body).unwrap())
}

#[test]
fn http() {
    let server = server();
    let at = server.http().unwrap();
    let post = |path: &str, body: &str| ask(at, "POST", path, body);
    assert_eq!(post("/sql", r#"{"sql": "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"}"#).0, "200");
    assert_eq!(
        post("/sql", r#"{"sql": "INSERT INTO t VALUES ($1, $2)", "params": [1, null]}"#).1["count"],
        1
    );
    let (_, rows) = post("/sql", r#"{"sql": "SELECT * FROM t"}"#);
    assert_eq!(rows["rows"].to_string(), "[[1,null]]");
    assert_eq!(rows["columns"].to_string(), r#"["id","v"]"#);
    let (status, error) = post("/sql", r#"{"sql": "INSERT INTO t VALUES (1, '')"}"#);
    assert_eq!((status.as_str(), error["code"].as_str().unwrap()), ("400", "23505"));
    let (_, done) = post(
        "/kv",
        r#"{"operations": [["write", "x", 1], ["read", "x"], ["cas", "x", 1, 2], ["scan", "x"]]}"#,
    );
    assert_eq!(done["results"].to_string(), r#"[true,1,true,{"x":2}]"#);
    let session =
        |n: u32| post("/session", "{}").1["session"].as_u64().unwrap() + u64::from(n) - u64::from(n);
    let (a, b) = (session(1), session(2));
    for s in [a, b] {
        let body =
            format!(r#"{{"session": {s}, "operations": [["begin"], ["read", "x"], ["write", "x", {s}]]}}"#);
        assert_eq!(post("/kv", &body).0, "200");
    }
    let commit = |s: u64| post("/kv", &format!(r#"{{"session": {s}, "operations": [["commit"]]}}"#));
    assert_eq!(commit(a).0, "200");
    let (status, error) = commit(b);
    assert_eq!((status.as_str(), error["code"].as_str().unwrap()), ("409", "40001"));
    assert_eq!(ask(at, "DELETE", &format!("/session/{a}"), "").0, "200");
    assert_eq!(ask(at, "GET", "/nothing", "").0, "404");
    assert_eq!(post("/sql", "nonsense").0, "400");
    assert_eq!(ask(at, "GET", "/", "").1["level"], "serializable");
}

/// After whatever a client did, others are served.
fn still_there(server: &Server) {
    wait(async {
        let client = postgres(server).await;
        assert_eq!(
            client.query_one("SELECT v FROM t WHERE id = $1", &[&1]).await.unwrap().get::<_, i32>(0),
            1
        );
    });
    let mut raw = TcpStream::connect(server.mysql().unwrap()).unwrap();
    let mut head = [0; 5];
    raw.read_exact(&mut head).unwrap();
    assert_eq!(head[4], 10);
}

fn with_table() -> Server {
    fill(server())
}

fn fill(server: Server) -> Server {
    let (status, _) = ask(
        server.http().unwrap(),
        "POST",
        "/sql",
        r#"{"sql": "CREATE TABLE t (id INT PRIMARY KEY, v INT)"}"#,
    );
    assert_eq!(status, "200");
    ask(server.http().unwrap(), "POST", "/sql", r#"{"sql": "INSERT INTO t VALUES (1, 1)"}"#);
    server
}

/// Waits for the server to notice that all clients are gone. The operating system notifies it, so only a
/// server that does not notice makes this take long.
fn all_gone(server: &Server) {
    let begun = Instant::now();
    while server.connections() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "{} connections left", server.connections());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_client_that_vanishes_is_rolled_back() {
    // One transaction after another: a transaction that is not rolled back keeps all others out.
    let options = Options {
        schedule: Schedule::Serial,
        patience: Duration::from_secs(300),
        ..Options::new(Level::Serializable)
    };
    let server = fill(start(options));
    wait(async {
        let client = postgres(&server).await;
        client.batch_execute("BEGIN; UPDATE t SET v = 9 WHERE id = 1").await.unwrap();
    });
    all_gone(&server);
    still_there(&server);
    // In the middle of a message, of a MySQL transaction, and of a request.
    let url = format!("mysql://root@{}/weakdb", server.mysql().unwrap());
    wait(async {
        let mut client = mysql_async::Conn::from_url(url).await.unwrap();
        client.query_drop("BEGIN").await.unwrap();
        client.query_drop("UPDATE t SET v = 9 WHERE id = 1").await.unwrap();
    });
    let mut half = TcpStream::connect(server.postgres().unwrap()).unwrap();
    half.write_all(b"\0\0\0\x0f\0\x03\0\0user\0a\0\0Q\0\0\x01\0BEGIN; UPDATE").unwrap();
    let mut request = TcpStream::connect(server.http().unwrap()).unwrap();
    request
        .write_all(
            b"POST /sql HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"sql\"",
        )
        .unwrap();
    drop((half, request));
    all_gone(&server);
    still_there(&server);
}

/// Sends bytes as they are; the status and the body of the answer.
fn raw(server: &Server, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.http().unwrap()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{request}: {answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn post(server: &Server, path: &str, body: &str) -> (u16, String) {
    let length = body.len();
    raw(
        server,
        &format!(
            "POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ),
    )
}

#[test]
fn pages_of_other_sites_are_refused() {
    let server = server();
    let body = r#"{"sql": "SELECT 1"}"#;
    let json =
        format!("Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
    for (headers, status) in [
        ("Host: localhost", 200),
        ("Host: evil.example", 403),
        ("Origin: http://evil.example", 403),
        ("Origin: null", 403),
        ("Origin: http://127.0.0.1:5000", 200),
    ] {
        let request = format!("POST /sql HTTP/1.1\r\n{headers}\r\n{json}\r\n\r\n{body}");
        assert_eq!(raw(&server, &request).0, status, "{headers}");
    }
    let plain = json.replace("application/json", "text/plain");
    assert_eq!(raw(&server, &format!("POST /sql HTTP/1.1\r\n{plain}\r\n\r\n{body}")).0, 415);
}

#[test]
fn an_http_session_that_leaves_a_transaction_open_is_ended() {
    let options = Options {
        schedule: Schedule::Serial,
        patience: Duration::from_secs(300),
        idle: Duration::from_millis(50),
        ..Options::new(Level::Serializable)
    };
    let server = start(options);
    let sessions = [(); 3].map(|()| post(&server, "/session", "").1);
    assert_eq!(sessions[0], r#"{"session":1}"#);
    assert_eq!(post(&server, "/kv", r#"{"session":1,"operations":[["begin"],["write","x",1]]}"#).0, 200);
    // Waits until the first is ended.
    assert_eq!(
        post(&server, "/kv", r#"{"session":2,"operations":[["read","x"]]}"#),
        (200, r#"{"results":[null]}"#.into())
    );
    assert_eq!(post(&server, "/sql", r#"{"session":2,"sql":"BEGIN"}"#).0, 200);
    let (status, answer) = post(&server, "/kv", r#"{"session":1,"operations":[["commit"]]}"#);
    assert!(status == 400 && answer.contains("25P03") && answer.contains("rolled back"), "{answer}");
    // One that is in no transaction may take its time.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(post(&server, "/kv", r#"{"session":3,"operations":[["read","x"]]}"#).0, 200);
    assert!(post(&server, "/sql", r#"{"session":2,"sql":"COMMIT"}"#).1.contains("25P03"));
    assert_eq!(post(&server, "/kv", r#"{"session":9,"operations":[]}"#).0, 404);
}

#[test]
fn bad_http_requests_are_explained() {
    let server = server();
    for (path, body) in [
        ("/kv", r#"{"operations":[["begin"],["write","y",1]]}"#),
        ("/sql", r#"{"sql":"BEGIN"}"#),
        ("/kv", r#"{"session":"1","operations":[["write","y",1]]}"#),
        ("/kv", r#"{"session":1.5,"operations":[["write","y",1]]}"#),
    ] {
        let (status, answer) = post(&server, path, body);
        assert!(status == 400 && answer.contains("session"), "{body}: {status} {answer}");
    }
    assert_eq!(post(&server, "/kv", r#"{"operations":[["read","y"]]}"#).1, r#"{"results":[null]}"#);
    for (headers, expected, why) in [
        // In chunks, which make `{}`.
        ("Connection: close\r\nTransfer-Encoding: chunked", 400, r#"\"operations\" is missing"#),
        // Not HTTP: refused before it is a request.
        ("Content-Length: many", 400, ""),
        ("Content-Length: 99999999999", 413, r#"{"code":"413","error":"the body is too long"}"#),
    ] {
        let (status, answer) = raw(
            &server,
            &format!(
                "POST /kv HTTP/1.1\r\nContent-Type: application/json\r\n{headers}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
            ),
        );
        assert!(status == expected && answer.contains(why), "{headers}: {status} {answer}");
    }
}

#[test]
fn it_listens_on_loopback() {
    let server = server();
    for address in [server.postgres(), server.mysql(), server.http()] {
        assert!(address.unwrap().ip().is_loopback());
    }
    // A taken address is named.
    let taken = server.http().unwrap();
    let database = Database::new(Store::new(Options::new(Level::Causal)).unwrap());
    let error =
        Server::start(database, &Addresses { mysql: Some(taken), ..Addresses::default() }).err().unwrap();
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
}

#[test]
fn garbage_ends_only_its_own_connection() {
    let server = with_table();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..60 {
        let address = [server.postgres(), server.mysql(), server.http()][round % 3].unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let mut bytes: Vec<u8> = (0..random.usize(1..400)).map(|_| random.u8(..)).collect();
        if round % 2 == 0 && round % 3 == 0 {
            // A proper beginning, and then nonsense.
            let start = b"\0\0\0\x0f\0\x03\0\0user\0a\0\0";
            bytes.splice(..0, start.iter().copied());
        }
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    still_there(&server);
}

#[test]
fn five_hundred_connections() {
    let server = with_table();
    wait(async {
        let mut clients = Vec::new();
        for _ in 0..500 {
            clients.push(postgres(&server).await);
        }
        let asked = clients.iter().map(|c| c.query_one("SELECT v FROM t WHERE id = 1", &[]));
        for answer in futures(asked).await {
            assert_eq!(answer.unwrap().get::<_, i32>(0), 1);
        }
    });
    still_there(&server);
}

async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut answers = Vec::new();
    for one in all {
        answers.push(one.await);
    }
    answers
}

#[test]
fn a_statement_of_ten_megabytes() {
    let server = with_table();
    wait(async {
        let client = postgres(&server).await;
        client.batch_execute("CREATE TABLE big (id INT PRIMARY KEY, v TEXT)").await.unwrap();
        let text = "x".repeat(10 << 20);
        client.batch_execute(&format!("INSERT INTO big VALUES (1, '{text}')")).await.unwrap();
        assert_eq!(client.query_one("SELECT v FROM big", &[]).await.unwrap().get::<_, &str>(0), text);
        // Deep and wide expressions are refused, and the transaction goes on after a savepoint.
        let deep = format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(client.batch_execute(&deep).await.is_err());
        let wide = format!("SELECT 1{}", "+1".repeat(1_000_000));
        assert!(client.batch_execute(&wide).await.is_err());
        assert!(client.batch_execute(&format!("SELECT '{}", "y".repeat(1 << 20))).await.is_err());
        // The same through the other two.
        let url = format!("mysql://root@{}/weakdb", server.mysql().unwrap());
        let mut client = mysql_async::Conn::from_url(url).await.unwrap();
        client.query_drop(format!("INSERT INTO big VALUES (2, '{text}')")).await.unwrap();
        let found: Option<String> = client.query_first("SELECT v FROM big WHERE id = 2").await.unwrap();
        assert_eq!(found, Some(text.clone()));
        client.disconnect().await.unwrap();
        let body = format!(r#"{{"sql": "INSERT INTO big VALUES (3, $1)", "params": ["{text}"]}}"#);
        assert_eq!(ask(server.http().unwrap(), "POST", "/sql", &body).1["count"], 1);
        let body = r#"{"sql": "SELECT v FROM big WHERE id = 3"}"#;
        assert_eq!(ask(server.http().unwrap(), "POST", "/sql", body).1["rows"][0][0], text);
    });
    still_there(&server);
}
