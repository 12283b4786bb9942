//! `anomalist explore`: small programs in Python that lose an update. Over HTTP with the standard library,
//! over MySQL's protocol with PyMySQL, over PostgreSQL's with SQLAlchemy and pytest (the cart of
//! `docs/weak-isolation.md`).

#![cfg(feature = "weakdb")]
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Two clients add one to a counter and the sum is looked at. With `fixed`, each has a counter of its own.
const PROGRAM: &str = r#"
import json, os, sys, urllib.request

def post(path, body):
    url = os.environ["ANOMALIST_HTTP_URL"] + path
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))

fixed = sys.argv[1] == "fixed"
for client in ["a", "b"]:
    key = "n/" + client if fixed else "n"
    session = post("/session", {})["session"]
    def run(*operations):
        return post("/kv", {"session": session, "operations": list(operations)})["results"]
    run(["begin"])
    [n] = run(["read", key])
    run(["write", key, (n or 0) + 1])
    run(["commit"])
# Asked in SQL no client would see keys, so the last client looks as it writes: what it wrote is the sum.
total = 2 if fixed else (n or 0) + 1
print("total", total)
sys.exit(0 if total == 2 else 1)
"#;

/// No run is slow for a reason of its own; the machine may be.
const PATIENT: [&str; 4] = ["explore", "--quiet", "--timeout", "10m"];

fn explore(arguments: &[&str], variant: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(PATIENT)
        .args(arguments)
        .args(["--", "python3", "-c", PROGRAM, variant])
        .output()
        .unwrap()
}

fn has_python() -> bool {
    has("python3", "sys")
}

/// Whether this Python can import these.
fn has(python: &str, modules: &str) -> bool {
    let probe = Command::new(python).args(["-c", &format!("import {modules}")]).output();
    let there = probe.is_ok_and(|o| o.status.success());
    if !there {
        anomalist_testkit::skip::missing("python", format!("{python} cannot import {modules}"));
    }
    there
}

