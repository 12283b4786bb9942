//! What every driver must do, asked of the database itself: one function per promise of `Connection` and
//! `Error`.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]
#![allow(clippy::print_stdout, reason = "progress of a test")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use anomalist_databases::{Connection, Database, Error, Family, Fate, Isolation, Kind, Query, Target, Value};
use anomalist_lab::fault::{CommitCut, Proxy};
use anomalist_lab::server::{Engine, Server, ServerError, Setup};
use std::net::ToSocketAddrs;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// A server; none where it is not installed and may be missing.
pub fn server(engine: Engine, setup: &Setup) -> Option<Server> {
    match Server::start(engine, setup) {
        Ok(server) => Some(server),
        Err(missing @ ServerError::Missing { .. }) => {
            anomalist_testkit::skip::missing("servers", missing);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A session with a short time limit, which a busy machine may not meet at once.
pub fn brief(target: &Target, limit: Duration) -> Box<dyn Connection> {
    let target = target.clone().with_statement_timeout(limit);
    let tries = (0..100).find_map(|_| target.connect().ok());
    tries.expect("a session")
}

/// Everything, in one go on one database.
pub fn conforms(target: &Target) {
    type Case = fn(&Target);
    let cases: &[(&str, Case)] = &[
        ("values", values),
        ("commit and rollback", commit_and_rollback),
        ("isolation names", isolation_names),
        ("statements in one go", statements_in_one_go),
        ("conflict", conflict),
        ("deadlock", deadlock),
        ("constraint", constraint),
        ("unsupported", unsupported),
        ("failed transactions do not commit", failed_transactions_do_not_commit),
        ("changed tables", changed_tables),
        ("cancel", cancel),
        ("time limit", time_limit),
        ("lost before commit", lost_before_commit),
        ("lost during commit", lost_during_commit),
        ("terminated", terminated),
    ];
    for (name, case) in cases {
        println!("{target}: {name}");
        case(target);
    }
}

fn level(session: &dyn Connection, weak: bool) -> Isolation {
    let name = match (session.product().family, weak) {
        (Family::Sqlite, _) => "DEFERRED",
        (_, true) => "READ COMMITTED",
        (_, false) => "SERIALIZABLE",
    };
    session.product().isolation(name).unwrap()
}

fn sql(session: &dyn Connection, text: &str) -> String {
    let mut number = 0;
    let parts = text.split('?').map(|part| {
        number += 1;
        if number == 1 { part.to_owned() } else { session.product().placeholder(number - 1) + part }
    });
    parts.collect()
}

/// A fresh table `name(k, v)` with rows 1 to 3, each with `v` = 10 k.
fn table(target: &Target, name: &str) -> Box<dyn Connection> {
    let mut session = target.connect().unwrap();
    let made = format!(
        "DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (k BIGINT PRIMARY KEY, v BIGINT); \
         INSERT INTO {name} VALUES (1, 10), (2, 20), (3, 30)"
    );
    session.run(&made).unwrap();
    session
}

fn put(session: &mut dyn Connection, table: &str, k: i64, v: i64) -> Result<u64, Error> {
    let text = sql(session, &format!("UPDATE {table} SET v = ? WHERE k = ?"));
    session.query(&text, &[Value::Int(v), Value::Int(k)]).map(|reply| reply.affected)
}

fn get(session: &mut dyn Connection, table: &str, k: i64) -> Result<Option<i64>, Error> {
    let text = sql(session, &format!("SELECT v FROM {table} WHERE k = ?"));
    session.query(&text, &[Value::Int(k)]).map(|reply| reply.int())
}

fn values(target: &Target) {
    let mut session = target.connect().unwrap();
    let (float, text, bytes) = match session.product().family {
        Family::Postgres => ("DOUBLE PRECISION", "TEXT", "BYTEA"),
        Family::Mysql => ("DOUBLE", "TEXT CHARACTER SET utf8mb4", "BLOB"),
        Family::Sqlite => ("REAL", "TEXT", "BLOB"),
    };
    session.run("DROP TABLE IF EXISTS vals").unwrap();
    session.run(&format!("CREATE TABLE vals (n BIGINT, i BIGINT, f {float}, t {text}, b {bytes})")).unwrap();
    let row = [
        Value::Null,
        Value::Int(i64::MIN),
        Value::Float(0.1),
        Value::from("a'b\\c?$1\u{20ac}\n"),
        Value::Bytes(vec![0, 1, 254, 255]),
    ];
    let text = sql(session.as_ref(), "INSERT INTO vals VALUES (?, ?, ?, ?, ?)");
    assert_eq!(session.query(&text, &row).unwrap().affected, 1);
    let typed = session.query("SELECT n, i, f, t, b FROM vals", &[]).unwrap();
    assert_eq!(typed.columns[..], ["n", "i", "f", "t", "b"].map(str::to_owned));
    assert_eq!(typed.rows, [row.to_vec()]);
    let plain = session.run("SELECT n, i, f, t, b FROM vals").unwrap();
    assert_eq!(plain[0].rows, typed.rows, "the same by text and by parameters");
    let nulls = sql(session.as_ref(), "INSERT INTO vals VALUES (?, ?, ?, ?, ?)");
    session.query(&nulls, &vec![Value::Null; 5]).unwrap();
    let found = session.query("SELECT * FROM vals WHERE i IS NULL", &[]).unwrap();
    assert_eq!(found.rows, [vec![Value::Null; 5]]);
    let empty = session.query("SELECT i FROM vals WHERE 1 = 0", &[]).unwrap();
    assert_eq!((empty.columns.len(), empty.rows.len()), (1, 0));
    let sums =
        session.query("SELECT COUNT(*), SUM(v) FROM (SELECT 2 AS v UNION ALL SELECT 3) x", &[]).unwrap();
    assert_eq!(sums.rows, [vec![Value::Int(2), Value::Int(5)]]);
}

fn commit_and_rollback(target: &Target) {
    let mut one = table(target, "txn");
    let mut two = target.connect().unwrap();
    let weak = level(one.as_ref(), true);
    assert!(!one.in_transaction());
    one.begin(&weak).unwrap();
    assert!(one.in_transaction());
    assert_eq!(put(one.as_mut(), "txn", 1, 11).unwrap(), 1);
    assert_eq!(put(one.as_mut(), "txn", 9, 11).unwrap(), 0);
    assert_eq!(get(one.as_mut(), "txn", 1).unwrap(), Some(11), "own writes are seen");
    assert_eq!(get(two.as_mut(), "txn", 1).unwrap(), Some(10), "others' are not before commit");
    one.commit().unwrap();
    assert!(!one.in_transaction());
    assert_eq!(get(two.as_mut(), "txn", 1).unwrap(), Some(11));

    one.begin(&weak).unwrap();
    put(one.as_mut(), "txn", 1, 12).unwrap();
    one.rollback().unwrap();
    one.rollback().unwrap();
    assert!(!one.in_transaction());
    assert_eq!(get(two.as_mut(), "txn", 1).unwrap(), Some(11));
    assert_eq!(one.commit().unwrap_err().fate(), Fate::Aborted, "there is nothing to commit");

    // Same value again: the row matched all the same.
    assert_eq!(put(one.as_mut(), "txn", 1, 11).unwrap(), 1);

    one.begin(&weak).unwrap();
    put(one.as_mut(), "txn", 1, 13).unwrap();
    drop(one);
    // The server learns of it a little later.
    let writes = |two: &mut dyn Connection| put(two, "txn", 1, 14);
    assert_eq!(writes(two.as_mut()).unwrap(), 1);
    assert_eq!(get(two.as_mut(), "txn", 1).unwrap(), Some(14));
    assert!(!two.is_lost());
}

fn isolation_names(target: &Target) {
    let mut session = table(target, "levels");
    let levels = target.isolations().unwrap();
    assert!(levels.len() >= 3);
    for level in &levels {
        session.begin(level).unwrap();
        let asked = match session.product().family {
            Family::Postgres => Some("SHOW transaction_isolation"),
            Family::Mysql => Some("SELECT REPLACE(@@tx_isolation, '-', ' ')"),
            Family::Sqlite => None,
        };
        if let Some(asked) = asked {
            let reply = session.run(asked).unwrap();
            let said = reply[0].value().unwrap().as_text().unwrap().to_uppercase();
            assert!(level.name().starts_with(&said), "{level} is {said} to the server");
        }
        get(session.as_mut(), "levels", 1).unwrap();
        session.commit().unwrap();
    }
    let product = session.product().clone();
    assert_eq!(product.isolation("serializable").unwrap().name(), "SERIALIZABLE");
    assert!(product.isolation("chaos").is_none());
    assert!(!product.version.is_empty());
}

fn statements_in_one_go(target: &Target) {
    let mut session = table(target, "batch");
    let replies = session.run("SELECT v FROM batch WHERE k = 1; SELECT v FROM batch WHERE k = 2").unwrap();
    assert_eq!(replies.iter().map(|r| r.int()).collect::<Vec<_>>(), [Some(10), Some(20)]);

    let (read, write) = (
        sql(session.as_ref(), "SELECT v FROM batch WHERE k = ?"),
        sql(session.as_ref(), "UPDATE batch SET v = ? WHERE k = ?"),
    );
    let key = [Value::Int(1)];
    let change = [Value::Int(77), Value::Int(1)];
    for _ in 0..3 {
        session.begin(&level(session.as_ref(), true)).unwrap();
        let replies = session
            .batch(&[
                Query { sql: &read, parameters: &key },
                Query { sql: &write, parameters: &change },
                Query { sql: &read, parameters: &key },
            ])
            .unwrap();
        assert_eq!(replies[0].int(), Some(10));
        assert_eq!((replies[1].affected, replies[1].rows.len()), (1, 0));
        assert_eq!(replies[2].int(), Some(77));
        session.rollback().unwrap();
    }
    session.begin(&level(session.as_ref(), true)).unwrap();
    let wrong = Query { sql: "SELECT nothing FROM nowhere", parameters: &[] };
    let error = session.batch(&[Query { sql: &read, parameters: &key }, wrong]).unwrap_err();
    assert_eq!((error.place(), error.kind(), error.fate()), (Some(1), Kind::Unsupported, Fate::Open));
    session.rollback().unwrap();
    assert_eq!(get(session.as_mut(), "batch", 1).unwrap(), Some(10));
    // More different statements than are kept prepared.
    for number in 0..600 {
        assert_eq!(session.query(&format!("SELECT {number}"), &[]).unwrap().int(), Some(number));
    }
}

fn conflict(target: &Target) {
    let mut one = table(target, "conflict");
    let mut two = target.connect().unwrap();
    let name = match one.product().family {
        Family::Postgres => "REPEATABLE READ",
        Family::Mysql => "REPEATABLE READ with innodb_snapshot_isolation",
        Family::Sqlite => "DEFERRED",
    };
    let Some(snapshot) = one.product().isolation(name) else { return };
    one.begin(&snapshot).unwrap();
    assert_eq!(get(one.as_mut(), "conflict", 1).unwrap(), Some(10));
    put(two.as_mut(), "conflict", 1, 11).unwrap();
    let error = put(one.as_mut(), "conflict", 1, 12).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert_ne!(error.fate(), Fate::Unknown);
    one.rollback().unwrap();
    assert_eq!(get(one.as_mut(), "conflict", 1).unwrap(), Some(11), "the session goes on");

    // Write skew: only the strictest level sees it, at whatever statement.
    let strict = level(one.as_ref(), false);
    one.begin(&strict).unwrap();
    two.begin(&strict).unwrap();
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| skew(one.as_mut(), 1, 2));
        let second = scope.spawn(|| skew(two.as_mut(), 2, 1));
        (first.join().unwrap(), second.join().unwrap())
    });
    assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    for error in [first, second].into_iter().filter_map(Result::err) {
        assert!(error.kind().is_retryable(), "{error}");
        assert_ne!(error.fate(), Fate::Unknown, "{error}");
    }
}

