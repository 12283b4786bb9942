//! Forced interleaving: the statements of a script, sent in its order to sessions of the database.
//!
//! A session is a thread. After a statement was sent, either it answers, or the server says that it waits
//! for a lock; then the script goes on with the other sessions, and what follows in the waiting one is sent
//! when it has its answer. The server is asked, not the clock (`pg_blocking_pids`,
//! `information_schema.innodb_trx`); SQLite does not wait at all, because its time limit is set to nothing,
//! but fails as busy.
//!
//! Afterwards a session of its own reads every table that the script makes, as at the end of a round: an
//! order of versions has to be seen, and which rows a condition left out is only known when all of them
//! are.

mod conductor;
mod monitor;

use crate::Flavour;
use crate::cascade;
use crate::instrument::{Instrumenter, Mark};
use crate::namespace::Namespace;
use crate::record::{Executed, Failed, Run};
use crate::run::{create, start, undo};
use crate::script::Script;
use crate::script_plan::{Action, PlannedLine, ScriptPlan};
use crate::session::{Patience, Session};
use anomalist_databases::{Cancel, Connection, Database, Error, Isolation, Kind, Value};
use anomalist_sqltext::ast::Statement;
use anomalist_sqltext::{control, parse};
use conductor::Conductor;
use monitor::Monitor;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

/// What a line of the script did.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Its place in the script.
    pub line: usize,
    /// The number of its transaction; 0 outside of any.
    pub transaction: u64,
    /// It had to wait for a lock, and the script went on.
    pub waited: bool,
    /// How many answers there had been when it was sent.
    pub sent: usize,
    /// The place of its answer among all answers.
    pub answer: usize,
    /// The rows it returned.
    pub rows: Vec<Vec<Value>>,
    /// Why it failed.
    pub failed: Option<Failed>,
    /// It was not sent, because its transaction had ended.
    pub skipped: bool,
}

/// What came of a script.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// Line by line, in the order of the script.
    pub events: Vec<Event>,
    /// The transactions.
    pub run: Run,
    /// The levels that they ran at, weakest first. There is at least one.
    pub levels: Vec<Isolation>,
    /// The transaction that read every table afterwards.
    pub last: Option<u64>,
}

impl Replayed {
    /// The level that all of it can be judged by: the weakest at which any of it ran.
    pub fn level(&self) -> &Isolation {
        &self.levels[0]
    }
}

/// A command to a session.
struct Order {
    line: usize,
    step: PlannedLine,
    text: String,
}

/// What it answers.
struct Answer {
    session: usize,
    event: Event,
    executed: Option<Executed>,
}

/// Runs a script with its statements instrumented, at the levels that it says, else at this one. `stop` is
/// asked all the time.
pub fn replay(
    database: &dyn Database,
    isolation: &Isolation,
    namespace: &Namespace,
    script: &Script,
    stop: &dyn Fn() -> bool,
) -> Result<Replayed, Error> {
    let instrumenter = Instrumenter::new(namespace.flavour()).with_whole_rows();
    replay_with(Some(instrumenter), database, isolation, namespace, script, stop)
}

/// The same with this instrumenter; without one, events tell what the statements return by themselves, and
/// no dependencies are seen.
pub fn replay_with(
    mut instrumenter: Option<Instrumenter>,
    database: &dyn Database,
    isolation: &Isolation,
    namespace: &Namespace,
    script: &Script,
    stop: &dyn Fn() -> bool,
) -> Result<Replayed, Error> {
    let mut control = database.connect()?;
    let plan = ScriptPlan::of(script, namespace.flavour(), control.product(), isolation)?;
    create(control.as_mut(), namespace, &script.setup, &script.steps, instrumenter.as_mut())?;
    let replayed = match &mut instrumenter {
        Some(instrumenter) => rehearse(instrumenter, namespace.flavour(), script, &plan),
        None => Ok(()),
    };
    let start = match &instrumenter {
        Some(instrumenter) => start(control.as_mut(), namespace.flavour(), instrumenter, &script.setup),
        None => Vec::new(),
    };
    let replayed = replayed.and_then(|()| {
        let instrumenter = instrumenter.as_ref();
        let stage = Stage { database, namespace, script, plan: &plan, instrumenter, stop };
        let mut replayed = stage.perform(control.as_mut())?;
        replayed.run.start = start;
        cascade::complete(namespace.flavour(), &mut replayed.run, script.statements());
        Ok(replayed)
    });
    let undone = undo(control.as_mut(), namespace, &script.setup, &script.steps);
    replayed.and_then(|replayed| undone.map(|()| replayed))
}

/// Refuses a script with a statement whose rows would not be seen, and learns the tables that its sessions
/// make.
fn rehearse(
    instrumenter: &mut Instrumenter,
    flavour: Flavour,
    script: &Script,
    plan: &ScriptPlan,
) -> Result<(), Error> {
    for (line, step) in script.steps.iter().zip(&plan.lines) {
        if step.action != Action::Statement || control(flavour.dialect(), &line.text).is_some() {
            continue;
        }
        let refused = |why: String| Error::new(Kind::Unsupported, format!("{}: {why}", line.text));
        let tree = parse(flavour.dialect(), &line.text).map_err(|e| refused(e.to_string()))?;
        instrumenter.instrument(&tree, &Mark::initial(1)).map_err(|e| refused(e.to_string()))?;
    }
    Ok(())
}

