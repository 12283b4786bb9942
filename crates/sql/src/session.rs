//! A session of the database under test: instruments statements, runs them, records what they returned.

use crate::Flavour;
use crate::instrument::{Capture, Effect, Instrumented, Instrumenter, Mark};
use crate::record::{Executed, Failed, Outcome, Step};
use anomalist_databases::{Cancel, Connection, Error, Fate, Isolation, Kind, Value};
use anomalist_sqltext::{Control, Dialect, control, parse};
use std::sync::Arc;
use std::time::Instant;

/// How statements reach the database.
pub(crate) struct Session {
    connection: Box<dyn Connection>,
    /// None: statements are sent as they are.
    instrumenter: Option<Instrumenter>,
    flavour: Flavour,
    isolation: Isolation,
    number: usize,
    start: Instant,
    open: Option<Open>,
}

/// How long to wait for locks.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// Seconds after which a wait fails.
    pub seconds: u32,
    /// Milliseconds after which PostgreSQL looks whether a wait is a deadlock.
    pub deadlock: u32,
}

impl Patience {
    /// Of rounds: a session that waits for nothing holds the others up.
    pub const ROUND: Patience = Patience { seconds: 2, deadlock: 10 };
    /// Of replays: who waits must be seen to wait first.
    pub const REPLAY: Patience = Patience { seconds: 15, deadlock: 50 };
}

/// A transaction that has begun.
struct Open {
    executed: Executed,
    /// Savepoints, with the number of steps before each.
    savepoints: Vec<(String, usize)>,
    /// It can only be rolled back.
    doomed: bool,
    /// It ended by itself: the database rolled it back, or took the connection away.
    ended: Option<Outcome>,
    autocommit: bool,
}

impl Session {
    /// A session; `number` is its name in the history, `start` the beginning of the run; it waits so long
    /// for locks.
    pub fn new(
        mut connection: Box<dyn Connection>,
        instrumenter: Option<Instrumenter>,
        (flavour, isolation): (Flavour, Isolation),
        number: usize,
        start: Instant,
        patience: Patience,
    ) -> Result<Session, Error> {
        for statement in prepare(flavour, &isolation, patience.seconds) {
            connection.run(&statement)?;
        }
        if flavour == Flavour::PostgreSql {
            // Only an administrator may; for others deadlocks take a second to be seen.
            _ = connection.run(&format!("SET deadlock_timeout = '{}ms'", patience.deadlock));
        }
        // The first BEGIN sets the level for the session, which statements outside of transactions need as
        // well.
        connection.begin(&isolation)?;
        connection.rollback()?;
        Ok(Session { connection, instrumenter, flavour, isolation, number, start, open: None })
    }

    /// The connection, for another use.
    pub fn into_connection(self) -> Box<dyn Connection> {
        self.connection
    }

    /// The server's number for it.
    pub fn backend(&self) -> Option<u64> {
        self.connection.backend()
    }

