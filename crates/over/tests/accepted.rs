//! Small random programs with real clients in parallel: what clients see, and what the store recorded, is
//! accepted by the checker at the level that was asked for; known weak outcomes appear, and none at the
//! serializable level.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_check::{Budget, Request, check};
use anomalist_databases::{Connection, Target, Value};
use anomalist_history::{AtomKind, Builder, History, Indexed, OpKind, Outcome};
use anomalist_level::{Level, Verdict};
use anomalist_over::Over;
use anomalist_testkit::number;
use std::sync::Barrier;
use std::thread;
use support::{connect, database, options, over, run, server, text};

const LEVELS: [Level; 6] = [
    Level::ReadCommitted,
    Level::ReadAtomic,
    Level::Causal,
    Level::Prefix,
    Level::StrongSessionSnapshotIsolation,
    Level::StrongSessionSerializable,
];

fn holds(history: &History, level: Level) -> bool {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let request = Request { levels: vec![level], ..Request::default() };
    check(&indexed, &request, &Budget::unlimited()).verdict(level) == Some(&Verdict::Holds)
}

/// A read or write of a key, as a client saw it.
type Seen = (OpKind, i64, i64);

struct Transaction {
    ops: Vec<Seen>,
    committed: bool,
}

/// One statement of a random program; what it read and wrote.
fn step(
    client: &mut Box<dyn Connection>,
    rng: &mut fastrand::Rng,
    fresh: &mut i64,
) -> Result<Vec<Seen>, anomalist_databases::Error> {
    let key = rng.i64(1..=3);
    let rows = |reply: Vec<anomalist_databases::Reply>| -> Vec<Seen> {
        let int = |v: &Value| v.to_string().parse::<i64>().unwrap();
        let last = reply.into_iter().last().unwrap();
        last.rows.iter().map(|row| (OpKind::Read, int(&row[0]), int(&row[1]))).collect()
    };
    *fresh += 1;
    let value = *fresh;
    Ok(match rng.u8(..8) {
        0 => rows(client.run(&format!("SELECT id, v FROM kv WHERE id = {key}"))?),
        1 => rows(vec![client.query("SELECT id, v FROM kv WHERE id = $1", &[Value::Int(key)])?]),
        2 => rows(vec![client.query("SELECT id, v FROM kv ORDER BY id", &[])?]),
        3 => rows(client.run("SELECT id, v FROM kv WHERE v >= 0 ORDER BY v")?),
        4 => {
            client.run(&format!("UPDATE kv SET v = {value} WHERE id = {key}"))?;
            vec![(OpKind::Write, key, value)]
        }
        5 => {
            client.query("UPDATE kv SET v = $1 WHERE id = $2", &[Value::Int(value), Value::Int(key)])?;
            vec![(OpKind::Write, key, value)]
        }
        6 => {
            let sql = format!("SAVEPOINT s; UPDATE kv SET v = -1 WHERE id = {key}; ROLLBACK TO s; RELEASE s");
            for statement in sql.split("; ").take(if client.in_transaction() { 4 } else { 0 }) {
                client.run(statement)?;
            }
            Vec::new()
        }
        _ => {
            let sql = format!("UPDATE kv SET v = {value} WHERE id = {key} RETURNING (SELECT 1)");
            client.run(&sql)?;
            vec![(OpKind::Write, key, value)]
        }
    })
}

fn client(mut client: Box<dyn Connection>, seed: u64, number: i64, start: &Barrier) -> Vec<Transaction> {
    let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(31).wrapping_add(number as u64));
    let mut fresh = number * 1000;
    start.wait();
    let mut done = Vec::new();
    for _ in 0..rng.usize(1..=4) {
        let mut ops = Vec::new();
        let alone = rng.u8(..4) == 0;
        let mut body = || -> Result<(), anomalist_databases::Error> {
            if alone {
                ops.extend(step(&mut client, &mut rng, &mut fresh)?);
                return Ok(());
            }
            client.run("BEGIN")?;
            for _ in 0..rng.usize(1..=4) {
                ops.extend(step(&mut client, &mut rng, &mut fresh)?);
            }
            client.run("COMMIT").map(drop)
        };
        let ended = body();
        if let Err(error) = &ended {
            let _ = client.run("ROLLBACK");
            let code = error.code().unwrap_or_default();
            assert!(["40001", "40P01"].contains(&code), "{error}");
        }
        done.push(Transaction { ops, committed: ended.is_ok() });
    }
    done
}

fn history(sessions: &[Vec<Transaction>]) -> History {
    let mut b = Builder::new();
    let zero = b.int(0);
    b.set_initial_default(Some(zero));
    for (number, transactions) in sessions.iter().enumerate() {
        let label = b.atom(AtomKind::Text, &format!("c{number}"));
        let session = b.session(label);
        for transaction in transactions {
            let draft = b.transaction(session);
            let outcome = if transaction.committed { Outcome::Committed } else { Outcome::Aborted };
            b.set_outcome(draft, outcome);
            for &(kind, key, value) in &transaction.ops {
                let label = b.atom(AtomKind::Text, &format!("kv{key}"));
                let (key, value) = (b.key(label), b.int(value));
                b.op(draft, kind, key, value);
            }
        }
    }
    b.finish().unwrap()
}

