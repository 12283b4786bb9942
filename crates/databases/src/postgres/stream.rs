//! What a database logs, as it logs it: logical decoding by the streaming replication protocol.
//!
//! The slot is temporary: it belongs to this session, and the server removes it with the session, however
//! that ends. So nothing stays on the server, and nothing makes it keep its log for a reader that is gone.
//! The price is that a stream that broke cannot be continued: what was logged meanwhile is not seen.
//!
//! The server streams what is certainly durable, one transaction after another in the order of commits. It
//! learns every second how far it was read.
//! <https://www.postgresql.org/docs/current/protocol-replication.html>

use super::wire::{Purpose, Wire, lost, reported, start_for};
use crate::{Error, Kind, Target};
use postgres_protocol::message::backend::{ErrorResponseBody, Message};
use postgres_protocol::message::frontend;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// How long a read waits, so that the server is answered in time.
const WAIT: Duration = Duration::from_millis(50);
/// How often the server learns how far it was read.
const REPORT: Duration = Duration::from_secs(1);

/// A message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    /// What the plugin says: a line of test_decoding.
    Text(String),
    /// Everything that was logged before this place has been streamed.
    Reached(u64),
}

/// A session that streams the log.
pub struct LogStream {
    wire: Wire,
    /// Everything before it was read.
    reached: u64,
    reported: Instant,
}

impl LogStream {
    /// Makes a temporary slot of this name with the plugin test_decoding, and starts to stream.
    ///
    /// The server waits for the end of the transactions that are writing now. A commit that is logged after
    /// this returns is streamed.
    ///
    /// # Errors
    /// If the server refuses: `wal_level` must be `logical`, and the user must have REPLICATION.
    pub fn start(target: &Target, slot: &str) -> Result<LogStream, Error> {
        let (mut wire, _) = start_for(target, Purpose::Replication)?;
        let create =
            format!("CREATE_REPLICATION_SLOT \"{slot}\" TEMPORARY LOGICAL test_decoding NOEXPORT_SNAPSHOT");
        frontend::query(&create, &mut wire.out).map_err(lost)?;
        wire.send()?;
        let mut failed = None;
        loop {
            match wire.receive()? {
                Message::ErrorResponse(body) => {
                    let (error, ends) = refused(&body);
                    if ends {
                        return Err(error);
                    }
                    failed = Some(error);
                }
                Message::ReadyForQuery(_) => break,
                _ => {}
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let start = format!(
            "START_REPLICATION SLOT \"{slot}\" LOGICAL 0/0 (\"include-xids\" 'on', \"skip-empty-xacts\" 'on')"
        );
        frontend::query(&start, &mut wire.out).map_err(lost)?;
        wire.send()?;
        wire.stream.limit(WAIT).map_err(lost)?;
        Ok(LogStream { wire, reached: 0, reported: Instant::now() })
    }

    /// The next message; nothing if there is none soon.
    ///
    /// # Errors
    /// If the server ends the stream, or is gone.
    pub fn receive(&mut self) -> Result<Option<Logged>, Error> {
        if self.reported.elapsed() >= REPORT {
            self.report(false)?;
        }
        let Some((kind, body)) = self.message()? else { return Ok(None) };
        match (kind, body.as_slice()) {
            // CopyData: data of the log, with the place where they began, or a sign of life.
            (b'd', [b'w', rest @ ..]) if rest.len() >= 24 => {
                let text = String::from_utf8_lossy(&rest[24..]).into_owned();
                Ok(Some(Logged::Text(text)))
            }
            (b'd', [b'k', rest @ ..]) if rest.len() >= 17 => {
                let place = u64::from_be_bytes(rest[..8].try_into().map_err(io::Error::other).map_err(lost)?);
                self.reached = self.reached.max(place);
                if rest[16] == 1 {
                    self.report(false)?;
                }
                Ok(Some(Logged::Reached(self.reached)))
            }
            (b'E', _) => {
                let mut whole = bytes::BytesMut::from(&[b'E'][..]);
                whole.extend_from_slice(&((body.len() + 4) as u32).to_be_bytes());
                whole.extend_from_slice(&body);
                match Message::parse(&mut whole).map_err(lost)? {
                    Some(Message::ErrorResponse(body)) => Err(refused(&body).0),
                    _ => Err(ended()),
                }
            }
            (b'c', _) => Err(ended()),
            _ => Ok(None),
        }
    }

    /// Asks the server how far it has streamed; the answer is a [`Logged::Reached`].
    ///
    /// # Errors
    /// If the server is gone.
    pub fn ask(&mut self) -> Result<(), Error> {
        self.report(true)
    }

    fn report(&mut self, wants_answer: bool) -> Result<(), Error> {
        self.reported = Instant::now();
        let place = self.reached.to_be_bytes();
        // The clock is for people who look at the server's views.
        let message = [&b"r"[..], &place, &place, &place, &[0; 8], &[u8::from(wants_answer)]].concat();
        let out = &mut self.wire.out;
        out.extend_from_slice(b"d");
        out.extend_from_slice(&((message.len() + 4) as u32).to_be_bytes());
        out.extend_from_slice(&message);
        self.wire.send()
    }

    /// The next message as bytes: the crate of messages does not know those of replication.
    fn message(&mut self) -> Result<Option<(u8, Vec<u8>)>, Error> {
        let received = &mut self.wire.received;
        loop {
            if let [kind, a, b, c, d, ..] = received[..] {
                let length = u32::from_be_bytes([a, b, c, d]) as usize;
                if received.len() > length {
                    let message = received.split_to(length + 1);
                    return Ok(Some((kind, message.get(5..).unwrap_or_default().to_vec())));
                }
            }
            let mut chunk = [0; 1 << 14];
            match self.wire.stream.read(&mut chunk) {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => received.extend_from_slice(&chunk[..count]),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(lost(e)),
            }
        }
    }
}

fn refused(body: &ErrorResponseBody) -> (Error, bool) {
    reported(body.fields())
}

fn ended() -> Error {
    Error::new(Kind::Lost, "the server ended the stream of its log")
}

impl Drop for LogStream {
    fn drop(&mut self) {
        self.wire.close();
    }
}
