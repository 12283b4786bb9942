//! A proxy between clients of PostgreSQL and their server, for programs that watch statements or run their
//! own between them.
//!
//! Clients and server are unmodified and see only each other: authentication, COPY, notifications, errors,
//! pipelines and cancellation pass, and every answer has the bytes that the server sent. A [`Service`] makes
//! an [`Observer`] for each session. It sees requests before the server does and answers before the client
//! does; it may replace or refuse a request, and run statements in the same session, whose answers the
//! client does not see ([`Run`]). Without a further round trip it may have a query run before a request, and
//! add a column to the rows of a statement, which only the observer sees ([`Verdict`]).
//!
//! A session has two threads with blocking sockets, one for each direction: observers block (they run
//! statements, or wait for other sessions), and a thread per direction needs no rule about which side is
//! read first. A row, or a part of a COPY, is copied through a buffer of 64 kB, whatever its size, unless
//! an observer asks for rows. Connections are not encrypted: a wish for TLS is answered with no, as by a
//! server without it, and the server is asked in plain text.
//!
//! ```no_run
//! use anomalist_proxy::{Limits, PassThrough, Proxy};
//! use std::net::TcpListener;
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let proxy = Proxy::start(listener, "127.0.0.1:5432", Box::new(PassThrough), Limits::default())?;
//! println!("postgres://postgres@{}/postgres", proxy.address());
//! proxy.stop();
//! # Ok::<(), std::io::Error>(())
//! ```

mod downward;
mod flow;
pub mod message;
mod observe;
mod proxy;
mod session;
mod upward;

pub use flow::Status;
pub use message::ServerError;
pub use observe::{
    Answer, EXTRA, Interest, Observer, Outcome, PassThrough, Request, Rows, Run, RunError, Service, Verdict,
};
pub use proxy::{Limits, Proxy};
