//! Ending a statement that runs.
//!
//! A statement runs on its session's thread, in SQLite or in this crate. Requests to end it (CancelRequest,
//! KILL, the stop of the server) are noted in its [`Stop`]; the statement looks there, and at the clock and
//! at its client's connection: from SQLite's progress handler every few thousand steps, and before each
//! write. A request that comes while nothing runs has no effect, as in PostgreSQL.

use super::lane::{Lane, Turn};
use crate::error::{Code, SqlError};
use anomalist_sqltext::Dialect;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often a statement looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(500);
/// How long a pause lasts at most before a statement that waits looks again.
const NAP: Duration = Duration::from_millis(20);

/// Why a statement ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It was asked to.
    Cancelled,
    /// Its time is over, by the rule with this code.
    Late(Code),
    /// Its client is gone.
    Gone,
}

impl Reason {
    /// The error of the statement.
    pub(crate) fn error(self, dialect: Dialect) -> SqlError {
        let (code, text) = match (self, dialect == Dialect::PostgreSql) {
            (Reason::Cancelled, true) => (Code::Cancelled, "canceling statement due to user request"),
            (Reason::Late(code), true) => (code, "canceling statement due to statement timeout"),
            (Reason::Gone, true) => (Code::Cancelled, "canceling statement: the client is gone"),
            (Reason::Late(code @ Code::TimeOver), false) => {
                let text = "Query execution was interrupted, maximum statement execution time exceeded";
                (code, text)
            }
            (Reason::Late(code), false) => {
                (code, "Query execution was interrupted (max_statement_time exceeded)")
            }
            (Reason::Cancelled | Reason::Gone, false) => (Code::Cancelled, "Query execution was interrupted"),
        };
        SqlError::new(code, text)
    }
}

/// The connection of a session's client.
pub(crate) struct Peer {
    pub(crate) stream: Arc<TcpStream>,
    /// The message with which a client ends the connection.
    pub(crate) farewell: &'static [u8],
}

impl Peer {
    /// Whether the client has gone. Only the session's thread asks, and it neither reads nor writes
    /// meanwhile, so the socket may stop blocking for a moment.
    fn is_gone(&self) -> bool {
        let mut next = [0; 8];
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let found = self.stream.peek(&mut next);
        if self.stream.set_nonblocking(false).is_err() {
            return true;
        }
        match found {
            Ok(0) => true,
            Ok(read) => next.get(..read) == Some(self.farewell),
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

/// What a session's statement is to look at.
pub(crate) struct Stop {
    /// The number of the connection.
    number: u32,
    /// What a client has to know to end the statements of another connection.
    secret: u32,
    lane: Arc<Lane>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The statement that runs.
    runs: Option<Turn>,
    /// When its time is over, and by which rule.
    end: Option<(Instant, Code)>,
    /// When it looks for its client again.
    look: Option<Instant>,
    reason: Option<Reason>,
    /// The connection is to end, too.
    killed: bool,
    peer: Option<Peer>,
}

impl Stop {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number and the secret of the connection.
    pub(crate) fn names(&self) -> (u32, u32) {
        (self.number, self.secret)
    }

    /// Says whose connection it is.
    pub(crate) fn attach(&self, peer: Peer) {
        self.state().peer = Some(peer);
    }

    /// A statement begins; false if one runs already, and this one is a part of it.
    pub(crate) fn begin(&self, time: Option<(Duration, Code)>) -> bool {
        let mut state = self.state();
        if state.runs.is_some() {
            return false;
        }
        let now = Instant::now();
        state.runs = Some(self.lane.begin(now));
        state.end = time.and_then(|(time, code)| Some((now.checked_add(time)?, code)));
        state.look = Some(now + LOOK);
        state.reason = None;
        true
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        let ended = self.state().runs.take();
        if let Some(turn) = ended {
            self.lane.end(turn);
        }
    }

    /// Ends the statement that runs.
    pub(crate) fn cancel(&self) {
        let mut state = self.state();
        if state.runs.is_some() {
            state.reason.get_or_insert(Reason::Cancelled);
        }
    }

    /// Ends the statement that runs, and the connection.
    pub(crate) fn kill(&self) {
        self.cancel();
        let mut state = self.state();
        state.killed = true;
        if let (None, Some(peer)) = (state.runs, &state.peer) {
            // Its thread waits for the next message.
            _ = peer.stream.shutdown(Shutdown::Both);
        }
    }

    /// Whether the connection is to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.state().killed
    }

    /// Why the statement that runs is to end, if it is.
    pub(crate) fn reason(&self) -> Option<Reason> {
        let mut state = self.state();
        if state.reason.is_some() || state.runs.is_none() {
            return state.reason;
        }
        let now = Instant::now();
        if let Some((_, code)) = state.end.filter(|(end, _)| now >= *end) {
            state.reason = Some(Reason::Late(code));
        } else if state.look.is_some_and(|look| now >= look) {
            state.look = Some(now + LOOK);
            if state.peer.as_ref().is_some_and(Peer::is_gone) {
                state.reason = Some(Reason::Gone);
            }
        }
        state.reason
    }

    /// The same as an error.
    pub(crate) fn check(&self, dialect: Dialect) -> Result<(), SqlError> {
        self.reason().map_or(Ok(()), |reason| Err(reason.error(dialect)))
    }

    /// What SQLite's progress handler asks: whether to stop. A long statement waits here for its turn.
    pub(crate) fn pass(&self) -> bool {
        let runs = self.state().runs;
        self.reason().is_some() || runs.is_some_and(|turn| self.lane.pass(turn, || self.reason().is_some()))
    }

    /// Waits, unless the statement is to end.
    pub(crate) fn sleep(&self, time: Duration, dialect: Dialect) -> Result<(), SqlError> {
        let until = Instant::now() + time;
        loop {
            self.check(dialect)?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

/// The sessions whose statements can be ended.
#[derive(Default)]
pub(crate) struct Running {
    lane: Arc<Lane>,
    sessions: Mutex<BTreeMap<u32, Weak<Stop>>>,
}

impl Running {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<u32, Weak<Stop>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session with this number.
    pub(crate) fn add(&self, number: u32) -> Arc<Stop> {
        let (lane, secret) = (self.lane.clone(), secret());
        let stop = Arc::new(Stop { number, secret, lane, state: Mutex::default() });
        let mut sessions = self.sessions();
        if sessions.len() >= 64 && number.is_multiple_of(64) {
            sessions.retain(|_, session| session.strong_count() > 0);
        }
        sessions.insert(number, Arc::downgrade(&stop));
        stop
    }

    /// The session with this number.
    pub(crate) fn find(&self, number: u32) -> Option<Arc<Stop>> {
        self.sessions().get(&number).and_then(Weak::upgrade)
    }

    /// All sessions.
    pub(crate) fn all(&self) -> Vec<Arc<Stop>> {
        self.sessions().values().filter_map(Weak::upgrade).collect()
    }
}

/// A number that other clients do not guess: the standard library takes keys from the system.
fn secret() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    (RandomState::new().build_hasher().finish() >> 16) as u32
}
