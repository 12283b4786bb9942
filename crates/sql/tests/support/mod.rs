//! Databases for the tests: SQLite in a folder of its own, throw-away servers, stand-ins that fail as a test
//! says.

#![allow(clippy::unwrap_used, dead_code)]

use anomalist_databases::{
    Cancel, Connection, Database, Error, Fate, Isolation, Kind, Product, Reply, Target, Value,
};
use anomalist_lab::server::{Engine, Server, ServerError, Setup};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file of SQLite that is removed in the end.
pub struct File {
    folder: PathBuf,
    pub target: Target,
}

impl File {
    pub fn new() -> File {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("anomalist-sql-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let target: Target =
            format!("sqlite:{}?synchronous=off", folder.join("t.db").display()).parse().unwrap();
        File { folder, target: target.with_statement_timeout(std::time::Duration::from_millis(500)) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A throw-away server; none where its programs are missing and may be.
pub fn server(engine: Engine) -> Option<Server> {
    match Server::start(engine, &Setup::default()) {
        Ok(server) => Some(server),
        Err(error @ ServerError::Missing { .. }) => {
            anomalist_testkit::skip::missing("servers", error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// What a database is called.
pub fn product(database: &dyn Database) -> String {
    database.product().unwrap().name
}

/// What a session of a [`StandIn`] is about to do.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'s> {
    Connect,
    Run(&'s str),
    Commit,
}

/// What comes of it.
pub enum Answer {
    /// What the real database says.
    Real,
    /// This failure. A COMMIT that fails like this is rolled back.
    Fails(Error),
    /// The session is over.
    Lost,
}

type Play = dyn Fn(Asked<'_>) -> Answer + Send + Sync;

/// A real database that a test interrupts.
pub struct StandIn {
    inner: Target,
    play: Arc<Play>,
}

impl StandIn {
    pub fn new(inner: &Target, play: impl Fn(Asked<'_>) -> Answer + Send + Sync + 'static) -> StandIn {
        StandIn { inner: inner.clone(), play: Arc::new(play) }
    }
}

impl Database for StandIn {
    fn connect(&self) -> Result<Box<dyn Connection>, Error> {
        match (self.play)(Asked::Connect) {
            Answer::Real => {
                let inner = self.inner.connect()?;
                Ok(Box::new(StandInSession { inner, play: Arc::clone(&self.play), lost: false }))
            }
            Answer::Fails(error) => Err(error),
            Answer::Lost => Err(lost()),
        }
    }
}

fn lost() -> Error {
    Error::new(Kind::Lost, "terminating connection due to administrator command").with_fate(Fate::Aborted)
}

struct StandInSession {
    inner: Box<dyn Connection>,
    play: Arc<Play>,
    lost: bool,
}

impl StandInSession {
    fn asked(&mut self, asked: Asked<'_>) -> Result<(), Error> {
        let answer = if self.lost { Answer::Lost } else { (self.play)(asked) };
        match answer {
            Answer::Real => Ok(()),
            Answer::Fails(error) => Err(error),
            Answer::Lost => {
                self.lost = true;
                _ = self.inner.rollback();
                Err(lost())
            }
        }
    }
}

impl Connection for StandInSession {
    fn product(&self) -> &Product {
        self.inner.product()
    }
    fn run(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
        self.asked(Asked::Run(sql))?;
        self.inner.run(sql)
    }
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Reply, Error> {
        self.asked(Asked::Run(sql))?;
        self.inner.query(sql, parameters)
    }
    fn begin(&mut self, isolation: &Isolation) -> Result<(), Error> {
        self.asked(Asked::Run("BEGIN"))?;
        self.inner.begin(isolation)
    }
    fn commit(&mut self) -> Result<(), Error> {
        if let Err(error) = self.asked(Asked::Commit) {
            _ = self.inner.rollback();
            return Err(error);
        }
        self.inner.commit()
    }
    fn rollback(&mut self) -> Result<(), Error> {
        self.inner.rollback()
    }
    fn in_transaction(&self) -> bool {
        !self.lost && self.inner.in_transaction()
    }
    fn is_lost(&self) -> bool {
        self.lost || self.inner.is_lost()
    }
    fn backend(&self) -> Option<u64> {
        self.inner.backend()
    }
    fn canceller(&self) -> Arc<dyn Cancel> {
        self.inner.canceller()
    }
}
