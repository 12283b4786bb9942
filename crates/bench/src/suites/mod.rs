//! OLTP suites over SQL, with assertions that hold when transactions run one after another.
//!
//! TPC-C with its twelve consistency conditions, SmallBank, Voter and Wikipedia, as the MonkeyDB paper
//! (section 8) runs them: tiny tables, two or three sessions, a mix of mostly updates, and at the end one
//! transaction that reads everything and asks whether the conditions hold. Written from the published
//! definitions; joins and aggregates over more than one row are loops here, so that the same statements run
//! everywhere. A suite speaks MySQL's dialect through a [`Connection`], to weakdb as to a real MariaDB.

pub mod smallbank;
pub mod tpcc;
mod tpcc_conditions;
pub mod voter;
pub mod wikipedia;

use anomalist_databases::{Connection, Database, Error, Kind, Reply, Value};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A suite.
pub trait Suite: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What must hold: a short name as in the paper, and a sentence.
    fn assertions(&self) -> &'static [(&'static str, &'static str)];

    /// Statements that create the tables and fill them.
    fn setup(&self) -> Vec<String>;

    /// Runs one transaction of the mix inside an open transaction. What it returns is added up over all
    /// that commit.
    fn transaction(&self, sql: &mut Sql<'_>, random: &mut fastrand::Rng) -> Result<i64, Error>;

    /// Reads everything and says which assertions do not hold. `sum` is what committed transactions
    /// returned.
    fn broken(&self, sql: &mut Sql<'_>, sum: i64) -> Result<Vec<usize>, Error>;
}

/// All of them.
pub fn all() -> [&'static dyn Suite; 5] {
    [
        &tpcc::Tpcc { own_districts: false },
        &tpcc::Tpcc { own_districts: true },
        &smallbank::SmallBank,
        &voter::Voter,
        &wikipedia::Wikipedia,
    ]
}

/// A connection with shorthands.
pub struct Sql<'a> {
    connection: &'a mut dyn Connection,
    next: &'a AtomicI64,
    /// Which session it is, and how many there are.
    session: (usize, usize),
}

impl Sql<'_> {
    /// The number of the session, from 0, and how many there are.
    pub fn session(&self) -> (usize, usize) {
        self.session
    }

    /// Runs a statement that has to change a row; a row that is not seen is an error, and the transaction's
    /// end.
    pub fn change(&mut self, statement: &str, parameters: &[i64]) -> Result<(), Error> {
        let changed = self.run(statement, parameters)?.affected;
        if changed == 0 { Err(Error::new(Kind::Other, format!("no row: {statement}"))) } else { Ok(()) }
    }

    /// Runs a statement with integers as parameters.
    pub fn run(&mut self, statement: &str, parameters: &[i64]) -> Result<Reply, Error> {
        let values: Vec<Value> = parameters.iter().map(|&i| Value::Int(i)).collect();
        self.connection.query(statement, &values)
    }

    /// The first column of the first row.
    pub fn int(&mut self, statement: &str, parameters: &[i64]) -> Result<Option<i64>, Error> {
        Ok(self.run(statement, parameters)?.int())
    }

    /// All rows, as integers; what is null is `None`.
    pub fn rows(&mut self, statement: &str, parameters: &[i64]) -> Result<Vec<Vec<Option<i64>>>, Error> {
        let reply = self.run(statement, parameters)?;
        Ok(reply.rows.iter().map(|row| row.iter().map(Value::as_int).collect()).collect())
    }

    /// A number that no other client of this run is given: an identity.
    pub fn fresh(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// How to run a suite.
#[derive(Clone, Debug)]
pub struct Load {
    /// Sessions side by side.
    pub sessions: usize,
    /// Transactions of each.
    pub transactions: usize,
    /// Decides what they do.
    pub seed: u64,
    /// The database's name for the isolation level of all transactions.
    pub isolation: String,
    /// A statement before the transaction that asserts, such as `SET anomalist.latest = on`.
    pub before_assertions: Option<String>,
}

/// What a run showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that were refused or failed on a constraint.
    pub failed: u64,
    /// Assertions that do not hold, by their number.
    pub broken: Vec<usize>,
}

/// Creates the suite's tables and fills them.
pub fn set_up(suite: &dyn Suite, database: &dyn Database) -> Result<(), Error> {
    let mut connection = database.connect()?;
    suite.setup().iter().try_for_each(|statement| connection.run(statement).map(|_| ()))
}

/// Runs a suite whose tables are there, and asks whether its assertions hold.
pub fn run(suite: &dyn Suite, database: &dyn Database, load: &Load) -> Result<Ran, Error> {
    let (next, sum) = (AtomicI64::new(1_000_000), AtomicI64::new(0));
    let (committed, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    // Connected one after another: sessions have the same numbers in every run.
    let connections = (0..load.sessions).map(|_| database.connect()).collect::<Result<Vec<_>, _>>()?;
    let session = |number: usize, mut connection: Box<dyn Connection>| -> Result<(), Error> {
        let mut random = fastrand::Rng::with_seed(load.seed.wrapping_mul(1009) + number as u64);
        for _ in 0..load.transactions {
            let mut sql =
                Sql { connection: connection.as_mut(), next: &next, session: (number, load.sessions) };
            match transaction(suite, &mut sql, load, &mut random) {
                Ok(change) => {
                    sum.fetch_add(change, Ordering::Relaxed);
                    committed.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) if connection.is_lost() => return Err(error),
                Err(_) => {
                    connection.rollback()?;
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let session = &session;
        let threads: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(number, connection)| scope.spawn(move || session(number, connection)))
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<()>, Error>>()
    })?;
    let mut connection = database.connect()?;
    if let Some(statement) = &load.before_assertions {
        connection.run(statement)?;
    }
    begin(connection.as_mut(), load)?;
    let mut sql =
        Sql { connection: connection.as_mut(), next: &next, session: (load.sessions, load.sessions) };
    let broken = suite.broken(&mut sql, sum.into_inner())?;
    connection.commit()?;
    Ok(Ran { committed: committed.into_inner(), failed: failed.into_inner(), broken })
}

fn begin(connection: &mut dyn Connection, load: &Load) -> Result<(), Error> {
    let isolation = connection.product().isolation(&load.isolation);
    let first = || connection.product().isolations().into_iter().next();
    match isolation.or_else(first) {
        Some(isolation) => connection.begin(&isolation),
        None => connection.run("BEGIN").map(|_| ()),
    }
}

fn transaction(
    suite: &dyn Suite,
    sql: &mut Sql<'_>,
    load: &Load,
    random: &mut fastrand::Rng,
) -> Result<i64, Error> {
    begin(sql.connection, load)?;
    let change = suite.transaction(sql, random)?;
    sql.connection.commit()?;
    Ok(change)
}
