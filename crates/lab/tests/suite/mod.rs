//! What every driver must do, asked of the database itself: one function per promise of `Connection` and
//! `Error`.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]
#![allow(clippy::print_stdout, reason = "progress of a test")]
#![allow(dead_code, reason = "each test binary uses its own part")]

mod data;
mod interruptions;
mod refusals;

use anomalist_databases::{Connection, Database, Error, Family, Fate, Isolation, Kind, Target, Value};
use anomalist_lab::server::{Engine, Server, ServerError, Setup};
use std::time::Duration;

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
        ("values", data::values),
        ("commit and rollback", data::commit_and_rollback),
        ("isolation names", data::isolation_names),
        ("statements in one go", data::statements_in_one_go),
        ("conflict", refusals::conflict),
        ("deadlock", refusals::deadlock),
        ("constraint", refusals::constraint),
        ("unsupported", refusals::unsupported),
        ("failed transactions do not commit", refusals::failed_transactions_do_not_commit),
        ("changed tables", data::changed_tables),
        ("cancel", interruptions::cancel),
        ("time limit", interruptions::time_limit),
        ("lost before commit", interruptions::lost_before_commit),
        ("lost during commit", interruptions::lost_during_commit),
        ("terminated", interruptions::terminated),
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
