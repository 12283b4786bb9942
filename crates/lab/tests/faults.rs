//! Outcomes are reported as they are while everything goes wrong: whatever a session says was committed is
//! there, whatever it says was aborted is not, and the unknown may be either.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]
#![allow(clippy::print_stdout, reason = "figures of a test")]
#![cfg(all(feature = "postgres", feature = "mysql"))]

mod suite;

use anomalist_databases::broken::{Broken, Bug};
use anomalist_databases::{Connection, Database, Error, Fate, Value};
use anomalist_lab::fault::{CommitCut, Fault, Planned, Proxy, Sessions, Site, Tracked};
use anomalist_lab::server::{Engine, Server, Setup};
use std::collections::BTreeSet;
use std::net::ToSocketAddrs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Default, Debug)]
struct Outcomes {
    committed: BTreeSet<i64>,
    aborted: BTreeSet<i64>,
    unknown: BTreeSet<i64>,
}

/// Two rows with the same number, in one transaction.
fn insert(session: &mut dyn Connection, number: i64) -> Result<(), Error> {
    let product = session.product();
    let sql = format!("INSERT INTO kept VALUES ({}, {})", product.placeholder(1), product.placeholder(2));
    let level = product.isolation("read committed").unwrap();
    session.begin(&level)?;
    for half in [0, 1] {
        session.query(&sql, &[Value::Int(number), Value::Int(half)])?;
    }
    session.commit()
}

fn client(database: &dyn Database, first: i64, stop: &AtomicBool, outcomes: &Mutex<Outcomes>) {
    let mut session = None;
    for number in first.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let Some(open) = session.as_mut() else {
            session = database.connect().ok();
            if session.is_none() {
                thread::sleep(Duration::from_millis(20));
            }
            continue;
        };
        let open: &mut Box<dyn Connection> = open;
        let done = insert(open.as_mut(), number);
        let mut outcomes = outcomes.lock().unwrap();
        match done {
            Ok(()) => outcomes.committed.insert(number),
            Err(error) => match error.fate() {
                Fate::Unknown => outcomes.unknown.insert(number),
                _ => outcomes.aborted.insert(number),
            },
        };
        drop(outcomes);
        if open.rollback().is_err() || open.is_lost() {
            session = None;
        }
    }
}

struct Run<'a> {
    server: &'a Server,
    proxy: Proxy,
    outcomes: Outcomes,
}

