//! What the servers tell about themselves is enough to check snapshot isolation by timestamps: a clean run
//! is clean, and a run that loses updates is not.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]
#![allow(clippy::print_stdout, reason = "figures of a test")]
#![cfg(all(feature = "postgres", feature = "mysql"))]

mod suite;

use anomalist_databases::collect::{self, Commit, Seen};
use anomalist_databases::{Connection, Database, Error, Isolation, Value};
use anomalist_history::{Builder, History, OpKind, Stamps, Timestamp};
use anomalist_lab::server::{Engine, Server, Setup};
use anomalist_level::Budget;
use anomalist_timestamp::offline;
use anomalist_timestamp::{Axiom, Mode, Rule, Tie};
use std::collections::HashMap;
use std::thread;

struct Done {
    session: i64,
    seen: Seen,
    number: Option<u64>,
    ops: Ops,
}

type Ops = Vec<(OpKind, i64, i64)>;

const SESSIONS: i64 = 4;
const KEYS: i64 = 6;

/// Reads two keys and writes one of them; values are unique.
fn transaction(
    session: &mut dyn Connection,
    level: &Isolation,
    random: &mut fastrand::Rng,
    value: i64,
) -> Result<(Seen, Ops), Error> {
    let sql = |text: &str| match session_is_postgres(session) {
        true => text.replacen('?', "$1", 1).replacen('?', "$2", 1),
        false => text.to_owned(),
    };
    let (read, write) = (sql("SELECT v FROM r WHERE k = ?"), sql("UPDATE r SET v = ? WHERE k = ?"));
    let seen = collect::begin(session, level)?;
    let mut ops = Vec::new();
    for _ in 0..2 {
        let key = random.i64(0..KEYS);
        let found = session.query(&read, &[Value::Int(key)])?.int().unwrap();
        ops.push((OpKind::Read, key, found));
    }
    if random.u8(..4) > 0 {
        let key = ops[0].1;
        session.query(&write, &[Value::Int(value), Value::Int(key)])?;
        ops.push((OpKind::Write, key, value));
    }
    Ok((seen, ops))
}

fn session_is_postgres(session: &dyn Connection) -> bool {
    session.product().family == anomalist_databases::Family::Postgres
}

