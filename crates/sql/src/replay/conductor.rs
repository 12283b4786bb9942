//! Sends the lines of a script in its order, each to its session as soon as the session is free.

use super::monitor::Monitor;
use super::{Answer, Event, Order, Replayed, Stage};
use crate::record::{Executed, Run};
use crate::script_plan::Action;
use anomalist_databases::{Error, Kind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How long a statement may neither answer nor wait for a lock, and how long all sessions may wait for each
/// other: longer than any lock is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a waiting session asks whether to stop.
const ASK: Duration = Duration::from_millis(50);

pub(super) struct Conductor<'a, 'm> {
    stage: &'a Stage<'a>,
    monitor: Monitor<'m>,
    orders: Vec<Sender<Order>>,
    inbox: Receiver<Answer>,
    /// Per session, the line that it has not answered yet.
    busy: Vec<Option<usize>>,
    /// Per line, whether it waited and how many answers there had been when it was sent.
    progress: Vec<(bool, usize)>,
    /// Per line, its answer.
    events: Vec<Option<Event>>,
    /// The transactions that have ended.
    transactions: Vec<Executed>,
    answered: usize,
    /// The last line released locks: sessions that wait for them go on before the next line is sent.
    released: bool,
    /// Since when no session has answered while all of them were busy.
    idle: Option<Instant>,
}

impl<'a, 'm> Conductor<'a, 'm> {
    pub(super) fn new(
        stage: &'a Stage<'a>,
        monitor: Monitor<'m>,
        orders: Vec<Sender<Order>>,
        inbox: Receiver<Answer>,
    ) -> Self {
        let (sessions, lines) = (orders.len(), stage.script.steps.len());
        Conductor {
            stage,
            monitor,
            orders,
            inbox,
            busy: vec![None; sessions],
            progress: vec![(false, 0); lines],
            events: vec![None; lines],
            transactions: Vec::new(),
            answered: 0,
            released: false,
            idle: None,
        }
    }

    /// Runs the script to its end.
    pub(super) fn conduct(mut self) -> Result<Replayed, Error> {
        let (steps, plan) = (&self.stage.script.steps, self.stage.plan);
        let mut left: Vec<usize> = (0..steps.len()).collect();
        while !left.is_empty() || self.busy.iter().any(Option::is_some) {
            while let Ok(answer) = self.inbox.try_recv() {
                self.take(answer);
            }
            if (self.stage.stop)() {
                return Err(interrupted());
            }
            self.grant_released_locks()?;
            match left.iter().position(|&line| self.busy[steps[line].session - 1].is_none()) {
                Some(at) => self.run_line(left.remove(at))?,
                None => self.wait_for_any()?,
            }
        }
        let levels = if plan.levels.is_empty() { vec![plan.start.clone()] } else { plan.levels.clone() };
        let events = self.events.into_iter().flatten().collect();
        Ok(Replayed { events, run: Run::of(self.transactions), levels, last: None })
    }

    /// Notes an answer; its session is free.
    fn take(&mut self, answer: Answer) {
        self.busy[answer.session] = None;
        let line = answer.event.line;
        let (waited, sent) = self.progress[line];
        self.events[line] = Some(Event { answer: self.answered, waited, sent, ..answer.event });
        self.answered += 1;
        self.transactions.extend(answer.executed);
    }

    /// After locks were released: every busy session answers, or waits for another lock. An answer may have
    /// released further locks.
    fn grant_released_locks(&mut self) -> Result<(), Error> {
        while std::mem::take(&mut self.released) {
            for session in 0..self.busy.len() {
                while self.busy[session].is_some() {
                    match self.inbox.recv_timeout(self.monitor.settles()) {
                        Ok(answer) => {
                            self.released = true;
                            self.take(answer);
                        }
                        Err(_) if self.monitor.is_waiting(session)? => break,
                        Err(_) => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends a line to its session, which is free, and waits until the session answers or waits for a lock.
    fn run_line(&mut self, line: usize) -> Result<(), Error> {
        let (step, planned) = (&self.stage.script.steps[line], &self.stage.plan.lines[line]);
        let session = step.session - 1;
        self.busy[session] = Some(line);
        self.progress[line].1 = self.answered;
        let order = Order { line, step: planned.clone(), text: step.text.clone() };
        if self.orders[session].send(order).is_err() {
            return Err(Error::new(Kind::Lost, "a session ended"));
        }
        self.released = matches!(planned.action, Action::Commit | Action::Rollback);
        let sent = Instant::now();
        let mut pause = Duration::from_millis(2);
        while self.busy[session] == Some(line) {
            match self.inbox.recv_timeout(pause) {
                Ok(answer) => self.take(answer),
                Err(RecvTimeoutError::Timeout) if self.monitor.is_waiting(session)? => {
                    self.progress[line].0 = true;
                    break;
                }
                Err(RecvTimeoutError::Timeout) if (self.stage.stop)() => return Err(interrupted()),
                Err(RecvTimeoutError::Timeout) if sent.elapsed() < PATIENCE => {
                    pause = self.monitor.settles();
                }
                Err(_) => return Err(Error::new(Kind::Timeout, format!("no answer to: {}", step.text))),
            }
        }
        Ok(())
    }

    /// No line can be sent: waits for an answer, though not for ever.
    fn wait_for_any(&mut self) -> Result<(), Error> {
        // The last answers may have come just now.
        if self.busy.iter().all(Option::is_none) {
            return Ok(());
        }
        match self.inbox.recv_timeout(ASK) {
            Ok(answer) => {
                self.idle = None;
                self.take(answer);
            }
            Err(_) if self.idle.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {}
            Err(_) => return Err(Error::new(Kind::Timeout, "all sessions wait for each other")),
        }
        Ok(())
    }
}

fn interrupted() -> Error {
    Error::new(Kind::Cancelled, "interrupted")
}
