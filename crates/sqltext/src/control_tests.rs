//! Spellings that clients and drivers send.

use super::*;

const PG: Dialect = Dialect::PostgreSql;
const MY: Dialect = Dialect::MySql;
const LITE: Dialect = Dialect::Sqlite;

fn level(isolation: Isolation) -> Modes {
    Modes { isolation: Some(isolation), ..Modes::default() }
}

#[test]
fn beginnings() {
    let plain = Some(Control::Begin(Modes::default()));
    for text in ["BEGIN", "begin work", "BEGIN TRANSACTION;", "start transaction", "/* x */ Begin -- y"] {
        assert_eq!(control(PG, text), plain, "{text}");
    }
    for text in ["BEGIN", "begin work", "START TRANSACTION"] {
        assert_eq!(control(MY, text), plain, "{text}");
    }
    for text in ["BEGIN", "BEGIN DEFERRED", "BEGIN TRANSACTION", "BEGIN DEFERRED TRANSACTION"] {
        assert_eq!(control(LITE, text), plain, "{text}");
    }
    assert_eq!(control(LITE, "begin immediate"), Some(Control::BeginLocked(Begin::Immediate)));
    assert_eq!(control(LITE, "begin concurrent"), Some(Control::BeginLocked(Begin::Concurrent)));
    let all = Modes {
        isolation: Some(Isolation::Serializable),
        access: Some(Access::ReadOnly),
        deferrable: Some(true),
        snapshot: false,
    };
    let text = "BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY DEFERRABLE";
    assert_eq!(control(PG, text), Some(Control::Begin(all)));
    let snapshot = Modes { snapshot: true, access: Some(Access::ReadOnly), ..Modes::default() };
    let text = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
    assert_eq!(control(MY, text), Some(Control::Begin(snapshot)));
    for (dialect, text) in [
        (PG, "BEGIN IMMEDIATE"),
        (MY, "BEGIN TRANSACTION"),
        (MY, "BEGIN READ ONLY"),
        (LITE, "BEGIN WORK"),
        (LITE, "START TRANSACTION"),
        (PG, "BEGIN; COMMIT"),
        (PG, "BEGIN READ ONLY,"),
        (PG, ""),
    ] {
        assert_eq!(control(dialect, text), None, "{text}");
    }
}

#[test]
fn ends() {
    let plain = Chain::default();
    for text in ["COMMIT", "commit work", "END", "END TRANSACTION", "COMMIT AND NO CHAIN"] {
        assert_eq!(control(PG, text), Some(Control::Commit(plain)), "{text}");
    }
    assert_eq!(control(PG, "ABORT"), Some(Control::Rollback(plain)));
    assert_eq!(control(MY, "END"), None);
    let chained = Chain { chain: true, release: false };
    assert_eq!(control(MY, "COMMIT AND CHAIN NO RELEASE"), Some(Control::Commit(chained)));
    let released = Chain { chain: false, release: true };
    assert_eq!(control(MY, "ROLLBACK RELEASE"), Some(Control::Rollback(released)));
    assert_eq!(control(LITE, "END TRANSACTION"), Some(Control::Commit(plain)));
    assert_eq!(control(PG, "COMMIT PREPARED 'x'"), Some(Control::TwoPhase("COMMIT PREPARED")));
    assert_eq!(control(PG, "ROLLBACK PREPARED 'x'"), Some(Control::TwoPhase("ROLLBACK PREPARED")));
    assert_eq!(control(PG, "PREPARE TRANSACTION 'x'"), Some(Control::TwoPhase("PREPARE TRANSACTION")));
    assert_eq!(control(PG, "PREPARE p AS SELECT 1"), None);
    assert_eq!(control(MY, "XA START 'x'"), Some(Control::TwoPhase("XA")));
}

#[test]
fn savepoints() {
    let name = "_pg3_1".to_owned();
    assert_eq!(control(PG, r#"SAVEPOINT "_pg3_1""#), Some(Control::Savepoint(name.clone())));
    assert_eq!(control(PG, r#"RELEASE "_pg3_1""#), Some(Control::Release(name.clone())));
    assert_eq!(control(PG, "ROLLBACK TO _PG3_1"), Some(Control::RollbackTo(name.clone())));
    assert_eq!(control(MY, "ROLLBACK WORK TO SAVEPOINT `_pg3_1`"), Some(Control::RollbackTo(name.clone())));
    assert_eq!(control(MY, "RELEASE SAVEPOINT _pg3_1"), Some(Control::Release(name.clone())));
    assert_eq!(control(MY, "RELEASE _pg3_1"), None);
    assert_eq!(control(LITE, "ROLLBACK TRANSACTION TO _pg3_1"), Some(Control::RollbackTo(name)));
}

#[test]
fn settings_of_transactions() {
    let rc = level(Isolation::ReadCommitted);
    let next = Some(Control::Set(Scope::Transaction, rc));
    let session = Some(Control::Set(Scope::Session, rc));
    assert_eq!(control(PG, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"), next);
    assert_eq!(control(MY, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"), next);
    for text in [
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET default_transaction_isolation = 'read committed'",
        "SET default_transaction_isolation TO 'read committed'",
        "set session default_transaction_isolation to \"read committed\"",
    ] {
        assert_eq!(control(PG, text), session, "{text}");
    }
    for text in [
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "set local transaction isolation level read committed",
        "SET tx_isolation = 'READ-COMMITTED'",
        "SET @@session.transaction_isolation='READ-COMMITTED'",
        "SET SESSION transaction_isolation = 'read-committed'",
    ] {
        assert_eq!(control(MY, text), session, "{text}");
    }
    let text = "SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED";
    assert_eq!(control(MY, text), Some(Control::Set(Scope::Global, rc)));
    assert_eq!(control(PG, "SET search_path TO x"), None);
    assert_eq!(control(PG, "SET TRANSACTION"), None);
    assert_eq!(control(PG, "SET TRANSACTION SNAPSHOT '1-2'"), None);
    assert_eq!(control(LITE, "SET TRANSACTION READ ONLY"), None);
}

#[test]
fn autocommit() {
    for text in [
        "SET AUTOCOMMIT = 0",
        "SET @@session.autocommit = OFF",
        "set autocommit=0",
        "SET SESSION autocommit = false",
        "SET @@autocommit := 0",
        "SET NAMES utf8mb4, autocommit=0",
        "set autocommit=0, sql_mode = concat(@@sql_mode,',STRICT_TRANS_TABLES')",
    ] {
        assert_eq!(control(MY, text), Some(Control::Autocommit(Scope::Session, false)), "{text}");
    }
    let on = Some(Control::Autocommit(Scope::Session, true));
    assert_eq!(control(MY, "set autocommit=1, sql_mode=concat(@@sql_mode,',STRICT')"), on);
    assert_eq!(control(PG, "SET autocommit = 0"), None);
}
