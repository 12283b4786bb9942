//! A session: two threads, one for each direction, and what they share.
//!
//! This file has what they share; `upward.rs` reads from the client, `downward.rs` from the server. Neither
//! direction waits for the other, except that a session in step sends a request only when the one before
//! is answered. So whatever a client may do with a server directly, it may do through the proxy, without a
//! deadlock that it would not have there.

use crate::flow::{Asked, Flow, Sent, Status};
use crate::message::{self, First, ServerError, put};
use crate::observe::{Interest, Observer, Outcome, Rows, Service};
use crate::proxy::Limits;
use crate::{downward, upward};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What every session needs.
pub(crate) struct Context {
    pub upstream: String,
    pub service: Box<dyn Service>,
    pub limits: Limits,
}

/// What a session's threads share.
pub(crate) struct Shared {
    pub state: Mutex<State>,
    pub changed: Condvar,
    pub client: Mutex<BufWriter<TcpStream>>,
    pub observer: Mutex<Box<dyn Observer>>,
    pub interest: Interest,
    pub limits: Limits,
    /// Authentication is over.
    started: AtomicBool,
}

#[derive(Default)]
pub(crate) struct State {
    pub flow: Flow,
    /// What the client's request has led to.
    pub outcome: Outcome,
    /// What the observer's statement has led to.
    pub rows: Rows,
    pub error: Option<ServerError>,
    /// An error of the observer's statement is the client's too.
    pub share_error: bool,
    /// ReadyForQuery is kept back until the observer has seen the end of the request.
    pub hold: bool,
    pub held: Option<Status>,
    /// A message of the server is being passed.
    pub busy: bool,
    /// The server has closed the connection.
    pub gone: bool,
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No invariant spans two critical sections; after a panic the session ends.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Waits until the server has answered, wants data, or is gone.
    pub fn settle(&self) -> io::Result<MutexGuard<'_, State>> {
        let wait = |s: &mut State| !s.gone && (s.busy || !(s.flow.is_settled() || s.flow.wants_data()));
        let waited = self.changed.wait_while(lock(&self.state), wait);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.gone { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(state) }
    }

    pub fn start(&self) {
        self.started.store(true, Ordering::SeqCst);
    }
}

/// Reads from the client. A client may wait as long as it likes, once it is authenticated.
struct Patient<'a> {
    stream: &'a TcpStream,
    shared: &'a Shared,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
                        && self.shared.started.load(Ordering::SeqCst) =>
                {
                    self.stream.set_read_timeout(None)?;
                }
                other => return other,
            }
        }
    }
}

/// Sends a client an error after which the connection ends.
pub(crate) fn fatal(client: &TcpStream, code: &str, text: &str) -> io::Result<()> {
    let error = ServerError { code: code.to_owned(), message: text.to_owned() };
    let mut bytes = Vec::new();
    put(&mut bytes, b'E', &error.fields("FATAL"))?;
    (&*client).write_all(&bytes)
}

fn connect(context: &Context) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in context.upstream.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, context.limits.connect) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Serves one connection to its end. `opened` gets the connection to the server, so that it can be closed.
pub(crate) fn serve(
    client: &TcpStream,
    context: &Context,
    opened: impl FnOnce(&TcpStream),
) -> io::Result<()> {
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(context.limits.start))?;
    let (options, bytes) = loop {
        match message::first(&mut &*client)? {
            First::Encryption => (&*client).write_all(b"N")?,
            First::Cancel(bytes) => {
                let mut server = connect(context)?;
                opened(&server);
                server.write_all(&bytes)?;
                // The server closes when it has sent the signal; the client waits for that.
                return io::copy(&mut server, &mut io::sink()).map(drop);
            }
            First::Unknown => return fatal(client, "08P01", "unsupported frontend protocol"),
            First::Session { options, bytes, .. } => break (options, bytes),
        }
    };
    let server = match connect(context) {
        Ok(server) => server,
        Err(e) => return fatal(client, "08006", &format!("cannot reach {}: {e}", context.upstream)),
    };
    opened(&server);
    (&server).write_all(&bytes)?;
    let observer = context.service.session(&options);
    let interest = observer.interest();
    let mut state = State::default();
    state.flow.ask(Asked::Startup, Sent::default());
    let shared = Shared {
        state: Mutex::new(state),
        changed: Condvar::new(),
        client: Mutex::new(BufWriter::new(client.try_clone()?)),
        observer: Mutex::new(observer),
        interest,
        limits: context.limits,
        started: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let down = thread::Builder::new().name("proxy down".into()).spawn_scoped(scope, || {
            let ended = downward::run(&server, &shared);
            let _ = lock(&shared.client).flush();
            lock(&shared.state).gone = true;
            shared.changed.notify_all();
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
            ended
        })?;
        let reader = BufReader::with_capacity(1 << 16, Patient { stream: client, shared: &shared });
        let ended = upward::run(reader, &server, &shared);
        // The server ends the session when it has nothing more to read. After an error here, it ends now.
        let _ = server.shutdown(if ended.is_ok() { Shutdown::Write } else { Shutdown::Both });
        let down = down.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        ended.and(down)
    })
}