fn run(server: &Server, level: &str, each: i64) -> History {
    let target = server.target(0);
    let mut admin = target.connect().unwrap();
    admin.run("DROP TABLE IF EXISTS r; CREATE TABLE r (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    for key in 0..KEYS {
        admin.run(&format!("INSERT INTO r VALUES ({key}, 0)")).unwrap();
    }
    let level = admin.product().isolation(level).unwrap();
    let mut collector = collect::collector(target, true).unwrap();
    let mut commits = collector.poll().unwrap();
    let done: Vec<Done> = thread::scope(|scope| {
        let running: Vec<_> = (0..SESSIONS)
            .map(|number| {
                let level = &level;
                scope.spawn(move || {
                    let mut session = target.connect().unwrap();
                    let mut random = fastrand::Rng::with_seed(u64::try_from(number).unwrap());
                    let mut done = Vec::new();
                    for at in 0..each {
                        let value = 1 + at * SESSIONS + number;
                        match transaction(session.as_mut(), level, &mut random, value) {
                            Ok((seen, ops)) => {
                                let ended = collect::commit(session.as_mut());
                                if ended.result.is_ok() {
                                    let wrote = ops.len() > 2;
                                    assert_eq!(ended.number.is_some(), wrote, "only writers have a number");
                                    done.push(Done { session: number, seen, number: ended.number, ops });
                                }
                            }
                            Err(error) => assert!(error.kind().is_retryable(), "{error}"),
                        }
                        session.rollback().unwrap();
                    }
                    done
                })
            })
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    commits.extend(collector.poll().unwrap());
    assert!(collector.poll().unwrap().is_empty());
    collector.finish().unwrap();
    assert!(commits.is_sorted_by(|a, b| a.place < b.place));
    if session_is_postgres(admin.as_ref()) {
        let left = admin.run("SELECT COUNT(*) FROM pg_replication_slots").unwrap();
        assert_eq!(left[0].int(), Some(0), "no slot is left behind");
    }
    history(&done, &commits)
}

fn history(done: &[Done], commits: &[Commit]) -> History {
    let places: HashMap<u64, u64> = commits.iter().map(|c| (c.number, c.place)).collect();
    let stamp = |physical: u64| Timestamp { physical: i64::try_from(physical).unwrap(), logical: 0 };
    let mut builder = Builder::new();
    let zero = builder.int(0);
    builder.set_initial_default(Some(zero));
    for done in done {
        let name = builder.int(done.session);
        let session = builder.session(name);
        let draft = builder.transaction(session);
        for &(kind, key, value) in &done.ops {
            let (key, value) = (builder.int(key), builder.int(value));
            let key = builder.key(key);
            builder.op(draft, kind, key, value);
        }
        let place = done.number.map(|number| *places.get(&number).expect("every commit is in the log"));
        match &done.seen {
            Seen::UpTo(start) => {
                let commit = place.unwrap_or(*start);
                builder.set_stamps(draft, Stamps { start: stamp(*start), commit: stamp(commit) });
            }
            Seen::Set { set, .. } => {
                let visible = commits.iter().filter(|c| set.view().sees(c.number)).map(|c| c.place).max();
                let commit = stamp(place.or(visible).unwrap_or(0));
                builder.set_stamps(draft, Stamps { start: commit, commit });
                builder.set_snapshot(draft, done.number, Some(set.clone()));
            }
        }
    }
    builder.finish().unwrap()
}

fn violations(history: &History) -> offline::Findings {
    let rule = Rule { mode: Mode::Si, tie: Tie::Inclusive };
    offline::find(history, rule, 5, 1.try_into().unwrap(), &Budget::unlimited()).unwrap().unwrap()
}

#[test]
fn postgres() {
    let Some(server) = suite::server(Engine::Postgres, &Setup::default()) else { return };
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let history = run(&server, level, 300);
        let found = violations(&history);
        println!("PostgreSQL {level}: {} transactions, forks: {}", history.txn_count(), found.forks);
        assert!(history.txn_count() > 300);
        assert!(found.is_clean(), "{found:?}");
    }
    let mut session = server.target(0).connect().unwrap();
    let weak = session.product().isolation("read committed").unwrap();
    assert!(collect::begin(session.as_mut(), &weak).is_err(), "there is no one snapshot");
}

#[test]
fn mariadb() {
    let Some(server) = suite::server(Engine::Mariadb, &Setup::default()) else { return };
    let history = run(&server, "REPEATABLE READ with innodb_snapshot_isolation", 1_000);
    let found = violations(&history);
    println!("MariaDB, snapshot isolation: {} transactions", history.txn_count());
    assert!(history.txn_count() > 300);
    assert!(found.is_clean(), "{found:?}");

    // Whether it does depends on who meets whom.
    let loses = [300, 3_000].into_iter().any(|each| {
        let history = run(&server, "REPEATABLE READ", each);
        let found = violations(&history);
        println!("MariaDB, repeatable read: {} transactions, {found:?}", history.txn_count());
        found.count(Axiom::NoConflict) > 0
    });
    assert!(loses, "it loses updates");
}

/// The order of commits goes on through a crash of the server.
#[test]
fn after_a_crash() {
    for engine in [Engine::Postgres, Engine::Mariadb] {
        let Some(server) = suite::server(engine, &Setup::default()) else { return };
        let target = server.target(0);
        let level = "REPEATABLE READ";
        target.connect().unwrap().run("CREATE TABLE r (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
        let mut collector = collect::collector(target, true).unwrap();
        let mut seen = collector.poll().unwrap();
        let mut numbers = Vec::new();
        for key in 0..4 {
            let mut session = target.connect().unwrap();
            let level = session.product().isolation(level).unwrap();
            collect::begin(session.as_mut(), &level).unwrap();
            session.run(&format!("INSERT INTO r VALUES ({key}, 0)")).unwrap();
            let ended = collect::commit(session.as_mut());
            ended.result.unwrap();
            numbers.push(ended.number.unwrap());
            if key == 1 {
                seen.extend(collector.poll().unwrap());
            }
            if key == 2 {
                server.kill(0);
                assert!(collector.poll().is_err(), "the server is gone");
                server.start_again(0).unwrap();
            }
        }
        seen.extend(collector.poll().unwrap());
        let logged: Vec<u64> = seen.iter().map(|c| c.number).filter(|n| numbers.contains(n)).collect();
        assert_eq!(logged, numbers, "{engine:?}: each once, in order");
        assert!(seen.is_sorted_by(|a, b| a.place < b.place));
        collector.finish().unwrap();
    }
}

/// On a server that keeps running, nothing of Anomalist's stays, even if no process is left to remove it.
#[test]
fn a_slot_goes_with_its_session() {
    let Some(server) = suite::server(Engine::Postgres, &Setup::default()) else { return };
    let target = server.target(0);
    let mut admin = target.connect().unwrap();
    let mut collector = collect::collector(target, false).unwrap();
    admin.run("CREATE TABLE r (k BIGINT PRIMARY KEY)").unwrap();
    assert!(!collector.poll().unwrap().is_empty());
    admin.run("INSERT INTO r VALUES (1)").unwrap();
    assert_eq!(collector.poll().unwrap().len(), 1);
    assert!(collector.poll().unwrap().is_empty());
    let temporary = admin.run("SELECT COUNT(*) FROM pg_replication_slots WHERE temporary").unwrap();
    assert_eq!(temporary[0].int(), Some(1));
    collector.finish().unwrap();
    let left = admin.run("SELECT COUNT(*) FROM pg_replication_slots").unwrap();
    assert_eq!(left[0].int(), Some(0));
}
