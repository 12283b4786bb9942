//! Statements that succeed: what they return, and what commit and rollback make of it.

use super::{get, level, put, sql, table};
use anomalist_databases::{Connection, Database, Family, Fate, Kind, Query, Target, Value};

pub fn values(target: &Target) {
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

pub fn commit_and_rollback(target: &Target) {
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

pub fn isolation_names(target: &Target) {
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

pub fn statements_in_one_go(target: &Target) {
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

pub fn changed_tables(target: &Target) {
    let mut session = table(target, "changed");
    let all = "SELECT * FROM changed WHERE k = 1";
    assert_eq!(session.query(all, &[]).unwrap().columns.len(), 2);
    session.run("ALTER TABLE changed ADD COLUMN w BIGINT").unwrap();
    // One failure is allowed, not two.
    let reply = session.query(all, &[]).or_else(|_| session.query(all, &[])).unwrap();
    assert_eq!((reply.columns.len(), reply.rows[0].len()), (3, 3));
}
