//! The listener, and the sessions that are open.

use crate::observe::Service;
use crate::session::{self, Context, lock};
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// What a client may demand.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest message that is held in memory, in bytes: statements, parameters, and rows that an
    /// observer sees. Rows and data of COPY that only pass are as long as the server allows.
    pub message: usize,
    /// The most connections at a time.
    pub connections: usize,
    /// How long a client may take to authenticate.
    pub start: Duration,
    /// How long the server may take to accept a connection.
    pub connect: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 1 << 30,
            connections: 1000,
            start: Duration::from_secs(60),
            connect: Duration::from_secs(10),
        }
    }
}

/// How long [`Proxy::stop`] waits for sessions to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// A proxy that listens. Dropping it stops it.
pub struct Proxy {
    inner: Arc<Inner>,
    address: SocketAddr,
}

struct Inner {
    context: Context,
    stopping: AtomicBool,
    live: Mutex<Live>,
    ended: Condvar,
}

/// Both ends of each connection, to close them.
#[derive(Default)]
struct Live {
    next: u64,
    open: BTreeMap<u64, Vec<TcpStream>>,
}

impl Proxy {
    /// Listens, and passes every connection on to `upstream`, which is `host:port`.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(
        listener: TcpListener,
        upstream: &str,
        service: Box<dyn Service>,
        limits: Limits,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let inner = Arc::new(Inner {
            context: Context { upstream: upstream.to_owned(), service, limits },
            stopping: AtomicBool::new(false),
            live: Mutex::default(),
            ended: Condvar::new(),
        });
        let accepting = inner.clone();
        thread::Builder::new().name("proxy".into()).spawn(move || accepting.accept(&listener))?;
        Ok(Self { inner, address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.inner.live).open.len()
    }

    /// Closes all connections, on both sides, and stops listening.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.inner.stopping.store(true, Ordering::SeqCst);
        let mut wake = self.address;
        if wake.ip().is_unspecified() {
            let local: std::net::IpAddr =
                if wake.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
            wake.set_ip(local);
        }
        // Wakes the thread that accepts; it sees that it is to end.
        let _ = TcpStream::connect_timeout(&wake, Duration::from_secs(1));
        let live = lock(&self.inner.live);
        for stream in live.open.values().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = self.inner.ended.wait_timeout_while(live, PATIENCE, |live| !live.open.is_empty());
    }
}

impl Inner {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stopping.load(Ordering::SeqCst) {
            let Ok((client, _)) = listener.accept() else {
                // Out of descriptors, most likely: let others finish.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            let inner = self.clone();
            let Some(number) = self.admit(&client) else { continue };
            let served = thread::Builder::new().name(format!("proxy {number}")).spawn(move || {
                let _gone = Gone { inner: &inner, number };
                // An error here is the end of one of the two connections.
                let _ = session::serve(&client, &inner.context, |server| inner.opened(number, server));
                let _ = client.shutdown(Shutdown::Both);
            });
            if served.is_err() {
                lock(&self.live).open.remove(&number);
            }
        }
    }

    /// The number of a new connection, unless there are too many.
    fn admit(&self, client: &TcpStream) -> Option<u64> {
        let mut live = lock(&self.live);
        if live.open.len() >= self.context.limits.connections {
            drop(live);
            let _ = client.set_write_timeout(Some(Duration::from_secs(1)));
            let _ = session::fatal(client, "53300", "the proxy has too many connections");
            return None;
        }
        live.next += 1;
        let (number, copy) = (live.next, client.try_clone().ok()?);
        live.open.insert(number, vec![copy]);
        Some(number)
    }

    fn opened(&self, number: u64, server: &TcpStream) {
        let mut live = lock(&self.live);
        if let (Some(streams), Ok(copy)) = (live.open.get_mut(&number), server.try_clone()) {
            streams.push(copy);
        }
        if self.stopping.load(Ordering::SeqCst) {
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

/// Takes a connection off the list when its thread ends, also by a panic.
struct Gone<'a> {
    inner: &'a Inner,
    number: u64,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        lock(&self.inner.live).open.remove(&self.number);
        self.inner.ended.notify_all();
    }
}
