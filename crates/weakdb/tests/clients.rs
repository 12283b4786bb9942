//! Clients that others wrote, unmodified: psql, pgbench, psycopg, SQLAlchemy, PyMySQL, the MariaDB client, Connector/J.
//!
//! `scripts/test` installs them. In CI a client that is missing is a failure, elsewhere it is skipped with a message.

#![cfg(feature = "sql")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "all of this is a test, helpers too")]

use isolde_level::Level;
use isolde_weakdb::sql::Database;
use isolde_weakdb::wire::{Addresses, Server};
use isolde_weakdb::{Options, Store};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn server() -> Server {
    let store = Store::new(Options::new(Level::Serializable)).unwrap();
    Server::start(Database::new(store), &Addresses::free()).unwrap()
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Whether there is such a program; in CI there has to be.
fn has(program: &str, probe: &[&str]) -> bool {
    let found = Command::new(program).args(probe).output().is_ok_and(|o| o.status.success());
    assert!(found || std::env::var_os("CI").is_none(), "{program} {probe:?} is missing: see scripts/test");
    if !found {
        eprintln!("skipped: {program} {probe:?} is missing");
    }
    found
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn psql_and_pgbench() {
    if !has("psql", &["--version"]) || !has("pgbench", &["--version"]) {
        return;
    }
    let server = server();
    let port = server.postgres().unwrap().port().to_string();
    let psql = |sql: &[&str]| {
        let mut command = Command::new("psql");
        command.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "VERBOSITY=verbose",
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "postgres",
            "weakdb",
        ]);
        sql.iter().for_each(|s| {
            command.args(["-c", s]);
        });
        command.env("PGCONNECT_TIMEOUT", "10").env_remove("PGSERVICE").output().unwrap()
    };
    let made = psql(&[
        "CREATE TABLE acc (id INT PRIMARY KEY, bal INT NOT NULL); INSERT INTO acc SELECT g, 100 FROM generate_series(1, 10) g",
    ]);
    assert!(made.status.success(), "{}", text(&made));
    assert_eq!(
        text(&psql(&["SELECT id, bal FROM acc WHERE id < 3 ORDER BY id", "SELECT NULL, 1.5"])),
        "1|100\n2|100\n|1.5\n"
    );
    assert!(text(&psql(&["INSERT INTO acc VALUES (1, 0)"])).contains("23505"));
    assert!(text(&psql(&["BEGIN; SELECT 1/0; SELECT 2"])).contains("22012"));
    assert!(text(&psql(&["SELEC"])).contains("42601"));
    assert!(text(&psql(&["CREATE RULE r AS ON INSERT TO acc DO NOTHING"])).contains("ERROR"));
    // Tables are found by \dt.
    assert!(text(&psql(&["\\dt"])).contains("acc"), "{}", text(&psql(&["\\dt"])));
    let script = std::env::temp_dir().join(format!("weakdb-pgbench-{}.sql", std::process::id()));
    let steps = "\\set a random(1, 10)\n\\set b random(1, 10)\nBEGIN;\nSELECT bal FROM acc WHERE id = :a;\n\
                 UPDATE acc SET bal = bal - 1 WHERE id = :a;\nUPDATE acc SET bal = bal + 1 WHERE id = :b;\nCOMMIT;\n";
    std::fs::write(&script, steps).unwrap();
    for mode in ["simple", "extended", "prepared"] {
        let mut command = Command::new("pgbench");
        command.args(["-n", "-M", mode, "-c", "3", "-t", "20", "--max-tries=100", "-f"]).arg(&script);
        command.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "weakdb"]);
        let told = run(&mut command);
        assert!(told.contains("number of failed transactions: 0"), "{told}");
    }
    std::fs::remove_file(&script).unwrap();
    assert_eq!(text(&psql(&["SELECT sum(bal), count(*) FROM acc"])), "1000|10\n");
}

#[test]
fn python() {
    let python = std::env::var("ISOLDE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !has(&python, &["-c", "import psycopg, pymysql, sqlalchemy"]) {
        return;
    }
    let server = server();
    let ports = [server.postgres().unwrap().port().to_string(), server.mysql().unwrap().port().to_string()];
    let told = run(Command::new(python).arg(here("clients.py")).args(ports));
    assert_eq!(told.trim(), "all clients agree");
}

#[test]
fn mariadb() {
    if !has("mariadb", &["--version"]) {
        return;
    }
    let server = server();
    let port = server.mysql().unwrap().port().to_string();
    let ask = |sql: &str| {
        let mut command = Command::new("mariadb");
        command.args([
            "--no-defaults",
            "-N",
            "-B",
            "-h",
            "127.0.0.1",
            "-P",
            &port,
            "-uroot",
            "-pany",
            "weakdb",
            "-e",
            sql,
        ]);
        command.output().unwrap()
    };
    let made = ask(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, NULL), (2, 'b'); SELECT * FROM t",
    );
    assert_eq!(text(&made), "1\tNULL\n2\tb\n");
    assert_eq!(text(&ask("START TRANSACTION; DELETE FROM t; ROLLBACK; SELECT count(*) FROM t")), "2\n");
    assert!(text(&ask("PREPARE s FROM 'SELECT 1'")).contains("ERROR 1235 (42000)"));
    assert!(text(&ask("INSERT INTO t VALUES (1, '')")).contains("ERROR 1062 (23000)"));
    assert!(text(&ask("SELECT * FROM nothing")).contains("ERROR 1146 (42S02)"));
    assert_eq!(text(&ask("SHOW TABLES; SELECT @@version_comment")), "t\nisolde weakdb\n");
}

#[test]
fn connector_j() {
    let jar = "/usr/share/java/mariadb-java-client.jar";
    let found = Path::new(jar).exists() && has("java", &["-version"]);
    assert!(found || std::env::var_os("CI").is_none(), "libmariadb-java is missing: see scripts/test");
    if !found {
        eprintln!("skipped: {jar} is missing");
        return;
    }
    let server = server();
    let port = server.mysql().unwrap().port().to_string();
    let told = run(Command::new("java")
        .args(["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", jar])
        .arg(here("Client.java"))
        .arg(port));
    assert_eq!(told.trim(), "Connector/J agrees");
}
