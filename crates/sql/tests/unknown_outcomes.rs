//! A COMMIT whose outcome is unknown, in the middle of a session: the history gives that transaction a
//! session of its own, and every dependency stays with the transaction it is of.

#![allow(clippy::unwrap_used)]

mod support;

use anomalist_check::Budget;
use anomalist_databases::{Database, Error, Kind};
use anomalist_level::{Relation, Verdict};
use anomalist_sql::Flavour;
use anomalist_sql::judge::{Judged, judge};
use anomalist_sql::namespace::Namespace;
use anomalist_sql::predicate::Decider;
use anomalist_sql::record::{Outcome, Run};
use anomalist_sql::replay::replay;
use anomalist_sql::script::Script;
use anomalist_sql::vendor::promise;
use std::sync::atomic::{AtomicU32, Ordering};
use support::{Answer, Asked, File, StandIn};

/// Replays a script on SQLite; the first COMMIT fails with an unknown outcome.
fn judged(steps: &str) -> (Run, Judged) {
    let file = File::new();
    let commits = AtomicU32::new(0);
    let database = StandIn::new(&file.target, move |asked| match asked {
        Asked::Commit if commits.fetch_add(1, Ordering::Relaxed) == 0 => {
            Answer::Fails(Error::new(Kind::Other, "a rollback to a savepoint is not supported"))
        }
        _ => Answer::Real,
    });
    let tables = "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER);
        CREATE TABLE u (id INTEGER PRIMARY KEY, v INTEGER);
        INSERT INTO t (id, v) VALUES (1, 0);
        INSERT INTO u (id, v) VALUES (1, 0);\n";
    let script = Script::parse(Flavour::Sqlite, &format!("{tables}{steps}")).unwrap();
    let level = database.product().unwrap().isolation("DEFERRED").unwrap();
    let namespace = Namespace::new(Flavour::Sqlite, "anomalist_unknown");
    let run = replay(&database, &level, &namespace, &script, &|| false).unwrap().run;
    let promise = promise("SQLite", level.name());
    let definitions = script.statements().collect();
    let decider = Decider { database: &database, namespace: &namespace, settings: &[], definitions };
    let judged =
        judge(Flavour::Sqlite, (&run, &decider.decide(&run)), &promise, &[], &Budget::unlimited()).unwrap();
    (run, judged)
}

/// Strictly one transaction after the other: nothing can be wrong.
fn serial(last: &str) -> String {
    format!(
        "BEGIN; -- T1
        UPDATE t SET v = 1 WHERE id = 1; -- T1
        SAVEPOINT s; -- T1
        UPDATE t SET v = 2 WHERE id = 1; -- T1
        ROLLBACK TO s; -- T1
        COMMIT; -- T1
        BEGIN; -- T1
        SELECT 1; -- T1
        COMMIT; -- T1
        BEGIN; -- T2
        SELECT id FROM t WHERE v = 7; -- T2
        UPDATE u SET v = 1 WHERE id = 1; -- T2
        COMMIT; -- T2
        BEGIN; -- T1
        {last} -- T1
        COMMIT; -- T1
        BEGIN; -- T2
        SELECT v FROM u WHERE id = 1; -- T2
        COMMIT; -- T2"
    )
}

#[test]
fn a_serial_run_holds_whatever_became_of_a_commit() {
    for last in
        ["SELECT 2; -- T1\nINSERT INTO t (id, v) VALUES (7, 7);", "INSERT INTO t (id, v) VALUES (7, 7);"]
    {
        let (run, judged) = judged(&serial(last));
        assert_eq!(run.transactions[0].outcome, Outcome::Unknown);
        assert_eq!((judged.verdict, judged.counts.len()), (Verdict::Holds, 0));
        // T2 wrote u, and T5 of the same session read it; T3 left out the row that T4 inserted.
        let ids = |l: &anomalist_sql::judge::Link| {
            (run.transactions[l.from].id, l.relation, run.transactions[l.to].id)
        };
        let found: Vec<_> = judged.links.iter().map(ids).collect();
        assert!(found.contains(&(3, Relation::WriteRead, 5)), "{found:?}");
        assert!(found.contains(&(3, Relation::PredicateAntiDependency, 4)), "{found:?}");
        assert!(found.iter().all(|(from, _, to)| from < to), "{found:?}");
    }
}

#[test]
fn a_dependency_names_its_statements_beside_a_commit_of_unknown_outcome() {
    let steps = "BEGIN; -- T1
        UPDATE t SET v = 1 WHERE id = 1; -- T1
        COMMIT; -- T1
        UPDATE u SET v = 5 WHERE id = 1; -- T1
        SELECT v FROM u; -- T2";
    let (run, judged) = judged(steps);
    let link = judged.links.iter().find(|l| l.relation == Relation::WriteRead && l.to == 2).unwrap();
    assert_eq!(run.transactions[link.from].steps[link.first].text, "UPDATE u SET v = 5 WHERE id = 1");
    assert_eq!(run.transactions[link.to].steps[link.second].text, "SELECT v FROM u");
}
