//! `anomalist sql` with servers of PostgreSQL and MariaDB: what a run leaves alone, and what a script is
//! given.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_databases::Database;
use anomalist_lab::server::{Engine, Server, ServerError, Setup};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Run, Scratch};

/// A throw-away server; none where its programs are missing and may be.
fn server(engine: Engine) -> Option<Server> {
    match Server::start(engine, &Setup::default()) {
        Ok(server) => Some(server),
        Err(missing @ ServerError::Missing { .. }) => {
            anomalist_testkit::skip::missing("servers", missing);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn runs_share_a_server_and_leave_what_is_there() {
    let Some(server) = server(Engine::Postgres) else { return };
    let url = server.url(0);
    let mut session = server.target(0).connect().unwrap();
    session.run("CREATE SCHEMA anomalist_sql; CREATE TABLE anomalist_sql.mine (a INT)").unwrap();
    let scratch = Scratch::new("sql-shared");
    let level = ["--isolation", "serializable", "--level", "serializable"];
    let rest = ["--duration", "2s", "--runs", &scratch.path("runs")];
    let args = [&["sql", &url][..], &level, &rest].concat();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| Run::new(&args, b"", &[]))).collect();
        for run in runs {
            run.join().unwrap().expect(0);
        }
    });
    session.run("SELECT a FROM anomalist_sql.mine").unwrap();
    let left = "SELECT COUNT(*) FROM pg_namespace WHERE nspname LIKE 'anomalist%'";
    assert_eq!(session.query(left, &[]).unwrap().int(), Some(1));
}

/// The places of runs on a server.
fn places(server: &Server, engine: Engine) -> Vec<String> {
    let all = match engine {
        Engine::Postgres => "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'anomalist%'",
        _ => "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'anomalist%'",
    };
    let rows = server.target(0).connect().unwrap().query(all, &[]).unwrap().rows;
    let name = |row: &Vec<anomalist_databases::Value>| match &row[0] {
        anomalist_databases::Value::Text(name) => name.clone(),
        other => panic!("{other:?} is no name"),
    };
    let mut names: Vec<String> = rows.iter().map(name).collect();
    names.sort();
    names
}

/// The next run removes what a killed one left, and leaves alone what belongs to a run that goes on or to
/// users.
#[test]
fn what_a_killed_run_left_is_removed_by_the_next() {
    for engine in [Engine::Postgres, Engine::Mariadb] {
        let Some(server) = server(engine) else { continue };
        let scratch = Scratch::new("sql-killed");
        let mine = ["anomalist_sql_mine", "anomalist_sql_mine_2024"];
        let place = if engine == Engine::Postgres { "SCHEMA" } else { "DATABASE" };
        let mut session = server.target(0).connect().unwrap();
        mine.iter().for_each(|name| drop(session.run(&format!("CREATE {place} {name}")).unwrap()));
        let url = server.url(0);
        let start = |duration: &str, runs: &str| {
            let flags = ["sql", &url, "--duration", duration, "--runs", &scratch.path(runs), "-q"];
            let mut command = Command::new(env!("CARGO_BIN_EXE_anomalist"));
            command.args(flags).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let new_place = |known: &[String]| {
            let since = Instant::now();
            loop {
                let place = places(&server, engine).into_iter().find(|name| !known.contains(name));
                if let Some(place) = place {
                    return place.trim_end_matches("_states").to_owned();
                }
                assert!(since.elapsed() < Duration::from_secs(60), "the run has made no tables");
            }
        };
        let known = places(&server, engine);
        let mut killed = start("60s", "killed");
        let left = new_place(&known);
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert!(places(&server, engine).contains(&left));
        let mut goes_on = start("60s", "on");
        let alive = new_place(&places(&server, engine));
        // A short run may have shown too little for a verdict.
        let status = start("1s", "next").wait().unwrap().code();
        assert!(matches!(status, Some(0 | 2)), "{status:?}");
        let now = places(&server, engine);
        assert!(!now.iter().any(|name| name.starts_with(&left)), "{left} is left: {now:?}");
        assert!(now.iter().any(|name| name.starts_with(&alive)), "{alive} is gone: {now:?}");
        goes_on.kill().unwrap();
        goes_on.wait().unwrap();
        start("1s", "last").wait().unwrap();
        assert_eq!(places(&server, engine), known);
    }
}

/// Scripts for one server.
struct Bench {
    server: Server,
    scratch: Scratch,
}

impl Bench {
    fn new(engine: Engine, name: &str) -> Option<Bench> {
        Some(Bench { server: server(engine)?, scratch: Scratch::new(name) })
    }

    fn url(&self) -> String {
        self.server.url(0)
    }

    fn file(&self, text: &str) -> String {
        self.scratch.file("script.sql", &format!("{TABLE}{text}"))
    }

    fn replay(&self, text: &str, status: i32) -> Value {
        Run::new(&["sql", "replay", &self.file(text), &self.url(), "--json"], b"", &[]).expect(status).json()
    }

    fn refuses(&self, text: &str, why: &str) {
        let run = Run::new(&["sql", "replay", &self.file(text), &self.url()], b"", &[]).expect(3);
        assert!(run.stderr().contains(why), "{}", run.stderr());
    }
}

const TABLE: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, v INT);\nINSERT INTO t (id, v) VALUES (1, 10), (2, 20);\n";