#[test]
fn histories_of_parallel_clients_are_accepted() {
    let server = server();
    let target = database(&server, "random");
    run(&target, "CREATE TABLE kv (id int PRIMARY KEY, v int)");
    let cases = number("ANOMALIST_CASES", 6);
    for level in LEVELS {
        let (mut refused, mut weakened) = (0, 0);
        for seed in 0..cases {
            run(&target, "TRUNCATE kv; INSERT INTO kv VALUES (1, 0), (2, 0), (3, 0)");
            let over = over(&target, options(level, seed));
            let start = Barrier::new(3);
            let connected: Vec<_> = (1..=3).map(|n| (n, connect(&over, &target))).collect();
            let sessions: Vec<Vec<Transaction>> = thread::scope(|scope| {
                let start = &start;
                let clients: Vec<_> = connected
                    .into_iter()
                    .map(|(n, c)| scope.spawn(move || client(c, seed, n, start)))
                    .collect();
                clients.into_iter().map(|c| c.join().unwrap()).collect()
            });
            refused += sessions.iter().flatten().filter(|t| !t.committed).count();
            weakened += over.counts().weakened;
            assert!(over.counts().unweakened.is_empty(), "{:?}", over.counts());
            let stored = over.store().history().unwrap();
            over.stop().unwrap();
            assert!(holds(&stored, level), "the store at {} with seed {seed}", level.name());
            let seen = history(&sessions);
            assert!(holds(&seen, level), "clients at {} with seed {seed}", level.name());
        }
        println!("{}: {weakened} weak reads, {refused} refused", level.name());
    }
}

/// How many of the seeds show an outcome.
fn shows(target: &Target, level: Level, seeds: u64, program: impl Fn(&Over) -> bool) -> usize {
    let shown = |seed: &u64| {
        run(target, "TRUNCATE kv; INSERT INTO kv VALUES (1, 0), (2, 0), (3, 0)");
        let over = over(target, options(level, *seed));
        let shown = program(&over);
        over.stop().unwrap();
        shown
    };
    (0..seeds).filter(shown).count()
}

fn value(client: &mut Box<dyn Connection>, key: u8) -> i64 {
    text(&client.run(&format!("SELECT v FROM kv WHERE id = {key}")).unwrap()).parse().unwrap()
}

#[test]
fn known_weak_outcomes_appear_at_their_levels_only() {
    let server = server();
    let target = database(&server, "outcomes");
    run(&target, "CREATE TABLE kv (id int PRIMARY KEY, v int)");
    let pair = |over: &Over| (connect(over, &target), connect(over, &target));
    // Two transactions read one row each and write the other.
    let skew = |over: &Over| {
        let (mut a, mut b) = pair(over);
        a.run("BEGIN").unwrap();
        b.run("BEGIN").unwrap();
        let seen = (value(&mut a, 1), value(&mut b, 2));
        a.run("UPDATE kv SET v = 1 WHERE id = 2").unwrap();
        b.run("UPDATE kv SET v = 1 WHERE id = 1").unwrap();
        a.run("COMMIT").is_ok() & b.run("COMMIT").is_ok() && seen == (0, 0)
    };
    // Both read 0, and both add one to what they have read.
    let lost = |over: &Over| {
        let (mut a, mut b) = pair(over);
        let add = |client: &mut Box<dyn Connection>| {
            client.run("BEGIN").unwrap();
            let seen = value(client, 1);
            client.run(&format!("UPDATE kv SET v = {} WHERE id = 1", seen + 1)).unwrap();
            client.run("COMMIT").is_ok().then_some(seen)
        };
        add(&mut a) == Some(0) && add(&mut b) == Some(0)
    };
    // One half of a transaction is seen, and not the other.
    let fractured = |over: &Over| {
        let (mut a, mut b) = pair(over);
        a.run("BEGIN").unwrap();
        a.run("UPDATE kv SET v = 1 WHERE id IN (1, 2)").unwrap();
        a.run("COMMIT").unwrap();
        b.run("BEGIN").unwrap();
        let seen = (value(&mut b, 1), value(&mut b, 2));
        b.run("COMMIT").unwrap();
        assert_ne!(seen, (1, 0), "what a transaction has read of another one it does not unlearn");
        seen == (0, 1)
    };
    let (rc, causal) = (Level::ReadCommitted, Level::Causal);
    let (si, serial) = (Level::SnapshotIsolation, Level::Serializable);
    let seeds = 12;
    assert!(shows(&target, rc, seeds, fractured) > 0, "fractured reads at read committed");
    assert_eq!(shows(&target, causal, seeds, fractured), 0);
    assert!(shows(&target, causal, seeds, lost) > 0, "lost updates at causal");
    assert_eq!(shows(&target, si, seeds, lost), 0);
    assert!(shows(&target, si, seeds, skew) > 0, "write skew at snapshot isolation");
    assert_eq!(shows(&target, serial, seeds, skew), 0);
    assert_eq!(shows(&target, serial, seeds, lost), 0);
    assert_eq!(shows(&target, serial, seeds, fractured), 0);
}
