//! Rounds: a fresh schema, concurrent sessions with generated transactions, everything recorded.

use crate::Flavour;
use crate::cascade;
use crate::generate::{End, Generator, Transaction};
use crate::instrument::{Instrumenter, Mark};
use crate::namespace::Namespace;
use crate::record::{Executed, Run, Step};
use crate::schema::Schema;
use crate::script::Line;
use crate::session::{Patience, Session};
use anomalist_databases::{Connection, Database, Error, Isolation, Kind};
use anomalist_sqltext::ast::Statement;
use anomalist_sqltext::parse;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

/// Connections that outlive a round: a new one costs a server more than several transactions.
pub struct Pool<'a> {
    database: &'a dyn Database,
    idle: Mutex<Vec<Box<dyn Connection>>>,
}

impl<'a> Pool<'a> {
    /// A pool without connections.
    pub fn new(database: &'a dyn Database) -> Pool<'a> {
        Pool { database, idle: Mutex::new(Vec::new()) }
    }

    fn take(&self) -> Result<Box<dyn Connection>, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.database.connect(), Ok)
    }

    /// Forgets the idle ones: one of them turned out to be lost, and others may be.
    pub(crate) fn clear(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn give(&self, connection: Box<dyn Connection>) {
        if !connection.is_lost() && !connection.in_transaction() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

/// What to run.
pub struct Plan<'a> {
    /// Connections to the database.
    pub pool: &'a Pool<'a>,
    /// Whose SQL it speaks.
    pub flavour: Flavour,
    /// At which level.
    pub isolation: Isolation,
    /// Concurrent sessions.
    pub sessions: usize,
    /// Transactions of a round, of all sessions together.
    pub transactions: u64,
    /// After how many transactions a session reads every table.
    pub read_all: u64,
    /// Where statements come from.
    pub generator: &'a Generator,
    /// Where tables go.
    pub namespace: &'a Namespace,
}

/// What a round was and what it observed.
pub struct Round {
    /// Its number.
    pub number: u64,
    /// Its tables.
    pub schema: Schema,
    /// What was observed.
    pub run: Run,
}

/// Creates tables; with an instrumenter, with their auxiliary columns, and it learns them. If that fails,
/// what was created so far goes. `later`: statements that will be run, and may create more.
pub(crate) fn create(
    control: &mut dyn Connection,
    namespace: &Namespace,
    statements: &[String],
    later: &[Line],
    mut instrumenter: Option<&mut Instrumenter>,
) -> Result<(), Error> {
    for statement in [namespace.clear(), namespace.enter()].concat() {
        control.run(&statement)?;
    }
    namespace.claim(control, &all(statements, later))?;
    let mut rows = 1;
    for statement in statements {
        let created = match &mut instrumenter {
            Some(instrumenter) => {
                create_one(control, namespace.flavour(), instrumenter, &mut rows, statement)
            }
            None => control.run(statement).map(|_| ()),
        };
        if let Err(error) = created {
            undo(control, namespace, statements, &[])?;
            return Err(error);
        }
    }
    Ok(())
}

fn create_one(
    control: &mut dyn Connection,
    flavour: Flavour,
    instrumenter: &mut Instrumenter,
    rows: &mut u64,
    statement: &str,
) -> Result<(), Error> {
    let unsupported = |why: String| Error::new(Kind::Unsupported, format!("{statement}: {why}"));
    if anomalist_sqltext::control(flavour.dialect(), statement).is_some() {
        return control.run(statement).map(|_| ());
    }
    let tree = parse(flavour.dialect(), statement).map_err(|e| unsupported(e.to_string()))?;
    let made =
        instrumenter.instrument(&tree, &Mark::initial(*rows)).map_err(|e| unsupported(e.to_string()))?;
    *rows += made.inserted.len() as u64;
    control.run(&made.statement).map(|_| ())
}

/// The rows of every table as they are before the first transaction, as far as they can be read: most of
/// them are overwritten before a statement returns them with all their columns.
pub(crate) fn start(
    control: &mut dyn Connection,
    flavour: Flavour,
    instrumenter: &Instrumenter,
    statements: &[String],
) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut instrumenter = instrumenter.clone();
    for statement in statements {
        let Ok(Statement::CreateTable(table)) = parse(flavour.dialect(), statement) else { continue };
        let text = format!("SELECT * FROM {}", table.name);
        let Ok(tree) = parse(flavour.dialect(), &text) else { continue };
        let Ok(made) = instrumenter.instrument(&tree, &Mark::initial(1)) else { continue };
        if let Ok(Some(reply)) = control.run(&made.statement).map(|mut replies| replies.pop()) {
            let mut step = Step::new(1, &text, made.effect);
            step.answered(reply, &made.capture);
            steps.push(step);
        }
    }
    steps
}

/// Takes back what was created, where it has no place of its own.
pub(crate) fn undo(
    control: &mut dyn Connection,
    namespace: &Namespace,
    statements: &[String],
    later: &[Line],
) -> Result<(), Error> {
    let undo = namespace.undo(&all(statements, later));
    undo.iter().try_for_each(|statement| control.run(statement).map(|_| ()))
}

