//! What a shrunk script keeps: a third transaction that it takes, though it has no part in the cycle, and
//! updates that change values.

#![allow(clippy::unwrap_used)]

mod support;

use anomalist_check::Budget;
use anomalist_databases::broken::{Broken, Bug};
use anomalist_databases::{Cancel, Connection, Database, Error, Isolation, Product, Reply, Target, Value};
use anomalist_sql::campaign::{Class, Subject};
use anomalist_sql::instrument::Effect;
use anomalist_sql::judge::{Found, Name, judge};
use anomalist_sql::namespace::Namespace;
use anomalist_sql::predicate::Decided;
use anomalist_sql::record::{Executed, Outcome, Run, Step, Version};
use anomalist_sql::schema::{Column, Kind, Schema, Table};
use anomalist_sql::script::Script;
use anomalist_sql::vendor::promise;
use anomalist_sql::{Flavour, reproduce};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use support::File;

/// SQLite with a bug: while three transactions are open, one begins at its first write, and what it read
/// before is not protected.
struct Crowded {
    inner: Target,
    open: Arc<AtomicU32>,
}

impl Database for Crowded {
    fn connect(&self) -> Result<Box<dyn Connection>, Error> {
        let inner = self.inner.connect()?;
        Ok(Box::new(Session { inner, open: Arc::clone(&self.open), pending: None, begun: false }))
    }
}

struct Session {
    inner: Box<dyn Connection>,
    open: Arc<AtomicU32>,
    /// The level of a transaction that the database does not know of yet.
    pending: Option<Isolation>,
    begun: bool,
}

impl Session {
    fn end(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Connection for Session {
    fn product(&self) -> &Product {
        self.inner.product()
    }
    fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
        let unprotected = sql.starts_with("SELECT") && self.open.load(Ordering::SeqCst) >= 3;
        if let Some(isolation) = self.pending.take_if(|_| !unprotected) {
            self.inner.begin(&isolation)?;
        }
        self.inner.run(sql)
    }
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Error> {
        self.inner.query(sql, parameters)
    }
    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error> {
        self.begun = true;
        self.open.fetch_add(1, Ordering::SeqCst);
        self.pending = Some(isolation.clone());
        Ok(())
    }
    fn commit(&mut self) -> Result<(), Error> {
        let committed = if self.pending.take().is_some() { Ok(()) } else { self.inner.commit() };
        self.end();
        committed
    }
    fn rollback(&mut self) -> Result<(), Error> {
        self.pending = None;
        let result = self.inner.rollback();
        self.end();
        result
    }
    fn in_transaction(&self) -> bool {
        self.begun
    }
    fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }
    fn backend(&self) -> Option<u64> {
        self.inner.backend()
    }
    fn canceller(&self) -> Arc<dyn Cancel> {
        self.inner.canceller()
    }
}

const SCRIPT: &str = "CREATE TABLE t (id INTEGER, v INTEGER);
    INSERT INTO t(id, v) VALUES (1, 0), (2, 0);
    BEGIN; -- T1
    BEGIN; -- T2
    BEGIN; -- T3
    SELECT v FROM t; -- T1
    SELECT v FROM t; -- T2
    SELECT v FROM t WHERE id = 9; -- T3
    UPDATE t SET v = 1 WHERE id = 1; -- T1
    COMMIT; -- T1
    UPDATE t SET v = 2 WHERE id = 2; -- T2
    COMMIT; -- T2
    ROLLBACK; -- T3";

fn table() -> Table {
    let column = |name: &str| Column {
        name: name.to_owned(),
        kind: Kind::Int,
        not_null: false,
        default: None,
        check: None,
        auto_increment: false,
    };
    Table {
        name: "t".to_owned(),
        columns: vec![column("id"), column("v")],
        primary_key: Vec::new(),
        unique: None,
        indexes: Vec::new(),
        foreign: None,
        rows: Vec::new(),
    }
}

fn subject(database: &dyn Database) -> (Subject<'_>, Isolation) {
    let product = database.product().unwrap();
    let isolation = product.isolation("DEFERRED").unwrap();
    let namespace = Namespace::new(Flavour::Sqlite, "anomalist_minimise");
    let flavour = Flavour::Sqlite;
    (Subject { database, flavour, product: product.name, namespace, stop: &|| false }, isolation)
}

fn class(found: Found, run: &Run, script: Script, whole: Script) -> Class {
    Class {
        count: 1,
        cause: None,
        round: 0,
        tables: Vec::new(),
        transactions: found.transactions.iter().map(|&t| run.transactions[t].clone()).collect(),
        script,
        whole,
        shrunk: None,
        found,
    }
}