fn skew(session: &mut dyn Connection, read: i64, write: i64) -> Result<(), Error> {
    let done = get(session, "conflict", read)
        .and_then(|_| put(session, "conflict", write, 5))
        .and_then(|_| session.commit());
    session.rollback()?;
    done
}

fn deadlock(target: &Target) {
    let mut one = table(target, "dead");
    let mut two = target.connect().unwrap();
    if one.product().family == Family::Sqlite {
        return;
    }
    let weak = level(one.as_ref(), true);
    one.begin(&weak).unwrap();
    two.begin(&weak).unwrap();
    put(one.as_mut(), "dead", 1, 11).unwrap();
    put(two.as_mut(), "dead", 2, 22).unwrap();
    let cross = |session: &mut dyn Connection, k, v| {
        let done = put(session, "dead", k, v).and_then(|_| session.commit());
        session.rollback().map(|()| done)
    };
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| cross(one.as_mut(), 2, 12).unwrap());
        let second = scope.spawn(|| cross(two.as_mut(), 1, 21).unwrap());
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_ne!(first.is_ok(), second.is_ok(), "one of them is the victim");
    let expected = if first.is_ok() { [Some(11), Some(12)] } else { [Some(21), Some(22)] };
    let error = first.and(second).unwrap_err();
    assert_eq!(error.kind(), Kind::Deadlock, "{error}");
    assert_ne!(error.fate(), Fate::Unknown);
    let seen = [1, 2].map(|k| get(one.as_mut(), "dead", k).unwrap());
    assert_eq!(seen, expected);
}

