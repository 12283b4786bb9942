//! The PostgreSQL protocol from the client's side, blocking: a stream, messages over it, and how a session
//! starts.
//!
//! The messages themselves, and SCRAM, are the `postgres-protocol` crate's. A client of our own on top of
//! them, because a driver for a checker needs what general ones hide: the tag that COMMIT answers with
//! (ROLLBACK, without any error, if the transaction had failed before), the state of the transaction after
//! each answer, and pipelines with one Sync.

use crate::tls::{self, SslMode};
use crate::{Error, Kind, Target};
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::backend::{ErrorFields, Message};
use postgres_protocol::message::frontend;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Where bytes go.
pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Stream {
    pub(super) fn limit(&self, limit: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_read_timeout(Some(limit)).and(s.set_write_timeout(Some(limit))),
            Stream::Tls(s) => s.sock.set_read_timeout(Some(limit)).and(s.sock.set_write_timeout(Some(limit))),
            #[cfg(unix)]
            Stream::Unix(s) => s.set_read_timeout(Some(limit)).and(s.set_write_timeout(Some(limit))),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.read(buffer),
            #[cfg(unix)]
            Stream::Unix(s) => s.read(buffer),
            Stream::Tls(s) => s.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.write(bytes),
            #[cfg(unix)]
            Stream::Unix(s) => s.write(bytes),
            Stream::Tls(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.flush(),
            #[cfg(unix)]
            Stream::Unix(s) => s.flush(),
            Stream::Tls(s) => s.flush(),
        }
    }
}

/// Messages over a stream.
pub(super) struct Wire {
    pub(super) stream: Stream,
    /// What is to be sent next.
    pub(super) out: BytesMut,
    pub(super) received: BytesMut,
}

/// What the server said when the session started.
#[derive(Default)]
pub(super) struct Greeting {
    pub(super) version: String,
    /// Set by CockroachDB, which otherwise passes for PostgreSQL.
    pub(super) cockroach: Option<String>,
    pub(super) process: i32,
    pub(super) secret: i32,
}

impl Wire {
    /// Sends what has been put into `out`.
    pub(super) fn send(&mut self) -> Result<(), Error> {
        let sent = self.stream.write_all(&self.out).and_then(|()| self.stream.flush());
        self.out.clear();
        sent.map_err(lost)
    }

    /// The next message; notices and the like are passed over.
    pub(super) fn receive(&mut self) -> Result<Message, Error> {
        loop {
            match Message::parse(&mut self.received).map_err(lost)? {
                Some(Message::NoticeResponse(_) | Message::NotificationResponse(_)) => {}
                Some(message) => return Ok(message),
                None => {
                    let mut chunk = [0; 8192];
                    match self.stream.read(&mut chunk) {
                        Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                        Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(lost(e)),
                    }
                }
            }
        }
    }

    /// Closes without waiting for anything.
    pub(super) fn close(&mut self) {
        self.out.clear();
        frontend::terminate(&mut self.out);
        // The server notices a closed connection as well.
        let _ = self.send();
    }
}

/// A failure of the stream: the connection cannot be used any more.
pub(super) fn lost(error: io::Error) -> Error {
    let late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    match late {
        true => Error::new(Kind::Timeout, "the server did not answer in time"),
        false => Error::new(Kind::Lost, format!("connection lost: {error}")),
    }
}

/// An error as the server reports it, and whether the session ends with it.
pub(super) fn reported(fields: ErrorFields<'_>) -> (Error, bool) {
    let (mut code, mut message, mut severity, mut plain) =
        (String::new(), String::new(), None, String::new());
    let _ = fields.for_each(|field| {
        let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => code = text(),
            b'M' => message = text(),
            // The severity that is never translated; servers before 9.6 and imitations have only the other
            // one.
            b'V' => severity = Some(text()),
            b'S' => plain = text(),
            _ => {}
        }
        Ok(())
    });
    let ends = matches!(severity.as_deref().unwrap_or(&plain), "FATAL" | "PANIC");
    let kind = match code.as_str() {
        "40001" => Kind::Conflict,
        "40P01" => Kind::Deadlock,
        "40002" => Kind::Constraint,
        "55P03" => Kind::Timeout,
        "57014" if message.contains("timeout") => Kind::Timeout,
        "57014" => Kind::Cancelled,
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" => Kind::Lost,
        code => match code.get(..2) {
            Some("23") => Kind::Constraint,
            Some("08") => Kind::Lost,
            Some("0A" | "26" | "3D" | "3F" | "42") => Kind::Unsupported,
            _ => Kind::Other,
        },
    };
    (Error::new(kind, message).with_code(code), ends)
}

/// A stream to the server, without TLS.
pub(super) fn dial(target: &Target) -> Result<Stream, Error> {
    let (host, port) = (target.parts.host.as_str(), target.parts.port);
    let failed = |e: io::Error| Error::new(Kind::Lost, format!("cannot connect to {target}: {e}"));
    let stream = if host.starts_with('/') {
        local(&format!("{host}/.s.PGSQL.{port}")).map_err(failed)?
    } else {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let mut found = None;
        for address in (host, port).to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, target.connect_timeout) {
                Ok(stream) => {
                    found = Some(stream);
                    break;
                }
                Err(error) => last = error,
            }
        }
        let stream = found.ok_or(last).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Stream::Tcp(stream)
    };
    stream.limit(target.connect_timeout).map_err(failed)?;
    Ok(stream)
}

/// A stream to a socket in the file system.
#[cfg(unix)]
fn local(path: &str) -> io::Result<Stream> {
    UnixStream::connect(path).map(Stream::Unix)
}

