//! From a cold start to a script: an anomaly is found, shrunk on the live database and replayed.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use anomalist_databases::{Database, Isolation};
use anomalist_lab::server::Engine;
use anomalist_level::Verdict;
use anomalist_sql::Flavour;
use anomalist_sql::campaign::{Settings, Subject, Summary};
use anomalist_sql::cause::Cause;
use anomalist_sql::judge::Name;
use anomalist_sql::namespace::Namespace;
use anomalist_sql::script::Script;
use anomalist_sql::template::translate;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn subject<'a>(
    database: &'a dyn Database,
    flavour: Flavour,
    isolation: &str,
    stop: &'a (dyn Fn() -> bool + Sync),
) -> (Subject<'a>, Isolation) {
    let product = database.product().unwrap();
    let isolation = product.isolation(isolation).unwrap();
    let namespace = Namespace::new(flavour, "anomalist_campaign");
    (Subject { database, flavour, product: product.name, namespace, stop }, isolation)
}

#[test]
fn an_anomaly_becomes_a_script() {
    let Some(server) = support::server(Engine::Mariadb) else { return };
    let found = AtomicBool::new(false);
    let stop = || found.load(Ordering::Relaxed);
    let (subject, isolation) = subject(server.target(0), Flavour::MariaDb, "REPEATABLE READ", &stop);
    // What depends on a race may not come back in a replay: then another one is looked for.
    let shrunk = (0..8).find_map(|seed| shrunk(&subject, &isolation, seed, &found));
    let Some((script, shown)) = shrunk else { panic!("no lost update of eight came back") };
    println!("in {shown} of 10 replays:\n{}", script.print());
    // A query of another table, or of a view of it, may be what makes the snapshot; each comes with a row
    // or two.
    assert!(script.steps.len() <= 10 && script.setup.len() <= 8, "{}", script.print());
    assert_eq!(script.expects.as_deref(), Some("lost-update"));
    // A column can be pasted as it is: its level is a statement.
    let level = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;";
    assert_eq!(script.print().matches(level).count(), script.sessions(), "{}", script.print());
    // It is a template for others, or says why not.
    if let Ok(translated) = translate(&script, Flavour::PostgreSql) {
        assert_eq!(translated.steps.len(), script.steps.len());
    }
}

/// The first lost update that is found, if replays show it: the smallest script, and in how many of ten
/// they did.
fn shrunk(
    subject: &Subject<'_>,
    isolation: &Isolation,
    seed: u64,
    found: &AtomicBool,
) -> Option<(Script, u32)> {
    // Rounds go on until the anomaly is there, however slow the machine is.
    let duration = Duration::from_secs(290);
    let settings = Settings { transactions: 150, duration, seed, ..Settings::default() };
    let mut progress = |s: &Summary| found.store(s.counts.contains_key(&Name::LostUpdate), Ordering::Relaxed);
    let mut summary = subject.campaign(isolation, &settings, &mut progress).unwrap();
    found.store(false, Ordering::Relaxed);
    let class = summary.classes.iter_mut().find(|c| c.found.name == Name::LostUpdate).unwrap();
    assert_eq!(class.cause, Some(Cause::CommitTiming));
    subject.minimise(isolation, class, &|| false);
    class.shrunk.take().filter(|(_, shown)| *shown >= 9)
}

#[test]
fn a_server_that_dies_leaves_what_was_seen() {
    let Some(server) = support::server(Engine::Postgres) else { return };
    let (subject, isolation) = subject(server.target(0), Flavour::PostgreSql, "SERIALIZABLE", &|| false);
    let settings = Settings { transactions: 40, duration: Duration::MAX, ..Settings::default() };
    let mut progress = |_: &Summary| server.kill(0);
    let summary = subject.campaign(&isolation, &settings, &mut progress).unwrap();
    assert_eq!((summary.rounds, &summary.verdict), (1, &Verdict::Holds));
    assert!(summary.committed > 0 && summary.ended.is_some());
}

/// Sessions that an administrator terminates during a campaign are replaced, in all rounds.
#[test]
fn terminated_sessions_are_replaced() {
    let Some(server) = support::server(Engine::Postgres) else { return };
    let over = AtomicBool::new(false);
    let (subject, isolation) = subject(server.target(0), Flavour::PostgreSql, "READ COMMITTED", &|| false);
    let settings = Settings { transactions: 100, duration: Duration::from_secs(8), ..Settings::default() };
    let summary = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = server.target(0).connect().unwrap();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(700));
                let one = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1";
                session.run(one).unwrap();
            }
        });
        let summary = subject.campaign(&isolation, &settings, &mut |_| {});
        over.store(true, Ordering::Relaxed);
        summary.unwrap()
    });
    assert!(summary.ended.is_none() && summary.driving > Duration::from_secs(1), "{:?}", summary.ended);
    assert!(summary.failures["connection-lost"].count >= 2, "{:?}", summary.failures);
    assert_eq!(summary.verdict, Verdict::Holds);
}