fn constraint(target: &Target) {
    let mut session = table(target, "cons");
    session.begin(&level(session.as_ref(), true)).unwrap();
    let insert = sql(session.as_ref(), "INSERT INTO cons VALUES (?, ?)");
    session.query(&insert, &[Value::Int(4), Value::Int(40)]).unwrap();
    let error = session.query(&insert, &[Value::Int(1), Value::Int(0)]).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (Kind::Constraint, Fate::Open), "{error}");
    assert!(error.code().is_some());
    session.rollback().unwrap();
    assert_eq!(get(session.as_mut(), "cons", 4).unwrap(), None);
    let error = session.query(&insert, &[Value::Int(1), Value::Int(0)]).unwrap_err();
    assert_eq!(error.fate(), Fate::Aborted, "alone, it has no effect");
}

fn unsupported(target: &Target) {
    let mut session = table(target, "uns");
    for text in ["SELEKT 1", "SELECT nothing FROM uns", "SELECT 1 FROM no_such_table"] {
        assert_eq!(session.run(text).unwrap_err().kind(), Kind::Unsupported, "{text}");
        assert_eq!(session.query(text, &[]).unwrap_err().kind(), Kind::Unsupported, "{text}");
    }
    let wrong = Isolation::new("CHAOS", "", "BEGIN ISOLATION LEVEL CHAOS");
    assert_eq!(session.begin(&wrong).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(get(session.as_mut(), "uns", 1).unwrap(), Some(10));
}

/// PostgreSQL answers COMMIT of a failed transaction with ROLLBACK and without an error; others keep what
/// worked.
fn failed_transactions_do_not_commit(target: &Target) {
    let mut session = table(target, "failed");
    session.begin(&level(session.as_ref(), true)).unwrap();
    put(session.as_mut(), "failed", 1, 11).unwrap();
    session.query("SELECT 1 FROM no_such_table", &[]).unwrap_err();
    let committed = match session.commit() {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.fate(), Fate::Aborted);
            false
        }
    };
    assert_eq!(committed, session.product().family != Family::Postgres);
    let expected = if committed { 11 } else { 10 };
    assert_eq!(get(session.as_mut(), "failed", 1).unwrap(), Some(expected), "what commit says is so");
}

