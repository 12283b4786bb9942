//! Statements that are cut off: cancelled, out of time, or with a connection that breaks.

use super::{brief, get, level, put, table};
use anomalist_databases::{Connection, Database, Error, Family, Fate, Kind, Target};
use anomalist_lab::fault::{CommitCut, Proxy, terminate};
use std::net::ToSocketAddrs;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Runs a statement that takes forever, and something else meanwhile until it ends.
fn meanwhile(
    target: &Target,
    session: &mut dyn Connection,
    mut what: impl FnMut(),
) -> (Error, Box<dyn Connection>) {
    let mut holder = table(target, "slow");
    holder.begin(&level(holder.as_ref(), true)).unwrap();
    put(holder.as_mut(), "slow", 1, 11).unwrap();
    session.begin(&level(session, true)).unwrap();
    let forever = session.product().family == Family::Sqlite;
    let (done, is_done) = channel();
    let error = thread::scope(|scope| {
        let running = scope.spawn(move || {
            let endless =
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n";
            let result =
                if forever { session.query(endless, &[]).map(|_| 0) } else { put(session, "slow", 1, 12) };
            done.send(()).unwrap();
            result.unwrap_err()
        });
        let limit = Instant::now() + Duration::from_secs(120);
        while is_done.recv_timeout(Duration::from_millis(50)).is_err() {
            assert!(Instant::now() < limit, "the statement does not end");
            what();
        }
        running.join().unwrap()
    });
    (error, holder)
}

pub fn cancel(target: &Target) {
    let mut session = target.connect().unwrap();
    let canceller = session.canceller();
    let (error, mut holder) = meanwhile(target, session.as_mut(), || canceller.cancel().unwrap());
    assert_eq!((error.kind(), error.fate()), (Kind::Cancelled, Fate::Open), "{error}");
    holder.rollback().unwrap();
    session.rollback().unwrap();
    assert_eq!(get(session.as_mut(), "slow", 1).unwrap(), Some(10), "the session goes on");
}

pub fn time_limit(target: &Target) {
    let mut session = brief(target, Duration::from_millis(1000));
    if session.product().family == Family::Sqlite {
        // A database that others hold on to.
        let mut holder = table(target, "slow");
        holder.begin(&holder.product().isolation("EXCLUSIVE").unwrap()).unwrap();
        put(holder.as_mut(), "slow", 1, 11).unwrap();
        let error = put(session.as_mut(), "slow", 1, 12).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (Kind::Timeout, Fate::Aborted), "{error}");
        return;
    }
    let (error, mut holder) = meanwhile(target, session.as_mut(), || ());
    assert_eq!((error.kind(), error.fate()), (Kind::Timeout, Fate::Aborted), "{error}");
    assert!(session.is_lost(), "the answer may still come, so the session is over");
    assert_eq!(session.commit().unwrap_err().fate(), Fate::Aborted);
    holder.commit().unwrap();
    drop(session);
    assert_eq!(get(holder.as_mut(), "slow", 2).unwrap(), Some(20));
}

/// The target through a proxy, if it is reached by TCP.
fn proxied(target: &Target) -> Option<(Proxy, Target)> {
    let (host, port) = target.address()?;
    let address = (host, port).to_socket_addrs().unwrap().next().unwrap();
    let proxy = Proxy::new(address).unwrap();
    let through = target.via("127.0.0.1", proxy.address().port());
    Some((proxy, through))
}

pub fn lost_before_commit(target: &Target) {
    let Some((proxy, through)) = proxied(target) else { return };
    let mut observer = table(target, "lost");
    let mut session = through.connect().unwrap();
    session.begin(&level(session.as_ref(), true)).unwrap();
    put(session.as_mut(), "lost", 1, 11).unwrap();
    proxy.cut();
    let error = put(session.as_mut(), "lost", 2, 21).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (Kind::Lost, Fate::Aborted), "COMMIT was never sent: {error}");
    assert!(session.is_lost() && !session.in_transaction());
    assert_eq!(session.commit().unwrap_err().fate(), Fate::Aborted, "nor is it now");
    session.rollback().unwrap();
    assert_eq!(session.run("SELECT 1").unwrap_err().kind(), Kind::Lost);
    // Waits for the lock, so the server has given the transaction up when it is granted.
    put(observer.as_mut(), "lost", 1, 12).unwrap();

    let mut session = through.connect().unwrap();
    proxy.cut();
    let error = put(session.as_mut(), "lost", 3, 31).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (Kind::Lost, Fate::Unknown), "it commits itself: {error}");
    assert_eq!(get(through.connect().unwrap().as_mut(), "lost", 1).unwrap(), Some(12), "a new session works");
}

pub fn lost_during_commit(target: &Target) {
    let Some((proxy, through)) = proxied(target) else { return };
    for (when, expected) in [(CommitCut::Before, 10), (CommitCut::Answer, 11)] {
        let mut observer = table(target, "lost");
        let mut session = through.connect().unwrap();
        session.begin(&level(session.as_ref(), true)).unwrap();
        put(session.as_mut(), "lost", 1, 11).unwrap();
        proxy.cut_commits(when, 1);
        let error = session.commit().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (Kind::Lost, Fate::Unknown), "{when:?}: {error}");
        assert!(session.is_lost());
        // The lock says when the server is done with it.
        put(observer.as_mut(), "lost", 1, -1).unwrap();
        drop(observer);
        let mut observer = table(target, "lost2");
        drop(session);
        let mut session = through.connect().unwrap();
        session.begin(&level(session.as_ref(), true)).unwrap();
        put(session.as_mut(), "lost2", 1, 11).unwrap();
        proxy.cut_commits(when, 1);
        session.commit().unwrap_err();
        if when == CommitCut::Answer {
            assert_eq!(
                get(observer.as_mut(), "lost2", 1).unwrap(),
                Some(expected),
                "the server had committed"
            );
        } else {
            assert_ne!(get(observer.as_mut(), "lost2", 1).unwrap(), Some(11), "the server had not");
        }
    }
    assert_eq!(proxy.commits_cut(), 4);
}

pub fn terminated(target: &Target) {
    let mut admin = table(target, "term");
    let mut session = target.connect().unwrap();
    let Some(backend) = session.backend() else { return };
    session.begin(&level(session.as_ref(), true)).unwrap();
    put(session.as_mut(), "term", 1, 11).unwrap();
    terminate(admin.as_mut(), backend).unwrap();
    // Waits for the lock.
    put(admin.as_mut(), "term", 1, 12).unwrap();
    let error = session.commit().unwrap_err();
    assert_eq!(error.kind(), Kind::Lost, "{error}");
    assert_eq!(error.fate(), Fate::Unknown, "COMMIT was sent, and nothing refused it");
    assert!(session.is_lost());
    let mut session = target.connect().unwrap();
    assert_eq!(get(session.as_mut(), "term", 1).unwrap(), Some(12));
}
