//! Bytes through the proxy are the bytes without it: a client of our own that says exactly what is wanted,
//! against a throw-away PostgreSQL.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_proxy::message::{self, First};
use anomalist_proxy::{
    Interest, Limits, Observer, Outcome, Request, Rows, Run, ServerError, Service, Status, Verdict,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::script::{Client, EXTENDED, Messages, SCRIPTS, sent};
use support::{Between, limited, port, proxy, server};

fn shown(all: &Messages) -> Vec<String> {
    let short = |b: &[u8]| String::from_utf8_lossy(&b[..b.len().min(80)]).into_owned();
    all.iter().map(|(kind, body)| format!("{} {}", *kind as char, short(body))).collect()
}

#[test]
fn answers_have_the_same_bytes() {
    let server = server(&[]);
    let (mut bare, bare_start) = Client::connect(port(&server));
    bare.play("Q CREATE TABLE t (id int PRIMARY KEY, v text)|!Z");
    let mut expected = Vec::new();
    for (name, script, kinds) in SCRIPTS {
        let answer = bare.play(script);
        let found: String = answer.iter().map(|(kind, _)| *kind as char).collect();
        assert_eq!(found, *kinds, "{name}");
        expected.push(answer);
    }
    for between in Between::ALL {
        let proxy = proxy(&server, between);
        let (mut client, start) = Client::connect(proxy.address().port());
        assert_eq!(start, bare_start, "{between:?}");
        for ((name, script, _), expected) in SCRIPTS.iter().zip(&expected) {
            let found = client.play(script);
            assert!(
                found == *expected,
                "{between:?}, {name}: {:#?}\nnot {:#?}",
                shown(&found),
                shown(expected)
            );
        }
        // A long statement, and one that comes in single bytes.
        let found = client.play(&format!("Q SELECT length('{}')|!Z", "z".repeat(3_000_000)));
        assert!(found[1].1.ends_with(b"3000000"));
        client.play("Q INSERT INTO t VALUES (1, 'one'), (2, 'two')|!Z");
        let at = SCRIPTS.iter().position(|(name, ..)| *name == EXTENDED).unwrap();
        for byte in sent(SCRIPTS[at].1) {
            client.stream.write_all(&[byte]).unwrap();
        }
        assert_eq!(client.play("!Z|!Z"), expected[at], "{between:?}, in pieces");
        client.play("Q TRUNCATE t|!Z");
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
    client.play("Q BEGIN; CREATE TABLE gone (id int)|!Z");
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
    let seen = client.play("Q SELECT to_regclass('gone') IS NULL|!Z");
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
    let long = client.play("Q SELECT repeat('x', 10000)|!Z");
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
    client.play("Q SELECT 1|!Z");
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
    let refused = client.play(&format!("Q {}|!E", "x".repeat(2000)));
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
                        let seen = client.play(&format!("Q SELECT {n} * 100 + {i}|!Z"));
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

    fn finished(
        &mut self,
        request: &Request,
        outcome: &Outcome,
        server: &mut dyn Run,
    ) -> Option<ServerError> {
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
        let late = what.contains("refuse late");
        late.then(|| ServerError { code: "40001".into(), message: "too late".into() })
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
    assert_eq!(last(&client.play("Q SELECT 'replace me'|!Z")).unwrap(), "replaced");
    assert_eq!(last(&client.play("P - SELECT 'replace me'|B - -|E -|S|!Z")).unwrap(), "replaced");
    let seen = client.play("Q BEGIN|!Z|Q refuse me|!Z");
    assert_eq!((kinds(&seen).as_str(), seen.last().unwrap().1.as_slice()), ("CZEZ", &b"I"[..]));
    let seen = client.play("P - SELECT 'refuse me'|B - -|E -|P - SELECT 2|S|!Z");
    assert_eq!(kinds(&seen), "12EZ");
    let path = "P - SELECT current_setting('search_path') AS \"which path\"|B - -|E -|S|!Z";
    assert_eq!(last(&client.play(path)).unwrap(), "other", "set before Bind, in the same transaction");
    let seen = client.play("Q SELECT current_setting('search_path')|!Z");
    assert_eq!(last(&seen).unwrap(), "\"$user\", public", "and undone at its end");
    assert_eq!(kinds(&client.play("P - SELECT 'fail before me'|B - -|E -|S|!Z")), "12EZ");
    assert_eq!(kinds(&client.play("Q SELECT 'ask after'|!Z")), "TDCZ");
    assert_eq!(kinds(&client.play("Q SELECT 'refuse late'|!Z")), "TDCEZ");
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
