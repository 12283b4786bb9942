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

use crate::Flavour;
use crate::instrument::{Instrumenter, Mark};
use crate::namespace::Namespace;
use crate::record::{Executed, Failed, Run};
use crate::run::{create, undo};
use crate::script::Script;
use crate::script_plan::{Action, PlannedLine, ScriptPlan};
use crate::session::{Patience, Session};
use anomalist_databases::{Cancel, Connection, Database, Error, Isolation, Kind, Value};
use anomalist_sqltext::ast::Statement;
use anomalist_sqltext::{control, parse};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// How long a statement may neither answer nor wait for a lock, and how long all sessions may wait for each
/// other: longer than any lock is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a waiting session asks whether to stop.
const ASK: Duration = Duration::from_millis(50);

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
    let replayed = replayed.and_then(|()| {
        let instrumenter = instrumenter.as_ref();
        let stage = Stage { database, namespace, script, plan: &plan, instrumenter, stop };
        stage.perform(control.as_mut())
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
            let mut monitor = Monitor { connection: control, flavour, backends, asked: None };
            let conductor = Conductor { stage: self, orders, inbox, answered: 0 };
            let replayed = conductor.conduct(&mut monitor);
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

struct Conductor<'a> {
    stage: &'a Stage<'a>,
    orders: Vec<Sender<Order>>,
    inbox: Receiver<Answer>,
    answered: usize,
}

impl Conductor<'_> {
    fn conduct(mut self, monitor: &mut Monitor<'_>) -> Result<Replayed, Error> {
        let Stage { script, plan: ScriptPlan { lines, levels, start, .. }, stop, .. } = *self.stage;
        let mut busy: Vec<Option<usize>> = vec![None; self.orders.len()];
        let mut events: Vec<Option<Event>> = vec![None; script.steps.len()];
        // Per line, whether it waited and when it was sent.
        let mut progress = vec![(false, 0); script.steps.len()];
        let mut transactions = Vec::new();
        let mut left: Vec<usize> = (0..script.steps.len()).collect();
        let mut take = |answer: Answer,
                        busy: &mut Vec<Option<usize>>,
                        progress: &[(bool, usize)],
                        answered: &mut usize| {
            busy[answer.session] = None;
            let (waited, sent) = progress[answer.event.line];
            let line = answer.event.line;
            events[line] = Some(Event { answer: *answered, waited, sent, ..answer.event });
            *answered += 1;
            transactions.extend(answer.executed);
        };
        // A line that released locks: the sessions that waited for them go on before the next line is sent.
        let mut released = false;
        // Since when no session has answered.
        let mut idle = None;
        while !left.is_empty() || busy.iter().any(Option::is_some) {
            while let Ok(answer) = self.inbox.try_recv() {
                take(answer, &mut busy, &progress, &mut self.answered);
            }
            if stop() {
                return Err(interrupted());
            }
            while std::mem::take(&mut released) {
                for session in 0..busy.len() {
                    while busy[session].is_some() {
                        match self.inbox.recv_timeout(monitor.settles()) {
                            Ok(answer) => {
                                released = true;
                                take(answer, &mut busy, &progress, &mut self.answered);
                            }
                            Err(_) if monitor.is_waiting(session)? => break,
                            Err(_) => {}
                        }
                    }
                }
            }
            let free = |line: &usize| busy[script.steps[*line].session - 1].is_none();
            let Some(at) = left.iter().position(free) else {
                // The last answers may have come just now.
                if busy.iter().all(Option::is_none) {
                    continue;
                }
                match self.inbox.recv_timeout(ASK) {
                    Ok(answer) => {
                        idle = None;
                        take(answer, &mut busy, &progress, &mut self.answered);
                    }
                    Err(_) if idle.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {}
                    Err(_) => return Err(Error::new(Kind::Timeout, "all sessions wait for each other")),
                }
                continue;
            };
            let line = left.remove(at);
            let step = &script.steps[line];
            let session = step.session - 1;
            busy[session] = Some(line);
            progress[line].1 = self.answered;
            let order = Order { line, step: lines[line].clone(), text: step.text.clone() };
            if self.orders[session].send(order).is_err() {
                return Err(Error::new(Kind::Lost, "a session ended"));
            }
            released = matches!(lines[line].action, Action::Commit | Action::Rollback);
            let sent = Instant::now();
            let mut pause = Duration::from_millis(2);
            while busy[session] == Some(line) {
                match self.inbox.recv_timeout(pause) {
                    Ok(answer) => take(answer, &mut busy, &progress, &mut self.answered),
                    Err(RecvTimeoutError::Timeout) if monitor.is_waiting(session)? => {
                        progress[line].0 = true;
                        break;
                    }
                    Err(RecvTimeoutError::Timeout) if stop() => return Err(interrupted()),
                    Err(RecvTimeoutError::Timeout) if sent.elapsed() < PATIENCE => {
                        pause = monitor.settles();
                    }
                    Err(_) => return Err(Error::new(Kind::Timeout, format!("no answer to: {}", step.text))),
                }
            }
        }
        let levels = if levels.is_empty() { vec![start.clone()] } else { levels.clone() };
        let events = events.into_iter().flatten().collect();
        Ok(Replayed { events, run: Run { transactions }, levels, last: None })
    }
}

fn interrupted() -> Error {
    Error::new(Kind::Cancelled, "interrupted")
}

/// Asks the server who waits.
struct Monitor<'a> {
    connection: &'a mut dyn Connection,
    flavour: Flavour,
    backends: Vec<Option<u64>>,
    /// When the server was asked last.
    asked: Option<Instant>,
}

impl Monitor<'_> {
    /// How long it takes until an answer about waiting is not an old one: InnoDB's table is made anew only
    /// when it was not read for a tenth of a second.
    fn settles(&self) -> Duration {
        Duration::from_millis(if self.flavour.is_mysql() { 150 } else { 10 })
    }

    /// Whether a session waits for a lock; no if the answer would be an old one, and then it has to be
    /// asked again.
    fn is_waiting(&mut self, session: usize) -> Result<bool, Error> {
        let Some(backend) = self.backends[session] else { return Ok(false) };
        if self.flavour.is_mysql() && self.asked.is_some_and(|at| at.elapsed() < self.settles()) {
            return Ok(false);
        }
        let query = match self.flavour {
            // Waiting for autovacuum is not waiting for a session of the script.
            Flavour::PostgreSql => {
                let ours: Vec<String> = self.backends.iter().flatten().map(u64::to_string).collect();
                format!(
                    "SELECT COUNT(*) FROM unnest(pg_blocking_pids({backend})) AS pid WHERE pid IN ({})",
                    ours.join(", ")
                )
            }
            Flavour::MariaDb | Flavour::MySql => format!(
                "SELECT COUNT(*) FROM information_schema.innodb_trx \
                 WHERE trx_mysql_thread_id = {backend} AND trx_state = 'LOCK WAIT'"
            ),
            Flavour::Sqlite => return Ok(false),
        };
        let reply = self.connection.query(&query, &[])?;
        self.asked = Some(Instant::now());
        Ok(reply.int().unwrap_or(0) > 0)
    }
}
