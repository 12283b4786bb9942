//! One session: a thread that asks the planner for transactions, has them performed, and passes on what it
//! saw.
//!
//! A transaction that aborted is tried again, as a new one with new values, a few times; after some aborts
//! in a row the session waits a little. A session whose transaction has an unknown outcome goes on under a
//! new process number, on a new connection: the old process may yet take effect.

use super::Shared;
use crate::record::{Entry, Finished};
use crate::{Answer, Ended, EngineError, Op, Session};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How often a transaction is tried again before another takes its place.
const RETRIES: u32 = 3;
/// How long a session waits before it tries to connect again.
const RECONNECT: Duration = Duration::from_millis(50);
/// How long the database may be unreachable before the run is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The same for the first connection of a session, if no faults disturb the database: it has just been
/// there, but may not want so many.
pub(super) const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// The longest that a session waits after an abort, and after how many in a row it does. Those who wake
/// each other's conflicts again and again never commit; before that, conflicts are what we are here for.
const LONGEST_WAIT: Duration = Duration::from_millis(128);
const STREAK: u32 = 4;

/// One session.
pub(super) struct Client<'a> {
    pub shared: &'a Shared<'a>,
    pub number: u32,
    pub sender: Sender<Entry>,
    /// To the online check.
    pub online: Option<Sender<Finished>>,
}

impl Client<'_> {
    /// Works until the run is over.
    pub fn work(&self) {
        let shared = self.shared;
        let mut session = self.connect(shared.first_patience);
        // All begin together, or the first would run alone.
        shared.ready.wait();
        let mut process = u64::from(self.number);
        let (mut ops, mut tries): (Vec<Op>, u32) = (Vec::new(), 0);
        let mut aborts_in_a_row: u32 = 0;
        while !shared.is_over() && shared.tickets.fetch_sub(1, Relaxed) > 0 {
            if session.as_ref().is_none_or(|s| !s.is_usable()) {
                // The old connection first: it may hold locks.
                let old = session.take();
                shared.guarded(|| drop(old));
                session = self.connect(PATIENCE);
            }
            let Some(open) = &mut session else { return };
            shared.plan(&mut ops, tries > 0);
            let mut answers: Vec<Answer> = Vec::with_capacity(ops.len());
            let invoked = shared.now();
            if shared.beginnings {
                self.tell(Entry::Began { process, ops: ops.clone(), at: invoked });
            }
            let ended = shared.guarded(|| open.transact(&ops, &mut answers));
            let panicked = ended.is_none();
            let ended = ended.unwrap_or_else(|| Ended::indeterminate("panic", "the engine panicked"));
            let completed = shared.now();
            shared.count(&ended);
            tries = if matches!(ended, Ended::Aborted(_)) && tries < RETRIES { tries + 1 } else { 0 };
            aborts_in_a_row = if matches!(ended, Ended::Aborted(_)) { aborts_in_a_row + 1 } else { 0 };
            let unknown = matches!(ended, Ended::Indeterminate(_));
            let stamp = if panicked { None } else { shared.guarded(|| open.stamp()).flatten() };
            let number = shared.number.fetch_add(1, Relaxed);
            let ops = ops.clone();
            let finished = Finished { process, ops, answers, ended, invoked, completed, number, stamp };
            if let Some(online) = &self.online {
                _ = online.send(finished.clone());
            }
            self.tell(Entry::Finished(finished));
            if unknown {
                process += u64::from(shared.sessions);
                let old = session.take();
                shared.guarded(|| drop(old));
            }
            if let Some(more) = aborts_in_a_row.checked_sub(STREAK) {
                let longest = Duration::from_millis(1 << more.min(16)).min(LONGEST_WAIT);
                std::thread::sleep(longest.mul_f64(fastrand::f64()));
            }
        }
    }

    fn tell(&self, entry: Entry) {
        // The writer listens until the last session is gone.
        _ = self.sender.send(entry);
    }

    /// A session, or none if the run is over.
    fn connect(&self, patience: Duration) -> Option<Box<dyn Session>> {
        let since = Instant::now();
        loop {
            let opened = self.shared.guarded(|| self.shared.engine.open(self.number))?;
            match opened {
                Ok(session) => return Some(session),
                Err(_) if self.shared.is_over() => return None,
                Err(error) if !error.passing || since.elapsed() > patience => {
                    let (number, of) = (self.number + 1, self.shared.sessions);
                    let message = format!("session {number} of {of}: {}", error.message);
                    self.shared.give_up(if error.passing { EngineError { message, ..error } } else { error });
                    return None;
                }
                Err(_) => std::thread::sleep(RECONNECT),
            }
        }
    }
}
