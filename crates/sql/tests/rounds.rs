//! Generated transactions on real databases, judged.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use anomalist_check::Budget;
use anomalist_databases::{Cancel, Connection, Database, Error, Isolation, Product, Reply, Value};
use anomalist_lab::server::Engine;
use anomalist_level::Verdict;
use anomalist_sql::Flavour;
use anomalist_sql::generate::{Generator, Knobs};
use anomalist_sql::judge::{Name, judge};
use anomalist_sql::namespace::Namespace;
use anomalist_sql::predicate::Decider;
use anomalist_sql::record::Outcome;
use anomalist_sql::run::{Plan, Pool};
use anomalist_sql::vendor::promise;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was found at a level, round after round, until `enough` says so or time is up.
fn rounds(
    database: &dyn Database,
    flavour: Flavour,
    isolation: &str,
    limit: Duration,
    enough: impl Fn(&BTreeMap<Name, u64>) -> bool,
) -> (BTreeMap<Name, u64>, bool) {
    let product = database.product().unwrap();
    let level = product.isolation(isolation).unwrap();
    let promise = promise(&product.name, level.name());
    let generator = Generator::new(Knobs::default(), flavour, 11);
    let namespace = Namespace::new(flavour, "anomalist_rounds");
    let pool = Pool::new(database);
    let start = Instant::now();
    let (mut counts, mut violated, mut committed, mut total) = (BTreeMap::new(), false, 0, 0);
    for number in 0.. {
        let plan = Plan {
            pool: &pool,
            flavour,
            isolation: level.clone(),
            sessions: 2 + (number as usize) % 4,
            transactions: 150,
            read_all: 15,
            generator: &generator,
            namespace: &namespace,
        };
        let stop = || start.elapsed() > limit;
        let round = plan.round(number, &stop).unwrap();
        committed += round.run.count(Outcome::Committed);
        total += round.run.transactions.len();
        let tables = round.schema.create(flavour);
        let definitions = tables.iter().map(String::as_str).collect();
        let decided = Decider { database, namespace: &namespace, settings: &[], definitions };
        let run = (&round.run, &decided.decide(&round.run));
        let judged = judge(flavour, run, &promise, &[], &Budget::unlimited()).unwrap();
        violated |= judged.verdict == Verdict::Violated;
        for (name, count) in judged.counts {
            *counts.entry(name).or_default() += count;
        }
        if start.elapsed() > limit || enough(&counts) {
            break;
        }
    }
    println!(
        "{product} {isolation}: {total} transactions, {committed} committed, {:?}, {counts:?}",
        start.elapsed()
    );
    (counts, violated)
}

fn forbidden(counts: &BTreeMap<Name, u64>, product: &str, isolation: &str) -> BTreeSet<&'static str> {
    let level = promise(product, isolation).adya;
    counts.keys().filter(|name| name.is_forbidden_by(level)).map(|name| name.kind()).collect()
}

#[test]
fn sqlite_is_serializable() {
    for isolation in ["DEFERRED", "IMMEDIATE"] {
        let file = support::File::new();
        let (counts, violated) =
            rounds(&file.target, Flavour::Sqlite, isolation, Duration::from_secs(3), |_| false);
        assert!(counts.is_empty() && !violated, "{counts:?}");
    }
}

/// Copies of copies would double a table again and again: a few dozen statements would take hours and all
/// memory.
#[test]
fn copies_do_not_explode() {
    let file = support::File::new();
    let mix = "select=40,copy=60,cross=0,compound=0,aggregate=0,locking=0,insert=0,upsert=0,update=0,delete=0,replace=0";
    let knobs = Knobs { mix: mix.parse().unwrap(), ..Knobs::default() };
    let generator = Generator::new(knobs, Flavour::Sqlite, 11);
    let pool = Pool::new(&file.target);
    let plan = Plan {
        pool: &pool,
        flavour: Flavour::Sqlite,
        isolation: file.target.product().unwrap().isolation("DEFERRED").unwrap(),
        sessions: 1,
        transactions: 40,
        read_all: 15,
        generator: &generator,
        namespace: &Namespace::new(Flavour::Sqlite, "anomalist_rounds"),
    };
    for number in 0..3 {
        let run = plan.round(number, &|| false).unwrap().run;
        let steps = || run.transactions.iter().flat_map(|t| &t.steps);
        let (copies, largest) = (
            steps().filter(|s| s.text.starts_with("INSERT")).count(),
            steps().map(|s| s.visible.len()).max(),
        );
        assert!(copies > 20 && largest.unwrap() <= 5 + 3 * copies, "{copies} copies, {largest:?} rows");
    }
}

