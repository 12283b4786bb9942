//! The figures of the paper on real servers, with the dependencies that it infers and no others.

#![allow(clippy::unwrap_used)]

mod support;

use anomalist_check::Budget;
use anomalist_databases::Database;
use anomalist_lab::server::Engine;
use anomalist_level::Verdict;
use anomalist_sql::Flavour;
use anomalist_sql::judge::{Link, Name, dependencies_of, judge};
use anomalist_sql::namespace::Namespace;
use anomalist_sql::predicate::{Decided, Decider};
use anomalist_sql::record::Outcome;
use anomalist_sql::replay::{Replayed, replay};
use anomalist_sql::scenarios::SCENARIOS;
use anomalist_sql::script::Script;
use anomalist_sql::vendor::promise;
use std::ops::Deref;

struct Bench<'a> {
    database: &'a dyn Database,
    flavour: Flavour,
    product: String,
    namespace: Namespace,
}

impl Bench<'_> {
    fn new(database: &dyn Database, flavour: Flavour) -> Bench<'_> {
        let product = support::product(database);
        Bench { database, flavour, product, namespace: Namespace::new(flavour, "anomalist_figures") }
    }

    fn run(&self, isolation: &str, script: &Script) -> Played {
        let level = self.database.product().unwrap().isolation(isolation).unwrap();
        let replayed = replay(self.database, &level, &self.namespace, script, &|| false).unwrap();
        let definitions = script.statements().collect();
        let (database, namespace) = (self.database, &self.namespace);
        let decided = Decider { database, namespace, settings: &[], definitions }.decide(&replayed.run);
        Played { replayed, decided }
    }

    fn script(&self, isolation: &str, text: &str) -> Played {
        self.run(isolation, &Script::parse(self.flavour, text).unwrap())
    }

    /// The anomalies that the level forbids.
    fn judged(&self, isolation: &str, played: &Played) -> (Verdict, Vec<Name>) {
        let promise = promise(&self.product, isolation);
        let judged =
            judge(self.flavour, (&played.run, &played.decided), &promise, &[], &Budget::unlimited()).unwrap();
        let names = judged.counts.keys().copied().filter(|n| n.is_forbidden_by(promise.adya)).collect();
        (judged.verdict, names)
    }
}

/// A replay, and what its conditions show.
struct Played {
    replayed: Replayed,
    decided: Decided,
}

impl Deref for Played {
    type Target = Replayed;

    fn deref(&self) -> &Replayed {
        &self.replayed
    }
}

/// `T1 rw(r1) T2`, sorted.
fn dependencies(replayed: &Replayed) -> Vec<String> {
    let run = &replayed.run;
    let id = |place: usize| run.transactions[place].id;
    // Whatever was written is read at the end.
    let by_script = |l: &&Link| Some(id(l.to)) != replayed.last;
    let mut all: Vec<String> = dependencies_of(run)
        .unwrap()
        .iter()
        .filter(by_script)
        .map(|l| format!("T{} {}({}) T{}", id(l.from), l.relation, l.row, id(l.to)))
        .collect();
    all.sort();
    all.dedup();
    all
}

const FIGURE_1: &str = "
CREATE TABLE t1 (c1 INT, c2 INT);
CREATE TABLE t2 (c1 INT, c2 INT);
INSERT INTO t1 (c1, c2) VALUES (1, 1), (2, 1), (2, 2);
INSERT INTO t2 (c1, c2) VALUES (4, 4);
BEGIN; -- T1
SELECT c2 FROM t1 WHERE c1 < 2; -- T1
BEGIN; -- T2
UPDATE t1 SET c2 = 2 WHERE c1 < 2; -- T2
INSERT INTO t2 (c1, c2) VALUES (5, 5); -- T2
COMMIT; -- T2
UPDATE t2 SET c2 = 8 WHERE c1 > 2; -- T1
COMMIT; -- T1
BEGIN; -- T1
SELECT c1, c2 FROM t1; -- T1
SELECT c1, c2 FROM t2; -- T1
COMMIT; -- T1
";

const FIGURE_4: &str = "
CREATE TABLE t (c1 INT, c2 INT);
INSERT INTO t (c1, c2) VALUES (2, 1), (6, 3);
BEGIN; -- T1
BEGIN; -- T2
UPDATE t SET c1 = 1 WHERE c1 < 5; -- T1
SELECT c1, c2 FROM t WHERE c1 < 5; -- T1
COMMIT; -- T1
DELETE FROM t WHERE c2 < 2; -- T2
COMMIT; -- T2
";