fn changed_tables(target: &Target) {
    let mut session = table(target, "changed");
    let all = "SELECT * FROM changed WHERE k = 1";
    assert_eq!(session.query(all, &[]).unwrap().columns.len(), 2);
    session.run("ALTER TABLE changed ADD COLUMN w BIGINT").unwrap();
    // One failure is allowed, not two.
    let reply = session.query(all, &[]).or_else(|_| session.query(all, &[])).unwrap();
    assert_eq!((reply.columns.len(), reply.rows[0].len()), (3, 3));
}

/// Runs a statement that takes forever, and something else meanwhile until it ends.
fn meanwhile(
    target: &Target,
    session: &mut dyn Connection,
    mut what: impl FnMut(),
) -> (Error, Box<dyn Connection>) {
    let mut holder = table(target, "slow");
    holder.begin(&level(holder.as_ref(), true)).unwrap();
    put(holder.as_mut(), "slow", 1, 11).unwrap();
    session.begin(&level(session, true)).unwrap();
    let forever = session.product().family == Family::Sqlite;
    let (done, is_done) = channel();
    let error = thread::scope(|scope| {
        let running = scope.spawn(move || {
            let endless =
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n";
            let result =
                if forever { session.query(endless, &[]).map(|_| 0) } else { put(session, "slow", 1, 12) };
            done.send(()).unwrap();
            result.unwrap_err()
        });
        let limit = Instant::now() + Duration::from_secs(120);
        while is_done.recv_timeout(Duration::from_millis(50)).is_err() {
            assert!(Instant::now() < limit, "the statement does not end");
            what();
        }
        running.join().unwrap()
    });
    (error, holder)
}

