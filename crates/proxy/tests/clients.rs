//! Clients that others wrote, unmodified, see through the proxy what they see without it: psql, pgbench,
//! psycopg, SQLAlchemy and Django.
//!
//! `scripts/test clients` installs them. One that is missing is a failure unless `ANOMALIST_SKIP` names
//! `clients` or `python`.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_testkit::skip;
use std::path::Path;
use std::process::Command;
use support::{Between, port, proxy, server, set_rules};

fn has(program: &str, probe: &[&str]) -> bool {
    let found = Command::new(program).args(probe).output().is_ok_and(|o| o.status.success());
    if !found {
        let resource = if program.contains("python") { "python" } else { "clients" };
        skip::missing(resource, format!("{program} {probe:?} fails"));
    }
    found
}

/// What a program prints on both streams; it must succeed.
fn printed(command: &mut Command) -> String {
    let out = command.env("PGCONNECT_TIMEOUT", "10").env_remove("PGSERVICE").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?}\n{text}");
    // psycopg's warning about a pipeline that failed depends on when answers arrive.
    text.lines().filter(|line| !line.starts_with("error ignored")).map(|line| format!("{line}\n")).collect()
}

/// Runs `client` with a port, without the proxy and through it, and compares what it prints.
fn same(settings: &[(&str, &str)], client: impl Fn(u16) -> String) {
    let server = server(settings);
    let bare = client(port(&server));
    assert!(!bare.is_empty());
    for between in Between::ALL {
        let proxy = proxy(&server, between);
        assert_eq!(client(proxy.address().port()), bare, "{between:?}");
        proxy.stop();
    }
}

fn psql(port: u16, user: &str) -> Command {
    let mut command = Command::new("psql");
    command.args(["-X", "-v", "VERBOSITY=verbose", "-h", "127.0.0.1", "-U", user, "-p", &port.to_string()]);
    command.arg("postgres");
    command
}

#[test]
fn psql_prints_the_same() {
    if !has("psql", &["--version"]) {
        return;
    }
    same(&[], |port| {
        let mut command = psql(port, "postgres");
        for text in [
            "DROP TABLE IF EXISTS d; CREATE TABLE d (id serial PRIMARY KEY, v text DEFAULT 'x', at timestamptz)",
            "\\d d",
            "INSERT INTO d (v) SELECT repeat('y', g) FROM generate_series(1, 20) g",
            "\\copy d (id, v) to '/dev/null'",
            "COPY d TO STDOUT",
            "SELECT * FROM d ORDER BY id DESC LIMIT 3",
            "DO $$ BEGIN RAISE NOTICE 'a notice'; RAISE WARNING 'a warning'; END $$",
            "\\dt+",
            "BEGIN; SAVEPOINT s; INSERT INTO d (id) VALUES (1)",
            "ROLLBACK",
            "SELECT count(*) FROM d; SELECT current_setting('search_path'); SHOW server_version",
            "\\set FETCH_COUNT 10",
            "DROP TABLE d",
        ] {
            command.args(["-c", text]);
        }
        printed(&mut command)
    });
}

#[test]
fn a_password_passes() {
    if !has("psql", &["--version"]) {
        return;
    }
    let server = server(&[("password_encryption", "scram-sha-256")]);
    printed(psql(port(&server), "postgres").args(["-c", "CREATE ROLE someone LOGIN PASSWORD 'se cret'"]));
    let rules = "host all someone 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    set_rules(&server, rules);
    for between in Between::ALL {
        let proxy = proxy(&server, between);
        let port = proxy.address().port();
        let who = |password: &str| {
            let mut command = psql(port, "someone");
            command.args(["-At", "-c", "SELECT current_user"]).env("PGPASSWORD", password).output().unwrap()
        };
        let right = who("se cret");
        assert_eq!(String::from_utf8_lossy(&right.stdout), "someone\n", "{right:?}");
        assert!(String::from_utf8_lossy(&who("wrong").stderr).contains("password authentication failed"));
    }
}

#[test]
fn pgbench_runs_in_every_protocol() {
    if !has("pgbench", &["--version"]) {
        return;
    }
    let server = server(&[]);
    let bench = |port: u16, arguments: &[&str]| {
        let mut command = Command::new("pgbench");
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]).args(arguments);
        printed(command.arg("postgres"))
    };
    for between in Between::ALL {
        let proxy = proxy(&server, between);
        let port = proxy.address().port();
        bench(port, &["-i", "-q"]);
        for protocol in ["simple", "extended", "prepared"] {
            let said = bench(port, &["-n", "-c", "8", "-j", "2", "-t", "30", "-M", protocol]);
            assert!(said.contains("processed: 240/240"), "{between:?} {said}");
        }
        let sums =
            "SELECT sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts), count(*) FROM pgbench_history";
        assert_eq!(printed(psql(port, "postgres").args(["-At", "-c", sums])), "t|720\n", "{between:?}");
    }
}

fn python(what: &str) {
    let python = std::env::var("ANOMALIST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !has(&python, &["-c", "import django, psycopg, sqlalchemy"]) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients.py");
    same(&[], |port| printed(Command::new(&python).arg(&script).args([&port.to_string(), what])));
}

#[test]
fn psycopg_sees_the_same() {
    python("psycopg");
}

#[test]
fn sqlalchemy_sees_the_same() {
    python("sqlalchemy");
}

#[test]
fn django_sees_the_same() {
    python("django");
}