#[cfg(not(unix))]
fn local(_path: &str) -> io::Result<Stream> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "sockets in the file system need a Unix system"))
}

/// A session, with TLS as `sslmode` wants it.
pub(super) fn start(target: &Target) -> Result<(Wire, Greeting), Error> {
    start_for(target, Purpose::Statements)
}

/// What a session is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Statements,
    /// It streams what the database logs, and takes the commands of replication.
    Replication,
}

/// A session for this purpose.
pub(super) fn start_for(target: &Target, purpose: Purpose) -> Result<(Wire, Greeting), Error> {
    let mode = tls::mode(target, SslMode::Prefer);
    let open = |target: &Target, encrypted: bool| open(target, encrypted, purpose);
    match mode {
        SslMode::Disable => open(target, false),
        SslMode::Allow => open(target, false).or_else(|_| open(target, true)),
        SslMode::Prefer => open(target, true).or_else(|e| match e.kind() {
            Kind::Unsupported => open(target, false),
            _ => Err(e),
        }),
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => open(target, true),
    }
}

fn open(target: &Target, encrypted: bool, purpose: Purpose) -> Result<(Wire, Greeting), Error> {
    let mut stream = dial(target)?;
    if encrypted {
        stream = match stream {
            Stream::Tcp(tcp) => encrypt(target, tcp)?,
            // libpq never encrypts local sockets either.
            other => other,
        };
    }
    let mut wire = Wire { stream, out: BytesMut::new(), received: BytesMut::new() };
    let greeting = log_in(target, &mut wire, purpose)?;
    wire.stream.limit(target.statement_timeout).map_err(lost)?;
    Ok((wire, greeting))
}

fn encrypt(target: &Target, mut tcp: TcpStream) -> Result<Stream, Error> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    let mut answer = [0];
    tcp.write_all(&request).and_then(|()| tcp.read_exact(&mut answer)).map_err(lost)?;
    if answer != *b"S" {
        return Err(Error::new(Kind::Unsupported, "the server does not offer TLS"));
    }
    let mut session = tls::client(target)?;
    while session.is_handshaking() {
        session
            .complete_io(&mut tcp)
            .map_err(|e| Error::new(Kind::Unsupported, format!("TLS with {target}: {e}")))?;
    }
    Ok(Stream::Tls(Box::new(rustls::StreamOwned::new(session, tcp))))
}

fn log_in(target: &Target, wire: &mut Wire, purpose: Purpose) -> Result<Greeting, Error> {
    let user = target.parts.user.as_deref().unwrap_or("postgres");
    let mut parameters = vec![
        ("user", user),
        ("database", target.parts.database.as_deref().unwrap_or(user)),
        ("client_encoding", "UTF8"),
        ("application_name", target.parameter("application_name").unwrap_or("anomalist")),
    ];
    parameters.extend(target.parameter("options").map(|o| ("options", o)));
    parameters.extend((purpose == Purpose::Replication).then_some(("replication", "database")));
    frontend::startup_message(parameters, &mut wire.out).map_err(lost)?;
    wire.send()?;
    let refused = |what: &str| Error::new(Kind::Unsupported, what.to_owned());
    let password = target.parts.password.as_ref().map(|p| p.0.as_bytes());
    let password = || password.ok_or_else(|| refused("the server asks for a password and none was given"));
    let mut scram: Option<sasl::ScramSha256> = None;
    let mut greeting = Greeting::default();
    loop {
        match wire.receive()? {
            Message::AuthenticationOk => {}
            Message::AuthenticationCleartextPassword => {
                frontend::password_message(password()?, &mut wire.out).map_err(lost)?;
                wire.send()?;
            }
            Message::AuthenticationMd5Password(body) => {
                let hashed = md5_hash(user.as_bytes(), password()?, body.salt());
                frontend::password_message(hashed.as_bytes(), &mut wire.out).map_err(lost)?;
                wire.send()?;
            }
            Message::AuthenticationSasl(body) => {
                let offered = body.mechanisms().any(|m| Ok(m == sasl::SCRAM_SHA_256)).map_err(lost)?;
                if !offered {
                    return Err(refused("the server offers no SASL mechanism that anomalist supports"));
                }
                let started = sasl::ScramSha256::new(password()?, sasl::ChannelBinding::unsupported());
                frontend::sasl_initial_response(sasl::SCRAM_SHA_256, started.message(), &mut wire.out)
                    .map_err(lost)?;
                scram = Some(started);
                wire.send()?;
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = scram.as_mut().ok_or_else(|| refused("SASL out of turn"))?;
                scram.update(body.data()).map_err(lost)?;
                frontend::sasl_response(scram.message(), &mut wire.out).map_err(lost)?;
                wire.send()?;
            }
            Message::AuthenticationSaslFinal(body) => {
                let scram = scram.as_mut().ok_or_else(|| refused("SASL out of turn"))?;
                scram.finish(body.data()).map_err(lost)?;
            }
            Message::ParameterStatus(body) => {
                let value = || body.value().map(str::to_owned).map_err(lost);
                match body.name().map_err(lost)? {
                    "server_version" => greeting.version = value()?,
                    "crdb_version" => greeting.cockroach = Some(value()?),
                    _ => {}
                }
            }
            Message::BackendKeyData(body) => {
                (greeting.process, greeting.secret) = (body.process_id(), body.secret_key());
            }
            Message::ReadyForQuery(_) => return Ok(greeting),
            Message::ErrorResponse(body) => return Err(reported(body.fields()).0),
            _ => {
                return Err(refused(
                    "the server requires an authentication method that anomalist does not support",
                ));
            }
        }
    }
}