/// As PostgreSQL 12.2 was: without the third transaction, which is rolled back, nothing happens.
#[test]
fn a_script_keeps_the_bystander_that_it_takes() {
    let (file, flavour) = (File::new(), Flavour::Sqlite);
    let database = Crowded { inner: file.target.clone(), open: Arc::default() };
    let (subject, isolation) = subject(&database);
    let script = Script::parse(flavour, SCRIPT).unwrap();
    let (replayed, _, judged) = subject.replay(&isolation, &script).unwrap();
    let run = &replayed.run;
    let (found, _) = judged.examples.into_iter().find(|(f, _)| f.name == Name::WriteSkew).unwrap();
    let schema = Schema { tables: vec![table()], views: Vec::new() };
    let cut = |places: &[usize]| reproduce::script(flavour, &isolation, (&schema, run), &found, places);
    let (script, whole) =
        (cut(&found.transactions), cut(&reproduce::with_bystanders(run, &found.transactions)));
    let mut class = class(found, run, script, whole);
    assert_eq!((class.script.sessions(), class.whole.sessions()), (2, 3));
    assert!(subject.found(&isolation, &class.script).unwrap().is_empty());
    subject.minimise(&isolation, &mut class, &|| false);
    let (small, shown) = class.shrunk.unwrap();
    assert_eq!((small.sessions(), shown), (3, 10), "{}", small.print());
    assert!(small.steps.iter().any(|l| l.text == "ROLLBACK"), "{}", small.print());
}

/// Without the first update, the second one would set the value that is there: a plain client would see no
/// lost update.
#[test]
fn updates_of_a_shrunk_script_change_values() {
    let file = File::new();
    let database = Broken::new(file.target.clone(), Bug::LostUpdate);
    let (subject, isolation) = subject(&database);
    let text = "CREATE TABLE t (id INTEGER, v INTEGER);
        INSERT INTO t(id, v) VALUES (1, 5);
        UPDATE t SET v = 7; -- T2
        BEGIN; -- T1
        SELECT v FROM t; -- T1
        UPDATE t SET v = 5; -- T2
        UPDATE t SET v = v + 1; -- T1
        COMMIT; -- T1";
    let script = Script::parse(Flavour::Sqlite, text).unwrap();
    let (replayed, _, judged) = subject.replay(&isolation, &script).unwrap();
    let (found, _) = judged.examples.into_iter().find(|(f, _)| f.name == Name::LostUpdate).unwrap();
    let mut class = class(found, &replayed.run, script.clone(), script);
    subject.minimise(&isolation, &mut class, &|| false);
    let (small, shown) = class.shrunk.unwrap();
    let updates: Vec<&str> =
        small.steps.iter().map(|l| l.text.as_str()).filter(|text| text.starts_with("UPDATE")).collect();
    assert_eq!(updates, ["UPDATE t SET v = 7", "UPDATE t SET v = 5", "UPDATE t SET v = v + 1"]);
    assert_eq!(shown, 10);
}

#[test]
fn a_transaction_that_a_script_leaves_open_is_listed() {
    let file = File::new();
    let (subject, isolation) = subject(&file.target);
    let text = "CREATE TABLE t (v INTEGER);\nSELECT v FROM t; -- T2\nBEGIN; -- T1\nINSERT INTO t (v) VALUES (1); -- T1\n";
    let script = Script::parse(Flavour::Sqlite, text).unwrap();
    let (replayed, _, judged) = subject.replay(&isolation, &script).unwrap();
    let listed: Vec<(u64, Outcome)> = replayed.run.transactions.iter().map(|t| (t.id, t.outcome)).collect();
    assert_eq!(listed, [(1, Outcome::Committed), (2, Outcome::Aborted), (3, Outcome::Committed)]);
    assert!(judged.counts.is_empty());
}

/// Two writes of one transaction, and another one that saw the first of them: one anomaly, not two.
#[test]
fn an_intermediate_read_is_counted_once() {
    let version = |list: &str| vec![Version { row: "r1".into(), list: list.into() }];
    let step = |number, effect, list: &str| Step { rows: version(list), ..Step::new(number, "", effect) };
    let txn = |id: u64, steps| Executed {
        id,
        session: id as usize,
        steps,
        outcome: Outcome::Committed,
        failed: None,
        interval: (0, 9),
    };
    let writer = vec![step(1, Effect::Update, "1.1,"), step(2, Effect::Update, "1.1,1.2,")];
    let of = |reader: Vec<Step>| {
        let last = vec![step(1, Effect::Read, "1.1,1.2,")];
        let run = Run::of(vec![txn(1, writer.clone()), txn(2, reader), txn(3, last)]);
        let promise = promise("MariaDB", "READ UNCOMMITTED");
        let judged =
            judge(Flavour::MariaDb, (&run, &Decided::default()), &promise, &[], &Budget::unlimited())
                .unwrap();
        judged.counts.into_keys().map(Name::kind).collect::<Vec<_>>()
    };
    assert_eq!(of(vec![step(1, Effect::Read, "1.1,")]), ["intermediate-read"]);
    // One that also read before and after is both.
    let twice = vec![step(1, Effect::Read, ""), step(2, Effect::Read, "1.1,")];
    assert_eq!(of(twice), ["intermediate-read", "non-repeatable-read"]);
    let repeated = vec![step(1, Effect::Read, ""), step(2, Effect::Read, "1.1,1.2,")];
    assert_eq!(of(repeated), ["non-repeatable-read"]);
}
