//! `anomalist sql` without a server: instrumentation, SQLite, scripts. Servers are in `crates/sql/tests`.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_databases::{Database, Target, Value};
use support::{Run, Scratch, anomalist, anomalist_with};

#[test]
fn statements_are_instrumented() {
    let out = anomalist(&["sql", "instrument", "--dialect", "mysql", "DELETE FROM t WHERE c2 > 1"])
        .expect(0)
        .text();
    assert_eq!(out, "SELECT rowId, wList FROM t WHERE c2 > 1 FOR UPDATE;\nDELETE FROM t WHERE c2 > 1;\n");
    let script = b"CREATE TABLE t (a INT);\nBEGIN;\nSELECT * FROM t;\nUPDATE t SET a = 1;\nCOMMIT;\n";
    let out = anomalist_with(&["sql", "instrument", "--dialect", "sqlite"], script).expect(0).text();
    assert_eq!(
        out,
        "CREATE TABLE t (a INT, rowId TEXT, wList TEXT);\nBEGIN;\nSELECT a, rowId, wList FROM t;\n\
         UPDATE t SET a = 1, wList = wList || '1.2,' RETURNING rowId, wList;\nCOMMIT;\n"
    );
    anomalist(&["sql", "instrument", "--dialect", "oracle", "SELECT 1"]).expect(3);
    Run::new(&["sql", "--dialect", "mysql"], b"", &[("DATABASE_URL", "")]).expect(3);
    anomalist(&["sql", "--mix", "merge=1"]).expect(3);
    anomalist(&["sql", "instrument", "--dialect", "mysql", "SELECT * FROM a NATURAL JOIN b"]).expect(3);
}

#[test]
fn sqlite_shows_nothing_and_the_level_decides_the_exit_status() {
    let scratch = Scratch::new("sql-embedded");
    let report = scratch.path("report.html");
    let answer = Run::new(
        &[
            "sql",
            "--duration",
            "1s",
            "--isolation",
            "all",
            "--level",
            "serializable",
            "--json",
            "--report",
            &report,
            "--runs",
            &scratch.path("runs"),
        ],
        b"",
        &[("DATABASE_URL", "")],
    )
    .expect(2)
    .json();
    assert_eq!(answer["database"]["product"], "SQLite");
    let levels = answer["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 3);
    // Where transactions wait for each other at BEGIN, no two are open at once, and nothing could be seen.
    for (level, verdict) in levels.iter().zip(["holds", "unknown", "unknown"]) {
        assert_eq!((&level["verdict"], &level["level"]), (&verdict.into(), &"serializable".into()));
        assert_eq!(level["reason"].is_string(), verdict == "unknown");
        assert!(level["anomalies"].as_array().unwrap().is_empty());
        assert!(level["committed"].as_u64().unwrap() > 0);
    }
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains(">IMMEDIATE</h2>"));
    // The same is kept.
    let kept = |name: &str| std::fs::read_to_string(scratch.path(&format!("runs/latest/{name}"))).unwrap();
    assert_eq!(kept("report.html"), page);
    assert!(kept("report.txt").contains("IMMEDIATE: judged as serializable"));
    let result: serde_json::Value = serde_json::from_str(&kept("result.json")).unwrap();
    assert_eq!((&result["command"], &result["levels"]), (&"sql".into(), &answer["levels"]));
}

#[test]
fn a_single_session_decides_nothing() {
    let scratch = Scratch::new("sql-single");
    let runs = scratch.path("runs");
    let run = |args: &[&str]| {
        let shared = ["sql", "--duration", "1s", "--isolation", "deferred", "--runs", &runs];
        let args = [&shared[..], args].concat();
        Run::new(&args, b"", &[("DATABASE_URL", "")])
    };
    let out = run(&["--sessions", "1"]).expect(2).text();
    assert!(out.contains("(Adya): unknown") && out.contains("were open at"), "{out}");
    run(&["--sessions", "3", "--level", "serializable"]).expect(0);
}

#[test]
fn scenarios_and_scripts_run_on_sqlite() {
    let table =
        Run::new(&["sql", "scenarios", "--json", "--isolation", "deferred"], b"", &[("DATABASE_URL", "")]);
    let table = table.expect(0).json();
    let row = table["levels"][0]["happened"].as_object().unwrap();
    assert_eq!(row.len(), 10);
    assert!(row.values().all(|happened| happened == false), "{row:?}");

    let scratch = Scratch::new("sql-replay");
    let script = scratch.path("p4.sql");
    let text = "CREATE TABLE test (id INT PRIMARY KEY, value INT);\nINSERT INTO test (id, value) VALUES (1, 10);\n\
        BEGIN; -- T1\nBEGIN; -- T2\nSELECT value FROM test; -- T1\nSELECT value FROM test; -- T2\n\
        UPDATE test SET value = 11; -- T1\nCOMMIT; -- T1\nUPDATE test SET value = 12; -- T2\nCOMMIT; -- T2\n";
    std::fs::write(&script, text).unwrap();
    let out = Run::new(&["sql", "replay", &script], b"", &[("DATABASE_URL", "")]).expect(0).text();
    assert!(out.contains("no anomaly") && out.contains("T2 (session T2): Aborted"), "{out}");
    // A folder of scripts is tried as it is, whatever its dialect.
    let folder = scratch.path("templates");
    std::fs::create_dir(&folder).unwrap();
    for (name, lines) in
        [("p4", text), ("replace", "CREATE TABLE t (a INT);\nSELECT a FROM t FOR UPDATE; -- T1\n")]
    {
        let script = format!("-- dialect: mariadb\n-- expects: lost-update\n{lines}");
        std::fs::write(format!("{folder}/{name}.sql"), script).unwrap();
    }
    let answer =
        Run::new(&["sql", "replay", &folder, "--json"], b"", &[("DATABASE_URL", "")]).expect(2).json();
    assert_eq!(answer["scripts"][0]["shown"].as_array().unwrap().len(), 0);
    assert_eq!(answer["scripts"][1]["not_tried"], "locks that it does not have");
    std::fs::write(&script, "BEGIN; -- T1\nCOMMIT;\n").unwrap();
    Run::new(&["sql", "replay", &script], b"", &[("DATABASE_URL", "")]).expect(3);
}

