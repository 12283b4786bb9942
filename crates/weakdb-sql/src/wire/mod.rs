//! Network servers over one database: PostgreSQL's protocol, MySQL's, and HTTP with JSON.
//!
//! A connection of the first two is a thread that reads, executes and answers: statements run in SQLite,
//! which blocks, and with the serial schedule they wait for each other, which must not hold up a thread
//! that serves others. So plain blocking sockets are the simplest thing that is right; hundreds of them
//! cost little. A connection that ends, for whatever reason, drops its session, and with it rolls back what
//! was open. HTTP is `anomalist-http`'s, with a thread for each request; its sessions have no connection,
//! and a thread ends those that are idle.

mod http;
mod line;
mod mysql;
mod mysql_codec;
mod postgres;
mod postgres_codec;
mod postgres_message;

use crate::{Code, Database, SqlError};
use anomalist_proxy::message::broken;
use line::Line;
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// PostgreSQL, version 3.
    Postgres,
    /// MySQL and MariaDB, version 10.
    MySql,
    /// HTTP/1.1 with JSON.
    Http,
}

/// Where to listen; port 0 is any free one.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// PostgreSQL.
    pub postgres: Option<SocketAddr>,
    /// MySQL.
    pub mysql: Option<SocketAddr>,
    /// HTTP.
    pub http: Option<SocketAddr>,
    /// Names under which HTTP is asked for, beside `localhost` and the addresses of this machine.
    pub hosts: Vec<String>,
}

impl Addresses {
    /// All protocols on free ports of the loopback interface.
    #[must_use]
    pub fn free() -> Self {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self { postgres: any, mysql: any, http: any, hosts: Vec::new() }
    }
}

/// Stack of a connection's thread: the SQL parser and printer recurse on nested expressions. It is only
/// reserved.
const STACK: usize = 64 << 20;

/// How long [`Server::stop`] waits for connections to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// A database that listens. Dropping it stops it.
///
/// ```
/// use anomalist_level::Level;
/// use anomalist_weakdb_sql::Database;
/// use anomalist_weakdb_sql::wire::{Addresses, Server};
/// use anomalist_weakdb::{Options, Store};
///
/// let database = Database::new(Store::new(Options::new(Level::Causal))?);
/// let server = Server::start(database, &Addresses::free())?;
/// println!("postgres://postgres@{}/weakdb", server.postgres().unwrap());
/// server.stop();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    inner: Arc<Inner>,
    bound: BTreeMap<Protocol, SocketAddr>,
    /// HTTP, and the thread that ends its idle sessions.
    http: Option<(anomalist_http::Server, thread::Thread)>,
}

