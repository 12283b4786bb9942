//! What statements and sessions may take: time, memory, a processor.
//!
//! A database for tests meets hostile statements by accident: a join without its condition, a recursive
//! query without an end. [`Limits`] says what is allowed. `Stop` ends a statement that runs, `Charge`
//! counts the bytes that are kept for clients, `Lane` makes long statements wait for short ones.
//!
//! Rows are collected before the first one is sent, because a statement outside of a block commits at its
//! end and its answer is an error if that fails. So a result is limited rather than streamed.

mod lane;
mod meter;
mod stop;
mod text;

pub(crate) use meter::{Charge, Meter};
pub(crate) use stop::{Peer, Running, Stop};
pub(crate) use text::{check_length, check_parts};

use std::time::Duration;

/// What clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Time of a statement, unless its session sets another; none: no limit.
    pub statement: Option<Duration>,
    /// Rows that a statement may find.
    pub rows: usize,
    /// Bytes that a statement may find.
    pub result: usize,
    /// Bytes that are kept for one session: results, cursors, messages, parameters, prepared statements.
    pub session: usize,
    /// Bytes that are kept for all sessions together.
    pub all: usize,
    /// Bytes of the text of a statement.
    pub text: usize,
    /// Connections of one protocol at one time.
    pub connections: usize,
    /// How long a session may ask for nothing.
    pub idle: Duration,
    /// Time for the first messages of a connection, for the rest of a message that has begun, and for a
    /// client to take a part of an answer.
    pub pause: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            statement: Some(Duration::from_secs(300)),
            rows: 1_000_000,
            result: 256 << 20,
            session: 512 << 20,
            all: 1 << 30,
            text: 16 << 20,
            connections: 1000,
            idle: Duration::from_secs(8 * 3600),
            pause: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// With another time of a statement; none: no limit.
    #[must_use]
    pub fn with_statement(mut self, statement: Option<Duration>) -> Limits {
        self.statement = statement;
        self
    }

    /// With other limits of a result.
    #[must_use]
    pub fn with_result(mut self, rows: usize, bytes: usize) -> Limits {
        (self.rows, self.result) = (rows, bytes);
        self
    }

    /// With other limits of the bytes that are kept for one session, and for all together.
    #[must_use]
    pub fn with_kept(mut self, session: usize, all: usize) -> Limits {
        (self.session, self.all) = (session, all);
        self
    }

    /// With another number of connections of one protocol.
    #[must_use]
    pub fn with_connections(mut self, connections: usize) -> Limits {
        self.connections = connections;
        self
    }

    /// With another time that a session may ask for nothing.
    #[must_use]
    pub fn with_idle(mut self, idle: Duration) -> Limits {
        self.idle = idle;
        self
    }

    /// With another time for messages.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Limits {
        self.pause = pause;
        self
    }
}