/// A write skew, if it happens; without a query of everything at the end.
fn write_skew(first: [&str; 2]) -> String {
    let [a, b] = first;
    format!(
        "{a}; -- T1\n{b}; -- T2\nSELECT v FROM t; -- T1\nSELECT v FROM t; -- T2\n\
         UPDATE t SET v = 11 WHERE id = 1; -- T1\nUPDATE t SET v = 21 WHERE id = 2; -- T2\n\
         COMMIT; -- T1\nCOMMIT; -- T2\n"
    )
}

fn kinds(answer: &Value) -> Vec<&str> {
    answer["anomalies"].as_array().unwrap().iter().map(|a| a["kind"].as_str().unwrap()).collect()
}

#[test]
fn scripts_run_as_they_say_on_postgresql() {
    let Some(bench) = Bench::new(Engine::Postgres, "sql-servers-postgres") else { return };
    let level = |answer: &Value| answer["isolation"].as_str().unwrap().to_owned();
    // A client that says nothing has the server's level.
    let answer = bench.replay(&write_skew(["BEGIN", "BEGIN"]), 0);
    assert_eq!((level(&answer).as_str(), kinds(&answer)), ("READ COMMITTED", vec!["write-skew"]));
    let serializable = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    let set = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN";
    let within = "BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE";
    for said in [serializable, set, within] {
        let answer = bench.replay(&write_skew([said, said]), 0);
        assert_eq!((level(&answer).as_str(), kinds(&answer)), ("SERIALIZABLE", vec![]), "{said}");
        let ends = answer["transactions"].as_array().unwrap();
        assert!(ends.iter().any(|t| t["outcome"] == "aborted"), "{ends:?}");
    }
    let answer = bench.replay(&write_skew([serializable, "BEGIN"]), 0);
    assert_eq!(level(&answer), "READ COMMITTED");
    // The command line decides, whatever the columns begin with.
    let at = ["--isolation", "repeatable read", "--json"];
    let (file, url) = (bench.file(&write_skew([set, set])), bench.url());
    let answer = Run::new(&[&["sql", "replay", &file, &url][..], &at].concat(), b"", &[]).expect(0).json();
    assert_eq!((level(&answer).as_str(), kinds(&answer)), ("REPEATABLE READ", vec!["write-skew"]));

    // What happened is seen without a query of everything at the end.
    let header = "-- isolation: READ COMMITTED\n-- expects:";
    let twice = "SELECT v FROM t WHERE id = 1; -- T1\nSELECT v FROM t WHERE id = 1; -- T2\n\
        UPDATE t SET v = 11 WHERE id = 1; -- T1\nCOMMIT; -- T1\nUPDATE t SET v = 12 WHERE id = 1; -- T2\nCOMMIT; -- T2\n";
    bench.replay(&format!("{header} lost-update\nBEGIN; -- T1\nBEGIN; -- T2\n{twice}"), 0);
    let phantom = "BEGIN; -- T1\nBEGIN; -- T2\nSELECT id FROM t WHERE v > 25; -- T1\nSELECT id FROM t WHERE v > 25; -- T2\n\
        INSERT INTO t (id, v) VALUES (3, 30); -- T1\nINSERT INTO t (id, v) VALUES (4, 42); -- T2\nCOMMIT; -- T1\nCOMMIT; -- T2\n";
    bench.replay(&format!("{header} predicate-write-skew\n{phantom}"), 0);

    // Codes are understood, and what is not is reported.
    bench.replay(&format!("{header} g2-item\n{}", write_skew(["BEGIN", "BEGIN"])), 0);
    bench.replay(&format!("{header} G1a\n{}", write_skew(["BEGIN", "BEGIN"])), 2);
    bench.refuses(&format!("{header} wirte-skew\n{}", write_skew(["BEGIN", "BEGIN"])), "wirte-skew");
    bench.refuses("", "no statement has a session");
    bench.refuses("-- dialect: oracle\nSELECT v FROM t; -- T1\n", "oracle");
    bench.refuses("BEGIN; -- T1\nBEGIN; -- T1\n", "open already");
    bench.refuses("BEGIN; -- T1\nCOMMIT AND CHAIN; -- T1\n", "AND CHAIN");
    bench.refuses("PREPARE TRANSACTION 'a'; -- T1\n", "two-phase");
    bench.refuses("SELECT v FROM t; -- T1\nTRUNCATE t; -- T2\n", "TRUNCATE");
    bench.refuses("SELECT v FROM t; -- T1\nSELEC v FROM t; -- T2\n", "SELEC");
    // A table that is gone does not keep the others from being read.
    let gone = "BEGIN; -- T1\nCREATE TABLE u (a INT); -- T1\nROLLBACK; -- T1\nUPDATE t SET v = 1; -- T2\n";
    let gone = bench.replay(gone, 0);
    assert_eq!(gone["transactions"][2]["outcome"], "committed");
    // A table that one session makes is known to the others.
    let made = bench.replay(
        "CREATE TABLE u (a INT); -- T1\nINSERT INTO u VALUES (1); -- T1\nSELECT * FROM u; -- T2\n",
        0,
    );
    assert_eq!(made["transactions"][2]["statements"][0]["rows"][0].as_array().unwrap().len(), 1);
}