#[test]
fn tables_of_a_file_are_left_alone() {
    let scratch = Scratch::new("sql-file");
    let url = format!("sqlite:{}", scratch.path("mine.db"));
    let mut session = url.parse::<Target>().unwrap().connect().unwrap();
    session.run("CREATE TABLE users (id INT); INSERT INTO users VALUES (7)").unwrap();
    let replay =
        |name: &str, text: &str| Run::new(&["sql", "replay", &scratch.file(name, text), &url], b"", &[]);
    let existing =
        "CREATE TABLE Users (id INT);\nINSERT INTO users (id) VALUES (1);\nSELECT id FROM users; -- T1\n";
    for (name, text) in [
        ("fresh.sql", existing.to_owned()),
        ("if.sql", existing.replace("TABLE", "TABLE IF NOT EXISTS")),
        (
            "step.sql",
            "CREATE TABLE a (id INT);\nCREATE TABLE IF NOT EXISTS \"users\" (id INT); -- T1\n".to_owned(),
        ),
        (
            "view.sql",
            "CREATE TABLE a (id INT);\nCREATE VIEW users AS SELECT id FROM a;\nSELECT id FROM a; -- T1\n"
                .to_owned(),
        ),
    ] {
        let run = replay(name, &text).expect(3);
        assert!(run.stderr().contains("exists already"), "{}", run.stderr());
    }
    // What a script makes itself goes, also if it cannot be made in full.
    let more = "CREATE TABLE a (id INT);\nINSERT INTO nowhere (id) VALUES (1);\nSELECT id FROM a; -- T1\n";
    replay("half.sql", more).expect(3);
    let step = "CREATE TABLE a (id INT);\nCREATE TABLE b (id INT); -- T1\nSELECT id FROM b; -- T1\n";
    replay("whole.sql", step).expect(0);
    let left = session.query("SELECT group_concat(name) FROM sqlite_schema", &[]).unwrap();
    assert_eq!(left.value(), Some(&Value::Text("users".to_owned())));
    assert_eq!(session.query("SELECT id FROM users", &[]).unwrap().int(), Some(7));
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    for (flag, value) in [
        ("--values", "9223372036854775807"),
        ("--values", "0"),
        ("--rows", "9999999999999"),
        ("--rows", "0"),
        ("--tables", "0"),
        ("--columns", "0"),
        ("--statements", "0"),
        ("--round", "0"),
        ("--read-all", "0"),
        ("--duration", "0s"),
        (
            "--mix",
            "select=0,cross=0,compound=0,aggregate=0,insert=0,copy=0,upsert=0,update=0,delete=0,replace=0",
        ),
    ] {
        let run = Run::new(&["sql", flag, value], b"", &[("DATABASE_URL", "")]).expect(3);
        assert!(run.stderr().contains(flag), "{}", run.stderr());
    }
    let largest = ["--values", "1000000", "--rows", "100", "--duration", "2s", "--isolation", "deferred"];
    let scratch = Scratch::new("sql-largest");
    let required = ["sql", "--level", "serializable", "--runs", &scratch.path("runs")];
    Run::new(&[&required[..], &largest[..]].concat(), b"", &[("DATABASE_URL", "")]).expect(0);
}

/// A run that is killed leaves its tables in the file. The next one drops them and no others.
#[cfg(unix)]
#[test]
fn the_next_run_drops_what_a_killed_one_left() {
    let scratch = Scratch::new("sql-killed");
    let file = scratch.path("s.db");
    let url = format!("sqlite:{file}");
    let runs = scratch.path("runs");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(["sql", &url, "--duration", "60s", "-q", "--runs", &runs])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the binary starts");
    let holds_tables = || {
        let files = [file.clone(), format!("{file}-wal")].map(|name| std::fs::read(name).unwrap_or_default());
        let made = b"anomalist_sql_made";
        files.iter().any(|bytes| bytes.windows(made.len()).any(|window| window == made))
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holds_tables() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("it runs");
    child.wait().expect("it is gone");
    for _ in 0..2 {
        let flags = ["--duration", "300ms", "--isolation", "deferred", "-q", "--runs", &runs];
        let run = anomalist(&[&["sql", &url], &flags[..]].concat());
        assert!(run.ended_with(0) || run.ended_with(2), "{}{}", run.text(), run.stderr());
    }
}