/// The Python that has the clients' packages.
fn python() -> String {
    std::env::var("ANOMALIST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

#[test]
fn finds_repeats_and_explains_a_lost_update() {
    if !has_python() {
        return;
    }
    let output = explore(&["--level", "causal", "--runs", "12", "--json"], "broken");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failure = &found["failures"][0];
    assert!(failure["message"].as_str().unwrap().contains("total 1"), "{found:#}");
    let why = &found["explanation"];
    assert_eq!(why["reproduced"], true, "{found:#}");
    assert_eq!(why["stale_reads"].as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!(why["stale_reads"][0]["newest_value"], "1");
    assert!(why["anomalies"].as_array().unwrap().iter().any(|a| a == "lost-update"), "{found:#}");

    let seed = failure["seed"].to_string();
    let again = explore(&["--seed", &seed, "--runs", "1", "--no-explain"], "broken");
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(String::from_utf8_lossy(&again.stdout).contains("| total 1"), "{again:?}");
}

#[test]
fn passes_after_the_fix_and_when_serializable() {
    if !has_python() {
        return;
    }
    let fixed = explore(&["--runs", "5", "--coverage"], "fixed");
    assert_eq!(fixed.status.code(), Some(0), "{fixed:?}");
    assert!(String::from_utf8_lossy(&fixed.stdout).starts_with("No run of 5 failed at causal."), "{fixed:?}");
    let serial = explore(&["--level", "serializable", "--runs", "5"], "broken");
    assert_eq!(serial.status.code(), Some(0), "{serial:?}");
}

#[test]
fn tries_everything() {
    if !has_python() {
        return;
    }
    let output = explore(&["--systematic", "--runs", "20", "--json", "--no-explain"], "broken");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The second client reads the initial value or the first one's.
    assert_eq!((&found["complete"], &found["runs"]), (&true.into(), &2.into()), "{found:#}");
    assert_eq!(found["failures"].as_array().unwrap().len(), 1);
}

#[test]
fn a_command_that_cannot_be_started_is_bad_input() {
    let output = Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(["explore", "--", "/no/such/program"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot start /no/such/program"));
}

/// Two clients add one to a counter in a table, and try again if the server asks for it; a third looks at
/// it. Or the setup of that.
const COUNTER: &str = r#"
import os, pymysql, sys

def connect():
    port = int(os.environ["MYSQL_TCP_PORT"])
    return pymysql.connect(host=os.environ["MYSQL_HOST"], port=port, user="root", database="weakdb")

def add(db):
    while True:
        try:
            with db.cursor() as c:
                c.execute("SELECT v FROM counter WHERE id = 1")
                [v] = c.fetchone()
                c.execute("UPDATE counter SET v = %s WHERE id = 1", [v + 1])
            return db.commit()
        except pymysql.err.OperationalError as e:
            assert e.args[0] == 1213, e
            db.rollback()

if sys.argv[1] == "setup":
    with connect() as db, db.cursor() as c:
        c.execute("CREATE TABLE counter (id INT PRIMARY KEY, v INT)")
        c.execute("INSERT INTO counter VALUES (1, 0)")
        db.commit()
else:
    add(connect())
    add(connect())
    with connect() as db, db.cursor() as c:
        c.execute("SET anomalist.latest = on")
        c.execute("SELECT v FROM counter WHERE id = 1")
        [total] = c.fetchone()
        print("total", total)
        sys.exit(total != 2)
"#;

/// A file of this name in a folder of this test's own; both are gone when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let folder = std::env::temp_dir().join(format!("anomalist-explore-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Scratch(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn over_mysql_with_setup() {
    let python = python();
    if !has(&python, "pymysql") {
        return;
    }
    let scratch = Scratch::new("mysql");
    let (program, recorded) = (scratch.file("counter.py"), scratch.file("failed.anomalist"));
    std::fs::write(&program, COUNTER).unwrap();
    let setup = format!("'{python}' '{program}' setup");
    let explore = |arguments: &[&str]| -> (Option<i32>, Value) {
        let output = Command::new(env!("CARGO_BIN_EXE_anomalist"))
            .args(PATIENT)
            .args(["--json", "--setup", &setup])
            .args(arguments)
            .args(["--", &python, &program, "run"])
            .output()
            .unwrap();
        (
            output.status.code(),
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}")),
        )
    };
    let (status, found) = explore(&["--runs", "12", "--record", &recorded]);
    assert_eq!(status, Some(1), "{found:#}");
    assert!(found["failures"][0]["message"].as_str().unwrap().contains("total 1"), "{found:#}");
    let why = &found["explanation"];
    assert_eq!(why["reproduced"], true, "{found:#}");
    let [stale] = &why["stale_reads"].as_array().unwrap()[..] else { panic!("{found:#}") };
    let is = |field: &str, value: &str| assert_eq!(stale[field], value, "{found:#}");
    is("key", "counter/1/v");
    is("value", "0");
    is("newest_value", "1");
    is("statement", "SELECT v FROM counter WHERE id = 1");
    is("after", "UPDATE counter SET v = 1 WHERE id = 1");
    assert!(why["anomalies"].as_array().unwrap().iter().any(|a| a == "lost-update"), "{found:#}");
    // From snapshot isolation on, the second client is refused and tries again.
    assert_eq!(why["gone_at"]["level"], "snapshot-isolation", "{found:#}");

    // The recorded history is the failing one, and is what the level allows.
    for (level, status) in [("causal", 0), ("serializable", 1)] {
        let judged = Command::new(env!("CARGO_BIN_EXE_anomalist"))
            .args(["check", &recorded, "--level", level, "-q"])
            .output()
            .unwrap();
        assert_eq!(judged.status.code(), Some(status), "{judged:?}");
    }

    let seed = found["failures"][0]["seed"].to_string();
    let (status, again) = explore(&["--seed", &seed, "--runs", "1", "--no-explain"]);
    assert_eq!((status, &again["failures"][0]["message"]), (Some(1), &found["failures"][0]["message"]));

    // The second client reads 0 or 1; everything else follows.
    let (status, all) = explore(&["--systematic", "--runs", "50", "--no-explain", "--coverage"]);
    assert_eq!((status, &all["complete"], &all["runs"]), (Some(1), &true.into(), &2.into()), "{all:#}");
    assert_eq!((&all["coverage"]["states"], all["failures"].as_array().unwrap().len()), (&2.into(), 1));
}

#[test]
fn a_setup_that_fails_is_reported() {
    let output = Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(PATIENT)
        .args(["--setup", "echo no such thing; exit 7", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(
        reported.contains("the setup command failed") && reported.contains("no such thing"),
        "{reported}"
    );
}

/// Runs tests of a folder of `docs/examples`, by name, after its setup.
fn example(folder: &str, level: &str, runs: &str, setup: &str, tests: &str) -> Output {
    let python = python();
    Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(PATIENT)
        .args(["--level", level, "--runs", runs, "--no-explain"])
        .args(["--setup", &format!("'{python}' {setup}"), "--"])
        .args([&python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", tests])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples").join(folder))
        .output()
        .unwrap()
}

#[test]
fn the_guides_cart_fails_until_it_is_fixed() {
    if !has(&python(), "sqlalchemy, psycopg, pytest") {
        return;
    }
    let broken = example("cart", "causal", "12", "cart.py", "broken");
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    let printed = String::from_utf8_lossy(&broken.stdout);
    assert!(printed.contains("assert ['pear'] == ['apple', 'pear']"), "{printed}");
    let fixed = example("cart", "causal", "5", "cart.py", "fixed");
    assert_eq!(fixed.status.code(), Some(0), "{fixed:?}");
}

/// The shop of `docs/django.md`.
#[test]
fn the_django_shop_oversells_until_it_locks() {
    if !has(&python(), "django, psycopg, pytest") {
        return;
    }
    let broken = example("django", "read-committed", "12", "setup.py", "unlocked");
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    let printed = String::from_utf8_lossy(&broken.stdout);
    assert!(printed.contains("== 5"), "{printed}");
    let fixed = example("django", "read-committed", "5", "setup.py", "test_locked");
    assert_eq!(fixed.status.code(), Some(0), "{fixed:?}");
}

/// Runs a shell command as the test, with these variables around it.
fn shell(flags: &[&str], command: &str, around: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(["explore", "--quiet", "--no-explain"])
        .args(flags)
        .args(["--", "sh", "-c", command])
        .envs(around.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn nothing_leads_the_command_to_another_database() {
    let around = [
        ("PGSERVICE", "prod"),
        ("PGSERVICEFILE", "/tmp/prod.conf"),
        ("PGHOSTADDR", "10.0.0.1"),
        ("PGOPTIONS", "-c x=y"),
        ("PGSSLMODE", "require"),
        ("PGREQUIRESSL", "1"),
        ("PGCHANNELBINDING", "require"),
        ("PGTARGETSESSIONATTRS", "read-only"),
        ("PGPASSFILE", "/tmp/pass"),
        ("MYSQL_UNIX_PORT", "/run/prod.sock"),
        ("MYSQL_PWD", "secret"),
        ("MYSQL_PORT", "3306"),
        ("PGTZ", "UTC"),
    ];
    let command = r#"env | grep -E '^(PG|MYSQL)' | sort
        test -z "$PGSERVICE$PGSERVICEFILE$PGHOSTADDR$PGOPTIONS$PGREQUIRESSL$PGCHANNELBINDING$PGTARGETSESSIONATTRS$PGPASSFILE" &&
        test -z "$MYSQL_UNIX_PORT$MYSQL_PWD" && test "$MYSQL_PORT" = "$MYSQL_TCP_PORT" &&
        test "$PGSSLMODE $PGHOST $PGTZ" = "disable 127.0.0.1 UTC""#;
    let output = shell(&["--runs", "1"], command, &around);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_run_ends_with_everything_it_started() {
    let since = std::time::Instant::now();
    let left = shell(&["--runs", "1"], "sleep 4711 & exit 0", &[]);
    assert_eq!(left.status.code(), Some(0), "{left:?}");
    let late = shell(&["--runs", "1", "--timeout", "1s"], "echo here; sleep 4712; true", &[]);
    assert_eq!(late.status.code(), Some(1), "{late:?}");
    let text = String::from_utf8_lossy(&late.stdout);
    assert!(text.contains("it took longer than 1s") && text.contains("| here"), "{text}");
    assert!(since.elapsed() < std::time::Duration::from_secs(600));
    for seconds in ["4711", "4712"] {
        let found = Command::new("pgrep").args(["-f", &format!("sleep {seconds}")]).output().unwrap();
        assert!(found.stdout.is_empty(), "sleep {seconds} is left");
    }
}

#[test]
fn a_command_that_never_connects_is_warned_about() {
    let output = shell(&["--runs", "2"], "true", &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("never connected"), "{output:?}");
    assert_eq!(shell(&["--runs", "0"], "true", &[]).status.code(), Some(3));
}

/// The command counts its runs, and the history has that number in a key.
#[test]
fn the_recorded_history_is_that_of_the_failed_run() {
    if !has_python() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("anomalist-explore-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = r#"
import json, os, sys, urllib.request
path = sys.argv[1] + "/runs"
n = int(open(path).read()) + 1 if os.path.exists(path) else 1
open(path, "w").write(str(n))
body = json.dumps({"operations": [["write", "run%d" % n, 1]]}).encode()
urllib.request.urlopen(urllib.request.Request(os.environ["ANOMALIST_HTTP_URL"] + "/kv", body, {"Content-Type": "application/json"}))
sys.exit(1 if n == 2 else 0)
"#;
    let file = folder.join("history.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(PATIENT)
        .args(["--runs", "3", "--no-explain", "--record", file.to_str().unwrap()])
        .args(["--", "python3", "-c", program, folder.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("run2") && !text.contains("run3"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}
