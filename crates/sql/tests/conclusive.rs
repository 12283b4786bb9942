//! When a campaign may say "holds", and what it does when a connection is lost.

#![allow(clippy::unwrap_used)]

mod support;

use anomalist_databases::{Database, Error, Fate, Kind};
use anomalist_level::{Level, Verdict, Why};
use anomalist_sql::Flavour;
use anomalist_sql::campaign::{Settings, Subject, Summary};
use anomalist_sql::namespace::Namespace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use support::{Answer, Asked, File, StandIn};

/// So many rounds at a level of SQLite.
fn campaign(database: &dyn Database, isolation: &str, settings: Settings, rounds: u64) -> Summary {
    let enough = Arc::new(AtomicBool::new(false));
    let stop = || enough.load(Ordering::Relaxed);
    let product = database.product().unwrap();
    let isolation = product.isolation(isolation).unwrap();
    let namespace = Namespace::new(Flavour::Sqlite, "anomalist_conclusive");
    let subject =
        Subject { database, flavour: Flavour::Sqlite, product: product.name, namespace, stop: &stop };
    let settings = Settings {
        transactions: 60,
        duration: Duration::from_secs(60),
        required: vec![Level::Serializable],
        ..settings
    };
    let mut progress = |s: &Summary| enough.store(s.rounds >= rounds, Ordering::Relaxed);
    subject.campaign(&isolation, &settings, &mut progress).unwrap()
}

#[track_caller]
fn unknown(summary: &Summary) -> &Why {
    let Verdict::Unknown(why) = &summary.verdict else { panic!("{:?}", summary.verdict) };
    assert_eq!(summary.required[0].1, Verdict::Unknown(why.clone()));
    why
}

#[test]
fn one_session_shows_nothing() {
    let file = File::new();
    let settings = Settings { sessions: Some(1), ..Settings::default() };
    assert_eq!(unknown(&campaign(&file.target, "DEFERRED", settings, 2)), &Why::NothingConcurrent);
    // Nor does a database that lets transactions in one by one.
    let settings = Settings { sessions: Some(3), ..Settings::default() };
    assert_eq!(unknown(&campaign(&file.target, "EXCLUSIVE", settings, 2)), &Why::NothingConcurrent);
}

#[test]
fn where_most_statements_fail_nothing_holds() {
    let file = File::new();
    let database = StandIn::new(&file.target, |asked| match asked {
        Asked::Run(sql) if sql.contains("wList") && !sql.starts_with("CREATE") && !sql.contains("'')") => {
            let error = Error::new(Kind::Other, "this engine cannot do that");
            Answer::Fails(error.with_fate(Fate::Open))
        }
        _ => Answer::Real,
    });
    let summary = campaign(&database, "DEFERRED", Settings::default(), 1);
    let why = unknown(&summary);
    let Why::StatementsFailed { first: Some(error), .. } = why else { panic!("{why:?}") };
    assert!(error.starts_with("this engine cannot do that"), "{error}");
    assert!(summary.failed_statements * 2 > summary.statements);
    assert!(summary.failures["other"].first.contains(", to: "), "{:?}", summary.failures);
}

/// The connection that runs the so-manieth statement is lost then.
fn losing(file: &File, at: u32) -> StandIn {
    let runs = AtomicU32::new(0);
    StandIn::new(&file.target, move |asked| match asked {
        Asked::Run(_) if runs.fetch_add(1, Ordering::Relaxed) + 1 == at => Answer::Lost,
        _ => Answer::Real,
    })
}

#[test]
fn one_lost_connection_is_not_the_end() {
    let mut in_a_round = 0;
    for at in [1, 3, 12, 40, 77, 130, 200, 290] {
        let file = File::new();
        let settings = Settings { sessions: Some(2), ..Settings::default() };
        let summary = campaign(&losing(&file, at), "DEFERRED", settings, 3);
        assert!(summary.ended.is_none() && summary.rounds >= 3, "{at}: {:?}", summary.ended);
        assert_eq!(summary.failures["connection-lost"].count, 1, "{at}");
        assert!(summary.verdict != Verdict::Violated, "{at}");
        in_a_round += u32::from(summary.committed > 0);
    }
    assert!(in_a_round > 0);
}

#[test]
fn a_database_that_stays_away_is_lost() {
    let file = File::new();
    let runs = AtomicU32::new(0);
    let database = StandIn::new(&file.target, move |_| match runs.fetch_add(1, Ordering::Relaxed) {
        0..600 => Answer::Real,
        _ => Answer::Lost,
    });
    let summary = campaign(&database, "DEFERRED", Settings::default(), 1000);
    assert_eq!(summary.ended.map(|e| e.kind()), Some(Kind::Lost));
    assert!(summary.committed > 0);
}
