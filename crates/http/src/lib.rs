//! The HTTP server of Anomalist's commands: axum behind one set of limits, for handlers that block.
//!
//! A [`Server`] serves an axum [`Router`] on one thread of its own. The event loop only moves bytes: a
//! handler made by [`blocking`] runs on a thread for blocking work, because what it calls (a store with
//! locks, SQLite, a channel) blocks. There are as many such threads as there may be connections, and a
//! connection has one request at a time, so a handler that waits for another request never keeps that one
//! from a thread.
//!
//! A request reaches the router when it is there as a whole. [`Limits`] bound what a client can make large
//! or slow: the head, the body, the time for either, the number of connections. A request beyond them is
//! refused here, in the form that [`Settings::refuse`] gives it. If all connections are taken, a new one
//! takes the place of the one that has kept the server waiting longest: slow clients do not keep others
//! out.
//!
//! Requests for other hosts, and requests of pages of other sites, are refused (`admit.rs`).
//!
//! ```
//! use anomalist_http::{Router, Server, Settings, blocking, get};
//! use std::net::TcpListener;
//!
//! let router = Router::new().route("/", get(blocking(|_request| "hello\n")));
//! let server = Server::start(TcpListener::bind("127.0.0.1:0")?, router, Settings::default())?;
//! println!("http://{}/", server.address());
//! server.stop();
//! # Ok::<(), std::io::Error>(())
//! ```

mod admit;
mod handler;
mod receive;
mod server;
mod waiting;

pub use axum::Router;
pub use axum::body::Bytes;
pub use axum::http::{Method, StatusCode, header};
pub use axum::response::{IntoResponse, Response};
pub use axum::routing::{delete, get, post};
pub use handler::{Request, blocking, peer};
pub use server::Server;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// What a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the request line and the headers; at least 8 KiB.
    pub head: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of all bodies that are in memory at one time.
    pub bodies: usize,
    /// Connections at one time.
    pub connections: usize,
    /// Time for a head, from the end of the answer before it; and for each next part of a body.
    pub pause: Duration,
    /// Time for a whole body.
    pub whole: Duration,
    /// How long a connection may keep the server waiting before another may take its place, if all are
    /// taken.
    pub grace: Duration,
    /// Time that requests have to end when the server stops.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head: 16 << 10,
            headers: 100,
            body: 64 << 20,
            bodies: 256 << 20,
            connections: 128,
            pause: Duration::from_secs(30),
            whole: Duration::from_secs(300),
            grace: Duration::from_secs(1),
            farewell: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// With another number of connections at one time.
    #[must_use]
    pub fn with_connections(mut self, connections: usize) -> Limits {
        self.connections = connections;
        self
    }

    /// With another time for a head and for each next part of a body.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Limits {
        self.pause = pause;
        self
    }

    /// With another size of all bodies together.
    #[must_use]
    pub fn with_bodies(mut self, bodies: usize) -> Limits {
        self.bodies = bodies;
        self
    }

    /// With another size of bodies.
    #[must_use]
    pub fn with_body(mut self, body: usize) -> Limits {
        self.body = body;
        self
    }
}

/// How to serve.
#[derive(Clone)]
pub struct Settings {
    /// What a client may take.
    pub limits: Limits,
    /// The answer to a request beyond the limits, with the reason.
    pub refuse: fn(StatusCode, &'static str) -> Response,
    /// Counts the connections that are open. Servers may share it.
    pub open: Arc<AtomicUsize>,
    /// Names of this server beside `localhost`, loopback addresses and the address that a client connected
    /// to. Requests for other hosts, and requests of pages of other sites, get status 403.
    pub hosts: Arc<[String]>,
    /// The types of which a body that is posted has to be one; none: any.
    pub types: &'static [&'static str],
    /// Bytes of stack of a handler's thread. They are only reserved.
    pub stack: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            limits: Limits::default(),
            refuse: plain,
            open: Arc::default(),
            hosts: Arc::default(),
            types: &[],
            stack: 2 << 20,
        }
    }
}

/// A refusal as text.
fn plain(status: StatusCode, why: &'static str) -> Response {
    (status, format!("{why}\n")).into_response()
}