#[test]
fn scripts_run_as_they_say_on_mariadb() {
    let Some(bench) = Bench::new(Engine::Mariadb, "sql-servers-mariadb") else { return };
    let header = "-- isolation: READ UNCOMMITTED\n-- expects:";
    let dirty = |end: &str| {
        format!(
            "BEGIN; -- T1\nBEGIN; -- T2\nUPDATE t SET v = 101 WHERE id = 1; -- T1\nSELECT v FROM t; -- T2\n\
             {end}; -- T1\nCOMMIT; -- T2\n"
        )
    };
    let answer = bench.replay(&format!("{header} aborted-read\n{}", dirty("ROLLBACK")), 0);
    assert_eq!(answer["anomalies"][0]["forbidden"], false);
    let twice = "UPDATE t SET v = 11 WHERE id = 1; COMMIT";
    bench.replay(&format!("{header} intermediate-read\n{}", dirty(twice)), 0);

    let snapshot = "-- isolation: REPEATABLE READ\nSTART TRANSACTION WITH CONSISTENT SNAPSHOT; -- T1\n\
        UPDATE t SET v = 11 WHERE id = 1; -- T2\nSELECT v FROM t WHERE id = 1; -- T1\nCOMMIT; -- T1\n";
    let answer = bench.replay(snapshot, 0);
    let transactions = answer["transactions"].as_array().unwrap();
    let first = transactions.iter().find(|t| t["id"] == "T1").unwrap();
    assert_eq!(first["statements"][0]["rows"][0][0], "10");

    let answer =
        bench.replay("DELETE FROM t ORDER BY id LIMIT 1; -- T1\nSELECT v FROM t HAVING v > 5; -- T1\n", 0);
    let statement = |t: usize| &answer["transactions"][t]["statements"][0];
    assert_eq!((&statement(0)["affected"], &statement(0)["deleted"][0]), (&1.into(), &"r1=[]".into()));
    assert_eq!(statement(1)["rows"][0][0], "20");

    bench.refuses("BEGIN; -- T1\nCREATE TABLE u (a INT); -- T1\n", "MySQL commits");
    bench.refuses("SET autocommit = 0; -- T1\n", "implicit transactions");

    // The scenarios as scripts: they show what the table says.
    let folder = bench.scratch.path("scenarios");
    let at = [&bench.url(), "--isolation", "read uncommitted", "--json"];
    let table =
        Run::new(&[&["sql", "scenarios", "--scripts", &folder][..], &at].concat(), b"", &[]).expect(0).json();
    let shown = Run::new(&[&["sql", "replay", &folder][..], &at].concat(), b"", &[]).expect(0).json();
    for script in shown["scripts"].as_array().unwrap() {
        let name = script["script"].as_str().unwrap().trim_end_matches(".sql");
        let happened = table["levels"][0]["happened"][name].as_bool().unwrap();
        assert_eq!(!script["shown"].as_array().unwrap().is_empty(), happened, "{name}: {script}");
    }
}

#[test]
fn a_script_that_waits_can_be_interrupted() {
    let Some(bench) = Bench::new(Engine::Postgres, "sql-servers-interrupt") else { return };
    let file = bench.file("BEGIN; -- T1\nUPDATE t SET v = 3; -- T1\nUPDATE t SET v = 4; -- T2\n");
    let mut child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(["sql", "replay", &file, &bench.url()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut session = bench.server.target(0).connect().unwrap();
    let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while session.query(waiting, &[]).unwrap().int() == Some(0) {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    let began = Instant::now();
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}