fn all<'s>(statements: &'s [String], later: &'s [Line]) -> Vec<&'s str> {
    statements.iter().map(String::as_str).chain(later.iter().map(|l| l.text.as_str())).collect()
}

impl Plan<'_> {
    /// Runs one round. `stop` is asked between transactions.
    pub fn round(&self, number: u64, stop: &(dyn Fn() -> bool + Sync)) -> Result<Round, Error> {
        let schema = self.generator.schema(number);
        let mut control = self.pool.take()?;
        let statements = schema.create(self.flavour);
        let mut instrumenter = Instrumenter::new(self.flavour).with_whole_rows();
        create(control.as_mut(), self.namespace, &statements, &[], Some(&mut instrumenter))?;
        let start = start(control.as_mut(), self.flavour, &instrumenter, &statements);
        let run = self.sessions(number, &schema, &instrumenter, stop).map(|run| {
            let mut run = Run { start, ..run };
            cascade::complete(self.flavour, &mut run, statements.iter().map(String::as_str));
            run
        });
        match undo(control.as_mut(), self.namespace, &statements, &[]) {
            Ok(()) => self.pool.give(control),
            // This session is lost, and not yet the database.
            Err(error) if error.kind() == Kind::Lost => self.undo_anew(&statements),
            Err(error) => return Err(error),
        }
        Ok(Round { number, run: run?, schema })
    }

    /// Takes back what was created, by a new session. Without one, the database is gone; what was seen
    /// stays.
    fn undo_anew(&self, statements: &[String]) {
        if let Ok(mut control) = self.pool.database.connect() {
            _ = undo(control.as_mut(), self.namespace, statements, &[]);
        }
    }

    fn sessions(
        &self,
        number: u64,
        schema: &Schema,
        instrumenter: &Instrumenter,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Run, Error> {
        let (start, ids) = (Instant::now(), AtomicU64::new(0));
        let opened = AtomicUsize::new(0);
        let open = || -> Result<Session, Error> {
            let number = opened.fetch_add(1, Ordering::Relaxed);
            let mut connection = self.pool.take()?;
            for statement in self.namespace.enter() {
                connection.run(&statement)?;
            }
            let isolation = self.isolation.clone();
            let level = (self.flavour, isolation);
            Session::new(connection, Some(instrumenter.clone()), level, number, start, Patience::ROUND)
        };
        let sessions = (0..self.sessions).map(|_| open()).collect::<Result<Vec<Session>, Error>>()?;
        let work = &Work { schema, round: number, ids: &ids, open: &open, stop };
        let mut transactions: Vec<Executed> = std::thread::scope(|scope| {
            let threads: Vec<_> = sessions
                .into_iter()
                .enumerate()
                .map(|(s, session)| scope.spawn(move || self.drive(session, s, work)))
                .collect();
            // Without what a session saw before it panicked, what the others saw would look wrong.
            let done = |t: ScopedJoinHandle<'_, _>| t.join().unwrap_or_else(|panic| resume_unwind(panic));
            threads.into_iter().flat_map(done).collect()
        });
        // The database may be gone by now; what was seen stays.
        if let Ok(mut last) = open() {
            let id = ids.fetch_add(1, Ordering::Relaxed) + 1;
            transactions.extend(execute(&mut last, id, &read_all(schema)));
            self.pool.give(last.into_connection());
        }
        Ok(Run::of(transactions))
    }

    /// One session of a round. If its connection is lost, another one goes on, under another name.
    fn drive(&self, mut session: Session, s: usize, work: &Work<'_>) -> Vec<Executed> {
        let mut done = Vec::new();
        for index in 0.. {
            if session.is_lost() {
                self.pool.clear();
                match (work.open)() {
                    Ok(another) => session = another,
                    Err(_) => break,
                }
            }
            let id = work.ids.fetch_add(1, Ordering::Relaxed) + 1;
            if id > self.transactions || (work.stop)() {
                break;
            }
            let transaction = match index % self.read_all.max(1) == self.read_all.max(1) - 1 {
                true => read_all(work.schema),
                false => self.generator.transaction(work.schema, work.round, s as u64, index),
            };
            done.extend(execute(&mut session, id, &transaction));
        }
        self.pool.give(session.into_connection());
        done
    }
}

/// What the sessions of a round have in common.
struct Work<'a> {
    schema: &'a Schema,
    round: u64,
    ids: &'a AtomicU64,
    open: &'a (dyn Fn() -> Result<Session, Error> + Sync),
    stop: &'a (dyn Fn() -> bool + Sync),
}

/// A transaction that reads every table: so that the order of versions is seen before rows are gone.
fn read_all(schema: &Schema) -> Transaction {
    let statements = schema.tables.iter().map(|t| format!("SELECT * FROM {}", t.name)).collect();
    Transaction { statements, end: End::Commit }
}

fn execute(session: &mut Session, id: u64, transaction: &Transaction) -> Option<Executed> {
    // A transaction that could not begin is one that did nothing.
    _ = session.begin(id, transaction.end == End::Autocommit);
    for statement in &transaction.statements {
        if !session.is_going() {
            break;
        }
        session.statement(statement);
    }
    session.finish(transaction.end != End::Rollback)
}
