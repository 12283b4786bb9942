//! Forced interleaving: the statements of a script, sent in its order to sessions of the database.
//!
//! A session is a thread. After a statement was sent, either it answers, or the server says that it waits for a lock; then
//! the script goes on with the other sessions, and what follows in the waiting one is sent when it has its answer. The
//! server is asked, not the clock (`pg_blocking_pids`, `information_schema.innodb_trx`); SQLite does not wait at all,
//! because its time limit is set to nothing, but fails as busy.

use crate::Flavour;
use crate::instrument::Instrumenter;
use crate::namespace::Namespace;
use crate::record::{Executed, Failed, Run};
use crate::run::{create, undo};
use crate::script::Script;
use crate::session::{Patience, Session};
use isolde_driver::{Connection, Database, Error, Isolation, Kind, Value};
use isolde_sqltext::{Control, control};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long a statement may neither answer nor wait for a lock, and how long all sessions may wait for each other: longer than
/// any lock is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a line of the script did.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Its place in the script.
    pub line: usize,
    /// The number of its transaction.
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
}

/// What a session is told to do.
struct Order {
    line: usize,
    transaction: u64,
    text: String,
}

/// What it answers.
struct Answer {
    session: usize,
    event: Event,
    executed: Option<Executed>,
}

/// Runs a script at a level, with its statements instrumented.
pub fn replay(
    database: &dyn Database,
    isolation: &Isolation,
    namespace: &Namespace,
    script: &Script,
) -> Result<Replayed, Error> {
    let instrumenter = Instrumenter::new(namespace.flavour()).with_whole_rows();
    replay_with(Some(instrumenter), database, isolation, namespace, script)
}

/// The same with this instrumenter; without one, events tell what the statements return by themselves, and no dependencies are
/// seen.
pub fn replay_with(
    mut instrumenter: Option<Instrumenter>,
    database: &dyn Database,
    isolation: &Isolation,
    namespace: &Namespace,
    script: &Script,
) -> Result<Replayed, Error> {
    let mut control = database.connect()?;
    create(control.as_mut(), namespace, &script.setup, &script.steps, instrumenter.as_mut())?;
    let replayed = perform(database, isolation, namespace, script, instrumenter.as_ref(), control.as_mut());
    let undone = undo(control.as_mut(), namespace, &script.setup, &script.steps);
    replayed.and_then(|replayed| undone.map(|()| replayed))
}

fn perform(
    database: &dyn Database,
    isolation: &Isolation,
    namespace: &Namespace,
    script: &Script,
    instrumenter: Option<&Instrumenter>,
    control: &mut dyn Connection,
) -> Result<Replayed, Error> {
    let flavour = namespace.flavour();
    let start = Instant::now();
    let mut sessions = Vec::new();
    for number in 0..script.sessions() {
        let mut connection = database.connect()?;
        for statement in namespace.enter() {
            connection.run(&statement)?;
        }
        let level = (flavour, isolation.clone());
        sessions.push(Session::new(
            connection,
            instrumenter.cloned(),
            level,
            number,
            start,
            Patience::REPLAY,
        )?);
    }
    let backends: Vec<Option<u64>> = sessions.iter().map(Session::backend).collect();
    let (answers, inbox) = channel();
    std::thread::scope(|scope| {
        let mut orders = Vec::new();
        for (number, session) in sessions.into_iter().enumerate() {
            let (sender, receiver) = channel();
            let answers = answers.clone();
            scope.spawn(move || serve(session, number, &receiver, &answers, flavour));
            orders.push(sender);
        }
        drop(answers);
        let mut monitor = Monitor { connection: control, flavour, backends, asked: None };
        Conductor { script, flavour, orders, inbox, answered: 0 }.conduct(&mut monitor)
    })
}