/// Waits for progress, however slow the machine is.
fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(120);
    while !so() {
        assert!(Instant::now() < limit, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Transactions that commit between two faults.
const BETWEEN: usize = 10;

fn disturbed<'a>(server: &'a Server, bug: Option<Bug>, faults: &[(Fault, u64)]) -> Run<'a> {
    let target = server.target(0);
    let made = "DROP TABLE IF EXISTS kept; CREATE TABLE kept (n BIGINT, half BIGINT, PRIMARY KEY (n, half))";
    target.connect().unwrap().run(made).unwrap();
    let (host, port) = target.address().unwrap();
    let proxy = Proxy::new((host, port).to_socket_addrs().unwrap().next().unwrap()).unwrap();
    let through = target
        .via("127.0.0.1", proxy.address().port())
        .with_statement_timeout(Duration::from_millis(500))
        .with_connect_timeout(Duration::from_millis(500));
    let (sessions, stop) = (Sessions::default(), AtomicBool::new(false));
    let database: Box<dyn Database> = match bug {
        Some(bug) => Box::new(Broken::new(through, bug)),
        None => Box::new(Tracked::new(through, 0, &sessions)),
    };
    let outcomes = Mutex::new(Outcomes::default());
    let administrators = server.targets();
    let site = Site {
        server: Some(server),
        proxies: std::slice::from_ref(&proxy),
        administrators: &administrators,
        sessions,
    };
    let never = AtomicBool::new(false);
    thread::scope(|scope| {
        // Set however this ends, or a failure would wait for the clients for ever.
        let _ends = Ends(&stop);
        for number in 0..4 {
            let (database, outcomes, stop) = (database.as_ref(), &outcomes, &stop);
            scope.spawn(move || client(database, number * 1_000_000, stop, outcomes));
        }
        let some_commit = || {
            let before = outcomes.lock().unwrap().committed.len();
            wait_for("commits", || outcomes.lock().unwrap().committed.len() >= before + BETWEEN);
        };
        for &(fault, lasts) in faults {
            some_commit();
            if fault == Fault::LoseCommits {
                let before = proxy.commits_cut();
                proxy.cut_commits(CommitCut::Answer, 3);
                wait_for("commits that lose their answer", || proxy.commits_cut() >= before + 3);
                continue;
            }
            let lasts = Duration::from_millis(lasts);
            let planned = Planned { at: Duration::ZERO, fault, node: 0, lasts };
            // Between two connections there is no session to be ended; the administrator may meet a server
            // that is starting.
            if let Err(error) = site.carry_out(&planned, &never) {
                assert_eq!(fault, Fault::Terminate, "{error}");
            }
        }
        // And in good weather.
        some_commit();
    });
    let outcomes = outcomes.into_inner().unwrap();
    Run { server, proxy, outcomes }
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What the server has, once every transaction is over.
fn kept(server: &Server) -> BTreeSet<i64> {
    // Waits for all locks, so nothing is undecided afterwards.
    server.stop(0).unwrap();
    server.start_again(0).unwrap();
    let mut session = server.target(0).connect().unwrap();
    let reply = session.query("SELECT n, COUNT(*) FROM kept GROUP BY n", &[]).unwrap();
    for row in &reply.rows {
        assert_eq!(row[1], Value::Int(2), "{row:?}: transactions are whole");
    }
    reply.rows.iter().map(|row| row[0].as_int().unwrap()).collect()
}

fn honest(engine: Engine) {
    let Some(server) = suite::server(engine, &Setup::default()) else { return };
    let faults = [
        (Fault::Terminate, 0),
        (Fault::LoseCommits, 0),
        (Fault::Cut, 0),
        (Fault::Delay, 200),
        (Fault::HalfClose, 0),
        (Fault::HalfClose, 1),
        (Fault::Terminate, 0),
        (Fault::Partition, 700),
        (Fault::Kill, 100),
        (Fault::LoseCommits, 0),
        (Fault::Throttle, 200),
        (Fault::Pause, 700),
        (Fault::Restart, 0),
        (Fault::Kill, 0),
        (Fault::Cut, 0),
    ];
    let Run { server, proxy, outcomes } = disturbed(&server, None, &faults);
    let Outcomes { committed, aborted, unknown } = outcomes;
    let kept = kept(server);
    println!(
        "{engine:?}: {} committed, {} aborted, {} unknown, of which {} are there; {} commits lost their answer",
        committed.len(),
        aborted.len(),
        unknown.len(),
        unknown.intersection(&kept).count(),
        proxy.commits_cut(),
    );
    assert_eq!(committed.difference(&kept).next(), None, "committed and not there");
    assert_eq!(aborted.intersection(&kept).next(), None, "aborted and there");
    assert!(committed.len() >= BETWEEN * faults.len() && proxy.commits_cut() >= 6);
    assert!(unknown.intersection(&kept).count() >= 6, "those whose answer was lost are there");
}

#[test]
fn postgres() {
    honest(Engine::Postgres);
}

#[test]
fn mariadb() {
    honest(Engine::Mariadb);
}

#[test]
fn a_wrong_client_is_caught_lying() {
    let Some(server) = suite::server(Engine::Postgres, &Setup::default()) else { return };
    let run = disturbed(&server, Some(Bug::LostCommitIsAbort), &[(Fault::LoseCommits, 0)]);
    assert!(run.proxy.commits_cut() > 0);
    let kept = kept(run.server);
    assert!(run.outcomes.aborted.intersection(&kept).next().is_some(), "said aborted, and there it is");
}