/// Everything a replay needs, once the tables are there.
struct Stage<'a> {
    database: &'a dyn Database,
    namespace: &'a Namespace,
    script: &'a Script,
    plan: &'a ScriptPlan,
    instrumenter: Option<&'a Instrumenter>,
    stop: &'a dyn Fn() -> bool,
}

impl Stage<'_> {
    fn session(&self, number: usize, start: Instant) -> Result<Session, Error> {
        let mut connection = self.database.connect()?;
        for statement in self.namespace.enter() {
            connection.run(&statement)?;
        }
        let level = (self.namespace.flavour(), self.plan.start.clone());
        let instrumenter = self.instrumenter.cloned();
        let mut session = Session::new(connection, instrumenter, level, number, start, Patience::REPLAY)?;
        for statement in &self.script.prelude {
            let said = |failed: Failed| Error::new(failed.kind, format!("{statement}: {}", failed.message));
            session.outside(statement).map_err(said)?;
        }
        Ok(session)
    }

    fn perform(&self, control: &mut dyn Connection) -> Result<Replayed, Error> {
        let start = Instant::now();
        let count = self.script.sessions();
        let sessions = (0..count).map(|number| self.session(number, start)).collect::<Result<Vec<_>, _>>()?;
        let mut replayed = self.conduct(sessions, control)?;
        if self.instrumenter.is_some() {
            // The database may be gone by now; what was seen stays.
            if let Ok(mut session) = self.session(count, start) {
                let id = self.plan.lines.iter().map(|m| m.transaction).max().unwrap_or(0) + 1;
                replayed.run.transactions.extend(self.read_all(&mut session, id));
                replayed.last = Some(id);
            }
        }
        Ok(replayed)
    }

    fn read_all(&self, session: &mut Session, id: u64) -> Option<Executed> {
        let dialect = self.namespace.flavour().dialect();
        let steps = self.script.steps.iter().map(|l| &l.text);
        let created = |text: &String| match parse(dialect, text) {
            Ok(Statement::CreateTable(table)) if !table.temporary => Some(table.name.to_string()),
            _ => None,
        };
        let mut tables: Vec<String> = self.script.setup.iter().chain(steps).filter_map(created).collect();
        // One that was dropped, or never came to be, would be the end of the transaction in PostgreSQL.
        tables.retain(|name| session.outside(&format!("SELECT 1 FROM {name} WHERE 1 = 0")).is_ok());
        _ = session.begin(id, false);
        for name in tables {
            if session.is_going() {
                session.statement(&format!("SELECT * FROM {name}"));
            }
        }
        session.finish(true)
    }

    fn conduct(&self, sessions: Vec<Session>, control: &mut dyn Connection) -> Result<Replayed, Error> {
        let flavour = self.namespace.flavour();
        let backends = sessions.iter().map(Session::backend).collect();
        let cancellers: Vec<Arc<dyn Cancel>> = sessions.iter().map(Session::canceller).collect();
        let (answers, inbox) = channel();
        std::thread::scope(|scope| {
            let (mut orders, mut threads) = (Vec::new(), Vec::new());
            for (number, session) in sessions.into_iter().enumerate() {
                let (sender, receiver) = channel();
                let answers = answers.clone();
                threads.push(scope.spawn(move || serve(session, number, &receiver, &answers)));
                orders.push(sender);
            }
            drop(answers);
            let monitor = Monitor { connection: control, flavour, backends, asked: None };
            let replayed = Conductor::new(self, monitor, orders, inbox).conduct();
            if replayed.is_err() {
                // A session that waits would be waited for.
                cancellers.iter().for_each(|canceller| _ = canceller.cancel());
            }
            let done = |t: ScopedJoinHandle<'_, _>| t.join().unwrap_or_else(|panic| resume_unwind(panic));
            let open: Vec<Executed> = threads.into_iter().filter_map(done).collect();
            replayed.map(|mut replayed| {
                replayed.run.transactions.extend(open);
                replayed
            })
        })
    }
}

/// The thread of a session. Returns the transaction that the script leaves open, which is rolled back.
fn serve(
    mut session: Session,
    number: usize,
    orders: &Receiver<Order>,
    answers: &Sender<Answer>,
) -> Option<Executed> {
    while let Ok(Order { line, step, text }) = orders.recv() {
        let mut event = Event {
            line,
            transaction: step.transaction,
            waited: false,
            sent: 0,
            answer: 0,
            rows: Vec::new(),
            failed: None,
            skipped: false,
        };
        let mut executed = None;
        session.at(step.level);
        match step.action {
            Action::Begin => event.failed = session.begin(step.transaction, false).err(),
            Action::Commit | Action::Rollback => {
                executed = session.finish(step.action == Action::Commit);
                event.failed = executed.as_ref().and_then(|e: &Executed| e.failed.clone());
            }
            Action::Setting => match session.outside(&text) {
                Ok(rows) => event.rows = rows,
                Err(failed) => event.failed = Some(failed),
            },
            Action::Statement => {
                let alone = !session.is_open();
                if alone {
                    event.failed = session.begin(step.transaction, true).err();
                }
                match session.is_going().then(|| session.statement(&text)).flatten() {
                    Some(step) => {
                        event.rows.clone_from(&step.visible);
                        event.failed.clone_from(&step.failed);
                    }
                    None => event.skipped = true,
                }
                if alone {
                    executed = session.finish(true);
                }
            }
        }
        if answers.send(Answer { session: number, event, executed }).is_err() {
            break;
        }
    }
    session.finish(false)
}
