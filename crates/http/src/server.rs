//! Connections: accepted up to the limit, served by hyper, ended together.

use crate::admit::Admission;
use crate::handler::Peer;
use crate::receive::{Held, whole};
use crate::waiting::{Left, Waiting, Waits};
use crate::{Limits, Settings};
use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tower_service::Service;

/// The smallest buffer that hyper takes.
const LEAST_HEAD: usize = 8 << 10;
/// How long to wait when no connection can be accepted: descriptors are short, most likely.
const SHORT: Duration = Duration::from_millis(10);
/// The answer to one connection too many.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 21\r\n\
    Connection: close\r\n\r\ntoo many connections\n";

/// A server. Dropping it stops it.
pub struct Server {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves a router, on threads of its own.
    ///
    /// # Errors
    /// If the system has no thread or no event queue for it.
    pub fn start(listener: TcpListener, router: Router, settings: Settings) -> io::Result<Server> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(settings.limits.connections.max(1))
            .thread_stack_size(settings.stack)
            .thread_name("http handler")
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let open = settings.open.clone();
        let thread = thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || run(runtime, listener, router, settings, stopped))?;
        Ok(Server { address, open, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Stops listening and ends connections: idle ones at once, the others after their answer or after
    /// [`Limits::farewell`]. A handler that still runs then runs on, and its answer is dropped.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Nothing is left to be done about a server that panicked.
            _ = thread.join();
        }
    }
}

fn run(
    runtime: Runtime,
    listener: tokio::net::TcpListener,
    router: Router,
    settings: Settings,
    stopped: oneshot::Receiver<()>,
) {
    let farewell = settings.limits.farewell;
    runtime.block_on(async move {
        let graceful = Arc::new(GracefulShutdown::new());
        let hall = Hall {
            router,
            graceful: graceful.clone(),
            places: Arc::new(Semaphore::new(settings.limits.connections)),
            waiting: Arc::default(),
            held: Arc::default(),
            settings,
        };
        let accepting = tokio::spawn(hall.accept(listener));
        // Ends when the sender is dropped.
        _ = stopped.await;
        accepting.abort();
        // Then nothing else owns it, and the listener is closed.
        _ = accepting.await;
        if let Some(graceful) = Arc::into_inner(graceful) {
            _ = tokio::time::timeout(farewell, graceful.shutdown()).await;
        }
    });
    // Does not wait for handlers.
    runtime.shutdown_background();
}

/// What connections share.
struct Hall {
    router: Router,
    settings: Settings,
    graceful: Arc<GracefulShutdown>,
    places: Arc<Semaphore>,
    waiting: Arc<Waiting>,
    /// Bytes of bodies.
    held: Arc<AtomicUsize>,
}

impl Hall {
    async fn accept(self, listener: tokio::net::TcpListener) {
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(SHORT).await;
                continue;
            };
            match self.place().await {
                Some(place) => self.serve(stream, peer, place),
                // A client that does not take the answer notices the end of the connection.
                None => _ = stream.into_std().and_then(|mut stream| stream.write_all(BUSY)),
            }
        }
    }

    /// A free place, if need be that of the connection that has kept the server waiting longest.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Some(place);
        }
        if !self.waiting.end_longest(self.settings.limits.grace) {
            return None;
        }
        // The place is free as soon as the connection's task has seen that it is to end.
        tokio::time::timeout(SHORT * 10, self.places.clone().acquire_owned()).await.ok()?.ok()
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, place: OwnedSemaphorePermit) {
        let open = Open::new(&self.settings.open);
        let waits = self.waiting.add();
        let local = stream.local_addr().ok().map(|address| address.ip().to_canonical());
        let desk = Arc::new(Desk {
            limits: self.settings.limits,
            refuse: self.settings.refuse,
            admission: Admission { local, hosts: self.settings.hosts.clone(), types: self.settings.types },
            peer,
            waits: waits.clone(),
            held: self.held.clone(),
        });
        let router = self.router.clone();
        let service = service_fn(move |request| Desk::answer(desk.clone(), router.clone(), request));
        let Limits { head, headers, pause, .. } = self.settings.limits;
        // Latency is only worse without it.
        _ = stream.set_nodelay(true);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(pause)
            .max_buf_size(head.max(LEAST_HEAD))
            .max_headers(headers)
            // A client may end its side after the request, and wait for the answer.
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        let connection = self.graceful.watch(connection);
        let number = waits.number;
        let task = tokio::spawn(async move {
            // The place is free before the connection is no longer counted.
            let _taken = (place, open, Left(waits));
            // An error is the client's: it went away, or does not speak HTTP and was answered so.
            _ = connection.await;
        });
        self.waiting.note(number, task.abort_handle());
    }
}

/// What the requests of a connection share.
struct Desk {
    limits: Limits,
    refuse: fn(axum::http::StatusCode, &'static str) -> Response,
    admission: Admission,
    peer: SocketAddr,
    waits: Arc<Waits>,
    held: Arc<AtomicUsize>,
}

impl Desk {
    async fn answer(
        self: Arc<Self>,
        mut router: Router,
        request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let refused = self.admission.refuses(&request);
        let mut held = Held::new(&self.held);
        let answer = match whole(request, &self.limits, refused, &mut held).await {
            Ok(mut request) => {
                self.waits.set(false);
                request.extensions_mut().insert(Peer(self.peer));
                router.call(request).await
            }
            Err((status, why)) => {
                let mut response = (self.refuse)(status, why);
                // Where the next request begins is unknown.
                let close = axum::http::HeaderValue::from_static("close");
                response.headers_mut().insert(axum::http::header::CONNECTION, close);
                Ok(response)
            }
        };
        self.waits.set(true);
        answer
    }
}

/// A connection that is counted until this is dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Open {
        count.fetch_add(1, Ordering::SeqCst);
        Open(count.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