/// The thread of a session.
fn serve(
    mut session: Session,
    number: usize,
    orders: &Receiver<Order>,
    answers: &Sender<Answer>,
    flavour: Flavour,
) {
    while let Ok(order) = orders.recv() {
        let mut event = Event {
            line: order.line,
            transaction: order.transaction,
            waited: false,
            sent: 0,
            answer: 0,
            rows: Vec::new(),
            failed: None,
            skipped: false,
        };
        let mut executed = None;
        match control(flavour.dialect(), &order.text) {
            Some(Control::Begin(_) | Control::BeginLocked(_)) => {
                event.failed = session.begin(order.transaction, false).err();
            }
            Some(Control::Commit(_)) => executed = session.finish(true),
            Some(Control::Rollback(_)) => executed = session.finish(false),
            _ => {
                let alone = !session.is_open();
                if alone {
                    event.failed = session.begin(order.transaction, true).err();
                }
                match session.is_going().then(|| session.statement(&order.text)).flatten() {
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
            return;
        }
    }
    // A script may leave a transaction open.
    session.finish(false);
}

struct Conductor<'a> {
    script: &'a Script,
    flavour: Flavour,
    orders: Vec<Sender<Order>>,
    inbox: Receiver<Answer>,
    answered: usize,
}

impl Conductor<'_> {
    fn conduct(mut self, monitor: &mut Monitor<'_>) -> Result<Replayed, Error> {
        let numbers = transaction_numbers(self.script, self.flavour);
        let mut busy: Vec<Option<usize>> = vec![None; self.orders.len()];
        let mut events: Vec<Option<Event>> = vec![None; self.script.steps.len()];
        // Per line, whether it waited and when it was sent.
        let mut course = vec![(false, 0); self.script.steps.len()];
        let mut transactions = Vec::new();
        let mut left: Vec<usize> = (0..self.script.steps.len()).collect();
        let mut take = |answer: Answer,
                        busy: &mut Vec<Option<usize>>,
                        course: &[(bool, usize)],
                        answered: &mut usize| {
            busy[answer.session] = None;
            let (waited, sent) = course[answer.event.line];
            let line = answer.event.line;
            events[line] = Some(Event { answer: *answered, waited, sent, ..answer.event });
            *answered += 1;
            transactions.extend(answer.executed);
        };
        // A line that released locks: whoever waited for them gets on before the next line is sent.
        let mut released = false;
        while !left.is_empty() || busy.iter().any(Option::is_some) {
            while let Ok(answer) = self.inbox.try_recv() {
                take(answer, &mut busy, &course, &mut self.answered);
            }
            while std::mem::take(&mut released) {
                for session in 0..busy.len() {
                    while busy[session].is_some() {
                        match self.inbox.recv_timeout(monitor.settles()) {
                            Ok(answer) => {
                                released = true;
                                take(answer, &mut busy, &course, &mut self.answered);
                            }
                            Err(_) if monitor.is_waiting(session)? => break,
                            Err(_) => {}
                        }
                    }
                }
            }
            let free = |line: &usize| busy[self.script.steps[*line].session - 1].is_none();
            let Some(at) = left.iter().position(free) else {
                // The last answers may have come just now.
                if busy.iter().all(Option::is_none) {
                    continue;
                }
                match self.inbox.recv_timeout(PATIENCE) {
                    Ok(answer) => take(answer, &mut busy, &course, &mut self.answered),
                    Err(_) => return Err(Error::new(Kind::Timeout, "all sessions wait for each other")),
                }
                continue;
            };
            let line = left.remove(at);
            let step = &self.script.steps[line];
            let session = step.session - 1;
            busy[session] = Some(line);
            course[line].1 = self.answered;
            let order = Order { line, transaction: numbers[line], text: step.text.clone() };
            if self.orders[session].send(order).is_err() {
                return Err(Error::new(Kind::Lost, "a session ended"));
            }
            let ends = control(self.flavour.dialect(), &step.text);
            released = matches!(ends, Some(Control::Commit(_) | Control::Rollback(_)));
            let sent = Instant::now();
            let mut pause = Duration::from_millis(2);
            while busy[session] == Some(line) {
                match self.inbox.recv_timeout(pause) {
                    Ok(answer) => take(answer, &mut busy, &course, &mut self.answered),
                    Err(RecvTimeoutError::Timeout) if monitor.is_waiting(session)? => {
                        course[line].0 = true;
                        break;
                    }
                    Err(RecvTimeoutError::Timeout) if sent.elapsed() < PATIENCE => {
                        pause = monitor.settles();
                    }
                    Err(_) => return Err(Error::new(Kind::Timeout, format!("no answer to: {}", step.text))),
                }
            }
        }
        Ok(Replayed { events: events.into_iter().flatten().collect(), run: Run { transactions } })
    }
}

/// Per line, the number of its transaction: in the order in which they begin in the script.
fn transaction_numbers(script: &Script, flavour: Flavour) -> Vec<u64> {
    let mut open: Vec<Option<u64>> = vec![None; script.sessions()];
    let mut next = 0;
    let mut numbers = Vec::new();
    for step in &script.steps {
        let known = control(flavour.dialect(), &step.text);
        let slot = &mut open[step.session - 1];
        let begins = matches!(known, Some(Control::Begin(_) | Control::BeginLocked(_)));
        let number = match *slot {
            Some(number) if !begins => number,
            _ => {
                next += 1;
                next
            }
        };
        let ends = matches!(known, Some(Control::Commit(_) | Control::Rollback(_)));
        *slot = (slot.is_some() || begins).then_some(number).filter(|_| !ends);
        numbers.push(number);
    }
    numbers
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
    /// How long it takes until an answer about waiting is not an old one: InnoDB's table is made anew only when nobody has read
    /// it for a tenth of a second.
    fn settles(&self) -> Duration {
        Duration::from_millis(if self.flavour.is_mysql() { 150 } else { 10 })
    }

    /// Whether a session waits for a lock; no if the answer would be an old one, and then it has to be asked again.
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
