//! No false alarm: random transactions at every level of PostgreSQL, with savepoints, rollbacks, deleted
//! rows, clients that bypass the recording, and faults. PostgreSQL keeps its levels, so what is recorded
//! must keep them too.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist::Level;
use anomalist_databases::{Connection, Database, Error, Target, Value};
use anomalist_record::{Options, Summary};
use fastrand::Rng;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use support::{judge, record, run, server};

const ROWS: i64 = 8;
const LEVELS: [(&str, Level); 3] = [
    ("READ COMMITTED", Level::ReadCommitted),
    ("REPEATABLE READ", Level::SnapshotIsolation),
    ("SERIALIZABLE", Level::Serializable),
];

fn statement(session: &mut Box<dyn Connection>, rng: &mut Rng) -> Result<(), Error> {
    let (id, other) = (rng.i64(0..ROWS), rng.i64(0..ROWS));
    let ids = [Value::Int(id), Value::Int(other)];
    match rng.u32(0..12) {
        0..=2 => session.query("SELECT v FROM kv WHERE id = $1", &ids[..1]).map(drop),
        3 => session.run(&format!("SELECT * FROM kv WHERE id BETWEEN {id} AND {other}")).map(drop),
        4 => session
            .query("SELECT a.v FROM kv a JOIN kv b ON b.id = a.v WHERE a.id = $1 FOR UPDATE OF a", &ids[..1])
            .map(drop),
        5 | 6 => session.query("UPDATE kv SET v = $2 WHERE id = $1", &ids).map(drop),
        7 => session.run(&format!("UPDATE kv SET v = v + 1 WHERE v = {other}")).map(drop),
        8 => session.query("DELETE FROM kv WHERE id = $1", &ids[..1]).map(drop),
        9 => session
            .run(&format!("INSERT INTO kv VALUES ({id}, {other}) ON CONFLICT (id) DO UPDATE SET v = 0"))
            .map(drop),
        10 => session.run(&format!("SAVEPOINT s; UPDATE kv SET v = 7 WHERE id = {id}; RELEASE s")).map(drop),
        _ => session.run(&format!("SAVEPOINT s; DELETE FROM kv WHERE id = {id}; ROLLBACK TO s")).map(drop),
    }
}

fn transaction(session: &mut Box<dyn Connection>, level: &str, rng: &mut Rng) -> Result<(), Error> {
    if rng.u32(0..8) == 0 {
        return session.run(&format!("UPDATE kv SET v = 1 WHERE id = {}", rng.i64(0..ROWS))).map(drop);
    }
    session.run(&format!("BEGIN ISOLATION LEVEL {level}"))?;
    for _ in 0..rng.u32(1..5) {
        statement(session, rng)?;
    }
    session.run(if rng.u32(0..10) == 0 { "ROLLBACK" } else { "COMMIT" }).map(drop)
}

fn client(target: &Target, level: &str, seed: u64, over: &AtomicBool) {
    let mut rng = Rng::with_seed(seed);
    let mut session: Option<Box<dyn Connection>> = None;
    while !over.load(Ordering::Relaxed) {
        let Some(open) = &mut session else {
            session = target.connect().ok();
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        if transaction(open, level, &mut rng).is_err() && (open.is_lost() || open.rollback().is_err()) {
            session = None;
        }
    }
}

/// Runs clients for some time, beside something that disturbs them.
fn campaign(
    level: &str,
    disturb: impl FnOnce(&anomalist_lab::server::Server, &AtomicBool),
) -> (String, Summary) {
    let server = server();
    run(server.target(0), "CREATE TABLE kv (id int PRIMARY KEY, v int)");
    run(server.target(0), &format!("INSERT INTO kv SELECT i, i FROM generate_series(0, {}) i", ROWS - 1));
    // Of autocommitted statements too: at another level they would not be kept apart.
    run(server.target(0), &format!("ALTER DATABASE postgres SET default_transaction_isolation = '{level}'"));
    let recorded = record(&server, Options::default());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..5 {
            let (target, over) = (&recorded.target, &over);
            scope.spawn(move || client(target, level, seed, over));
        }
        // One that bypasses the recording.
        let (target, over) = (server.target(0), &over);
        scope.spawn(move || client(target, level, 99, over));
        disturb(&server, over);
        over.store(true, Ordering::Relaxed);
    });
    recorded.end()
}

#[test]
fn undisturbed_transactions_keep_their_level() {
    for (name, level) in LEVELS {
        let (history, summary) = campaign(name, |_, _| thread::sleep(Duration::from_secs(4)));
        assert!(summary.committed > 100 && summary.others > 20 && summary.versions > 20, "{summary:?}");
        assert_eq!((summary.gaps, summary.tables_given_up), (0, 0));
        assert_eq!(judge(&history, &[level]), [Some(true)], "{name}: {summary:?}");
    }
}

#[test]
fn cut_connections_and_killed_servers_are_no_violations() {
    for (name, _) in LEVELS {
        let (history, summary) = campaign(name, |server, _| {
            let mut rng = Rng::with_seed(5);
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = \
                       'client backend' AND pid <> pg_backend_pid() AND random() < 0.3";
            for round in 0..3 {
                for _ in 0..8 {
                    thread::sleep(Duration::from_millis(rng.u64(50..200)));
                    run(server.target(0), cut);
                }
                if round == 1 {
                    server.kill(0);
                    server.start_again(0).unwrap();
                }
            }
        });
        assert!(summary.gaps >= 1 && summary.unknown >= 1 && summary.versions > 20, "{summary:?}");
        // What was written while the log was lost is missing: the recording is not to be judged.
        let file =
            std::env::temp_dir().join(format!("anomalist-cut-off-{name}-{}.jsonl", std::process::id()));
        std::fs::write(&file, &history).unwrap();
        let refused = anomalist::History::read(&file).map(drop).unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(refused.contains("cut off"), "{name}: {refused}");
    }
}

#[test]
fn pgbench_keeps_the_levels_of_postgresql() {
    let server = server();
    let target = server.target(0);
    let pgbench = anomalist_lab::server::program(anomalist_lab::server::Engine::Postgres, "pgbench").unwrap();
    let bench = |target: &Target, arguments: &[&str]| {
        let (host, port) = target.address().unwrap();
        let mut command = Command::new(&pgbench);
        command.args(["-h", host, "-p", &port.to_string(), "-U", "postgres"]).args(arguments).arg("postgres");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    bench(target, &["-i", "-q", "-s", "1"]);
    for (name, level) in LEVELS {
        run(target, &format!("ALTER DATABASE postgres SET default_transaction_isolation = '{name}'"));
        for mode in ["simple", "extended", "prepared"] {
            let recorded = record(&server, Options::default());
            // Where its time ends between two tries, pgbench counts the transaction as failed.
            let said = bench(&recorded.target, &["-n", "-c", "4", "-T", "2", "-M", mode, "--max-tries=100"]);
            assert!(said.contains("number of transactions actually processed"), "{said}");
            let (history, summary) = recorded.end();
            assert!(summary.committed > 20 && summary.statements.seen > 20, "{summary:?}");
            assert_eq!((summary.others, summary.unknown, summary.unresolved), (0, 0, 0), "{summary:?}");
            assert!(history.contains(&format!("\"level\":\"{}\"", level.name())));
            assert_eq!(judge(&history, &[level]), [Some(true)], "{name}, {mode}: {summary:?}");
        }
    }
}
