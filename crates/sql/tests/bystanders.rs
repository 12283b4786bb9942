//! An anomaly that takes a third transaction, which has no part in the cycle: the script keeps it.

#![allow(clippy::unwrap_used)]

mod support;

use anomalist_driver::{Cancel, Connection, Database, Error, Isolation, Product, Reply, Target, Value};
use anomalist_sql::campaign::{Class, Subject};
use anomalist_sql::judge::Name;
use anomalist_sql::namespace::Namespace;
use anomalist_sql::schema::{Column, Kind, Schema, Table};
use anomalist_sql::script::Script;
use anomalist_sql::{Flavour, reproduce};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use support::File;

/// SQLite with a bug: while three transactions are open, one begins at its first write, and what it read before is not
/// protected.
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

/// As PostgreSQL 12.2 was: without the third transaction, which is rolled back, nothing happens.
#[test]
fn a_script_keeps_the_bystander_that_it_takes() {
    let file = File::new();
    let database = Crowded { inner: file.target.clone(), open: Arc::default() };
    let product = database.product().unwrap();
    let isolation = product.isolation("DEFERRED").unwrap();
    let (flavour, namespace) = (Flavour::Sqlite, Namespace::new(Flavour::Sqlite, "anomalist_bystanders"));
    let subject = Subject { database: &database, flavour, product: product.name, namespace, stop: &|| false };
    let script = Script::parse(flavour, SCRIPT).unwrap();
    let (replayed, _, judged) = subject.replay(&isolation, &script).unwrap();
    let run = &replayed.run;
    let (found, _) = judged.examples.into_iter().find(|(f, _)| f.name == Name::WriteSkew).unwrap();
    let schema = Schema { tables: vec![table()], views: Vec::new() };
    let cut = |places: &[usize]| reproduce::script(flavour, &isolation, (&schema, run), &found, places);
    let mut class = Class {
        count: 1,
        cause: None,
        round: 0,
        tables: Vec::new(),
        transactions: found.transactions.iter().map(|&t| run.transactions[t].clone()).collect(),
        script: cut(&found.transactions),
        whole: cut(&reproduce::with_bystanders(run, &found.transactions)),
        shrunk: None,
        found,
    };
    assert_eq!((class.script.sessions(), class.whole.sessions()), (2, 3));
    assert!(subject.found(&isolation, &class.script).unwrap().is_empty());
    subject.minimise(&isolation, &mut class, &|| false);
    let (small, shown) = class.shrunk.unwrap();
    assert_eq!((small.sessions(), shown), (3, 10), "{}", small.print());
    assert!(small.steps.iter().any(|l| l.text == "ROLLBACK"), "{}", small.print());
}