const FIGURE_5: &str = "
CREATE TABLE t (c1 INT, c2 INT);
INSERT INTO t (c1, c2) VALUES (1, 1);
BEGIN; -- T1
SELECT c1 FROM t WHERE c2 < 5; -- T1
BEGIN; -- T2
UPDATE t SET c1 = 2 WHERE c2 < 5; -- T2
SELECT c1 FROM t WHERE c2 < 5 FOR UPDATE; -- T1
SELECT c1 FROM t WHERE c2 < 5; -- T1
COMMIT; -- T1
COMMIT; -- T2
";

const FIGURE_6: &str = "
CREATE TABLE t1 (c1 INT, c2 INT);
CREATE TABLE t2 (c1 INT, c2 INT);
INSERT INTO t1 (c1, c2) VALUES (1, 1), (6, 6);
INSERT INTO t2 (c1, c2) VALUES (3, 3);
BEGIN; -- T1
BEGIN; -- T2
SELECT c2 FROM t1 WHERE c1 < 5; -- T1
SELECT c2 FROM t2 WHERE c1 < 5; -- T2
UPDATE t2 SET c2 = 7 WHERE c1 < 5; -- T1
UPDATE t1 SET c2 = 8 WHERE c1 < 5; -- T2
COMMIT; -- T1
COMMIT; -- T2
BEGIN; -- T1
SELECT c1, c2 FROM t1; -- T1
SELECT c1, c2 FROM t2; -- T1
COMMIT; -- T1
";

const RR: &str = "REPEATABLE READ";

/// InnoDB loses sight of row 2, whose old key the reader takes; that it is deleted long after explains
/// nothing.
const VANISHED: &str = "
CREATE TABLE t (id INT PRIMARY KEY, v INT);
INSERT INTO t (id, v) VALUES (1, 10), (2, 20);
BEGIN; -- T1
SELECT id, v FROM t; -- T1
UPDATE t SET id = 9 WHERE id = 2; -- T2
INSERT INTO t (id, v) VALUES (2, 30); -- T1
SELECT id, v FROM t; -- T1
COMMIT; -- T1
BEGIN; -- T2
SELECT id, v FROM t; -- T2
UPDATE t SET v = 31 WHERE id = 2; -- T2
DELETE FROM t WHERE id = 9; -- T2
COMMIT; -- T2
SELECT id, v FROM t; -- T1
";

#[test]
fn the_figures_on_mariadb() {
    let Some(server) = support::server(Engine::Mariadb) else { return };
    let bench = Bench::new(server.target(0), Flavour::MariaDb);

    let one = bench.script(RR, FIGURE_1);
    let inserted = "r2.2.1";
    assert_eq!(
        dependencies(&one),
        [
            "T1 rw(r1) T2".to_owned(),
            format!("T1 wr({inserted}) T3"),
            "T1 wr(r4) T3".to_owned(),
            "T2 wr(r1) T3".to_owned(),
            format!("T2 ww({inserted}) T1"),
        ]
    );
    assert_eq!(bench.judged(RR, &one), (Verdict::Violated, vec![Name::ReadWriteSkew]));

    let four = bench.script(RR, FIGURE_4);
    assert_eq!(dependencies(&four), ["T1 rw(r1) T2", "T1 ww(r1) T2"]);
    assert_eq!(bench.judged(RR, &four), (Verdict::Holds, vec![]));

    let five = bench.script(RR, FIGURE_5);
    assert!(five.events[4].waited, "FOR UPDATE waits for the update");
    assert_eq!(dependencies(&five), ["T1 rw(r1) T2", "T2 wr(r1) T1"]);
    assert_eq!(bench.judged(RR, &five), (Verdict::Holds, vec![]));

    let six = bench.script(RR, FIGURE_6);
    assert_eq!(dependencies(&six), ["T1 rw(r1) T2", "T1 wr(r3) T3", "T2 rw(r3) T1", "T2 wr(r1) T3"]);
    assert_eq!(bench.judged(RR, &six), (Verdict::Violated, vec![Name::WriteSkew]));

    let vanished = bench.script(RR, VANISHED);
    let shown = &vanished.events.iter().find(|e| e.line == 4).unwrap().rows;
    assert_eq!(shown.len(), 2, "neither the old nor the new row 2: {shown:?}");
    let (_, names) = bench.judged(RR, &vanished);
    assert!(!names.contains(&Name::CircularFlow), "{names:?}");

    // What Hermitage says of MySQL; U: READ UNCOMMITTED, C: READ COMMITTED, R: REPEATABLE READ.
    let expected = [
        ("READ UNCOMMITTED", "G1a G1b G1c OTV PMP P4 G-single G2-item G2"),
        ("READ COMMITTED", "PMP P4 G-single G2-item G2"),
        (RR, "P4 G2-item G2"),
        ("REPEATABLE READ with innodb_snapshot_isolation", "G2-item G2"),
        ("SERIALIZABLE", ""),
    ];
    hermitage(&bench, &expected);
}