fn cancel(target: &Target) {
    let mut session = target.connect().unwrap();
    let canceller = session.canceller();
    let (error, mut holder) = meanwhile(target, session.as_mut(), || canceller.cancel().unwrap());
    assert_eq!((error.kind(), error.fate()), (Kind::Cancelled, Fate::Open), "{error}");
    holder.rollback().unwrap();
    session.rollback().unwrap();
    assert_eq!(get(session.as_mut(), "slow", 1).unwrap(), Some(10), "the session goes on");
}

fn time_limit(target: &Target) {
    let mut session = brief(target, Duration::from_millis(1000));
    if session.product().family == Family::Sqlite {
        // A database that others hold on to.
        let mut holder = table(target, "slow");
        holder.begin(&holder.product().isolation("EXCLUSIVE").unwrap()).unwrap();
        put(holder.as_mut(), "slow", 1, 11).unwrap();
        let error = put(session.as_mut(), "slow", 1, 12).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (Kind::Timeout, Fate::Aborted), "{error}");
        return;
    }
    let (error, mut holder) = meanwhile(target, session.as_mut(), || ());
    assert_eq!((error.kind(), error.fate()), (Kind::Timeout, Fate::Aborted), "{error}");
    assert!(session.is_lost(), "the answer may still come, so the session is over");
    assert_eq!(session.commit().unwrap_err().fate(), Fate::Aborted);
    holder.commit().unwrap();
    drop(session);
    assert_eq!(get(holder.as_mut(), "slow", 2).unwrap(), Some(20));
}

/// The target through a proxy, if it is reached by TCP.
fn proxied(target: &Target) -> Option<(Proxy, Target)> {
    let (host, port) = target.address()?;
    let address = (host, port).to_socket_addrs().unwrap().next().unwrap();
    let proxy = Proxy::new(address).unwrap();
    let through = target.via("127.0.0.1", proxy.address().port());
    Some((proxy, through))
}

