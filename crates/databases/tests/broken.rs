//! The broken databases are broken, each in its way, in an interleaving that shows it.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]
#![cfg(feature = "sqlite")]

use anomalist_databases::broken::{Broken, Bug};
use anomalist_databases::{Connection, Database, Error, Fate, Isolation, Kind, Target};
use std::path::PathBuf;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("anomalist-broken-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn target(&self, name: &str) -> Target {
        let target: Target = format!("sqlite:{}", self.0.join(name).display()).parse().unwrap();
        let made = "CREATE TABLE r (k INTEGER PRIMARY KEY, v INTEGER); INSERT INTO r VALUES (1, 0), (2, 0)";
        target.connect().unwrap().run(made).unwrap();
        target
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn get(session: &mut dyn Connection, k: i64) -> i64 {
    session.query("SELECT v FROM r WHERE k = ?", &[k.into()]).unwrap().int().unwrap()
}

fn put(session: &mut dyn Connection, k: i64, v: i64) {
    session.query("UPDATE r SET v = ? WHERE k = ?", &[v.into(), k.into()]).unwrap();
}

fn level(session: &dyn Connection) -> Isolation {
    session.product().isolation("serializable").unwrap()
}

fn two<D: Database>(database: &Broken<D>) -> (Box<dyn Connection>, Box<dyn Connection>, Isolation) {
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    let level = level(one.as_ref());
    (one, two, level)
}

#[test]
fn dirty_read() {
    let folder = Folder::new("dirty");
    let (mut one, mut two, level) = two(&Broken::new(folder.target("a"), Bug::DirtyRead));
    one.begin(&level).unwrap();
    put(one.as_mut(), 1, 7);
    two.begin(&level).unwrap();
    assert_eq!(get(two.as_mut(), 1), 7, "read before it is committed");
    one.commit().unwrap();
    two.commit().unwrap();
    let mut refused = 0;
    for value in 10..30 {
        one.begin(&level).unwrap();
        put(one.as_mut(), 1, value);
        if let Err(error) = one.commit() {
            assert_eq!(error.fate(), Fate::Aborted);
            assert_eq!(get(two.as_mut(), 1), value, "read though it was aborted");
            refused += 1;
        }
    }
    assert!(refused >= 2);
}

#[test]
fn lost_update() {
    let folder = Folder::new("lost");
    let (mut one, mut two, level) = two(&Broken::new(folder.target("a"), Bug::LostUpdate));
    one.begin(&level).unwrap();
    two.begin(&level).unwrap();
    let (seen, also) = (get(one.as_mut(), 1), get(two.as_mut(), 1));
    put(one.as_mut(), 1, seen + 1);
    one.commit().unwrap();
    put(two.as_mut(), 1, also + 1);
    two.commit().unwrap();
    assert_eq!(get(one.as_mut(), 1), 1, "two increments, one counted");
}

#[test]
fn non_atomic_commit() {
    let folder = Folder::new("atomic");
    let (mut one, mut two, level) = two(&Broken::new(folder.target("a"), Bug::NonAtomicCommit));
    one.begin(&level).unwrap();
    put(one.as_mut(), 1, 7);
    two.begin(&level).unwrap();
    assert_eq!((get(two.as_mut(), 1), get(two.as_mut(), 2)), (7, 0), "half of it is seen");
    two.commit().unwrap();
    put(one.as_mut(), 2, 7);
    one.commit().unwrap();
    assert_eq!((get(two.as_mut(), 1), get(two.as_mut(), 2)), (7, 7));
}

#[test]
fn stale_failover() {
    let folder = Folder::new("stale");
    let database = Broken::with_failover(folder.target("a"), folder.target("b"), 2, 5).unwrap();
    let (mut one, mut two, level) = two(&database);
    for value in 1..=5 {
        assert_eq!(get(two.as_mut(), 1), value - 1);
        one.begin(&level).unwrap();
        put(one.as_mut(), 1, value);
        one.commit().unwrap();
    }
    assert_eq!(get(two.as_mut(), 1), 2, "three acknowledged commits are gone");
    one.begin(&level).unwrap();
    put(one.as_mut(), 1, 9);
    one.commit().unwrap();
    assert_eq!(get(two.as_mut(), 1), 9, "and life goes on");
}

/// A database whose COMMIT works and whose answer is lost.
struct Mute(Target);
struct Muted(Box<dyn Connection>);

impl Database for Mute {
    fn connect(&self) -> Result<Box<dyn Connection>, Error> {
        Ok(Box::new(Muted(self.0.connect()?)))
    }
}

impl Connection for Muted {
    fn product(&self) -> &anomalist_databases::Product {
        self.0.product()
    }
    fn run(&mut self, sql: &str) -> Result<Vec<anomalist_databases::Reply>, Error> {
        self.0.run(sql)
    }
    fn query(
        &mut self,
        sql: &str,
        values: &[anomalist_databases::Value],
    ) -> Result<anomalist_databases::Reply, Error> {
        self.0.query(sql, values)
    }
    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error> {
        self.0.begin(isolation)
    }
    fn commit(&mut self) -> Result<(), Error> {
        self.0.commit()?;
        Err(Error::new(Kind::Lost, "no answer").at_commit())
    }
    fn rollback(&mut self) -> Result<(), Error> {
        self.0.rollback()
    }
    fn in_transaction(&self) -> bool {
        self.0.in_transaction()
    }
    fn is_lost(&self) -> bool {
        false
    }
    fn backend(&self) -> Option<u64> {
        None
    }
    fn canceller(&self) -> std::sync::Arc<dyn anomalist_databases::Cancel> {
        self.0.canceller()
    }
}

#[test]
fn lost_commit_is_abort() {
    let folder = Folder::new("client");
    let (mut one, mut two, level) = two(&Broken::new(Mute(folder.target("a")), Bug::LostCommitIsAbort));
    one.begin(&level).unwrap();
    put(one.as_mut(), 1, 7);
    assert_eq!(one.commit().unwrap_err().fate(), Fate::Aborted, "so it says");
    assert_eq!(get(two.as_mut(), 1), 7, "and it is not so");
}

#[test]
fn names_come_back() {
    for bug in Bug::ALL {
        assert_eq!(bug.name().parse(), Ok(bug));
    }
    assert!("none".parse::<Bug>().is_err());
}
