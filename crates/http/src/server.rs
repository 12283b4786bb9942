//! Connections: accepted up to the limit, served by hyper, ended together.

use crate::handler::Peer;
use crate::receive::whole;
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
}

impl Hall {
    async fn accept(self, listener: tokio::net::TcpListener) {
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(SHORT).await;
                continue;
            };
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(place) => self.serve(stream, peer, place),
                // A client that does not take the answer notices the end of the connection.
                Err(_) => _ = stream.into_std().and_then(|mut stream| stream.write_all(BUSY)),
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, place: OwnedSemaphorePermit) {
        let open = Open::new(&self.settings.open);
        let (router, limits, refuse) = (self.router.clone(), self.settings.limits, self.settings.refuse);
        let service = service_fn(move |request| answer(router.clone(), limits, refuse, peer, request));
        let Limits { head, headers, pause, .. } = limits;
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
        tokio::spawn(async move {
            // The place is free before the connection is no longer counted.
            let _taken = (place, open);
            // An error is the client's: it went away, or does not speak HTTP and was answered so.
            _ = connection.await;
        });
    }
}

async fn answer(
    mut router: Router,
    limits: Limits,
    refuse: fn(axum::http::StatusCode, &'static str) -> Response,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    match whole(request, &limits).await {
        Ok(mut request) => {
            request.extensions_mut().insert(Peer(peer));
            router.call(request).await
        }
        Err((status, why)) => {
            let mut response = refuse(status, why);
            // Where the next request begins is unknown.
            let close = axum::http::HeaderValue::from_static("close");
            response.headers_mut().insert(axum::http::header::CONNECTION, close);
            Ok(response)
        }
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