    pub fn is_lost(&self) -> bool {
        self.connection.is_lost()
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Begins a transaction. `autocommit`: its one statement commits itself.
    pub fn begin(&mut self, id: u64, autocommit: bool) -> Result<(), Failed> {
        let mut executed = Executed {
            id,
            session: self.number,
            steps: Vec::new(),
            outcome: Outcome::Aborted,
            failed: None,
            interval: (self.now(), 0),
        };
        let begun = match autocommit {
            true => Ok(()),
            false => self.connection.begin(&self.isolation),
        };
        let ended = begun.as_ref().err().map(|_| Outcome::Aborted);
        executed.failed = begun.as_ref().err().map(Failed::from);
        self.open = Some(Open { executed, savepoints: Vec::new(), doomed: false, ended, autocommit });
        begun.map_err(|e| Failed::from(&e))
    }

    /// The level of what comes, with the statement that begins it.
    pub fn at(&mut self, isolation: Isolation) {
        self.isolation = isolation;
    }

    /// Runs a statement that is in no transaction, and returns its rows.
    pub fn outside(&mut self, text: &str) -> Result<Vec<Vec<Value>>, Failed> {
        let replies = self.connection.run(text).map_err(|e| Failed::from(&e))?;
        Ok(replies.into_iter().next_back().map(|r| r.rows).unwrap_or_default())
    }

    /// Something that ends what it is waiting for.
    pub fn canceller(&self) -> Arc<dyn Cancel> {
        self.connection.canceller()
    }

    /// Whether a transaction has begun and not been finished.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether further statements make sense.
    pub fn is_going(&self) -> bool {
        self.open.as_ref().is_some_and(|open| !open.doomed && open.ended.is_none())
    }

    /// Runs a statement of the open transaction and returns its record.
    pub fn statement(&mut self, text: &str) -> Option<&Step> {
        let dialect = self.flavour.dialect();
        let sent = self.now();
        let open = self.open.as_mut()?;
        let number = open.executed.steps.len() + 1;
        let mut step = Step::new(number, text, Effect::None);
        let result = match control(dialect, text) {
            Some(known) => {
                let result = self.connection.run(text).map(|_| ());
                if result.is_ok() {
                    open.savepoint(&known, self.flavour);
                }
                result
            }
            None => match &mut self.instrumenter {
                None => self.connection.run(text).map(|mut replies| {
                    step.answered(replies.pop().unwrap_or_default(), &Capture::default());
                }),
                Some(instrumenter) => {
                    let mark = Mark::statement(open.executed.id, number);
                    instrumented(instrumenter, dialect, text, &mark).and_then(|made| {
                        // A statement that needs another one before it is no longer one statement.
                        if open.autocommit && made.before.is_some() {
                            self.connection.begin(&self.isolation)?;
                            open.autocommit = false;
                        }
                        run(self.connection.as_mut(), &made, &mut step)
                    })
                }
            },
        };
        if let Err(error) = &result {
            step.failed = Some(Failed::from(error));
            step.deleted.clear();
            step.undo();
            open.ended = match error.fate() {
                Fate::Aborted => Some(Outcome::Aborted),
                Fate::Unknown => Some(Outcome::Unknown),
                Fate::Open if self.connection.is_lost() => Some(Outcome::Aborted),
                Fate::Open if open.autocommit => Some(Outcome::Aborted),
                Fate::Open => None,
            };
            // PostgreSQL refuses everything after a failure. Elsewhere only the statement is gone; but a
            // session that waited too long should let the others go on.
            let waited =
                matches!(error.kind(), Kind::Timeout | Kind::Conflict | Kind::Deadlock | Kind::Cancelled);
            open.doomed = waited || self.flavour == Flavour::PostgreSql;
        }
        if self.flavour == Flavour::MySql
            && matches!(step.effect, Effect::Insert { upsert: true })
            && step.affected != 1
        {
            step.inserted.clear();
        }
        step.interval = (sent, self.start.elapsed().as_nanos() as u64);
        open.executed.steps.push(step);
        open.executed.steps.last()
    }

    /// Ends the transaction: commits it if that is wanted and still possible.
    pub fn finish(&mut self, commit: bool) -> Option<Executed> {
        let mut open = self.open.take()?;
        let outcome = match open.ended {
            Some(outcome) => {
                // The connection may still believe in the transaction.
                if self.connection.in_transaction() {
                    _ = self.connection.rollback();
                }
                outcome
            }
            None if open.autocommit => Outcome::Committed,
            None if commit && !open.doomed => match self.connection.commit() {
                Ok(()) => Outcome::Committed,
                Err(error) => {
                    open.executed.failed = Some(Failed::from(&error));
                    match error.fate() {
                        Fate::Unknown => Outcome::Unknown,
                        Fate::Aborted | Fate::Open => Outcome::Aborted,
                    }
                }
            },
            None => {
                _ = self.connection.rollback();
                Outcome::Aborted
            }
        };
        open.executed.outcome = outcome;
        open.executed.interval.1 = self.now();
        Some(open.executed)
    }
}

impl Open {
    fn savepoint(&mut self, control: &Control, flavour: Flavour) {
        let place = |name: &str, points: &[(String, usize)]| points.iter().rposition(|p| p.0 == name);
        match control {
            Control::Savepoint(name) => self.savepoints.push((name.clone(), self.executed.steps.len())),
            Control::RollbackTo(name) => {
                if let Some(at) = place(name, &self.savepoints) {
                    self.savepoints.truncate(at + 1);
                    let (before, after) = self.executed.steps.split_at_mut(self.savepoints[at].1);
                    let anew = flavour.is_mysql() && before.iter().all(|s| s.effect == Effect::None);
                    for step in after {
                        step.undo();
                        step.forgotten |= anew;
                    }
                }
            }
            Control::Release(name) => {
                if let Some(at) = place(name, &self.savepoints) {
                    self.savepoints.truncate(at);
                }
            }
            _ => {}
        }
    }
}

fn instrumented(
    instrumenter: &mut Instrumenter,
    dialect: Dialect,
    text: &str,
    mark: &Mark,
) -> Result<Instrumented, Error> {
    let unsupported = |why: String| Error::new(Kind::Unsupported, why);
    let tree = parse(dialect, text).map_err(|e| unsupported(e.to_string()))?;
    instrumenter.instrument(&tree, mark).map_err(|e| unsupported(e.to_string()))
}

fn run(connection: &mut dyn Connection, made: &Instrumented, step: &mut Step) -> Result<(), Error> {
    step.effect = made.effect;
    if let Some(before) = &made.before
        && let Some(reply) = connection.run(before)?.pop()
    {
        step.about_to_delete(reply);
    }
    if let Some(reply) = connection.run(&made.statement)?.pop() {
        step.inserted.clone_from(&made.inserted);
        step.answered(reply, &made.capture);
    }
    Ok(())
}

/// What a session needs before it begins: waits that end, lists that are not cut off, the level as the
/// default.
fn prepare(flavour: Flavour, isolation: &Isolation, wait: u32) -> Vec<String> {
    match flavour {
        Flavour::PostgreSql => {
            let level = isolation.name().to_ascii_lowercase();
            vec![
                format!("SET lock_timeout = '{wait}s'"),
                format!("SET default_transaction_isolation = '{level}'"),
            ]
        }
        Flavour::MariaDb | Flavour::MySql => vec![
            format!("SET SESSION innodb_lock_wait_timeout = {wait}"),
            "SET SESSION group_concat_max_len = 16777216".to_owned(),
        ],
        Flavour::Sqlite => vec!["PRAGMA foreign_keys = ON".to_owned()],
    }
}