/// How a protocol is spoken: the name of its sessions, and one connection to its end.
#[derive(Clone, Copy)]
struct Talk {
    prefix: &'static str,
    serve: fn(&Database, Line<'_>, &str) -> io::Result<()>,
    refuse: fn(Line<'_>, &SqlError) -> io::Result<()>,
}

impl Talk {
    const POSTGRES: Talk = Talk { prefix: "pg", serve: postgres::serve, refuse: postgres::refuse };
    const MYSQL: Talk = Talk { prefix: "my", serve: mysql::serve, refuse: mysql::refuse };
}

/// A connection that is open.
struct Live {
    prefix: &'static str,
    stream: Arc<TcpStream>,
}

struct Inner {
    database: Database,
    stopping: AtomicBool,
    next: AtomicU64,
    live: Mutex<BTreeMap<u64, Live>>,
    /// Connections that are being refused.
    refusing: AtomicUsize,
    ended: Condvar,
    http: http::Sessions,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub fn start(database: Database, addresses: &Addresses) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            database,
            stopping: AtomicBool::new(false),
            next: AtomicU64::new(0),
            live: Mutex::default(),
            refusing: AtomicUsize::new(0),
            ended: Condvar::new(),
            http: http::Sessions::default(),
        });
        let wanted = [
            (Protocol::Postgres, addresses.postgres),
            (Protocol::MySql, addresses.mysql),
            (Protocol::Http, addresses.http),
        ];
        let mut listeners = Vec::new();
        let mut bound = BTreeMap::new();
        for (protocol, address) in wanted {
            if let Some(address) = address {
                let listener = TcpListener::bind(address)
                    .map_err(|e| io::Error::new(e.kind(), format!("{address}: {e}")))?;
                bound.insert(protocol, listener.local_addr()?);
                listeners.push((protocol, listener));
            }
        }
        let mut http = None;
        for (protocol, listener) in listeners {
            let inner = inner.clone();
            let talk = match protocol {
                Protocol::Postgres => Talk::POSTGRES,
                Protocol::MySql => Talk::MYSQL,
                Protocol::Http => {
                    let server = http::start(listener, inner.clone(), &addresses.hosts)?;
                    let keeper =
                        thread::Builder::new().name("weakdb keeper".into()).spawn(move || inner.keep())?;
                    http = Some((server, keeper.thread().clone()));
                    continue;
                }
            };
            thread::Builder::new()
                .name(format!("weakdb {protocol:?}"))
                .spawn(move || inner.accept(talk, &listener))?;
        }
        Ok(Self { inner, bound, http })
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.inner.database
    }

    /// Where a protocol listens.
    #[must_use]
    pub fn address(&self, protocol: Protocol) -> Option<SocketAddr> {
        self.bound.get(&protocol).copied()
    }

    /// Where PostgreSQL's protocol listens.
    #[must_use]
    pub fn postgres(&self) -> Option<SocketAddr> {
        self.address(Protocol::Postgres)
    }

    /// Where MySQL's protocol listens.
    #[must_use]
    pub fn mysql(&self) -> Option<SocketAddr> {
        self.address(Protocol::MySql)
    }

    /// Where HTTP listens.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        self.address(Protocol::Http)
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.inner.lock().len() + self.http.as_ref().map_or(0, |(http, _)| http.connections())
    }

    /// Closes all connections, rolling back what is open, and stops listening.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.inner.stopping.store(true, Ordering::SeqCst);
        for (_, address) in self.bound.iter().filter(|(protocol, _)| **protocol != Protocol::Http) {
            // Wakes the thread that accepts; it sees that it is to end.
            let _ = TcpStream::connect_timeout(address, Duration::from_secs(1));
        }
        self.inner.database.kill_all();
        let live = self.inner.lock();
        for connection in live.values() {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        let _ = self.inner.ended.wait_timeout_while(live, PATIENCE, |live| !live.is_empty());
        if let Some((server, keeper)) = self.http.take() {
            server.stop();
            keeper.unpark();
        }
        self.inner.http.clear();
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends idle sessions of HTTP, until the server stops.
    fn keep(&self) {
        let (open, idle) = (self.database.store().options().idle, self.database.limits().idle);
        while !self.stopping.load(Ordering::SeqCst) {
            self.http.end_idle(open, idle);
            thread::park_timeout(
                (open.min(idle) / 4).clamp(Duration::from_millis(10), Duration::from_secs(5)),
            );
        }
    }

    fn accept(self: &Arc<Self>, talk: Talk, listener: &TcpListener) {
        while !self.stopping.load(Ordering::SeqCst) {
            let Ok((stream, _)) = listener.accept() else {
                // Out of descriptors, most likely: let others finish.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            let stream = Arc::new(stream);
            let number = self.next.fetch_add(1, Ordering::SeqCst) + 1;
            {
                let mut live = self.lock();
                let open = live.values().filter(|connection| connection.prefix == talk.prefix).count();
                if open >= self.database.limits().connections {
                    drop(live);
                    self.refuse(talk, stream);
                    continue;
                }
                live.insert(number, Live { prefix: talk.prefix, stream: stream.clone() });
            }
            let inner = self.clone();
            let served =
                thread::Builder::new().name(format!("weakdb {number}")).stack_size(STACK).spawn(move || {
                    let _gone = Gone { inner: &inner, number };
                    let _ = stream.set_nodelay(true);
                    // An error here is the client's end of the connection.
                    let _ = Line::new(&stream, inner.database.limits()).and_then(|line| {
                        (talk.serve)(&inner.database, line, &format!("{}-{number}", talk.prefix))
                    });
                    let _ = stream.shutdown(Shutdown::Both);
                });
            if served.is_err() {
                self.lock().remove(&number);
            }
        }
    }
}

/// How many connections are refused with an answer at one time, and how long a client has to take it.
const REFUSING: usize = 32;
const BRIEF: Duration = Duration::from_secs(1);

impl Inner {
    /// Answers a connection too many, on a thread of its own: its client may be slow.
    fn refuse(self: &Arc<Self>, talk: Talk, stream: Arc<TcpStream>) {
        if self.refusing.fetch_add(1, Ordering::SeqCst) >= REFUSING {
            self.refusing.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let inner = self.clone();
        let refused = thread::Builder::new().name("weakdb refusal".into()).spawn(move || {
            let text = match talk.prefix == Talk::POSTGRES.prefix {
                true => "sorry, too many clients already",
                false => "Too many connections",
            };
            let error = SqlError::new(Code::TooManyConnections, text);
            let limits = inner.database.limits().with_pause(BRIEF);
            // A client that does not take the answer notices the end of the connection.
            let _ = Line::new(&stream, &limits).and_then(|line| (talk.refuse)(line, &error));
            inner.refusing.fetch_sub(1, Ordering::SeqCst);
        });
        if refused.is_err() {
            self.refusing.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Answers the bytes that a client might send in one connection, without a network: for tests and fuzzing.
#[doc(hidden)]
pub fn replay(database: &Database, protocol: Protocol, bytes: &[u8]) -> Vec<u8> {
    let mut answers = Vec::new();
    let line = Line::replayed(bytes, &mut answers);
    // The end of the bytes is the end of the connection.
    let _ = match protocol {
        Protocol::Postgres => postgres::serve(database, line, "replayed"),
        Protocol::MySql => mysql::serve(database, line, "replayed"),
        Protocol::Http => {
            drop(line);
            answers = http::replay(database, bytes);
            Ok(())
        }
    };
    answers
}

/// Takes a connection off the list when its thread ends, also by a panic.
struct Gone<'a> {
    inner: &'a Inner,
    number: u64,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.inner.lock().remove(&self.number);
        self.inner.ended.notify_all();
    }
}
