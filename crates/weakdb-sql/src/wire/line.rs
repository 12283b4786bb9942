//! A connection's bytes with limits: the time for each message, and what waits in memory.

use crate::bounds::{Charge, Peer};
use crate::error::{Code, SqlError};
use crate::{Limits, Session, Status};
use anomalist_sqltext::Dialect;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest message: what MariaDB calls `max_allowed_packet`.
pub(super) const LONGEST: usize = 64 << 20;
/// How many times the pause between two parts of a message the whole message may take.
const PARTS: u32 = 10;
/// How much of a message is read before it is counted again.
const PIECE: usize = 1 << 16;

/// Where bytes come from.
enum Source<'s> {
    Socket {
        stream: &'s TcpStream,
        pause: Duration,
        until: Instant,
    },
    /// For tests: all that a client will ever send.
    Bytes(&'s [u8]),
}

impl Source<'_> {
    fn limit(&mut self, longest_pause: Duration, whole: Duration) {
        if let Source::Socket { pause, until, .. } = self {
            *pause = longest_pause;
            // A time that the clock does not reach is no limit.
            let now = Instant::now();
            *until = now.checked_add(whole).unwrap_or(now + Duration::from_secs(u64::from(u32::MAX)));
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Bytes(bytes) => bytes.read(buffer),
            Source::Socket { stream, pause, until } => {
                let left = until.saturating_duration_since(Instant::now()).min(*pause);
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                stream.set_read_timeout(Some(left))?;
                let mut reading: &TcpStream = stream;
                match reading.read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        Err(io::ErrorKind::TimedOut.into())
                    }
                    other => other,
                }
            }
        }
    }
}

/// What a client sends.
pub(super) struct Incoming<'s> {
    reader: BufReader<Source<'s>>,
    pause: Duration,
}

/// What is sent to it.
pub(super) type Outgoing<'s> = BufWriter<Box<dyn Write + 's>>;

/// Both directions of a connection.
pub(super) struct Line<'s> {
    pub(super) incoming: Incoming<'s>,
    pub(super) outgoing: Outgoing<'s>,
    socket: Option<&'s Arc<TcpStream>>,
}

impl<'s> Line<'s> {
    /// Of a socket. The first messages have to come soon.
    pub(super) fn new(stream: &'s Arc<TcpStream>, limits: &Limits) -> io::Result<Line<'s>> {
        stream.set_write_timeout(Some(limits.pause))?;
        let until = Instant::now() + limits.pause;
        let reader = BufReader::new(Source::Socket { stream, pause: limits.pause, until });
        let incoming = Incoming { reader, pause: limits.pause };
        Ok(Line { incoming, outgoing: BufWriter::new(Box::new(&**stream)), socket: Some(stream) })
    }

    /// Of bytes that are there.
    pub(super) fn replayed(bytes: &'s [u8], answers: &'s mut Vec<u8>) -> Line<'s> {
        let incoming = Incoming { reader: BufReader::new(Source::Bytes(bytes)), pause: Duration::MAX };
        Line { incoming, outgoing: BufWriter::new(Box::new(answers)), socket: None }
    }

    /// Lets the session's statements see when the client is gone.
    pub(super) fn attach(&self, session: &Session, farewell: &'static [u8]) {
        if let Some(stream) = self.socket {
            session.stop().attach(Peer { stream: stream.clone(), farewell });
        }
    }
}

impl Incoming<'_> {
    /// Waits for the next message of a session; false if there is none.
    pub(super) fn wait(&mut self, session: &Session) -> io::Result<bool> {
        if !self.reader.buffer().is_empty() {
            return Ok(true);
        }
        let patience = session.patience();
        self.reader.get_mut().limit(patience, patience);
        let found = match self.reader.fill_buf() {
            Ok(bytes) => Ok(!bytes.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(fatal(idle(session))),
            Err(error) => Err(error),
        };
        self.reader.get_mut().limit(self.pause, self.pause.saturating_mul(PARTS));
        found
    }

    /// So many bytes, without trusting the number for memory.
    pub(super) fn body(&mut self, length: usize, charge: &mut Charge) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length.min(PIECE));
        while bytes.len() < length {
            let piece = PIECE.max(bytes.len()).min(length - bytes.len());
            if length > PIECE {
                charge.add(piece).map_err(|exceeded| fatal(exceeded.into()))?;
            }
            let read = (&mut self.reader).take(piece as u64).read_to_end(&mut bytes)?;
            if read < piece {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(bytes)
    }
}

impl Read for Incoming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

fn idle(session: &Session) -> SqlError {
    let (code, text) = match (session.dialect(), session.status()) {
        (Dialect::PostgreSql, Status::Idle) => {
            (Code::IdleSession, "terminating connection due to idle-session timeout")
        }
        (Dialect::PostgreSql, _) => {
            (Code::IdleTransaction, "terminating connection due to idle-in-transaction timeout")
        }
        _ => (Code::IdleSession, "The client was disconnected by the server because of inactivity."),
    };
    SqlError::new(code, text)
}

/// An error after which the connection ends. Its client is sent the reason.
pub(super) fn fatal(error: SqlError) -> io::Error {
    io::Error::other(error)
}

/// The reason, if there is one for the client.
pub(super) fn reason(error: &io::Error) -> Option<&SqlError> {
    error.get_ref()?.downcast_ref()
}

/// An error if the connection is to end.
pub(super) fn unless_killed(session: &Session) -> io::Result<()> {
    if !session.stop().is_killed() {
        return Ok(());
    }
    let text = match session.dialect() {
        Dialect::PostgreSql => "terminating connection due to administrator command",
        _ => "Connection was killed",
    };
    Err(fatal(SqlError::new(Code::Killed, text)))
}
