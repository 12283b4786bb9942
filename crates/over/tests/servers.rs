//! Weak reads over a throw-away PostgreSQL.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_level::Level;
use support::{ask, connect, database, options, over, prepared, run, server};

/// An old version is read by a cached prepared statement within a transaction, own writes win, and the
/// store decides the commit.
#[test]
fn reads_are_weak_and_own_writes_win() {
    let server = server();
    let target = database(&server, "one");
    run(&target, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)");
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..20 {
        run(&target, "UPDATE t SET v = 0");
        let over = over(&target, options(Level::Causal, seed));
        let (mut a, mut b) = (connect(&over, &target), connect(&over, &target));
        ask(&mut a, "UPDATE t SET v = 1 WHERE id = 1");
        ask(&mut a, "UPDATE t SET v = 2 WHERE id = 1");
        let first = prepared(&mut b, "SELECT v FROM t WHERE id = 1");
        ask(&mut b, "BEGIN");
        let second = prepared(&mut b, "SELECT v FROM t WHERE id = 1");
        assert!(second >= first, "sessions do not go back: {first} {second}");
        seen.insert(second.clone());
        assert_eq!(prepared(&mut b, "SELECT v FROM t WHERE id = 1"), second, "repeatable at causal");
        ask(&mut b, "UPDATE t SET v = 7 WHERE id = 2");
        assert_eq!(prepared(&mut b, "SELECT v FROM t WHERE id = 2"), "7");
        assert_eq!(ask(&mut b, "SELECT v FROM t ORDER BY id"), format!("{second} 7"));
        ask(&mut b, "COMMIT");
        assert_eq!(ask(&mut a, "SELECT v FROM t WHERE id = 1"), "2", "read your writes");
        println!("{seed} {first} {second} {:?}", over.counts());
        assert!(over.counts().unweakened.is_empty(), "{:?}", over.counts());
        over.stop().unwrap();
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["0", "1", "2"]);
}
