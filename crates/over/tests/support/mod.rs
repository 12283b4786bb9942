//! A throw-away server, weak reads over it, and clients.

#![allow(dead_code, reason = "each file of tests uses a part")]

use anomalist_databases::{Connection, Database, Error, Reply, Target};
use anomalist_lab::server::{Engine, Server, Setup};
use anomalist_level::Level;
use anomalist_over::Over;
use anomalist_weakdb::{Options, Store};
use std::net::TcpListener;

/// A server that lets every client in without a password: SCRAM takes long in builds for tests.
pub fn server() -> Server {
    let server = Server::start(Engine::Postgres, &Setup::default()).unwrap();
    std::fs::write(server.folder().join("data/pg_hba.conf"), "host all all 127.0.0.1/32 trust\n").unwrap();
    server.target(0).connect().unwrap().run("SELECT pg_reload_conf()").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    server
}

pub fn options(level: Level, seed: u64) -> Options {
    Options { seed, ordered: true, record: true, record_choices: true, ..Options::new(level) }
}

pub fn over(target: &Target, options: Options) -> Over {
    let store = Store::new(options).unwrap();
    Over::start(target, store, TcpListener::bind("127.0.0.1:0").unwrap()).unwrap()
}

/// The same database through the proxy.
pub fn through(over: &Over, target: &Target) -> Target {
    target.via("127.0.0.1", over.address().unwrap().port())
}

pub fn connect(over: &Over, target: &Target) -> Box<dyn Connection> {
    through(over, target).connect().unwrap_or_else(|e| panic!("{e}, port {:?}", over.address()))
}

/// A database of its own on the server.
pub fn database(server: &Server, name: &str) -> Target {
    let target = server.target(0);
    target.connect().unwrap().run(&format!("CREATE DATABASE {name}")).unwrap();
    target.with_database(name)
}

/// The last result of a script, as text.
pub fn text(replies: &[Reply]) -> String {
    let row = |row: &Vec<anomalist_databases::Value>| {
        row.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    replies.last().map(|r| r.rows.iter().map(row).collect::<Vec<_>>().join(" ")).unwrap_or_default()
}

pub fn ask(connection: &mut Box<dyn Connection>, sql: &str) -> String {
    text(&connection.run(sql).unwrap_or_else(|e| panic!("{sql}: {e}")))
}

/// The same by a prepared statement.
pub fn prepared(connection: &mut Box<dyn Connection>, sql: &str) -> String {
    text(&[connection.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"))])
}

pub fn fails(result: Result<Vec<Reply>, Error>, code: &str) {
    let error = result.map(|r| text(&r)).expect_err(code);
    assert!(error.to_string().contains(code) || error.code() == Some(code), "{error:?} is not {code}");
}

/// Without the proxy.
pub fn run(target: &Target, sql: &str) -> String {
    text(&target.connect().unwrap().run(sql).unwrap())
}
