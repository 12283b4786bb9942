//! `isolde sql` with servers of PostgreSQL and MariaDB: what a run leaves alone, and what a script is given.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use isolde_driver::Database;
use isolde_driver::server::{Engine, Server, ServerError, Setup};
use support::Run;

/// A throw-away server; none, with a message, where its programs are missing and this is not CI.
fn server(engine: Engine) -> Option<Server> {
    match Server::start(engine, &Setup::default()) {
        Ok(server) => Some(server),
        Err(missing @ ServerError::Missing { .. }) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {missing}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn runs_share_a_server_and_leave_what_is_there() {
    let Some(server) = server(Engine::Postgres) else { return };
    let url = server.target(0).to_string();
    let mut session = server.target(0).connect().unwrap();
    session.run("CREATE SCHEMA isolde_sql; CREATE TABLE isolde_sql.mine (a INT)").unwrap();
    let args = ["sql", &url, "--isolation", "serializable", "--level", "serializable", "--duration", "2s"];
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| Run::new(&args, b"", &[]))).collect();
        for run in runs {
            run.join().unwrap().expect(0);
        }
    });
    session.run("SELECT a FROM isolde_sql.mine").unwrap();
    let left = "SELECT COUNT(*) FROM pg_namespace WHERE nspname LIKE 'isolde%'";
    assert_eq!(session.query(left, &[]).unwrap().int(), Some(1));
}