#[test]
fn the_figures_on_postgresql() {
    let Some(server) = support::server(Engine::Postgres) else { return };
    let bench = Bench::new(server.target(0), Flavour::PostgreSql);

    // PostgreSQL gives the second writer up where MariaDB lets it go on (40001).
    let one = bench.script(
        RR,
        &FIGURE_1.replace("(4, 4)", "(4, 4), (5, 4)").replace(
            "INSERT INTO t2 (c1, c2) VALUES (5, 5); -- T2",
            "UPDATE t2 SET c2 = 5 WHERE c1 = 5; -- T2",
        ),
    );
    let first = one.run.transactions.iter().find(|t| t.id == 1).unwrap();
    assert_eq!(first.outcome, Outcome::Aborted);
    assert!(first.steps.iter().any(|s| s.failed.as_ref().is_some_and(|f| f.message.contains("40001"))));
    assert_eq!(bench.judged(RR, &one), (Verdict::Holds, vec![]));

    let four = bench.script(RR, FIGURE_4);
    assert_eq!(dependencies(&four), ["T1 rw(r1) T2", "T1 ww(r1) T2"]);
    assert_eq!(bench.judged(RR, &four), (Verdict::Holds, vec![]));

    // FOR UPDATE of a row that changed since the snapshot is an error (40001); at READ COMMITTED it reads
    // what is there now.
    let five = bench.script(RR, FIGURE_5);
    assert!(five.events[4].waited && five.events[4].failed.as_ref().unwrap().message.contains("40001"));
    assert_eq!(bench.judged(RR, &five), (Verdict::Holds, vec![]));
    let five = bench.script("READ COMMITTED", FIGURE_5);
    assert_eq!(dependencies(&five), ["T1 rw(r1) T2", "T2 wr(r1) T1"]);
    assert_eq!(bench.judged("READ COMMITTED", &five), (Verdict::Holds, vec![]));

    let six = bench.script(RR, FIGURE_6);
    assert_eq!(dependencies(&six), ["T1 rw(r1) T2", "T1 wr(r3) T3", "T2 rw(r3) T1", "T2 wr(r1) T3"]);
    assert_eq!(bench.judged(RR, &six), (Verdict::Violated, vec![Name::WriteSkew]));

    hermitage(
        &bench,
        &[("READ COMMITTED", "PMP P4 G-single G2-item G2"), (RR, "G2-item G2"), ("SERIALIZABLE", "")],
    );
}

fn hermitage(bench: &Bench<'_>, expected: &[(&str, &str)]) {
    for (isolation, allowed) in expected {
        let found: Vec<&str> = SCENARIOS
            .iter()
            .filter(|s| s.happened(&bench.run(isolation, &s.script(bench.flavour).unwrap())))
            .map(|s| s.name)
            .collect();
        assert_eq!(found.join(" "), *allowed, "{isolation}");
    }
}

#[test]
fn the_scenarios_on_sqlite() {
    for isolation in ["DEFERRED", "IMMEDIATE"] {
        for scenario in SCENARIOS {
            let file = support::File::new();
            let database = file.target.clone().with_statement_timeout(std::time::Duration::from_millis(1));
            let bench = Bench::new(&database, Flavour::Sqlite);
            let replayed = bench.run(isolation, &scenario.script(Flavour::Sqlite).unwrap());
            assert!(!scenario.happened(&replayed), "{isolation} {}", scenario.name);
        }
    }
}