#[test]
fn mariadb_repeatable_read_shows_what_the_paper_found() {
    let Some(server) = support::server(Engine::Mariadb) else { return };
    let target = server.target(0);
    let wanted = [Name::LostUpdate, Name::ReadWriteSkew, Name::WriteSkew];
    let all = |counts: &BTreeMap<Name, u64>| wanted.iter().all(|name| counts.contains_key(name));
    let (counts, violated) =
        rounds(target, Flavour::MariaDb, "REPEATABLE READ", Duration::from_secs(60), all);
    assert!(all(&counts) && violated, "{counts:?}");
    let judged = |isolation: &str, seconds: u64| {
        let found = rounds(target, Flavour::MariaDb, isolation, Duration::from_secs(seconds), |_| false);
        (forbidden(&found.0, "MariaDB", isolation), found.1)
    };
    for isolation in ["READ UNCOMMITTED", "READ COMMITTED", "SERIALIZABLE"] {
        assert_eq!(judged(isolation, 3), (BTreeSet::new(), false), "{isolation}");
    }
}

#[test]
fn postgresql_repeatable_read_shows_write_skew_only() {
    let Some(server) = support::server(Engine::Postgres) else { return };
    let target = server.target(0);
    let judged = |isolation: &str, seconds: u64| {
        let found = rounds(target, Flavour::PostgreSql, isolation, Duration::from_secs(seconds), |_| false);
        (forbidden(&found.0, "PostgreSQL", isolation), found.1)
    };
    let (found, _) = judged("REPEATABLE READ", 8);
    assert!(found.iter().all(|kind| *kind == "write-skew"), "{found:?}");
    for isolation in ["READ COMMITTED", "SERIALIZABLE"] {
        assert_eq!(judged(isolation, 3), (BTreeSet::new(), false), "{isolation}");
    }
}

/// A connection with a bug.
struct Faulty(Box<dyn Connection>);

impl Connection for Faulty {
    fn product(&self) -> &Product {
        self.0.product()
    }
    fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
        assert!(!sql.starts_with("UPDATE"), "a bug");
        self.0.run(sql)
    }
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Error> {
        self.0.query(sql, parameters)
    }
    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error> {
        self.0.begin(isolation)
    }
    fn commit(&mut self) -> Result<(), Error> {
        self.0.commit()
    }
    fn rollback(&mut self) -> Result<(), Error> {
        self.0.rollback()
    }
    fn in_transaction(&self) -> bool {
        self.0.in_transaction()
    }
    fn is_lost(&self) -> bool {
        self.0.is_lost()
    }
    fn backend(&self) -> Option<u64> {
        self.0.backend()
    }
    fn canceller(&self) -> Arc<dyn Cancel> {
        self.0.canceller()
    }
}

struct FaultyDatabase<'a>(&'a dyn Database);

impl Database for FaultyDatabase<'_> {
    fn connect(&self) -> Result<Box<dyn Connection>, Error> {
        Ok(Box::new(Faulty(self.0.connect()?)))
    }
}

#[test]
fn a_panic_is_no_round() {
    let file = support::File::new();
    let database = FaultyDatabase(&file.target);
    let run = || rounds(&database, Flavour::Sqlite, "DEFERRED", Duration::from_secs(2), |_| false);
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
}
