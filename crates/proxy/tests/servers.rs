//! Bytes through the proxy are the bytes without it: a client of our own that says exactly what is wanted,
//! against a throw-away PostgreSQL.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_proxy::message::{self, First, put};
use anomalist_proxy::{
    Interest, Limits, Observer, Outcome, Request, Rows, Run, ServerError, Service, Status, Verdict,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::{Between, limited, port, proxy, server};

/// Messages of a client, and how often to wait for ReadyForQuery in between.
#[derive(Clone)]
enum Say {
    Bytes(Vec<u8>),
    Ready,
    /// Until a message of this kind.
    Until(u8),
}

fn query(text: &str) -> Say {
    say(b'Q', format!("{text}\0").as_bytes())
}

fn say(kind: u8, body: &[u8]) -> Say {
    let mut bytes = Vec::new();
    put(&mut bytes, kind, body).unwrap();
    Say::Bytes(bytes)
}

fn parse(name: &str, text: &str) -> Say {
    say(b'P', format!("{name}\0{text}\0\0\0").as_bytes())
}

fn bind(portal: &str, name: &str, values: &[&str]) -> Say {
    let mut body = format!("{portal}\0{name}\0\0\0").into_bytes();
    body.extend((values.len() as i16).to_be_bytes());
    for value in values {
        body.extend((value.len() as i32).to_be_bytes());
        body.extend(value.as_bytes());
    }
    body.extend([0; 2]);
    say(b'B', &body)
}

fn describe(kind: char, name: &str) -> Say {
    say(b'D', format!("{kind}{name}\0").as_bytes())
}

fn execute(portal: &str, most: i32) -> Say {
    say(b'E', &[format!("{portal}\0").as_bytes(), &most.to_be_bytes()].concat())
}

fn sync() -> Say {
    say(b'S', &[])
}

struct Client {
    stream: TcpStream,
}

impl Client {
    fn connect(port: u16) -> (Client, Vec<(u8, Vec<u8>)>) {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        let body = b"user\0postgres\0database\0postgres\0application_name\0t\0\0";
        stream.write_all(&(body.len() as i32 + 8).to_be_bytes()).unwrap();
        stream.write_all(&(3i32 << 16).to_be_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut client = Client { stream };
        let seen = client.until(b'Z');
        (client, seen)
    }

    fn until(&mut self, wanted: u8) -> Vec<(u8, Vec<u8>)> {
        let mut seen = Vec::new();
        loop {
            let (kind, length) = message::head(&mut self.stream).unwrap().expect("the server is still there");
            let body = message::read_exactly(&mut self.stream, length).unwrap();
            // The number of a process, in keys and notifications, differs by connection.
            seen.push((kind, if matches!(kind, b'K' | b'A') { vec![] } else { body }));
            if kind == wanted {
                return seen;
            }
        }
    }

    fn play(&mut self, script: &[Say]) -> Vec<(u8, Vec<u8>)> {
        let mut seen = Vec::new();
        for step in script {
            match step {
                Say::Bytes(bytes) => self.stream.write_all(bytes).unwrap(),
                Say::Ready => seen.extend(self.until(b'Z')),
                Say::Until(kind) => seen.extend(self.until(*kind)),
            }
        }
        seen
    }
}

/// Everything that the protocol has, each script on the state that the one before has left.
fn scripts() -> Vec<(&'static str, Vec<Say>)> {
    let (ready, flush) = (Say::Ready, say(b'H', &[]));
    let data = |text: &str| say(b'd', text.as_bytes());
    vec![
        ("simple", vec![query("SELECT 1, NULL, 'ä'; SELECT 2 WHERE false; ; SELECT 3"), ready.clone()]),
        ("empty", vec![query(""), ready.clone()]),
        ("notice", vec![query("DROP TABLE IF EXISTS nothing"), ready.clone()]),
        ("an error in the middle", vec![query("SELECT 1; SELECT 1/0; SELECT 3"), ready.clone()]),
        (
            "a transaction that fails",
            vec![
                query("BEGIN"),
                ready.clone(),
                query("SELEC"),
                ready.clone(),
                query("SELECT 1"),
                ready.clone(),
                query("COMMIT"),
                ready.clone(),
            ],
        ),
        (
            "copy in",
            vec![
                query("COPY t FROM STDIN"),
                Say::Until(b'G'),
                data("1\tone\n2\t"),
                data("two\n"),
                say(b'c', &[]),
                ready.clone(),
            ],
        ),
        (
            "copy in, given up",
            vec![
                query("COPY t FROM STDIN"),
                Say::Until(b'G'),
                data("3\tx\n"),
                say(b'f', b"no\0"),
                ready.clone(),
            ],
        ),
        (
            "copy in, refused",
            vec![
                query("COPY t FROM STDIN"),
                Say::Until(b'G'),
                data("bad\tx\n"),
                data("5\tx\n"),
                say(b'c', &[]),
                ready.clone(),
            ],
        ),
        ("copy out", vec![query("COPY t TO STDOUT; SELECT count(*) FROM t"), ready.clone()]),
        (
            "extended",
            vec![
                parse("s", "SELECT v FROM t WHERE id = $1::int"),
                describe('S', "s"),
                bind("", "s", &["1"]),
                describe('P', ""),
                execute("", 0),
                sync(),
                bind("", "s", &["2"]),
                execute("", 0),
                sync(),
                ready.clone(),
                ready.clone(),
            ],
        ),
        (
            "the unnamed statement outlives Sync",
            vec![
                parse("", "SELECT 7"),
                sync(),
                ready.clone(),
                bind("", "", &[]),
                execute("", 0),
                sync(),
                ready.clone(),
            ],
        ),
        (
            "a pipeline that fails",
            vec![
                parse("", "INSERT INTO t VALUES (8, 'eight')"),
                bind("", "", &[]),
                execute("", 0),
                parse("", "INSERT INTO t VALUES (8, 'again')"),
                bind("", "", &[]),
                execute("", 0),
                parse("", "SELECT 'ignored'"),
                bind("", "", &[]),
                execute("", 0),
                sync(),
                query("SELECT count(*) FROM t WHERE id = 8"),
                ready.clone(),
                ready.clone(),
            ],
        ),
        (
            "a statement that is there",
            vec![
                parse("s", "SELECT 1"),
                sync(),
                ready.clone(),
                bind("", "s", &["1"]),
                execute("", 0),
                sync(),
                ready.clone(),
            ],
        ),
        ("no such statement", vec![bind("", "none", &[]), execute("", 0), sync(), ready.clone()]),
        (
            "portals",
            vec![
                query("BEGIN"),
                ready.clone(),
                parse("g", "SELECT generate_series(1, 5)"),
                bind("a", "g", &[]),
                bind("b", "g", &[]),
                execute("a", 2),
                execute("b", 4),
                flush.clone(),
                Say::Until(b's'),
                execute("a", 2),
                execute("a", 2),
                say(b'C', b"Pb\0"),
                execute("b", 1),
                sync(),
                ready.clone(),
                query("ROLLBACK"),
                ready.clone(),
            ],
        ),
        (
            "copy in by an extended query, as libpq does it",
            vec![
                parse("", "COPY t FROM STDIN"),
                bind("", "", &[]),
                execute("", 0),
                sync(),
                Say::Until(b'G'),
                data("21\tx\n"),
                say(b'c', &[]),
                sync(),
                ready.clone(),
            ],
        ),
        (
            "copy in by an extended query, refused",
            vec![
                parse("", "COPY t FROM STDIN"),
                bind("", "", &[]),
                execute("", 0),
                sync(),
                Say::Until(b'G'),
                data("bad\tx\n"),
                say(b'c', &[]),
                sync(),
                ready.clone(),
                query("SELECT count(*) FROM t"),
                ready.clone(),
            ],
        ),
        ("close", vec![say(b'C', b"Ss\0"), bind("", "s", &["1"]), sync(), ready.clone()]),
        (
            "a notification",
            vec![query("LISTEN c; NOTIFY c, 'hello'"), ready.clone(), query("UNLISTEN *"), ready.clone()],
        ),
        (
            "a parameter",
            vec![
                query("SET application_name = 'other'"),
                ready.clone(),
                query("RESET application_name"),
                ready.clone(),
            ],
        ),
        ("a long row", vec![query("SELECT repeat('x', 5000000), repeat('y', 100)"), ready.clone()]),
        (
            "a long statement",
            vec![query(&format!("SELECT length('{}')", "z".repeat(3_000_000))), ready.clone()],
        ),
        ("a function call", vec![say(b'F', &[&1598u32.to_be_bytes()[..], &[0; 6]].concat()), Say::Ready]),
        ("the end", vec![query("TRUNCATE t"), ready.clone(), query("DISCARD ALL"), ready]),
    ]
}

/// Random numbers are not compared.
fn comparable(name: &str, seen: Vec<(u8, Vec<u8>)>) -> Vec<(u8, Vec<u8>)> {
    let random = name == "a function call";
    seen.into_iter().map(|(kind, body)| (kind, if random && kind == b'V' { vec![] } else { body })).collect()
}

#[test]
fn answers_have_the_same_bytes() {
    let server = server(&[]);
    let (mut bare, bare_start) = Client::connect(port(&server));
    bare.play(&[query("CREATE TABLE t (id int PRIMARY KEY, v text)"), Say::Ready]);
    let expected: Vec<_> = scripts().iter().map(|(name, s)| comparable(name, bare.play(s))).collect();
    for between in Between::ALL {
        let proxy = proxy(&server, between);
        let (mut client, start) = Client::connect(proxy.address().port());
        assert_eq!(start, bare_start, "{between:?}");
        for ((name, script), expected) in scripts().into_iter().zip(&expected) {
            let found = comparable(name, client.play(&script));
            let show = |all: &[(u8, Vec<u8>)]| {
                let short = |b: &[u8]| String::from_utf8_lossy(&b[..b.len().min(80)]).into_owned();
                all.iter().map(|(k, b)| format!("{} {}", *k as char, short(b))).collect::<Vec<_>>()
            };
            assert!(
                found == *expected,
                "{between:?}, {name}: {:#?}\nnot {:#?}",
                show(&found),
                show(expected)
            );
        }
        // What is sent in small pieces, or all at once, is answered in the same way.
        let script = &scripts()[9].1;
        let pieces: Vec<u8> = script
            .iter()
            .filter_map(|s| match s {
                Say::Bytes(bytes) => Some(bytes.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        client.play(&[query("INSERT INTO t VALUES (1, 'one'), (2, 'two')"), Say::Ready]);
        for byte in pieces {
            client.stream.write_all(&[byte]).unwrap();
        }
        let found = client.play(&[Say::Ready, Say::Ready]);
        assert_eq!(found, expected[9], "{between:?}, in pieces");
        client.play(&[query("TRUNCATE t"), Say::Ready]);
        proxy.stop();
    }
}

#[test]
fn a_statement_is_cancelled_and_the_session_goes_on() {
    let server = server(&[]);
    let proxy = proxy(&server, Between::InStep);
    let config = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", proxy.address().port());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let token = client.cancel_token();
        let began = Instant::now();
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        };
        let (ran, ()) = tokio::join!(client.batch_execute("SELECT pg_sleep(60)"), cancel);
        assert_eq!(ran.unwrap_err().code().unwrap().code(), "57014");
        assert!(began.elapsed() < Duration::from_secs(30));
        assert_eq!(client.query_one("SELECT 5", &[]).await.unwrap().get::<_, i32>(0), 5);
    });
}

#[test]
fn a_client_that_vanishes_and_a_server_that_stops_end_sessions() {
    let server = server(&[]);
    let proxy = proxy(&server, Between::Bytes);
    let (mut client, _) = Client::connect(proxy.address().port());
    client.play(&[query("BEGIN; CREATE TABLE gone (id int)"), Say::Ready]);
    assert_eq!(proxy.connections(), 1);
    drop(client);
    let wait = |wanted: usize| {
        let until = Instant::now() + Duration::from_secs(20);
        while proxy.connections() != wanted && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(proxy.connections(), wanted);
    };
    wait(0);
    let (mut client, _) = Client::connect(proxy.address().port());
    let seen = client.play(&[query("SELECT to_regclass('gone') IS NULL"), Say::Ready]);
    assert_eq!(seen[1], (b'D', b"\0\x01\0\0\0\x01t".to_vec()));
    server.stop(0).unwrap();
    let last = client.until(b'E');
    assert_eq!(ServerError::of(&last.last().unwrap().1).code, "57P01");
    wait(0);
    let mut refused = TcpStream::connect(proxy.address()).unwrap();
    refused.write_all(&[0, 0, 0, 8, 0, 3, 0, 0]).unwrap();
    let (kind, length) = message::head(&mut refused).unwrap().unwrap();
    let body = message::read_exactly(&mut refused, length).unwrap();
    assert_eq!((kind, ServerError::of(&body).code.as_str()), (b'E', "08006"));
}

#[test]
fn limits_hold() {
    let server = server(&[]);
    let limits =
        Limits { message: 1000, connections: 2, start: Duration::from_millis(300), ..Limits::default() };
    let proxy = limited(&server, Between::Bytes, limits);
    let (mut client, _) = Client::connect(proxy.address().port());
    // Long answers only pass.
    let long = client.play(&[query("SELECT repeat('x', 10000)"), Say::Ready]);
    assert_eq!(long[1].1.len(), 10_006);
    // A client that says nothing is not waited for.
    let mut silent = TcpStream::connect(proxy.address()).unwrap();
    thread::sleep(Duration::from_millis(50));
    let mut third = TcpStream::connect(proxy.address()).unwrap();
    let (kind, length) = message::head(&mut third).unwrap().unwrap();
    let body = message::read_exactly(&mut third, length).unwrap();
    assert_eq!((kind, ServerError::of(&body).code.as_str()), (b'E', "53300"));
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    // One that is authenticated may be silent.
    thread::sleep(Duration::from_millis(700));
    client.play(&[query("SELECT 1"), Say::Ready]);
    // Wishes for encryption are declined.
    let mut asking = TcpStream::connect(proxy.address()).unwrap();
    for code in [80_877_103i32, 80_877_104] {
        asking.write_all(&8i32.to_be_bytes()).unwrap();
        asking.write_all(&code.to_be_bytes()).unwrap();
        let mut answer = [0];
        asking.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"N");
    }
    assert!(matches!(message::first(&mut [0, 0, 0, 8, 4, 210, 22, 47].as_slice()), Ok(First::Encryption)));
    let refused = client.play(&[query(&"x".repeat(2000)), Say::Until(b'E')]);
    assert_eq!(ServerError::of(&refused[0].1).code, "54000");
}

#[test]
fn many_sessions_at_once() {
    let server = server(&[("max_connections", "120")]);
    for between in Between::ALL {
        let proxy = proxy(&server, between);
        let port = proxy.address().port();
        thread::scope(|scope| {
            for n in 0..60 {
                scope.spawn(move || {
                    let (mut client, _) = Client::connect(port);
                    for i in 0..10 {
                        let seen = client.play(&[query(&format!("SELECT {n} * 100 + {i}")), Say::Ready]);
                        let text = (n * 100 + i).to_string();
                        assert!(seen[1].1.ends_with(text.as_bytes()), "{between:?}");
                    }
                });
            }
        });
        proxy.stop();
    }
}

/// What an observer did and saw.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

struct Deciding(Notes);

impl Service for Notes {
    fn session(&self, options: &BTreeMap<String, String>) -> Box<dyn Observer> {
        self.0.lock().unwrap().push(format!("session of {}", options["user"]));
        Box::new(Deciding(self.clone()))
    }
}

impl Deciding {
    fn note(&self, text: String) {
        self.0.0.lock().unwrap().push(text);
    }

    fn rows(&self, server: &mut dyn Run, text: &str) {
        let found: Result<Rows, _> = server.run(text);
        self.note(match found {
            Ok(rows) => format!("own {rows:?}"),
            Err(error) => format!("own {error}"),
        });
    }
}

impl Observer for Deciding {
    fn interest(&self) -> Interest {
        Interest::InStep { rows: false }
    }

    fn request(&mut self, request: &Request, server: &mut dyn Run) -> Verdict {
        match request {
            Request::Query { text } | Request::Parse { text, .. } if text.contains("replace me") => {
                Verdict::Replace("SELECT 'replaced'".into())
            }
            Request::Query { text } | Request::Execute { text: Some(text), .. }
                if text.contains("refuse me") =>
            {
                if server.status() == Status::Open {
                    self.rows(server, "ROLLBACK");
                }
                Verdict::Refuse(ServerError { code: "40001".into(), message: "no".into() })
            }
            Request::Bind { text: Some(text), .. } if text.contains("which path") => {
                self.rows(server, "SELECT set_config('search_path', 'other', true)");
                Verdict::Pass
            }
            Request::Execute { text: Some(text), .. } if text.contains("fail before me") => {
                self.rows(server, "SELECT 1/0");
                Verdict::Pass
            }
            _ => Verdict::Pass,
        }
    }

    fn finished(&mut self, request: &Request, outcome: &Outcome, server: &mut dyn Run) {
        let what = match request {
            Request::Query { text } => format!("query {text}"),
            Request::Execute { .. } => "execute".to_owned(),
            other => format!("{other:?}"),
        };
        let error = outcome.error.as_ref().map(|e| e.code.clone());
        self.note(format!("{what}: {:?} {error:?} {:?}", outcome.tags, outcome.status));
        if what.contains("ask after") {
            self.rows(server, "SELECT 6 * 7, NULL");
            self.rows(server, "SELECT 1/0");
        }
    }
}

#[test]
fn observers_replace_refuse_and_run_statements() {
    let server = server(&[]);
    let notes = Notes::default();
    let proxy = proxy(&server, notes.clone());
    let (mut client, _) = Client::connect(proxy.address().port());
    let last = |seen: &[(u8, Vec<u8>)]| {
        seen.iter().find(|m| m.0 == b'D').map(|m| String::from_utf8_lossy(&m.1[6..]).into_owned())
    };
    let kinds = |seen: &[(u8, Vec<u8>)]| seen.iter().map(|m| m.0 as char).collect::<String>();
    let ready = Say::Ready;
    assert_eq!(last(&client.play(&[query("SELECT 'replace me'"), ready.clone()])).unwrap(), "replaced");
    let seen = client.play(&[
        parse("", "SELECT 'replace me'"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
        ready.clone(),
    ]);
    assert_eq!(last(&seen).unwrap(), "replaced");
    let seen = client.play(&[query("BEGIN"), ready.clone(), query("refuse me"), ready.clone()]);
    assert_eq!((kinds(&seen).as_str(), seen.last().unwrap().1.as_slice()), ("CZEZ", &b"I"[..]));
    let seen = client.play(&[
        parse("", "SELECT 'refuse me'"),
        bind("", "", &[]),
        execute("", 0),
        parse("", "SELECT 2"),
        sync(),
        ready.clone(),
    ]);
    assert_eq!(kinds(&seen), "12EZ");
    let path = "SELECT current_setting('search_path') AS \"which path\"";
    let seen = client.play(&[parse("", path), bind("", "", &[]), execute("", 0), sync(), ready.clone()]);
    assert_eq!(last(&seen).unwrap(), "other", "set before Bind, within the same transaction");
    let seen = client.play(&[query("SELECT current_setting('search_path')"), ready.clone()]);
    assert_eq!(last(&seen).unwrap(), "\"$user\", public", "and undone at its end");
    let seen = client.play(&[
        parse("", "SELECT 'fail before me'"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
        ready.clone(),
    ]);
    assert_eq!(kinds(&seen), "12EZ");
    assert_eq!(kinds(&client.play(&[query("SELECT 'ask after'"), ready])), "TDCZ");
    drop(client);
    let found = notes.0.lock().unwrap().join("\n");
    for expected in [
        "session of postgres",
        "query SELECT 'replace me': [\"SELECT 1\"] None Idle",
        "own []",
        "own [[Some(\"other\")]]",
        "own division by zero (22012)",
        "execute: [] Some(\"22012\") Idle",
        "own [[Some(\"42\"), None]]",
    ] {
        assert!(found.contains(expected), "{expected} is not in\n{found}");
    }
}