fn lost_before_commit(target: &Target) {
    let Some((proxy, through)) = proxied(target) else { return };
    let mut observer = table(target, "lost");
    let mut session = through.connect().unwrap();
    session.begin(&level(session.as_ref(), true)).unwrap();
    put(session.as_mut(), "lost", 1, 11).unwrap();
    proxy.cut();
    let error = put(session.as_mut(), "lost", 2, 21).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (Kind::Lost, Fate::Aborted), "COMMIT was never sent: {error}");
    assert!(session.is_lost() && !session.in_transaction());
    assert_eq!(session.commit().unwrap_err().fate(), Fate::Aborted, "nor is it now");
    session.rollback().unwrap();
    assert_eq!(session.run("SELECT 1").unwrap_err().kind(), Kind::Lost);
    // Waits for the lock, so the server has given the transaction up when it is granted.
    put(observer.as_mut(), "lost", 1, 12).unwrap();

    let mut session = through.connect().unwrap();
    proxy.cut();
    let error = put(session.as_mut(), "lost", 3, 31).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (Kind::Lost, Fate::Unknown), "it commits itself: {error}");
    assert_eq!(get(through.connect().unwrap().as_mut(), "lost", 1).unwrap(), Some(12), "a new session works");
}

fn lost_during_commit(target: &Target) {
    let Some((proxy, through)) = proxied(target) else { return };
    for (when, expected) in [(CommitCut::Before, 10), (CommitCut::Answer, 11)] {
        let mut observer = table(target, "lost");
        let mut session = through.connect().unwrap();
        session.begin(&level(session.as_ref(), true)).unwrap();
        put(session.as_mut(), "lost", 1, 11).unwrap();
        proxy.cut_commits(when, 1);
        let error = session.commit().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (Kind::Lost, Fate::Unknown), "{when:?}: {error}");
        assert!(session.is_lost());
        // The lock says when the server is done with it.
        put(observer.as_mut(), "lost", 1, -1).unwrap();
        drop(observer);
        let mut observer = table(target, "lost2");
        drop(session);
        let mut session = through.connect().unwrap();
        session.begin(&level(session.as_ref(), true)).unwrap();
        put(session.as_mut(), "lost2", 1, 11).unwrap();
        proxy.cut_commits(when, 1);
        session.commit().unwrap_err();
        if when == CommitCut::Answer {
            assert_eq!(
                get(observer.as_mut(), "lost2", 1).unwrap(),
                Some(expected),
                "the server had committed"
            );
        } else {
            assert_ne!(get(observer.as_mut(), "lost2", 1).unwrap(), Some(11), "the server had not");
        }
    }
    assert_eq!(proxy.commits_cut(), 4);
}

fn terminated(target: &Target) {
    let mut admin = table(target, "term");
    let mut session = target.connect().unwrap();
    let Some(backend) = session.backend() else { return };
    session.begin(&level(session.as_ref(), true)).unwrap();
    put(session.as_mut(), "term", 1, 11).unwrap();
    anomalist_lab::fault::terminate(admin.as_mut(), backend).unwrap();
    // Waits for the lock.
    put(admin.as_mut(), "term", 1, 12).unwrap();
    let error = session.commit().unwrap_err();
    assert_eq!(error.kind(), Kind::Lost, "{error}");
    assert_eq!(error.fate(), Fate::Unknown, "COMMIT was sent, and nothing refused it");
    assert!(session.is_lost());
    let mut session = target.connect().unwrap();
    assert_eq!(get(session.as_mut(), "term", 1).unwrap(), Some(12));
}

/// SQLite with a rollback journal: COMMIT meets a reader, leaves the transaction open, and it is rolled
/// back for good.
pub fn rollback_journal(target: &Target) {
    let mut writer = table(&target.clone().with_statement_timeout(Duration::from_millis(100)), "j");
    let mut reader = target.connect().unwrap();
    let deferred = level(writer.as_ref(), true);
    reader.begin(&deferred).unwrap();
    assert_eq!(get(reader.as_mut(), "j", 1).unwrap(), Some(10));
    writer.begin(&deferred).unwrap();
    let error = put(writer.as_mut(), "j", 1, 11).and_then(|_| writer.commit()).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (Kind::Timeout, Fate::Aborted), "{error}");
    assert!(!writer.in_transaction());
    reader.commit().unwrap();
    assert_eq!(get(reader.as_mut(), "j", 1).unwrap(), Some(10));
}
